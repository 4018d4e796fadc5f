//! Pull mode: a webhook whose deliveries are fetched, by those whom nobody can reach.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::post;
use crate::lease::leased;
use crate::lenient::{null_as_default, text};
use crate::{Call, Client, Error, Heartbeat, Moved};

/// How many deliveries to lease, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DeliveryLeaseQuery {
    /// Who asks, for people.
    pub worker: String,
    /// At most how many (1–500).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// How long to wait for one (0–30).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
    /// How long the lease lasts (1–3600).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_s: Option<u64>,
}

/// What a lease call answers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LeasedDeliveries {
    /// The deliveries; none: there was nothing to deliver.
    pub deliveries: Vec<LeasedDelivery>,
}

/// A delivery that is the caller's until its lease expires.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct LeasedDelivery {
    /// Its id.
    pub id: String,
    /// Proves that it is ours; every call about it carries it.
    pub lease_token: String,
    /// Until when.
    pub lease_expires_at: Option<String>,
    /// Which try this is.
    #[serde(deserialize_with = "null_as_default")]
    pub attempt: u32,
    /// The headers that a push would have had, signature included.
    #[serde(deserialize_with = "null_as_default")]
    pub headers: BTreeMap<String, String>,
    /// The body that a push would have had.
    #[serde(deserialize_with = "text")]
    pub body: String,
}

impl LeasedDelivery {
    /// The event's id: the same over all tries and replays.
    pub fn event_id(&self) -> Option<&str> {
        let is_id = |name: &str| name.eq_ignore_ascii_case("webhook-id");
        self.headers.iter().find(|(name, _)| is_id(name)).map(|(_, value)| value.as_str())
    }

    /// The event.
    pub fn event(&self) -> Result<Value, Error> {
        serde_json::from_str(&self.body).map_err(|error| Error::Protocol(error.to_string()))
    }

    /// Its headers as a [`Verifier`](crate::Verifier) takes them.
    pub fn header_map(&self) -> HeaderMap {
        let pairs = self.headers.iter().filter_map(|(name, value)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        });
        pairs.collect()
    }
}

impl std::fmt::Debug for LeasedDelivery {
    /// Without the lease token and the payload.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeasedDelivery")
            .field("id", &self.id)
            .field("event_id", &self.event_id())
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// Why a delivery was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Nack {
    /// What went wrong.
    pub error: String,
    /// `false`: straight to the dead letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// When to offer it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
    /// Nothing went wrong, the consumer stops: another gets it, and no attempt is counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hand_back: bool,
}

#[derive(Serialize)]
struct Extend {
    #[serde(skip_serializing_if = "Option::is_none")]
    extend_s: Option<u64>,
}

#[derive(Serialize)]
struct Taken {}

impl Client {
    /// `POST /webhooks/{id}/deliveries/lease`: waits up to `wait_s` for something to deliver.
    pub fn lease_deliveries(
        &self,
        webhook: &str,
        query: &DeliveryLeaseQuery,
    ) -> Call<LeasedDeliveries> {
        self.call(post(&["webhooks", webhook, "deliveries", "lease"], query))
            .and_wait(Duration::from_secs(query.wait_s.unwrap_or(0)))
    }

    /// `POST /deliveries/{id}/ack`: it was taken.
    pub fn ack_delivery(&self, id: &str, token: &str) -> Call<Moved> {
        self.call(post(&["deliveries", id, "ack"], &leased(token, Taken {})))
    }

    /// `POST /deliveries/{id}/nack`: it was not, and is offered again by the webhook's own schedule.
    pub fn nack_delivery(&self, id: &str, token: &str, nack: &Nack) -> Call<Moved> {
        self.call(post(&["deliveries", id, "nack"], &leased(token, nack)))
    }

    /// `POST /deliveries/{id}/heartbeat`: left out, `extend_s` is as long as the lease was asked to last.
    pub fn heartbeat_delivery(
        &self,
        id: &str,
        token: &str,
        extend_s: Option<u64>,
    ) -> Call<Heartbeat> {
        self.call(post(&["deliveries", id, "heartbeat"], &leased(token, Extend { extend_s })))
    }
}
