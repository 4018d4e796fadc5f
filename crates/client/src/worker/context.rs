//! What a worker can do with its job while it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::sync::watch;

use super::Stop;
use super::ledger::Ledger;
use crate::backoff::Backoff;
use crate::{Call, Client, Error, LeasedJob, Progress, Reply};

/// A leased job, and the calls about it. Cheap to clone.
#[derive(Clone)]
pub struct JobContext {
    pub(super) client: Client,
    pub(super) job: Arc<LeasedJob>,
    pub(super) cancel: watch::Receiver<bool>,
    pub(super) run: Arc<Run>,
}

/// What a run has done so far. Its handler, its keeper and its reporter share it.
#[derive(Default)]
pub(super) struct Run {
    pub(super) effects: Ledger,
    /// How many replies it has sent.
    replies: AtomicU64,
    /// What it has cost.
    cost: Mutex<Option<f64>>,
}

impl Run {
    /// What it has cost so far, if it said so.
    pub(super) fn cost(&self) -> Option<f64> {
        *self.cost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobContext {
    /// The job.
    pub fn job(&self) -> &LeasedJob {
        &self.job
    }

    /// A client for what the agent makes in the job's name: jobs that it creates know which job led to them, and go on
    /// with its trace. (Elsewhere it is the client that the job was leased with.)
    pub fn client(&self) -> Client {
        let LeasedJob { chain, traceparent, .. } = &*self.job;
        self.client.clone().on_behalf_of(chain.as_deref(), traceparent.as_deref())
    }

    /// Says what the run has cost in all so far. Heartbeats and the end of the run carry it, so that budgets count a
    /// run that goes on, and one that dies.
    pub fn set_cost(&self, cost: f64) {
        *self.run.cost.lock().unwrap_or_else(PoisonError::into_inner) = Some(cost);
    }

    /// Whether someone asked for the job to stop. Return soon; an error then makes it `cancelled`.
    pub fn is_cancelled(&self) -> bool {
        *self.cancel.borrow()
    }

    /// Waits until someone asks for the job to stop.
    pub async fn cancelled(&self) {
        // The sender lives as long as the run, so this ends only with a request.
        if self.cancel.clone().wait_for(|asked| *asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Saves the agent's own state, which the next run gets if this one does not finish.
    pub async fn checkpoint(&self, state: &impl Serialize) -> Result<(), Stop> {
        let state = serde_json::to_value(state)?;
        let (id, token) = (&self.job.id, &self.job.lease_token);
        self.insist(|| self.client.checkpoint(id, token, &state)).await?;
        Ok(())
    }

    /// Tells how the work goes. A word that does not get through is dropped.
    pub async fn progress(&self, progress: Progress) -> Result<(), Stop> {
        let (id, token) = (&self.job.id, &self.job.lease_token);
        match self.client.progress(id, token, &progress).await {
            Err(error) if !error.is_transient() => Err(Stop::of(&error)),
            _ => Ok(()),
        }
    }

    /// Says something on the thread of the job's event, before the job is done. The reply that it completes with
    /// takes the message's place, unless `update` says that it stays.
    pub async fn reply(&self, reply: Reply) -> Result<(), Stop> {
        let (id, token) = (&self.job.id, &self.job.lease_token);
        // An answer may get lost: the repeat is then known by its key.
        let turn = self.run.replies.fetch_add(1, Ordering::Relaxed);
        let key = format!("{}:{turn}", self.job.run_id.as_deref().unwrap_or(token));
        self.insist(|| self.client.reply_to_job(id, token, &reply).idempotency_key(&key)).await?;
        Ok(())
    }

    /// Repeats a call until it is answered. It ends with the lease at the latest, since the run is dropped then.
    pub(super) async fn insist<T>(&self, call: impl Fn() -> Call<T>) -> Result<T, Stop>
    where
        T: serde::de::DeserializeOwned + 'static,
    {
        self.insist_or(call).await.map_err(|error| Stop::of(&error))
    }

    /// As [`JobContext::insist`], for a caller who knows what to make of a refusal.
    pub(super) async fn insist_or<T>(&self, call: impl Fn() -> Call<T>) -> Result<T, Error>
    where
        T: serde::de::DeserializeOwned + 'static,
    {
        let mut backoff = Backoff::default();
        loop {
            match call().await {
                Err(error) if error.is_transient() => tokio::time::sleep(backoff.next()).await,
                answer => return answer,
            }
        }
    }
}
