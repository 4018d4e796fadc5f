//! Alerts: what is wrong, and what was.

use serde::{Deserialize, Serialize};

use crate::call::get;
use crate::{Call, Client, Page};

/// An alert.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Alert {
    /// Its id.
    pub id: String,
    /// What is wrong: `dead_letters`, `circuit_open` and so on.
    pub kind: String,
    /// How bad, at its worst: `warning` or `critical`.
    pub severity: String,
    /// In a few words.
    pub title: String,
    /// In a sentence or two.
    pub detail: String,
    /// The webhook or the source it is about; none: the tenant as a whole.
    pub subject: Option<String>,
    /// `firing` or `resolved`.
    pub status: String,
    /// When it fired.
    pub fired_at: Option<String>,
    /// When it was over.
    pub resolved_at: Option<String>,
    /// How it is, or was when last seen.
    pub value: f64,
    /// From what on it is wrong.
    pub threshold: f64,
}

/// Which alerts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AlertQuery {
    /// Only those that stand so: `firing` or `resolved`.
    pub status: Option<String>,
    /// How many.
    pub limit: Option<u32>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

impl Client {
    /// `GET /alerts`
    pub fn list_alerts(&self, query: &AlertQuery) -> Call<Page<Alert>> {
        self.call(get(&["alerts"]).query(query))
    }
}
