//! How a pushed job reaches its agent, and how its answer is read.
//!
//! One executor a file. Around all of them stands `lease`, which keeps the lease alive while the agent
//! works, and ends the run when it is lost, cancelled, too long, or the node stops.

mod answer;
mod callback;
mod delivery;
mod exec;
mod expand;
mod http;
mod lease;
mod places;
pub mod preflight;
mod reply;
mod said;
mod signing;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Instrument;
use wakepost_domain::executor::Executor;
use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State, WorkKind};
use wakepost_store::moves::{Evidence, Expanded, Guard, NewWork, Settle};
use wakepost_store::vault::Slot;
use wakepost_store::{Result, StoreError};

use crate::context::Context;
use crate::queue::Pushed;
use crate::replies;
use crate::telemetry::story;
use crate::view;
use crate::webhooks;
use crate::workers::settle::{decide, settle_decided};

pub use answer::Said;
pub use places::{Place, Places, Room};
pub use said::{Found, Payload, Record, bodies, find};

/// What is said of a run whose job nobody could read. Its lease ends at once, and another try may find it readable.
pub const UNREADABLE: &str = "the job could not be read";

/// How a run came out.
#[derive(Debug)]
pub(crate) enum Finished {
    /// It is done, with what the agent said.
    Done(Said),
    /// It failed.
    Failed {
        /// What went wrong.
        error: String,
        /// Whether another try makes sense.
        retryable: bool,
        /// When, if the agent said so.
        retry_after: Option<Duration>,
    },
    /// It was delivered, or was not.
    Delivered {
        /// What follows.
        ending: Ending,
        /// What went wrong.
        error: Option<String>,
        /// How exactly it went, as JSON.
        detail: String,
    },
    /// The event is whole now.
    Expanded {
        /// What is stored of it, and where its job goes on.
        expanded: Expanded,
        /// Why it is no work for an agent after all.
        ignored: Option<String>,
    },
    /// It is not worth an agent's work any more.
    Declined {
        /// Why.
        reason: String,
    },
    /// The agent will finish it through the API.
    Handed,
    /// The lease was lost: whoever has it now decides.
    Lost,
    /// The run was stopped on request.
    Cancelled,
    /// The node stops before the agent was done.
    HandBack,
    /// Nobody knows whether it happened: an operator must decide.
    InDoubt {
        /// What nobody knows.
        error: String,
    },
}

impl Finished {
    fn failed(error: impl Into<String>, retryable: bool) -> Finished {
        Finished::Failed { error: error.into(), retryable, retry_after: None }
    }
}

/// Runs one item to its end, and records it. `said`: what its event says, if that was read already.
pub async fn run(context: &Arc<Context>, item: Pushed, said: Option<Payload>) {
    context.metrics.pushed_running.inc();
    let span = story::of_run(context, &item).await;
    run_to_its_end(context, item, said).instrument(span).await;
    context.metrics.pushed_running.dec();
}

async fn run_to_its_end(context: &Arc<Context>, item: Pushed, said: Option<Payload>) {
    let (claimed, _, policy) = &item;
    let ticket = claimed.ticket;
    if policy.executor == Executor::Gateway {
        // Each in a box of its own: else every run would carry the room that the largest of them needs.
        let finished = match claimed.kind {
            WorkKind::Reply => Box::pin(reply::run(context, &item)).await,
            WorkKind::Callback => Box::pin(callback::run(context, &item)).await,
            WorkKind::Delivery => Box::pin(delivery::run(context, &item, said)).await,
            WorkKind::Job => Box::pin(expand::run(context, &item)).await,
        };
        let state = Box::pin(record(context, &item, finished)).await;
        if claimed.kind == WorkKind::Delivery && state == Some(State::DeadLetter) {
            Box::pin(webhooks::tell_of_dead_letter(context, ticket.tenant, ticket.work)).await;
        }
        return;
    }
    Box::pin(run_agent(context, &item)).await;
}

async fn run_agent(context: &Arc<Context>, item: &Pushed) {
    let (claimed, _, policy) = item;
    let job = match view::leased(context, std::slice::from_ref(item)).await.pop() {
        Some(Ok(job)) => job,
        Some(Err(error)) => {
            tracing::warn!(%error, run_id = %claimed.ticket.run_id(), "a job could not be read");
            record(context, item, Finished::failed(UNREADABLE, true)).await;
            return;
        }
        None => return,
    };
    if let Err(finished) = preflight::pass(context, item, &job).await {
        record(context, item, finished).await;
        return;
    }
    let finished = match policy.executor.runner() {
        Executor::Http { url } => http::run(context, item, url, &job).await,
        Executor::Exec { name } => exec::run(context, item, name, &job).await,
        Executor::Pull | Executor::Gateway | Executor::SelfWebhook { .. } => Finished::HandBack,
    };
    record(context, item, finished).await;
}

/// What a success leaves behind, and the reply that follows it.
async fn finish(
    context: &Context,
    ticket: &Ticket,
    said: Said,
) -> Result<(Evidence, Option<NewWork>)> {
    let reply = match &said.reply {
        Some(text) => replies::last_word(context, ticket, text).await?,
        None => None,
    };
    Ok((said.evidence(context, ticket).await?, reply))
}

/// How exactly a delivery went: of one that was taken that is its result, of any other it stays with the run.
async fn evidence_of(
    context: &Context,
    ticket: &Ticket,
    ending: Ending,
    detail: &str,
) -> Result<Evidence> {
    let key = context.vault.key(ticket.tenant).await?;
    let detail = detail.as_bytes();
    Ok(match ending {
        Ending::Succeeded => Evidence {
            result: Some(key.seal(Slot::JobResult(ticket.work), detail)),
            ..Evidence::default()
        },
        _ => Evidence {
            detail: Some(key.seal(Slot::RunDetail(ticket.run_id()), detail)),
            ..Evidence::default()
        },
    })
}

/// Records how a run came out, and answers where that leads, if it does.
async fn record(context: &Context, item: &Pushed, finished: Finished) -> Option<State> {
    let ticket = item.0.ticket;
    let failed = |retryable, retry_after| Ending::Failed { retryable, retry_after };
    let (mut follow_up, mut whole) = (None, None);
    let (ending, error, evidence) = match finished {
        Finished::Handed | Finished::Lost => return None,
        Finished::Expanded { expanded, ignored } => {
            whole = Some(expanded);
            let ending = if ignored.is_some() { Ending::Cancelled } else { Ending::HandedBack };
            (ending, ignored.map(|why| format!("ignored: {why}")), Evidence::default())
        }
        Finished::Done(said) => match finish(context, &ticket, said).await {
            Ok((evidence, reply)) => {
                follow_up = reply.map(Box::new);
                (Ending::Succeeded, None, evidence)
            }
            Err(error) => (failed(true, None), Some(error.to_string()), Evidence::default()),
        },
        Finished::Failed { error, retryable, retry_after } => {
            (failed(retryable, retry_after), Some(error), Evidence::default())
        }
        Finished::Cancelled => {
            (Ending::Cancelled, Some("cancelled".to_owned()), Evidence::default())
        }
        Finished::Declined { reason } => (Ending::Cancelled, Some(reason), Evidence::default()),
        Finished::Delivered { ending, error, detail } => {
            match evidence_of(context, &ticket, ending, &detail).await {
                Ok(evidence) => (ending, error, evidence),
                Err(_) => (ending, error, Evidence::default()),
            }
        }
        Finished::HandBack => (Ending::HandedBack, None, Evidence::default()),
        Finished::InDoubt { error } => {
            (Ending::Held(HeldReason::InDoubt), Some(error), Evidence::default())
        }
    };
    let decided = decide(context, ticket, ending, &item.2.backoff, Guard::Live, error, evidence);
    let state = settle_surely(context, Settle { follow_up, expanded: whole, ..decided }).await?;
    if state == State::Succeeded {
        tracing::debug!(run_id = %ticket.run_id(), "a pushed run succeeded");
    } else {
        tracing::info!(run_id = %ticket.run_id(), state = state.as_str(), "a pushed run ended");
    }
    Some(state)
}

/// How long the store may be away before an end that it has to hear of is given up, and the waits in between.
const RECORDING: Duration = Duration::from_secs(120);
const RECORDING_WAIT: Duration = Duration::from_millis(50);
const RECORDING_WAIT_MAX: Duration = Duration::from_secs(1);

/// Ends a run. While the store is away it is told again: what was done would else be done again, once the lease is over.
async fn settle_surely(context: &Context, decided: Settle) -> Option<State> {
    let run = decided.ticket.run_id();
    let (until, mut wait) = (Instant::now() + RECORDING, RECORDING_WAIT);
    loop {
        match settle_decided(context, vec![decided.clone()]).await.pop() {
            Some(Ok(settled)) => return Some(settled.state),
            Some(Err(StoreError::LeaseLost)) | None => {
                tracing::info!(run_id = %run, "a pushed run ended after its lease was lost");
                return None;
            }
            Some(Err(StoreError::Busy | StoreError::Unavailable(_))) if Instant::now() < until => {
                tokio::time::sleep(wait).await;
                wait = (2 * wait).min(RECORDING_WAIT_MAX);
            }
            // The lease will run out, and the rescuer ends the run.
            Some(Err(error)) => {
                tracing::warn!(%error, run_id = %run, "a run's end was not recorded");
                return None;
            }
        }
    }
}
