//! A path that leads nowhere: a page for a browser whose user signed in, for all others what the API says. And a path that
//! is not asked for like this: what a button does, opened as if it were a page, leads to the page with the button.

use std::sync::Arc;

use askama::Template;
use axum::extract::{FromRequestParts, Request, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use tower::ServiceExt;

use super::Dashboard;
use super::answer::go;
use super::desk::{self, Desk};
use super::frame::Frame;
use super::places::page_with;
use super::session::{self, Session};
use crate::api;
use crate::within::Refused;

#[derive(Template)]
#[template(path = "nowhere.html")]
struct Page {
    frame: Frame,
    request_id: String,
}

/// Answers what no route is for.
pub async fn page(State(dashboard): State<Arc<Dashboard>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    if !wants_page(&parts) || session::of(&dashboard.context, &parts).await.is_none() {
        if let Some(Ok(id)) = api::request_id().map(HeaderValue::try_from) {
            parts.headers.insert(api::REQUEST_ID_HEADER, id);
        }
        let request = Request::from_parts(parts, body);
        return match dashboard.api.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
    }
    match Desk::from_request_parts(&mut parts, &dashboard).await {
        Ok(desk) => shown(&desk).await.unwrap_or_else(IntoResponse::into_response),
        Err(refused) => refused,
    }
}

/// Answers a method that a path does not have.
pub async fn method(request: Request) -> Response {
    let page = page_with(request.uri());
    let page = session::own(&page);
    let is_other = page.split('?').next() != Some(request.uri().path());
    if matches!(*request.method(), Method::GET | Method::HEAD) && is_other {
        let visit =
            request.extensions().get::<Session>().and_then(|session| session.visit.as_ref());
        return go(&desk::to(page, None, visit));
    }
    let detail = "This page cannot be asked for in this way.";
    Refused::new(StatusCode::METHOD_NOT_ALLOWED, detail).into_response()
}

fn wants_page(parts: &Parts) -> bool {
    let accepted = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    parts.method == Method::GET
        && accepted.is_some_and(|kinds| kinds.contains("text/html"))
        && !parts.uri.path().starts_with("/api/")
}

async fn shown(desk: &Desk) -> Result<Response, Refused> {
    let frame = Frame::new(desk, "Nothing here", "").await?;
    let page = Page { frame, request_id: api::request_id().unwrap_or_default() };
    let mut answer = page.frame.answer(&page);
    *answer.status_mut() = StatusCode::NOT_FOUND;
    Ok(answer)
}
