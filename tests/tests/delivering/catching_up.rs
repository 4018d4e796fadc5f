//! Catching up: what failed is tried again, and what was never sent is sent, each exactly once however often it is asked
//! for or interrupted.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use wakepost_tests::{Act, Api, Database, Gateway, Receiver, Reply, now, on_both, within};

use crate::subscriber::*;

on_both!(
    recovering_tries_again_what_failed_and_nothing_else,
    recovering_through_a_kill_makes_each_once,
    a_backfill_sends_what_was_never_sent_and_nothing_else,
    a_backfill_through_kills_makes_each_once,
);

/// More than one page of bulk work.
const MANY: usize = 130;
/// A page whose node died is taken up by another after some time.
const PATIENCE: Duration = Duration::from_secs(120);

/// What an operation came to, once it is over.
async fn over(api: &Api, operation: &str) -> Value {
    within(PATIENCE, "the operation is over", async || {
        let shown = api.get(&format!("/operations/{operation}")).await.is(200).json();
        (shown["status"] == "succeeded").then_some(shown)
    })
    .await
}

async fn begin(api: &Api, subscriber: &Subscriber, what: &str, since: &str) -> String {
    let path = subscriber.path(&format!("/{what}"));
    api.post(&path, json!({"since": since})).await.is(202).text("operation_id")
}

const LONG_AGO: &str = "2020-01-01T00:00:00Z";

/// A receiver that refuses everything until it is mended.
async fn broken() -> (Receiver, Arc<AtomicBool>) {
    let mended = Arc::new(AtomicBool::new(false));
    let state = mended.clone();
    let receiver = receiver(move |_, _| match state.load(Ordering::SeqCst) {
        true => Reply::new(200, ""),
        false => Reply::new(400, "broken"),
    })
    .await;
    (receiver, mended)
}

/// Each event has been taken exactly once, by a delivery of its own.
fn each_once(rows: &[Value], events: &[String]) {
    let taken: Vec<&str> = rows
        .iter()
        .filter(|row| row["status"] == "succeeded")
        .map(|row| row["event_id"].as_str().expect("an event"))
        .collect();
    let different: HashSet<&str> = taken.iter().copied().collect();
    assert_eq!(taken.len(), events.len(), "O6");
    assert_eq!(different, events.iter().map(String::as_str).collect(), "O6");
}

async fn recovering_tries_again_what_failed_and_nothing_else(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let (receiver, mended) = broken().await;
    let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    let other = Subscriber::new(&api, receiver.url("/other"), &["*"]).await;
    let before = publish_many(&api, "order.early", 3).await;
    subscriber.have(3, "dead_letter").await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let since = now().to_string();
    let events = publish_many(&api, "order.created", 5).await;
    subscriber.have(8, "dead_letter").await;
    other.have(8, "dead_letter").await;
    mended.store(true, Ordering::SeqCst);
    let fine = publish_many(&api, "order.fine", 2).await;
    subscriber.have(2, "succeeded").await;

    let shown = over(&api, &begin(&api, &subscriber, "recover", &since).await).await;
    assert_eq!((&shown["matched"], &shown["done"]), (&json!(5), &json!(5)), "{shown}");
    subscriber.have(7, "succeeded").await;
    let again = over(&api, &begin(&api, &subscriber, "recover", &since).await).await;
    assert_eq!(again["matched"], 0, "{again}");
    let rows = subscriber.deliveries().await;
    assert_eq!(rows.len(), 8 + 2 + 5);
    each_once(&rows, &[events, fine].concat());
    assert_eq!(other.deliveries().await.len(), 10, "nobody else's");
    // The rest too.
    over(&api, &begin(&api, &subscriber, "recover", LONG_AGO).await).await;
    subscriber.have(10, "succeeded").await;
    for id in &before {
        let sent = came(&receiver, "/hook");
        let of_one: Vec<_> = sent.iter().filter(|seen| seen.header("webhook-id") == id).collect();
        assert_eq!(of_one.len(), 2);
        assert_eq!(of_one[0].body, of_one[1].body);
    }
    let wrong = json!({"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"});
    api.post(&subscriber.path("/recover"), wrong).await.refuses_field("until");
    subscriber.act("disable", json!({})).await;
    let late = json!({"since": LONG_AGO});
    api.post(&subscriber.path("/recover"), late.clone()).await.refuses(409, "invalid_state");
    api.post(&subscriber.path("/backfill"), late).await.refuses(409, "invalid_state");
}

async fn recovering_through_a_kill_makes_each_once(database: Database) {
    let places = [("operation.before_position", 1), ("replay.mid_batch", 40)];
    let tries = Act::tried(Act::Kill).into_iter().flat_map(|act| places.map(|at| (act, at)));
    for (act, (place, nth)) in tries {
        let mut gateway = setup(database).failpoints(&act.at(place, nth)).start().await;
        let api = gateway.admin();
        let (receiver, mended) = broken().await;
        let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
        let events = publish_many(&api, "order.created", MANY).await;
        subscriber.have(MANY, "dead_letter").await;
        mended.store(true, Ordering::SeqCst);
        let operation = begin(&api, &subscriber, "recover", LONG_AGO).await;
        act.done(&mut gateway, place).await;
        let api = gateway.admin();
        let subscriber = subscriber.through(&api);
        let shown = over(&api, &operation).await;
        assert_eq!(shown["done"], MANY, "{place}, {act:?}: {shown}");
        all_taken(&subscriber, MANY).await;
        let rows = subscriber.deliveries().await;
        assert_eq!(rows.len(), 2 * MANY, "O6: {place}");
        each_once(&rows, &events);
    }
}

/// Longer than usual: what was under way when a node died waits for its lease to end.
async fn all_taken(subscriber: &Subscriber, count: usize) {
    within(PATIENCE, "all are taken", async || {
        let rows = subscriber.deliveries().await;
        let taken = rows.iter().filter(|row| row["status"] == "succeeded").count();
        (taken >= count).then_some(())
    })
    .await;
}

async fn a_backfill_sends_what_was_never_sent_and_nothing_else(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    let early = publish_many(&api, "order.early", 4).await;
    publish_many(&api, "user.seen", 3).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let since = now().to_string();
    let missed = publish_many(&api, "order.created", 6).await;
    let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["order.*", "webhook.*"]).await;
    let got = publish_many(&api, "order.paid", 2).await;
    subscriber.have(2, "succeeded").await;

    let shown = over(&api, &begin(&api, &subscriber, "backfill", &since).await).await;
    assert_eq!(shown["status"], "succeeded");
    subscriber.have(8, "succeeded").await;
    for _ in 0..2 {
        over(&api, &begin(&api, &subscriber, "backfill", &since).await).await;
    }
    let rows = subscriber.deliveries().await;
    assert_eq!(rows.len(), 8, "asked for thrice, made once");
    each_once(&rows, &[missed.clone(), got.clone()].concat());
    over(&api, &begin(&api, &subscriber, "backfill", LONG_AGO).await).await;
    subscriber.have(12, "succeeded").await;
    each_once(&subscriber.deliveries().await, &[missed, got, early].concat());
    assert_eq!(came(&receiver, "/hook").len(), 12);
    for seen in came(&receiver, "/hook") {
        subscriber.signed(&seen);
        assert_eq!(seen.json()["id"], seen.header("webhook-id"));
    }
}

async fn a_backfill_through_kills_makes_each_once(database: Database) {
    let places = [("operation.before_position", 1), ("backfill.before_page", 2)];
    let tries = Act::tried(Act::Kill).into_iter().flat_map(|act| places.map(|at| (act, at)));
    for (act, (place, nth)) in tries.chain([(Act::Kill, ("", 0))]) {
        let failpoint = if place.is_empty() { String::new() } else { act.at(place, nth) };
        let mut gateway = setup(database).failpoints(&failpoint).start().await;
        let api = gateway.admin();
        let receiver = taker().await;
        let events = publish_many(&api, "order.created", MANY).await;
        let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
        let operation = begin(&api, &subscriber, "backfill", LONG_AGO).await;
        match place {
            // As soon as anything came of it.
            "" => {
                comes(&receiver, "/hook", 1).await;
                gateway.restart().await;
            }
            _ => act.done(&mut gateway, place).await,
        }
        let api = gateway.admin();
        let subscriber = subscriber.through(&api);
        over(&api, &operation).await;
        all_taken(&subscriber, MANY).await;
        let rows = subscriber.deliveries().await;
        assert_eq!(rows.len(), MANY, "O6: {place}, {act:?}");
        each_once(&rows, &events);
        assert_eq!(events_at(&receiver, "/hook").len(), MANY);
        again_makes_nothing(&gateway, &subscriber).await;
    }
}

async fn again_makes_nothing(gateway: &Gateway, subscriber: &Subscriber) {
    let api = gateway.admin();
    over(&api, &begin(&api, subscriber, "backfill", LONG_AGO).await).await;
    assert_eq!(subscriber.deliveries().await.len(), MANY);
}
