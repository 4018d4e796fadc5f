//! Surviving: a server that dies while it delivers loses nothing, and repeats only what nobody knows the end of.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use wakepost_tests::{Act, Database, Gateway, Receiver, Reply, on_both, within};

use crate::subscriber::*;

on_both!(
    a_server_killed_while_it_delivers_loses_none_and_repeats_only_what_is_unknown,
    dying_before_or_after_sending_costs_at_most_a_repeat,
    dying_before_a_circuit_is_written_loses_no_delivery,
    an_error_around_sending_is_tried_again,
    what_was_taken_is_not_sent_again_because_it_could_not_be_recorded_at_once,
    a_server_that_is_asked_to_stop_repeats_what_it_had_under_way,
);

/// What was under way when a node died waits for its lease to end, and then for its turn.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until every event was taken, and answers their deliveries with all tries.
async fn all_taken(gateway: &Gateway, subscriber: &Subscriber, events: &[String]) -> Vec<Value> {
    let api = gateway.admin();
    let rows = within(PATIENCE, "all are taken", async || {
        let rows = subscriber.deliveries().await;
        let taken = rows.iter().filter(|row| row["status"] == "succeeded").count();
        (taken == events.len()).then_some(rows)
    })
    .await;
    let ids: HashSet<&str> = rows.iter().filter_map(|row| row["event_id"].as_str()).collect();
    assert_eq!(ids, events.iter().map(String::as_str).collect(), "one delivery each");
    assert_eq!(rows.len(), events.len(), "O1");
    let mut whole = Vec::new();
    for row in &rows {
        whole.push(show_delivery(&api, row["id"].as_str().expect("an id")).await);
    }
    whole
}

/// Every event came; one that came more than once has a try for each that nobody knows the end of.
fn repeats_are_known(receiver: &Receiver, path: &str, deliveries: &[Value]) -> usize {
    let mut times: HashMap<String, usize> = HashMap::new();
    let mut bodies = HashMap::new();
    for seen in came(receiver, path) {
        let id = seen.header("webhook-id").to_owned();
        *times.entry(id.clone()).or_default() += 1;
        let first = bodies.entry(id.clone()).or_insert_with(|| seen.body.clone());
        assert_eq!(*first, seen.body, "O3: {id}");
    }
    let mut repeated = 0;
    for delivery in deliveries {
        let id = delivery["event_id"].as_str().expect("an event");
        let times = times.get(id).copied().unwrap_or(0);
        let unknown = tries(delivery).iter().filter(|one| one["outcome"] == "unknown").count();
        assert!(times >= 1, "{id} was never sent");
        assert!(times <= 1 + unknown, "O2: {id} came {times} times: {delivery}");
        repeated += times - 1;
    }
    repeated
}

async fn a_server_killed_while_it_delivers_loses_none_and_repeats_only_what_is_unknown(
    database: Database,
) {
    const EVENTS: usize = 150;
    /// How many a webhook may have under way.
    const AT_ONCE: usize = 128;
    let mut gateway = gateway(database).await;
    let receiver = receiver(|_, _| Reply::new(200, "").after(Duration::from_millis(150))).await;
    let subscriber = Subscriber::new(&gateway.admin(), receiver.url("/hook"), &["*"]).await;
    let events = publish_many(&gateway.admin(), "order.created", EVENTS).await;
    let mut subscriber = subscriber;
    for share in [20, 60] {
        comes(&receiver, "/hook", share).await;
        gateway.restart().await;
        subscriber = subscriber.through(&gateway.admin());
    }
    let deliveries = all_taken(&gateway, &subscriber, &events).await;
    let repeated = repeats_are_known(&receiver, "/hook", &deliveries);
    assert!(repeated <= 2 * AT_ONCE, "no more than were under way: {repeated}");
    assert!(came(&receiver, "/hook").len() >= EVENTS);
}

async fn dying_before_or_after_sending_costs_at_most_a_repeat(database: Database) {
    for (place, came_before) in
        [("delivery.before_send", 0), ("delivery.after_send", 1), ("settle.before_commit", 1)]
    {
        let setup = setup(database).failpoints(&format!("{place}=kill@1"));
        let mut gateway = setup.start().await;
        let receiver = taker().await;
        let api = gateway.admin();
        let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
        let event = publish(&api, "order.created", json!(1)).await;
        gateway.ended().await;
        assert_eq!(came(&receiver, "/hook").len(), came_before, "{place}");
        gateway.restart().await;
        let subscriber = subscriber.through(&gateway.admin());
        let deliveries = all_taken(&gateway, &subscriber, &[event]).await;
        assert_eq!(came(&receiver, "/hook").len(), came_before + 1, "{place}");
        let outcomes: Vec<&str> =
            tries(&deliveries[0]).iter().filter_map(|one| one["outcome"].as_str()).collect();
        // O2: it was recorded before the first byte left.
        assert_eq!(outcomes, ["unknown", "succeeded"], "{place}");
        assert_eq!(deliveries[0]["attempt_count"], 2);
        repeats_are_known(&receiver, "/hook", &deliveries);
    }
}

async fn dying_before_a_circuit_is_written_loses_no_delivery(database: Database) {
    // The first write opens it; others are those of notices.
    let setup = setup(database).failpoints("webhook.before_write=kill@1");
    let mut gateway = setup.start().await;
    let ill = Arc::new(AtomicBool::new(true));
    let state = ill.clone();
    let receiver = receiver(move |_, _| match state.load(Ordering::SeqCst) {
        true => Reply::new(500, ""),
        false => Reply::new(200, ""),
    })
    .await;
    let owner = taker().await;
    let api = gateway.admin();
    Subscriber::new(&api, owner.url("/owner"), &["webhook.circuit_opened"]).await;
    let fields = json!({"url": receiver.url("/hook"), "events": ["*"], "retry_s": vec![0; 10],
        "circuit_settings": {"failures": 1, "open_s": 2}});
    let subscriber = Subscriber::with(&api, fields).await;
    let event = publish(&api, "order.created", json!(1)).await;
    gateway.ended().await;
    // It dies once more while it tells the owner.
    gateway.restart_with("webhook.before_write=kill@2").await;
    gateway.ended().await;
    ill.store(false, Ordering::SeqCst);
    gateway.restart().await;
    let subscriber = subscriber.through(&gateway.admin());
    all_taken(&gateway, &subscriber, &[event]).await;
    let told = comes(&owner, "/owner", 1).await;
    assert_eq!(told.len(), 1);
    let next = publish(&gateway.admin(), "order.created", json!(2)).await;
    subscriber.delivery(&next, "succeeded").await;
    subscriber.circuit_is("closed").await;
    assert_eq!(events_at(&owner, "/owner").len(), 1, "told once");
}

async fn an_error_around_sending_is_tried_again(database: Database) {
    let places = ["delivery.before_send", "delivery.after_send", "webhook.before_write"];
    // A delay loses nothing either, and repeats only what was refused.
    let acts = [Act::Error, Act::Delay].map(|act| places.map(|place| (act, place)));
    for (act, place) in acts.into_iter().flatten() {
        let gateway = setup(database).failpoints(&act.at(place, 1)).start().await;
        let receiver = receiver(|before, _| match before {
            0 => Reply::new(500, ""),
            _ => Reply::new(200, ""),
        })
        .await;
        let api = gateway.admin();
        let fields = json!({"url": receiver.url("/hook"), "events": ["*"], "retry_s": vec![0; 10]});
        let subscriber = Subscriber::with(&api, fields).await;
        let event = publish(&api, "order.created", json!(1)).await;
        let deliveries = all_taken(&gateway, &subscriber, &[event]).await;
        assert!(tries(&deliveries[0]).len() >= 2, "{place}");
        let line = format!("failpoint {place} acts");
        assert!(gateway.logged().contains(&line), "{place} was passed");
    }
}

async fn what_was_taken_is_not_sent_again_because_it_could_not_be_recorded_at_once(
    database: Database,
) {
    for place in ["settle.before_commit", "settle.after_commit"] {
        let gateway = setup(database).failpoints(&format!("{place}=error@1x4")).start().await;
        let api = gateway.admin();
        let receiver = taker().await;
        let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
        let event = publish(&api, "order.paid", json!({})).await;
        let delivery = subscriber.delivery(&event, "succeeded").await;
        assert_eq!(tries(&delivery).len(), 1, "{place}: {delivery}");
        assert_eq!(came(&receiver, "/hook").len(), 1, "{place}");
    }
}

async fn a_server_that_is_asked_to_stop_repeats_what_it_had_under_way(database: Database) {
    let mut gateway = gateway(database).await;
    let hangs = Arc::new(AtomicBool::new(true));
    let state = hangs.clone();
    let receiver = receiver(move |_, _| match state.load(Ordering::SeqCst) {
        true => Reply::none(),
        false => Reply::new(200, ""),
    })
    .await;
    let api = gateway.admin();
    let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    let events = publish_many(&api, "order.created", 3).await;
    comes(&receiver, "/hook", 3).await;
    gateway.terminate();
    gateway.ended().await;
    hangs.store(false, Ordering::SeqCst);
    gateway.restart().await;
    let subscriber = subscriber.through(&gateway.admin());
    let deliveries = all_taken(&gateway, &subscriber, &events).await;
    assert_eq!(repeats_are_known(&receiver, "/hook", &deliveries), 3);
}
