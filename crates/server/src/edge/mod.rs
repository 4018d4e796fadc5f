//! The front door for providers: from a POST to a committed event, in a strict order.
//!
//! No model, no agent and no outbound request is ever reached from here. A refusal costs no parsing and no
//! write on the request's path.

mod accept;
mod answer;
mod body;
mod bonds;
mod describe;
mod faults;
mod handler;
pub mod peer;
mod platform;
pub mod rejections;
mod secret;

use std::sync::Arc;

use axum::Router;
use utoipa::openapi::OpenApi;
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use crate::context::Context;

pub(crate) use accept::{Passed, accept};
pub use body::BODY_TIMEOUT;
use describe::Refusal;
pub use faults::Faults;
pub use handler::admit;
use rejections::Forged;
pub use rejections::Rejections;

/// The routes that providers call.
pub fn router(context: Arc<Context>) -> Router {
    // People who come from agent-native have this prefix in their platforms' settings.
    let prefixed = Router::new().nest("/_agent-native", by_platform().into());
    Router::from(routes()).merge(prefixed).with_state(context)
}

/// How the routes describe themselves.
pub fn description() -> OpenApi {
    let mut api = routes().into_openapi();
    let components = api.components.get_or_insert_default();
    components.schemas.insert(Refusal::name().into_owned(), Refusal::schema());
    api
}

fn routes() -> OpenApiRouter<Arc<Context>> {
    let by_id = routes!(handler::receive, handler::challenge, handler::preflight);
    // Other methods too look for the source first, so that 404 comes before 405 and a receipt is left.
    let by_id = by_id.map(|router| router.fallback(handler::receive));
    OpenApiRouter::default().routes(by_id).merge(by_platform())
}

fn by_platform() -> OpenApiRouter<Arc<Context>> {
    let methods = routes!(platform::receive, platform::challenge, platform::preflight);
    OpenApiRouter::default().routes(methods.map(|router| router.fallback(platform::receive)))
}
