//! What a receiver's answer makes of a delivery.

use serde_json::{Value, json};
use wakepost_tests::{Database, Receiver, Reply, Seen, on_both};

use crate::subscriber::*;

on_both!(
    every_answer_ends_as_it_should,
    one_that_is_gone_is_not_asked_again,
    only_the_beginning_of_an_answer_is_kept,
    the_last_failed_try_makes_a_dead_letter_that_is_told_of,
);

/// Answers with the status that its path names.
fn as_asked(seen: &Seen) -> Reply {
    let status = seen.path.trim_start_matches('/').parse().unwrap_or(200);
    match status {
        300..400 => Reply::new(status, "").with_header("location", "/elsewhere"),
        _ => Reply::new(status, format!("it is {status}")),
    }
}

async fn every_answer_ends_as_it_should(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(as_asked).await;
    let cases = [
        (200, "succeeded", 1),
        (201, "succeeded", 1),
        (204, "succeeded", 1),
        (301, "dead_letter", 1),
        (302, "dead_letter", 1),
        (307, "dead_letter", 1),
        (308, "dead_letter", 1),
        (400, "dead_letter", 1),
        (401, "dead_letter", 1),
        (404, "dead_letter", 1),
        (422, "dead_letter", 1),
        (408, "dead_letter", 3),
        (425, "dead_letter", 3),
        (429, "dead_letter", 3),
        (500, "dead_letter", 3),
        (502, "dead_letter", 3),
        (503, "dead_letter", 3),
        (599, "dead_letter", 3),
    ];
    let mut subscribers = Vec::new();
    for (status, ..) in cases {
        let url = receiver.url(&format!("/{status}"));
        let fields = json!({"url": url, "events": ["*"], "retry_s": [0, 0, 0]});
        subscribers.push(Subscriber::with(&api, fields).await);
    }
    let event = publish(&api, "order.created", json!({"n": 1})).await;
    for ((status, ends, times), subscriber) in cases.iter().zip(&subscribers) {
        let delivery = subscriber.delivery(&event, ends).await;
        assert_eq!(delivery["attempt_count"], *times, "{status}");
        assert_eq!(came(&receiver, &format!("/{status}")).len(), *times, "{status}");
        for one in tries(&delivery) {
            assert_eq!(one["status_code"], *status);
        }
        let shown = subscriber.show().await;
        assert_eq!(shown["status"], "active", "{status}");
        let warns = !(200..300).contains(status);
        assert_eq!(subscriber.made["warning"].is_string(), warns, "{status}: of the ping");
        // What is not tried again says nothing of whether the receiver is there.
        let failures = if *times > 1 { *times } else { 0 };
        assert_eq!(shown["circuit"]["failures"], failures, "{status}");
    }
    assert!(receiver.seen("/elsewhere").is_empty(), "redirects are not followed");
    let shown = api.get(&format!("/events/{event}")).await.is(200).json();
    assert_eq!(shown["deliveries"].as_array().expect("deliveries").len(), cases.len());
}

async fn one_that_is_gone_is_not_asked_again(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let owner = taker().await;
    let told = Subscriber::new(&api, owner.url("/owner"), &["webhook.disabled"]).await;
    let receiver = Receiver::start(|_| Reply::new(410, "moved away")).await;
    let fields = json!({"url": receiver.url("/gone"), "events": ["*"]});
    let subscriber = Subscriber::with(&api, fields).await;
    assert_eq!(subscriber.made["status"], "active", "a ping changes nothing");
    let event = publish(&api, "order.created", json!({"n": 1})).await;
    let delivery = subscriber.delivery(&event, "dead_letter").await;
    assert_eq!(delivery["attempt_count"], 1);
    let shown = subscriber.show().await;
    assert_eq!((&shown["status"], &shown["enabled"]), (&json!("disabled"), &json!(false)));
    assert!(shown["disabled_reason"].as_str().expect("a reason").contains("410"), "{shown}");
    // New events make no delivery for it.
    let answer = api.post("/events", json!({"type": "order.paid", "data": {}})).await.is(202);
    assert_eq!(answer.json()["deliveries"], 0);
    let notice = comes(&owner, "/owner", 1).await.remove(0);
    told.signed(&notice);
    let object = notice.json()["data"]["object"].clone();
    assert_eq!((&object["id"], &object["status"]), (&json!(subscriber.id), &json!("disabled")));
    assert_eq!(came(&receiver, "/gone").len(), 1);
}

async fn only_the_beginning_of_an_answer_is_kept(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = receiver(|_, seen| {
        let status = if seen.path == "/takes" { 200 } else { 400 };
        Reply::new(status, "y".repeat(100_000)).with_header("x-answer", "kept")
    })
    .await;
    for (path, ends) in [("/takes", "succeeded"), ("/refuses", "dead_letter")] {
        let subscriber = Subscriber::new(&api, receiver.url(path), &["*"]).await;
        let event = publish(&api, "order.created", json!({})).await;
        let delivery = subscriber.delivery(&event, ends).await;
        let detail = &tries(&delivery)[0];
        assert_eq!(detail["body"].as_str().expect("a body").len(), 4096, "{path}");
        assert_eq!(detail["truncated"], true);
        assert_eq!(detail["response_headers"]["x-answer"], "kept");
        let error = delivery["last_error"].as_str().unwrap_or_default();
        assert!(error.len() <= 4096, "{}", error.len());
        api.delete(&subscriber.path("")).await.is(204);
    }
}

async fn the_last_failed_try_makes_a_dead_letter_that_is_told_of(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    // The owner's own receiver fails too; of that nothing more is told.
    let receiver = receiver(|_, _| Reply::new(400, "no")).await;
    let events = ["order.*", "delivery.dead_lettered"];
    let fields = json!({"url": receiver.url("/hook"), "events": events, "retry_s": [0]});
    let subscriber = Subscriber::with(&api, fields).await;
    let event = publish(&api, "order.created", json!({"n": 1})).await;
    let dead = subscriber.delivery(&event, "dead_letter").await;
    let all = subscriber.have(2, "dead_letter").await;
    let notice = all.iter().find(|row| row["type"] == "delivery.dead_lettered").expect("a notice");
    let seen = comes(&receiver, "/hook", 2).await;
    let said: Vec<Value> = seen.iter().map(Seen::json).collect();
    let told = said.iter().find(|body| body["type"] == "delivery.dead_lettered").expect("told");
    assert_eq!(told["id"], notice["event_id"]);
    let object = &told["data"]["object"];
    assert_eq!(object["id"], dead["id"]);
    assert_eq!(
        (&object["event_id"], &object["event_type"]),
        (&json!(event), &json!("order.created"))
    );
    assert_eq!(object["webhook_id"], subscriber.id);
    assert_eq!(object["error"], "the receiver answered 400: no");
    // Whatever would have followed the notice has had its time by the next event's.
    let next = publish(&api, "order.paid", json!({})).await;
    subscriber.delivery(&next, "dead_letter").await;
    subscriber.have(4, "dead_letter").await;
    assert_eq!(subscriber.deliveries().await.len(), 4);
}
