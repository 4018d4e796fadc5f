//! Alerts: what the server found out of order, and when it was well again.

use serde::{Deserialize, Serialize};

use crate::call::get;
use crate::lenient::{null_as_default, or_default, text};
use crate::{Call, Client, Page};

/// One alert.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Alert {
    /// Its id.
    pub id: String,
    /// What it is about.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// `warning` or `critical`.
    #[serde(deserialize_with = "null_as_default")]
    pub severity: String,
    /// In a few words.
    #[serde(deserialize_with = "null_as_default")]
    pub title: String,
    /// In more words.
    #[serde(deserialize_with = "or_default")]
    pub detail: Option<String>,
    /// Which source, webhook or tenant.
    #[serde(deserialize_with = "text")]
    pub subject: String,
    /// `firing` or `resolved`.
    #[serde(deserialize_with = "null_as_default")]
    pub status: String,
    /// When it fired.
    pub fired_at: Option<String>,
    /// When it was well again.
    pub resolved_at: Option<String>,
    /// What was measured.
    #[serde(deserialize_with = "or_default")]
    pub value: Option<f64>,
    /// What it should have kept within.
    #[serde(deserialize_with = "or_default")]
    pub threshold: Option<f64>,
}

/// Which alerts to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AlertQuery {
    /// `firing` or `resolved`.
    pub status: Option<String>,
    /// How many.
    pub limit: Option<u32>,
    /// From where.
    pub cursor: Option<String>,
}

impl Client {
    /// `GET /alerts`
    pub fn list_alerts(&self, query: &AlertQuery) -> Call<Page<Alert>> {
        self.call(get(&["alerts"]).query(query))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_alert_is_read_whatever_its_parts_look_like() {
        let alert = json!({"id": "alr_1", "kind": "open_circuit", "severity": "critical", "detail": null,
            "subject": {"webhook": "wh_1"}, "status": "firing", "value": "much", "added_later": 1});
        let alert: Alert = serde_json::from_value(alert).expect("an alert");
        assert_eq!(alert.subject, r#"{"webhook":"wh_1"}"#);
        assert_eq!((alert.value, alert.detail), (None, None));
        let bare: Alert = serde_json::from_value(json!({"id": "alr_2"})).expect("an alert");
        assert_eq!(bare.id, "alr_2");
    }
}
