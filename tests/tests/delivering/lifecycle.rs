//! What can be done to a webhook: tried, rotated, paused, slowed, put in order, given up, taken up again and deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use wakepost_tests::{Database, Gateway, Receiver, Reply, Seen, on_both, until};

use crate::subscriber::*;

on_both!(
    a_new_webhook_is_pinged_once_and_whatever_comes_of_it_is_a_warning,
    an_address_that_must_not_be_reached_is_never_reached,
    a_test_says_what_the_receiver_answered_and_leaves_nothing,
    a_paused_webhook_gets_its_events_afterwards,
    a_paused_webhook_may_drop_its_events,
    a_disabled_webhook_gives_up_what_waits,
    a_deleted_webhook_cancels_what_waits,
    during_a_rotation_both_secrets_sign,
    a_public_key_verifies_what_a_private_one_signed,
    a_rate_is_kept,
    a_failing_head_blocks_only_its_key,
    no_more_than_allowed_are_made,
);

async fn a_new_webhook_is_pinged_once_and_whatever_comes_of_it_is_a_warning(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|seen| match seen.path.as_str() {
        "/good" => Reply::new(204, ""),
        "/gone" => Reply::new(410, ""),
        "/hangs" => Reply::none(),
        _ => Reply::new(500, "ill"),
    })
    .await;
    for (path, warns) in [("/good", false), ("/gone", true), ("/ill", true), ("/hangs", true)] {
        let subscriber = Subscriber::new(&api, receiver.url(path), &["order.*"]).await;
        assert_eq!(subscriber.made["warning"].is_string(), warns, "{path}: {}", subscriber.made);
        assert_eq!(subscriber.made["status"], "active");
        let pings = receiver.seen(path);
        assert_eq!(pings.len(), 1, "{path}");
        assert!(is_ping(&pings[0]));
        subscriber.signed(&pings[0]);
        assert_eq!(pings[0].json()["data"]["object"]["webhook_id"], subscriber.id);
        let shown = subscriber.show().await;
        assert_eq!(shown["circuit"]["failures"], 0);
        assert_eq!(shown.get("secret"), None, "it is shown once");
        assert!(subscriber.secret.starts_with("whsec_"));
        assert!(subscriber.deliveries().await.is_empty());
    }
    assert!(api.list("/events").await.is_empty());
    let fields = json!({"url": "https://no-such-name.invalid/", "events": ["*"]});
    assert!(Subscriber::with(&api, fields).await.made["warning"].is_string());
    // One that is made disabled is not asked.
    let fields = json!({"url": receiver.url("/off"), "events": ["*"], "enabled": false});
    let off = Subscriber::with(&api, fields).await;
    assert_eq!((&off.made["status"], receiver.seen("/off").len()), (&json!("disabled"), 0));
    // Nor is one asked again whose maker did not hear the answer.
    let fields = json!({"url": receiver.url("/once"), "events": ["*"]});
    let first = with_key(&api, "/webhooks", "one", fields.clone()).await.is(201);
    let again = with_key(&api, "/webhooks", "one", fields).await.is(201);
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.text("id"), first.text("id"));
    assert_eq!(again.json().get("secret"), None, "it is shown once");
    assert_eq!(receiver.seen("/once").len(), 1);
}

async fn an_address_that_must_not_be_reached_is_never_reached(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|_| Reply::new(200, "")).await;
    let port = receiver.url("").rsplit(':').next().expect("a port").to_owned();
    for url in [
        receiver.url("/"),
        format!("https://127.0.0.1:{port}/"),
        "http://example.com/".to_owned(),
        "https://10.0.0.1/".to_owned(),
        "https://169.254.169.254/latest".to_owned(),
        "https://[::1]/".to_owned(),
        "https://[::ffff:127.0.0.1]/".to_owned(),
        "https://localhost/".to_owned(),
        "https://0x7f000001/".to_owned(),
        "https://user:pass@example.com/".to_owned(),
        "https://example.com:8080/".to_owned(),
        "https://example.com/#part".to_owned(),
        "https://printer.local/".to_owned(),
        "ftp://example.com/".to_owned(),
        "rubbish".to_owned(),
    ] {
        let fields = json!({"url": url, "events": ["*"]});
        api.post("/webhooks", fields).await.refuses_field("url");
    }
    let refused =
        api.post("/webhooks", json!({"url": "http://example.com/", "events": ["*"]})).await;
    assert_eq!(refused.json()["errors"][0]["message"], "url must use HTTPS");
    assert!(receiver.seen("/").is_empty(), "S2");
    assert!(api.list("/webhooks").await.is_empty());
}

async fn a_test_says_what_the_receiver_answered_and_leaves_nothing(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = receiver(|_, _| Reply::new(503, "busy")).await;
    let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["order.*"]).await;
    let said = subscriber.act("test", json!({"type": "order.created"})).await;
    assert_eq!((&said["status_code"], &said["body"]), (&json!(503), &json!("busy")));
    assert_eq!(said["error"], "the receiver answered 503: busy");
    assert!(said["timings"]["total_ms"].is_number());
    let sample = came(&receiver, "/hook").remove(0);
    subscriber.signed(&sample);
    assert_eq!(
        (&sample.json()["type"], &sample.json()["livemode"]),
        (&json!("order.created"), &json!(false))
    );
    let said = subscriber.act("test", json!({})).await;
    assert_eq!((&said["status_code"], said.get("error")), (&json!(204), None));
    assert_eq!(receiver.seen("/hook").iter().filter(|seen| is_ping(seen)).count(), 2);
    api.post(&subscriber.path("/test"), json!({"type": "x"})).await.refuses_field("type");
    assert!(subscriber.deliveries().await.is_empty());
    assert!(api.list("/events").await.is_empty());
    assert_eq!(subscriber.show().await["circuit"]["failures"], 0);
    assert_eq!(came(&receiver, "/hook").len(), 1, "it is not tried again");
}

async fn a_paused_webhook_gets_its_events_afterwards(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    let other = Subscriber::new(&api, receiver.url("/other"), &["*"]).await;
    assert_eq!(subscriber.act("pause", json!({})).await["status"], "paused");
    let mut events = publish_many(&api, "order.created", 5).await;
    other.have(5, "succeeded").await;
    assert!(came(&receiver, "/hook").is_empty());
    assert_eq!(subscriber.deliveries().await.len(), 5);
    assert_eq!(subscriber.show().await["status"], "paused");
    // Not even after a restart.
    let mut gateway = gateway;
    gateway.restart().await;
    let (api, subscriber) = (gateway.admin(), subscriber.through(&gateway.admin()));
    events.extend(publish_many(&api, "order.paid", 2).await);
    comes(&receiver, "/other", 7).await;
    assert!(came(&receiver, "/hook").is_empty());
    assert_eq!(subscriber.act("resume", json!({})).await["status"], "active");
    subscriber.have(7, "succeeded").await;
    events.sort();
    assert_eq!(events_at(&receiver, "/hook"), events);
    api.post(&subscriber.path("/resume"), json!({})).await.refuses(409, "invalid_state");
}

async fn a_paused_webhook_may_drop_its_events(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    subscriber.act("pause", json!({"keep": false})).await;
    let said = api.post("/events", json!({"type": "order.created", "data": 1})).await.is(202);
    assert_eq!(said.json()["deliveries"], 0);
    subscriber.act("resume", json!({})).await;
    let event = publish(&api, "order.paid", json!(2)).await;
    subscriber.delivery(&event, "succeeded").await;
    assert_eq!(events_at(&receiver, "/hook"), [event]);
}

async fn a_disabled_webhook_gives_up_what_waits(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    subscriber.act("pause", json!({})).await;
    publish_many(&api, "order.created", 5).await;
    assert_eq!(subscriber.act("disable", json!({})).await["status"], "disabled");
    subscriber.have(5, "dead_letter").await;
    assert_eq!(subscriber.show().await["disabled_reason"], "by request");
    publish(&api, "order.missed", json!(1)).await;
    api.post(&subscriber.path("/pause"), json!({})).await.refuses(409, "invalid_state");
    subscriber.act("enable", json!({})).await;
    let shown = subscriber.show().await;
    assert_eq!(shown["enabled"], true);
    if shown["status"] == "paused" {
        subscriber.act("resume", json!({})).await;
    }
    let event = publish(&api, "order.paid", json!(1)).await;
    subscriber.delivery(&event, "succeeded").await;
    assert_eq!(events_at(&receiver, "/hook"), [event]);
    assert_eq!(subscriber.deliveries().await.len(), 6);
    let stats = api.get(&subscriber.path("/stats")).await.is(200).json();
    assert_eq!((&stats["total"], &stats["deliveries"]["dead_letter"]), (&json!(6), &json!(5)));
    assert_eq!(stats["success_rate"], 1.0 / 6.0);
    // The same by a change.
    let off = api.patch(&subscriber.path(""), json!({"enabled": false})).await.is(200);
    assert_eq!(off.json()["status"], "disabled");
    let on = api.patch(&subscriber.path(""), json!({"enabled": true})).await.is(200);
    assert_eq!(on.json()["enabled"], true);
}

async fn a_deleted_webhook_cancels_what_waits(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    let before = publish(&api, "order.created", json!(0)).await;
    subscriber.delivery(&before, "succeeded").await;
    subscriber.act("pause", json!({})).await;
    let waits = publish(&api, "order.created", json!(1)).await;
    api.delete(&subscriber.path("")).await.is(204);
    for path in ["", "/deliveries", "/stats"] {
        api.get(&subscriber.path(path)).await.refuses(404, "not_found");
    }
    api.delete(&subscriber.path("")).await.refuses(404, "not_found");
    for (event, status) in [(&before, "succeeded"), (&waits, "cancelled")] {
        let rows = api.list(&format!("/events/{event}/deliveries")).await;
        assert_eq!((rows.len(), &rows[0]["status"]), (1, &json!(status)));
        show_delivery(&api, rows[0]["id"].as_str().expect("an id")).await;
    }
    let late = api.post("/events", json!({"type": "order.late", "data": 1})).await.is(202);
    assert_eq!(late.json()["deliveries"], 0);
    assert_eq!(came(&receiver, "/hook").len(), 1);
}

async fn during_a_rotation_both_secrets_sign(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    let next = async || {
        let event = publish(&api, "order.created", json!(1)).await;
        subscriber.delivery(&event, "succeeded").await;
        came(&receiver, "/hook").pop().expect("it came")
    };
    let old = subscriber.secret.clone();
    let rotated = subscriber.act("rotate", json!({})).await;
    let new = rotated["secret"].as_str().expect("a secret").to_owned();
    assert_ne!(new, old);
    let seen = next().await;
    assert!(verifies(&seen, &old) && verifies(&seen, &new));
    assert_eq!(seen.header("webhook-signature").split(' ').count(), 2);
    let until_then = moment(&subscriber.show().await["previous_expires_at"]);
    let left = until_then.since(wakepost_tests::now()).as_secs();
    assert!((86_000..=86_400).contains(&left), "{left}");
    subscriber.act("revoke-previous", json!({})).await;
    let seen = next().await;
    assert!(!verifies(&seen, &old) && verifies(&seen, &new));
    api.post(&subscriber.path("/revoke-previous"), json!({})).await.refuses(409, "invalid_state");

    // Whoever rotates again, since the answer was lost, cuts nobody off.
    subscriber.act("rotate", json!({})).await;
    let rotated = subscriber.act("rotate", json!({})).await;
    let seen = next().await;
    assert!(verifies(&seen, &new) && verifies(&seen, rotated["secret"].as_str().expect("one")));
    subscriber.act("rotate", json!({})).await;
    api.post(&subscriber.path("/rotate"), json!({})).await.refuses(409, "invalid_state");
    subscriber.act("revoke-previous", json!({})).await;

    // A short grace ends by itself.
    let rotated = subscriber.act("rotate", json!({"grace_s": 0})).await;
    let new = rotated["secret"].as_str().expect("a secret").to_owned();
    let rotated = subscriber.act("rotate", json!({"grace_s": 2})).await;
    let newest = rotated["secret"].as_str().expect("a secret").to_owned();
    let end = moment(&rotated["previous_expires_at"]);
    until("the grace is over", || async { (wakepost_tests::now() > end).then_some(()) }).await;
    let seen = next().await;
    assert!(!verifies(&seen, &new) && verifies(&seen, &newest));
    let rotated = subscriber.act("rotate", json!({"grace_s": 0})).await;
    let seen = next().await;
    let last = rotated["secret"].as_str().expect("a secret");
    assert!(!verifies(&seen, &newest) && verifies(&seen, last));
    let long = json!({"grace_s": 72 * 3600 + 1});
    api.post(&subscriber.path("/rotate"), long).await.refuses_field("grace_s");
    let shown = subscriber.show().await;
    assert!(!shown.to_string().contains("whsec_"));
    assert_eq!(shown["secret_age_days"], 0);
}

async fn a_public_key_verifies_what_a_private_one_signed(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    let fields = json!({"url": receiver.url("/hook"), "events": ["*"], "signature": "ed25519"});
    let subscriber = Subscriber::with(&api, fields).await;
    assert_eq!(subscriber.made.get("secret"), None, "nobody is shown a private key");
    let public = subscriber.made["public_key"].as_str().expect("a public key").to_owned();
    assert!(public.starts_with("whpk_"));
    let event = publish(&api, "order.created", json!(1)).await;
    subscriber.delivery(&event, "succeeded").await;
    for seen in receiver.seen("/hook") {
        assert!(seen.header("webhook-signature").starts_with("v1a,"));
        assert!(verifies(&seen, &public));
    }
    let rotated = subscriber.act("rotate", json!({})).await;
    let new = rotated["public_key"].as_str().expect("a public key");
    assert_ne!(new, public);
    let event = publish(&api, "order.created", json!(2)).await;
    subscriber.delivery(&event, "succeeded").await;
    let seen = came(&receiver, "/hook").remove(1);
    assert!(verifies(&seen, &public) && verifies(&seen, new));
    let change = json!({"signature": "hmac"});
    api.patch(&subscriber.path(""), change).await.refuses_field("signature");
    for text in [rotated.to_string(), subscriber.show().await.to_string(), gateway.logged()] {
        assert!(!text.contains("whsk_"));
    }
}

async fn a_rate_is_kept(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    let fields = json!({"url": receiver.url("/slow"), "events": ["*"], "rate_per_s": 3});
    let slow = Subscriber::with(&api, fields).await;
    let quick = Subscriber::new(&api, receiver.url("/quick"), &["*"]).await;
    publish_many(&api, "order.created", 15).await;
    quick.have(15, "succeeded").await;
    let mut starts = Vec::new();
    for row in slow.have(15, "succeeded").await {
        let shown = show_delivery(&api, row["id"].as_str().expect("an id")).await;
        starts.push(moment(&tries(&shown)[0]["started_at"]));
    }
    starts.sort_unstable();
    // A second's worth may start together; the others follow at their pace.
    let took = starts[14].since(starts[0]);
    assert!(took >= Duration::from_millis(3500), "{took:?}");
}

async fn a_failing_head_blocks_only_its_key(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let others = Arc::new(AtomicUsize::new(0));
    let receiver = receiver(move |_, seen| {
        let object = seen.json()["data"]["object"].clone();
        match (object["key"].as_str(), object["n"].as_u64()) {
            // Until everybody else has had their turn.
            (Some("a"), Some(0)) if others.load(Ordering::SeqCst) < 6 => {
                Reply::new(503, "").with_header("retry-after", 1)
            }
            (Some("a"), _) => Reply::new(200, ""),
            _ => {
                others.fetch_add(1, Ordering::SeqCst);
                Reply::new(200, "")
            }
        }
    })
    .await;
    let fields = json!({"url": receiver.url("/hook"), "events": ["*"], "order": true,
        "circuit_settings": {"failures": 0}});
    let subscriber = Subscriber::with(&api, fields).await;
    let mut batch = Vec::new();
    for n in 0..3 {
        for key in ["a", "b"] {
            let data = json!({"key": key, "n": n});
            batch.push(json!({"type": "order.moved", "order_key": key, "data": data}));
        }
        batch.push(json!({"type": "order.moved", "data": {"n": n}}));
    }
    api.post("/events", json!(batch)).await.is(202);
    subscriber.have(9, "succeeded").await;
    let of = |key: Value| {
        let seen = came(&receiver, "/hook");
        let objects = seen.iter().map(|seen| seen.json()["data"]["object"].clone());
        let of_key = objects.filter(|object| object.get("key").unwrap_or(&Value::Null) == &key);
        of_key.map(|object| object["n"].as_u64().expect("a number")).collect::<Vec<_>>()
    };
    let mut head = of(json!("a"));
    assert!(head.len() > 3, "its head failed: {head:?}");
    assert!(head.is_sorted(), "{head:?}");
    head.dedup();
    assert_eq!(head, [0, 1, 2]);
    assert_eq!(of(json!("b")), [0, 1, 2]);
    let seen: Vec<Value> = came(&receiver, "/hook").iter().map(Seen::json).collect();
    let last_other = seen.iter().rposition(|body| body["data"]["object"]["key"] != "a");
    let second = seen
        .iter()
        .position(|body| body["data"]["object"]["key"] == "a" && body["data"]["object"]["n"] == 1);
    assert!(last_other < second, "the others did not wait for it");
}

async fn no_more_than_allowed_are_made(database: Database) {
    let gateway = gateway(database).await;
    let admin = gateway.admin();
    let api = admin.tenant("acme").await;
    let receiver = taker().await;
    let fields = json!({"url": receiver.url("/hook"), "events": ["*"]});
    for _ in 0..20 {
        Subscriber::with(&api, fields.clone()).await;
    }
    let refused = api.post("/webhooks", fields.clone()).await;
    assert!((400..500).contains(&refused.status), "{}", refused.json());
    assert_eq!(api.list("/webhooks").await.len(), 20);
    admin.patch("/tenants/acme", json!({"max_webhooks": 21})).await.is(200);
    until("it may have one more", || async {
        (api.post("/webhooks", fields.clone()).await.status == 201).then_some(())
    })
    .await;
}
