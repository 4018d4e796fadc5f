//! Around every call of the API: what it is called in the log, how it is counted.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue};
use tracing::{Instrument, Span};

use crate::context::Context;
use crate::telemetry::metrics::{Answer, Route};

/// Where a call says what it is called, and its answer repeats it.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that is taken over from a caller.
const ID_CHARS_MAX: usize = 128;

tokio::task_local! {
    /// What the call under way is called.
    pub static REQUEST_ID: String;
}

/// What the call under way is called, if one is.
pub fn under_way() -> Option<String> {
    REQUEST_ID.try_with(String::clone).ok()
}

/// Gives the call its id, which every line of the log about it carries, and counts its answer.
pub async fn around(State(context): State<Arc<Context>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let route = route(request.extensions().get::<MatchedPath>()).to_owned();
    let method = request.method().clone();
    let (answer, span) = named(&context, request, next).await;
    let (status, took) = (answer.status().as_u16(), began.elapsed());
    context.metrics.api.get_or_create(&Answer { route: route.clone(), status }).inc();
    span.in_scope(|| {
        let ms = took.as_secs_f64() * 1000.0;
        tracing::debug!(%method, route, status, ms, "an API call was answered");
    });
    context.metrics.api_seconds.get_or_create(&Route { route }).observe(took.as_secs_f64());
    answer
}

/// Gives a page its id. The calls that it makes go by the same.
pub async fn around_page(
    State(context): State<Arc<Context>>,
    request: Request,
    next: Next,
) -> Response {
    named(&context, request, next).await.0
}

async fn named(context: &Context, request: Request, next: Next) -> (Response, Span) {
    let id = given(&request).unwrap_or_else(|| format!("req_{}", context.new_id()));
    let span = tracing::info_span!("request", request_id = id);
    let handled = REQUEST_ID.scope(id.clone(), next.run(request));
    let mut answer = handled.instrument(span.clone()).await;
    if let Ok(value) = HeaderValue::try_from(id) {
        answer.headers_mut().insert(HEADER, value);
    }
    (answer, span)
}

/// The caller's own id, if it is one that a log can bear.
fn given(request: &Request) -> Option<String> {
    let text = request.headers().get(HEADER)?.to_str().ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    let is_sane = (1..=ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_plain);
    is_sane.then(|| text.to_owned())
}

/// The part of the API: the first word of the path as it is registered, so that there are only so many.
fn route(path: Option<&MatchedPath>) -> &str {
    let path = path.map_or("", MatchedPath::as_str);
    let rest = path.strip_prefix("/api/v1").unwrap_or(path);
    match rest.split('/').find(|part| !part.is_empty()) {
        Some(part) => part,
        None => "none",
    }
}
