//! How the queue of a tenant stands.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::call::get;
use crate::lenient::null_as_default;
use crate::{Call, Client};

/// How the queue stands.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// Whose.
    pub tenant: String,
    /// When it was looked at.
    pub at: Option<String>,
    /// Whether there is more live work than was counted.
    pub at_least: bool,
    /// Live work by where it stands.
    #[serde(deserialize_with = "null_as_default")]
    pub states: BTreeMap<String, Standing>,
    /// Live work by the queue it waits in.
    #[serde(deserialize_with = "null_as_default")]
    pub priorities: BTreeMap<String, Standing>,
    /// Lanes that have live work, those with most first.
    #[serde(deserialize_with = "null_as_default")]
    pub lanes: Vec<LaneStats>,
    /// The tenant's own bounds.
    #[serde(deserialize_with = "null_as_default")]
    pub limits: Limits,
    /// Sources that have bounds.
    #[serde(deserialize_with = "null_as_default")]
    pub sources: Vec<SourceStats>,
    /// Workers that have leases, or asked for work lately.
    #[serde(deserialize_with = "null_as_default")]
    pub workers: Vec<WorkerStats>,
}

/// How many stand alike.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Standing {
    /// How many.
    pub count: u64,
    /// How long ago the first of them was made.
    pub oldest_age_s: Option<u64>,
}

/// A lane: work that is alike to whoever claims it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneStats {
    /// Where its work comes from.
    pub source: Option<String>,
    /// Of deliveries: where they go.
    pub webhook: Option<String>,
    /// What kind of work it is.
    pub work: Option<String>,
    /// The jobs' own kind.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// Which queue it waits in.
    pub priority: Option<String>,
    /// How many could start now.
    pub ready: u64,
    /// How many run.
    pub running: u64,
    /// How many wait for their time, for another job or for a person.
    pub waiting: u64,
    /// How long ago the first of them was made.
    pub oldest_age_s: Option<u64>,
}

/// Bounds, and what counts towards them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// How many run.
    pub running: u64,
    /// How many may.
    pub concurrency: Option<u64>,
    /// How many may start in a second.
    pub rate_per_s: Option<f64>,
}

/// A source's bounds, and what counts towards them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceStats {
    /// Which source.
    pub source: String,
    /// Its name for people.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Its bounds.
    #[serde(flatten)]
    pub limits: Limits,
    /// Today's budget.
    pub budget: Option<BudgetUse>,
}

/// What was used of today's budget.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetUse {
    /// How many runs began today.
    pub runs: u64,
    /// How many may.
    pub runs_per_day: Option<u64>,
    /// What they cost so far.
    pub cost: f64,
    /// What they may.
    pub cost_per_day: Option<f64>,
    /// What becomes of work beyond it: `wait` or `refuse`.
    pub over: Option<String>,
    /// Whether nothing is left of it today.
    pub spent: bool,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerStats {
    /// Its name.
    pub name: String,
    /// How many runs it has.
    pub leases: u64,
    /// When it last asked for work, or began a run.
    pub last_seen_at: Option<String>,
}

impl Client {
    /// `GET /stats`
    pub fn stats(&self) -> Call<Stats> {
        self.call(get(&["stats"]))
    }
}
