//! Events of one's own, published to whoever subscribed.

use aws_lc_rs::rand;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::{get, post};
use crate::lenient::null_as_default;
use crate::{Call, Client, Delivery, Page, PageQuery};

/// An event to publish: `event_type` and `data` are needed.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct NewEvent {
    /// What happened: lower-case words joined by dots, such as `order.created`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// What it happened to. Subscribers get it as `data.object`.
    pub data: Value,
    /// In which version of the type's schema `data` is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// What changed, as it was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_attributes: Option<Value>,
    /// `false`: a rehearsal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub livemode: Option<bool>,
    /// A repeat within 30 days gets the first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup_key: Option<String>,
    /// Events that share it arrive in order, at webhooks that want order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_key: Option<String>,
    /// Not delivered before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliver_at: Option<String>,
}

/// An event that was published.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PublishedEvent {
    /// Its id, which is also the `webhook-id` of every delivery of it.
    pub id: String,
    /// What happened.
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    pub event_type: String,
    /// Of a new one `accepted` or `duplicate`; later where its deliveries stand, all in all.
    #[serde(deserialize_with = "null_as_default")]
    pub status: String,
    /// When it was published.
    pub created_at: Option<String>,
    /// When its delivery begins, if that is later.
    pub deliver_at: Option<String>,
    /// What made repeats of it duplicates.
    pub dedup_key: Option<String>,
    /// How many repeats there were.
    #[serde(deserialize_with = "null_as_default")]
    pub duplicates: u64,
    /// The job whose agent published it.
    pub parent_id: Option<String>,
    /// The version at its creation, which stays; like all that follows only in a single event.
    pub api_version: Option<String>,
    /// Whether it is meant.
    pub livemode: Option<bool>,
    /// What it happened to, as it was published, while it is kept.
    pub data: Value,
    /// What subscribers get, while it is kept.
    pub envelope: Value,
}

/// Which published events to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PublishedQuery {
    /// Of this type, or with this beginning if it ends with `*`.
    #[serde(rename = "type")]
    pub event_type: Option<String>,
    /// With this dedup key.
    pub dedup_key: Option<String>,
    /// That this job's agent published.
    pub parent: Option<String>,
    /// Published at or after this time.
    pub since: Option<String>,
    /// Published before this time.
    pub until: Option<String>,
    /// How many.
    pub limit: Option<u32>,
    /// From where.
    pub cursor: Option<String>,
}

/// What [`Client::publish_many`] answers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PublishedEvents {
    /// One event for each, in order.
    pub data: Vec<PublishedEvent>,
}

impl Client {
    /// `POST /events`: stored when it is answered, delivered from then on.
    ///
    /// It is repeated while the server is away, and published once: by its dedup key, by the
    /// [`Call::idempotency_key`] you give, or else by one that is made here.
    pub fn publish(&self, event: &NewEvent) -> Call<PublishedEvent> {
        let call = self.linked(self.call(post(&["events"], event))).repeatable();
        match event.dedup_key {
            Some(_) => call,
            None => call.idempotency_key(&new_key()),
        }
    }

    /// `POST /events` with up to 1,000: all or none. Repeated as [`Client::publish`] is.
    pub fn publish_many(&self, events: &[NewEvent]) -> Call<PublishedEvents> {
        let keyed = events.iter().filter(|event| event.dedup_key.is_some()).count();
        if keyed == 0 {
            let call = self.linked(self.call(post(&["events"], &events))).repeatable();
            return call.idempotency_key(&new_key());
        }
        // An array has dedup keys or one idempotency key. Where some events have a dedup key, the others get one that
        // nobody else has: else a repeat would publish those twice.
        let mut events = events.to_vec();
        for event in &mut events {
            event.dedup_key.get_or_insert_with(new_key);
        }
        self.linked(self.call(post(&["events"], &events))).repeatable()
    }

    /// `GET /events`: what was published, newest first.
    pub fn list_published(&self, query: &PublishedQuery) -> Call<Page<PublishedEvent>> {
        self.call(get(&["events"]).query(query))
    }

    /// `GET /events/{id}`
    pub fn get_published(&self, id: &str) -> Call<PublishedEvent> {
        self.call(get(&["events", id]))
    }

    /// `GET /events/{id}/deliveries`: to whom it went, and how that went.
    pub fn published_deliveries(&self, id: &str, query: &PageQuery) -> Call<Page<Delivery>> {
        self.call(get(&["events", id, "deliveries"]).query(query))
    }
}

/// A key that nobody else has.
fn new_key() -> String {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).expect("the system has random bytes, or TLS would not work either");
    format!("{:032x}", u128::from_be_bytes(bytes))
}
