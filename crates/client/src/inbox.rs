//! The inbox: every event that came in, and what became of it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::{get, post};
use crate::lenient::{null_as_default, or_default};
use crate::{Call, Client, Error, Page, Replay, Replayed};

/// One event.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "Wire")]
pub struct Event {
    /// What happened, in words all providers share. In a list, without `data`.
    pub envelope: Envelope,
    /// Where its work stands.
    pub status: String,
    /// What it was done to, as `provider:kind:id`.
    pub subject: Option<String>,
    /// Its jobs, replies, deliveries and callbacks.
    pub work: Vec<Work>,
    /// The requests that brought it.
    pub receipts: Vec<Receipt>,
    /// What an operator should do.
    pub next_action: Option<String>,
}

/// What agents read, so that their code does not depend on a vendor's JSON.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Envelope {
    /// The event's id.
    pub event_id: String,
    /// The source's id.
    pub source: Option<String>,
    /// Which adapter understood it.
    #[serde(deserialize_with = "null_as_default")]
    pub provider: String,
    /// Whose it is.
    pub tenant_id: Option<String>,
    /// What happened.
    #[serde(deserialize_with = "null_as_default")]
    pub event_type: String,
    /// When it happened, by the provider's word.
    pub occurred_at: Option<String>,
    /// When it was received.
    pub received_at: Option<String>,
    /// `sha256:…` of the raw body.
    pub payload_hash: Option<String>,
    /// What makes a repeat a duplicate.
    pub dedup_key: Option<String>,
    /// What it must be in order with.
    pub order_key: Option<String>,
    /// The provider's request id.
    pub provider_request_id: Option<String>,
    /// Who did it.
    #[serde(deserialize_with = "or_default")]
    pub actor: Option<Actor>,
    /// What it was done to.
    #[serde(deserialize_with = "or_default")]
    pub subject: Option<Subject>,
    /// The message, on messaging platforms.
    #[serde(deserialize_with = "or_default")]
    pub message: Option<Message>,
    /// The parsed payload.
    pub data: Value,
}

/// Who did it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Actor {
    /// The provider's id for them.
    pub id: Option<String>,
    /// Their name.
    pub name: Option<String>,
    /// Their address.
    pub email: Option<String>,
    /// Whether the provider vouches for who they are.
    #[serde(deserialize_with = "null_as_default")]
    pub verified: bool,
}

/// What it was done to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// What kind of thing.
    pub kind: String,
    /// The provider's id for it.
    pub id: String,
    /// Where a person can see it.
    #[serde(default)]
    pub url: Option<String>,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Message {
    /// The conversation.
    pub thread_id: Option<String>,
    /// What was said.
    pub text: Option<String>,
    /// `dm`, `channel` and so on.
    pub conversation_type: Option<String>,
    /// What made it start a job.
    pub trigger: Option<String>,
    /// What came with it.
    #[serde(deserialize_with = "null_as_default")]
    pub files: Vec<Value>,
}

/// One work item of an event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// `job`, `reply`, `delivery` or `callback`.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// Where it stands.
    pub status: String,
    /// How often it was claimed.
    pub attempts: Option<u32>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// The item that took its place.
    pub replayed_as: Option<String>,
    /// The work that led to it.
    pub parent_id: Option<String>,
}

/// One request that was received.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Receipt {
    /// Its id.
    pub id: Option<String>,
    /// `accepted`, `duplicate` and so on.
    #[serde(deserialize_with = "null_as_default")]
    pub verdict: String,
    /// What kind of duplicate.
    #[serde(alias = "classification")]
    pub class: Option<String>,
    /// From where.
    #[serde(alias = "remote_addr")]
    pub address: Option<String>,
    /// When.
    pub received_at: Option<String>,
    /// The event it became or repeated.
    pub event_id: Option<String>,
    /// How long it took, in microseconds.
    pub latency_us: Option<i64>,
    /// What an operator should know.
    pub detail: Option<String>,
    /// What the class is concluded from.
    #[serde(deserialize_with = "or_default")]
    pub evidence: Option<Evidence>,
}

/// A duplicate beside the first of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// How long after the first it came.
    pub seconds_after: Option<u64>,
    /// Whether it has the first's id.
    pub same_id: Option<bool>,
    /// Whether it has the first's body.
    pub same_body: Option<bool>,
    /// Whether it has the first's signature; `None` where that says nothing.
    pub same_signature: Option<bool>,
    /// Whether it came from where the first did.
    pub same_address: Option<bool>,
    /// What the provider's retry header said.
    pub retry_header: Option<String>,
    /// How our own earlier answer failed.
    pub our_fault: Option<String>,
}

/// An event as the server writes it: a detail has an `envelope`, a list item may have its fields on top.
#[derive(Deserialize)]
struct Wire {
    id: Option<String>,
    #[serde(rename = "type")]
    event_type: Option<String>,
    tenant: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    status: String,
    #[serde(default)]
    subject: Value,
    envelope: Option<Envelope>,
    #[serde(flatten)]
    top: Envelope,
    #[serde(default, deserialize_with = "null_as_default")]
    work: Vec<Work>,
    #[serde(default, deserialize_with = "null_as_default")]
    receipts: Vec<Receipt>,
    next_action: Option<String>,
}

impl From<Wire> for Event {
    fn from(wire: Wire) -> Event {
        let mut envelope = wire.envelope.unwrap_or(wire.top);
        if envelope.event_id.is_empty() {
            envelope.event_id = wire.id.unwrap_or_default();
        }
        if envelope.event_type.is_empty() {
            envelope.event_type = wire.event_type.unwrap_or_default();
        }
        envelope.tenant_id = envelope.tenant_id.or(wire.tenant);
        let subject = match wire.subject {
            Value::String(text) => Some(text),
            other => {
                envelope.subject = envelope.subject.or_else(|| serde_json::from_value(other).ok());
                let of = |s: &Subject| format!("{}:{}:{}", envelope.provider, s.kind, s.id);
                envelope.subject.as_ref().map(of)
            }
        };
        Event {
            envelope,
            status: wire.status,
            subject,
            work: wire.work,
            receipts: wire.receipts,
            next_action: wire.next_action,
        }
    }
}

/// Which events to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct InboxQuery {
    /// Of this source.
    pub source: Option<String>,
    /// Of this provider.
    pub provider: Option<String>,
    /// Of this event type.
    #[serde(rename = "type")]
    pub event_type: Option<String>,
    /// In this status.
    pub status: Option<String>,
    /// Of this conversation.
    pub thread: Option<String>,
    /// About this subject (`provider:kind:id`).
    pub subject: Option<String>,
    /// With this dedup key.
    pub dedup_key: Option<String>,
    /// Received at or after this time.
    pub since: Option<String>,
    /// Received before this time.
    pub until: Option<String>,
    /// Whose id, type, subject or dedup key begins so.
    pub q: Option<String>,
    /// How many.
    pub limit: Option<u32>,
    /// From where.
    pub cursor: Option<String>,
}

/// Which events are run again, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ReplayMany {
    /// Which: the same names as the list has.
    pub filter: serde_json::Map<String, Value>,
    /// Who, and why.
    pub note: String,
    /// `same`: what happened is skipped; `fresh`: everything may happen again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Only count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
}

/// Bulk work that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct OperationBegun {
    /// Its id.
    pub operation_id: String,
}

/// How far bulk work is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Operation {
    /// Its id.
    pub id: String,
    /// What is done to each item.
    pub kind: String,
    /// `running` or `succeeded`.
    pub status: String,
    /// How many items fitted so far.
    pub matched: u64,
    /// To how many it was done.
    pub done: u64,
    /// To how many it could not be done.
    pub failed: u64,
}

/// The headers that an event came with, less its sender's credentials.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EventHeaders {
    /// Each line: a name may stand more than once.
    pub headers: Vec<HeaderLine>,
}

/// A header.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HeaderLine {
    /// Its name, in lower case.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl Client {
    /// `GET /inbox`
    pub fn list_inbox(&self, query: &InboxQuery) -> Call<Page<Event>> {
        self.call(get(&["inbox"]).query(query))
    }

    /// `GET /inbox/{event_id}`
    pub fn get_event(&self, event_id: &str) -> Call<Event> {
        self.call(get(&["inbox", event_id]))
    }

    /// `GET /inbox/{event_id}/raw`: the exact bytes that were received.
    pub async fn get_event_raw(&self, event_id: &str) -> Result<Bytes, Error> {
        let path = ["inbox", event_id, "raw"];
        self.call::<crate::Nothing>(get(&path)).bytes().await
    }

    /// `GET /inbox/{event_id}/headers`
    pub fn get_event_headers(&self, event_id: &str) -> Call<EventHeaders> {
        self.call(get(&["inbox", event_id, "headers"]))
    }

    /// `POST /inbox/replay`: many at once, each once.
    pub fn replay_inbox(&self, replay: &ReplayMany) -> Call<OperationBegun> {
        self.call(post(&["inbox", "replay"], replay))
    }

    /// `GET /operations/{id}`: how far bulk work is.
    pub fn get_operation(&self, id: &str) -> Call<Operation> {
        self.call(get(&["operations", id]))
    }

    /// `POST /inbox/{event_id}/replay`
    pub fn replay_event(&self, event_id: &str, replay: &Replay) -> Call<Replayed> {
        self.call(post(&["inbox", event_id, "replay"], replay))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_reads_the_same_nested_or_flat() {
        let nested = json!({"id": "evt_1", "status": "held", "envelope": {"event_id": "evt_1",
            "provider": "github", "event_type": "issues.opened", "tenant_id": "acme",
            "subject": {"kind": "issue", "id": "7", "url": null}, "added_later": 1}});
        let flat = json!({"id": "evt_1", "status": "held", "provider": "github", "tenant": "acme",
            "type": "issues.opened", "subject": {"kind": "issue", "id": "7"}, "added_later": 1});
        let nested: Event = serde_json::from_value(nested).expect("nested");
        let flat: Event = serde_json::from_value(flat).expect("flat");
        assert_eq!(nested, flat);
        assert_eq!(flat.subject.as_deref(), Some("github:issue:7"));
        assert_eq!(flat.envelope.event_id, "evt_1");
    }

    #[test]
    fn a_subject_may_be_text() {
        let event: Event = serde_json::from_value(
            json!({"event_id": "evt_1", "status": "ignored", "subject": "github:issue:7"}),
        )
        .expect("an event");
        assert_eq!(event.subject.as_deref(), Some("github:issue:7"));
    }
}
