//! What pages read of the API's answers.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use wakepost_domain::Timestamp;
use wakepost_domain::retention::Ages;

use super::payload::visible;

/// An event in a list.
#[derive(Deserialize)]
pub struct EventRow {
    pub id: String,
    pub source: Option<String>,
    pub source_name: Option<String>,
    pub provider: Option<String>,
    #[serde(rename = "type")]
    pub event_type: String,
    pub status: String,
    pub verified: bool,
    pub subject: Option<String>,
    pub dedup_key: Option<String>,
    pub received_at: Timestamp,
    pub duplicates: u64,
}

/// An event, whole.
#[derive(Deserialize)]
pub struct Event {
    #[serde(flatten)]
    pub row: EventRow,
    pub envelope: Value,
    pub work: Vec<Work>,
    pub receipts: Vec<Receipt>,
    pub trace_id: Option<String>,
    pub next_action: Option<String>,
}

/// One thing that an event led to.
#[derive(Deserialize)]
pub struct Work {
    pub kind: String,
    pub id: String,
    pub name: Option<String>,
    pub status: String,
    pub attempts: u32,
    pub max_attempts: Option<u32>,
    pub last_error: Option<String>,
    pub created_at: Timestamp,
    pub run_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub replayed_as: Option<String>,
}

/// One request that brought an event.
#[derive(Deserialize)]
pub struct Receipt {
    pub received_at: Timestamp,
    pub verdict: String,
    pub class: Option<String>,
    pub address: Option<String>,
    pub latency_us: Option<i64>,
    pub detail: Option<String>,
    pub event_id: Option<String>,
}

/// A job; in a list without what only its page shows.
#[derive(Deserialize)]
pub struct Job {
    pub id: String,
    pub kind: String,
    pub event_id: Option<String>,
    pub source: Option<String>,
    pub owner: Option<String>,
    pub status: String,
    pub held_reason: Option<String>,
    pub priority: Option<String>,
    pub attempts: u32,
    pub max_attempts: Option<u32>,
    pub run_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub subject: Option<String>,
    pub order_key: Option<String>,
    pub waiting_on: Option<String>,
    pub replayed_as: Option<String>,
    pub parent_id: Option<String>,
    pub lease: Option<Lease>,
    pub last_worker: Option<String>,
    pub last_error: Option<String>,
    pub trace_id: Option<String>,
    #[serde(default)]
    pub cancel_requested: bool,
    #[serde(default)]
    pub input: Value,
    #[serde(default)]
    pub result: Value,
    #[serde(default)]
    pub reply: Value,
    #[serde(default)]
    pub checkpoint: Value,
    pub cost: Option<f64>,
    #[serde(default)]
    pub effects: Vec<Effect>,
    #[serde(default)]
    pub runs: Vec<Run>,
    pub next_action: Option<String>,
}

/// Who has a job, and until when.
#[derive(Deserialize)]
pub struct Lease {
    pub worker: Option<String>,
    pub expires_at: Timestamp,
}

/// One side effect.
#[derive(Deserialize)]
pub struct Effect {
    pub key: String,
    pub state: String,
    pub description: Option<String>,
    pub begun_at: Timestamp,
    pub resolved_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub decided_by: Option<String>,
    pub error: Option<String>,
    pub proposal_hash: Option<String>,
    #[serde(default)]
    pub result: Value,
}

/// One run of a job.
#[derive(Deserialize)]
pub struct Run {
    pub attempt: u32,
    pub worker: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub outcome: Option<String>,
    pub error: Option<String>,
    pub cost: Option<f64>,
}

/// A delivery; `attempts` is a number in lists, and the attempts themselves on its page.
#[derive(Deserialize)]
pub struct Delivery {
    pub id: String,
    pub event_id: String,
    #[serde(rename = "type")]
    pub event_type: String,
    pub webhook_id: String,
    pub status: String,
    pub max_attempts: Option<u32>,
    pub run_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub last_error: Option<String>,
    pub replayed_as: Option<String>,
    pub attempt_count: Option<u32>,
    #[serde(default)]
    pub attempts: Value,
}

impl Delivery {
    /// How often it was tried.
    pub fn tries(&self) -> u64 {
        self.attempt_count.map(u64::from).or(self.attempts.as_u64()).unwrap_or_default()
    }

    /// Each try.
    pub fn attempts(&self) -> Vec<Attempt> {
        serde_json::from_value(self.attempts.clone()).unwrap_or_default()
    }
}

/// One try to deliver.
#[derive(Deserialize)]
pub struct Attempt {
    pub attempt: u32,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub outcome: Option<String>,
    #[serde(default)]
    pub probe: bool,
    pub error: Option<String>,
    #[serde(default)]
    pub request_headers: Option<BTreeMap<String, String>>,
    pub status_code: Option<u16>,
    #[serde(default)]
    pub response_headers: Option<BTreeMap<String, String>>,
    pub body: Option<String>,
    #[serde(default)]
    pub truncated: Option<bool>,
    pub remote: Option<String>,
    #[serde(default)]
    pub timings: Option<Timings>,
}

/// How long the parts of a try took.
#[derive(Deserialize, Default)]
pub struct Timings {
    pub dns_ms: Option<f64>,
    pub connect_ms: Option<f64>,
    pub tls_ms: Option<f64>,
    pub first_byte_ms: Option<f64>,
    pub total_ms: Option<f64>,
}

/// A source.
#[derive(Deserialize)]
pub struct Source {
    pub id: String,
    pub provider: String,
    pub name: Option<String>,
    pub status: String,
    pub enabled: bool,
    pub unsigned: bool,
    pub ingest_url: String,
    pub missing_settings: Vec<String>,
    pub warning: Option<String>,
    pub has_secret: bool,
    pub secret_age_days: Option<u64>,
    pub mode: String,
    pub priority: String,
    pub executor: Option<Value>,
    pub created_at: Timestamp,
    pub previous_expires_at: Option<Timestamp>,
    pub settings: Map<String, Value>,
    pub filter: Vec<String>,
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

impl Source {
    /// What to call it.
    pub fn label(&self) -> String {
        let name = self.name.as_deref().filter(|name| !name.is_empty());
        visible(name.unwrap_or(&self.provider))
    }
}

/// A provider that sources can be of.
#[derive(Deserialize)]
pub struct Provider {
    pub name: String,
    pub label: String,
    pub makes_secret: bool,
    pub settings: Vec<ProviderSetting>,
    pub samples: Vec<String>,
}

/// A setting that a provider's sources have.
#[derive(Deserialize)]
pub struct ProviderSetting {
    pub name: String,
    pub label: String,
    pub required: bool,
    pub secret: bool,
    pub help: String,
    pub example: Option<String>,
}

/// A webhook.
#[derive(Deserialize)]
pub struct Webhook {
    pub id: String,
    pub url: Option<String>,
    pub mode: String,
    pub events: Vec<String>,
    pub description: Option<String>,
    pub status: String,
    pub disabled_reason: Option<String>,
    pub circuit: Circuit,
    pub signature: String,
    pub rate_per_s: Option<f64>,
    pub order: bool,
    pub timeout_s: u64,
    pub created_at: Timestamp,
    pub secret_age_days: Option<u64>,
}

/// How a webhook's circuit stands.
#[derive(Deserialize)]
pub struct Circuit {
    pub state: String,
    pub failures: u64,
    pub open_until: Option<Timestamp>,
    pub disables_at: Option<Timestamp>,
    #[serde(default)]
    pub history: Vec<CircuitMove>,
}

/// A move of a circuit.
#[derive(Deserialize)]
pub struct CircuitMove {
    pub at: Timestamp,
    pub state: String,
    pub reason: Option<String>,
}

/// How a webhook's deliveries stand.
#[derive(Deserialize)]
pub struct WebhookStats {
    pub deliveries: BTreeMap<String, u64>,
    pub total: u64,
    pub success_rate: Option<f64>,
}

impl WebhookStats {
    /// How many have not ended, and do not run.
    pub fn waiting(&self) -> u64 {
        let waits = |state: &&String| {
            matches!(state.as_str(), "pending" | "scheduled" | "retrying" | "held")
        };
        self.deliveries.iter().filter(|(state, _)| waits(state)).map(|(_, count)| count).sum()
    }

    /// How many were given up.
    pub fn dead(&self) -> u64 {
        self.deliveries.get("dead_letter").copied().unwrap_or_default()
    }
}

/// A published event.
#[derive(Deserialize)]
pub struct Published {
    pub id: String,
    #[serde(rename = "type")]
    pub event_type: String,
    pub status: String,
    pub created_at: Timestamp,
    pub dedup_key: Option<String>,
    pub duplicates: u64,
    pub parent_id: Option<String>,
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// A type of published events.
#[derive(Deserialize)]
pub struct EventType {
    pub name: String,
    pub description: Option<String>,
    pub versions: BTreeMap<String, TypeVersion>,
    pub shared: bool,
}

/// One version of a type.
#[derive(Deserialize)]
pub struct TypeVersion {
    #[serde(default)]
    pub schema: Value,
    #[serde(default)]
    pub example: Value,
    pub change: Option<String>,
}

/// A tenant.
#[derive(Deserialize)]
pub struct Tenant {
    pub slug: String,
    pub name: String,
    pub weight: u32,
    pub concurrency: Option<u32>,
    pub rate_per_s: Option<f64>,
    pub retention: Option<Ages>,
    pub created_at: Timestamp,
}

/// A key, without its secret.
#[derive(Deserialize)]
pub struct Key {
    pub id: String,
    pub name: String,
    pub role: String,
    pub tenant: String,
    pub expires_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
}

/// An entry of the audit trail.
#[derive(Deserialize)]
pub struct AuditEntry {
    pub id: String,
    pub at: Timestamp,
    pub actor: String,
    pub action: String,
    pub target: String,
    pub note: Option<String>,
}

/// Bulk work.
#[derive(Deserialize)]
pub struct Operation {
    pub id: String,
    pub kind: String,
    pub status: String,
    pub matched: u64,
    pub done: u64,
    pub failed: u64,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

/// An alert.
#[derive(Deserialize)]
pub struct Alert {
    pub kind: String,
    pub subject: Option<String>,
    pub severity: String,
    pub title: String,
    pub detail: Option<String>,
    pub status: String,
    pub fired_at: Timestamp,
    pub resolved_at: Option<Timestamp>,
}
