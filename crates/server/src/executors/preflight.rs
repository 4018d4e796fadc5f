//! The pre-flight: just before the agent runs, the source's own word on whether the job is still worth it.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use wakepost_domain::limits;
use wakepost_store::moves::Heartbeat;

use super::lease::{self, Stop};
use super::signing::{Post, signed};
use super::{Finished, record};
use crate::chains;
use crate::context::Context;
use crate::directory::Preflight;
use crate::outbound::OutboundAnswer;
use crate::queue::Pushed;

/// How long the answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How large it may be.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Asks about a job that was claimed, if its source wants to be asked, while its lease is kept. `Err`: how the run
/// ends without the agent.
pub(super) async fn pass(context: &Context, item: &Pushed, job: &Value) -> Result<(), Finished> {
    let Some(preflight) = &item.2.preflight else {
        return Ok(());
    };
    tokio::select! {
        verdict = ask(context, preflight, item, job) => verdict,
        stop = lease::keep(context, item, item.2.in_hand()) => Err(match stop {
            Stop::Lost => Finished::Lost,
            Stop::Cancelled => Finished::Cancelled,
            Stop::TimedOut => failed("no answer within the run's own time"),
            Stop::NodeStops => Finished::HandBack,
        }),
    }
}

/// Asks about a job that a worker is about to get, as it will get it. `None`: it is not to get it, and the run has
/// ended. The check must not eat into the worker's lease, which begins anew.
pub async fn hand_out(context: &Context, mut item: Pushed, mut job: Value) -> Option<Value> {
    let lease = Duration::from_secs(item.0.ticket.lease_s.max(1).unsigned_abs().into());
    // As long as the worker asked for, whatever the source says.
    item.2.lease = lease;
    if let Err(finished) = pass(context, &item, &job).await {
        record(context, &item, finished).await;
        return None;
    }
    let beat = Heartbeat { ticket: item.0.ticket, extend: lease, cost: None };
    match context.store.heartbeat(vec![beat]).await.pop()? {
        Ok(answer) => {
            job["lease_expires_at"] = answer.lease_expires_at.to_string().into();
            Some(job)
        }
        // It is somebody else's by now, or the rescuer's soon.
        Err(_) => None,
    }
}

async fn ask(
    context: &Context,
    preflight: &Preflight,
    item: &Pushed,
    job: &Value,
) -> Result<(), Finished> {
    let run = item.0.ticket.run_id().to_string();
    let mut shown = job.clone();
    // Whoever is asked about a job is not the one who works on it.
    if let Some(fields) = shown.as_object_mut() {
        fields.remove("lease_token");
    }
    let post = Post {
        url: &preflight.url,
        trusted: preflight.trusted,
        secret: &preflight.secret,
        id: run.clone(),
        body: Bytes::from(shown.to_string()),
        timeout: PATIENCE,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let further = [
        (chains::TRACEPARENT, job["traceparent"].as_str().unwrap_or_default()),
        ("wakepost-job-id", job["id"].as_str().unwrap_or_default()),
        ("wakepost-run-id", &run),
    ];
    let request = signed(context, post, &further).map_err(failed)?;
    match context.client.send(request).await {
        Ok(answer) => read(&answer),
        Err(error) => Err(failed(format!("{}: {}", error.class.as_str(), error.text))),
    }
}

/// What the other side says.
#[derive(Deserialize)]
struct Word {
    proceed: bool,
    reason: Option<String>,
}

fn read(answer: &OutboundAnswer) -> Result<(), Finished> {
    if !answer.status.is_success() {
        return Err(failed(format!("it was answered {}", answer.status.as_u16())));
    }
    if answer.body.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    match serde_json::from_slice::<Word>(&answer.body) {
        Ok(Word { proceed: true, .. }) => Ok(()),
        Ok(Word { reason, .. }) => {
            let reason = reason.filter(|reason| !reason.trim().is_empty());
            let reason = reason.unwrap_or_else(|| "the pre-flight said no".to_owned());
            let reason = limits::truncate(&reason, limits::ERROR_BYTES_MAX).to_owned();
            Err(Finished::Declined { reason })
        }
        Err(_) => Err(failed("the answer is not {\"proceed\": true} or false")),
    }
}

/// Nobody knows whether the job is worth it: it is tried again, as any run that fails.
fn failed(error: impl AsRef<str>) -> Finished {
    Finished::failed(format!("pre-flight: {}", error.as_ref()), true)
}
