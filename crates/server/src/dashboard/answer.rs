//! Answers of the dashboard: pages, with the headers that keep them safe.

use askama::Template;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::frame::assets_version;
use crate::within::Refused;

/// Nothing but our own files, no inline script or style, no frames, forms only to ourselves.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                          manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A page.
pub fn html(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => (status, headers(), text).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("x-robots-tag", HeaderValue::from_static("noindex, nofollow"));
    headers
}

/// Leads to another page, which is read anew.
pub fn go(to: &str) -> Response {
    let location = HeaderValue::from_str(to).unwrap_or_else(|_| HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response()
}

/// Has the browser ask for the same page again, this time as coming from here.
pub fn again() -> Response {
    let text = "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0\">\
                <title>Wakepost</title>";
    (StatusCode::OK, headers(), text).into_response()
}

/// Where the page of a refusal leads, and what the button says that does.
pub struct WayOut<'a> {
    pub to: &'a str,
    pub label: &'static str,
}

#[derive(Template)]
#[template(path = "trouble.html")]
struct Shown<'a> {
    version: &'static str,
    title: &'a str,
    advice: &'a str,
    trouble: &'a Refused,
    way_out: Option<WayOut<'a>>,
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let way_out = WayOut { to: "/", label: "To the overview" };
        let mut answer = self.shown(Some(way_out));
        // For whoever knows better where those who see it came from.
        answer.extensions_mut().insert(self);
        answer
    }
}

impl Refused {
    /// The page that says so. Not everybody has somewhere else to go.
    pub fn shown(&self, way_out: Option<WayOut<'_>>) -> Response {
        let status = StatusCode::from_u16(self.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let (title, advice) = match self.status {
            403 => ("Not allowed", "Sign in with a key whose role allows it, or ask an admin."),
            404 => ("Nothing here", "It may be another tenant's, or retention has removed it."),
            405 => ("Not possible here", "Open the page again, and use what is on it."),
            409 => ("Not possible now", "Look at it again: it changed since this page was made."),
            422 | 400 => ("That cannot be used", "Go back, correct it and send it again."),
            429 => ("Too fast", "Wait a moment, then try again."),
            503 => ("Not ready", "The store cannot answer now. Try again in a moment."),
            _ => ("Something went wrong", "Try again. If it stays, look in the log."),
        };
        let version = assets_version();
        html(status, &Shown { version, title, advice, trouble: self, way_out })
    }
}
