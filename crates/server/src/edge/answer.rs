//! What a provider is answered.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use http::{HeaderName, HeaderValue, StatusCode, header};
use wakepost_domain::receipt::Verdict;
use wakepost_domain::work::WorkKind;
use wakepost_providers::Answer;
use wakepost_store::{StoreError, failpoint};

use super::accept::Outcome;

/// How long a provider should wait when we could not commit.
const RETRY_AFTER_S: &str = "1";
/// Where the ids are when the provider prescribes the body.
const EVENT_ID: HeaderName = HeaderName::from_static("wakepost-event-id");
/// The place in the middle of an answer.
const WHILE_ANSWERING: &str = "edge.while_answering";

/// A refusal: a status and no more than its name. The reason is in the receipt.
pub fn refusal(status: StatusCode) -> Response {
    let title = status.canonical_reason().unwrap_or("Refused");
    let code = title.to_ascii_lowercase().replace(' ', "_");
    let body = format!(
        "{{\"type\":\"about:blank\",\"title\":\"{title}\",\"status\":{},\"code\":\"{code}\"}}",
        status.as_u16()
    );
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
    }
    if matches!(
        status,
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT | StatusCode::BAD_REQUEST
    ) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static("POST, GET, OPTIONS"));
    }
    answer
}

/// Nobody knows whether there is such a source.
pub fn lookup_failed(error: &StoreError) -> Response {
    tracing::warn!(%error, "a source could not be looked up");
    refusal(StatusCode::SERVICE_UNAVAILABLE)
}

/// A refusal that says when to come again.
pub fn later(status: StatusCode, wait: Duration) -> Response {
    let mut answer = refusal(status);
    let seconds = wait.as_secs_f64().ceil().max(1.0) as u64;
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    answer
}

/// Events that were stored, or were there already.
pub fn stored(status: StatusCode, verdict: Verdict, outcomes: &[Outcome]) -> Response {
    let body = match outcomes {
        [only] => one(only),
        many => {
            let events: Vec<String> = many.iter().map(one).collect();
            format!("{{\"status\":\"{}\",\"events\":[{}]}}", verdict.as_str(), events.join(","))
        }
    };
    let body = match failpoint::is_set(WHILE_ANSWERING) {
        true => in_two_pieces(body),
        false => Body::from(body),
    };
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn one(outcome: &Outcome) -> String {
    let Outcome { verdict, event, job } = outcome;
    let job = match job {
        Some(work) => format!(",\"job_id\":\"{}\"", work.text(WorkKind::Job)),
        None => String::new(),
    };
    format!("{{\"status\":\"{}\",\"event_id\":\"{event}\"{job}}}", verdict.as_str())
}

/// A body whose second piece comes only past the place where tests break an answer.
fn in_two_pieces(text: String) -> Body {
    let middle = text.len() / 2;
    let (first, second) = (text[..middle].to_owned(), text[middle..].to_owned());
    let second = async move {
        // Until then the head and the first piece are on their way.
        tokio::time::sleep(Duration::from_millis(20)).await;
        failpoint::pass_async(WHILE_ANSWERING).await.map(|()| second)
    };
    Body::from_stream(stream::once(async { Ok(first) }).chain(stream::once(second)))
}

/// What a provider's handshake prescribes.
pub fn prescribed(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let mut response =
        (status, [(header::CONTENT_TYPE, answer.content_type)], answer.body).into_response();
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// What a provider prescribes for an event: its ids are then in a header.
pub fn prescribed_for(answer: Answer, outcomes: &[Outcome]) -> Response {
    let ids: Vec<String> = outcomes.iter().map(|outcome| outcome.event.to_string()).collect();
    let mut response = prescribed(answer);
    let ids = HeaderValue::try_from(ids.join(", ")).expect("ids are plain letters and digits");
    response.headers_mut().insert(EVENT_ID, ids);
    response
}
