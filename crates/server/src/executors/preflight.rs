//! The pre-flight: just before the agent runs, the source's own word on whether the job is still worth it.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
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
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How many are asked about at once.
const AT_ONCE: usize = 100;
/// How large it may be.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Whether a claimed job still needs its agent: not if a newer event took its place while it ran before, nor if its
/// source, where it wants to be asked, says so. `Err`: how the run ends without the agent. Its lease is kept meanwhile.
pub(super) async fn pass(context: &Context, item: &Pushed, job: &Value) -> Result<(), Finished> {
    if let Some(by) = &item.0.meta.superseded_by {
        return Err(Finished::Declined { reason: format!("superseded by {by}") });
    }
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

/// Asks about jobs that a worker is about to get, as it will get them. Answers those that it gets; the runs of the
/// others have ended. The checks must not eat into the worker's leases: all of them are kept meanwhile, also those of
/// jobs that nobody asks about, and begin anew in the end.
pub async fn hand_out(context: &Context, claimed: Vec<(Pushed, Value)>) -> Vec<Value> {
    // Those that only wait for the others by now.
    let waiting = Mutex::new(Vec::new());
    let shortest = claimed.iter().map(|(item, _)| lease_of(item)).min().unwrap_or_default();
    let asking = stream::iter(claimed).map(async |(mut item, job)| {
        // As long as the worker asked for, whatever the source says.
        item.2.lease = lease_of(&item);
        let passed = pass(context, &item, &job).await;
        match passed {
            Ok(()) => {
                waiting.lock().push(beat(&item));
                Some((item, job))
            }
            Err(finished) => {
                record(context, &item, finished).await;
                None
            }
        }
    });
    let asking = asking.buffered(AT_ONCE).collect::<Vec<_>>();
    tokio::pin!(asking);
    let passed = loop {
        tokio::select! {
            passed = &mut asking => break passed,
            () = tokio::time::sleep(shortest / 3) => {
                let beats = waiting.lock().clone();
                // Whose lease is lost meanwhile is found out in the end.
                context.store.heartbeat(beats).await;
            }
        }
    };
    let passed: Vec<(Pushed, Value)> = passed.into_iter().flatten().collect();
    let beats = passed.iter().map(|(item, _)| beat(item)).collect();
    let beaten = context.store.heartbeat(beats).await;
    let given = passed.into_iter().zip(beaten).filter_map(|((_, mut job), beaten)| {
        // Without an answer it is somebody else's by now, or the rescuer's soon.
        job["lease_expires_at"] = beaten.ok()?.lease_expires_at.to_string().into();
        Some(job)
    });
    given.collect()
}

fn lease_of(item: &Pushed) -> Duration {
    Duration::from_secs(item.0.ticket.lease_s.max(1).unsigned_abs().into())
}

fn beat(item: &Pushed) -> Heartbeat {
    Heartbeat { ticket: item.0.ticket, extend: lease_of(item), cost: None }
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
