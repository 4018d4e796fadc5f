//! Tenants: nobody sees, changes or gets anything of another's.

use http::Method;
use serde_json::{Value, json};
use wakepost_tests::{Database, on_both};

use crate::subscriber::*;

on_both!(nothing_of_one_tenant_reaches_another);

async fn nothing_of_one_tenant_reaches_another(database: Database) {
    let gateway = gateway(database).await;
    let admin = gateway.admin();
    let (acme, bolt) = (admin.tenant("acme").await, admin.tenant("bolt").await);
    let receiver = taker().await;
    let ours = Subscriber::new(&acme, receiver.url("/acme"), &["*", "webhook.*"]).await;
    let theirs = Subscriber::new(&bolt, receiver.url("/bolt"), &["*", "webhook.*"]).await;
    let event = publish(&acme, "order.created", json!({"of": "acme"})).await;
    let others = publish(&bolt, "order.created", json!({"of": "bolt"})).await;
    let delivery = ours.delivery(&event, "succeeded").await;
    theirs.delivery(&others, "succeeded").await;
    assert_eq!(events_at(&receiver, "/acme"), std::slice::from_ref(&event));
    assert_eq!(events_at(&receiver, "/bolt"), [others]);

    let id = delivery["id"].as_str().expect("an id");
    let span = json!({"since": "2020-01-01T00:00:00Z"});
    let note = json!({"note": "mine now"});
    let calls: Vec<(Method, String, Option<Value>)> = vec![
        (Method::GET, ours.path(""), None),
        (Method::PATCH, ours.path(""), Some(json!({"description": "x"}))),
        (Method::DELETE, ours.path(""), None),
        (Method::GET, ours.path("/deliveries"), None),
        (Method::GET, ours.path("/stats"), None),
        (Method::POST, ours.path("/test"), Some(json!({}))),
        (Method::POST, ours.path("/rotate"), Some(json!({}))),
        (Method::POST, ours.path("/revoke-previous"), Some(json!({}))),
        (Method::POST, ours.path("/pause"), Some(json!({}))),
        (Method::POST, ours.path("/resume"), Some(json!({}))),
        (Method::POST, ours.path("/enable"), Some(json!({}))),
        (Method::POST, ours.path("/disable"), Some(json!({}))),
        (Method::POST, ours.path("/recover"), Some(span.clone())),
        (Method::POST, ours.path("/backfill"), Some(span)),
        (Method::GET, format!("/events/{event}"), None),
        (Method::GET, format!("/events/{event}/deliveries"), None),
        (Method::GET, format!("/deliveries/{id}"), None),
        (Method::POST, format!("/deliveries/{id}/replay"), Some(note)),
    ];
    for (method, path, body) in &calls {
        // The same as of what never was.
        let answer = bolt.call(method.clone(), path, body.as_ref()).await.refuses(404, "not_found");
        assert!(!answer.json().to_string().contains("acme"));
    }
    let sees = bolt.list("/webhooks").await;
    assert_eq!((sees.len(), &sees[0]["id"]), (1, &json!(theirs.id)));
    assert_eq!(bolt.list("/events").await.len(), 1);
    let shown = ours.show().await;
    assert_eq!((&shown["status"], &shown["description"]), (&json!("active"), &json!("")));

    // What is told of one's webhooks goes to oneself.
    let other = Subscriber::new(&acme, receiver.url("/other"), &["user.*"]).await;
    other.act("disable", json!({})).await;
    comes(&receiver, "/acme", 2).await;
    let next = publish(&bolt, "order.paid", json!({})).await;
    theirs.delivery(&next, "succeeded").await;
    assert_eq!(came(&receiver, "/bolt").len(), 2);
    // Keys without the right to it.
    for (role, allowed) in [("viewer", 403), ("publisher", 403), ("worker", 403)] {
        let caller = admin.role(role, "acme").await;
        caller.post(&ours.path("/pause"), json!({})).await.is(allowed);
        caller
            .post("/webhooks", json!({"url": receiver.url("/x"), "events": ["*"]}))
            .await
            .is(allowed);
    }
    acme.without_key().get("/webhooks").await.is(401);
}
