//! The http executor: the job is posted to the agent, signed.

use std::time::Duration;

use bytes::Bytes;
use http::{StatusCode, header};
use serde_json::Value;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{failure, limits};

use super::Finished;
use super::answer::Said;
use super::lease::{self, Stop};
use super::signing::{Post, signed};
use crate::chains;
use crate::context::Context;
use crate::outbound::{OutboundAnswer, OutboundRequest, SendErrorClass, retry_after};
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
                // What was refused stays so; who answered too much has done the work, and would again.
                retryable: !matches!(error.class, SendErrorClass::Refused | SendErrorClass::TooLarge),
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
    let id = claimed.ticket.work.text(WorkKind::Job);
    let run = claimed.ticket.run_id().to_string();
    let post = Post {
        url,
        trusted: policy.executor_trusted,
        secret: &policy.executor_secret,
        id: id.clone(),
        body: Bytes::from(job.to_string()),
        timeout,
        answer_bytes_max: limits::DOCUMENT_BYTES_MAX,
    };
    let text = |field: &str| job[field].as_str().unwrap_or_default();
    let further = [
        ("idempotency-key", id.as_str()),
        (chains::TRACEPARENT, text("traceparent")),
        (chains::CHAIN, text("chain")),
        ("wakepost-job-id", &id),
        ("wakepost-run-id", &run),
        ("wakepost-lease-token", text("lease_token")),
    ];
    signed(context, post, &further)
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
        error: failure::answered("the agent", status.as_u16(), &preview),
        retryable: again,
        retry_after: wait
            .filter(|_| again)
            .and_then(|text| retry_after::parse(text, context.now())),
    }
}
