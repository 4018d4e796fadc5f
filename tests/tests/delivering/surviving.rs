//! Surviving: a server that dies while it delivers loses nothing, and repeats only what nobody knows the end of.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use wakepost_tests::{Act, Database, Gateway, Receiver, Reply, on_both, within};

use crate::subscriber::*;

on_both!(
    a_fan_out_that_is_broken_off_in_the_middle_leaves_nothing_and_its_repeat_is_whole,
    a_server_killed_while_it_delivers_loses_none_and_repeats_only_what_is_unknown,
    dying_before_or_after_sending_costs_at_most_a_repeat,
    dying_before_a_circuit_is_written_loses_no_delivery,
    an_error_around_sending_is_tried_again,
    a_failure_that_could_not_be_recorded_at_once_is_a_try_also_if_it_was_the_last,
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

/// All subscribers get an event, or nobody: it is published again until there is an answer, and before that nothing is
/// there.
async fn a_fan_out_that_is_broken_off_in_the_middle_leaves_nothing_and_its_repeat_is_whole(
    database: Database,
) {
    const PLACE: &str = "publish.mid_fan_out";
    for act in [Act::Kill, Act::Error, Act::Delay] {
        let mut gateway = setup(database).failpoints(&act.at(PLACE, 1)).start().await;
        let receiver = taker().await;
        let mut subscribers = Vec::new();
        // PostgreSQL makes those that go in order after all others.
        for (path, order) in [("/a", false), ("/b", true), ("/c", false), ("/d", true)] {
            let fields = json!({"url": receiver.url(path), "events": ["*"], "order": order});
            subscribers.push((path, Subscriber::with(&gateway.admin(), fields).await));
        }
        let event = json!({"type": "order.made", "data": 1, "dedup_key": "one", "order_key": "o"});
        let mut refused = 0;
        let answer = loop {
            let api = gateway.admin();
            let headers = HeaderMap::new();
            match api.try_call(Method::POST, "/events", headers, Some(&event)).await {
                Ok(answer) if answer.status != 503 => break answer.is(202),
                Ok(answer) => assert_eq!(answer.header("retry-after"), "1"),
                Err(_) => gateway.restart().await,
            }
            refused += 1;
            assert_eq!(gateway.admin().list("/events").await.len(), 0, "{act:?}");
            let made = gateway.count("SELECT count(*) FROM work WHERE kind = 1").await;
            assert_eq!(made, 0, "{act:?}: {made} deliveries of what nobody was told of");
        };
        assert_eq!(refused > 0, act != Act::Delay, "{act:?}");
        assert!(gateway.logged().contains(&format!("failpoint {PLACE} acts")), "{act:?}");
        assert_eq!(answer.text("status"), "accepted", "{act:?}");
        let api = gateway.admin();
        for (path, subscriber) in subscribers {
            let subscriber = subscriber.through(&api);
            subscriber.delivery(&answer.text("id"), "succeeded").await;
            assert_eq!(subscriber.deliveries().await.len(), 1, "{act:?}, {path}");
            assert_eq!(came(&receiver, path).len(), 1, "{act:?}, {path}");
        }
        assert_eq!(api.list("/events").await.len(), 1, "{act:?}");
    }
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

async fn a_failure_that_could_not_be_recorded_at_once_is_a_try_also_if_it_was_the_last(
    database: Database,
) {
    for act in [Act::Kill, Act::Error, Act::Delay] {
        let goes_on = a_failure(database, act, "succeeded");
        join(goes_on, a_failure(database, act, "dead_letter")).await;
    }
}

/// The first of two tries fails, or both do; what ends the delivery is told from its end. The failure that leads there
/// meets the failpoint.
async fn a_failure(database: Database, act: Act, status: &'static str) {
    const PLACE: &str = "fail.before_commit";
    let is_last = status == "dead_letter";
    let failing = 1 + usize::from(is_last);
    let failpoint = act.at(PLACE, failing as u32);
    let mut gateway = setup(database).failpoints(&failpoint).start().await;
    let receiver = receiver(move |before, _| match before < failing {
        true => Reply::new(500, ""),
        false => Reply::new(200, ""),
    })
    .await;
    let fields = json!({"url": receiver.url("/hook"), "events": ["order.*"], "retry_s": [0, 0],
        "circuit_settings": {"failures": 0}});
    let subscriber = Subscriber::with(&gateway.admin(), fields).await;
    publish(&gateway.admin(), "order.created", json!(1)).await;
    act.done(&mut gateway, PLACE).await;
    let api = gateway.admin();
    let subscriber = subscriber.through(&api);
    let id = within(PATIENCE, "it ends", async || {
        let rows = subscriber.deliveries().await;
        let row = rows.first().filter(|row| row["status"] == status)?;
        row["id"].as_str().map(str::to_owned)
    })
    .await;
    let delivery = show_delivery(&api, &id).await;
    let outcomes: Vec<&str> =
        tries(&delivery).iter().filter_map(|one| one["outcome"].as_str()).collect();
    // Who died did not record how it ended; that it was begun is known.
    let unrecorded = if act == Act::Kill { "unknown" } else { "failed" };
    let expected = if is_last { ["failed", unrecorded] } else { [unrecorded, "succeeded"] };
    assert_eq!(outcomes, expected, "{act:?}: {delivery}");
    assert_eq!((&delivery["attempt_count"], &delivery["max_attempts"]), (&json!(2), &json!(2)));
    assert_eq!(came(&receiver, "/hook").len(), 2, "{act:?}: {delivery}");
    assert_eq!(subscriber.deliveries().await.len(), 1, "O1");
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
