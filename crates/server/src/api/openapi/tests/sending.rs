//! Every operation of sending once: webhooks, events, deliveries.

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::world::World;

fn id(value: &Value) -> String {
    value["id"].as_str().unwrap().to_owned()
}

pub async fn sending(world: &mut World) {
    let webhook = webhooks(world).await;
    let delivery = publishing(world, &webhook).await;
    pulling(world, &webhook, &delivery).await;
    making_good(world, &webhook).await;
    world.call("DELETE", &format!("/webhooks/{webhook}"), Value::Null, 204).await;
    world.call("DELETE", &format!("/webhooks/{webhook}"), Value::Null, 404).await;
}

async fn webhooks(world: &mut World) -> String {
    for (bad, field) in [
        (json!({"events": ["*"]}), "url"),
        (json!({"url": "http://example.com/", "events": ["*"]}), "url"),
        (json!({"url": "https://127.0.0.1/", "events": ["*"]}), "url"),
        (json!({"url": "https://example.com/"}), "events"),
        (json!({"mode": "pull", "events": ["Order"]}), "events.0"),
        (json!({"mode": "pull", "events": ["*"], "headers": {"host": "x"}}), "headers.host"),
        (json!({"mode": "pull", "events": ["*"], "headers": {"x-a": "a\r\nb: c"}}), "headers.x-a"),
        (json!({"mode": "pull", "events": ["*"], "timeout_s": 31}), "timeout_s"),
        (json!({"mode": "pull", "events": ["*"], "retry_s": []}), "retry_s"),
        (
            json!({"mode": "pull", "events": ["*"], "circuit_settings": {"open_s": 0}}),
            "circuit_settings.open_s",
        ),
        (
            json!({"mode": "pull", "events": ["*"], "auth": {"type": "mtls", "cert": "x", "key": "y"}}),
            "auth.cert",
        ),
    ] {
        let refused = world.post("/webhooks", bad, 422).await;
        assert_eq!(refused["errors"][0]["field"], field, "{refused}");
    }
    let fields = json!({"mode": "pull", "events": ["order.*"], "description": "a shop",
        "headers": {"X-Api-Key": "k"}, "auth": {"type": "bearer", "token": "t"}, "rate_per_s": 100,
        "order": true, "timeout_s": 5, "retry_s": [0, 60], "circuit_settings": {"failures": 3},
        "metadata": {"team": "shop"}});
    let made = world.post("/webhooks", fields, 201).await;
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    let path = format!("/webhooks/{}", id(&made));
    let shown = world.get(&path).await;
    assert_eq!((&shown["secret"], &shown["auth"]), (&Value::Null, &json!({"type": "bearer"})));
    assert_eq!(world.get("/webhooks?limit=1").await["data"][0]["id"], made["id"]);
    let changes =
        json!({"rate_per_s": null, "auth": null, "headers": null, "description": "the shop"});
    let changed = world.call("PATCH", &path, changes, 200).await;
    assert_eq!((&changed["rate_per_s"], &changed["auth"]), (&Value::Null, &Value::Null));
    world.call("PATCH", &path, json!({"signature": "ed25519"}), 422).await;
    world.post(&format!("{path}/revoke-previous"), Value::Null, 409).await;
    let rotated = world.post(&format!("{path}/rotate"), json!({"grace_s": 60}), 200).await;
    assert_ne!(rotated["secret"], made["secret"]);
    world.post(&format!("{path}/revoke-previous"), Value::Null, 200).await;
    world.post(&format!("{path}/resume"), Value::Null, 409).await;
    assert_eq!(world.post(&format!("{path}/pause"), json!({}), 200).await["status"], "paused");
    assert_eq!(world.post(&format!("{path}/resume"), Value::Null, 200).await["status"], "active");
    assert_eq!(
        world.post(&format!("{path}/disable"), Value::Null, 200).await["status"],
        "disabled"
    );
    world.post(&format!("{path}/pause"), json!({}), 409).await;
    world.post(&format!("{path}/recover"), json!({"since": "2020-01-01T00:00:00Z"}), 409).await;
    assert_eq!(world.post(&format!("{path}/enable"), Value::Null, 200).await["status"], "active");
    world.post(&format!("{path}/test"), json!({}), 409).await;

    // Nobody is there: it is made, with a warning, and a try says what went wrong.
    let pushed = json!({"url": "https://nobody.invalid/hook", "events": ["never.happens"],
        "signature": "ed25519"});
    let pushed = world.post("/webhooks", pushed, 201).await;
    assert!(pushed["warning"].is_string() && pushed["public_key"].is_string());
    let other = format!("/webhooks/{}", id(&pushed));
    let tested = world.post(&format!("{other}/test"), json!({"type": "order.created"}), 200).await;
    assert!(tested["error"].is_string());
    world.post(&format!("{other}/deliveries/lease"), json!({"worker": "w"}), 409).await;
    world.call("DELETE", &other, Value::Null, 204).await;
    id(&made)
}

async fn publishing(world: &mut World, webhook: &str) -> String {
    for (bad, field) in [
        (json!({"type": "Order", "data": {}}), "type"),
        (json!({"type": "webhook.made", "data": {}}), "type"),
        (json!({"type": "order.made"}), "data"),
        (
            json!({"type": "order.made", "data": 1, "deliver_at": "2099-01-01T00:00:00Z"}),
            "deliver_at",
        ),
        (json!([{"type": "a.b", "data": 1}, {"type": "a", "data": 1}]), "1.type"),
        (json!([]), "body"),
    ] {
        let refused = world.post("/events", bad, 422).await;
        assert_eq!(refused["errors"][0]["field"], field, "{refused}");
    }
    let event = json!({"type": "order.created", "data": {"id": 1}, "dedup_key": "o-1", "order_key": "k",
        "previous_attributes": {"id": 0}, "livemode": false, "api_version": "1"});
    let made = world.post("/events", event.clone(), 202).await;
    assert_eq!((&made["status"], &made["deliveries"]), (&json!("accepted"), &json!(1)));
    let again = world.post("/events", event, 202).await;
    assert_eq!((&again["status"], &again["id"]), (&json!("duplicate"), &made["id"]));
    let other = json!({"type": "order.created", "data": {"id": 2}, "dedup_key": "o-1"});
    world.post("/events", other, 409).await;
    let mut headers = HeaderMap::new();
    headers.insert("idempotency-key", HeaderValue::from_static("call-1"));
    let many = json!([{"type": "order.paid", "data": 1}, {"type": "other.thing", "data": 2}]);
    let first =
        world.call_with("POST", "/api/v1/events", headers.clone(), Some(many.clone()), 202).await;
    let second = world.call_with("POST", "/api/v1/events", headers, Some(many), 202).await;
    let ids =
        |answer: &Value| answer["data"].as_array().unwrap().iter().map(id).collect::<Vec<_>>();
    assert_eq!(ids(&first.json()), ids(&second.json()));

    let path = format!("/events/{}", id(&made));
    let shown = world.get(&path).await;
    assert_eq!(shown["envelope"]["data"]["object"], json!({"id": 1}));
    assert_eq!(world.get("/events?type=order.created").await["data"][0]["id"], made["id"]);
    assert!(
        world.get("/inbox").await["data"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["id"] != made["id"])
    );
    let deliveries = world.get(&format!("{path}/deliveries")).await;
    let delivery = id(&deliveries["data"][0]);
    let of_webhook = world.get(&format!("/webhooks/{webhook}/deliveries?status=pending")).await;
    assert!(
        of_webhook["data"].as_array().unwrap().iter().any(|row| row["id"] == delivery.as_str())
    );
    assert_eq!(world.get(&format!("/webhooks/{webhook}/stats")).await["total"], 2);
    delivery
}

async fn pulling(world: &mut World, webhook: &str, delivery: &str) {
    let lease = format!("/webhooks/{webhook}/deliveries/lease");
    world.post(&lease, json!({"worker": "w", "max": 501}), 422).await;
    let leased = world.post(&lease, json!({"worker": "w", "max": 10}), 200).await;
    let leased = leased["deliveries"].as_array().unwrap().clone();
    assert_eq!(leased.len(), 2);
    for item in &leased {
        let path = format!("/deliveries/{}", id(item));
        let token = item["lease_token"].clone();
        assert!(item["headers"]["webhook-signature"].as_str().unwrap().starts_with("v1,"));
        world
            .post(&format!("{path}/heartbeat"), json!({"lease_token": token, "extend_s": 60}), 200)
            .await;
        world.get(&path).await;
        if id(item) == delivery {
            let nack = json!({"lease_token": token, "error": "no room", "retryable": false});
            let nacked = world.post(&format!("{path}/nack"), nack, 200).await;
            assert_eq!(nacked["status"], "dead_letter");
        } else {
            world.post(&format!("{path}/ack"), json!({"lease_token": token}), 200).await;
            world.post(&format!("{path}/ack"), json!({"lease_token": "lt_x"}), 409).await;
        }
        let whole = world.get(&path).await;
        assert_eq!(whole["attempts"].as_array().unwrap().len(), 1, "{whole}");
    }
    let again = world.post(&format!("/deliveries/{delivery}/replay"), json!({}), 202).await;
    let again = format!("/deliveries/{}", again["delivery_id"].as_str().unwrap());
    assert_eq!(world.get(&again).await["status"], "pending");
    world.post(&format!("/deliveries/{delivery}/replay"), json!({}), 409).await;

    // What is too large to be sent is linked to.
    let large = json!({"type": "order.drawn", "data": "x".repeat(70_000)});
    let large = world.post("/events", large, 202).await;
    let leased = world.post(&lease, json!({"worker": "w", "max": 10}), 200).await;
    let mut leased = leased["deliveries"].as_array().unwrap().iter();
    let item = leased.find(|item| item["event_id"] == large["id"]).unwrap();
    let body: Value = serde_json::from_str(item["body"].as_str().unwrap()).unwrap();
    assert_eq!(body["data"]["truncated"], true);
    let (_, token) = body["data"]["url"].as_str().unwrap().rsplit_once("/e/").unwrap();
    let whole = world.call_with("GET", &format!("/e/{token}"), HeaderMap::new(), None, 200).await;
    assert_eq!(whole.json()["data"]["object"].as_str().unwrap().len(), 70_000);
}

async fn making_good(world: &mut World, webhook: &str) {
    for what in ["recover", "backfill"] {
        let path = format!("/webhooks/{webhook}/{what}");
        world.post(&path, json!({}), 422).await;
        let span = json!({"since": "2020-01-01T00:00:00Z", "until": "2030-01-01T00:00:00Z"});
        let begun = world.post(&path, span, 202).await;
        world.get(&format!("/operations/{}", begun["operation_id"].as_str().unwrap())).await;
    }
}
