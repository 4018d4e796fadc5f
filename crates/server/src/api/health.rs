//! Whether the process lives, whether it can work, and what it counts.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;
use wakepost_domain::access::Right;

use super::call::Call;
use super::describe::Keyed;
use super::error::ApiError;
use super::once;
use crate::context::Context;

/// How the process does.
#[derive(Serialize, ToSchema)]
struct Health {
    /// `ok`, `ready`, or what is wrong: `stopping`, `store_unavailable`, `store_slow`.
    status: &'static str,
}

fn health(code: StatusCode, status: &'static str) -> Response {
    once::json(code, &Health { status })
}

/// Whether the process lives.
#[utoipa::path(
    get, path = "/healthz", operation_id = "alive", tag = "operations", security(()),
    responses((status = 200, description = "It does.", body = Health))
)]
pub async fn alive() -> Response {
    health(StatusCode::OK, "ok")
}

/// Whether the store answers and can be written.
// Migrations ran before the listener opened.
#[utoipa::path(
    get, path = "/readyz", operation_id = "ready", tag = "operations", security(()),
    responses(
        (status = 200, description = "It can work.", body = Health),
        (status = 503, description = "Not now.", body = Health),
    )
)]
pub async fn ready(State(context): State<Arc<Context>>) -> Response {
    let ping = tokio::time::timeout(Duration::from_secs(2), context.store.ping()).await;
    match ping {
        Ok(Ok(())) if !context.stop.is_cancelled() => health(StatusCode::OK, "ready"),
        Ok(Ok(())) => health(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            health(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable")
        }
        Err(_) => health(StatusCode::SERVICE_UNAVAILABLE, "store_slow"),
    }
}

/// The media type of the counters.
pub const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counters, for Prometheus. They count over all tenants, so a tenant's own key does not see them.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "operations",
    responses(
        (status = 200, description = "OpenMetrics text.", body = String,
         content_type = "application/openmetrics-text"),
        Keyed,
    )
)]
pub async fn metrics(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    call.need_all_tenants()?;
    call.no_query()?;
    let text = call.context.metrics.text();
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response())
}
