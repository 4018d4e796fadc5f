//! The HTTP API: one file per resource, all routes in one list.
//!
//! A handler checks the caller's rights first, then finds things, then reads the request, so that refusals
//! come in one order everywhere: 401, 403, 404, 405, 409, 422. It carries its own description, of which
//! `openapi` makes the whole.

mod alerts;
mod approvals;
mod audit;
mod auth;
mod call;
mod cancelling;
mod dead_letters;
mod deliveries;
mod describe;
mod effects;
mod error;
mod event_links;
mod event_types;
mod events;
mod export;
mod finish;
mod fixtures;
mod health;
mod inbox;
mod integrations;
mod job_events;
mod jobs;
mod key_set;
mod keys;
mod lease;
mod many;
mod once;
mod openapi;
mod operations;
mod page;
mod portal;
mod process_task;
mod providers;
mod pulling;
mod replies;
mod requests;
mod schedules;
mod series;
mod shapes;
mod sources;
mod stats;
mod stream;
mod taking;
mod tenants;
mod ticket;
mod upkeep;
mod webhooks;
mod work;

use std::sync::Arc;

use axum::{Router, middleware};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::context::Context;

pub use auth::{Caller, hash_key, new_key};
pub use call::read as read_body;
pub use describe::Keyed;
pub use error::ApiError;
pub use health::METRICS_TYPE;
pub use key_set::Kept as KeptKeySet;
pub use page::PageQuery;
pub use requests::{HEADER as REQUEST_ID_HEADER, around_page, under_way as request_id};
pub use stats::Kept as KeptStats;

/// The description of the whole API, as JSON.
pub fn description() -> serde_json::Value {
    serde_json::to_value(openapi::document()).expect("a description is plain data")
}

/// All routes of the API.
pub fn router(context: Arc<Context>) -> Router {
    Router::from(routes())
        .nest("/_agent-native", by_platform().into())
        .fallback(error::no_such_route)
        .method_not_allowed_fallback(error::no_such_method)
        .layer(middleware::from_fn_with_state(context.clone(), requests::around))
        .with_state(context)
}

/// The routes of single-tenant use, also behind the prefix of those who come from agent-native.
fn by_platform() -> OpenApiRouter<Arc<Context>> {
    OpenApiRouter::default()
        .routes(routes!(integrations::list))
        .routes(routes!(integrations::status))
        .routes(routes!(integrations::enable))
        .routes(routes!(integrations::disable))
        .routes(routes!(integrations::set_up))
        .routes(routes!(process_task::process))
}

/// The one list: each handler carries its method, its path and its description.
fn routes() -> OpenApiRouter<Arc<Context>> {
    let api = OpenApiRouter::default()
        .routes(routes!(tenants::list, tenants::create))
        .routes(routes!(tenants::show, tenants::update))
        .routes(routes!(audit::list))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(providers::list))
        .routes(routes!(sources::list, sources::create))
        .routes(routes!(sources::show, sources::update, sources::remove))
        .routes(routes!(sources::rotate))
        .routes(routes!(sources::enable))
        .routes(routes!(sources::disable))
        .routes(routes!(sources::receipts))
        .routes(routes!(sources::setup::status))
        .routes(routes!(sources::setup::set_up))
        .routes(routes!(sources::testing::test))
        .routes(routes!(inbox::list))
        .routes(routes!(inbox::replay_many))
        .routes(routes!(stream::stream))
        .routes(routes!(operations::show))
        .routes(routes!(inbox::show))
        .routes(routes!(inbox::raw))
        .routes(routes!(inbox::headers))
        .routes(routes!(inbox::replay))
        .routes(routes!(fixtures::create))
        .routes(routes!(fixtures::list))
        .routes(routes!(fixtures::remove))
        .routes(routes!(fixtures::send))
        .routes(routes!(jobs::list, jobs::create))
        .routes(routes!(lease::lease))
        .routes(routes!(lease::heartbeat_many))
        .routes(routes!(finish::finish_many))
        .routes(routes!(cancelling::cancel_subject))
        .routes(routes!(jobs::show))
        .routes(routes!(job_events::stream))
        .routes(routes!(lease::heartbeat))
        .routes(routes!(lease::checkpoint))
        .routes(routes!(lease::progress))
        .routes(routes!(replies::reply))
        .routes(routes!(finish::complete))
        .routes(routes!(finish::fail))
        .routes(routes!(effects::begin))
        .routes(routes!(effects::commit))
        .routes(routes!(effects::abort))
        .routes(routes!(effects::resolve))
        .routes(routes!(approvals::approve))
        .routes(routes!(approvals::reject))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::release))
        .routes(routes!(jobs::replay))
        .routes(routes!(schedules::list, schedules::create))
        .routes(routes!(schedules::show, schedules::update, schedules::remove))
        .routes(routes!(event_types::list, event_types::create))
        .routes(routes!(event_types::show, event_types::put, event_types::remove))
        .routes(routes!(portal::create_link))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::replay_many))
        .routes(routes!(dead_letters::export))
        .routes(routes!(dead_letters::purge))
        .routes(routes!(dead_letters::show))
        .routes(routes!(dead_letters::replay))
        .routes(routes!(webhooks::list, webhooks::create))
        .routes(routes!(webhooks::show, webhooks::update, webhooks::remove))
        .routes(routes!(webhooks::moves::test))
        .routes(routes!(webhooks::moves::rotate))
        .routes(routes!(webhooks::moves::revoke_previous))
        .routes(routes!(webhooks::moves::pause))
        .routes(routes!(webhooks::moves::resume))
        .routes(routes!(webhooks::moves::enable))
        .routes(routes!(webhooks::moves::disable))
        .routes(routes!(webhooks::moves::recover))
        .routes(routes!(webhooks::moves::backfill))
        .routes(routes!(webhooks::moves::deliveries))
        .routes(routes!(webhooks::moves::stats))
        .routes(routes!(pulling::lease))
        .routes(routes!(events::list, events::publish))
        .routes(routes!(events::show))
        .routes(routes!(events::deliveries))
        .routes(routes!(deliveries::show))
        .routes(routes!(deliveries::replay))
        .routes(routes!(pulling::ack))
        .routes(routes!(pulling::nack))
        .routes(routes!(pulling::heartbeat))
        .routes(routes!(stats::show))
        .routes(routes!(series::show))
        .routes(routes!(alerts::list))
        .routes(routes!(upkeep::sweep));
    OpenApiRouter::default()
        .nest("/api/v1", api)
        .merge(by_platform())
        .routes(routes!(event_links::show))
        .routes(routes!(key_set::show))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
        .routes(routes!(openapi::show))
}
