//! Deliveries: one event on its way to one webhook, with every try.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::call::{get, post};
use crate::lenient::null_as_default;
use crate::{Call, Client};

/// One event's way to one webhook.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(from = "Wire")]
pub struct Delivery {
    /// Its id.
    pub id: String,
    /// The event.
    pub event_id: Option<String>,
    /// Its type.
    pub event_type: Option<String>,
    /// The webhook.
    pub webhook_id: Option<String>,
    /// Where it stands.
    pub status: String,
    /// How often it was tried.
    pub attempts: u32,
    /// How often it may be.
    pub max_attempts: Option<u32>,
    /// When it is due.
    pub run_at: Option<String>,
    /// When it was made.
    pub created_at: Option<String>,
    /// When it ended.
    pub finished_at: Option<String>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// The delivery that took its place.
    pub replayed_as: Option<String>,
    /// Its tries, the first first; only where one delivery is asked for.
    pub tries: Vec<Attempt>,
}

/// One try to deliver.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Attempt {
    /// Its id.
    pub id: String,
    /// Which try it was.
    pub attempt: Option<u32>,
    /// When it began.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// How it ended.
    pub outcome: Option<String>,
    /// The status that the receiver answered.
    pub status_code: Option<u16>,
    /// The beginning of what it answered.
    pub body: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// Whether it only asked whether an open circuit can be closed; such a try counts toward nothing.
    #[serde(deserialize_with = "null_as_default")]
    pub probe: bool,
    /// What was sent, less secrets.
    #[serde(deserialize_with = "null_as_default")]
    pub request_headers: Map<String, Value>,
    /// How long each step took.
    #[serde(deserialize_with = "null_as_default")]
    pub timings: Map<String, Value>,
}

/// `attempts` is a number in lists, and the tries themselves where one delivery is asked for.
#[derive(Deserialize)]
#[serde(untagged)]
enum Attempts {
    Count(u32),
    Each(Vec<Attempt>),
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Wire {
    id: String,
    event_id: Option<String>,
    #[serde(rename = "type")]
    type_: Option<String>,
    event_type: Option<String>,
    webhook_id: Option<String>,
    webhook: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    status: String,
    attempts: Option<Attempts>,
    max_attempts: Option<u32>,
    run_at: Option<String>,
    created_at: Option<String>,
    finished_at: Option<String>,
    last_error: Option<String>,
    replayed_as: Option<String>,
}

impl From<Wire> for Delivery {
    fn from(wire: Wire) -> Delivery {
        let (attempts, tries) = match wire.attempts {
            None => (0, Vec::new()),
            Some(Attempts::Count(count)) => (count, Vec::new()),
            Some(Attempts::Each(tries)) => {
                let counted = tries.iter().filter(|attempt| !attempt.probe).count();
                (u32::try_from(counted).unwrap_or(u32::MAX), tries)
            }
        };
        Delivery {
            id: wire.id,
            event_id: wire.event_id,
            event_type: wire.event_type.or(wire.type_),
            webhook_id: wire.webhook_id.or(wire.webhook),
            status: wire.status,
            attempts,
            max_attempts: wire.max_attempts,
            run_at: wire.run_at,
            created_at: wire.created_at,
            finished_at: wire.finished_at,
            last_error: wire.last_error,
            replayed_as: wire.replayed_as,
            tries,
        }
    }
}

/// What the replay of a delivery made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct ReplayedDelivery {
    delivery_id: Option<String>,
    job_id: Option<String>,
    id: Option<String>,
}

impl ReplayedDelivery {
    /// The new delivery.
    pub fn id(&self) -> Option<&str> {
        let named = self.delivery_id.as_deref().or(self.job_id.as_deref());
        named.or(self.id.as_deref())
    }
}

#[derive(Serialize)]
struct Note<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

impl Client {
    /// `GET /deliveries/{id}`: with its tries.
    pub fn get_delivery(&self, id: &str) -> Call<Delivery> {
        self.call(get(&["deliveries", id]))
    }

    /// `POST /deliveries/{id}/replay`: delivers it once more, under the same `webhook-id`.
    pub fn replay_delivery(&self, id: &str, note: Option<&str>) -> Call<ReplayedDelivery> {
        self.call(post(&["deliveries", id, "replay"], &Note { note }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn delivery(fields: Value) -> Delivery {
        serde_json::from_value(fields).expect("a delivery")
    }

    #[test]
    fn attempts_are_a_number_or_the_tries_themselves() {
        let listed = delivery(json!({"id": "dlv_1", "attempts": 3, "type": "order.created"}));
        assert_eq!((listed.attempts, listed.tries.len()), (3, 0));
        assert_eq!(listed.event_type.as_deref(), Some("order.created"));
        let whole = delivery(json!({"id": "dlv_1", "webhook_id": "wh_1", "attempts": [
            {"id": "att_1", "attempt": 1, "status_code": 500, "timings": {"dns_ms": 2}},
            {"id": "att_2", "probe": true, "timings": null, "added_later": 1}]}));
        assert_eq!((whole.attempts, whole.tries.len()), (1, 2), "a probe counts toward nothing");
        assert_eq!(whole.tries[0].status_code, Some(500));
        assert_eq!(delivery(json!({"id": "dlv_1", "status": null})).attempts, 0);
    }
}
