//! Isolating: a key reaches what its role and its tenant allow, and nobody reads what is stored or logged.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::{Value, json};
use wakepost_tests::{
    Api, Database, Gateway, Receiver, Reply, Worker, now, on_both, random_text, until,
};

on_both!(
    without_a_live_key_there_is_no_answer_but_401,
    each_role_reaches_what_the_contract_says_and_nothing_else,
    another_tenants_things_are_not_there_and_stay_as_they_are,
    a_tenants_answers_are_the_same_with_and_without_other_tenants,
    a_revoked_or_expired_key_stops_at_once,
    only_an_administrator_of_all_tenants_makes_keys_for_others,
    no_secret_and_no_body_can_be_read_from_the_database_or_the_log_and_no_secret_from_the_api,
);

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Read,
    /// A worker reads what is leased.
    ReadOrWork,
    /// A publisher reads what was published.
    ReadOrPublish,
    Create,
    Work,
    /// Pulled deliveries.
    WorkOrOperate,
    Operate,
    Configure,
    Administer,
    /// Only a key of all tenants.
    AdministerAll,
}
use Need::*;

/// The API's table of roles.
fn may(role: &str, need: Need) -> bool {
    match need {
        Read => ["viewer", "operator", "admin"].contains(&role),
        ReadOrWork => role != "publisher",
        ReadOrPublish => role != "worker",
        WorkOrOperate => ["worker", "operator", "admin"].contains(&role),
        Create => role != "viewer",
        Work => ["worker", "admin"].contains(&role),
        Operate | Configure => ["operator", "admin"].contains(&role),
        Administer => role == "admin",
        AdministerAll => false,
    }
}

/// Every route of the API. `SOURCE`, `TOKEN` and so on stand for another tenant's things.
const ROUTES: &[(&str, &str, Need, &str)] = &[
    ("GET", "/tenants", AdministerAll, ""),
    ("POST", "/tenants", AdministerAll, r#"{"slug":"new","name":"n"}"#),
    ("GET", "/tenants/{slug}", AdministerAll, ""),
    ("PATCH", "/tenants/{slug}", AdministerAll, r#"{"name":"n"}"#),
    ("POST", "/admin/sweep", AdministerAll, ""),
    ("GET", "/audit", Administer, ""),
    ("GET", "/keys", Administer, ""),
    ("POST", "/keys", Administer, r#"{"name":"n","role":"viewer"}"#),
    ("DELETE", "/keys/{id}", Administer, ""),
    ("GET", "/stats", Read, ""),
    ("GET", "/providers", Read, ""),
    ("GET", "/sources", Read, ""),
    ("POST", "/sources", Configure, r#"{"provider":"github"}"#),
    ("GET", "/sources/{id}", Read, ""),
    ("PATCH", "/sources/{id}", Configure, r#"{"name":"mine"}"#),
    ("DELETE", "/sources/{id}", Configure, ""),
    ("POST", "/sources/{id}/rotate", Operate, "{}"),
    ("POST", "/sources/{id}/enable", Operate, "{}"),
    ("POST", "/sources/{id}/setup", Operate, "{}"),
    ("POST", "/sources/{id}/test", Operate, "{}"),
    ("POST", "/sources/{id}/disable", Operate, "{}"),
    ("GET", "/sources/{id}/receipts", Read, ""),
    ("GET", "/sources/{id}/status", Read, ""),
    ("GET", "/inbox", Read, ""),
    ("POST", "/inbox/replay", Operate, r#"{"filter":{},"note":"n","dry_run":true}"#),
    ("GET", "/operations/{id}", Read, ""),
    ("GET", "/inbox/stream", Read, ""),
    ("GET", "/inbox/{event_id}", Read, ""),
    ("GET", "/inbox/{event_id}/raw", Read, ""),
    ("GET", "/inbox/{event_id}/headers", Read, ""),
    ("POST", "/inbox/{event_id}/replay", Operate, r#"{"note":"n"}"#),
    ("POST", "/inbox/{event_id}/fixture", Operate, r#"{"name":"mine"}"#),
    ("GET", "/fixtures", Read, ""),
    ("DELETE", "/fixtures/{name}", Operate, ""),
    ("POST", "/fixtures/{name}/send", Operate, r#"{"source":"SOURCE"}"#),
    ("GET", "/jobs", Read, ""),
    ("POST", "/jobs", Create, r#"{"input":1}"#),
    ("POST", "/jobs/lease", Work, r#"{"worker":"w"}"#),
    ("POST", "/jobs/heartbeat", Work, r#"{"jobs":[]}"#),
    ("POST", "/jobs/finish", Work, r#"{"jobs":[]}"#),
    ("GET", "/jobs/{id}", ReadOrWork, ""),
    ("GET", "/jobs/{id}/events", ReadOrWork, ""),
    ("POST", "/jobs/{id}/heartbeat", Work, r#"{"lease_token":"TOKEN"}"#),
    ("PUT", "/jobs/{id}/checkpoint", Work, r#"{"lease_token":"TOKEN","state":1}"#),
    ("POST", "/jobs/{id}/progress", Work, r#"{"lease_token":"TOKEN","message":"m"}"#),
    ("POST", "/jobs/{id}/reply", Work, r#"{"lease_token":"TOKEN","text":"m"}"#),
    ("POST", "/jobs/{id}/complete", Work, r#"{"lease_token":"TOKEN"}"#),
    ("POST", "/jobs/{id}/fail", Work, r#"{"lease_token":"TOKEN","error":"e"}"#),
    ("POST", "/jobs/{id}/effects", Work, r#"{"lease_token":"TOKEN","key":"mine"}"#),
    ("POST", "/jobs/{id}/effects/{key}/commit", Work, r#"{"lease_token":"TOKEN"}"#),
    ("POST", "/jobs/{id}/effects/{key}/abort", Work, r#"{"lease_token":"TOKEN","error":"e"}"#),
    ("POST", "/jobs/{id}/effects/{key}/resolve", Operate, r#"{"outcome":"not_done","note":"n"}"#),
    ("POST", "/jobs/{id}/approve", Operate, r#"{"effects":[{"key":"mail","proposal_hash":"x"}]}"#),
    ("POST", "/jobs/{id}/reject", Operate, r#"{"effects":[{"key":"mail","proposal_hash":"x"}]}"#),
    ("POST", "/jobs/{id}/cancel", Operate, "{}"),
    ("POST", "/jobs/{id}/release", Operate, r#"{"note":"n"}"#),
    ("POST", "/jobs/{id}/replay", Operate, r#"{"note":"n"}"#),
    ("POST", "/jobs/cancel", Operate, r#"{"subject":"own:thing:1"}"#),
    ("GET", "/schedules", Read, ""),
    ("POST", "/schedules", Configure, r#"{"name":"n","cron":"@yearly","input":1}"#),
    ("GET", "/schedules/{id}", Read, ""),
    ("PATCH", "/schedules/{id}", Configure, r#"{"name":"mine"}"#),
    ("DELETE", "/schedules/{id}", Configure, ""),
    ("GET", "/event-types", Read, ""),
    ("POST", "/event-types", Configure, r#"{"name":"order.made"}"#),
    ("GET", "/event-types/{name}", Read, ""),
    ("PUT", "/event-types/{name}", Configure, "{}"),
    ("DELETE", "/event-types/{name}", Configure, ""),
    ("POST", "/portal-links", Configure, "{}"),
    ("GET", "/webhooks", Read, ""),
    ("POST", "/webhooks", Configure, r#"{"mode":"pull","events":["never.happens"]}"#),
    ("GET", "/webhooks/{id}", Read, ""),
    ("PATCH", "/webhooks/{id}", Configure, r#"{"description":"mine"}"#),
    ("DELETE", "/webhooks/{id}", Configure, ""),
    ("POST", "/webhooks/{id}/test", Configure, "{}"),
    ("POST", "/webhooks/{id}/rotate", Configure, "{}"),
    ("POST", "/webhooks/{id}/revoke-previous", Configure, "{}"),
    ("POST", "/webhooks/{id}/pause", Configure, "{}"),
    ("POST", "/webhooks/{id}/resume", Configure, "{}"),
    ("POST", "/webhooks/{id}/enable", Configure, "{}"),
    ("POST", "/webhooks/{id}/disable", Configure, "{}"),
    ("POST", "/webhooks/{id}/recover", Configure, r#"{"since":"2020-01-01T00:00:00Z"}"#),
    ("POST", "/webhooks/{id}/backfill", Configure, r#"{"since":"2020-01-01T00:00:00Z"}"#),
    ("GET", "/webhooks/{id}/deliveries", Read, ""),
    ("GET", "/webhooks/{id}/stats", Read, ""),
    ("POST", "/webhooks/{id}/deliveries/lease", WorkOrOperate, r#"{"worker":"mine"}"#),
    ("GET", "/events", ReadOrPublish, ""),
    ("POST", "/events", Create, r#"{"type":"never.happens","data":1}"#),
    ("GET", "/events/{id}", ReadOrPublish, ""),
    ("GET", "/events/{id}/deliveries", ReadOrPublish, ""),
    ("GET", "/deliveries/{id}", Read, ""),
    ("POST", "/deliveries/{id}/replay", Configure, r#"{"note":"n"}"#),
    ("POST", "/deliveries/{id}/ack", WorkOrOperate, r#"{"lease_token":"TOKEN"}"#),
    ("POST", "/deliveries/{id}/nack", WorkOrOperate, r#"{"lease_token":"TOKEN"}"#),
    ("POST", "/deliveries/{id}/heartbeat", WorkOrOperate, r#"{"lease_token":"TOKEN"}"#),
    ("GET", "/dead-letters", Read, ""),
    ("GET", "/dead-letters/export", Read, ""),
    ("POST", "/dead-letters/replay", Operate, r#"{"filter":{},"note":"n","dry_run":true}"#),
    ("POST", "/dead-letters/purge", Operate, r#"{"filter":{},"note":"n"}"#),
    ("GET", "/dead-letters/{id}", Read, ""),
    ("POST", "/dead-letters/{id}/replay", Operate, r#"{"note":"n"}"#),
];

fn method(name: &str) -> Method {
    name.parse().expect("a method")
}

/// The routes that the server says it has.
async fn described(gateway: &Gateway) -> BTreeSet<(String, String)> {
    let description = gateway.fetch("/openapi.json").await.is(200).json();
    let paths = description["paths"].as_object().expect("paths").iter();
    let api = paths.filter_map(|(path, methods)| Some((path.strip_prefix("/api/v1")?, methods)));
    api.flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods").keys();
        methods.map(move |method| (method.to_uppercase(), path.to_owned()))
    })
    .collect()
}

async fn call(api: &Api, method_name: &str, path: &str, body: &str) -> wakepost_tests::Answer {
    let body: Option<Value> = serde_json::from_str(body).ok();
    // One look, and no more.
    let path = path.replace("/inbox/stream", "/inbox/stream?for_s=0");
    let path = match path.starts_with("/jobs/") && path.ends_with("/events") {
        true => format!("{path}?for_s=0"),
        false => path,
    };
    api.call(method(method_name), &path, body.as_ref()).await
}

/// A path about something that is nowhere.
fn nowhere(path: &str) -> String {
    let nil = "00000000000000000000000000";
    let id = match path {
        _ if path.starts_with("/keys") => format!("key_{nil}"),
        _ if path.starts_with("/operations") => format!("op_{nil}"),
        _ if path.starts_with("/sources") => format!("src_{nil}"),
        _ if path.starts_with("/schedules") => format!("sch_{nil}"),
        _ if path.starts_with("/webhooks") => format!("wh_{nil}"),
        _ if path.starts_with("/events") => format!("evt_{nil}"),
        _ if path.starts_with("/deliveries") => format!("dlv_{nil}"),
        _ => format!("job_{nil}"),
    };
    path.replace("{event_id}", &format!("evt_{nil}"))
        .replace("{id}", &id)
        .replace("{key}", "mail")
        .replace("{slug}", "nobody")
        .replace("{name}", "nothing")
}

async fn without_a_live_key_there_is_no_answer_but_401(database: Database) {
    let gateway =
        Gateway::setup(database).setting("WAKEPOST_TRUSTED_PROXIES", "127.0.0.1").start().await;
    let listed = ROUTES.iter().map(|(method, path, ..)| ((*method).to_owned(), (*path).to_owned()));
    let listed: BTreeSet<_> = listed.collect();
    assert_eq!(listed, described(&gateway).await, "a route that no test here judges");

    let admin = gateway.admin();
    let nearly = format!("{}x", gateway.admin_key());
    let callers = [
        admin.without_key(),
        admin.with_key("rubbish"),
        admin.with_key(&nearly),
        admin.with_key("wpj_AAAA"),
    ];
    for (index, (name, path, _, body)) in ROUTES.iter().enumerate() {
        for caller in &callers {
            // Each from elsewhere: an address that sends many wrong keys is told to wait.
            let mut from = http::HeaderMap::new();
            from.insert("x-forwarded-for", format!("192.0.2.{index}").parse().expect("a value"));
            let body = (!body.is_empty()).then(|| serde_json::from_str(body).expect("JSON"));
            let method = name.parse().expect("a method");
            let answer = caller.call_with(method, &nowhere(path), from, body.as_ref()).await;
            let answer = answer.refuses(401, "unauthorized");
            assert_eq!(answer.header("www-authenticate"), "Bearer", "{name} {path}");
        }
    }
    gateway.fetch("/metrics").await.refuses(401, "unauthorized");
    // Not even that there is no such route.
    gateway.fetch("/api/v1/rubbish").await.refuses(401, "unauthorized");
    admin.get("/rubbish").await.refuses(404, "not_found");
    admin.delete("/jobs").await.refuses(405, "method_not_allowed");
}

async fn each_role_reaches_what_the_contract_says_and_nothing_else(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    admin.tenant("acme").await;
    for role in ["viewer", "publisher", "worker", "operator", "admin"] {
        let caller = admin.role(role, "acme").await;
        for (name, path, need, body) in ROUTES {
            let answer = call(&caller, name, &nowhere(path), body).await;
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            match may(role, *need) {
                // The right comes first: that there is no such thing is for those who may look.
                false => drop(answer.refuses(403, "forbidden")),
                true => assert!(
                    ![401, 403, 500].contains(&answer.status),
                    "{role} {name} {path}: {text}"
                ),
            }
        }
        let metrics = format!("{}/metrics", gateway.url());
        let headers = [("authorization", format!("Bearer {}", caller.key()))];
        let headers = headers
            .into_iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
        let answer = wakepost_tests::Http::default()
            .send(Method::GET, &metrics, headers.collect(), "")
            .await;
        assert_eq!(answer.status, 403, "{role}: they count over all tenants");
    }
    for (name, path, need, body) in ROUTES.iter().filter(|(.., need, _)| *need == AdministerAll) {
        let answer = call(&admin, name, &nowhere(path), body).await;
        assert!(![401, 403].contains(&answer.status), "{need:?} {name} {path}");
    }
}

/// Whether a route is about a thing of a tenant. What a PUT of a type names is made if it is not there.
fn is_about_one(method: &str, path: &str) -> bool {
    let makes = (method, path) == ("PUT", "/event-types/{name}");
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
        let dead = api.job().await;
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
        let yearly = json!({"name": "theirs", "cron": "@yearly", "input": 1});
        let schedule = api.post("/schedules", yearly).await.is(201).text("id");
        api.post("/event-types", json!({"name": "order.theirs"})).await.is(201);
        let webhook = json!({"mode": "pull", "events": ["order.*"]});
        let webhook = api.post("/webhooks", webhook).await.is(201).text("id");
        let published = json!({"type": "order.theirs", "data": {"n": 1}});
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
        let id = match path {
            _ if path.starts_with("/keys") => &self.key,
            _ if path.starts_with("/operations") => &self.operation,
            _ if path.starts_with("/sources") => &self.source,
            _ if path.starts_with("/schedules") => &self.schedule,
            _ if path.starts_with("/dead-letters") => &self.dead,
            _ if path.starts_with("/webhooks") => &self.webhook,
            _ if path.starts_with("/events") => &self.published,
            _ if path.starts_with("/deliveries") => &self.delivery,
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

    /// All that can be seen of it.
    async fn whole(&self) -> Value {
        let mut rows = BTreeMap::new();
        let lists = ["/sources", "/inbox", "/fixtures", "/jobs", "/schedules", "/dead-letters"];
        for list in lists.into_iter().chain(["/event-types", "/webhooks", "/events"]) {
            rows.insert(list.to_owned(), json!(self.api.list(list).await));
        }
        for id in [&self.running, &self.dead, &self.held] {
            rows.insert(id.clone(), self.api.show_job(id).await);
        }
        rows.insert("event".to_owned(), self.api.show_event(&self.event).await);
        let keys = self.api.list("/keys").await.into_iter().map(|key| key["id"].clone());
        rows.insert("keys".to_owned(), keys.collect());
        json!(rows)
    }
}

async fn another_tenants_things_are_not_there_and_stay_as_they_are(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let theirs = Estate::new(&gateway, "globex").await;
    let before = theirs.whole().await;
    let stranger = admin.tenant("acme").await;
    for (name, path, need, body) in ROUTES {
        let body = theirs.body(body);
        if is_about_one(name, path) {
            // By its id, by an administrator no less.
            let answer = call(&stranger, name, &theirs.path(path), &body).await;
            answer.refuses(404, "not_found");
        }
        if ![AdministerAll, Work].contains(need) && *path != "/providers" {
            let named = stranger.of_tenant("globex");
            let answer = call(&named, name, &theirs.path(path), &body).await;
            answer.refuses(404, "not_found");
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
    assert_eq!(theirs.whole().await, before, "a stranger changed something");

    // To their own tenant, all of it is there.
    for (name, path, need, body) in ROUTES {
        let gone = ["DELETE", "PATCH"].contains(name) || *need == AdministerAll;
        if gone || !is_about_one(name, path) {
            continue;
        }
        let body = theirs.body(body);
        let answer = call(&theirs.api, name, &theirs.path(path), &body).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status < 300 || answer.status == 409, "{name} {path}: {text}");
    }
}

async fn a_tenants_answers_are_the_same_with_and_without_other_tenants(database: Database) {
    let gateway = Gateway::start(database).await;
    let ours = Estate::new(&gateway, "acme").await;
    let before = ours.whole().await;
    let audit = ours.api.list("/audit").await;
    Estate::new(&gateway, "globex").await;
    assert_eq!(ours.whole().await, before);
    assert_eq!(ours.api.list("/audit").await, audit);
    // An administrator of all tenants sees each where it asks.
    let admin = gateway.admin();
    assert!(admin.list("/inbox").await.is_empty());
    assert_eq!(admin.of_tenant("acme").list("/inbox").await.len(), 1);
    admin.of_tenant("nobody").get("/inbox").await.refuses(404, "not_found");
}

async fn a_revoked_or_expired_key_stops_at_once(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let make = |fields: Value| {
        let admin = admin.clone();
        async move {
            let made = admin.post("/keys", fields).await.is(201);
            (made.text("id"), admin.with_key(&made.text("key")))
        }
    };
    let (id, revoked) = make(json!({"name": "r", "role": "viewer", "tenant": "default"})).await;
    revoked.get("/inbox").await.is(200);
    let other = match database {
        Database::Sqlite => None,
        Database::Postgres => Some(gateway.node().await),
    };
    if let Some(other) = &other {
        other.admin().with_key(revoked.key()).get("/inbox").await.is(200);
    }
    admin.delete(&format!("/keys/{id}")).await.is(204);
    revoked.get("/inbox").await.refuses(401, "unauthorized");
    if let Some(other) = &other {
        let far = other.admin().with_key(revoked.key());
        until("the other node heard of it", || async {
            (far.get("/inbox").await.status == 401).then_some(())
        })
        .await;
    }
    admin.delete(&format!("/keys/{id}")).await.refuses(404, "not_found");

    let soon = now().after(std::time::Duration::from_millis(2500)).to_string();
    let fields = json!({"name": "e", "role": "viewer", "tenant": "default", "expires_at": soon});
    let (_, expiring) = make(fields).await;
    expiring.get("/inbox").await.is(200);
    until("it has expired", || async {
        (expiring.get("/inbox").await.status == 401).then_some(())
    })
    .await;
    assert!(now().to_string() >= soon);
    let past = json!({"name": "p", "role": "viewer", "expires_at": "2020-01-01T00:00:00.000Z"});
    admin.post("/keys", past).await.refuses_field("expires_at");
}

async fn only_an_administrator_of_all_tenants_makes_keys_for_others(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let acme = admin.tenant("acme").await;
    admin.tenant("globex").await;
    let key = |tenant: &str| json!({"name": "k", "role": "admin", "tenant": tenant});
    acme.post("/keys", key("*")).await.refuses(403, "forbidden");
    let answer = acme.post("/keys", key("globex")).await;
    assert!([403, 404, 422].contains(&answer.status), "{}", answer.json());
    let own = acme.post("/keys", json!({"name": "k", "role": "viewer"})).await.is(201);
    assert_eq!(own.json()["tenant"], "acme");
    let shown = acme.list("/keys").await;
    assert!(shown.iter().all(|row| row["tenant"] == "acme"), "{shown:?}");
    assert!(shown.iter().all(|row| row.get("key").is_none()), "a key is shown once");
    let all = admin.post("/keys", json!({"name": "k", "role": "viewer"})).await.is(201);
    assert_eq!(all.json()["tenant"], "*");
}

/// What an administrator and a viewer can read of everything: each list, each thing, and the counters.
async fn readable(gateway: &Gateway, things: &[String]) -> Vec<u8> {
    let admin = gateway.admin();
    let viewer = admin.role("viewer", "*").await;
    let routes = described(gateway).await.into_iter().filter(|(method, _)| method == "GET");
    let lists = routes.map(|(_, path)| path).filter(|path| !path.contains('{'));
    let lists: Vec<String> = lists.map(|path| path.replace("stream", "stream?for_s=0")).collect();
    let mut read = Vec::new();
    for api in [&admin, &viewer] {
        for path in lists.iter().chain(things) {
            let answer = api.get(path).await;
            assert!([200, 403].contains(&answer.status), "{path}: {}", answer.status);
            read.extend_from_slice(&answer.body);
            read.extend_from_slice(format!("{:?}\n", answer.headers).as_bytes());
        }
    }
    let metrics = format!("{}/metrics", gateway.url());
    let mut key = http::HeaderMap::new();
    key.insert("authorization", format!("Bearer {}", admin.key()).parse().expect("a value"));
    let metrics =
        wakepost_tests::Http::default().send(Method::GET, &metrics, key, "").await.is(200);
    read.extend_from_slice(&metrics.body);
    read
}

async fn no_secret_and_no_body_can_be_read_from_the_database_or_the_log_and_no_secret_from_the_api(
    database: Database,
) {
    let gateway = Gateway::setup(database)
        .setting("WAKEPOST_LOG_LEVEL", "debug")
        .setting("WAKEPOST_ALLOW_HTTP", "true")
        .setting("WAKEPOST_ALLOW_PRIVATE", "true")
        .start()
        .await;
    let api = gateway.admin();
    let mark = |what: &str| format!("{what}-{}", random_text(16));
    let secret = mark("whsec");
    let receiver = Receiver::start(|_| Reply::new(500, "no")).await;
    let executor = json!({"kind": "http", "url": receiver.url("/agent")});
    let fields = json!({"secret": secret, "executor": executor, "max_attempts": 1});
    let pushed = api.source_with("stripe", fields).await;
    let source = gateway.with_source("github").await;
    let rotated = api.post(&format!("/sources/{}/rotate", source.id), json!({})).await.is(200);

    let (body, header) = (mark("body"), mark("header"));
    let text = format!(r#"{{"action":"opened","note":"{body}"}}"#);
    let event = source.event("e-1").with_body(text).with_header("X-Secret", &header);
    gateway.send(&source, &event).await.is(202);
    let broken = source.event("e-2").with_body(format!("not json: {body}"));
    gateway.send(&source, &broken).await.is(200);
    gateway.send(&source.with_secret("wrong"), &event).await.is(401);
    gateway.send(&pushed, &pushed.event("e-3")).await.is(202);
    receiver.wait("/agent", 1).await;

    let worker = api.role("worker", "default").await;
    let input = mark("input");
    let headers = [("idempotency-key", mark("idempotency"))];
    let headers = headers
        .iter()
        .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
    let job = json!({"kind": "k", "input": {"text": input}});
    api.call_with(Method::POST, "/jobs", headers.collect(), Some(&job)).await.is(201);
    let lease = Worker::new(&worker, "w").wait_with(json!({"kinds": ["k"]})).await;
    let documents = ["checkpoint", "progress", "effect", "result", "reply"].map(mark);
    let [checkpoint, progress, effect, result, reply] = &documents;
    lease.checkpoint(json!({"state": checkpoint})).await.is(200);
    lease.progress(progress).await.is(200);
    lease.begin("mail").await.is(200);
    lease.commit("mail", json!({"sent": effect})).await.is(200);
    let ending = json!({"result": {"text": result}, "reply": reply});
    lease.post("complete", ending).await.is(200);

    let (bot, token, published) = (mark("xoxb"), mark("bearer"), mark("published"));
    let talks = api.source_with("slack", json!({"settings": {"bot_token": bot}})).await;
    let webhook = json!({"url": receiver.url("/hook"), "events": ["*"], "retry_s": [0],
        "auth": {"type": "bearer", "token": token}});
    let webhook = api.post("/webhooks", webhook).await.is(201);
    let sent = json!({"type": "order.paid", "data": {"text": published}});
    api.post("/events", sent).await.is(202);
    receiver.wait("/hook", 1).await;
    let rotated_hook = format!("/webhooks/{}/rotate", webhook.text("id"));
    let rotated_hook = api.post(&rotated_hook, json!({})).await.is(200).text("secret");

    let secrets: Vec<(&str, String)> = vec![
        ("a setting that is secret", bot),
        ("a webhook's secret", webhook.text("secret")),
        ("a webhook's secret", rotated_hook),
        ("a webhook's token", token),
        ("a source's secret", talks.verifies().to_owned()),
        ("a source's secret", secret),
        ("a source's secret", source.secret().to_owned()),
        ("a source's secret", rotated.text("secret")),
        ("an executor's secret", pushed.made["executor_secret"].as_str().expect("one").to_owned()),
        ("the admin key", gateway.admin_key().to_owned()),
        ("the master key", gateway.master_key().to_owned()),
        ("a key", worker.key().to_owned()),
        ("a lease token", lease.token().to_owned()),
    ];
    let mut hidden = secrets.clone();
    hidden.extend([
        ("a body", body),
        ("a header", header),
        ("an input", input),
        ("what was published", published),
    ]);
    hidden.extend(documents.into_iter().map(|text| ("a document", text)));
    let stored = gateway.stored().await;
    let log = gateway.logged().into_bytes();
    let holds = |place: &[u8], text: &str| {
        let bytes = text.as_bytes();
        place.windows(bytes.len()).any(|window| window.eq_ignore_ascii_case(bytes))
    };
    // What is meant to be legible is found: the search itself works.
    assert!(holds(&stored, "issues.opened"));
    assert!(holds(&log, "could not be understood"));
    let things = [
        format!("/sources/{}", talks.id),
        format!("/sources/{}/status", pushed.id),
        format!("/webhooks/{}", webhook.text("id")),
        format!("/webhooks/{}/deliveries", webhook.text("id")),
        format!("/jobs/{}", lease.id()),
        "/dead-letters/export".to_owned(),
    ];
    let read = readable(&gateway, &things).await;
    assert!(holds(&read, "issues.opened") && holds(&read, "order.paid"));
    for (what, text) in &secrets {
        assert!(!holds(&read, text), "{what} can be read through the API");
    }
    for (what, text) in &hidden {
        let digits = hex::encode(text);
        assert!(!holds(&stored, text) && !holds(&stored, &digits), "{what} is in the database");
        assert!(!holds(&log, text) && !holds(&log, &digits), "{what} is in the log");
    }
}
