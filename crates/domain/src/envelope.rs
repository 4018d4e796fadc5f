//! The normalized envelope: what agents read, so that their code does not depend on a vendor's JSON.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Who did it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Actor {
    /// The provider's id for them.
    pub id: Option<String>,
    /// Their name.
    pub name: Option<String>,
    /// Their address.
    pub email: Option<String>,
    /// Whether the provider vouches for who they are. Never a guess.
    pub verified: bool,
}

/// What it was done to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// What kind of thing, in the provider's words (`issue`, `charge`).
    pub kind: String,
    /// The provider's id for it.
    pub id: String,
    /// Where a person can see it.
    pub url: Option<String>,
}

impl Subject {
    /// The text clients filter and cancel by: `provider:kind:id`.
    pub fn text(&self, provider: &str) -> String {
        format!("{provider}:{}:{}", self.kind, self.id)
    }
}

/// What a provider's request says, in words all providers share. Derived from the raw bytes, never stored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mapped {
    /// The provider's own id for the event, which makes a repeat a duplicate. `None`: the body's hash.
    pub dedup_key: Option<String>,
    /// A second id that also makes a repeat a duplicate (Slack's team, channel and time stamp).
    pub second_key: Option<String>,
    /// What happened (`issues.opened`).
    pub event_type: String,
    /// Whether the provider's rules say that this makes no job (GitHub's `ping`).
    pub ignored: bool,
    /// When it happened, by the provider's word.
    pub occurred_at: Option<Timestamp>,
    /// Who did it.
    pub actor: Option<Actor>,
    /// What it was done to.
    pub subject: Option<Subject>,
    /// The provider's request id, kept even when unused.
    pub provider_request_id: Option<String>,
}
