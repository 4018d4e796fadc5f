//! The http executor: the job is posted to the agent, signed.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::Value;
use wakepost_domain::limits;
use wakepost_domain::work::WorkKind;
use wakepost_providers::standard;

use super::Finished;
use super::answer::Said;
use super::lease::{self, Stop};
use crate::context::Context;
use crate::directory::Secret;
use crate::outbound::{
    AddressPolicy, KeepBody, OutboundAnswer, OutboundRequest, SendErrorClass, Target, Trust,
    retry_after,
};
use crate::queue::Pushed;

/// Posts a job and reads the answer.
pub(crate) async fn run(context: &Context, item: &Pushed, url: &str, job: &Value) -> Finished {
    let timeout = item.2.in_hand();
    let request = match request(context, item, url, job, timeout) {
        Ok(request) => request,
        Err(error) => {
            return Finished::Failed { error, retryable: false, retry_after: None };
        }
    };
    let stopped = tokio::select! {
        sent = context.client.send(request) => return match sent {
            Ok(answer) => read(context, &answer),
            Err(error) => Finished::Failed {
                retryable: error.class != SendErrorClass::Refused,
                error: format!("{}: {}", error.class.as_str(), error.text),
                retry_after: None,
            },
        },
        stopped = lease::keep(context, item, timeout) => stopped,
    };
    // The request was dropped, but the agent may have got it: what it did is not known.
    match stopped {
        Stop::Lost => Finished::Lost,
        Stop::Cancelled => Finished::Cancelled,
        Stop::TimedOut => Finished::Failed {
            error: "the agent did not answer in time".to_owned(),
            retryable: true,
            retry_after: None,
        },
        Stop::NodeStops => Finished::HandBack,
    }
}

fn request(
    context: &Context,
    item: &Pushed,
    url: &str,
    job: &Value,
    timeout: Duration,
) -> Result<OutboundRequest, String> {
    let (claimed, _, policy) = item;
    let (trust, rules) = match policy.executor_trusted {
        true => (Trust::Trusted, AddressPolicy::trusted()),
        false => (Trust::Guarded, context.config.addresses.clone()),
    };
    let target = Target::parse(url, &rules).map_err(|refusal| refusal.to_string())?;
    let id = claimed.ticket.work.text(WorkKind::Job);
    let body = Bytes::from(job.to_string());
    let mut headers = HeaderMap::new();
    let mut put = |name: &'static str, value: &str| {
        HeaderValue::from_str(value)
            .map(|value| headers.insert(name, value))
            .map_err(|error| error.to_string())
    };
    let now = context.now();
    put("content-type", "application/json")?;
    put("user-agent", concat!("Wakepost/", env!("CARGO_PKG_VERSION")))?;
    put("webhook-id", &id)?;
    put("webhook-timestamp", &now.as_secs().to_string())?;
    let secret = match &policy.executor_secret {
        Secret::Kept(secret) => secret.clone(),
        Secret::Derived(name) => Some(context.tokens.executor_secret(name)),
    };
    if let Some(secret) = &secret {
        let signature =
            standard::sign(secret, &id, now, &body).map_err(|error| error.to_string())?;
        put("webhook-signature", &signature)?;
    }
    put("idempotency-key", &id)?;
    put("traceparent", job["traceparent"].as_str().unwrap_or_default())?;
    put("wakepost-job-id", &id)?;
    put("wakepost-run-id", &claimed.ticket.run_id().to_string())?;
    put("wakepost-lease-token", job["lease_token"].as_str().unwrap_or_default())?;
    Ok(OutboundRequest {
        target,
        trust,
        method: Method::POST,
        headers,
        body,
        timeout,
        body_bytes_max: limits::DOCUMENT_BYTES_MAX,
        keep: KeepBody::Whole,
    })
}

fn read(context: &Context, answer: &OutboundAnswer) -> Finished {
    let status = answer.status;
    if status == StatusCode::ACCEPTED {
        return Finished::Handed;
    }
    if status.is_success() {
        return Finished::Done(Said::read(&answer.body, false));
    }
    let again = status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
        );
    let wait = answer.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let preview = String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]).into_owned();
    Finished::Failed {
        error: format!("the agent answered {}: {preview}", status.as_u16()),
        retryable: again,
        retry_after: wait
            .filter(|_| again)
            .and_then(|text| retry_after::parse(text, context.now())),
    }
}
