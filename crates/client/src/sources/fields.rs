//! What a request may say of a source.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How a job reaches its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Executor {
    /// A worker asks for it.
    Pull,
    /// It is posted to the agent.
    Http {
        /// Where to.
        url: String,
    },
    /// A local command runs it.
    Exec {
        /// Its name in `wakepost.toml`.
        name: String,
    },
    /// The server calls itself, and runs it within that request.
    SelfWebhook {
        /// What runs it there.
        run: Box<Executor>,
        /// How long that request may take.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget_s: Option<u64>,
    },
}

/// How much of a source's work may run on one day, in UTC.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// The most runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_per_day: Option<u32>,
    /// The most that they may cost, in the units that workers report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_per_day: Option<f64>,
    /// What becomes of work beyond it: `wait` for the next day, or `refuse`, which holds it. `None`: it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
}

/// The fields of a source that can be set. What is `None` or empty is not sent: a new source gets the default, a
/// changed one keeps what it has.
#[derive(Clone, PartialEq, Default, Serialize)]
pub struct SourceFields {
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What its requests are checked with. `None`, in a new one: the server makes it where the provider allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The adapter's settings, all of them: what is not among them is unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Map<String, Value>>,
    /// Off: it answers 404.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Who is in charge of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Do not check its requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsigned: Option<bool>,
    /// How far a signed time may be off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance_s: Option<u64>,
    /// The largest body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body_bytes: Option<u64>,
    /// How long a dedup key blocks a second job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup_window_s: Option<u64>,
    /// Whether the body's hash is a second dedup key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup_body: Option<bool>,
    /// What tells its events apart in place of the provider's id: a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup_key: Option<String>,
    /// Where the payload holds what events are put in order by: a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_by: Option<String>,
    /// Where it holds the number of an event among those of its order value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence_by: Option<String>,
    /// How long an event waits for one with a lower number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_wait_s: Option<u64>,
    /// Where it holds what makes a newer event supersede a queued older one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalesce_by: Option<String>,
    /// What a message does while its thread is busy: `queue`, `merge`, `interrupt` or `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_policy: Option<String>,
    /// How long a thread must be quiet before its job runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_ms: Option<u64>,
    /// How long a job waits for quiet at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_cap_ms: Option<u64>,
    /// Which event types make a job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<String>,
    /// `draft`: a person must agree before its jobs act; else `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// How long a person has to decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_expires_s: Option<u64>,
    /// Which queue its jobs wait in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// How its jobs run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<Executor>,
    /// Whom to ask, just before an agent runs, whether a job is still worth it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preflight_url: Option<String>,
    /// How often its jobs are tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How long a failed job waits, attempt by attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_s: Option<Vec<u64>>,
    /// How long a run may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_timeout_s: Option<u64>,
    /// How long a lease lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_s: Option<u64>,
    /// How many of its jobs may run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many requests it takes in a second, on each node, and how many of its jobs may start in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Where the outcome of its jobs goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// How much of its work may run on one day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The networks it accepts from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_from: Vec<String>,
    /// What of its payloads is hidden, as JSON pointers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<String>,
    /// Further fields of the API, by name; `null` sets one back to its default.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl fmt::Debug for SourceFields {
    /// Without its secret and settings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceFields").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A source to create: only `provider` is needed.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct NewSource {
    /// Which adapter understands its requests.
    pub provider: String,
    /// Everything else.
    #[serde(flatten)]
    pub fields: SourceFields,
}

/// A new secret for a source; the old one is accepted for a while longer.
#[derive(Clone, PartialEq, Eq, Default, Serialize)]
pub struct Rotation {
    /// The secret. `None`: the server makes one, where the provider allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// For how long; `None`: a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_s: Option<u64>,
}

impl fmt::Debug for Rotation {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rotation").field("grace_s", &self.grace_s).finish_non_exhaustive()
    }
}
