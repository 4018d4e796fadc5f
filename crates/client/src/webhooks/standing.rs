//! What the server says of a webhook: how its circuit stands, how a trial went, what it signs with now.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::lenient::{null_as_default, text};

/// Whether a webhook's receiver is being spared.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Circuit {
    /// `closed`: all is well; `open`: deliveries wait; `half_open`: one is tried.
    #[serde(deserialize_with = "null_as_default")]
    pub state: String,
    /// How many deliveries failed in a row.
    #[serde(deserialize_with = "null_as_default")]
    pub failures: u64,
    /// Since when it is open.
    pub opened_at: Option<String>,
    /// How it moved, as the server says it.
    #[serde(deserialize_with = "null_as_default")]
    pub history: Vec<Value>,
}

/// What the receiver of a sample answered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WebhookTried {
    /// The HTTP status; none if there was no answer.
    pub status_code: Option<u16>,
    /// The beginning of the body.
    #[serde(deserialize_with = "text")]
    pub body: String,
    /// How long each step took.
    #[serde(deserialize_with = "null_as_default")]
    pub timings: Map<String, Value>,
    /// Why there was no answer.
    pub error: Option<String>,
}

/// What a rotation came to.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RotatedWebhook {
    /// What deliveries are signed with from now on: shown once.
    pub secret: Option<String>,
    /// The new public key, of a webhook that signs with a key pair.
    pub public_key: Option<String>,
    /// Until when the old secret signs too.
    pub previous_expires_at: Option<String>,
}

impl fmt::Debug for RotatedWebhook {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RotatedWebhook")
            .field("previous_expires_at", &self.previous_expires_at)
            .finish_non_exhaustive()
    }
}
