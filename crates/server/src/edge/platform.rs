//! The same door by the platform's name, for single-tenant use: the default tenant's one source of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{ConnectInfo, Path, State};
use axum::response::Response;
use http::{Request, StatusCode};
use wakepost_providers::registry;

use super::describe::{Ambiguous, BodyRefused, NoHandshake, Received, Refusals};
use super::{admit, answer};
use crate::context::Context;

/// Receives one request of a provider, by the platform's name.
///
/// For the default tenant's one source of that platform; `email` means the one that receives mail. An accepted
/// request is answered 200.
#[utoipa::path(
    post, path = "/integrations/{platform}/webhook", operation_id = "receive_by_platform",
    tag = "ingress", security(()),
    params(("platform" = String, Path)),
    request_body(content = serde_json::Value, content_type = "*/*",
        description = "Whatever the provider sends: kept byte for byte, and read as that provider says."),
    responses(
        (status = 200, description = "Stored, or there already; or what the provider prescribes.",
         body = Received),
        Ambiguous, Refusals, BodyRefused,
    )
)]
pub async fn receive(
    State(context): State<Arc<Context>>,
    Path(platform): Path<String>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Response {
    let arrived = Instant::now();
    // A name that no provider has is not worth a look into the database, nor a place in the cache.
    let known = platform == "email" || registry::find(&platform).is_some();
    let found = match known {
        true => context.directory.platform(&platform).await,
        false => return answer::refusal(StatusCode::NOT_FOUND),
    };
    let only = match found.as_deref() {
        Ok([only]) => context.directory.source(*only).await,
        Ok([]) => return answer::refusal(StatusCode::NOT_FOUND),
        Ok([..]) => return answer::refusal(StatusCode::CONFLICT),
        Err(error) => return answer::lookup_failed(error),
    };
    let mut response = match only {
        Ok(Some(live)) => admit(&context, &live, peer.ip(), request, arrived).await,
        Ok(None) => return answer::refusal(StatusCode::NOT_FOUND),
        Err(error) => return answer::lookup_failed(&error),
    };
    if response.status() == StatusCode::ACCEPTED {
        *response.status_mut() = StatusCode::OK;
    }
    response
}

/// Answers a provider that asks whether it may send, by the platform's name.
#[utoipa::path(
    options, path = "/integrations/{platform}/webhook", operation_id = "answer_platform_preflight",
    tag = "ingress", security(()), params(("platform" = String, Path)),
    responses((status = 200, description = "What the provider prescribes."), Ambiguous, Refusals, NoHandshake)
)]
pub async fn preflight(
    context: State<Arc<Context>>,
    platform: Path<String>,
    peer: ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Response {
    receive(context, platform, peer, request).await
}

/// Answers a provider's handshake, by the platform's name.
#[utoipa::path(
    get, path = "/integrations/{platform}/webhook", operation_id = "answer_platform_challenge",
    tag = "ingress", security(()),
    params(("platform" = String, Path)),
    responses((status = 200, description = "What the provider prescribes.", body = String,
         content_type = "text/plain"), Ambiguous, Refusals, NoHandshake)
)]
pub async fn challenge(
    context: State<Arc<Context>>,
    platform: Path<String>,
    peer: ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Response {
    receive(context, platform, peer, request).await
}
