//! The circuit breaker: a receiver that fails is given a rest, tried again by one delivery at a time, and given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use wakepost_tests::{Database, Gateway, Receiver, Reply, on_both, until};

use crate::subscriber::*;

on_both!(
    an_open_circuit_makes_no_connection_and_burns_no_attempt,
    probes_go_one_at_a_time_until_two_succeed,
    a_failed_probe_opens_it_again_and_counts_towards_nothing,
    what_is_refused_for_good_is_no_failure_of_the_receiver,
    a_circuit_can_be_turned_off,
    a_receiver_that_fails_for_too_long_is_given_up,
);

/// A receiver that fails while it is told to.
struct Patient {
    receiver: Receiver,
    ill: Arc<AtomicBool>,
}

impl Patient {
    async fn start(healthy: Reply) -> Patient {
        let ill = Arc::new(AtomicBool::new(true));
        let state = ill.clone();
        let receiver = receiver(move |_, _| match state.load(Ordering::SeqCst) {
            true => Reply::new(500, "ill"),
            false => healthy.clone(),
        })
        .await;
        Patient { receiver, ill }
    }

    fn recovers(&self) {
        self.ill.store(false, Ordering::SeqCst);
    }

    fn url(&self) -> String {
        self.receiver.url("/hook")
    }

    fn calls(&self) -> usize {
        came(&self.receiver, "/hook").len()
    }
}

/// So many attempts, one right after the other.
fn at_once(attempts: usize) -> Vec<u64> {
    vec![0; attempts]
}

async fn an_open_circuit_makes_no_connection_and_burns_no_attempt(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let patient = Patient::start(Reply::new(200, "")).await;
    let owner = taker().await;
    let told = Subscriber::new(&api, owner.url("/owner"), &["*", "webhook.circuit_opened"]).await;
    let fields = json!({"url": patient.url(), "events": ["order.*"], "retry_s": at_once(10),
        "circuit_settings": {"failures": 3, "open_s": 3600}});
    let subscriber = Subscriber::with(&api, fields).await;
    let first = publish(&api, "order.created", json!({"n": 1})).await;
    let shown = subscriber.circuit_is("open").await;
    let circuit = &shown["circuit"];
    assert_eq!(circuit["failures"], 3);
    assert_eq!(shown["status"], "active");
    for moment_of in ["opened_at", "open_until", "disables_at"] {
        moment(&circuit[moment_of]);
    }
    let history = circuit["history"].as_array().expect("history");
    assert_eq!((history.len(), &history[0]["state"]), (1, &json!("open")));
    assert_eq!(patient.calls(), 3);

    publish_many(&api, "order.paid", 20).await;
    // Everybody else has them, the owner also what happened.
    let seen = comes(&owner, "/owner", 22).await;
    let notices: Vec<Value> = seen
        .iter()
        .map(wakepost_tests::Seen::json)
        .filter(|body| body["type"] == "webhook.circuit_opened")
        .collect();
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0]["data"]["object"]["id"], subscriber.id);
    assert_eq!(notices[0]["data"]["object"]["reason"], "3 failures in a row");
    told.have(22, "succeeded").await;
    assert_eq!(patient.calls(), 3, "it is left alone");
    for row in subscriber.deliveries().await {
        let attempts = if row["event_id"] == *first { 3 } else { 0 };
        assert_eq!(row["attempts"], attempts, "{row}");
    }
    // A restart does not forget it.
    let mut gateway = gateway;
    gateway.restart().await;
    let api = gateway.admin();
    let subscriber = subscriber.through(&api);
    publish(&api, "order.paid", json!({})).await;
    comes(&owner, "/owner", 23).await;
    assert_eq!(patient.calls(), 3);

    // Somebody knows that it is well again.
    patient.recovers();
    subscriber.act("enable", json!({})).await;
    subscriber.have(22, "succeeded").await;
    assert_eq!(patient.calls(), 3 + 22);
    assert_eq!(subscriber.show().await["circuit"]["state"], "closed");
    let delivery = subscriber.delivery(&first, "succeeded").await;
    assert_eq!(delivery["attempt_count"], 4);
}

async fn probes_go_one_at_a_time_until_two_succeed(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    // Slow enough that two at once would be seen.
    let patient = Patient::start(Reply::new(200, "").after(Duration::from_millis(700))).await;
    let fields = json!({"url": patient.url(), "events": ["*"], "retry_s": at_once(20),
        "circuit_settings": {"failures": 2, "open_s": 2, "close_after": 2}});
    let subscriber = Subscriber::with(&api, fields).await;
    publish(&api, "order.created", json!({})).await;
    subscriber.circuit_is("open").await;
    publish_many(&api, "order.paid", 10).await;
    patient.recovers();
    let done = subscriber.have(11, "succeeded").await;
    let shown = subscriber.circuit_is("closed").await;
    let history = shown["circuit"]["history"].as_array().expect("history");
    let states: Vec<&str> = history.iter().filter_map(|change| change["state"].as_str()).collect();
    let (last, before) = states.split_last().expect("history");
    assert!(before.chunks(2).all(|pair| pair == ["open", "half_open"]), "{states:?}");
    assert_eq!(*last, "closed");
    let closed_at = moment(&history[history.len() - 1]["at"]);
    let opened_at = moment(&history[history.len() - 3]["at"]);

    // What was tried between: each alone.
    let mut spans = Vec::new();
    for row in &done {
        let shown = show_delivery(&api, row["id"].as_str().expect("an id")).await;
        for one in tries(&shown) {
            let span = (moment(&one["started_at"]), moment(&one["ended_at"]));
            if span.0 > opened_at && span.0 < closed_at {
                spans.push(span);
            }
        }
    }
    spans.sort_unstable();
    assert_eq!(spans.len(), 2, "two in a row close it: {spans:?}");
    assert!(spans[0].1 <= spans[1].0, "one at a time: {spans:?}");
    assert!(spans[0].0 >= opened_at.after(Duration::from_secs(2)), "not before its rest is over");
}

async fn a_failed_probe_opens_it_again_and_counts_towards_nothing(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let patient = Patient::start(Reply::new(200, "")).await;
    let fields = json!({"url": patient.url(), "events": ["*"], "retry_s": at_once(3),
        "circuit_settings": {"failures": 2, "open_s": 2, "close_after": 2}});
    let subscriber = Subscriber::with(&api, fields).await;
    let event = publish(&api, "order.created", json!({})).await;
    // More probes than it has attempts.
    let openings = |shown: &Value| {
        let history = shown["circuit"]["history"].as_array().cloned().unwrap_or_default();
        history.iter().filter(|change| change["state"] == "open").count()
    };
    let shown = until("it opened four times", || async {
        Some(subscriber.show().await).filter(|shown| openings(shown) >= 4)
    })
    .await;
    let disables_at = &shown["circuit"]["disables_at"];
    let first = &shown["circuit"]["history"][0]["at"];
    let patience = moment(disables_at).since(moment(first));
    assert_eq!(patience, Duration::from_secs(72 * 3600), "counted from the first opening");
    patient.recovers();
    let other = publish(&api, "order.paid", json!({})).await;
    let delivery = subscriber.delivery(&event, "succeeded").await;
    subscriber.delivery(&other, "succeeded").await;
    let tries = tries(&delivery);
    let probes = tries.iter().filter(|one| one["probe"] == true).count();
    assert!(probes >= 3, "{delivery}");
    assert!(tries.iter().filter(|one| one["probe"] == true).all(|one| one["outcome"] == "failed"));
    assert_eq!(delivery["attempt_count"], 3, "two before it opened, and the one that was taken");
    subscriber.circuit_is("closed").await;
    assert_eq!(patient.calls(), tries.len() + 1, "every one is recorded");
}

async fn what_is_refused_for_good_is_no_failure_of_the_receiver(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = receiver(|_, _| Reply::new(422, "odd")).await;
    let fields = json!({"url": receiver.url("/hook"), "events": ["*"],
        "circuit_settings": {"failures": 2}});
    let subscriber = Subscriber::with(&api, fields).await;
    publish_many(&api, "order.created", 10).await;
    subscriber.have(10, "dead_letter").await;
    let circuit = subscriber.show().await["circuit"].clone();
    assert_eq!((&circuit["state"], &circuit["failures"]), (&json!("closed"), &json!(0)));
}

async fn a_circuit_can_be_turned_off(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = receiver(|_, _| Reply::new(500, "")).await;
    let fields = json!({"url": receiver.url("/hook"), "events": ["*"], "retry_s": at_once(12),
        "circuit_settings": {"failures": 0}});
    let subscriber = Subscriber::with(&api, fields).await;
    let event = publish(&api, "order.created", json!({})).await;
    let delivery = subscriber.delivery(&event, "dead_letter").await;
    assert_eq!(delivery["attempt_count"], 12);
    assert_eq!(subscriber.show().await["circuit"]["state"], "closed");
    for (settings, field) in [
        (json!({"open_s": 1}), "open_s"),
        (json!({"rate": 1.5}), "rate"),
        (json!({"disable_after_s": 59}), "disable_after_s"),
        (json!({"close_after": 0}), "close_after"),
    ] {
        let change = json!({"circuit_settings": settings});
        let refused = api.patch(&subscriber.path(""), change).await;
        refused.refuses_field(&format!("circuit_settings.{field}"));
    }
}

/// Days pass: the circuit opened first so long ago that its webhook is given up.
async fn let_days_pass(gateway: &Gateway, database: Database) {
    let statement = match database {
        Database::Sqlite => {
            "UPDATE webhooks SET due_at = 1, version = version + 1,
             circuit = json_set(circuit, '$.first_opened_at', '2020-01-01T00:00:00.000Z')
             WHERE circuit LIKE '%\"open\"%'"
        }
        Database::Postgres => {
            "UPDATE webhooks SET due_at = 1, version = version + 1,
             circuit = jsonb_set(circuit::jsonb, '{first_opened_at}', '\"2020-01-01T00:00:00.000Z\"')::text
             WHERE circuit::text LIKE '%\"open\"%'"
        }
    };
    gateway.execute(statement).await;
}

async fn a_receiver_that_fails_for_too_long_is_given_up(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let owner = taker().await;
    Subscriber::new(&api, owner.url("/owner"), &["webhook.disabled"]).await;
    let patient = Patient::start(Reply::new(200, "")).await;
    let fields = json!({"url": patient.url(), "events": ["order.*"], "retry_s": at_once(10),
        "circuit_settings": {"failures": 2, "open_s": 3600, "disable_after_s": 7200}});
    let subscriber = Subscriber::with(&api, fields).await;
    publish(&api, "order.created", json!({})).await;
    subscriber.circuit_is("open").await;
    publish_many(&api, "order.paid", 30).await;
    let_days_pass(&gateway, database).await;
    let dead = subscriber.have(31, "dead_letter").await;
    assert!(dead.iter().all(|row| row["last_error"] == "the webhook is disabled"), "{dead:?}");
    let shown = subscriber.show().await;
    assert_eq!(shown["status"], "disabled");
    assert_eq!(shown["disabled_reason"], "its receiver failed for too long");
    let notice = comes(&owner, "/owner", 1).await.remove(0).json();
    assert_eq!(notice["data"]["object"]["id"], subscriber.id);
    assert_eq!(patient.calls(), 2);
    let answer = api.post("/events", json!({"type": "order.late", "data": {}})).await.is(202);
    assert_eq!(answer.json()["deliveries"], 0);
    assert_eq!(api.list("/dead-letters?kind=delivery").await.len(), 31);
}
