//! Receipts: what became of each request, why it came again, and what an operator should know.

use std::time::Duration;

use serde_json::{Value, json};
use wakepost_domain::{ReceiptId, Ulid};
use wakepost_providers::SignedRequest;
use wakepost_tests::{Api, Database, Gateway, now, on_both, until};

on_both!(
    a_repeat_is_classified_with_its_evidence,
    what_comes_long_after_the_first_is_a_replay_unless_it_says_that_it_is_a_retry,
    a_captured_request_from_elsewhere_is_suspicious_and_one_signed_anew_is_not,
    a_repeat_that_our_own_answer_caused_is_known_as_such,
    a_repeat_after_an_answer_that_came_too_late_is_our_own_doing,
    a_template_tells_events_apart_in_place_of_the_providers_id,
    the_same_order_as_two_topics_is_two_events_and_each_of_them_once,
    a_source_with_a_rate_takes_so_many_and_says_when_to_come_again,
);

/// The class of the latest duplicate of an event, and its evidence.
async fn latest(api: &Api, event: &str) -> (String, Value) {
    let story = api.show_event(event).await;
    let last = story["receipts"].as_array().expect("receipts").last().expect("one").clone();
    (last["class"].as_str().unwrap_or_default().to_owned(), last["evidence"].clone())
}

async fn a_repeat_is_classified_with_its_evidence(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let stripe = api.source("stripe").await;
    let event = stripe.event("evt_1");
    let first = stripe.sign_at(&event, now().before(Duration::from_secs(20)));
    let id = gateway.send_request(&first).await.is(202).text("event_id");

    // Signed anew, soon after.
    gateway.send(&stripe, &event).await.is(200);
    let (class, evidence) = latest(&api, &id).await;
    assert_eq!(class, "provider_retry");
    assert_eq!(evidence["same_signature"], false);
    assert_eq!((&evidence["same_id"], &evidence["same_body"]), (&json!(true), &json!(true)));

    // The very same request from the same place is no crime, from elsewhere it is.
    gateway.send_request(&first).await.is(200);
    let (class, evidence) = latest(&api, &id).await;
    assert_eq!((class.as_str(), &evidence["same_signature"]), ("provider_retry", &json!(true)));

    // The same id with another body, really signed.
    let other = event.clone().with_body(json!({"id": "evt_1", "type": "invoice.paid"}).to_string());
    gateway.send(&stripe, &other).await.is(200);
    let (class, evidence) = latest(&api, &id).await;
    assert_eq!((class.as_str(), &evidence["same_body"]), ("suspicious", &json!(false)));

    // A captured body under a new id.
    let github = api.source("github").await;
    let captured = github.event("d-1");
    let id = gateway.send(&github, &captured).await.is(202).text("event_id");
    let mut again = captured.clone();
    again.id = "d-2".to_owned();
    gateway.send(&github, &again).await.is(200);
    let (class, evidence) = latest(&api, &id).await;
    assert_eq!((class.as_str(), &evidence["same_id"]), ("suspicious", &json!(false)));

    // A provider that says it tries again.
    let slack = api.source("slack").await;
    let request = slack.sample("7001");
    let id = gateway.send_request(&request).await.is(202).text("event_id");
    let mut retry = request.clone();
    retry.set("x-slack-retry-num", "1").expect("a header");
    gateway.send_request(&retry).await.is(200);
    let (class, evidence) = latest(&api, &id).await;
    assert_eq!((class.as_str(), &evidence["retry_header"]), ("provider_retry", &json!("1")));

    // The source's own list tells the same.
    let rows = api.list(&format!("/sources/{}/receipts", slack.id)).await;
    assert_eq!(rows[0]["class"], "provider_retry");
}

/// Moves the latest duplicate of an event to a later time. A receipt's id carries its time, and what a repeat is
/// compared with is found when it is read: nobody has to wait for hours.
async fn put_off(gateway: &Gateway, database: Database, event: &str, by: Duration) {
    let story = gateway.admin().show_event(event).await;
    let last = story["receipts"].as_array().expect("receipts").last().expect("one").clone();
    let id: ReceiptId = last["id"].as_str().expect("an id").parse().expect("a receipt's id");
    let chance = u128::from_be_bytes(id.0.to_bytes());
    let later = Ulid::from_parts(id.0.time().after(by), chance);
    let bits = |id: Ulid| {
        let digits = hex::encode(id.to_bytes());
        match database {
            Database::Sqlite => format!("X'{digits}'"),
            Database::Postgres => format!("'{digits}'::uuid"),
        }
    };
    let change = format!("UPDATE receipts SET id = {} WHERE id = {}", bits(later), bits(id.0));
    gateway.execute(&change).await;
}

async fn what_comes_long_after_the_first_is_a_replay_unless_it_says_that_it_is_a_retry(
    database: Database,
) {
    const LONG: Duration = Duration::from_secs(3 * 24 * 3600);
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let stripe = api.source("stripe").await;
    let event = stripe.event("evt_1");
    let first = stripe.sign_at(&event, now().before(Duration::from_secs(20)));
    let id = gateway.send_request(&first).await.is(202).text("event_id");
    gateway.send(&stripe, &event).await.is(200);
    assert_eq!(latest(&api, &id).await.0, "provider_retry");
    put_off(&gateway, database, &id, LONG).await;
    let (class, evidence) = latest(&api, &id).await;
    assert_eq!((class.as_str(), &evidence["same_signature"]), ("provider_replay", &json!(false)));
    let after = evidence["seconds_after"].as_u64().expect("a time");
    assert!(after >= LONG.as_secs(), "{evidence}");
    // The source's own list tells the same.
    let rows = api.list(&format!("/sources/{}/receipts", stripe.id)).await;
    assert_eq!(rows[0]["class"], "provider_replay");

    // Without a signed time every repeat looks alike, and only the time tells.
    let github = api.source("github").await;
    let event = github.event("d-1");
    let id = gateway.send(&github, &event).await.is(202).text("event_id");
    gateway.send(&github, &event).await.is(200);
    put_off(&gateway, database, &id, LONG).await;
    let (class, evidence) = latest(&api, &id).await;
    assert_eq!((class.as_str(), &evidence["same_signature"]), ("provider_replay", &json!(null)));

    let slack = api.source("slack").await;
    let happened = now().before(Duration::from_secs(60));
    let request = slack.sample_at(None, "7001", happened);
    let id = gateway.send_request(&request).await.is(202).text("event_id");
    let mut retry = slack.delivery("7001", happened);
    retry.set("X-Slack-Retry-Num", "2").expect("a header");
    gateway.send_request(&retry).await.is(200);
    put_off(&gateway, database, &id, LONG).await;
    let (class, evidence) = latest(&api, &id).await;
    assert_eq!((class.as_str(), &evidence["retry_header"]), ("provider_retry", &json!("2")));
    assert_eq!(evidence["same_signature"], false);
}

async fn a_captured_request_from_elsewhere_is_suspicious_and_one_signed_anew_is_not(
    database: Database,
) {
    let proxied = Gateway::setup(database).setting("WAKEPOST_TRUSTED_PROXIES", "127.0.0.0/8");
    let gateway = proxied.start().await;
    let api = gateway.admin();
    let source = api.source("stripe").await;
    let event = source.event("evt_1");
    let earlier = now().before(Duration::from_secs(20));
    let send = async |mut request: SignedRequest, from: &str| {
        request.set("X-Forwarded-For", from).expect("a header");
        gateway.send_request(&request).await
    };
    let captured = source.sign_at(&event, earlier);
    let id = send(captured.clone(), "192.0.2.1").await.is(202).text("event_id");

    send(captured.clone(), "198.51.100.7").await.is(200);
    let (class, evidence) = latest(&api, &id).await;
    assert_eq!(class, "suspicious", "{evidence}");
    assert_eq!((&evidence["same_id"], &evidence["same_body"]), (&json!(true), &json!(true)));
    assert_eq!(evidence["same_signature"], true);
    assert_eq!(evidence["same_address"], false);

    // The provider itself has many addresses; it signs anew.
    send(source.sign(&event), "198.51.100.8").await.is(200);
    let (class, evidence) = latest(&api, &id).await;
    assert_eq!((class.as_str(), &evidence["same_signature"]), ("provider_retry", &json!(false)));
    assert_eq!(evidence["same_address"], false);

    // What nobody can have signed for this id is a crime from anywhere.
    let other = event.with_body(json!({"id": "evt_1", "type": "invoice.paid"}).to_string());
    send(source.sign(&other), "192.0.2.1").await.is(200);
    let (class, evidence) = latest(&api, &id).await;
    assert_eq!((class.as_str(), &evidence["same_body"]), ("suspicious", &json!(false)));
    assert_eq!((&evidence["same_id"], &evidence["same_address"]), (&json!(true), &json!(true)));
    assert_eq!(api.list("/inbox").await.len(), 1, "none of them was taken in");
}

async fn a_repeat_that_our_own_answer_caused_is_known_as_such(database: Database) {
    let mut gateway = Gateway::start(database).await;
    gateway.restart_with("edge.before_answer=errorx1").await;
    let api = gateway.admin();
    let source = api.source("stripe").await;
    let event = source.event("evt_1");
    gateway.send(&source, &event).await.is(503);
    let answer = gateway.send(&source, &event).await.is(200);
    let (class, evidence) = latest(&api, &answer.text("event_id")).await;
    assert_eq!((class.as_str(), &evidence["our_fault"]), ("self_inflicted", &json!("unavailable")));
}

async fn a_repeat_after_an_answer_that_came_too_late_is_our_own_doing(database: Database) {
    let mut gateway = Gateway::start(database).await;
    // Slack waits for three seconds. The event is new, and taken in, and Slack has stopped listening.
    gateway.restart_with("edge.after_verify=delay:3200x1").await;
    let api = gateway.admin();
    let source = api.source("slack").await;
    let happened = now();
    let id = gateway.send_request(&source.delivery("7001", happened)).await.is(202);
    let id = id.text("event_id");
    let mut retry = source.delivery("7001", happened);
    retry.set("X-Slack-Retry-Num", "1").expect("a header");
    gateway.send_request(&retry).await.is(200);
    let (class, evidence) = latest(&api, &id).await;
    assert_eq!((class.as_str(), &evidence["our_fault"]), ("self_inflicted", &json!("slow")));
    assert_eq!(evidence["retry_header"], "1");
    // What was answered in time explains nothing.
    let id = gateway.send_request(&source.delivery("7002", happened)).await.is(202);
    let id = id.text("event_id");
    gateway.send_request(&source.delivery("7002", happened)).await.is(200);
    let (class, evidence) = latest(&api, &id).await;
    assert_eq!((class.as_str(), &evidence["our_fault"]), ("provider_retry", &json!(null)));
}

async fn a_template_tells_events_apart_in_place_of_the_providers_id(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let fields = json!({"dedup_key": "ticket:{/ticket/id}:rev:{/ticket/rev}"});
    let source = api.source_with("standard-webhooks", fields).await;
    let send = async |id: &str, body: Value| {
        let event = source.event(id).with_body(body.to_string());
        gateway.send(&source, &event).await
    };
    let ticket = |id: u32, rev: &str| json!({"type": "t", "ticket": {"id": id, "rev": rev}});
    let first = send("m-1", ticket(7, "a")).await.is(202).json();
    let again = send("m-2", ticket(7, "a")).await.is(200).json();
    assert_eq!(again["event_id"], first["event_id"], "another message id, the same revision");
    send("m-1", ticket(7, "b")).await.is(202);
    let story = api.show_event(first["event_id"].as_str().expect("an id")).await;
    assert_eq!(story["envelope"]["dedup_key"], "ticket:7:rev:a");
    // Where the template finds nothing, the provider's id stands.
    send("m-9", json!({"type": "t"})).await.is(202);
    send("m-9", json!({"type": "t"})).await.is(200);
    let bad = json!({"provider": "github", "dedup_key": "no place"});
    api.post("/sources", bad).await.refuses_field("dedup_key");
}

async fn the_same_order_as_two_topics_is_two_events_and_each_of_them_once(database: Database) {
    let gateway = Gateway::start(database).await;
    let source = gateway.with_source("shopify").await;
    let topic = |topic: &str, id: &str| -> SignedRequest {
        let event = source.event(id).with_body(r#"{"id":1,"total":"9.00"}"#);
        source.sign(&event.with_header("x-shopify-topic", topic))
    };
    gateway.send_request(&topic("orders/create", "e-1")).await.is(202);
    gateway.send_request(&topic("orders/paid", "e-1")).await.is(202);
    gateway.send_request(&topic("orders/paid", "e-1")).await.is(200);
    gateway.send_request(&topic("orders/create", "e-2")).await.is(200);
}

#[tokio::test]
async fn a_refusal_explains_itself_to_the_operator() {
    let gateway = Gateway::start(Database::Sqlite).await;
    let api = gateway.admin();
    let (source, other) = (api.source("github").await, api.source("github").await);
    let path = format!("/sources/{}/receipts", source.id);
    let reason = async |what: &str| {
        until("the receipt says why", async || {
            let rows = api.list(&path).await;
            let texts: Vec<_> = rows.iter().filter_map(|row| row["detail"].as_str()).collect();
            texts.iter().find(|text| text.contains(what)).map(|text| (*text).to_owned())
        })
        .await
    };
    let event = source.event("d-1");
    let mut request = source.sign(&event);
    request.headers.remove("x-hub-signature-256");
    gateway.send_request(&request).await.is(401);
    reason("the header X-Hub-Signature-256 is missing").await;

    let mut request = source.sign(&event);
    request.body.push(b'\n');
    gateway.send_request(&request).await.is(401);
    reason("something on its way re-encoded it").await;

    let forged = source.with_secret(other.secret()).sign(&event);
    gateway.send_request(&forged).await.is(401);
    let said = reason("the secret of another source of this provider").await;
    assert!(said.contains(&other.id) && !said.contains(other.secret()));

    let path_of = format!("/sources/{}/rotate", source.id);
    let rotated = api.post(&path_of, json!({"grace_s": 0})).await.is(200);
    assert_ne!(rotated.text("secret"), source.secret());
    gateway.send(&source, &event).await.is(401);
    reason("the previous secret, which has ended").await;
}

async fn a_source_with_a_rate_takes_so_many_and_says_when_to_come_again(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = api.source_with("github", json!({"rate_per_s": 0.01})).await;
    gateway.send(&source, &source.event("d-1")).await.is(202);
    let refused = gateway.send(&source, &source.event("d-2")).await.is(429);
    let wait: u64 = refused.header("retry-after").parse().expect("seconds");
    assert!((90..=100).contains(&wait), "{wait}");
    // A node reads a source anew every second, and must not forget what it took.
    tokio::time::sleep(Duration::from_millis(1300)).await;
    gateway.send(&source, &source.event("d-2")).await.is(429);
    assert_eq!(api.list("/inbox").await.len(), 1);
    until("the receipt is kept", async || {
        let rows = api.list(&format!("/sources/{}/receipts", source.id)).await;
        rows.into_iter().find(|row| row["verdict"] == "rate_limited")
    })
    .await;
    let change = json!({"rate_per_s": null});
    api.patch(&format!("/sources/{}", source.id), change).await.is(200);
    gateway.send(&source, &source.event("d-2")).await.is(202);
}
