//! What a request may say of a webhook.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The fields of a webhook that can be set. What is `None` or empty is not sent: a new webhook gets the default, a
/// changed one keeps what it has. A new one needs `events`, and `url` unless it is a pull webhook.
#[derive(Clone, PartialEq, Default, Serialize)]
pub struct WebhookFields {
    /// Where its deliveries go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `push`: we post; `pull`: deliveries are fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Which events it gets: `order.created`, `order.*` or `*`; all of them, since they replace what was there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Off: new events make no delivery for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// `hmac`, with a shared secret, or `ed25519`, with a key pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Further headers of each delivery, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// How it shows who it is, beside the signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<WebhookAuth>,
    /// How many deliveries may start in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Whether events that share an order key arrive in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<bool>,
    /// How long one try may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// How long to wait before each try, the first among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_s: Option<Vec<u64>>,
    /// When to stop sending to a receiver that fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit_settings: Option<CircuitSettings>,
    /// Notes of the subscriber's own, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Further fields; null sets one back to its default.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl fmt::Debug for WebhookFields {
    /// Without headers and credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookFields")
            .field("url", &self.url)
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

/// How a delivery shows who it is, beside its signature. Only sent, never shown.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WebhookAuth {
    /// `Authorization: Bearer …`
    Bearer {
        /// The token.
        token: String,
    },
    /// `Authorization: Basic …`
    Basic {
        /// Who.
        username: String,
        /// The password.
        password: String,
    },
    /// A client certificate.
    Mtls {
        /// The certificate, as PEM.
        cert: String,
        /// Its private key, as PEM.
        key: String,
    },
}

impl fmt::Debug for WebhookAuth {
    /// Without what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WebhookAuth::Bearer { .. } => "Bearer(…)",
            WebhookAuth::Basic { .. } => "Basic(…)",
            WebhookAuth::Mtls { .. } => "Mtls(…)",
        })
    }
}

/// When a webhook's circuit opens and closes. What is `None` is as by default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CircuitSettings {
    /// So many failures in a row open it; 0: it never opens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
    /// More than this share of failures opens it too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// But only of at least so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// Over how long that is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_s: Option<u64>,
    /// How long it stays open before one delivery is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_s: Option<u64>,
    /// So many successes in a row close it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close_after: Option<u32>,
    /// Open for so long, the webhook is disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_after_s: Option<u64>,
}
