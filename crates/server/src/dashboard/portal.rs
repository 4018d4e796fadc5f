//! The subscriber's portal: the pages about webhooks, behind a signed link instead of a session.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{any, get, post};
use http::{StatusCode, Uri};
use tower::ServiceExt;

use super::answer::WayOut;
use super::session::{Session, Visit};
use super::{Dashboard, delivery, event_types, nowhere, webhook_form, webhooks};
use crate::api::Caller;
use crate::within::Refused;

/// Where portal links lead.
pub fn routes() -> Router<Arc<Dashboard>> {
    Router::new().route("/p/{token}", any(enter_at_once)).route("/p/{token}/{*rest}", any(enter))
}

/// The pages that a subscriber has, and operators too.
pub fn pages() -> Router<Arc<Dashboard>> {
    Router::new()
        .route("/webhooks", get(webhooks::list).post(webhook_form::create))
        .route("/webhooks/new", get(webhook_form::new))
        .route("/webhooks/{id}", get(webhooks::page))
        .route("/webhooks/{id}/edit", get(webhook_form::edit))
        .route("/webhooks/{id}/{act}", post(webhooks::act))
        .route("/deliveries/{id}", get(delivery::page))
        .route("/deliveries/{id}/replay", post(delivery::replay))
        .route("/event-types", get(event_types::list))
        .route("/event-types/{name}", get(event_types::page))
}

async fn enter_at_once(
    State(dashboard): State<Arc<Dashboard>>,
    Path(token): Path<String>,
    request: Request,
) -> Response {
    visit(dashboard, token, request).await
}

async fn enter(
    State(dashboard): State<Arc<Dashboard>>,
    Path((token, _)): Path<(String, String)>,
    request: Request,
) -> Response {
    visit(dashboard, token, request).await
}

/// Opens a page in the name of the link, as if it stood at the root.
async fn visit(dashboard: Arc<Dashboard>, token: String, request: Request) -> Response {
    let Some(session) = visitor(&dashboard, &token).await else {
        let detail = "This link is not good, or not any more. Ask for a new one where you got it.";
        return Refused::new(StatusCode::NOT_FOUND, detail).shown(None);
    };
    let home = format!("/p/{token}");
    let Some(uri) = within(request.uri(), &home) else {
        return Refused::new(StatusCode::NOT_FOUND, "there is no such page").shown(None);
    };
    // Without what the routes on the way here made of the old address.
    let (parts, body) = request.into_parts();
    let mut request = Request::new(body);
    *request.method_mut() = parts.method;
    *request.uri_mut() = uri;
    *request.headers_mut() = parts.headers;
    request.extensions_mut().insert(session);
    let pages = pages()
        .route("/", get(webhooks::list))
        .method_not_allowed_fallback(nowhere::method)
        .fallback(|| async { Refused::new(StatusCode::NOT_FOUND, "there is no such page") });
    let mut answer = match pages.with_state(dashboard).oneshot(request).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    };
    match answer.extensions_mut().remove::<Refused>() {
        // The operators' pages are no way out for a visitor.
        Some(refused) => refused.shown(Some(WayOut { to: &home, label: "To the webhooks" })),
        None => answer,
    }
}

async fn visitor(dashboard: &Dashboard, token: &str) -> Option<Session> {
    let context = &dashboard.context;
    let (tenant, until) = context.tokens.read_portal(token, context.now())?;
    let tenant = context.directory.tenant(tenant).await.ok()??;
    let name = match tenant.settings.name.is_empty() {
        true => tenant.slug.clone(),
        false => tenant.settings.name.clone(),
    };
    Some(Session {
        caller: Caller::visitor(token, tenant.id),
        csrf: context.tokens.form(token),
        visit: Some(Visit { prefix: format!("/p/{token}"), tenant: name, until }),
    })
}

fn within(uri: &Uri, prefix: &str) -> Option<Uri> {
    let rest = uri.path_and_query()?.as_str().strip_prefix(prefix)?;
    match rest.starts_with('/') {
        true => rest.parse().ok(),
        false => format!("/{rest}").parse().ok(),
    }
}
