//! Webhooks, the catalogue, pull mode and portal links: what is sent, and how answers are read.

mod stand_in;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stand_in::{StandIn, bytes_answer, json_answer, problem};
use wakepost_client::{
    CircuitSettings, Client, DeliveryLeaseQuery, DeliveryQuery, EventTypeFields, EventTypeVersion,
    Nack, NewPortalLink, PageQuery, Period, WebhookAuth, WebhookFields,
};

fn client(server: &StandIn) -> Client {
    Client::new(&server.url, "k").expect("a client")
}

#[tokio::test]
async fn a_webhook_is_made_with_what_was_said_and_its_secret_is_shown_once() {
    let server = StandIn::start(|_| {
        json_answer(
            201,
            json!({"id": "wh_1", "url": "https://a.example/hooks", "mode": "push",
            "events": ["order.*"], "status": "active", "enabled": true, "description": null,
            "circuit": {"state": "closed", "failures": 0, "opened_at": null, "history": []},
            "auth": {"type": "bearer"}, "secret": "whsec_abc", "secret_age_days": 0,
            "warning": "the ping was answered 500", "metadata": null, "added_later": 1}),
        )
    });
    let new = WebhookFields {
        url: Some("https://a.example/hooks".to_owned()),
        events: vec!["order.*".to_owned()],
        headers: Some(BTreeMap::from([("X-Env".to_owned(), "test".to_owned())])),
        auth: Some(WebhookAuth::Basic { username: "u".to_owned(), password: "pw".to_owned() }),
        retry_s: Some(vec![0, 10]),
        circuit_settings: Some(CircuitSettings { failures: Some(0), ..Default::default() }),
        ..WebhookFields::default()
    };
    assert!(!format!("{new:?} {:?}", new.auth).contains("pw"));
    let made = client(&server).create_webhook(&new).await.expect("a webhook");
    assert_eq!((made.status.as_str(), made.secret.as_deref()), ("active", Some("whsec_abc")));
    assert_eq!(made.circuit.state, "closed");
    assert_eq!(made.warning.as_deref(), Some("the ping was answered 500"));
    assert!(!format!("{made:?}").contains("whsec_"));
    assert_eq!(
        server.seen()[0].body,
        json!({"url": "https://a.example/hooks", "events": ["order.*"], "headers": {"X-Env": "test"},
            "auth": {"type": "basic", "username": "u", "password": "pw"}, "retry_s": [0, 10],
            "circuit_settings": {"failures": 0}})
    );
}

#[tokio::test]
async fn every_move_of_a_webhook_has_its_call() {
    let server = StandIn::start(|seen| match seen.line.rsplit('/').next().unwrap_or_default() {
        "test" => {
            json_answer(200, json!({"status_code": 500, "body": "oh", "timings": {"dns_ms": 1}}))
        }
        "rotate" => json_answer(200, json!({"secret": "whsec_new"})),
        "recover" | "backfill" => json_answer(202, json!({"operation_id": "op_1"})),
        "stats" => json_answer(200, json!({"delivered": 7})),
        "deliveries?limit=5&status=held" => {
            json_answer(200, json!({"data": [{"id": "dlv_1"}], "next_cursor": null}))
        }
        "wh_1" if seen.line.starts_with("DELETE") => bytes_answer(204, b""),
        "webhooks" => json_answer(200, json!({"data": [{"id": "wh_1"}], "next_cursor": null})),
        _ => json_answer(200, json!({"id": "wh_1", "status": "active"})),
    });
    let client = client(&server);
    assert_eq!(client.list_webhooks(&PageQuery::default()).await.expect("a page").data.len(), 1);
    assert_eq!(client.get_webhook("wh_1").await.expect("one").id, "wh_1");
    let change = WebhookFields {
        description: Some("d".to_owned()),
        other: [("rate_per_s".to_owned(), Value::Null)].into_iter().collect(),
        ..WebhookFields::default()
    };
    client.update_webhook("wh_1", &change).await.expect("changed");
    let tried = client.test_webhook("wh_1", Some("order.created")).await.expect("tried");
    assert_eq!((tried.status_code, tried.body.as_str()), (Some(500), "oh"));
    client.test_webhook("wh_1", None).await.expect("tried");
    let rotated = client.rotate_webhook("wh_1", Some(60)).await.expect("rotated");
    assert_eq!(rotated.secret.as_deref(), Some("whsec_new"));
    assert!(!format!("{rotated:?}").contains("whsec_"));
    client.revoke_previous_secret("wh_1").await.expect("revoked");
    client.pause_webhook("wh_1", false).await.expect("paused");
    client.resume_webhook("wh_1").await.expect("resumed");
    client.enable_webhook("wh_1").await.expect("enabled");
    client.disable_webhook("wh_1").await.expect("disabled");
    let since = "2026-11-15T00:00:00.000Z".to_owned();
    let period = Period { since: since.clone(), until: None };
    let begun = client.recover_webhook("wh_1", &period).await.expect("begun");
    assert_eq!(begun.operation_id, "op_1");
    client.backfill_webhook("wh_1", &period).await.expect("begun");
    let held =
        DeliveryQuery { status: Some("held".to_owned()), limit: Some(5), ..Default::default() };
    assert_eq!(client.webhook_deliveries("wh_1", &held).await.expect("a page").data.len(), 1);
    assert_eq!(client.webhook_stats("wh_1").await.expect("stats")["delivered"], 7);
    client.delete_webhook("wh_1").await.expect("deleted");
    let asked: Vec<(String, Value)> =
        server.seen().into_iter().map(|seen| (seen.line, seen.body)).collect();
    let expected = [
        ("GET /api/v1/webhooks", Value::Null),
        ("GET /api/v1/webhooks/wh_1", Value::Null),
        ("PATCH /api/v1/webhooks/wh_1", json!({"description": "d", "rate_per_s": null})),
        ("POST /api/v1/webhooks/wh_1/test", json!({"type": "order.created"})),
        ("POST /api/v1/webhooks/wh_1/test", json!({})),
        ("POST /api/v1/webhooks/wh_1/rotate", json!({"grace_s": 60})),
        ("POST /api/v1/webhooks/wh_1/revoke-previous", json!({})),
        ("POST /api/v1/webhooks/wh_1/pause", json!({"keep": false})),
        ("POST /api/v1/webhooks/wh_1/resume", json!({})),
        ("POST /api/v1/webhooks/wh_1/enable", json!({})),
        ("POST /api/v1/webhooks/wh_1/disable", json!({})),
        ("POST /api/v1/webhooks/wh_1/recover", json!({"since": since})),
        ("POST /api/v1/webhooks/wh_1/backfill", json!({"since": since})),
        ("GET /api/v1/webhooks/wh_1/deliveries?limit=5&status=held", Value::Null),
        ("GET /api/v1/webhooks/wh_1/stats", Value::Null),
        ("DELETE /api/v1/webhooks/wh_1", Value::Null),
    ];
    for (asked, expected) in asked.iter().zip(&expected) {
        assert_eq!((asked.0.as_str(), &asked.1), (expected.0, &expected.1));
    }
    assert_eq!(asked.len(), expected.len());
}

#[tokio::test]
async fn the_catalogue_is_written_and_read_and_warns() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "DELETE /api/v1/event-types/order.created" => bytes_answer(204, b""),
        "GET /api/v1/event-types" => {
            json_answer(200, json!({"data": [{"name": "order.created"}], "next_cursor": null}))
        }
        _ => json_answer(
            200,
            json!({"name": "order.created", "description": "an order was placed",
            "versions": {"2026-11-15": {"schema": {"type": "object"}, "example": null,
                "change": "the first"}},
            "warnings": ["/total: an amount should be an integer",
                {"field": "/card", "message": "looks like a secret"}]}),
        ),
    });
    let client = client(&server);
    let version =
        EventTypeVersion { schema: Some(json!({"type": "object"})), ..Default::default() };
    let fields = EventTypeFields {
        description: Some("an order was placed".to_owned()),
        versions: BTreeMap::from([("2026-11-15".to_owned(), version)]),
    };
    let put = client.put_event_type("order.created", &fields).await.expect("a type");
    assert_eq!(put.versions["2026-11-15"].change.as_deref(), Some("the first"));
    assert_eq!(put.warnings[1], "/card: looks like a secret");
    client.create_event_type("order.created", &fields).await.expect("a type");
    client.get_event_type("order.created").await.expect("a type");
    client.list_event_types(&PageQuery::default()).await.expect("types");
    client.delete_event_type("order.created").await.expect("deleted");
    let seen = server.seen();
    let body = json!({"description": "an order was placed",
        "versions": {"2026-11-15": {"schema": {"type": "object"}}}});
    assert_eq!(
        (seen[0].line.as_str(), &seen[0].body),
        ("PUT /api/v1/event-types/order.created", &body)
    );
    assert_eq!(seen[1].line, "POST /api/v1/event-types");
    assert_eq!(seen[1].body["name"], "order.created");
    assert_eq!(seen[1].body["versions"], body["versions"]);
}

#[tokio::test]
async fn deliveries_are_leased_kept_and_taken_or_not() {
    let body = r#"{"id":"evt_1","type":"order.created"}"#;
    let server = StandIn::start(move |seen| match seen.line.rsplit('/').next() {
        Some("lease") => json_answer(
            200,
            json!({"deliveries": [{"id": "dlv_1", "lease_token": "t", "attempt": 2, "body": body,
                "headers": {"Webhook-Id": "evt_1", "webhook-timestamp": "1", "webhook-signature": "v1,x"}}]}),
        ),
        Some("heartbeat") => problem(409, "lease_lost", "gone"),
        _ => json_answer(200, json!({"id": "dlv_1", "status": "succeeded"})),
    });
    let client = client(&server);
    let query = DeliveryLeaseQuery {
        worker: "w".to_owned(),
        max: Some(10),
        wait_s: Some(20),
        lease_s: Some(60),
    };
    let leased = client.lease_deliveries("wh_1", &query).await.expect("deliveries").deliveries;
    let one = &leased[0];
    assert_eq!((one.event_id(), one.attempt, one.body.as_str()), (Some("evt_1"), 2, body));
    assert_eq!(one.event().expect("JSON")["type"], "order.created");
    assert_eq!(one.header_map()["webhook-id"], "evt_1");
    assert!(!format!("{one:?}").contains("lease_token"));
    client.ack_delivery("dlv_1", &one.lease_token).await.expect("taken");
    let nack = Nack { error: "full".to_owned(), retry_after_s: Some(30), ..Nack::default() };
    client.nack_delivery("dlv_1", "t", &nack).await.expect("not taken");
    let lost = client.heartbeat_delivery("dlv_1", "t", Some(60)).await.expect_err("lost");
    assert!(lost.is_code("lease_lost"));
    let asked: Vec<(String, Value)> =
        server.seen().into_iter().map(|seen| (seen.line, seen.body)).collect();
    let at = |line: &str| line.to_owned();
    assert_eq!(
        asked,
        [
            (
                at("POST /api/v1/webhooks/wh_1/deliveries/lease"),
                json!({"worker": "w", "max": 10, "wait_s": 20, "lease_s": 60})
            ),
            (at("POST /api/v1/deliveries/dlv_1/ack"), json!({"lease_token": "t"})),
            (
                at("POST /api/v1/deliveries/dlv_1/nack"),
                json!({"lease_token": "t", "error": "full", "retry_after_s": 30})
            ),
            (
                at("POST /api/v1/deliveries/dlv_1/heartbeat"),
                json!({"lease_token": "t", "extend_s": 60})
            ),
        ]
    );
}

#[tokio::test]
async fn a_delivery_is_shown_with_its_tries_and_replayed() {
    let server = StandIn::start(|seen| match seen.line.starts_with("GET") {
        true => json_answer(
            200,
            json!({"id": "dlv_1", "event_id": "evt_1", "status": "dead_letter", "attempts": [
                {"id": "att_1", "attempt": 1, "status_code": 404, "body": "no such page",
                 "request_headers": {"webhook-id": "evt_1"}, "timings": {"first_byte_ms": 12}}]}),
        ),
        false => json_answer(202, json!({"job_id": "dlv_2"})),
    });
    let client = client(&server);
    let shown = client.get_delivery("dlv_1").await.expect("a delivery");
    assert_eq!(shown.tries[0].body.as_deref(), Some("no such page"));
    let replayed = client.replay_delivery("dlv_1", None).await.expect("replayed");
    assert_eq!(replayed.id(), Some("dlv_2"));
    client.replay_delivery("dlv_1", Some("ann: it is back")).await.expect("replayed");
    let seen = server.seen();
    assert_eq!(
        (seen[1].line.as_str(), &seen[1].body),
        ("POST /api/v1/deliveries/dlv_1/replay", &json!({}))
    );
    assert_eq!(seen[2].body, json!({"note": "ann: it is back"}));
}

#[tokio::test]
async fn a_portal_link_is_made_and_not_shown_in_debug_output() {
    let server = StandIn::start(|_| json_answer(201, json!({"url": "https://h/p/token"})));
    let link = NewPortalLink { tenant: Some("acme".to_owned()), expires_s: Some(3600) };
    let made = client(&server).create_portal_link(&link).await.expect("a link");
    assert_eq!(made.url, "https://h/p/token");
    assert!(!format!("{made:?}").contains("token"));
    assert_eq!(server.seen()[0].body, json!({"tenant": "acme", "expires_s": 3600}));
}
