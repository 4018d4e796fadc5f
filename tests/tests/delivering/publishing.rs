//! Publishing: once the answer is there, the event is stored and goes to exactly those who subscribed to it.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use wakepost_tests::{Answer, Database, Gateway, now, on_both};

use crate::subscriber::*;

on_both!(
    an_event_goes_to_those_who_want_it_and_to_nobody_else,
    what_subscribers_read_is_the_same_for_every_type,
    a_batch_is_all_or_nothing,
    a_repeat_gets_the_first_event,
    nothing_goes_out_before_its_time,
    registered_types_are_checked,
    our_own_types_are_ours_alone,
    published_events_are_listed_apart_from_the_inbox,
    what_was_acknowledged_survives_a_kill,
);

async fn an_event_goes_to_those_who_want_it_and_to_nobody_else(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    let mut subscribers = Vec::new();
    for (path, events) in [
        ("/exact", &["order.created"][..]),
        ("/prefix", &["order.*"]),
        ("/all", &["*"]),
        ("/two", &["order.created", "order.*", "user.deleted"]),
        ("/other", &["invoice.*", "order.create"]),
    ] {
        subscribers.push(Subscriber::new(&api, receiver.url(path), events).await);
    }
    let wanted = [
        ("order.created", &["/exact", "/prefix", "/all", "/two"][..]),
        ("order.item.added", &["/prefix", "/all", "/two"]),
        ("user.deleted", &["/all", "/two"]),
        ("orders.created", &["/all"]),
    ];
    let mut ids = Vec::new();
    for (kind, paths) in wanted {
        let said = api.post("/events", json!({"type": kind, "data": {}})).await.is(202);
        assert_eq!(said.json()["deliveries"], paths.len(), "{kind}");
        assert_eq!(
            (said.text("type"), said.text("status")),
            (kind.to_owned(), "accepted".to_owned())
        );
        ids.push(said.text("id"));
    }
    for ((_, paths), id) in wanted.iter().zip(&ids) {
        let shown = api.list(&format!("/events/{id}/deliveries")).await;
        assert_eq!(shown.len(), paths.len());
    }
    for (subscriber, path) in
        subscribers.iter().zip(["/exact", "/prefix", "/all", "/two", "/other"])
    {
        let mut expected: Vec<String> = wanted
            .iter()
            .zip(&ids)
            .filter(|((_, paths), _)| paths.contains(&path))
            .map(|(_, id)| id.clone())
            .collect();
        expected.sort();
        subscriber.have(expected.len(), "succeeded").await;
        assert_eq!(events_at(&receiver, path), expected, "{path}");
        assert_eq!(came(&receiver, path).len(), expected.len(), "{path}: each once");
    }
    for events in [json!([]), json!(["Order.*"]), json!(["order*"]), json!(null), json!(["order"])]
    {
        let fields = json!({"url": receiver.url("/x"), "events": events});
        let refused = api.post("/webhooks", fields).await.refuses(422, "invalid_request");
        let field = refused.json()["errors"][0]["field"].as_str().expect("a field").to_owned();
        assert!(field.starts_with("events"), "{field}");
    }
    let many = vec!["order.created"; 101];
    let fields = json!({"url": receiver.url("/x"), "events": many});
    api.post("/webhooks", fields).await.refuses_field("events");
}

async fn what_subscribers_read_is_the_same_for_every_type(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    // As the publisher wrote it, byte for byte: numbers, order of fields, spaces, escapes.
    let text = r#" {"type":"order.paid", "data": {"z":1.0, "a":12345678901234567890,"s":"\u00fc/é"},
        "previous_attributes":{"a": 1e2},"api_version":"2026-11-15","livemode":false} "#;
    let said = send_text(&gateway, text).await.is(202).json();
    let body = comes(&receiver, "/hook", 1).await.remove(0).body;
    let id = said["id"].as_str().expect("an id");
    assert!(id.starts_with("evt_"));
    let shown = api.get(&format!("/events/{id}")).await.is(200);
    let made = shown.text("created_at");
    let expected = format!(
        r#"{{"id":"{id}","type":"order.paid","api_version":"2026-11-15","created_at":"{made}","livemode":false,"data":{{"object":{{"z":1.0, "a":12345678901234567890,"s":"\u00fc/é"}},"previous_attributes":{{"a": 1e2}}}}}}"#
    );
    assert_eq!(String::from_utf8_lossy(&body), expected);
    assert!(made.ends_with('Z') && made.len() == "2026-11-15T10:00:00.000Z".len(), "{made}");
    let envelope: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(shown.json()["envelope"], envelope);

    // The least that can be said.
    publish(&api, "user.deleted", json!(7)).await;
    let body = comes(&receiver, "/hook", 2).await.remove(1).json();
    assert_eq!(body["data"], json!({"object": 7}));
    assert_eq!((&body["livemode"], &body["api_version"]), (&json!(true), &json!(null)));
    let fields: Vec<&String> = body.as_object().expect("an object").keys().collect();
    assert_eq!(fields.len(), 6);
}

async fn send_text(gateway: &Gateway, text: &str) -> Answer {
    let http = wakepost_tests::Http::default();
    let mut headers = HeaderMap::new();
    let key = format!("Bearer {}", gateway.admin_key());
    headers.insert("authorization", HeaderValue::from_str(&key).expect("a key"));
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    let url = format!("{}/api/v1/events", gateway.url());
    http.send(Method::POST, &url, headers, text.to_owned()).await
}

/// A type whose subject must have an id.
async fn register(gateway: &Gateway) {
    let schema = json!({"type": "object", "required": ["id"], "properties":
        {"id": {"type": "string"}, "amount": {"type": "integer"},
         "lines": {"type": "array", "items": {"properties": {"n": {"type": "integer"}}}}}});
    let old = json!({"schema": {"type": "object"}});
    let versions = json!({"2026-01-01": old, "2026-11-15": {"schema": schema}});
    let made = json!({"name": "order.paid", "description": "Paid.", "versions": versions});
    gateway.admin().post("/event-types", made).await.is(201);
}

async fn a_batch_is_all_or_nothing(database: Database) {
    let gateway = gateway(database).await;
    register(&gateway).await;
    let api = gateway.admin();
    let receiver = taker().await;
    let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    let batch = |bad: Value| {
        let good = |n: i32| json!({"type": "order.paid", "data": {"id": format!("o-{n}")}});
        json!([good(0), good(1), good(2), bad, good(4)])
    };
    for (bad, field) in [
        (json!({"type": "order.paid", "data": {}}), "3.data"),
        (json!({"type": "order.paid", "data": {"id": "o", "amount": 1.5}}), "3.data.amount"),
        (
            json!({"type": "order.paid", "data": {"id": "o", "lines": [{"n": 1}, {"n": "x"}]}}),
            "3.data.lines.1.n",
        ),
        (json!({"type": "order.paid"}), "3.data"),
        (json!({"type": "Order.paid", "data": {}}), "3.type"),
        (json!({"type": "webhook.disabled", "data": {}}), "3.type"),
        (json!({"type": "order.paid", "data": {}, "odd": 1}), "3.odd"),
        (
            json!({"type": "order.paid", "data": {"id": ""}, "api_version": "2025-01-01"}),
            "3.api_version",
        ),
        (json!({"type": "order.paid", "data": {"id": ""}, "dedup_key": ""}), "3.dedup_key"),
        (
            json!({"type": "order.paid", "data": {"id": ""}, "deliver_at": "2100-01-01T00:00:00Z"}),
            "3.deliver_at",
        ),
        (
            json!({"type": "order.paid", "data": {"id": ""}, "previous_attributes": 7}),
            "3.previous_attributes",
        ),
    ] {
        api.post("/events", batch(bad)).await.refuses_field(field);
    }
    assert!(api.list("/events").await.is_empty(), "nothing of any of them");
    let one = json!({"type": "order.paid", "data": {"id": 1}});
    api.post("/events", one).await.refuses_field("data.id");
    api.post("/events", json!([])).await.refuses(422, "invalid_request");
    let many = vec![json!({"type": "user.seen", "data": 1}); 1001];
    api.post("/events", json!(many)).await.refuses(422, "invalid_request");

    let whole = batch(json!({"type": "user.seen", "data": 3}));
    let said = api.post("/events", whole).await.is(202).json();
    let said = said["data"].as_array().expect("events");
    assert_eq!(said.len(), 5);
    assert_eq!(said[3]["type"], "user.seen");
    subscriber.have(5, "succeeded").await;
    let listed = api.list("/events").await;
    let newest_first: Vec<&Value> = said.iter().rev().map(|event| &event["id"]).collect();
    assert_eq!(listed.iter().map(|event| &event["id"]).collect::<Vec<_>>(), newest_first);
}

async fn a_repeat_gets_the_first_event(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    let event = json!({"type": "order.paid", "data": {"n": 1}, "dedup_key": "o-1"});
    let first = api.post("/events", event.clone()).await.is(202);
    let again = api.post("/events", event.clone()).await.is(202);
    assert_eq!(again.text("id"), first.text("id"));
    assert_eq!(
        (first.text("status"), again.text("status")),
        ("accepted".into(), "duplicate".into())
    );
    for (field, value) in [
        ("data", json!({"n": 2})),
        ("type", json!("order.unpaid")),
        ("livemode", json!(false)),
        ("previous_attributes", json!({})),
        ("api_version", json!("2026-11-15")),
    ] {
        let mut other = event.clone();
        other[field] = value;
        api.post("/events", other).await.refuses(409, "idempotency_mismatch");
    }
    let shown = api.get(&format!("/events/{}", first.text("id"))).await.is(200).json();
    assert_eq!((&shown["dedup_key"], &shown["duplicates"]), (&json!("o-1"), &json!(1)));

    let plain = json!({"type": "order.paid", "data": {"n": 3}});
    let first = with_key(&api, "/events", "call-1", plain.clone()).await.is(202);
    let again = with_key(&api, "/events", "call-1", plain.clone()).await.is(202);
    assert_eq!(again.text("id"), first.text("id"));
    let replayed = |answer: &Answer| answer.header("idempotency-replayed").to_owned();
    assert_eq!((replayed(&first), replayed(&again)), (String::new(), "true".to_owned()));
    let other = json!({"type": "order.paid", "data": {"n": 4}});
    with_key(&api, "/events", "call-1", other.clone()).await.refuses(409, "idempotency_mismatch");
    with_key(&api, "/events", "call-1", json!([plain, other]))
        .await
        .refuses(409, "idempotency_mismatch");
    // A call with several: each keeps its place.
    let both = json!([plain, plain]);
    let first = with_key(&api, "/events", "call-2", both.clone()).await.is(202).json();
    let again = with_key(&api, "/events", "call-2", both).await.is(202).json();
    let ids = |said: &Value| [said["data"][0]["id"].clone(), said["data"][1]["id"].clone()];
    assert_eq!(ids(&first), ids(&again));
    assert_ne!(ids(&first)[0], ids(&first)[1]);
    // Many at once make one.
    let race = json!({"type": "order.raced", "data": 1, "dedup_key": "race"});
    let calls = (0..12).map(|_| api.post("/events", race.clone()));
    let said = futures_util::future::join_all(calls).await;
    let mut ids: Vec<String> = said.into_iter().map(|answer| answer.is(202).text("id")).collect();
    ids.dedup();
    assert_eq!(ids.len(), 1);
    subscriber.have(5, "succeeded").await;
    assert_eq!(came(&receiver, "/hook").len(), 5);
    // However the call was made: alone, among others, with a key of its own.
    let other = json!({"type": "order.paid", "data": {"n": 5}});
    let among = with_key(&api, "/events", "call-3", json!([other, event])).await.is(202).json();
    assert_eq!(among["data"][1]["status"], "duplicate", "{among}");
    subscriber.have(6, "succeeded").await;
    // Another tenant's keys are its own.
    let acme = api.tenant("acme").await;
    let theirs = acme.post("/events", event).await.is(202);
    assert_eq!(theirs.text("status"), "accepted");
}

async fn nothing_goes_out_before_its_time(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    let slow = json!({"url": receiver.url("/slow"), "events": ["*"], "retry_s": [2, 10]});
    let slow = Subscriber::with(&api, slow).await;
    let at = now().after(Duration::from_secs(4));
    let later = json!({"type": "order.due", "data": 1, "deliver_at": at});
    let later = api.post("/events", later).await.is(202).text("id");
    let past = json!({"type": "order.due", "data": 2, "deliver_at": "2020-01-01T00:00:00Z"});
    let past = api.post("/events", past).await.is(202).text("id");
    subscriber.delivery(&past, "succeeded").await;
    let waits = subscriber.delivery(&later, "scheduled").await;
    assert_eq!(moment(&waits["run_at"]), at);
    let shown = api.get(&format!("/events/{later}")).await.is(200).json();
    assert_eq!(moment(&shown["deliver_at"]), at);
    for (subscriber, id, not_before) in [
        (&subscriber, &later, at),
        (&slow, &later, at),
        // Half of its first delay at least.
        (&slow, &past, now()),
    ] {
        let done = subscriber.delivery(id, "succeeded").await;
        let first = moment(&tries(&done)[0]["started_at"]);
        assert!(first >= not_before || id == &past, "{first} is before {not_before}");
        assert_eq!(done["attempt_count"], 1);
        if id == &past {
            assert!(first.since(moment(&done["created_at"])) >= Duration::from_secs(1));
        }
    }
}

async fn registered_types_are_checked(database: Database) {
    let gateway = gateway(database).await;
    register(&gateway).await;
    let api = gateway.admin();
    let receiver = taker().await;
    Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    // The newest version, unless another is named; and it stays with the event.
    publish(&api, "order.paid", json!({"id": "o-1"})).await;
    let body = comes(&receiver, "/hook", 1).await.remove(0).json();
    assert_eq!(body["api_version"], "2026-11-15");
    let old = json!({"type": "order.paid", "data": {"id": 1}, "api_version": "2026-01-01"});
    api.post("/events", old).await.is(202);
    let body = comes(&receiver, "/hook", 2).await.remove(1).json();
    assert_eq!(body["api_version"], "2026-01-01");

    // Types of the first tenant apply to all; who is strict has no others.
    let acme = api.tenant("acme").await;
    let wrong = json!({"type": "order.paid", "data": {"id": 1}});
    acme.post("/events", wrong).await.refuses_field("data.id");
    publish(&acme, "user.seen", json!(1)).await;
    api.patch("/tenants/acme", json!({"strict_types": true})).await.is(200);
    let unknown = json!({"type": "user.seen", "data": 1});
    wakepost_tests::until("the tenant is strict", || async {
        (acme.post("/events", unknown.clone()).await.status == 422).then_some(())
    })
    .await;
    acme.post("/events", unknown).await.refuses_field("type");
    publish(&acme, "order.paid", json!({"id": "o-2"})).await;
}

async fn our_own_types_are_ours_alone(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    for kind in ["webhook.ping", "webhook.x", "delivery.dead_lettered", "job.succeeded", "alert.a"]
    {
        let event = json!({"type": kind, "data": {}});
        api.post("/events", event).await.refuses_field("type");
    }
    for kind in ["order", "", "Order.created", "order..x", "order.*", "*"] {
        api.post("/events", json!({"type": kind, "data": {}})).await.refuses_field("type");
    }
    // All is not all: a webhook that failed hears nothing of that unless it asked to.
    let receiver = taker().await;
    let all = Subscriber::new(&api, receiver.url("/all"), &["*"]).await;
    let named = Subscriber::new(&api, receiver.url("/named"), &["webhook.disabled"]).await;
    let prefix = Subscriber::new(&api, receiver.url("/prefix"), &["webhook.*"]).await;
    let other = Subscriber::new(&api, receiver.url("/other"), &["user.*"]).await;
    other.act("disable", json!({})).await;
    named.have(1, "succeeded").await;
    prefix.have(1, "succeeded").await;
    let body = came(&receiver, "/named").remove(0).json();
    assert_eq!(
        (&body["type"], &body["data"]["object"]["id"]),
        (&json!("webhook.disabled"), &json!(other.id))
    );
    assert!(all.deliveries().await.is_empty());
}

async fn published_events_are_listed_apart_from_the_inbox(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let source = gateway.with_source("github").await;
    let received = gateway.send(&source, &source.event("e-1")).await.is(202).text("event_id");
    let published = publish(&api, "order.created", json!({"n": 1})).await;
    let second = publish(&api, "user.deleted", json!({"n": 2})).await;
    let ids = |rows: Vec<Value>| rows.iter().map(|row| row["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(api.list("/events").await), [json!(second), json!(published)]);
    assert_eq!(ids(api.list("/events?type=order.*").await), [json!(published)]);
    assert_eq!(ids(api.list("/inbox").await), [json!(received)]);
    for path in ["/events/", "/inbox/"] {
        let other = if path == "/events/" { &received } else { &published };
        api.get(&format!("{path}{other}")).await.refuses(404, "not_found");
    }
    api.get(&format!("/inbox/{published}/raw")).await.refuses(404, "not_found");
    let note = json!({"note": "n"});
    api.post(&format!("/inbox/{published}/replay"), note).await.refuses(404, "not_found");
    assert!(api.list("/jobs").await.iter().all(|job| job["event_id"] == *received));
    // Who publishes may, and may see what became of it, and nothing else.
    let publisher = api.role("publisher", "default").await;
    let theirs = publish(&publisher, "order.created", json!({})).await;
    publisher.get(&format!("/events/{theirs}")).await.is(200);
    publisher.get("/webhooks").await.is(403);
    let viewer = api.role("viewer", "default").await;
    viewer.post("/events", json!({"type": "order.created", "data": 1})).await.is(403);
    viewer.get("/events").await.is(200);
}

async fn what_was_acknowledged_survives_a_kill(database: Database) {
    let mut gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    let mut ids = publish_many(&api, "order.created", 200).await;
    gateway.restart().await;
    ids.sort();
    let api = gateway.admin();
    let mut listed: Vec<String> = api
        .list("/events")
        .await
        .iter()
        .map(|row| row["id"].as_str().expect("an id").into())
        .collect();
    listed.sort();
    assert_eq!(listed, ids);
    wakepost_tests::until("all of them came", || async {
        (events_at(&receiver, "/hook") == ids).then_some(())
    })
    .await;
}
