//! What goes wrong, as HTTP: RFC 9457 problems with stable codes. The only room that turns errors into
//! statuses.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};
use wakepost_domain::limits::truncate;
use wakepost_store::StoreError;

use super::auth::Caller;
use super::describe::PROBLEM;
use super::requests::REQUEST_ID;
use crate::context::Context;

/// A refusal.
#[derive(Debug, Clone)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    detail: String,
    fields: Vec<(String, String)>,
    retry_after_s: Option<u64>,
}

impl ApiError {
    /// A refusal with a code and a sentence.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> ApiError {
        ApiError { status, code, detail: detail.into(), fields: Vec::new(), retry_after_s: None }
    }

    /// No key, or not a live one.
    pub fn unauthorized() -> ApiError {
        ApiError::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "send a live API key as `Authorization: Bearer …`",
        )
    }

    /// The key's role does not allow it.
    pub fn forbidden() -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", "this key's role does not allow that")
    }

    /// There is no such thing, or it is another tenant's.
    pub fn not_found() -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", "there is no such thing")
    }

    /// A field cannot be used as it is.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> ApiError {
        ApiError::fields(vec![(field.into(), message.into())])
    }

    /// Fields cannot be used as they are.
    pub fn fields(fields: Vec<(String, String)>) -> ApiError {
        let detail = fields
            .iter()
            .map(|(field, message)| format!("{field}: {message}"))
            .collect::<Vec<_>>()
            .join("; ");
        ApiError {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            code: "invalid_request",
            detail: truncate(&detail, 1000).to_owned(),
            fields,
            retry_after_s: None,
        }
    }

    /// Too much in too short a time.
    pub fn rate_limited(detail: &str, wait: Duration) -> ApiError {
        let seconds = wait.as_secs_f64().ceil().max(1.0) as u64;
        let refusal = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail);
        ApiError { retry_after_s: Some(seconds), ..refusal }
    }

    /// The move is not possible now.
    pub fn invalid_state(detail: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, "invalid_state", detail)
    }

    /// The status it is answered with.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Its stable word.
    pub fn code(&self) -> &'static str {
        self.code
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        let text = error.to_string();
        match error {
            StoreError::Busy => ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "busy",
                "too much is under way: try again",
            ),
            StoreError::Unavailable(_) => {
                tracing::warn!(error = %text, "the store is unavailable");
                ApiError::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "store_unavailable",
                    "the store cannot answer now: try again",
                )
            }
            StoreError::Corrupt(_) => {
                tracing::error!(error = %text, "the stored data is damaged");
                ApiError::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "internal",
                    "the stored data cannot be read; the log says more",
                )
            }
            StoreError::LeaseLost => ApiError::new(
                StatusCode::CONFLICT,
                "lease_lost",
                "the lease is not live any more: stop working on this job",
            ),
            StoreError::CancelRequested => {
                ApiError::new(StatusCode::CONFLICT, "cancel_requested", "the job is asked to stop")
            }
            StoreError::ProposalChanged => ApiError::new(
                StatusCode::CONFLICT,
                "proposal_changed",
                "what is proposed now is not that: look at it again",
            ),
            StoreError::InvalidState(_) => ApiError::invalid_state(text),
            StoreError::Mismatch(_) => {
                ApiError::new(StatusCode::CONFLICT, "idempotency_mismatch", text)
            }
            StoreError::NotFound => ApiError::not_found(),
            StoreError::Exists(_) => ApiError::new(StatusCode::CONFLICT, "already_exists", text),
            StoreError::Limit(_) => ApiError::new(StatusCode::CONFLICT, "limit_reached", text),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut problem = Map::new();
        problem.insert("type".into(), "about:blank".into());
        problem.insert("title".into(), self.status.canonical_reason().unwrap_or("Error").into());
        problem.insert("status".into(), self.status.as_u16().into());
        problem.insert("detail".into(), self.detail.into());
        problem.insert("code".into(), self.code.into());
        if let Ok(id) = REQUEST_ID.try_with(|id| id.clone()) {
            problem.insert("request_id".into(), id.into());
        }
        if !self.fields.is_empty() {
            let errors = self
                .fields
                .iter()
                .map(|(field, message)| json!({"field": field, "message": message}));
            problem.insert("errors".into(), errors.collect());
        }
        let mut response = Response::new(Body::from(Value::Object(problem).to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Without a key nobody learns which routes there are.
async fn with_key(context: &Context, request: Request) -> Result<(), ApiError> {
    let (parts, _) = request.into_parts();
    let path = parts.uri.path();
    if path.starts_with("/api/") || path == "/metrics" {
        Caller::of(context, &parts).await?;
    }
    Ok(())
}

/// No route has this path.
pub async fn no_such_route(State(context): State<Arc<Context>>, request: Request) -> ApiError {
    match with_key(&context, request).await {
        Ok(()) => ApiError::not_found(),
        Err(refusal) => refusal,
    }
}

/// The path has a route, but not with this method.
pub async fn no_such_method(State(context): State<Arc<Context>>, request: Request) -> ApiError {
    match with_key(&context, request).await {
        Ok(()) => ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "this path has no such method",
        ),
        Err(refusal) => refusal,
    }
}
