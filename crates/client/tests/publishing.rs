//! Publishing: what is sent, and that a repeat publishes nothing twice.

mod stand_in;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use stand_in::{Answer, StandIn, bytes_answer, json_answer, problem};
use wakepost_client::{Client, Error, NewEvent, PageQuery, PublishedQuery};

fn client(server: &StandIn) -> Client {
    Client::new(&server.url, "k").expect("a client")
}

fn event(event_type: &str) -> NewEvent {
    let data = json!({"id": "ord_1"});
    NewEvent { event_type: event_type.to_owned(), data, ..NewEvent::default() }
}

fn keyed(dedup_key: &str) -> NewEvent {
    NewEvent { dedup_key: Some(dedup_key.to_owned()), ..event("order.created") }
}

/// A server that has trouble twice, and then answers.
fn troubled(body: Value) -> StandIn {
    let asked = AtomicUsize::new(0);
    StandIn::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => problem(503, "unavailable", "later"),
        1 => bytes_answer(502, b"<html>"),
        _ => json_answer(202, body.clone()),
    })
}

#[tokio::test]
async fn an_event_is_sent_with_all_it_says_and_nothing_else() {
    let server = StandIn::start(|_| {
        json_answer(
            202,
            json!({"id": "evt_1", "type": "order.updated", "api_version": "2026-11-15",
            "created_at": "2026-11-15T10:00:00.000Z", "livemode": false,
            "data": {"object": {"id": "ord_1"}, "previous_attributes": {"total": 1}}}),
        )
    });
    let full = NewEvent {
        api_version: Some("2026-11-15".to_owned()),
        previous_attributes: Some(json!({"total": 1})),
        livemode: Some(false),
        dedup_key: Some("ord_1:2".to_owned()),
        order_key: Some("ord_1".to_owned()),
        deliver_at: Some("2026-11-16T10:00:00.000Z".to_owned()),
        ..event("order.updated")
    };
    let published = client(&server).publish(&full).await.expect("published");
    assert_eq!((published.id.as_str(), published.livemode), ("evt_1", Some(false)));
    assert_eq!(published.data["previous_attributes"], json!({"total": 1}));
    client(&server).publish(&event("order.created")).await.expect("published");
    let seen = server.seen();
    assert_eq!(seen[0].line, "POST /api/v1/events");
    assert_eq!(
        seen[0].body,
        json!({"type": "order.updated", "data": {"id": "ord_1"}, "api_version": "2026-11-15",
            "previous_attributes": {"total": 1}, "livemode": false, "dedup_key": "ord_1:2",
            "order_key": "ord_1", "deliver_at": "2026-11-16T10:00:00.000Z"})
    );
    assert_eq!(seen[1].body, json!({"type": "order.created", "data": {"id": "ord_1"}}));
}

#[tokio::test]
async fn a_repeat_carries_the_same_key_and_another_call_another() {
    let server = troubled(json!({"id": "evt_1"}));
    client(&server).publish(&event("order.created")).await.expect("published");
    client(&server).publish(&event("order.created")).await.expect("published");
    let keys: Vec<String> = server.seen().into_iter().map(|seen| seen.idempotency_key).collect();
    assert_eq!(keys.len(), 4);
    assert_eq!(keys[0].len(), 32);
    assert!(keys[1..3].iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_ne!(keys[3], keys[0], "another event, though it looks the same");
}

#[tokio::test]
async fn what_the_caller_gave_is_what_counts() {
    let server = troubled(json!({"id": "evt_1"}));
    client(&server).publish(&keyed("mine")).await.expect("published");
    let own = client(&server).publish(&event("order.created")).idempotency_key("own");
    own.await.expect("published");
    let seen = server.seen();
    let keys: Vec<&str> = seen.iter().map(|seen| seen.idempotency_key.as_str()).collect();
    assert_eq!(keys, ["", "", "", "own"], "a dedup key alone makes a repeat harmless");
    assert!(seen[..3].iter().all(|seen| seen.body["dedup_key"] == "mine"));
}

#[tokio::test]
async fn many_are_repeated_under_one_key_or_under_their_own() {
    let answer = || json!({"data": [{"id": "evt_1"}, {"id": "evt_2"}]});
    let server = troubled(answer());
    let events = [event("order.created"), event("order.paid")];
    let published = client(&server).publish_many(&events).await.expect("published").data;
    assert_eq!(published[1].id, "evt_2");
    let seen = server.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|one| one.idempotency_key == seen[0].idempotency_key));
    assert_eq!(seen[0].idempotency_key.len(), 32);

    let server = troubled(answer());
    let both = [keyed("a"), keyed("b")];
    client(&server).publish_many(&both).await.expect("published");
    assert!(server.seen().iter().all(|seen| seen.idempotency_key.is_empty()));

    // The server takes dedup keys or an idempotency key for an array, so what has none gets one.
    let server = troubled(answer());
    let mixed = [keyed("a"), event("order.paid")];
    client(&server).publish_many(&mixed).await.expect("published");
    let seen = server.seen();
    assert_eq!(seen[0].body[0]["dedup_key"], "a");
    assert_eq!(seen[0].body[1]["dedup_key"].as_str().map(str::len), Some(32));
    assert!(seen.iter().all(|one| one.body == seen[0].body && one.idempotency_key.is_empty()));
}

#[tokio::test]
async fn a_refusal_is_not_repeated_and_trouble_not_for_ever() {
    let refusing = StandIn::start(|_| {
        json_answer(
            422,
            json!({"status": 422, "code": "invalid_request", "title": "Invalid",
            "errors": [{"field": "3.data", "message": "/total must be an integer"}]}),
        )
    });
    let refused = client(&refusing).publish_many(&[event("a.b")]).await.expect_err("422");
    assert_eq!(refused.problem().expect("a problem").errors[0].field, "3.data");
    assert_eq!(refusing.lines().len(), 1);
    let away = StandIn::start(|_| -> Answer { problem(503, "unavailable", "later") });
    let error = client(&away).publish(&event("a.b")).await.expect_err("503");
    assert!(error.is_transient());
    assert_eq!(away.lines().len(), 4);
    // A call that is not harmless to repeat is sent once.
    let error = client(&away).disable_webhook("wh_1").await.expect_err("503");
    assert!(matches!(error, Error::Api(_)));
    assert_eq!(away.lines().len(), 5);
}

#[tokio::test]
async fn an_event_published_by_a_run_goes_on_with_its_trace() {
    let server = StandIn::start(|_| json_answer(202, json!({"id": "evt_1", "data": []})));
    let asking = client(&server).on_behalf_of(Some("chain_1"), Some("00-trace-span-01"));
    asking.publish(&event("order.created")).await.expect("published");
    asking.publish_many(&[keyed("a")]).await.expect("published");
    for seen in server.seen() {
        assert_eq!(seen.headers["traceparent"], "00-trace-span-01");
        assert_eq!(seen.headers["wakepost-chain"], "chain_1");
    }
}

#[tokio::test]
async fn what_was_published_is_listed_and_shown_with_where_it_went() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "GET /api/v1/events/evt_1" => json_answer(200, json!({"id": "evt_1", "type": "a.b"})),
        "GET /api/v1/events/evt_1/deliveries" => json_answer(
            200,
            json!({"data": [{"id": "dlv_1", "webhook_id": "wh_1", "status": "retrying",
                "attempts": 2}], "next_cursor": null}),
        ),
        _ => json_answer(200, json!({"data": [{"id": "evt_1"}], "next_cursor": "n"})),
    });
    let client = client(&server);
    let page = client
        .list_published(&PublishedQuery { limit: Some(1), ..PublishedQuery::default() })
        .await;
    assert_eq!(page.expect("a page").next_cursor.as_deref(), Some("n"));
    assert_eq!(client.get_published("evt_1").await.expect("an event").event_type, "a.b");
    let went = client.published_deliveries("evt_1", &PageQuery::default()).await.expect("a page");
    assert_eq!((went.data[0].attempts, went.data[0].webhook_id.as_deref()), (2, Some("wh_1")));
    assert_eq!(server.lines()[0], "GET /api/v1/events?limit=1");
}
