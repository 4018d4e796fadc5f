//! A subscriber, as the tests see one: a webhook, its secret, and what came to its receiver.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use wakepost_domain::Timestamp;
use wakepost_providers::{Check, Request, registry};
use wakepost_tests::{Answer, Api, Database, Gateway, Receiver, Reply, Seen, Setup, now, until};

/// A gateway that may reach the receivers of this machine.
pub fn setup(database: Database) -> Setup {
    Gateway::setup(database)
        .setting("WAKEPOST_ALLOW_HTTP", "true")
        .setting("WAKEPOST_ALLOW_PRIVATE", "true")
}

/// The same, started.
pub async fn gateway(database: Database) -> Gateway {
    setup(database).start().await
}

/// A webhook that was made.
pub struct Subscriber {
    /// Its id.
    pub id: String,
    /// What its deliveries are signed with.
    pub secret: String,
    /// What the answer to its making said.
    pub made: Value,
    api: Api,
}

impl Subscriber {
    /// Subscribes an address to types.
    pub async fn new(api: &Api, url: String, events: &[&str]) -> Subscriber {
        Subscriber::with(api, json!({"url": url, "events": events})).await
    }

    /// Makes a webhook of these fields.
    pub async fn with(api: &Api, fields: Value) -> Subscriber {
        let made = api.post("/webhooks", fields).await.is(201);
        let secret = made.json()["secret"].as_str().unwrap_or_default().to_owned();
        Subscriber { id: made.text("id"), secret, made: made.json(), api: api.clone() }
    }

    /// The same one, asked for through another caller: after a restart, or of another node.
    pub fn through(self, api: &Api) -> Subscriber {
        Subscriber { api: api.clone(), ..self }
    }

    /// Its path in the API, and what follows it.
    pub fn path(&self, rest: &str) -> String {
        format!("/webhooks/{}{rest}", self.id)
    }

    /// As it is shown now.
    pub async fn show(&self) -> Value {
        self.api.get(&self.path("")).await.is(200).json()
    }

    /// Does something to it.
    pub async fn act(&self, what: &str, fields: Value) -> Value {
        self.api.post(&self.path(&format!("/{what}")), fields).await.is(200).json()
    }

    /// Its deliveries, newest first.
    pub async fn deliveries(&self) -> Vec<Value> {
        self.api.list(&self.path("/deliveries")).await
    }

    /// Its delivery of an event, with every try, once it stands somewhere.
    pub async fn delivery(&self, event: &str, status: &str) -> Value {
        until(&format!("the delivery of {event} is {status}"), || async {
            let rows = self.deliveries().await;
            let row = rows.iter().find(|row| row["event_id"] == event)?;
            let shown = show_delivery(&self.api, row["id"].as_str()?).await;
            (shown["status"] == status).then_some(shown)
        })
        .await
    }

    /// Waits until as many of its deliveries stand somewhere.
    pub async fn have(&self, count: usize, status: &str) -> Vec<Value> {
        until(&format!("{count} deliveries are {status}"), || async {
            let path = self.path(&format!("/deliveries?status={status}"));
            Some(self.api.list(&path).await).filter(|rows| rows.len() >= count)
        })
        .await
    }

    /// Waits until its circuit stands so.
    pub async fn circuit_is(&self, state: &str) -> Value {
        until(&format!("the circuit is {state}"), || async {
            Some(self.show().await).filter(|shown| shown["circuit"]["state"] == state)
        })
        .await
    }

    /// Panics unless its secret signed it.
    #[track_caller]
    pub fn signed(&self, seen: &Seen) {
        assert!(verifies(seen, &self.secret), "{:?}", seen.headers);
    }
}

/// A delivery, with every try at it.
pub async fn show_delivery(api: &Api, id: &str) -> Value {
    api.get(&format!("/deliveries/{id}")).await.is(200).json()
}

/// Publishes an event, and says its id.
pub async fn publish(api: &Api, kind: &str, data: Value) -> String {
    api.post("/events", json!({"type": kind, "data": data})).await.is(202).text("id")
}

/// Publishes many of one type in one call, and says their ids.
pub async fn publish_many(api: &Api, kind: &str, count: usize) -> Vec<String> {
    let all: Vec<Value> = (0..count).map(|n| json!({"type": kind, "data": {"n": n}})).collect();
    let said = api.post("/events", json!(all)).await.is(202).json();
    let ids = said["data"].as_array().expect("events").iter();
    ids.map(|event| event["id"].as_str().expect("an id").to_owned()).collect()
}

/// Whether a signature of this secret, or for this public key, is among those of a request.
pub fn verifies(seen: &Seen, secret: &str) -> bool {
    let provider = registry::find("standard-webhooks").expect("the scheme");
    let request = Request {
        method: &Method::POST,
        url: "",
        headers: &seen.headers,
        body: &seen.body,
        fetched: None,
    };
    let (settings, tolerance) = (Default::default(), Duration::from_secs(120));
    let check = Check { secrets: &[secret], settings: &settings, now: now(), tolerance };
    provider.verify(&request, &check).is_ok()
}

/// Whether a request is the ping that comes when a webhook is made.
pub fn is_ping(seen: &Seen) -> bool {
    seen.json()["type"] == "webhook.ping"
}

/// A receiver that takes pings, and answers everything else by how much else came before.
pub async fn receiver(answer: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static) -> Receiver {
    let before = AtomicUsize::new(0);
    Receiver::start(move |seen| match is_ping(seen) {
        true => Reply::new(204, ""),
        false => answer(before.fetch_add(1, Ordering::SeqCst), seen),
    })
    .await
}

/// A receiver that takes everything.
pub async fn taker() -> Receiver {
    receiver(|_, _| Reply::new(200, "")).await
}

/// What came to a path, but pings.
pub fn came(receiver: &Receiver, path: &str) -> Vec<Seen> {
    receiver.seen(path).into_iter().filter(|seen| !is_ping(seen)).collect()
}

/// Waits until so much came to a path, pings not counted.
pub async fn comes(receiver: &Receiver, path: &str, count: usize) -> Vec<Seen> {
    until(&format!("{count} deliveries come to {path}"), || async {
        Some(came(receiver, path)).filter(|seen| seen.len() >= count)
    })
    .await
}

/// The events that came to a path, each once, in the order of their names.
pub fn events_at(receiver: &Receiver, path: &str) -> Vec<String> {
    let came = came(receiver, path);
    let mut ids: Vec<String> =
        came.iter().map(|seen| seen.header("webhook-id").to_owned()).collect();
    ids.sort();
    ids.dedup();
    ids
}

/// A moment in an answer.
#[track_caller]
pub fn moment(value: &Value) -> Timestamp {
    value.as_str().expect("a moment").parse().expect("a moment")
}

/// The tries of a delivery.
#[track_caller]
pub fn tries(delivery: &Value) -> &Vec<Value> {
    delivery["attempts"].as_array().expect("tries")
}

/// A call under an idempotency key.
pub async fn with_key(api: &Api, path: &str, key: &'static str, body: Value) -> Answer {
    let name = "idempotency-key".parse().expect("a name");
    let headers: HeaderMap = [(name, HeaderValue::from_static(key))].into_iter().collect();
    api.call_with(Method::POST, path, headers, Some(&body)).await
}
