//! What the server says of a source: whether it is ready, how it is set up, how a trial went.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lenient::{names, null_as_default};

/// Whether a source is ready.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceStatus {
    /// Its id.
    pub id: String,
    /// Its provider.
    #[serde(deserialize_with = "null_as_default")]
    pub provider: String,
    /// The provider's name for people.
    pub label: Option<String>,
    /// Whether it accepts requests.
    pub enabled: Option<bool>,
    /// Whether it can verify them.
    pub configured: Option<bool>,
    /// What to enter at the provider.
    pub webhook_url: Option<String>,
    /// What it must still be told, to receive or to reply.
    #[serde(deserialize_with = "names")]
    pub missing_settings: Vec<String>,
    /// When its registration at the provider ends, where it does; the server renews it before.
    pub expires_at: Option<String>,
    /// What is wrong with its set-up.
    pub error: Option<String>,
}

/// What a set-up came to.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceSetup {
    /// The source's id.
    pub id: String,
    /// `registered`, or `manual` where somebody must do the steps.
    #[serde(deserialize_with = "null_as_default")]
    pub status: String,
    /// What to do at the provider.
    #[serde(deserialize_with = "null_as_default")]
    pub steps: Vec<String>,
    /// The secret that the provider sent, to be entered there: shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification_token: Option<String>,
}

impl fmt::Debug for SourceSetup {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceSetup")
            .field("id", &self.id)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// A request to try a source with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Trial {
    /// What happened, by one of the provider's samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// What is wrong with it: `bad_signature`, `stale` or `duplicate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// What a source answered.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Tried {
    /// What was sent.
    pub event_type: String,
    /// The HTTP status.
    pub status_code: u16,
    /// The body.
    pub body: Value,
}
