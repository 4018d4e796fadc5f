//! Alerts: what is wrong fires once, is told once, and is over when it is well again.

mod old_secrets;
mod slack;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wakepost_client::AlertQuery;
use wakepost_tests::{Api, Database, Gateway, Receiver, Reply, Setup, on_both, until};

on_both!(
    an_alert_fires_once_over_all_nodes_and_resolves_once,
    it_gets_worse_once_and_says_what_the_errors_are,
    a_failing_source_is_named_and_replayed_work_counts_no_more,
    alerts_are_a_tenants_own,
    what_cannot_be_told_of_one_tenant_keeps_no_other_from_being_told,
    tenants_that_cannot_be_looked_at_keep_no_other_from_being_looked_at,
);

/// A gateway that looks every second, and for which little is much.
fn setup(database: Database) -> Setup {
    Gateway::setup(database)
        .setting("WAKEPOST_ALLOW_HTTP", "true")
        .setting("WAKEPOST_ALLOW_PRIVATE", "true")
        .file(
            "[alerts]\nevery_s = 1\ncalm_s = 1\ndeliveries_min = 2\ndead_letters_warning = 0\n\
             dead_letters_critical = 2\n",
        )
}

async fn alerts(api: &Api, status: &str) -> Vec<Value> {
    api.list(&format!("/alerts?status={status}")).await
}

/// The alert of a kind, once it stands so.
async fn alert(api: &Api, kind: &str, status: &str) -> Value {
    until(&format!("{kind} is {status}"), || async {
        alerts(api, status).await.into_iter().find(|alert| alert["kind"] == kind)
    })
    .await
}

async fn dead_job(gateway: &Gateway, api: &Api, error: &str) -> String {
    let id = api.job_with(json!({"input": {}, "kind": "x"})).await;
    let lease = gateway.worker("ada").wait_with(json!({"kinds": ["x"]})).await;
    lease.post("fail", json!({"error": error, "retryable": false})).await.is(200);
    id
}

/// What the receiver was told: how often each change of each kind came.
fn told(receiver: &Receiver) -> BTreeMap<(String, String), usize> {
    let mut told = BTreeMap::new();
    for seen in receiver.seen("/alerts") {
        let event = seen.json();
        if let (Some(kind), Some(change)) =
            (event["type"].as_str(), event["data"]["object"]["change"].as_str())
        {
            *told.entry((kind.to_owned(), change.to_owned())).or_default() += 1;
        }
    }
    told
}

async fn subscribed(api: &Api) -> Receiver {
    let receiver = Receiver::start(|_| Reply::new(200, "")).await;
    let fields = json!({"url": receiver.url("/alerts"), "events": ["alert.*"]});
    api.post("/webhooks", fields).await.is(201);
    receiver
}

async fn an_alert_fires_once_over_all_nodes_and_resolves_once(database: Database) {
    let first = setup(database).start().await;
    let _second = match database {
        Database::Sqlite => None,
        Database::Postgres => Some(first.node().await),
    };
    let api = first.admin();
    let receiver = subscribed(&api).await;
    let dead = dead_job(&first, &api, "no").await;
    let fired = alert(&api, "dead_letters", "firing").await;
    assert!(fired["id"].as_str().is_some_and(|id| id.starts_with("alr_")), "{fired}");
    assert_eq!((&fired["severity"], &fired["subject"]), (&json!("warning"), &Value::Null));
    assert_eq!((&fired["value"], &fired["threshold"]), (&json!(1.0), &json!(0.0)));
    assert_eq!(fired["resolved_at"], Value::Null);
    let query = AlertQuery { status: Some("firing".to_owned()), ..AlertQuery::default() };
    let page = first.client().list_alerts(&query).await.expect("alerts");
    assert_eq!(page.data[0].id, fired["id"].as_str().expect("an id"));
    // Dealt with, it counts no more.
    api.post(&format!("/jobs/{dead}/replay"), json!({"note": "again"})).await.is(202);
    first.worker("ada").wait_with(json!({"kinds": ["x"]})).await.complete(json!({})).await.is(200);
    let over = alert(&api, "dead_letters", "resolved").await;
    assert_eq!(over["id"], fired["id"]);
    assert!(over["resolved_at"].is_string());
    let of = |change: &str| (("alert.dead_letters".to_owned(), change.to_owned()), 1);
    let expected = BTreeMap::from([of("fired"), of("resolved")]);
    until("both changes are told", || async { (told(&receiver) == expected).then_some(()) }).await;
    assert!(alerts(&api, "firing").await.is_empty());
    assert_eq!(api.list("/alerts").await.len(), 1, "it fired once");
}

async fn it_gets_worse_once_and_says_what_the_errors_are(database: Database) {
    let gateway = setup(database).start().await;
    let api = gateway.admin();
    let receiver = subscribed(&api).await;
    dead_job(&gateway, &api, "boom").await;
    alert(&api, "dead_letters", "firing").await;
    for _ in 0..2 {
        dead_job(&gateway, &api, "boom").await;
    }
    let worse = until("it is critical", || async {
        let fired = alert(&api, "dead_letters", "firing").await;
        (fired["severity"] == "critical").then_some(fired)
    })
    .await;
    assert!(worse["detail"].as_str().is_some_and(|text| text.contains("3 × boom")), "{worse}");
    let of = |change: &str| (("alert.dead_letters".to_owned(), change.to_owned()), 1);
    let expected = BTreeMap::from([of("fired"), of("escalated")]);
    until("both changes are told", || async { (told(&receiver) == expected).then_some(()) }).await;
    let logged = gateway.logged();
    assert_eq!(logged.matches("an alert escalated").count(), 1, "{logged}");
    assert_eq!(logged.matches("an alert fired").count(), 1, "{logged}");
}

async fn a_failing_source_is_named_and_replayed_work_counts_no_more(database: Database) {
    let gateway = setup(database).start().await;
    let api = gateway.admin();
    let fields = json!({"owner": "ada@example.com", "max_attempts": 6, "backoff_s": [0]});
    let source = api.source_with("github", fields).await;
    gateway.send(&source, &source.event("one")).await.is(202);
    let worker = gateway.worker("ada");
    for _ in 0..5 {
        worker.wait().await.post("fail", json!({"error": "no"})).await.is(200);
    }
    let fired = alert(&api, "source_failing", "firing").await;
    assert_eq!(fired["subject"], source.id);
    let detail = fired["detail"].as_str().expect("a detail");
    assert!(detail.contains("5 runs") && detail.contains("ada@example.com"), "{detail}");
    worker.wait().await.complete(json!({})).await.is(200);
    alert(&api, "source_failing", "resolved").await;
}

async fn alerts_are_a_tenants_own(database: Database) {
    let gateway = setup(database).start().await;
    let api = gateway.admin();
    let (acme, other) = (api.tenant("acme").await, api.tenant("other").await);
    let receiver = Receiver::start(|_| Reply::new(400, "no")).await;
    let fields = json!({"url": receiver.url("/hook"), "events": ["order.created"]});
    acme.post("/webhooks", fields).await.is(201);
    for _ in 0..3 {
        acme.post("/events", json!({"type": "order.created", "data": {}})).await.is(202);
    }
    for kind in ["delivery_success", "first_attempt", "dead_letters"] {
        let fired = alert(&acme, kind, "firing").await;
        assert_eq!(fired["severity"], "critical", "{kind}");
    }
    assert!(other.list("/alerts").await.is_empty());
    assert!(api.list("/alerts").await.is_empty(), "the default tenant");
    assert!(!api.of_tenant("acme").list("/alerts").await.is_empty());
    other.get("/alerts?tenant=acme").await.is(404);
    api.role("worker", "acme").await.get("/alerts").await.is(403);
    acme.get("/alerts?status=bad").await.is(422);
}

async fn what_cannot_be_told_of_one_tenant_keeps_no_other_from_being_told(database: Database) {
    let gateway = setup(database).start().await;
    let api = gateway.admin();
    let receiver = subscribed(&api).await;
    let acme = api.tenant("acme").await;
    let _theirs = subscribed(&acme).await;
    // What opens in one row is damaged in another.
    gateway
        .execute(
            "UPDATE webhooks SET secrets = (SELECT secrets FROM webhooks WHERE tenant = 1)
             WHERE tenant <> 1",
        )
        .await;
    dead_job(&gateway, &acme, "no").await;
    let first = alert(&acme, "dead_letters", "firing").await;
    dead_job(&gateway, &api, "no").await;
    let second = alert(&api, "dead_letters", "firing").await;
    assert!(first["id"].as_str() < second["id"].as_str(), "the older one is told of first");
    let fired = (("alert.dead_letters".to_owned(), "fired".to_owned()), 1);
    let expected = BTreeMap::from([fired]);
    until("the other one is told", || async { (told(&receiver) == expected).then_some(()) }).await;
    until("it is tried again", || async {
        (gateway.logged().matches("an alert could not be told").count() > 2).then_some(())
    })
    .await;
    assert_eq!(gateway.logged().matches("an alert fired").count(), 1, "what was told");
    gateway.execute("DELETE FROM webhooks WHERE tenant <> 1").await;
    until("it is told once it can be", || async {
        (gateway.logged().matches("an alert fired").count() == 2).then_some(())
    })
    .await;
}

async fn tenants_that_cannot_be_looked_at_keep_no_other_from_being_looked_at(database: Database) {
    let gateway = setup(database).start().await;
    let api = gateway.admin();
    // More than the store would be taken for down by.
    for slug in ["a", "b", "c", "d"] {
        let tenant = api.tenant(slug).await;
        let fields = json!({"mode": "pull", "events": ["order.created"]});
        tenant.post("/webhooks", fields).await.is(201);
        dead_job(&gateway, &tenant, "no").await;
    }
    gateway.execute("UPDATE webhooks SET config = '{'").await;
    let last = api.tenant("last").await;
    dead_job(&gateway, &last, "no").await;
    alert(&last, "dead_letters", "firing").await;
    assert!(gateway.logged().contains("a tenant could not be looked at"));
}
