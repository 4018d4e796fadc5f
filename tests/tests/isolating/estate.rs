//! Tenants: what is one's own is there, and what is another's is not, whatever either of them does.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wakepost_tests::{Api, Database, Gateway, Worker, on_both, until};

use super::Need::*;
use super::{CALLERS, call, caller, may, routes};

on_both!(
    another_tenants_things_are_not_there_and_stay_as_they_are,
    a_tenants_answers_are_the_same_with_and_without_other_tenants,
);

/// Whether a route is about a thing of a tenant. What a PUT of a type names is made if it is not there.
fn is_about_one(method: &str, path: &str) -> bool {
    let makes = (method, path) == ("PUT", "/api/v1/event-types/{name}");
    !makes && ["{id}", "{event_id}", "{name}"].iter().any(|name| path.contains(name))
}

/// A tenant with one of everything.
struct Estate {
    api: Api,
    event: String,
    source: String,
    running: String,
    token: String,
    dead: String,
    held: String,
    key: String,
    operation: String,
    schedule: String,
    webhook: String,
    published: String,
    delivery: String,
}

impl Estate {
    async fn new(gateway: &Gateway, slug: &str) -> Estate {
        let api = gateway.admin().tenant(slug).await;
        let worker = Worker::new(&api, "theirs");
        // What is outside their reach bears the same names as another tenant's.
        let fields = json!({"input": 1, "dedup_key": "same", "order_key": "same",
            "subject": "own:thing:1"});
        let dead = api.job_with(fields).await;
        let given_up = worker.wait().await;
        given_up.post("fail", json!({"error": "no", "retryable": false})).await.is(200);
        let held = api.job().await;
        let lease = worker.wait_with(json!({"lease_s": 2})).await;
        lease.begin("mail").await.is(200);
        let lease = worker.wait().await;
        assert_eq!(lease.begin("mail").await.is(200).json()["decision"], "in_doubt");

        let source = api.source("github").await;
        let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
        let running = worker.wait().await;
        running.begin("mail").await.is(200);
        let fixture = format!("/inbox/{}/fixture", sent.text("event_id"));
        api.post(&fixture, json!({"name": "theirs"})).await.is(201);
        let key = api.post("/keys", json!({"name": "k", "role": "viewer"})).await.is(201);
        let counted = json!({"filter": {}, "note": "how many are there?", "dry_run": true});
        let operation = api.post("/inbox/replay", counted).await.is(202).text("operation_id");
        let counting = format!("/operations/{operation}");
        until("all are counted", || async {
            (api.get(&counting).await.json()["status"] == "succeeded").then_some(())
        })
        .await;
        let yearly = json!({"name": "theirs", "cron": "@yearly", "input": 1});
        let schedule = api.post("/schedules", yearly).await.is(201).text("id");
        api.post("/event-types", json!({"name": "order.theirs"})).await.is(201);
        let webhook = json!({"mode": "pull", "events": ["order.*"]});
        let webhook = api.post("/webhooks", webhook).await.is(201).text("id");
        let published = json!({"type": "order.theirs", "data": {"n": 1}, "dedup_key": "same",
            "order_key": "same"});
        let published = api.post("/events", published).await.is(202).text("id");
        let deliveries = api.list(&format!("/webhooks/{webhook}/deliveries")).await;
        Estate {
            schedule,
            webhook,
            published,
            delivery: deliveries[0]["id"].as_str().expect("a delivery").to_owned(),
            event: sent.text("event_id"),
            running: running.id().to_owned(),
            token: running.token().to_owned(),
            source: source.id,
            key: key.text("id"),
            operation,
            dead,
            held,
            api,
        }
    }

    /// A path about this tenant's things.
    fn path(&self, path: &str) -> String {
        let below = path.strip_prefix("/api/v1").unwrap_or_default();
        let id = match below {
            _ if below.starts_with("/keys") => &self.key,
            _ if below.starts_with("/operations") => &self.operation,
            _ if below.starts_with("/sources") => &self.source,
            _ if below.starts_with("/schedules") => &self.schedule,
            _ if below.starts_with("/dead-letters") => &self.dead,
            _ if below.starts_with("/webhooks") => &self.webhook,
            _ if below.starts_with("/events") => &self.published,
            _ if below.starts_with("/deliveries") => &self.delivery,
            "/jobs/{id}/replay" => &self.dead,
            "/jobs/{id}/release" | "/jobs/{id}/effects/{key}/resolve" => &self.held,
            _ => &self.running,
        };
        path.replace("{id}", id)
            .replace("{event_id}", &self.event)
            .replace("{key}", "mail")
            .replace("/event-types/{name}", "/event-types/order.theirs")
            .replace("{name}", "theirs")
    }

    /// A body about this tenant's things.
    fn body(&self, body: &str) -> String {
        body.replace("TOKEN", &self.token).replace("SOURCE", &self.source)
    }

    /// All that can be seen of it: every answer to a GET, byte for byte but for what a clock says.
    async fn whole(&self) -> BTreeMap<String, String> {
        let mut answers = BTreeMap::new();
        for (method, path, need, body) in routes() {
            let streams = path.ends_with("/stream") || path.ends_with("/jobs/{id}/events");
            if method != "GET" || !may("admin", need) || need == Open || streams {
                continue;
            }
            let ids = [&self.running, &self.dead, &self.held];
            let jobs = ids.into_iter().filter(|_| path == "/api/v1/jobs/{id}");
            let of_jobs = jobs.map(|id| path.replace("{id}", id));
            for path in of_jobs.chain([self.path(&path)]) {
                let answer = call(&self.api, method, &path, body).await.is(200);
                let text = match serde_json::from_slice::<Value>(&answer.body) {
                    Ok(json) => timeless(json).to_string(),
                    Err(_) => String::from_utf8_lossy(&answer.body).into_owned(),
                };
                // Figures are written down by the clock; that they are by tenant is told where series are tested.
                if !path.ends_with("/series") {
                    answers.insert(path, text);
                }
            }
        }
        assert!(answers.len() > 30, "every list, and everything that can be shown");
        answers
    }
}

/// Answers that must not have changed.
fn same(before: BTreeMap<String, String>, after: BTreeMap<String, String>) {
    assert!(before.keys().eq(after.keys()));
    for (path, answer) in after {
        assert_eq!(answer, before[&path], "{path}");
    }
}

/// An answer without what changes by itself.
fn timeless(answer: Value) -> Value {
    const CLOCKS: [&str; 4] = ["at", "oldest_age_s", "last_used_at", "last_seen_at"];
    match answer {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(name, _)| !CLOCKS.contains(&name.as_str()))
            .map(|(name, value)| (name, timeless(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(timeless).collect(),
        plain => plain,
    }
}

async fn another_tenants_things_are_not_there_and_stay_as_they_are(database: Database) {
    let gateway = Gateway::setup(database).file(super::KEEP_KEY).start().await;
    let admin = gateway.admin();
    let theirs = Estate::new(&gateway, "globex").await;
    let before = theirs.whole().await;
    let stranger = admin.tenant("acme").await;
    for who in CALLERS {
        let caller = caller(&gateway, who, "acme").await;
        for (method, path, need, body) in routes() {
            if !may(who, need) || [Open, Token, AnyKey].contains(&need) {
                continue;
            }
            let body = theirs.body(body);
            let real = theirs.path(&path);
            if is_about_one(method, &path) {
                call(&caller, method, &real, &body).await.refuses(404, "not_found");
            }
            // A lease token says whose job it is, and the catalogue of providers is everybody's.
            if need != Work && path != "/api/v1/providers" {
                let named = caller.of_tenant("globex");
                call(&named, method, &real, &body).await.refuses(404, "not_found");
            }
        }
    }
    // Rows of a batch are judged one by one.
    let row = json!({"id": theirs.running, "lease_token": theirs.token});
    let mut ending = row.clone();
    ending["outcome"] = "complete".into();
    for (path, row) in [("/jobs/heartbeat", row), ("/jobs/finish", ending)] {
        let answer = stranger.post(path, json!({"jobs": [row]})).await.is(200).json();
        assert_eq!(answer["jobs"][0]["ok"], false, "{answer}");
        assert_eq!(answer["jobs"][0]["code"], "not_found", "{answer}");
    }
    for filter in ["source", "dedup_key", "q"] {
        let value = if filter == "source" { &theirs.source } else { "e-1" };
        assert!(stranger.list(&format!("/inbox?{filter}={value}")).await.is_empty());
    }
    assert!(stranger.list(&format!("/jobs?source={}", theirs.source)).await.is_empty());
    same(before, theirs.whole().await);

    // To their own tenant, all of it is there.
    for (method, path, need, body) in routes() {
        let gone = ["DELETE", "PATCH"].contains(&method) || !may("admin", need) || need == Open;
        if gone || !is_about_one(method, &path) {
            continue;
        }
        let body = theirs.body(body);
        let answer = call(&theirs.api, method, &theirs.path(&path), &body).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status < 300 || answer.status == 409, "{method} {path}: {text}");
    }
}

async fn a_tenants_answers_are_the_same_with_and_without_other_tenants(database: Database) {
    let gateway = Gateway::start(database).await;
    let ours = Estate::new(&gateway, "acme").await;
    let before = ours.whole().await;
    Estate::new(&gateway, "globex").await;
    same(before, ours.whole().await);
    // An administrator of all tenants sees each where it asks.
    let admin = gateway.admin();
    assert!(admin.list("/inbox").await.is_empty());
    assert_eq!(admin.of_tenant("acme").list("/inbox").await.len(), 1);
    admin.of_tenant("nobody").get("/inbox").await.refuses(404, "not_found");
}
