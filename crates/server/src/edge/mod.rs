//! The front door for providers: from a POST to a committed event, in a strict order.
//!
//! No model, no agent and no outbound request is ever reached from here. A refusal costs no parsing and no
//! write on the request's path.

mod accept;
mod answer;
mod body;
mod describe;
mod faults;
mod handler;
mod peer;
mod rate;
pub mod rejections;
mod secret;

use std::sync::Arc;

use axum::Router;
use utoipa::openapi::OpenApi;
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use crate::context::Context;

pub use body::BODY_TIMEOUT;
use describe::Refusal;
use faults::Faults;
pub use rate::Rate;
pub use rejections::Rejections;

/// What the handler needs.
#[derive(Clone)]
pub(crate) struct Door {
    context: Arc<Context>,
    rejections: Rejections,
    faults: Arc<Faults>,
}

/// The routes that providers call.
pub fn router(context: Arc<Context>, rejections: Rejections) -> Router {
    Router::from(routes()).with_state(Door { context, rejections, faults: Arc::default() })
}

/// How the routes describe themselves.
pub fn description() -> OpenApi {
    let mut api = routes().into_openapi();
    let components = api.components.get_or_insert_default();
    components.schemas.insert(Refusal::name().into_owned(), Refusal::schema());
    api
}

fn routes() -> OpenApiRouter<Door> {
    let methods = routes!(handler::receive, handler::challenge, handler::preflight);
    // Other methods too look for the source first, so that 404 comes before 405 and a receipt is left.
    let methods = methods.map(|router| router.fallback(handler::receive));
    OpenApiRouter::default().routes(methods)
}
