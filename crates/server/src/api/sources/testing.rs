//! Trying a source with a realistic request, signed as its provider would.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{StatusCode, Uri};
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use wakepost_domain::Timestamp;
use wakepost_domain::access::Right;
use wakepost_providers::{Sample, SignedRequest};

use super::super::call::{At, Call};
use super::super::describe::{Conflicting, Keyed, Missing, Tenant};
use super::super::error::ApiError;
use super::super::once;
use super::find;
use crate::context::Context;
use crate::directory::LiveSource;
use crate::registering::webhook_url;
use crate::{edge, schema};

/// Which request to try.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Trial {
    /// What happened, by one of the provider's samples; the first of them unless it is named.
    event_type: Option<String>,
    /// What is wrong with it; nothing unless it is named.
    variant: Option<Variant>,
}

/// What is wrong with a request.
#[derive(Deserialize, ToSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Variant {
    /// Nothing.
    Good,
    /// It is signed with another secret.
    BadSignature,
    /// It was signed too long ago.
    Stale,
    /// It is sent twice.
    Duplicate,
}

/// What the source answered.
#[derive(Serialize, ToSchema)]
pub struct Tried {
    /// What was sent.
    event_type: String,
    /// The HTTP status.
    status_code: u16,
    /// The body: JSON, or text.
    #[schema(value_type = Value)]
    body: Value,
}

/// Sends a source a realistic request, signed as its provider would, and says what it answered.
///
/// A good one is an event like any other, with its job.
#[utoipa::path(
    post, path = "/sources/{id}/test", operation_id = "test_source", tag = "sources",
    params(("id" = schema::SourceId, Path), Tenant), request_body = Trial,
    responses(
        (status = 200, description = "What the source answered.", body = Tried),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn test(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let live = Arc::new(find(&call, tenant.id, &id).await?);
    let trial: Trial = call.body()?;
    let context = &call.context;
    let sample = sample(&live, trial.event_type.as_deref())?;
    let variant = trial.variant.unwrap_or(Variant::Good);
    let request = signed(context, &live, sample, variant)?;
    let what = Some(sample.event_type.to_owned());
    call.note(tenant.id, "source.test", id, what).await?;
    let mut answer = send(context, &live, request.clone()).await;
    if variant == Variant::Duplicate {
        answer = send(context, &live, request).await;
    }
    Ok(tried(sample.event_type.to_owned(), answer))
}

/// The answer of a source, as ours.
pub fn tried(event_type: String, (status, body): (StatusCode, Vec<u8>)) -> Response {
    let body = serde_json::from_slice(&body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
    once::json(StatusCode::OK, &Tried { event_type, status_code: status.as_u16(), body })
}

fn sample(live: &LiveSource, wanted: Option<&str>) -> Result<&'static Sample, ApiError> {
    let samples = live.provider.samples();
    let found = match wanted {
        None => samples.first(),
        Some(name) => samples.iter().find(|sample| sample.event_type == name),
    };
    found.ok_or_else(|| {
        let known: Vec<&str> = samples.iter().map(|sample| sample.event_type).collect();
        ApiError::field("event_type", format!("must be one of {}", known.join(", ")))
    })
}

fn signed(
    context: &Context,
    live: &LiveSource,
    sample: &Sample,
    variant: Variant,
) -> Result<SignedRequest, ApiError> {
    let provider = live.provider;
    let at = match variant {
        Variant::Stale => too_early(context, live),
        _ => context.now(),
    };
    let id = sample_id(context);
    let mut request = sample.request(&webhook_url(context, live), &id, at);
    let own = live.source.secrets.current.clone();
    let secret = match (variant, own) {
        (Variant::BadSignature, _) => {
            Some(provider.sample_keys(&live.settings, context.entropy.as_ref()).signs)
        }
        (_, own) => own,
    };
    let Some(secret) = secret.filter(|_| !live.source.config.unsigned) else {
        return Ok(request);
    };
    provider.sign(&mut request, &secret, &live.settings, &id, at).map_err(|problem| {
        let why = format!(
            "a request cannot be signed here: {problem}; `webhookctl trigger {0} EVENT` makes a test source with a \
             key pair of its own, and sends there",
            provider.name()
        );
        ApiError::new(StatusCode::CONFLICT, "invalid_state", why)
    })?;
    Ok(request)
}

/// Digits alone: some providers' ids are numbers.
pub fn sample_id(context: &Context) -> String {
    let mut bytes = [0u8; 8];
    context.entropy.fill(&mut bytes);
    // What every reader of JSON can hold.
    (u64::from_be_bytes(bytes) >> 11).to_string()
}

/// A time that is past the source's tolerance.
fn too_early(context: &Context, live: &LiveSource) -> Timestamp {
    context.now().before(live.tolerance() + Duration::from_secs(60))
}

/// Through the front door, from this machine.
pub async fn send(
    context: &Arc<Context>,
    live: &Arc<LiveSource>,
    signed: SignedRequest,
) -> (StatusCode, Vec<u8>) {
    let mut request = Request::new(Body::from(signed.body));
    *request.method_mut() = signed.method;
    *request.headers_mut() = signed.headers;
    // What was signed may have got a query besides.
    let path = signed.url.strip_prefix(&context.base_url).and_then(|path| Uri::try_from(path).ok());
    let plain = || Uri::try_from(live.ingest_path()).expect("an id is plain letters");
    *request.uri_mut() = path.unwrap_or_else(plain);
    let answer = edge::admit(context, live, live.welcome_address(), request, Instant::now()).await;
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.map(|whole| whole.to_bytes().to_vec()).unwrap_or_default();
    (parts.status, body)
}
