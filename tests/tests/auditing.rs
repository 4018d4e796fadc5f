//! Auditing: whatever somebody changes leaves who, what and why; and nobody changes that.

use std::collections::BTreeSet;

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use wakepost_tests::{Api, Database, Gateway, Http, Lease, Receiver, Reply, on_both, until};

on_both!(
    every_route_that_changes_something_leaves_who_what_and_to_what,
    the_trail_is_found_by_who_what_and_when,
    what_is_published_by_hand_is_in_the_trail_and_what_programs_publish_is_not,
    nobody_changes_the_trail,
);

/// What workers, publishers and machines do all day is in the things themselves: runs, effects, deliveries, events. What
/// people publish by hand has a test of its own.
const WORK: &[(&str, &str)] = &[
    ("POST", "/jobs"),
    ("POST", "/jobs/lease"),
    ("POST", "/jobs/heartbeat"),
    ("POST", "/jobs/finish"),
    ("POST", "/jobs/{id}/heartbeat"),
    ("PUT", "/jobs/{id}/checkpoint"),
    ("POST", "/jobs/{id}/progress"),
    ("POST", "/jobs/{id}/reply"),
    ("POST", "/jobs/{id}/complete"),
    ("POST", "/jobs/{id}/fail"),
    ("POST", "/jobs/{id}/effects"),
    ("POST", "/jobs/{id}/effects/{key}/commit"),
    ("POST", "/jobs/{id}/effects/{key}/abort"),
    ("POST", "/events"),
    ("POST", "/webhooks/{id}/deliveries/lease"),
    ("POST", "/deliveries/{id}/ack"),
    ("POST", "/deliveries/{id}/nack"),
    ("POST", "/deliveries/{id}/heartbeat"),
    // A clock calls it, and it changes nothing that would not happen by itself.
    ("POST", "/admin/sweep"),
];

/// One who does things, and is watched.
struct Watched {
    api: Api,
    actor: String,
    done: BTreeSet<(String, String)>,
}

impl Watched {
    /// Does something, and sees that exactly it was noted: who, to what, and why if that was said.
    async fn does(
        &mut self,
        method: &str,
        route: &str,
        ids: &[(&str, &str)],
        body: Value,
    ) -> Value {
        let mut path = route.to_owned();
        for (name, id) in ids {
            path = path.replace(&format!("{{{name}}}"), id);
        }
        let before = self.api.list("/audit").await.len();
        let named = format!("{method} {path}");
        let sent = (method != "DELETE").then_some(&body);
        let method_ = method.parse::<Method>().expect("a method");
        let answer = self.api.call(method_, &path, sent).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!((200..300).contains(&answer.status), "{named}: {} {text}", answer.status);
        let trail = self.api.list("/audit").await;
        assert!(trail.len() > before, "{named} left nothing");
        let entry = &trail[0];
        assert_eq!(entry["actor"], self.actor.as_str(), "{named}: {entry}");
        let word = entry["action"].as_str().expect("an action");
        assert!(word.contains('.') || word.contains('_'), "{named}: {entry}");
        assert!(!entry["target"].as_str().expect("a target").is_empty(), "{named}: {entry}");
        if let Some(note) = body["note"].as_str() {
            let noted = entry["note"].as_str().unwrap_or_default();
            assert!(noted.starts_with(note), "{named}: {entry}");
        }
        self.done.insert((method.to_owned(), route.to_owned()));
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }
}

fn id(made: &Value) -> String {
    made["id"].as_str().expect("an id").to_owned()
}

/// Proposes something; answers the body of a decision on it.
async fn proposal(lease: &Lease) -> Value {
    let asked = json!({"key": "refund", "description": "30 EUR"});
    let hash = lease.post("effects", asked).await.is(200).json()["proposal_hash"].clone();
    json!({"effects": [{"key": "refund", "proposal_hash": hash}], "note": "looked at it"})
}

/// The routes that change something, as the server describes them.
async fn changing(gateway: &Gateway) -> BTreeSet<(String, String)> {
    let description = gateway.fetch("/openapi.json").await.is(200).json();
    let paths = description["paths"].as_object().expect("paths").iter();
    let api = paths.filter_map(|(path, methods)| Some((path.strip_prefix("/api/v1")?, methods)));
    api.flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods").keys();
        methods.map(move |method| (method.to_uppercase(), path.to_owned()))
    })
    .filter(|(method, _)| method != "GET")
    .collect()
}

async fn every_route_that_changes_something_leaves_who_what_and_to_what(database: Database) {
    let setup = Gateway::setup(database).setting("WAKEPOST_ALLOW_HTTP", "true");
    let gateway = setup.setting("WAKEPOST_ALLOW_PRIVATE", "true").start().await;
    let api = gateway.admin();
    let actor = id(&api.list("/keys").await[0]);
    let worker = gateway.worker("w");
    let mut who = Watched { api: api.clone(), actor, done: BTreeSet::new() };
    let why = || json!({"note": "because"});

    let tenant = json!({"slug": "acme", "name": "Acme"});
    who.does("POST", "/tenants", &[], tenant).await;
    who.does("PATCH", "/tenants/{slug}", &[("slug", "acme")], json!({"name": "ACME"})).await;
    let key = who.does("POST", "/keys", &[], json!({"name": "k", "role": "viewer"})).await;
    who.does("DELETE", "/keys/{id}", &[("id", &id(&key))], json!({})).await;

    let made = who.does("POST", "/sources", &[], json!({"provider": "github"})).await;
    let at = [("id", made["id"].as_str().expect("an id"))];
    who.does("PATCH", "/sources/{id}", &at, json!({"name": "n"})).await;
    for route in ["rotate", "disable", "enable", "setup", "test"] {
        who.does("POST", &format!("/sources/{{id}}/{route}"), &at, json!({})).await;
    }
    worker.wait().await.complete(json!(1)).await.is(200);
    let event = id(&api.list("/inbox").await[0]);
    let of_event = [("event_id", event.as_str())];
    who.does("POST", "/inbox/{event_id}/replay", &of_event, why()).await;
    worker.wait().await.complete(json!(1)).await.is(200);
    let filter = json!({"filter": {}, "note": "because", "dry_run": true});
    who.does("POST", "/inbox/replay", &[], filter).await;
    who.does("POST", "/inbox/{event_id}/fixture", &of_event, json!({"name": "kept"})).await;
    let named = [("name", "kept")];
    who.does("POST", "/fixtures/{name}/send", &named, json!({"source": id(&made)})).await;
    who.does("DELETE", "/fixtures/{name}", &named, json!({})).await;
    who.does("DELETE", "/sources/{id}", &at, json!({})).await;
    while let Some(lease) = worker.lease().await {
        lease.complete(json!(1)).await.is(200);
    }

    for word in ["reject", "approve"] {
        let job = api.job_with(json!({"input": 1, "mode": "draft"})).await;
        let decision = proposal(&worker.wait().await).await;
        let route = format!("/jobs/{{id}}/{word}");
        who.does("POST", &route, &[("id", &job)], decision).await;
    }
    worker.wait().await.complete(json!(1)).await.is(200);
    for word in ["resolve", "release"] {
        let job = api.job_with(json!({"input": 1, "kind": word})).await;
        let short = json!({"kinds": [word], "lease_s": 1});
        worker.wait_with(short).await.begin("mail").await.is(200);
        worker.wait_with(json!({"kinds": [word]})).await.begin("mail").await.is(200);
        if word == "resolve" {
            let ids = [("id", job.as_str()), ("key", "mail")];
            let outcome = json!({"outcome": "not_done", "note": "because"});
            who.does("POST", "/jobs/{id}/effects/{key}/resolve", &ids, outcome).await;
        } else {
            who.does("POST", "/jobs/{id}/release", &[("id", &job)], why()).await;
        }
    }
    while let Some(lease) = worker.lease().await {
        lease.fail("no").await;
    }
    let job = api.job_with(json!({"input": 1, "kind": "waits"})).await;
    who.does("POST", "/jobs/{id}/cancel", &[("id", &job)], why()).await;
    who.does("POST", "/jobs/{id}/replay", &[("id", &job)], why()).await;
    let subject = json!({"subject": "own:thing:1", "note": "because"});
    who.does("POST", "/jobs/cancel", &[], subject).await;

    let yearly = json!({"name": "n", "cron": "@yearly", "input": 1});
    let schedule = id(&who.does("POST", "/schedules", &[], yearly).await);
    let at = [("id", schedule.as_str())];
    who.does("PATCH", "/schedules/{id}", &at, json!({"name": "m"})).await;
    who.does("DELETE", "/schedules/{id}", &at, json!({})).await;

    who.does("POST", "/event-types", &[], json!({"name": "order.made"})).await;
    let at = [("name", "order.made")];
    who.does("PUT", "/event-types/{name}", &at, json!({"description": "d"})).await;
    who.does("POST", "/portal-links", &[], json!({})).await;

    let receiver = Receiver::start(|_| Reply::new(200, "")).await;
    let webhook = json!({"url": receiver.url("/hook"), "events": ["order.*"]});
    let webhook = id(&who.does("POST", "/webhooks", &[], webhook).await);
    let of_hook = [("id", webhook.as_str())];
    api.post("/events", json!({"type": "order.made", "data": {}})).await.is(202);
    let deliveries = format!("/webhooks/{webhook}/deliveries?status=succeeded");
    let delivery =
        until("it is delivered", || async { api.list(&deliveries).await.first().map(id) }).await;
    who.does("PATCH", "/webhooks/{id}", &of_hook, json!({"description": "d"})).await;
    for word in ["test", "rotate", "revoke-previous", "pause", "resume", "disable", "enable"] {
        who.does("POST", &format!("/webhooks/{{id}}/{word}"), &of_hook, json!({})).await;
    }
    for word in ["recover", "backfill"] {
        let since = json!({"since": "2026-01-01T00:00:00Z"});
        who.does("POST", &format!("/webhooks/{{id}}/{word}"), &of_hook, since).await;
    }
    who.does("POST", "/deliveries/{id}/replay", &[("id", &delivery)], why()).await;
    who.does("DELETE", "/webhooks/{id}", &of_hook, json!({})).await;
    who.does("DELETE", "/event-types/{name}", &at, json!({})).await;

    let dead = api.job_with(json!({"input": 1, "kind": "dies"})).await;
    let lease = worker.wait_with(json!({"kinds": ["dies"]})).await;
    lease.post("fail", json!({"error": "no", "retryable": false})).await.is(200);
    who.does("POST", "/dead-letters/{id}/replay", &[("id", &dead)], why()).await;
    let filter = json!({"filter": {}, "note": "because", "dry_run": true});
    who.does("POST", "/dead-letters/replay", &[], filter).await;
    let filter = json!({"filter": {}, "note": "because"});
    who.does("POST", "/dead-letters/purge", &[], filter).await;

    let work = WORK.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned()));
    let known: BTreeSet<_> = who.done.into_iter().chain(work).collect();
    assert_eq!(changing(&gateway).await, known, "a route that nobody watches here");
}

async fn the_trail_is_found_by_who_what_and_when(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let acme = admin.tenant("acme").await;
    let source = acme.source("github").await;
    acme.post(&format!("/sources/{}/disable", source.id), json!({})).await.is(200);
    let actions = async |api: &Api, query: &str| {
        let rows = api.list(&format!("/audit?{query}")).await;
        rows.iter().map(|row| row["action"].as_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(actions(&acme, "action=source.").await, ["source.disable", "source.create"]);
    let target = format!("target={}&action=source.create", source.id);
    assert_eq!(actions(&admin, &target).await, ["source.create"]);
    let mine = acme.list("/audit?action=source.").await;
    let actor = mine[0]["actor"].as_str().expect("text");
    assert_eq!(actions(&admin, &format!("actor={actor}")).await.len(), 2);
    let at = mine[0]["at"].as_str().expect("text");
    assert_eq!(actions(&acme, &format!("since={at}")).await, ["source.disable"]);
    assert_eq!(actions(&acme, &format!("until={at}&action=source")).await, ["source.create"]);
    assert!(actions(&acme, "actor=nobody").await.is_empty());
    acme.get("/audit?who=me").await.is(422);
}

/// Publishes by the tool of `/mcp`.
async fn publish_by_tool(api: &Api, event: Value) {
    let params = json!({"name": "publish_event", "arguments": event});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let answer = api.anywhere(Method::POST, "/mcp", HeaderMap::new(), Some(&message)).await;
    let answer = answer.is(200).json();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

/// Publishes by the form of the dashboard, which is sent twice.
async fn publish_by_form(gateway: &Gateway, key: &str, event_type: &str) {
    let mut headers = HeaderMap::new();
    let form = "application/x-www-form-urlencoded".parse().expect("a value");
    headers.insert("content-type", form);
    let post = async |path: &str, headers: &HeaderMap, form: String| {
        let url = format!("{}{path}", gateway.url());
        Http::default().send(Method::POST, &url, headers.clone(), form).await.is(303)
    };
    let signed_in = post("/sign-in", &headers, format!("to=/events&key={key}")).await;
    let cookie = signed_in.header("set-cookie").split(';').next().expect("a cookie");
    headers.insert("cookie", cookie.parse().expect("a value"));
    let page = gateway.ask(Method::GET, "/events", headers.clone()).await.is(200).body;
    let page = String::from_utf8(page.to_vec()).expect("text");
    let (_, form) = page.split_once("Publish one by hand").expect("the form");
    let hidden = |name: &str| {
        let (_, rest) = form.split_once(&format!("name=\"{name}\" value=\"")).expect("a field");
        rest.split('"').next().expect("its end").to_owned()
    };
    let (csrf, once) = (hidden("csrf"), hidden("once"));
    for _ in 0..2 {
        let form = format!("csrf={csrf}&once={once}&type={event_type}&data=1");
        post("/events", &headers, form).await;
    }
}

async fn what_is_published_by_hand_is_in_the_trail_and_what_programs_publish_is_not(
    database: Database,
) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let [operator, publisher, worker] = [
        admin.role("operator", "*").await,
        admin.role("publisher", "*").await,
        admin.role("worker", "*").await,
    ];
    let event = |key: &str| json!({"type": "order.made", "data": 1, "dedup_key": key});
    let before = admin.list("/audit").await;
    for (n, program) in [&admin, &operator, &publisher, &worker].into_iter().enumerate() {
        program.post("/events", event(&format!("one-{n}"))).await.is(202);
        program.post("/events", json!([event(&format!("many-{n}"))])).await.is(202);
        program.post("/jobs", json!({"input": 1})).await.is(201);
    }
    for program in [&publisher, &worker] {
        publish_by_tool(program, event("tool")).await;
    }
    assert_eq!(admin.list("/audit").await, before);

    let keys = admin.list("/keys").await;
    let id_of = |role: &str| {
        let key = keys.iter().find(|key| key["role"] == role).expect("a key");
        id(key)
    };
    for turn in 1..=2 {
        publish_by_tool(&operator, event("by operator")).await;
        let trail = admin.list("/audit").await;
        assert_eq!(trail.len(), before.len() + 1, "turn {turn}: a repeat is none");
        let made = &admin.list("/events?dedup_key=by%20operator").await[0];
        assert_eq!(trail[0]["action"], "event.publish");
        assert_eq!(
            (&trail[0]["actor"], &trail[0]["target"]),
            (&json!(id_of("operator")), &made["id"])
        );
    }
    publish_by_form(&gateway, gateway.admin_key(), "order.typed").await;
    let trail = admin.list("/audit").await;
    assert_eq!(trail.len(), before.len() + 2, "sent twice, published once: {trail:?}");
    let made = &admin.list("/events?type=order.typed").await[0];
    assert_eq!((&trail[0]["actor"], &trail[0]["target"]), (&json!(id_of("admin")), &made["id"]));
}

async fn nobody_changes_the_trail(database: Database) {
    let gateway = Gateway::start(database).await;
    let before = gateway.admin().list("/audit").await;
    assert!(!before.is_empty());
    let mut changes = vec!["UPDATE audit SET actor = 'nobody'", "DELETE FROM audit"];
    changes.extend((database == Database::Postgres).then_some("TRUNCATE audit"));
    let gateway = std::sync::Arc::new(gateway);
    for change in changes {
        let there = gateway.clone();
        let tried = tokio::spawn(async move { there.execute(change).await }).await;
        assert!(tried.is_err(), "{change} was refused");
    }
    assert_eq!(gateway.admin().list("/audit").await, before);
}
