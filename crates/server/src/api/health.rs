//! Whether the process lives, whether it can work, and what it counts.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::json;
use wakepost_domain::access::Right;

use super::call::Call;
use super::error::ApiError;
use super::once;
use crate::context::Context;

/// The process answers.
pub async fn alive() -> Response {
    once::json(StatusCode::OK, &json!({"status": "ok"}))
}

/// The store answers and can be written. Migrations ran before the listener opened.
pub async fn ready(State(context): State<Arc<Context>>) -> Response {
    let ping = tokio::time::timeout(Duration::from_secs(2), context.store.ping()).await;
    match ping {
        Ok(Ok(())) if !context.stop.is_cancelled() => {
            once::json(StatusCode::OK, &json!({"status": "ready"}))
        }
        Ok(Ok(())) => once::json(
            StatusCode::SERVICE_UNAVAILABLE,
            &json!({"status": "stopping"}),
        ),
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            once::json(
                StatusCode::SERVICE_UNAVAILABLE,
                &json!({"status": "store_unavailable"}),
            )
        }
        Err(_) => once::json(
            StatusCode::SERVICE_UNAVAILABLE,
            &json!({"status": "store_slow"}),
        ),
    }
}

/// Counters, for Prometheus.
pub async fn metrics(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let text = call.context.metrics.text();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, kind)], text).into_response())
}
