//! What providers sent is there to the byte, what they send again is known, and what is new is believed.

use serde_json::json;
use wakepost_tests::{Source, known_request};

use super::upgraded::Upgraded;

pub async fn check(upgraded: &Upgraded) {
    bodies(upgraded).await;
    all_providers(upgraded).await;
    the_missing_number(upgraded).await;
    let fixture = json!({"source": upgraded.told["senders"]["github"]["source"]["made"]["id"]});
    let sent = upgraded.api.post("/fixtures/first-issue/send", fixture).await.is(200).json();
    assert_eq!(sent["body"]["status"], "duplicate");
}

async fn bodies(upgraded: &Upgraded) {
    for event in upgraded.told["events"].as_array().expect("events") {
        let id = event["id"].as_str().expect("an id");
        let raw = upgraded.api.get(&format!("/inbox/{id}/raw")).await.is(200);
        assert_eq!(raw.body, known_request(&event["request"]).body, "{id}");
    }
}

async fn all_providers(upgraded: &Upgraded) {
    for (name, sender) in upgraded.told["senders"].as_object().expect("senders") {
        let source = Source::known(&sender["source"]);
        let old = source.sign_again(&known_request(&sender["request"]), "7001");
        let mut again = upgraded.gateway.send_request(&old).await;
        if again.status == 403 {
            // Who tells the time within the body tells another one in a repeat.
            again = upgraded.gateway.send_request(&source.sample("7001")).await;
        }
        assert_eq!(again.status, 200, "{name}: {again:?}");
        assert_eq!(again.event_ids()[0], sender["event_id"], "{name}: it is known");
        let new = upgraded.gateway.send_request(&source.sample("7777")).await;
        assert!(matches!(new.status, 200 | 202), "{name}: {new:?}");
        assert_ne!(new.event_ids()[0], sender["event_id"], "{name}: it is new");
        let shown = upgraded.api.show_event(&again.event_ids()[0]).await;
        assert_eq!(shown["envelope"]["provider"], *name);
    }
}

/// The number that others waited for since before.
async fn the_missing_number(upgraded: &Upgraded) {
    let third = upgraded.job("third_number");
    let waits = upgraded.api.show_job(&third).await;
    assert_eq!((&waits["status"], &waits["waiting_on"]), (&json!("scheduled"), &json!("sequence")));
    let source = Source::known(&upgraded.told["sources"]["numbered"]);
    let second = json!({"id": "n-2", "type": "numbered", "thing": "t", "n": 2}).to_string();
    let second = source.event("n-2").with_body(second);
    let second = upgraded.gateway.send(&source, &second).await.is(202).text("job_id");
    for job in [second, third] {
        let lease = upgraded.leased("numbered").await;
        assert_eq!(lease.id(), job);
        lease.complete(json!(1)).await.is(200);
        assert_eq!(upgraded.api.show_job(&job).await["flags"], json!([]), "its turn is known");
    }
}
