//! Fixtures: stored requests that are kept by name and sent again, freshly signed.

use serde_json::{Value, json};
use wakepost_domain::limits;
use wakepost_providers::registry;
use wakepost_tests::{Api, Database, Gateway, Source, on_both, until};

on_both!(
    a_stored_request_is_kept_and_sent_again_to_another_source,
    every_providers_request_can_be_sent_again,
    a_source_that_has_seen_the_event_says_so,
    a_fixture_goes_only_to_a_source_of_its_provider_and_tenant,
    what_a_public_key_verifies_is_signed_with_a_key_that_is_given,
    names_are_taken_once_and_free_again_after_a_delete,
    a_fixture_outlives_its_event_and_holds_no_plain_text,
);

async fn save(api: &Api, event: &str, name: &str) -> Value {
    api.post(&format!("/inbox/{event}/fixture"), json!({"name": name})).await.is(201).json()
}

async fn send(api: &Api, name: &str, source: &Source) -> Value {
    let body = json!({"source": source.id});
    api.post(&format!("/fixtures/{name}/send"), body).await.is(200).json()
}

async fn a_stored_request_is_kept_and_sent_again_to_another_source(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let (real, test) = (api.source("github").await, api.source("github").await);
    let event = real.event("d-1").with_header("x-github-hook-id", "77");
    let sent = gateway.send(&real, &event).await.is(202);
    let kept = save(&api, &sent.text("event_id"), "first-issue").await;
    assert_eq!((&kept["id"], &kept["provider"]), (&json!("first-issue"), &json!("github")));
    assert_eq!(kept["event_id"], sent.text("event_id"));
    assert_eq!(kept["body_bytes"], event.body.len());
    assert_eq!(api.list("/fixtures").await, std::slice::from_ref(&kept));

    let tried = send(&api, "first-issue", &test).await;
    assert_eq!((&tried["status_code"], &tried["event_type"]), (&json!(202), &kept["event_type"]));
    assert_eq!(tried["body"]["status"], "accepted");
    let again = tried["body"]["event_id"].as_str().expect("an event").to_owned();
    let shown = api.show_event(&again).await;
    assert_eq!((&shown["source"], &shown["verified"]), (&json!(test.id), &json!(true)));
    let raw = api.get(&format!("/inbox/{again}/raw")).await.is(200);
    assert_eq!(raw.body.to_vec(), event.body, "byte for byte");
    let headers = api.get(&format!("/inbox/{again}/headers")).await.is(200).json();
    let headers = headers["headers"].as_array().expect("headers").clone();
    let value = |name: &str| {
        let of_name: Vec<_> = headers.iter().filter(|line| line["name"] == name).collect();
        assert_eq!(of_name.len(), 1, "{name} in {headers:?}");
        of_name[0]["value"].as_str().expect("a text").to_owned()
    };
    assert_eq!(value("x-github-hook-id"), "77");
    assert_ne!(value("x-github-delivery"), "d-1", "an id of its own");
    let unsigned = api.source_with("github", json!({"unsigned": true})).await;
    for verdict in ["accepted", "duplicate"] {
        // The second time it is known by its body: the id is a new one.
        let tried = send(&api, "first-issue", &unsigned).await;
        assert_eq!(tried["body"]["status"], verdict);
    }
    let trail = api.get("/audit").await.is(200).json();
    let actions: Vec<_> = trail["data"].as_array().expect("rows").iter().collect();
    assert!(actions.iter().any(|row| row["action"] == "fixture.create"), "{actions:?}");
}

async fn every_providers_request_can_be_sent_again(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    for provider in registry::all().iter().map(|provider| provider.name()) {
        let (real, test) = (api.source(provider).await, api.source(provider).await);
        let answer = gateway.send_request(&real.sample("123")).await;
        assert!((200..300).contains(&answer.status), "{provider}: {}", answer.status);
        let inbox = api.get(&format!("/inbox?source={}", real.id)).await.is(200).json();
        let event =
            inbox["data"][0]["id"].as_str().unwrap_or_else(|| panic!("{provider}")).to_owned();
        save(&api, &event, provider).await;
        let mut body = json!({"source": test.id});
        if test.secret() != test.verifies() {
            body["secret"] = test.secret().into();
        }
        let tried = api.post(&format!("/fixtures/{provider}/send"), body).await.is(200).json();
        let status = tried["status_code"].as_u64().expect("a status");
        assert!((200..300).contains(&status), "{provider}: {tried}");
        let inbox = api.get(&format!("/inbox?source={}", test.id)).await.is(200).json();
        let stored = inbox["data"].as_array().expect("rows");
        assert!(!stored.is_empty() && stored[0]["verified"] == true, "{provider}: {tried}");
    }
}

async fn a_source_that_has_seen_the_event_says_so(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = api.source("stripe").await;
    let sent = gateway.send(&source, &source.event("evt-1")).await.is(202);
    save(&api, &sent.text("event_id"), "paid").await;
    let tried = send(&api, "paid", &source).await;
    assert_eq!(
        (&tried["status_code"], &tried["body"]["status"]),
        (&json!(200), &json!("duplicate"))
    );
    assert_eq!(tried["body"]["event_id"], sent.text("event_id"));
    // What was off stays off.
    api.post(&format!("/sources/{}/disable", source.id), json!({})).await.is(200);
    assert_eq!(send(&api, "paid", &source).await["status_code"], 404);
}

async fn a_fixture_goes_only_to_a_source_of_its_provider_and_tenant(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let acme = api.tenant("acme").await;
    let (own, other) = (api.source("github").await, api.source("stripe").await);
    let theirs = acme.source("github").await;
    let sent = gateway.send(&own, &own.event("d-1")).await.is(202);
    save(&api, &sent.text("event_id"), "mine").await;
    for source in [other.id.as_str(), theirs.id.as_str(), "rubbish"] {
        let answer = api.post("/fixtures/mine/send", json!({"source": source})).await;
        answer.refuses_field("source");
    }
    api.post("/fixtures/mine/send", json!({})).await.refuses_field("source");
    let body = json!({"source": theirs.id});
    acme.post("/fixtures/mine/send", body).await.refuses(404, "not_found");
    acme.delete("/fixtures/mine").await.refuses(404, "not_found");
    let path = format!("/inbox/{}/fixture", sent.text("event_id"));
    acme.post(&path, json!({"name": "mine"})).await.refuses(404, "not_found");
    assert!(acme.list("/fixtures").await.is_empty());
    let inbox = acme.get("/inbox").await.is(200).json();
    assert_eq!(inbox["data"], json!([]));
}

async fn what_a_public_key_verifies_is_signed_with_a_key_that_is_given(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    for provider in ["discord", "sendgrid-events"] {
        let (real, test) = (api.source(provider).await, api.source(provider).await);
        let answer = gateway.send_request(&real.sample("123")).await;
        assert!((200..300).contains(&answer.status), "{provider}: {}", answer.status);
        let inbox = api.get(&format!("/inbox?source={}", real.id)).await.is(200).json();
        save(&api, inbox["data"][0]["id"].as_str().expect("an event"), provider).await;
        let path = format!("/fixtures/{provider}/send");
        let refused = api.post(&path, json!({"source": test.id})).await;
        let refused = refused.refuses(409, "invalid_state").text("detail");
        assert!(refused.contains("private key"), "{refused}");
        let wrong = json!({"source": test.id, "secret": real.secret()});
        assert_eq!(api.post(&path, wrong).await.is(200).json()["status_code"], 401);
        let right = json!({"source": test.id, "secret": test.secret()});
        let tried = api.post(&path, right).await.is(200).json();
        assert!(tried["status_code"].as_u64().expect("a status") < 300, "{tried}");
    }
}

async fn names_are_taken_once_and_free_again_after_a_delete(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = api.source("github").await;
    let sent = gateway.send(&source, &source.event("d-1")).await.is(202);
    let path = format!("/inbox/{}/fixture", sent.text("event_id"));
    for wrong in ["", "A", "a b", "../x", "-a", &"x".repeat(101)] {
        api.post(&path, json!({"name": wrong})).await.refuses_field("name");
    }
    save(&api, &sent.text("event_id"), "same").await;
    api.post(&path, json!({"name": "same"})).await.refuses(409, "already_exists");
    api.delete("/fixtures/same").await.is(204);
    api.delete("/fixtures/same").await.refuses(404, "not_found");
    api.post("/fixtures/same/send", json!({"source": source.id})).await.refuses(404, "not_found");
    for number in 0..limits::FIXTURES_PER_TENANT_MAX {
        save(&api, &sent.text("event_id"), &format!("f-{number}")).await;
    }
    api.post(&path, json!({"name": "same"})).await.refuses(409, "limit_reached");
    assert_eq!(api.list("/fixtures").await.len() as i64, limits::FIXTURES_PER_TENANT_MAX);
    let page = api.get("/fixtures?limit=2").await.is(200).json();
    assert_eq!(page["data"][0]["name"], "f-199", "newest first");
}

async fn a_fixture_outlives_its_event_and_holds_no_plain_text(database: Database) {
    const WORDS: &str = "words-that-nobody-may-read";
    let setup = Gateway::setup(database).file("[retention]\nbodies_days = 0\n");
    let mut gateway = setup.start().await;
    let api = gateway.admin();
    let (source, test) = (api.source("stripe").await, api.source("stripe").await);
    let body = json!({"id": "e-1", "type": "invoice.paid", "note": WORDS});
    let event = source.event("e-1").with_body(body.to_string());
    let sent = gateway.send(&source, &event).await.is(202);
    save(&api, &sent.text("event_id"), "kept").await;
    let stored = String::from_utf8_lossy(&gateway.stored().await).into_owned();
    assert!(!stored.contains(WORDS), "a body can be read");
    // Nothing but live work keeps a body, and a start looks for those that may go.
    api.post(&format!("/jobs/{}/cancel", sent.text("job_id")), json!({})).await.is(200);
    if database == Database::Postgres {
        gateway.execute("DELETE FROM bodies").await;
    }
    gateway.restart().await;
    let api = gateway.admin();
    let path = format!("/inbox/{}/fixture", sent.text("event_id"));
    until("the body is gone", || async {
        let answer = api.post(&path, json!({"name": "late"})).await;
        if answer.status == 201 {
            api.delete("/fixtures/late").await.is(204);
            return None;
        }
        Some(answer.refuses(404, "body_pruned"))
    })
    .await;
    assert_eq!(send(&api, "kept", &test).await["status_code"], 202);
    // A source that is gone tells no one whose request it was.
    let sent = gateway.send(&source, &source.event("e-2")).await.is(202);
    api.delete(&format!("/sources/{}", source.id)).await.is(204);
    let path = format!("/inbox/{}/fixture", sent.text("event_id"));
    api.post(&path, json!({"name": "late"})).await.refuses(409, "invalid_state");
}
