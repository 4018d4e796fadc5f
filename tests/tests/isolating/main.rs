//! Isolating: a key reaches what its role and its tenant allow, and nobody reads what is stored or logged.

mod estate;
mod sealed;

use std::collections::BTreeSet;

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use wakepost_tests::{Answer, Api, Database, Gateway, now, on_both, until};

on_both!(
    without_a_live_key_there_is_no_answer_but_401,
    each_role_reaches_what_the_contract_says_and_nothing_else,
    what_is_wrong_is_told_in_one_order_everywhere,
    a_revoked_or_expired_key_stops_at_once,
    only_an_administrator_of_all_tenants_makes_keys_for_others,
);

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Read,
    /// A worker reads what is leased.
    ReadOrWork,
    /// A publisher reads what was published.
    ReadOrPublish,
    /// A portal link reads webhooks, deliveries and the catalogue.
    ReadOrSubscribe,
    /// Any of the three.
    ReadDeliveries,
    Create,
    /// To ask for work: not for a key that lives with one lease.
    Lease,
    Work,
    Operate,
    Configure,
    /// Webhooks, which a portal link is for.
    Subscribe,
    Administer,
    /// Only a key of all tenants.
    AdministerAll,
    /// The same, that only reads.
    ReadAll,
    /// Single-tenant use: operators of the default tenant.
    OperateDefault,
    /// Any key at all: what it may do is another question.
    AnyKey,
    /// A token of the server's own.
    Token,
    /// Nothing at all.
    Open,
}
use Need::*;

/// All who call with a tenant's key, or with what stands for one.
const CALLERS: [&str; 7] =
    ["viewer", "publisher", "worker", "operator", "admin", "portal link", "job"];

/// The API's table of roles, for keys of a tenant that is not the default one.
fn may(caller: &str, need: Need) -> bool {
    let who: &[&str] = match need {
        Read => &["viewer", "operator", "admin"],
        ReadOrWork => &["viewer", "worker", "operator", "admin", "job"],
        ReadOrPublish => &["viewer", "publisher", "operator", "admin"],
        ReadOrSubscribe => &["viewer", "operator", "admin", "portal link"],
        ReadDeliveries => &["viewer", "publisher", "operator", "admin", "portal link"],
        Create => &["publisher", "worker", "operator", "admin"],
        Lease => &["worker", "admin"],
        Work => &["worker", "admin", "job"],
        Operate | Configure => &["operator", "admin"],
        Subscribe => &["operator", "admin", "portal link"],
        Administer => &["admin"],
        AdministerAll | ReadAll | OperateDefault => &[],
        AnyKey | Token | Open => return true,
    };
    who.contains(&caller)
}

/// Every route below `/api/v1`. `SOURCE`, `TOKEN` and so on stand for another tenant's things.
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
    ("GET", "/series", Read, ""),
    ("GET", "/alerts", Read, ""),
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
    ("POST", "/jobs/lease", Lease, r#"{"worker":"w"}"#),
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
    ("GET", "/event-types", ReadOrSubscribe, ""),
    ("POST", "/event-types", Configure, r#"{"name":"order.made"}"#),
    ("GET", "/event-types/{name}", ReadOrSubscribe, ""),
    ("PUT", "/event-types/{name}", Configure, "{}"),
    ("DELETE", "/event-types/{name}", Configure, ""),
    ("POST", "/portal-links", Configure, "{}"),
    ("GET", "/webhooks", ReadOrSubscribe, ""),
    ("POST", "/webhooks", Subscribe, r#"{"mode":"pull","events":["never.happens"]}"#),
    ("GET", "/webhooks/{id}", ReadOrSubscribe, ""),
    ("PATCH", "/webhooks/{id}", Subscribe, r#"{"description":"mine"}"#),
    ("DELETE", "/webhooks/{id}", Subscribe, ""),
    ("POST", "/webhooks/{id}/test", Subscribe, "{}"),
    ("POST", "/webhooks/{id}/rotate", Subscribe, "{}"),
    ("POST", "/webhooks/{id}/revoke-previous", Subscribe, "{}"),
    ("POST", "/webhooks/{id}/pause", Subscribe, "{}"),
    ("POST", "/webhooks/{id}/resume", Subscribe, "{}"),
    ("POST", "/webhooks/{id}/enable", Subscribe, "{}"),
    ("POST", "/webhooks/{id}/disable", Subscribe, "{}"),
    ("POST", "/webhooks/{id}/recover", Subscribe, r#"{"since":"2020-01-01T00:00:00Z"}"#),
    ("POST", "/webhooks/{id}/backfill", Subscribe, r#"{"since":"2020-01-01T00:00:00Z"}"#),
    ("GET", "/webhooks/{id}/deliveries", ReadOrSubscribe, ""),
    ("GET", "/webhooks/{id}/stats", ReadOrSubscribe, ""),
    ("POST", "/webhooks/{id}/deliveries/lease", Lease, r#"{"worker":"mine"}"#),
    ("GET", "/events", ReadOrPublish, ""),
    ("POST", "/events", Create, r#"{"type":"never.happens","data":1}"#),
    ("GET", "/events/{id}", ReadOrPublish, ""),
    ("GET", "/events/{id}/deliveries", ReadDeliveries, ""),
    ("GET", "/deliveries/{id}", ReadOrSubscribe, ""),
    ("POST", "/deliveries/{id}/replay", Subscribe, r#"{"note":"n"}"#),
    ("POST", "/deliveries/{id}/ack", Lease, r#"{"lease_token":"TOKEN"}"#),
    ("POST", "/deliveries/{id}/nack", Lease, r#"{"lease_token":"TOKEN"}"#),
    ("POST", "/deliveries/{id}/heartbeat", Lease, r#"{"lease_token":"TOKEN"}"#),
    ("GET", "/dead-letters", Read, ""),
    ("GET", "/dead-letters/export", Read, ""),
    ("POST", "/dead-letters/replay", Operate, r#"{"filter":{},"note":"n","dry_run":true}"#),
    ("POST", "/dead-letters/purge", Operate, r#"{"filter":{},"note":"n"}"#),
    ("GET", "/dead-letters/{id}", Read, ""),
    ("POST", "/dead-letters/{id}/replay", Operate, r#"{"note":"n"}"#),
];

/// Every other route.
const OUTSIDE: &[(&str, &str, Need, &str)] = &[
    ("GET", "/metrics", ReadAll, ""),
    ("GET", "/integrations/status", OperateDefault, ""),
    ("GET", "/integrations/{platform}/status", OperateDefault, ""),
    ("POST", "/integrations/{platform}/enable", OperateDefault, "{}"),
    ("POST", "/integrations/{platform}/disable", OperateDefault, "{}"),
    ("POST", "/integrations/{platform}/setup", OperateDefault, "{}"),
    ("POST", "/mcp", AnyKey, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
    ("POST", "/integrations/_process-task", Token, r#"{"task_id":"x"}"#),
    ("POST", "/integrations/{platform}/webhook", Open, "{}"),
    ("GET", "/integrations/{platform}/webhook", Open, ""),
    ("OPTIONS", "/integrations/{platform}/webhook", Open, ""),
    ("POST", "/in/{source_id}", Open, "{}"),
    ("GET", "/in/{source_id}", Open, ""),
    ("OPTIONS", "/in/{source_id}", Open, ""),
    ("GET", "/e/{token}", Open, ""),
    ("GET", "/.well-known/wakepost-keys", Open, ""),
    ("GET", "/healthz", Open, ""),
    ("GET", "/readyz", Open, ""),
    ("GET", "/openapi.json", Open, ""),
];

/// One route: its method, its whole path, what it needs, a body that it takes.
type Route = (&'static str, String, Need, &'static str);

/// All routes.
fn routes() -> impl Iterator<Item = Route> {
    let api = ROUTES.iter().map(|(method, path, need, body)| {
        let path = format!("/api/v1{path}");
        (*method, path, *need, *body)
    });
    let rest = OUTSIDE.iter();
    api.chain(rest.map(|(method, path, need, body)| (*method, (*path).to_owned(), *need, *body)))
}

/// The routes that the server says it has.
async fn described(gateway: &Gateway) -> BTreeSet<(String, String)> {
    let description = gateway.fetch("/openapi.json").await.is(200).json();
    let paths = description["paths"].as_object().expect("paths").iter();
    paths
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("methods").keys();
            methods.map(move |method| (method.to_uppercase(), path.clone()))
        })
        .collect()
}

async fn call(api: &Api, method: &str, path: &str, body: &str) -> Answer {
    call_from(api, method, path, HeaderMap::new(), body).await
}

async fn call_from(api: &Api, method: &str, path: &str, headers: HeaderMap, body: &str) -> Answer {
    let body: Option<Value> = serde_json::from_str(body).ok();
    // One look, and no more.
    let is_stream = path.ends_with("/inbox/stream")
        || path.starts_with("/api/v1/jobs/") && path.ends_with("/events");
    let path = if is_stream { format!("{path}?for_s=0") } else { path.to_owned() };
    let method: Method = method.parse().expect("a method");
    api.anywhere(method, &path, headers, body.as_ref()).await
}

/// A path about something that is nowhere.
fn nowhere(path: &str) -> String {
    let nil = "00000000000000000000000000";
    let below = path.strip_prefix("/api/v1").unwrap_or_default();
    let id = match below {
        _ if below.starts_with("/keys") => format!("key_{nil}"),
        _ if below.starts_with("/operations") => format!("op_{nil}"),
        _ if below.starts_with("/sources") => format!("src_{nil}"),
        _ if below.starts_with("/schedules") => format!("sch_{nil}"),
        _ if below.starts_with("/webhooks") => format!("wh_{nil}"),
        _ if below.starts_with("/events") => format!("evt_{nil}"),
        _ if below.starts_with("/deliveries") => format!("dlv_{nil}"),
        _ => format!("job_{nil}"),
    };
    path.replace("{event_id}", &format!("evt_{nil}"))
        .replace("{source_id}", &format!("src_{nil}"))
        .replace("{platform}", "nothing")
        .replace("{token}", "nothing")
        .replace("{id}", &id)
        .replace("{key}", "mail")
        .replace("{slug}", "nobody")
        .replace("{name}", "nothing")
}

async fn without_a_live_key_there_is_no_answer_but_401(database: Database) {
    let gateway =
        Gateway::setup(database).setting("WAKEPOST_TRUSTED_PROXIES", "127.0.0.1").start().await;
    let listed: BTreeSet<_> =
        routes().map(|(method, path, ..)| (method.to_owned(), path)).collect();
    assert_eq!(listed, described(&gateway).await, "a route that no test here judges");

    let admin = gateway.admin();
    let nearly = format!("{}x", gateway.admin_key());
    let callers = [
        admin.without_key(),
        admin.with_key("rubbish"),
        admin.with_key(&nearly),
        admin.with_key("wpj_AAAA"),
        admin.with_key("wpp_AAAA"),
    ];
    for (index, (method, path, need, body)) in routes().enumerate() {
        for caller in &callers {
            // Each from elsewhere: an address that sends many wrong keys is told to wait.
            let mut from = HeaderMap::new();
            from.insert("x-forwarded-for", format!("192.0.2.{index}").parse().expect("a value"));
            let answer = call_from(caller, method, &nowhere(&path), from, body).await;
            if need == Open {
                assert!([200, 404].contains(&answer.status), "{method} {path}: {}", answer.status);
                continue;
            }
            let answer = answer.refuses(401, "unauthorized");
            assert_eq!(answer.header("www-authenticate"), "Bearer", "{method} {path}");
        }
    }
    gateway.fetch("/docs").await.is(200);
    // Nor behind the other prefix.
    for (method, path, need, body) in
        OUTSIDE.iter().filter(|(_, path, ..)| path.starts_with("/integrations"))
    {
        let path = format!("/_agent-native{}", nowhere(path));
        let answer = call(&admin.without_key(), method, &path, body).await;
        assert_eq!(answer.status, if *need == Open { 404 } else { 401 }, "{path}");
    }
    // Not even that there is no such route.
    gateway.fetch("/api/v1/rubbish").await.refuses(401, "unauthorized");
    admin.get("/rubbish").await.refuses(404, "not_found");
    admin.delete("/jobs").await.refuses(405, "method_not_allowed");
}

/// Keeps the key of the job that it runs, and ends when it is told to.
const KEEP_KEY: &str = r#"
[exec.keep]
command = ["sh", "-c", '''
printf '%s' "$WAKEPOST_KEY" > DIRECTORY/writing && mv DIRECTORY/writing DIRECTORY/key
while [ -e DIRECTORY/wakepost.toml ] && [ ! -e DIRECTORY/finish ]; do sleep 0.05; done
''']
"#;

/// The key of a running job of a tenant.
async fn job_key(gateway: &Gateway, slug: &str) -> Api {
    let executor = json!({"kind": "exec", "name": "keep"});
    let admin = gateway.admin().of_tenant(slug);
    admin.job_with(json!({"input": 1, "executor": executor})).await;
    let path = gateway.directory().join("key");
    let key = until("the job runs", || async { std::fs::read_to_string(&path).ok() }).await;
    gateway.admin().with_key(&key)
}

/// Whoever is meant by a word of [`CALLERS`], of a tenant.
async fn caller(gateway: &Gateway, who: &str, slug: &str) -> Api {
    let admin = gateway.admin();
    match who {
        "job" => job_key(gateway, slug).await,
        "portal link" => {
            let link = admin.post("/portal-links", json!({"tenant": slug})).await.is(201);
            let url = link.text("url");
            admin.with_key(url.rsplit_once("/p/").expect("a link").1)
        }
        role => admin.role(role, slug).await,
    }
}

async fn each_role_reaches_what_the_contract_says_and_nothing_else(database: Database) {
    let gateway = Gateway::setup(database).file(KEEP_KEY).start().await;
    let admin = gateway.admin();
    admin.tenant("acme").await;
    for who in CALLERS {
        let caller = caller(&gateway, who, "acme").await;
        for (method, path, need, body) in routes() {
            let answer = call(&caller, method, &nowhere(&path), body).await;
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            match (may(who, need), need) {
                // The right comes first: that there is no such thing is for those who may look.
                (false, _) => drop(answer.refuses(403, "forbidden")),
                (true, Token) => drop(answer.refuses(401, "unauthorized")),
                (true, _) => assert!(
                    ![401, 403].contains(&answer.status) && answer.status < 500,
                    "{who} {method} {path}: {text}"
                ),
            }
        }
    }
    // Keys of all tenants, and of the default one.
    let default = admin.role("operator", "default").await;
    let viewer = admin.role("viewer", "*").await;
    for (method, path, need, body) in routes() {
        let callers = match need {
            AdministerAll => vec![&admin],
            ReadAll => vec![&admin, &viewer],
            OperateDefault => vec![&admin, &default],
            _ => continue,
        };
        for caller in callers {
            let answer = call(caller, method, &nowhere(&path), body).await;
            assert!(![401, 403].contains(&answer.status), "{need:?} {method} {path}");
        }
        if need != ReadAll {
            let answer = call(&viewer, method, &nowhere(&path), body).await;
            answer.refuses(403, "forbidden");
        }
    }
}

/// 401, 403, 404, 405, 409, 422: what is wrong with a request is told to nobody who may not make it, and not about
/// things that are not there.
async fn what_is_wrong_is_told_in_one_order_everywhere(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let (wrong, mut wrongs) = (r#"{"no_such_field":1}"#, Vec::new());
    let viewer = admin.role("viewer", "default").await;
    for (method, path, need, _) in routes() {
        if [AnyKey, Token, Open].contains(&need) {
            continue;
        }
        let named = path.contains('{');
        let path = format!("{}?no_such_parameter=1", nowhere(&path));
        let ask = |api: Api| {
            let path = path.clone();
            async move { call(&api, method, &path, wrong).await }
        };
        ask(admin.without_key()).await.refuses(401, "unauthorized");
        if !may("viewer", need) && need != ReadAll {
            ask(viewer.clone()).await.refuses(403, "forbidden");
        }
        let makes = method == "PUT" && path.contains("/event-types/");
        let answer = ask(admin.clone()).await;
        let expected = if named && !makes { 404 } else { 422 };
        if answer.status != expected {
            wrongs.push(format!("{method} {path}: {} for {expected}", answer.status));
        }
    }
    assert!(wrongs.is_empty(), "{wrongs:#?}");
    // Another method than the route has is told to whoever has a key, and to nobody else.
    for (_, path, need, _) in routes().filter(|(_, path, ..)| path.starts_with("/api/")) {
        let path = nowhere(&path);
        let caller = admin.without_key();
        caller
            .anywhere(Method::TRACE, &path, HeaderMap::new(), None)
            .await
            .refuses(401, "unauthorized");
        let answer = admin.anywhere(Method::TRACE, &path, HeaderMap::new(), None).await;
        assert_eq!(answer.status, 405, "{path} {need:?}");
    }
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
