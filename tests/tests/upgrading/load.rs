//! What goes on from the first moment: senders, a publisher and a worker, who know only what they knew before.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use wakepost_tests::{Source, Worker, known_request};

use super::upgraded::Upgraded;

/// The provider of the load.
const PROVIDER: &str = "github";
/// The job that its events make.
const KIND: &str = "issues.opened";

/// Uses the gateway until it is told to stop. Every answer must be a good one.
pub async fn load(upgraded: &Upgraded, done: &AtomicBool) {
    let (sent, published, worked) =
        tokio::join!(send(upgraded, done), publish(upgraded, done), work(upgraded, done));
    assert!(sent > 0 && published > 0 && worked > 0, "{sent}, {published}, {worked}");
}

/// New events, each followed by a repeat of an old one.
async fn send(upgraded: &Upgraded, done: &AtomicBool) -> usize {
    let sender = &upgraded.told["senders"][PROVIDER];
    let source = Source::known(&sender["source"]);
    let old = known_request(&sender["request"]);
    let mut sent = 0;
    while !done.load(Ordering::Relaxed) {
        let id = format!("{}", 900_000 + sent);
        let new = upgraded.gateway.send_request(&source.sample(&id)).await.is(202);
        assert_ne!(new.event_ids(), [sender["event_id"].as_str().expect("an id")]);
        let again = upgraded.gateway.send_request(&source.sign_again(&old, "7001")).await.is(200);
        assert_eq!(again.event_ids(), [sender["event_id"].as_str().expect("an id")]);
        sent += 1;
    }
    sent
}

async fn publish(upgraded: &Upgraded, done: &AtomicBool) -> usize {
    let publisher = upgraded.key("publisher");
    let mut published = 0;
    while !done.load(Ordering::Relaxed) {
        let event = json!({"type": "load.made", "data": {"n": published}});
        publisher.post("/events", event).await.is(202);
        published += 1;
    }
    published
}

async fn work(upgraded: &Upgraded, done: &AtomicBool) -> usize {
    let worker = Worker::new(&upgraded.key("worker"), "load");
    let mut worked = 0;
    while !done.load(Ordering::Relaxed) {
        let ask = json!({"kinds": [KIND], "max": 10, "wait_s": 1, "lease_s": 60});
        for lease in worker.lease_many(ask).await {
            lease.begin("mail").await.is(200);
            lease.commit("mail", json!({"sent": worked})).await.is(200);
            lease.complete(json!("done")).await.is(200);
            worked += 1;
        }
    }
    worked
}
