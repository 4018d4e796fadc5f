//! Pull mode: a subscriber without a public address leases its deliveries, and nobody else gets them.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use wakepost_tests::{Answer, Api, Database, Seen, on_both, until};

use crate::subscriber::*;

on_both!(
    a_leased_delivery_has_what_a_push_would_have_had,
    a_delivery_that_is_not_taken_comes_again_and_then_is_a_dead_letter,
    a_lease_that_ended_is_worth_nothing,
    nobody_else_gets_a_delivery,
    a_paused_webhook_hands_out_nothing,
);

async fn puller(api: &Api, fields: Value) -> Subscriber {
    let mut all = json!({"mode": "pull", "events": ["*"]});
    for (name, value) in fields.as_object().expect("fields") {
        all[name] = value.clone();
    }
    Subscriber::with(api, all).await
}

/// Asks for deliveries, waiting for the first.
async fn lease(api: &Api, subscriber: &Subscriber, fields: Value) -> Vec<Value> {
    let mut all = json!({"worker": "w", "wait_s": 20, "max": 10});
    for (name, value) in fields.as_object().expect("fields") {
        all[name] = value.clone();
    }
    let said = api.post(&subscriber.path("/deliveries/lease"), all).await.is(200).json();
    said["deliveries"].as_array().expect("deliveries").clone()
}

/// Says something of a leased delivery.
async fn say(api: &Api, delivery: &Value, what: &str, mut fields: Value) -> Answer {
    fields["lease_token"] = delivery["lease_token"].clone();
    let id = delivery["id"].as_str().expect("an id");
    api.post(&format!("/deliveries/{id}/{what}"), fields).await
}

/// The request that it would have been.
fn as_request(delivery: &Value) -> Seen {
    let mut headers = HeaderMap::new();
    for (name, value) in delivery["headers"].as_object().expect("headers") {
        let name: HeaderName = name.parse().expect("a name");
        headers
            .insert(name, HeaderValue::from_str(value.as_str().expect("a text")).expect("a value"));
    }
    let body = delivery["body"].as_str().expect("a body").to_owned().into();
    Seen { method: Method::POST, path: String::new(), query: String::new(), headers, body }
}

async fn a_leased_delivery_has_what_a_push_would_have_had(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let subscriber = puller(&api, json!({"headers": {"x-team": "blue"}})).await;
    assert_eq!(subscriber.made["url"], json!(null));
    // It waits before there is anything.
    let waiting = {
        let (api, path) = (api.clone(), subscriber.path("/deliveries/lease"));
        tokio::spawn(async move {
            api.post(&path, json!({"worker": "w", "wait_s": 20})).await.is(200).json()
        })
    };
    let event = publish(&api, "order.created", json!({"n": "ü"})).await;
    let leased = waiting.await.expect("no panic")["deliveries"][0].clone();
    assert_eq!((&leased["event_id"], &leased["attempt"]), (&json!(event), &json!(1)));
    let request = as_request(&leased);
    subscriber.signed(&request);
    assert_eq!(request.header("webhook-id"), event);
    assert_eq!(request.header("x-team"), "blue");
    assert!(request.header("user-agent").starts_with("Wakepost/"));
    request.header("traceparent");
    assert_eq!(request.json()["data"]["object"], json!({"n": "ü"}));
    let shown = subscriber.delivery(&event, "running").await;
    assert_eq!(tries(&shown)[0]["outcome"], "running");

    let before = moment(&leased["lease_expires_at"]);
    let beaten = say(&api, &leased, "heartbeat", json!({"extend_s": 300})).await.is(200);
    assert!(moment(&beaten.json()["lease_expires_at"]) > before);
    assert_eq!(say(&api, &leased, "ack", json!({})).await.is(200).text("status"), "succeeded");
    // The answer got lost.
    assert_eq!(say(&api, &leased, "ack", json!({})).await.is(200).text("status"), "succeeded");
    let shown = subscriber.delivery(&event, "succeeded").await;
    assert_eq!(shown["attempt_count"], 1);
    let none = lease(&api, &subscriber, json!({"wait_s": 0})).await;
    assert!(none.is_empty());
}

async fn a_delivery_that_is_not_taken_comes_again_and_then_is_a_dead_letter(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let owner = taker().await;
    Subscriber::new(&api, owner.url("/owner"), &["delivery.dead_lettered"]).await;
    let subscriber = puller(&api, json!({"events": ["order.*"], "retry_s": [0, 0, 0]})).await;
    let event = publish(&api, "order.created", json!(1)).await;
    let mut bodies = Vec::new();
    for attempt in 1..=3 {
        let leased = lease(&api, &subscriber, json!({})).await.remove(0);
        assert_eq!(leased["attempt"], attempt);
        subscriber.signed(&as_request(&leased));
        bodies.push(leased["body"].clone());
        let said = say(&api, &leased, "nack", json!({"error": "no room"})).await.is(200);
        let expected = if attempt < 3 { "retrying" } else { "dead_letter" };
        assert_eq!(said.text("status"), expected);
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]));
    let dead = subscriber.delivery(&event, "dead_letter").await;
    assert_eq!(dead["last_error"], "no room");
    let told = comes(&owner, "/owner", 1).await.remove(0).json();
    assert_eq!(told["data"]["object"]["id"], dead["id"]);
    // For good at once.
    publish(&api, "order.created", json!(2)).await;
    let leased = lease(&api, &subscriber, json!({})).await.remove(0);
    let said = say(&api, &leased, "nack", json!({"retryable": false})).await.is(200);
    assert_eq!(said.text("status"), "dead_letter");
    // And replayed.
    let id = dead["id"].as_str().expect("an id");
    api.post(&format!("/deliveries/{id}/replay"), json!({"note": "n"})).await.is(202);
    let leased = lease(&api, &subscriber, json!({})).await.remove(0);
    assert_eq!((&leased["event_id"], &leased["body"]), (&json!(event), &bodies[0]));
}

async fn a_lease_that_ended_is_worth_nothing(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let subscriber = puller(&api, json!({})).await;
    publish(&api, "order.created", json!(1)).await;
    let first = lease(&api, &subscriber, json!({"lease_s": 1})).await.remove(0);
    let second = until("it comes again", || async {
        lease(&api, &subscriber, json!({"wait_s": 5})).await.pop()
    })
    .await;
    assert_eq!((&first["id"], &second["attempt"]), (&second["id"], &json!(2)));
    assert_eq!(first["body"], second["body"]);
    for what in ["ack", "nack", "heartbeat"] {
        say(&api, &first, what, json!({})).await.refuses(409, "lease_lost");
    }
    let id = first["id"].as_str().expect("an id");
    let forged = json!({"lease_token": "rubbish"});
    let refused = api.post(&format!("/deliveries/{id}/ack"), forged).await;
    assert!((400..500).contains(&refused.status), "{}", refused.json());
    say(&api, &second, "ack", json!({})).await.is(200);
    let shown = show_delivery(&api, id).await;
    let outcomes: Vec<&str> =
        tries(&shown).iter().filter_map(|one| one["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["unknown", "succeeded"]);
}

async fn nobody_else_gets_a_delivery(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    let pulls = puller(&api, json!({})).await;
    let other = puller(&api, json!({"events": ["user.*"]})).await;
    let pushes = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    let event = publish(&api, "order.created", json!(1)).await;
    pushes.delivery(&event, "succeeded").await;
    // Workers of jobs, whatever they ask for.
    for ask in
        [json!({}), json!({"kinds": [""]}), json!({"kinds": ["order.created"]}), json!({"max": 50})]
    {
        assert!(gateway.worker("w").lease_many(ask).await.is_empty());
    }
    assert!(lease(&api, &other, json!({"wait_s": 0})).await.is_empty());
    let path = pushes.path("/deliveries/lease");
    api.post(&path, json!({"worker": "w"})).await.refuses(409, "invalid_state");
    let acme = api.tenant("acme").await;
    let path = pulls.path("/deliveries/lease");
    acme.post(&path, json!({"worker": "w"})).await.refuses(404, "not_found");
    let viewer = api.role("viewer", "default").await;
    viewer.post(&path, json!({"worker": "w"})).await.is(403);

    let leased = lease(&api, &pulls, json!({})).await.remove(0);
    let id = leased["id"].as_str().expect("an id");
    // Its token is of no use for what is done to jobs, nor a job's for it.
    let token = json!({"lease_token": leased["lease_token"], "result": 1});
    for path in
        [format!("/jobs/{id}/complete"), format!("/jobs/{}/complete", id.replace("dlv", "job"))]
    {
        let refused = api.post(&path, token.clone()).await;
        assert!((400..500).contains(&refused.status), "{path}: {}", refused.status);
    }
    say(&acme, &leased, "ack", json!({})).await.refuses(404, "not_found");
    say(&api, &leased, "ack", json!({})).await.is(200);
    api.job().await;
    let job = gateway.worker("w").wait().await;
    let path = format!("/deliveries/{}/ack", job.id());
    let refused = api.post(&path, json!({"lease_token": job.token()})).await;
    assert!((400..500).contains(&refused.status));
    job.complete(json!(1)).await.is(200);
    // There is nobody to be pinged or tested.
    api.post(&pulls.path("/test"), json!({})).await.refuses(409, "invalid_state");
    let both = json!({"mode": "pull", "events": ["*"], "url": receiver.url("/x")});
    api.post("/webhooks", both).await.refuses_field("url");
}

async fn a_paused_webhook_hands_out_nothing(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let subscriber = puller(&api, json!({})).await;
    subscriber.act("pause", json!({})).await;
    publish(&api, "order.created", json!(1)).await;
    assert!(lease(&api, &subscriber, json!({"wait_s": 1})).await.is_empty());
    subscriber.act("resume", json!({})).await;
    let leased = lease(&api, &subscriber, json!({})).await;
    assert_eq!(leased.len(), 1);
    say(&api, &leased[0], "ack", json!({})).await.is(200);
}
