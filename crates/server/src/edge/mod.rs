//! The front door for providers: from a POST to a committed event, in a strict order.
//!
//! No model, no agent and no outbound request is ever reached from here. A refusal costs no parsing and no
//! write on the request's path.

mod accept;
mod answer;
mod body;
mod handler;
mod peer;
pub mod rejections;

use std::sync::Arc;

use axum::Router;
use axum::routing::any;

use crate::context::Context;

pub use body::BODY_TIMEOUT;
pub use rejections::Rejections;

/// What the handler needs.
#[derive(Clone)]
pub(crate) struct Door {
    context: Arc<Context>,
    rejections: Rejections,
}

/// The routes that providers call.
pub fn router(context: Arc<Context>, rejections: Rejections) -> Router {
    Router::new()
        .route("/in/{source_id}", any(handler::receive))
        .with_state(Door {
            context,
            rejections,
        })
}
