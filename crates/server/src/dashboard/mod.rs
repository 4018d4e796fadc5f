//! The dashboard: pages for operators at `/`, and for subscribers behind their portal links.
//!
//! It is one more client of the API. Every page asks the API's own routes, in this process and in the name of whoever
//! signed in, so that roles, tenants, audit and refusals are the API's; it reads no table and makes no move by itself.
//! Pages are rendered here and work without script; a small script makes them live.

mod act;
mod answer;
mod approvals;
mod assets;
mod audit;
mod dead_letters;
mod delivery;
mod desk;
mod event;
mod event_types;
mod frame;
mod icon;
mod inbox;
mod job;
mod jobs;
mod keys;
mod live;
mod nowhere;
mod operation;
mod overview;
mod payload;
mod pieces;
mod places;
mod plot;
mod portal;
mod published;
mod search;
mod session;
mod shapes;
mod source_form;
mod sources;
mod tenants;
mod timeline;
mod waiting;
mod webhook_form;
mod webhooks;
pub mod words;

use std::sync::Arc;

use axum::routing::{get, post};
use axum::{Router, middleware};

use crate::api;
use crate::context::Context;

/// What the pages need: the server, and its API to ask.
pub struct Dashboard {
    context: Arc<Context>,
    api: Router,
}

/// All pages. `api` is asked in process.
pub fn router(context: Arc<Context>, api: Router) -> Router {
    Router::new()
        .route("/", get(overview::page))
        .route("/sign-in", get(session::page).post(session::sign_in))
        .route("/sign-out", post(session::sign_out))
        .route("/assets/{name}", get(assets::show))
        .route("/search", get(search::find))
        .route("/live/inbox", get(live::inbox))
        .route("/live/jobs/{id}", get(live::job))
        .route("/inbox", get(inbox::list))
        .route("/inbox/{id}", get(event::page))
        .route("/inbox/{id}/raw", get(event::raw))
        .route("/inbox/{id}/replay", post(event::replay))
        .route("/jobs", get(jobs::list))
        .route("/jobs/{id}", get(job::page))
        .route("/jobs/{id}/{act}", post(job::act))
        .route("/jobs/{id}/effects/{key}/resolve", post(job::resolve))
        .route("/operations/{id}", get(operation::page))
        .route("/approvals", get(approvals::list))
        .route("/dead-letters", get(dead_letters::list).post(dead_letters::act))
        .route("/dead-letters/export", get(dead_letters::export))
        .route("/sources", get(sources::list).post(source_form::create))
        .route("/sources/new", get(source_form::new))
        .route("/sources/{id}", get(sources::page))
        .route("/sources/{id}/edit", get(source_form::edit))
        .route("/sources/{id}/{act}", post(sources::act))
        .route("/events", get(published::list).post(published::publish))
        .route("/events/{id}", get(published::page))
        .route("/event-types", post(event_types::create))
        .route("/event-types/{name}/delete", post(event_types::remove))
        .route("/tenants", get(tenants::list).post(tenants::create))
        .route("/tenants/{slug}", post(tenants::update))
        .route("/keys", get(keys::list).post(keys::create))
        .route("/keys/{id}/revoke", post(keys::revoke))
        .route("/audit", get(audit::list))
        .merge(portal::pages())
        .merge(portal::routes())
        .method_not_allowed_fallback(nowhere::method)
        .layer(middleware::from_fn_with_state(context.clone(), api::around_page))
        .with_state(Arc::new(Dashboard { context, api }))
}

/// Where no route leads.
pub fn nowhere(context: Arc<Context>, api: Router) -> Router {
    Router::new()
        .fallback(nowhere::page)
        .layer(middleware::from_fn_with_state(context.clone(), api::around_page))
        .with_state(Arc::new(Dashboard { context, api }))
}
