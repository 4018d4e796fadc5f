//! Jobs, as those see them who create, watch and steer them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::{get, post};
use crate::lenient::null_as_default;
use crate::{Call, Client, Effect, Executor, Moved, Page};

/// How much longer than others a call may take that is about any number of jobs.
const ALL_JOBS: Duration = Duration::from_secs(300);

/// One job.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Its id.
    pub id: String,
    /// A free name; a webhook's job has the event type.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// The event it came from.
    pub event_id: Option<String>,
    /// All events it covers.
    #[serde(deserialize_with = "null_as_default")]
    pub event_ids: Vec<String>,
    /// Whose it is.
    pub tenant: Option<String>,
    /// The source it came from.
    pub source: Option<String>,
    /// Who is in charge of it.
    pub owner: Option<String>,
    /// Where it stands.
    #[serde(deserialize_with = "null_as_default")]
    pub status: String,
    /// Why it is held.
    pub held_reason: Option<String>,
    /// Which queue it waits in.
    pub priority: Option<String>,
    /// How often it was claimed.
    #[serde(deserialize_with = "null_as_default")]
    pub attempts: u32,
    /// How often it may be.
    pub max_attempts: Option<u32>,
    /// When it is due.
    pub run_at: Option<String>,
    /// When it was made.
    pub created_at: Option<String>,
    /// When it ended.
    pub finished_at: Option<String>,
    /// What it is about, as `provider:kind:id`.
    pub subject: Option<String>,
    /// What it must be in order with.
    pub order_key: Option<String>,
    /// Whether a person must agree before it acts, by its maker's word.
    pub mode: Option<String>,
    /// `late`, `out_of_order` and so on.
    #[serde(deserialize_with = "null_as_default")]
    pub flags: Vec<String>,
    /// What it waits for.
    pub waiting_on: Option<Value>,
    /// The job that made it pointless.
    pub superseded_by: Option<String>,
    /// The job it came from.
    pub parent_id: Option<String>,
    /// How many jobs led to it.
    pub hops: Option<u32>,
    /// The scope of its effects.
    pub scope: Option<String>,
    /// Who has it now.
    pub lease: Option<JobLease>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// What its agent gets; only where one job is asked for.
    pub input: Value,
    /// What it returned.
    pub result: Value,
    /// What it said.
    pub reply: Option<String>,
    /// The agent's own state.
    pub checkpoint: Value,
    /// What it cost.
    pub cost: Value,
    /// Its side effects.
    #[serde(deserialize_with = "null_as_default")]
    pub effects: Vec<Effect>,
    /// Its tries.
    #[serde(deserialize_with = "null_as_default")]
    pub runs: Vec<JobRun>,
    /// The work that led to it, the nearest first.
    #[serde(deserialize_with = "null_as_default")]
    pub chain: Vec<ChainLink>,
    /// Its trace.
    pub trace_id: Option<String>,
    /// The item that took its place.
    pub replayed_as: Option<String>,
    /// The event that would cancel it.
    pub cancel_on: Option<CancelOn>,
    /// The schedule that made it.
    pub schedule_id: Option<String>,
    /// Which of its ticks did.
    pub scheduled_for: Option<String>,
    /// Whether it had been made before, under the same dedup key; only from the call that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
    /// Signs the requests to its own http executor: shown once, by the call that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor_secret: Option<String>,
    /// Signs its callback: shown once, by the call that makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_secret: Option<String>,
}

impl std::fmt::Debug for Job {
    /// Without its secrets and payloads.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// Work that led to other work.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ChainLink {
    /// Its id.
    pub id: String,
    /// Its kind.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// Where it stands.
    #[serde(deserialize_with = "null_as_default")]
    pub status: String,
    /// How many agents led to it.
    pub hops: Option<u32>,
}

/// Who has a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobLease {
    /// The worker's name.
    #[serde(deserialize_with = "null_as_default")]
    pub worker: String,
    /// Until when.
    pub expires_at: Option<String>,
}

/// One try at a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobRun {
    /// Its id.
    pub id: String,
    /// Which try it was.
    pub attempt: Option<u32>,
    /// Who ran it.
    pub worker: Option<String>,
    /// When it began.
    pub started_at: Option<String>,
    /// When it ended.
    #[serde(alias = "finished_at")]
    pub ended_at: Option<String>,
    /// How it ended.
    pub outcome: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// What it cost in all, if it said so.
    pub cost: Value,
}

/// A job to create: only `input` is needed.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct NewJob {
    /// What the agent gets.
    pub input: Value,
    /// A free name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Which queue it waits in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// Not before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_at: Option<String>,
    /// Not before this many seconds from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_s: Option<u64>,
    /// A repeat within 30 days gets the first job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup_key: Option<String>,
    /// What it must be in order with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_key: Option<String>,
    /// What it is about, as `provider:kind:id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Who is in charge of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Who is told the outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// What makes it pointless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_on: Option<CancelOn>,
    /// How it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<Executor>,
    /// How often it is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// `draft`: a person must agree before it acts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// An event of this type with the job's subject cancels it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelOn {
    /// The event type, or a pattern such as `issues.*`.
    #[serde(rename = "type")]
    pub event_type: String,
}

/// Which jobs to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct JobQuery {
    /// In this status.
    pub status: Option<String>,
    /// Of this source.
    pub source: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
    /// About this subject (`provider:kind:id`).
    pub subject: Option<String>,
    /// Of this conversation.
    pub thread: Option<String>,
    /// How many.
    pub limit: Option<u32>,
    /// From where.
    pub cursor: Option<String>,
}

/// Whether a replay does committed effects again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Committed effects are skipped.
    Same,
    /// Every effect is done again.
    Fresh,
}

/// A wish to do finished work again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replay {
    /// Who wants it, and why. It stays in the audit trail.
    pub note: String,
    /// Whether committed effects are done again; `None`: they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

/// What a replay made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Replayed {
    /// The new job; for other kinds of work, the new item.
    pub job_id: Option<String>,
}

/// What cancelling all jobs about a subject came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CancelledSubject {
    /// What they are about.
    pub subject: String,
    /// How many were cancelled.
    pub cancelled: u64,
    /// How many run, and were asked to stop.
    pub requested: u64,
}

#[derive(Serialize)]
struct OfSubject<'a> {
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

#[derive(Serialize)]
struct Note<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

impl Client {
    /// `POST /jobs`
    pub fn create_job(&self, job: &NewJob) -> Call<Job> {
        self.linked(self.call(post(&["jobs"], job)))
    }

    /// `GET /jobs`
    pub fn list_jobs(&self, query: &JobQuery) -> Call<Page<Job>> {
        self.call(get(&["jobs"]).query(query))
    }

    /// `GET /jobs/{id}`
    pub fn get_job(&self, id: &str) -> Call<Job> {
        self.call(get(&["jobs", id]))
    }

    /// `POST /jobs/{id}/cancel`: a running job learns of it on its next heartbeat.
    pub fn cancel_job(&self, id: &str, note: Option<&str>) -> Call<Moved> {
        self.call(post(&["jobs", id, "cancel"], &Note { note }))
    }

    /// `POST /jobs/cancel`: all live jobs about a subject.
    pub fn cancel_subject(&self, subject: &str, note: Option<&str>) -> Call<CancelledSubject> {
        self.call(post(&["jobs", "cancel"], &OfSubject { subject, note })).and_wait(ALL_JOBS)
    }

    /// `POST /jobs/{id}/release`: lets a held job run.
    pub fn release_job(&self, id: &str, note: &str) -> Call<Moved> {
        self.call(post(&["jobs", id, "release"], &Note { note: Some(note) }))
    }

    /// `POST /jobs/{id}/replay`
    pub fn replay_job(&self, id: &str, replay: &Replay) -> Call<Replayed> {
        self.call(post(&["jobs", id, "replay"], replay))
    }
}
