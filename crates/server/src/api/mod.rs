//! The HTTP API: one file per resource, all routes in one list.
//!
//! A handler checks the caller's rights first, then finds things, then reads the request, so that refusals
//! come in one order everywhere: 401, 403, 404, 405, 409, 422.

mod auth;
mod call;
mod dead_letters;
mod effects;
mod error;
mod health;
mod inbox;
mod jobs;
mod keys;
mod lease;
mod once;
mod page;
mod providers;
mod sources;
mod tenants;
mod upkeep;
mod work;

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, patch, post, put};

use crate::context::Context;

pub use auth::{hash_key, new_key};
pub use error::ApiError;

/// All routes of the API.
pub fn router(context: Arc<Context>) -> Router {
    let api = Router::new()
        .route("/tenants", get(tenants::list).post(tenants::create))
        .route("/tenants/{slug}", get(tenants::show).patch(tenants::update))
        .route("/keys", get(keys::list).post(keys::create))
        .route("/keys/{id}", delete(keys::revoke))
        .route("/audit", get(tenants::audit))
        .route("/providers", get(providers::list))
        .route("/sources", get(sources::list).post(sources::create))
        .route(
            "/sources/{id}",
            patch(sources::update)
                .get(sources::show)
                .delete(sources::remove),
        )
        .route("/sources/{id}/rotate", post(sources::rotate))
        .route("/sources/{id}/enable", post(sources::enable))
        .route("/sources/{id}/disable", post(sources::disable))
        .route("/sources/{id}/receipts", get(sources::receipts))
        .route("/inbox", get(inbox::list))
        .route("/inbox/{id}", get(inbox::show))
        .route("/inbox/{id}/raw", get(inbox::raw))
        .route("/inbox/{id}/headers", get(inbox::headers))
        .route("/inbox/{id}/replay", post(inbox::replay))
        .route("/jobs", get(jobs::list).post(jobs::create))
        .route("/jobs/lease", post(lease::lease))
        .route("/jobs/heartbeat", post(lease::heartbeat_many))
        .route("/jobs/finish", post(lease::finish_many))
        .route("/jobs/{id}", get(jobs::show))
        .route("/jobs/{id}/heartbeat", post(lease::heartbeat))
        .route("/jobs/{id}/checkpoint", put(lease::checkpoint))
        .route("/jobs/{id}/progress", post(lease::progress))
        .route("/jobs/{id}/complete", post(lease::complete))
        .route("/jobs/{id}/fail", post(lease::fail))
        .route("/jobs/{id}/effects", post(effects::begin))
        .route("/jobs/{id}/effects/{key}/commit", post(effects::commit))
        .route("/jobs/{id}/effects/{key}/abort", post(effects::abort))
        .route("/jobs/{id}/effects/{key}/resolve", post(effects::resolve))
        .route("/jobs/{id}/cancel", post(jobs::cancel))
        .route("/jobs/{id}/release", post(jobs::release))
        .route("/jobs/{id}/replay", post(jobs::replay))
        .route("/dead-letters", get(dead_letters::list))
        .route("/dead-letters/{id}", get(dead_letters::show))
        .route("/dead-letters/{id}/replay", post(dead_letters::replay))
        .route("/admin/sweep", post(upkeep::sweep));
    Router::new()
        .nest("/api/v1", api)
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .fallback(error::no_such_route)
        .method_not_allowed_fallback(error::no_such_method)
        .with_state(context)
}
