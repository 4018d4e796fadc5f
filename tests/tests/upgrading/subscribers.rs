//! Webhooks keep their state and their secrets, and every delivery that was under way arrives.

use serde_json::{Value, json};
use wakepost_providers::{Check, Request, registry};
use wakepost_tests::{Database, Seen, now, until};

use super::upgraded::Upgraded;

pub async fn check(upgraded: &Upgraded, database: Database) {
    publishing(upgraded, database).await;
    tokio::join!(
        waiting(upgraded),
        stopped(upgraded),
        dead(upgraded),
        pulled(upgraded),
        called_back(upgraded),
    );
}

fn id(upgraded: &Upgraded, name: &str) -> String {
    upgraded.told["webhooks"][name]["made"]["id"].as_str().expect("an id").to_owned()
}

/// Whether a secret of back then signed it.
fn signed(seen: &Seen, secret: &Value) -> bool {
    let provider = registry::find("standard-webhooks").expect("the scheme");
    let (headers, body) = (&seen.headers, &seen.body[..]);
    let request = Request { method: &http::Method::POST, url: "", headers, body, fetched: None };
    let (settings, tolerance) = (Default::default(), std::time::Duration::from_secs(120));
    let secrets = [secret.as_str().expect("a secret")];
    provider
        .verify(&request, &Check { secrets: &secrets, settings: &settings, now: now(), tolerance })
        .is_ok()
}

/// Waits until so many deliveries came to a webhook, signed with its secret.
async fn arrive(upgraded: &Upgraded, name: &str, count: usize) -> Vec<Seen> {
    let webhook = &upgraded.told["webhooks"][name];
    let path = webhook["path"].as_str().expect("a path");
    let seen = upgraded.receiver.wait(path, count).await;
    for seen in &seen {
        let secret = &webhook["made"]["secret"];
        assert!(secret.is_null() || signed(seen, secret), "{name}: {:?}", seen.headers);
        assert_eq!(seen.header("x-api-key"), "k");
    }
    seen
}

async fn publishing(upgraded: &Upgraded, database: Database) {
    let first = &upgraded.told["published"]["first"];
    let again = upgraded.api.post("/events", first["body"].clone()).await.is(202).json();
    assert_eq!((&again["status"], &again["id"]), (&json!("duplicate"), &first["id"]));
    for (id, envelope) in upgraded.told["envelopes"].as_object().expect("envelopes") {
        let shown = upgraded.api.get(&format!("/events/{id}")).await.is(200).json();
        assert_eq!(shown["envelope"], *envelope);
    }
    let bad = json!({"type": "order.created", "data": {"n": "many"}});
    upgraded.api.post("/events", bad).await.refuses(422, "invalid_request");
    let new = json!({"type": "order.sent", "data": {"n": 3}});
    let new = upgraded.api.post("/events", new).await.is(202).text("id");
    let mut expected = vec![new];
    if database == Database::Postgres {
        let published = &upgraded.told["published"]["by_statement"];
        expected.push(published.as_str().expect("an id").to_owned());
    }
    for event in expected {
        until("what is published arrives", async || {
            let seen = arrive(upgraded, "well", 1).await;
            seen.iter().any(|seen| seen.json()["id"] == event.as_str()).then_some(())
        })
        .await;
    }
    let keys = upgraded.gateway.fetch("/.well-known/wakepost-keys").await.is(200);
    let keys = String::from_utf8_lossy(&keys.body).into_owned();
    assert!(keys.contains(&id(upgraded, "public")), "{keys}");
}

/// What waited for another try, and what was on its way when the server died.
async fn waiting(upgraded: &Upgraded) {
    arrive(upgraded, "failing", 2).await;
    arrive(upgraded, "silent", 1).await;
    arrive(upgraded, "public", 1).await;
}

/// Whom nothing may be sent gets nothing until somebody says so, and then everything.
async fn stopped(upgraded: &Upgraded) {
    for (name, word, state) in [("open", "enable", "active"), ("paused", "resume", "paused")] {
        let path = format!("/webhooks/{}", id(upgraded, name));
        let shown = upgraded.api.get(&path).await.is(200).json();
        assert_eq!(shown["status"], state, "{shown}");
        if name == "open" {
            assert_eq!(shown["circuit"]["state"], "open", "{shown}");
        }
        let seen = upgraded.told["webhooks"][name]["path"].as_str().expect("a path");
        assert!(upgraded.receiver.seen(seen).is_empty(), "O5: {name} is left alone");
        upgraded.api.post(&format!("{path}/{word}"), json!({})).await.is(200);
        arrive(upgraded, name, 3).await;
    }
}

async fn dead(upgraded: &Upgraded) {
    let path = format!("/webhooks/{}/deliveries?status=dead_letter", id(upgraded, "given_up"));
    let rows = upgraded.api.list(&path).await;
    let first = upgraded.told["published"]["first"]["id"].as_str();
    let row = rows.iter().find(|row| row["event_id"].as_str() == first).expect("a dead letter");
    let path = format!("/deliveries/{}/replay", row["id"].as_str().expect("an id"));
    upgraded.api.post(&path, json!({})).await.is(202);
    until("it arrives", async || {
        let seen = arrive(upgraded, "given_up", 1).await;
        seen.iter().any(|seen| seen.json()["id"].as_str() == first).then_some(())
    })
    .await;
}

/// A puller that was away for longer than a run may take is told so, and gets the delivery again.
async fn pulled(upgraded: &Upgraded) {
    let old = &upgraded.told["leases"]["pulled"];
    let ack = async |item: &Value| {
        let token = json!({"lease_token": item["lease_token"]});
        let path = format!("/deliveries/{}/ack", item["id"].as_str().expect("an id"));
        upgraded.api.post(&path, token).await
    };
    let path = format!("/webhooks/{}/deliveries/lease", id(upgraded, "pulled"));
    let ask = json!({"worker": "puller", "max": 100, "lease_s": 60});
    let mut had: Vec<Value> = Vec::new();
    while !had.contains(&old["event_id"]) {
        let leased = until("some of its deliveries are handed out", || async {
            let leased = upgraded.api.post(&path, ask.clone()).await.is(200).json();
            leased["deliveries"].as_array().filter(|leased| !leased.is_empty()).cloned()
        });
        for item in leased.await {
            had.push(item["event_id"].clone());
            if item["id"] == old["id"] {
                ack(old).await.refuses(409, "lease_lost");
            }
            ack(&item).await.is(200);
        }
    }
    for event in upgraded.told["envelopes"].as_object().expect("envelopes").keys() {
        let times = had.iter().filter(|one| one.as_str() == Some(event)).count();
        assert_eq!(times, 1, "{event}");
    }
}

async fn called_back(upgraded: &Upgraded) {
    let callback = &upgraded.told["callbacks"]["uncalled"];
    let seen = upgraded.receiver.wait("/ill/done", 1).await;
    assert!(signed(&seen[0], &callback["secret"]), "{:?}", seen[0].headers);
    assert_eq!(seen[0].json()["data"]["id"], callback["job"]);
    assert!(upgraded.receiver.seen("/done").is_empty(), "who was told is not told again");
}
