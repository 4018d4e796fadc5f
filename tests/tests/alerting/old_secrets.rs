//! Old secrets of sources: shown in days, told of after half a year, and forgotten with a new secret.

use serde_json::{Value, json};
use wakepost_tests::{Api, Database, on_both, until};

use crate::{alert, alerts, setup};

on_both!(
    an_old_secret_of_a_source_is_told_of_until_there_is_a_new_one,
    a_source_from_before_counts_from_when_it_was_made,
    what_is_no_secret_has_no_age,
    the_secrets_of_a_tenant_without_traffic_grow_old_too,
);

/// 181 days.
const OLD_MS: i64 = 181 * 86_400_000;
/// What makes all secrets that old, behind the gateway's back.
const AGE: &str = "UPDATE sources SET secret_made_at = secret_made_at - ";
/// An hour goes by.
const LOOK: &str = "; DELETE FROM turns WHERE what = 'alerts.secrets'";

async fn age(api: &Api, id: &str) -> Value {
    api.get(&format!("/sources/{id}")).await.is(200).json()["secret_age_days"].clone()
}

async fn told_of(api: &Api) -> Vec<String> {
    let alerts = alerts(api, "firing").await;
    let old = alerts.iter().filter(|alert| alert["kind"] == "secret_age");
    old.map(|alert| alert["subject"].as_str().expect("a subject").to_owned()).collect()
}

async fn an_old_secret_of_a_source_is_told_of_until_there_is_a_new_one(database: Database) {
    let gateway = setup(database).start().await;
    let api = gateway.admin();
    let source = api.source_with("github", json!({"owner": "ada@example.com"})).await;
    let young = api.source("github").await;
    assert_eq!(source.made["secret_age_days"], 0);
    gateway.execute(&format!("{AGE}{OLD_MS}{LOOK}")).await;
    api.post(&format!("/sources/{}/rotate", young.id), json!({})).await.is(200);
    assert_eq!((age(&api, &source.id).await, age(&api, &young.id).await), (json!(181), json!(0)));
    let fired = alert(&api, "secret_age", "firing").await;
    assert_eq!((&fired["subject"], &fired["value"]), (&json!(source.id), &json!(181.0)));
    let detail = fired["detail"].as_str().expect("a detail");
    assert!(detail.contains("github, owner ada@example.com") && detail.contains("181 days"));
    assert_eq!(told_of(&api).await, [source.id.as_str()]);

    // The same secret again is as old as it was; a new one is not.
    let path = format!("/sources/{}", source.id);
    let same = json!({"secret": source.secret(), "name": "shop"});
    assert_eq!(api.patch(&path, same).await.is(200).json()["secret_age_days"], 181);
    let new = json!({"secret": "a-new-secret"});
    assert_eq!(api.patch(&path, new).await.is(200).json()["secret_age_days"], 0);
    alert(&api, "secret_age", "resolved").await;
    assert!(told_of(&api).await.is_empty());
}

async fn a_source_from_before_counts_from_when_it_was_made(database: Database) {
    let gateway = setup(database).start().await;
    let api = gateway.admin();
    let source = api.source("github").await;
    let before = format!(
        "UPDATE sources SET secret_made_at = NULL, created_at = created_at - {OLD_MS}{LOOK}"
    );
    gateway.execute(&before).await;
    assert_eq!(age(&api, &source.id).await, 181);
    alert(&api, "secret_age", "firing").await;
    api.post(&format!("/sources/{}/disable", source.id), json!({})).await.is(200);
    alert(&api, "secret_age", "resolved").await;
    assert_eq!(age(&api, &source.id).await, 181);
}

async fn what_is_no_secret_has_no_age(database: Database) {
    let gateway = setup(database).start().await;
    let api = gateway.admin();
    let public = api.source("discord").await;
    let fields = json!({"provider": "slack", "name": "desk"});
    let without = api.post("/sources", fields).await.is(201).text("id");
    let witness = api.source("github").await;
    gateway.execute(&format!("{AGE}{OLD_MS}{LOOK}")).await;
    for id in [&public.id, &without] {
        assert_eq!(age(&api, id).await, Value::Null);
    }
    until("the witness is told of", || async {
        (told_of(&api).await == [witness.id.as_str()]).then_some(())
    })
    .await;
    // A secret that comes late is as old as it is.
    let path = format!("/sources/{without}");
    let given = api.patch(&path, json!({"secret": "8f742231b10e8888"})).await.is(200).json();
    assert_eq!(given["secret_age_days"], 0);
}

async fn the_secrets_of_a_tenant_without_traffic_grow_old_too(database: Database) {
    let gateway = setup(database).start().await;
    let busy = gateway.admin();
    let idle = busy.tenant("idle").await;
    let source = idle.source("github").await;
    gateway.execute(&format!("{AGE}{OLD_MS}{LOOK}")).await;
    assert_eq!(alert(&idle, "secret_age", "firing").await["subject"], source.id.as_str());
    assert!(told_of(&busy).await.is_empty(), "it is nobody else's");
    idle.post(&format!("/sources/{}/rotate", source.id), json!({})).await.is(200);
    alert(&idle, "secret_age", "resolved").await;
}
