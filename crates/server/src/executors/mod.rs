//! How a pushed job reaches its agent, and how its answer is read.
//!
//! One executor a file. Around all of them stands `lease`, which keeps the lease alive while the agent
//! works, and ends the run when it is lost, cancelled, too long, or the node stops.

mod answer;
mod exec;
mod http;
mod lease;

use std::sync::Arc;

use wakepost_domain::executor::Executor;
use wakepost_domain::transition::Ending;
use wakepost_store::StoreError;
use wakepost_store::moves::Evidence;

use crate::context::Context;
use crate::queue::Pushed;
use crate::view;
use crate::workers::settle::{End, settle};

/// How a run came out.
#[derive(Debug)]
pub(crate) enum Finished {
    /// It is done, with what the agent said.
    Done(answer::Said),
    /// It failed.
    Failed {
        /// What went wrong.
        error: String,
        /// Whether another try makes sense.
        retryable: bool,
        /// When, if the agent said so.
        retry_after: Option<std::time::Duration>,
    },
    /// The agent will finish it through the API.
    Handed,
    /// The lease was lost: whoever has it now decides.
    Lost,
    /// The run was stopped on request.
    Cancelled,
    /// The node stops before the agent was done.
    HandBack,
}

/// Runs one item to its end, and records it.
pub async fn run(context: &Arc<Context>, item: Pushed) {
    let (claimed, _, policy) = &item;
    let ticket = claimed.ticket;
    let job = match view::leased(context, std::slice::from_ref(claimed)).await {
        Ok(mut jobs) => jobs.pop().unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%error, run = %ticket.run_id(), "a job could not be read");
            let failed = Finished::Failed {
                error: "the job could not be read".to_owned(),
                retryable: true,
                retry_after: None,
            };
            return record(context, &item, failed).await;
        }
    };
    let finished = match &policy.executor {
        Executor::Http { url } => http::run(context, &item, url, &job).await,
        Executor::Exec { name } => exec::run(context, &item, name, &job).await,
        Executor::Pull => Finished::HandBack,
    };
    record(context, &item, finished).await;
}

async fn record(context: &Context, item: &Pushed, finished: Finished) {
    let ticket = item.0.ticket;
    let failed = |retryable, retry_after| Ending::Failed { retryable, retry_after };
    let (ending, error, evidence) = match finished {
        Finished::Handed | Finished::Lost => return,
        Finished::Done(said) => match said.evidence(context, &ticket).await {
            Ok(evidence) => (Ending::Succeeded, None, evidence),
            Err(error) => (failed(true, None), Some(error.to_string()), Evidence::default()),
        },
        Finished::Failed { error, retryable, retry_after } => {
            (failed(retryable, retry_after), Some(error), Evidence::default())
        }
        Finished::Cancelled => {
            (Ending::Cancelled, Some("cancelled".to_owned()), Evidence::default())
        }
        Finished::HandBack => (Ending::HandedBack, None, Evidence::default()),
    };
    let end = End { ticket, ending, error, evidence };
    match settle(context, vec![end]).await.pop() {
        Some(Ok(settled)) => {
            tracing::info!(run = %ticket.run_id(), state = settled.state.as_str(), "a pushed run ended");
        }
        Some(Err(StoreError::LeaseLost)) | None => {
            tracing::info!(run = %ticket.run_id(), "a pushed run ended after its lease was lost");
        }
        // The lease will run out, and the rescuer ends the run.
        Some(Err(error)) => {
            tracing::warn!(%error, run = %ticket.run_id(), "a run's end was not recorded")
        }
    }
}
