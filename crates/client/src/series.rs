//! Figures of a tenant over time.

use serde::{Deserialize, Serialize};

use crate::call::get;
use crate::lenient::null_as_default;
use crate::{Call, Client};

/// What was counted over time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// Whose.
    pub tenant: String,
    /// When the first point begins.
    pub from: Option<String>,
    /// When the last point ends; it may not be over yet.
    pub until: Option<String>,
    /// How long a point lasts.
    pub step_s: u64,
    /// One after the other, oldest first, without a gap.
    #[serde(deserialize_with = "null_as_default")]
    pub points: Vec<Point>,
    /// The whole time.
    #[serde(deserialize_with = "null_as_default")]
    pub totals: Counted,
    /// The time of equal length just before; none where that is longer ago than figures are kept.
    pub before: Option<Counted>,
}

/// One step of time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Point {
    /// When it begins.
    pub at: String,
    /// What was counted in it.
    #[serde(flatten)]
    pub counted: Counted,
    /// Work that waited for its turn, at most.
    #[serde(deserialize_with = "null_as_default")]
    pub queue: ByPriority,
    /// How long ago the first of it was made.
    #[serde(deserialize_with = "null_as_default")]
    pub oldest_age_s: ByPriority,
    /// Work that waited for another try, at most.
    pub retrying: Option<u64>,
    /// Webhooks whose circuit was not closed, at most.
    pub open_circuits: Option<u64>,
    /// Dead letters that nobody had dealt with, at most.
    pub dead_letters: Option<u64>,
}

/// What was counted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counted {
    /// Requests of providers, whatever became of them.
    pub received: u64,
    /// Of these, those with a new event.
    pub accepted: u64,
    /// Of these, those with nothing but duplicates.
    pub duplicates: u64,
    /// Of these, those that were refused.
    pub rejected: u64,
    /// Events that were published.
    pub published: u64,
    /// What half of the accepted requests waited at most for their answer.
    pub ack_ms_p50: Option<f64>,
    /// What 99 % of them did.
    pub ack_ms_p99: Option<f64>,
    /// Jobs that succeeded.
    pub jobs_succeeded: u64,
    /// Runs of jobs that failed.
    pub jobs_failed: u64,
    /// Jobs that became dead letters.
    pub jobs_dead: u64,
    /// Deliveries that were taken.
    pub deliveries_succeeded: u64,
    /// Tries to deliver that failed.
    pub deliveries_failed: u64,
    /// First tries to deliver.
    pub first_attempts: u64,
    /// Of these, those that were taken.
    pub first_attempts_succeeded: u64,
    /// Deliveries that became dead letters.
    pub deliveries_dead: u64,
    /// What half of the tries to deliver took at most.
    pub delivery_ms_p50: Option<f64>,
    /// What 99 % of them did.
    pub delivery_ms_p99: Option<f64>,
}

/// A number for each queue; none where nobody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ByPriority {
    /// A person is waiting.
    pub interactive: Option<u64>,
    /// The usual.
    pub webhook: Option<u64>,
    /// Can wait.
    pub batch: Option<u64>,
}

#[derive(Serialize)]
struct SeriesQuery {
    minutes: u32,
}

impl Client {
    /// `GET /series`: the last minutes, 1 to 2880.
    pub fn series(&self, minutes: u32) -> Call<Series> {
        self.call(get(&["series"]).query(&SeriesQuery { minutes }))
    }
}
