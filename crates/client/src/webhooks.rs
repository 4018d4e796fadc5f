//! Webhooks: who subscribed to which events, and how deliveries reach them.

mod fields;
mod standing;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::call::{delete, get, patch, post};
use crate::lenient::{null_as_default, or_default};
use crate::{Call, Client, Delivery, Moved, Nothing, OperationBegun, Page, PageQuery};
pub use fields::{CircuitSettings, WebhookAuth, WebhookFields};
pub use standing::{Circuit, RotatedWebhook, WebhookTried};

/// One webhook.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Webhook {
    /// Its id.
    pub id: String,
    /// Where its deliveries go; none in pull mode.
    pub url: Option<String>,
    /// `push` or `pull`.
    pub mode: Option<String>,
    /// Which events it gets.
    #[serde(deserialize_with = "null_as_default")]
    pub events: Vec<String>,
    /// What it is for.
    pub description: Option<String>,
    /// `active`, `paused` or `disabled`.
    #[serde(deserialize_with = "null_as_default")]
    pub status: String,
    /// Whether events make deliveries for it.
    pub enabled: Option<bool>,
    /// Why it is disabled.
    pub disabled_reason: Option<String>,
    /// Whether its receiver is being spared.
    #[serde(deserialize_with = "or_default")]
    pub circuit: Circuit,
    /// `hmac` or `ed25519`.
    pub signature: Option<String>,
    /// What checks an Ed25519 signature.
    pub public_key: Option<String>,
    /// Further headers of each delivery.
    #[serde(deserialize_with = "or_default")]
    pub headers: BTreeMap<String, String>,
    /// How it shows who it is beside the signature: the kind, never what is secret.
    pub auth: Option<Value>,
    /// How many deliveries may start in a second.
    pub rate_per_s: Option<f64>,
    /// Whether events that share an order key arrive in order.
    pub order: Option<bool>,
    /// How long one try may take.
    pub timeout_s: Option<u64>,
    /// How long to wait before each try.
    pub retry_s: Option<Vec<u64>>,
    /// When its circuit opens and closes.
    #[serde(deserialize_with = "or_default")]
    pub circuit_settings: CircuitSettings,
    /// Notes of the subscriber's own.
    #[serde(deserialize_with = "null_as_default")]
    pub metadata: Map<String, Value>,
    /// Who made it.
    pub created_by: Option<String>,
    /// When.
    pub created_at: Option<String>,
    /// How old its secret is.
    pub secret_age_days: Option<u64>,
    /// What is wrong, although it was saved.
    pub warning: Option<String>,
    /// What deliveries are signed with: shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

impl std::fmt::Debug for Webhook {
    /// Without its secret and headers.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook")
            .field("id", &self.id)
            .field("url", &self.url)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// Which deliveries of a webhook to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DeliveryQuery {
    /// In this status.
    pub status: Option<String>,
    /// How many.
    pub limit: Option<u32>,
    /// From where.
    pub cursor: Option<String>,
}

/// From when to when.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Period {
    /// At or after this time.
    pub since: String,
    /// Before this time; `None`: until now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl Client {
    /// `GET /webhooks`
    pub fn list_webhooks(&self, query: &PageQuery) -> Call<Page<Webhook>> {
        self.call(get(&["webhooks"]).query(query))
    }

    /// `POST /webhooks`: answers the secret, once, after a signed ping was tried.
    pub fn create_webhook(&self, webhook: &WebhookFields) -> Call<Webhook> {
        self.call(post(&["webhooks"], webhook))
    }

    /// `GET /webhooks/{id}`
    pub fn get_webhook(&self, id: &str) -> Call<Webhook> {
        self.call(get(&["webhooks", id]))
    }

    /// `PATCH /webhooks/{id}`
    pub fn update_webhook(&self, id: &str, change: &WebhookFields) -> Call<Webhook> {
        self.call(patch(&["webhooks", id], change))
    }

    /// `DELETE /webhooks/{id}`
    pub fn delete_webhook(&self, id: &str) -> Call<Nothing> {
        self.call(delete(&["webhooks", id]))
    }

    /// `POST /webhooks/{id}/test`: sends a sample of this type now; `None`: a ping.
    pub fn test_webhook(&self, id: &str, event_type: Option<&str>) -> Call<WebhookTried> {
        let body = event_type.map_or_else(|| json!({}), |name| json!({"type": name}));
        self.call(post(&["webhooks", id, "test"], &body))
    }

    /// `POST /webhooks/{id}/rotate`: a new secret; the old one signs too for `grace_s` (`None`: a day).
    pub fn rotate_webhook(&self, id: &str, grace_s: Option<u64>) -> Call<RotatedWebhook> {
        let body = grace_s.map_or_else(|| json!({}), |grace_s| json!({"grace_s": grace_s}));
        self.call(post(&["webhooks", id, "rotate"], &body))
    }

    /// `POST /webhooks/{id}/revoke-previous`: the old secret signs no more, from now on.
    pub fn revoke_previous_secret(&self, id: &str) -> Call<Moved> {
        self.move_webhook(id, "revoke-previous")
    }

    /// `POST /webhooks/{id}/pause`: its events are kept until it is resumed, or dropped.
    pub fn pause_webhook(&self, id: &str, keep: bool) -> Call<Moved> {
        self.call(post(&["webhooks", id, "pause"], &json!({"keep": keep})))
    }

    /// `POST /webhooks/{id}/resume`
    pub fn resume_webhook(&self, id: &str) -> Call<Moved> {
        self.move_webhook(id, "resume")
    }

    /// `POST /webhooks/{id}/enable`
    pub fn enable_webhook(&self, id: &str) -> Call<Moved> {
        self.move_webhook(id, "enable")
    }

    /// `POST /webhooks/{id}/disable`: what waits for it goes to the dead letters.
    pub fn disable_webhook(&self, id: &str) -> Call<Moved> {
        self.move_webhook(id, "disable")
    }

    /// `POST /webhooks/{id}/recover`: delivers again what failed in this time.
    pub fn recover_webhook(&self, id: &str, period: &Period) -> Call<OperationBegun> {
        self.call(post(&["webhooks", id, "recover"], period))
    }

    /// `POST /webhooks/{id}/backfill`: delivers events of this time that were never sent to it.
    pub fn backfill_webhook(&self, id: &str, period: &Period) -> Call<OperationBegun> {
        self.call(post(&["webhooks", id, "backfill"], period))
    }

    /// `GET /webhooks/{id}/deliveries`
    pub fn webhook_deliveries(&self, id: &str, query: &DeliveryQuery) -> Call<Page<Delivery>> {
        self.call(get(&["webhooks", id, "deliveries"]).query(query))
    }

    /// `GET /webhooks/{id}/stats`
    pub fn webhook_stats(&self, id: &str) -> Call<Map<String, Value>> {
        self.call(get(&["webhooks", id, "stats"]))
    }

    fn move_webhook(&self, id: &str, verb: &str) -> Call<Moved> {
        self.call(post(&["webhooks", id, verb], &json!({})))
    }
}
