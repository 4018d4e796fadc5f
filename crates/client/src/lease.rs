//! Jobs, as workers see them: leased, kept alive, and finished.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::{post, put};
use crate::lenient::null_as_default;
use crate::{Call, Client, Envelope, Moved};

/// Which jobs to lease, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LeaseQuery {
    /// The worker's name, for people.
    pub worker: String,
    /// At most how many (1–500).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// How long to wait for one (0–30).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
    /// Only these kinds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Only from these sources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// How long the lease lasts (1–3600).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_s: Option<u64>,
}

/// What a lease call answers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LeasedJobs {
    /// The jobs; none: there was nothing to do.
    pub jobs: Vec<LeasedJob>,
}

/// A job that is this worker's until its lease expires.
#[derive(Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct LeasedJob {
    /// Its id.
    pub id: String,
    /// This try's id.
    pub run_id: Option<String>,
    /// Whose it is.
    pub tenant: Option<String>,
    /// Proves that the job is ours; every call about it carries it.
    pub lease_token: String,
    /// Until when.
    pub lease_expires_at: Option<String>,
    /// Which try this is.
    #[serde(deserialize_with = "null_as_default")]
    pub attempt: u32,
    /// A free name; a webhook's job has the event type.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// The event, for a webhook's job.
    pub envelope: Option<Envelope>,
    /// All events, if it covers several.
    #[serde(deserialize_with = "null_as_default")]
    pub events: Vec<Envelope>,
    /// The input, for a job made through the API.
    pub input: Value,
    /// The tick that made it, for a job of a schedule.
    pub scheduled_for: Option<String>,
    /// What an earlier run saved.
    pub checkpoint: Value,
    /// The scope of its effects.
    pub scope: Option<String>,
    /// Its place in the trace.
    pub traceparent: Option<String>,
    /// What to pass on with whatever leads to further work: see [`Call::chain`].
    pub chain: Option<String>,
}

impl std::fmt::Debug for LeasedJob {
    /// Without the lease token and the payloads.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeasedJob")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// How a lease is extended.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Extension {
    /// How long from now; left out, as long as it was asked to last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extend_s: Option<u64>,
    /// What the run has cost in all so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// What a heartbeat answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Heartbeat {
    /// Until when the lease now lasts.
    pub lease_expires_at: Option<String>,
    /// Whether someone wants the job to stop.
    #[serde(deserialize_with = "null_as_default")]
    pub cancel_requested: bool,
}

/// A word on how the work goes.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Progress {
    /// What is going on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How much is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// Which step this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// A message on the thread of a job's event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Reply {
    /// What to say, as Markdown.
    pub text: String,
    /// `true`: in the place of the job's message before it, where the platform can. `false`: a message of its own,
    /// for good. Left out: one that the job's last reply takes the place of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<bool>,
}

/// How a job that worked went.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Completion {
    /// What it returns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What it says on the event's thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// What the run cost in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// How a job that did not work went.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Failure {
    /// What went wrong.
    pub error: String,
    /// `false`: straight to the dead letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// When to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
    /// What the run cost in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Nothing went wrong, the worker stops: another gets the job, and no attempt is counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hand_back: bool,
}

/// One job of [`Client::finish_jobs`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finish {
    /// The job's id.
    pub id: String,
    /// Proves that it is ours.
    pub lease_token: String,
    /// How it went.
    #[serde(flatten)]
    pub outcome: FinishOutcome,
}

/// How a job went.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum FinishOutcome {
    /// It worked.
    Complete(Completion),
    /// It did not.
    Fail(Failure),
}

/// What [`Client::finish_jobs`] answers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Finished {
    /// One answer for each job.
    pub jobs: Vec<FinishedJob>,
}

/// Whether one job's outcome was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FinishedJob {
    /// The job's id.
    pub id: String,
    /// Whether it was.
    pub ok: bool,
    /// Why not.
    #[serde(default)]
    pub code: Option<String>,
}

/// A body with the lease token in front.
#[derive(Serialize)]
pub(crate) struct Leased<'a, T> {
    lease_token: &'a str,
    #[serde(flatten)]
    rest: T,
}

#[derive(Serialize)]
struct Checkpoint<'a> {
    state: &'a Value,
}

#[derive(Serialize)]
struct FinishMany<'a> {
    jobs: &'a [Finish],
}

pub(crate) fn leased<T>(lease_token: &str, rest: T) -> Leased<'_, T> {
    Leased { lease_token, rest }
}

impl Client {
    /// `POST /jobs/lease`: waits up to `wait_s` for something to do.
    pub fn lease_jobs(&self, query: &LeaseQuery) -> Call<LeasedJobs> {
        self.call(post(&["jobs", "lease"], query))
            .and_wait(Duration::from_secs(query.wait_s.unwrap_or(0)))
    }

    /// `POST /jobs/{id}/heartbeat`
    pub fn heartbeat(&self, id: &str, token: &str, extension: &Extension) -> Call<Heartbeat> {
        self.call(post(&["jobs", id, "heartbeat"], &leased(token, extension)))
    }

    /// `PUT /jobs/{id}/checkpoint`
    pub fn checkpoint(&self, id: &str, token: &str, state: &Value) -> Call<Moved> {
        let body = leased(token, Checkpoint { state });
        self.call(put(&["jobs", id, "checkpoint"], &body))
    }

    /// `POST /jobs/{id}/progress`
    pub fn progress(&self, id: &str, token: &str, progress: &Progress) -> Call<Moved> {
        self.call(post(&["jobs", id, "progress"], &leased(token, progress)))
    }

    /// `POST /jobs/{id}/reply`: answers the message's own id.
    pub fn reply_to_job(&self, id: &str, token: &str, reply: &Reply) -> Call<Moved> {
        self.call(post(&["jobs", id, "reply"], &leased(token, reply)))
    }

    /// `POST /jobs/{id}/complete`
    pub fn complete_job(&self, id: &str, token: &str, completion: &Completion) -> Call<Moved> {
        self.call(post(&["jobs", id, "complete"], &leased(token, completion)))
    }

    /// `POST /jobs/{id}/fail`
    pub fn fail_job(&self, id: &str, token: &str, failure: &Failure) -> Call<Moved> {
        self.call(post(&["jobs", id, "fail"], &leased(token, failure)))
    }

    /// `POST /jobs/finish`: many at once.
    pub fn finish_jobs(&self, jobs: &[Finish]) -> Call<Finished> {
        self.call(post(&["jobs", "finish"], &FinishMany { jobs }))
    }
}
