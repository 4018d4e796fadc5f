//! What subscribers reach without a key of their own: the portal, whole events, and public keys.

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use wakepost_tests::{Answer, Api, Database, Gateway, Http, Receiver, Reply, on_both, until};

on_both!(
    a_portal_link_opens_one_tenants_webhooks_and_nothing_else,
    a_portal_link_ends_and_cannot_be_forged,
    only_operators_make_portal_links_and_only_for_their_own_tenant,
    what_is_done_through_a_link_is_known_by_the_link,
    the_portals_page_says_what_the_link_is_for_and_leaks_nothing,
    a_visitor_reads_the_catalogue_and_is_never_led_to_the_operators_pages,
    a_large_event_is_fetched_by_its_link_byte_for_byte,
    the_key_set_verifies_what_is_signed_with_ed25519,
    the_key_set_has_both_keys_after_a_rotation_and_no_secret,
);

async fn gateway(database: Database) -> Gateway {
    let setup = Gateway::setup(database).setting("WAKEPOST_ALLOW_HTTP", "true");
    setup.setting("WAKEPOST_ALLOW_PRIVATE", "true").start().await
}

async fn link(api: &Api, fields: Value) -> (String, String) {
    let made = api.post("/portal-links", fields).await.is(201);
    let url = made.text("url");
    let token = url.rsplit_once("/p/").expect("a portal's address").1.to_owned();
    (url, token)
}

async fn fetch(url: &str) -> Answer {
    Http::default().send(Method::GET, url, HeaderMap::new(), "").await
}

async fn a_portal_link_opens_one_tenants_webhooks_and_nothing_else(database: Database) {
    let gateway = gateway(database).await;
    let admin = gateway.admin();
    let acme = admin.tenant("acme").await;
    let globex = admin.tenant("globex").await;
    let receiver = Receiver::start(|_| Reply::new(200, "")).await;
    let fields = json!({"url": receiver.url("/hook"), "events": ["*"]});
    let theirs = globex.post("/webhooks", fields.clone()).await.is(201).text("id");
    acme.post("/event-types", json!({"name": "order.made"})).await.is(201);

    let (_, token) = link(&acme, json!({})).await;
    let portal = admin.with_key(&token);
    let made = portal.post("/webhooks", fields).await.is(201);
    let id = made.text("id");
    let path = format!("/webhooks/{id}");
    assert_eq!(portal.list("/webhooks").await.len(), 1, "not those of another tenant");
    portal.get(&path).await.is(200);
    portal.patch(&path, json!({"description": "ours"})).await.is(200);
    for call in ["test", "rotate", "revoke-previous", "pause", "resume", "disable", "enable"] {
        let answer = portal.post(&format!("{path}/{call}"), json!({})).await;
        assert_eq!(answer.status, 200, "{call}: {}", String::from_utf8_lossy(&answer.body));
    }
    let event = acme.post("/events", json!({"type": "order.made", "data": {}})).await.is(202);
    let deliveries = portal.list(&format!("{path}/deliveries")).await;
    let delivery = deliveries[0]["id"].as_str().expect("a delivery").to_owned();
    portal.get(&format!("/deliveries/{delivery}")).await.is(200);
    portal.get(&format!("/events/{}/deliveries", event.text("id"))).await.is(200);
    let since = json!({"since": "2020-01-01T00:00:00Z"});
    portal.post(&format!("{path}/recover"), since.clone()).await.is(202);
    portal.post(&format!("{path}/backfill"), since).await.is(202);
    assert_eq!(portal.list("/event-types").await.len(), 1);
    assert_eq!(portal.get("/event-types/order.made").await.is(200).text("name"), "order.made");

    portal.get(&format!("/webhooks/{theirs}")).await.refuses(404, "not_found");
    portal.of_tenant("globex").get("/webhooks").await.refuses(404, "not_found");
    for path in ["/events", "/inbox", "/jobs", "/keys", "/sources", "/audit", "/tenants", "/stats"]
    {
        portal.get(path).await.refuses(403, "forbidden");
    }
    portal.delete("/event-types/order.made").await.refuses(403, "forbidden");
    for (path, body) in [
        ("/events", json!({"type": "order.made", "data": {}})),
        ("/jobs", json!({"input": 1})),
        ("/jobs/lease", json!({"worker": "w"})),
        ("/event-types", json!({"name": "a.b"})),
        ("/portal-links", json!({})),
        ("/keys", json!({"name": "k", "role": "viewer"})),
    ] {
        portal.post(path, body).await.refuses(403, "forbidden");
    }
    let lease = format!("/webhooks/{id}/deliveries/lease");
    portal.post(&lease, json!({"worker": "w"})).await.refuses(403, "forbidden");
    portal.delete(&path).await.is(204);
}

async fn a_portal_link_ends_and_cannot_be_forged(database: Database) {
    let gateway = gateway(database).await;
    let admin = gateway.admin();
    let (url, token) = link(&admin, json!({"expires_s": 60})).await;
    fetch(&url).await.is(200);
    for bad in ["wpp_AAAA".to_owned(), token[..token.len() - 1].to_owned(), format!("{token}A")] {
        admin.with_key(&bad).get("/webhooks").await.refuses(401, "unauthorized");
        fetch(&format!("{}/p/{bad}", gateway.url())).await.is(404);
    }
    for (expires_s, field) in [(59, "expires_s"), (7 * 86_400 + 1, "expires_s")] {
        admin.post("/portal-links", json!({"expires_s": expires_s})).await.refuses_field(field);
    }
    admin.post("/keys", json!({"name": "k", "role": "subscriber"})).await.refuses_field("role");
}

async fn only_operators_make_portal_links_and_only_for_their_own_tenant(database: Database) {
    let gateway = gateway(database).await;
    let admin = gateway.admin();
    admin.tenant("acme").await;
    admin.tenant("globex").await;
    for role in ["viewer", "publisher", "worker"] {
        let caller = admin.role(role, "acme").await;
        caller.post("/portal-links", json!({})).await.refuses(403, "forbidden");
    }
    let operator = admin.role("operator", "acme").await;
    link(&operator, json!({"tenant": "acme"})).await;
    for other in ["globex", "nobody"] {
        operator.post("/portal-links", json!({"tenant": other})).await.refuses_field("tenant");
    }
    operator.of_tenant("globex").post("/portal-links", json!({})).await.refuses(404, "not_found");
    // A key of all tenants says whose, in either way.
    for (api, fields) in
        [(admin.of_tenant("globex"), json!({})), (admin.clone(), json!({"tenant": "globex"}))]
    {
        let (url, _) = link(&api, fields).await;
        let page = fetch(&url).await.is(200);
        assert!(String::from_utf8_lossy(&page.body).contains("globex"));
    }
}

async fn what_is_done_through_a_link_is_known_by_the_link(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|_| Reply::new(200, "")).await;
    let made = api.post("/portal-links", json!({})).await.is(201);
    let token = made.text("url").rsplit_once("/p/").expect("a link").1.to_owned();
    let fields = json!({"url": receiver.url("/hook"), "events": ["*"]});
    let webhook = api.with_key(&token).post("/webhooks", fields).await.is(201).text("id");
    let trail = api.list("/audit").await;
    let of = |target: &str| trail.iter().find(|row| row["target"] == target).expect("an entry");
    assert_eq!(of(&made.text("id"))["action"], "portal_link.create");
    assert_eq!(of(&webhook)["actor"], made.text("id"));
    assert!(!json!(trail).to_string().contains(&token), "the link itself is nowhere");
    assert!(!gateway.logged().contains(&token));
}

async fn the_portals_page_says_what_the_link_is_for_and_leaks_nothing(database: Database) {
    let gateway = gateway(database).await;
    let admin = gateway.admin();
    admin.post("/tenants", json!({"slug": "acme", "name": "<b>Acme</b>"})).await.is(201);
    let made = admin.post("/portal-links", json!({"tenant": "acme"})).await.is(201);
    let page = fetch(&made.text("url")).await.is(200);
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(page.header(name), value);
    }
    assert!(page.header("content-security-policy").contains("default-src 'none'"));
    let text = String::from_utf8_lossy(&page.body).into_owned();
    assert!(text.contains("&#60;b&#62;Acme") && !text.contains("<b>Acme"), "{text}");
    assert!(text.contains(&made.text("expires_at")), "{text}");
}

async fn a_visitor_reads_the_catalogue_and_is_never_led_to_the_operators_pages(database: Database) {
    let gateway = gateway(database).await;
    let acme = gateway.admin().tenant("acme").await;
    gateway.admin().post("/event-types", json!({"name": "order.made"})).await.is(201);
    acme.post("/event-types", json!({"name": "order.sent", "description": "on its way"}))
        .await
        .is(201);
    let (url, token) = link(&acme, json!({})).await;
    let list = fetch(&format!("{url}/event-types")).await.is(200);
    for name in ["order.made", "order.sent"] {
        let path = format!("/p/{token}/event-types/{name}");
        assert!(String::from_utf8_lossy(&list.body).contains(&format!("href=\"{path}\"")));
        let page = fetch(&format!("{}{path}", gateway.url())).await.is(200);
        let page = String::from_utf8_lossy(&page.body).into_owned();
        assert!(page.contains(name) && !page.contains("Delete"), "{page}");
    }
    for path in ["event-types/order.none", "webhooks/wh_01ARZ3NDEKTSV4RRFFQ69G5FAV", "jobs"] {
        let page = fetch(&format!("{url}/{path}")).await.is(404);
        let page = String::from_utf8_lossy(&page.body).into_owned();
        assert!(page.contains(&format!("href=\"/p/{token}\"")), "{path}: {page}");
        assert!(!page.contains("href=\"/\""), "{path}: {page}");
    }
    let dead = fetch(&format!("{}/p/wpp_AAAA", gateway.url())).await.is(404);
    assert!(!String::from_utf8_lossy(&dead.body).contains("href=\"/\""), "nobody signs in there");
}

async fn a_large_event_is_fetched_by_its_link_byte_for_byte(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|_| Reply::new(200, "")).await;
    let fields = json!({"url": receiver.url("/hook"), "events": ["order.*"]});
    api.post("/webhooks", fields).await.is(201);
    let data = json!({"text": "ä".repeat(40_000), "n": 1});
    let sent = api.post("/events", json!({"type": "order.made", "data": data})).await.is(202);
    let small = json!({"type": "order.sent", "data": {"n": 1}});
    api.post("/events", small).await.is(202);
    let seen = until("both are delivered", || async {
        let seen: Vec<_> = receiver
            .seen("/hook")
            .into_iter()
            .filter(|one| one.json()["type"] != "webhook.ping")
            .collect();
        (seen.len() == 2).then_some(seen)
    })
    .await;
    let large = seen.iter().find(|one| one.json()["type"] == "order.made").expect("the large one");
    let told = large.json();
    assert_eq!(told["data"]["truncated"], true);
    assert_eq!(told["id"], sent.text("id"));
    let url = told["data"]["url"].as_str().expect("a link").to_owned();
    let whole = fetch(&url).await.is(200);
    assert_eq!(whole.header("content-type"), "application/json");
    assert_eq!(whole.header("cache-control"), "no-store");
    assert_eq!(whole.json()["data"]["object"], data);
    for field in ["id", "type", "created_at", "livemode", "api_version"] {
        assert_eq!(whole.json()[field], told[field], "{field}");
    }
    assert_eq!(fetch(&url).await.is(200).body, whole.body, "as often as it is asked for");
    for bad in [&url[..url.len() - 1], &format!("{url}A"), &url.replace("/e/", "/e/A")] {
        fetch(bad).await.refuses(404, "not_found");
    }
    // 72 hours after its end the link is over.
    let gone = match database {
        Database::Sqlite => {
            "UPDATE work_done SET finished_at = finished_at - 72 * 3600 * 1000 WHERE kind = 1"
        }
        Database::Postgres => {
            "UPDATE work_done SET finished_at = finished_at - 72::bigint * 3600 * 1000 WHERE kind = 1"
        }
    };
    until("the delivery is over", || async {
        gateway.execute(gone).await;
        (fetch(&url).await.status == 410).then_some(())
    })
    .await;
    fetch(&url).await.refuses(410, "link_expired");
}

/// Whether a key of the set verifies a request.
fn verifies(key: &Value, seen: &wakepost_tests::Seen) -> bool {
    let x = URL_SAFE_NO_PAD.decode(key["x"].as_str().expect("a text")).expect("base64url");
    let (id, at) = (seen.header("webhook-id"), seen.header("webhook-timestamp"));
    let content = [format!("{id}.{at}.").as_bytes(), &seen.body[..]].concat();
    let key = UnparsedPublicKey::new(&ED25519, x);
    seen.header("webhook-signature").split(' ').any(|one| {
        let signature = one.strip_prefix("v1a,").and_then(|text| STANDARD.decode(text).ok());
        signature.is_some_and(|signature| key.verify(&content, &signature).is_ok())
    })
}

/// The keys of a webhook, once the set has as many.
async fn keys(gateway: &Gateway, webhook: &str, count: usize) -> Vec<Value> {
    until("the set has the keys", || async {
        let set = gateway.fetch("/.well-known/wakepost-keys").await.is(200);
        assert_eq!(set.header("cache-control"), "public, max-age=300");
        let keys = set.json()["keys"].as_array().expect("keys").clone();
        let of_webhook = |key: &&Value| key["kid"].as_str().expect("a text").starts_with(webhook);
        let own: Vec<Value> = keys.iter().filter(of_webhook).cloned().collect();
        (own.len() == count).then_some(own)
    })
    .await
}

async fn the_key_set_verifies_what_is_signed_with_ed25519(database: Database) {
    let gateway = gateway(database).await;
    let acme = gateway.admin().tenant("acme").await;
    let receiver = Receiver::start(|_| Reply::new(200, "")).await;
    let shared = json!({"url": receiver.url("/hook"), "events": ["other.*"]});
    acme.post("/webhooks", shared).await.is(201);
    let fields = json!({"url": receiver.url("/hook"), "events": ["*"], "signature": "ed25519"});
    let webhook = acme.post("/webhooks", fields).await.is(201).text("id");
    acme.post("/events", json!({"type": "order.made", "data": {}})).await.is(202);
    let seen = until("it is delivered", || async {
        receiver.seen("/hook").into_iter().find(|one| one.json()["type"] == "order.made")
    })
    .await;
    let keys = keys(&gateway, &webhook, 1).await;
    let fixed = [("kty", "OKP"), ("crv", "Ed25519"), ("use", "sig"), ("alg", "EdDSA")];
    assert!(fixed.iter().all(|(name, value)| keys[0][name] == *value), "{keys:?}");
    assert_eq!(keys[0]["kid"], webhook);
    assert!(verifies(&keys[0], &seen));
    let all = gateway.fetch("/.well-known/wakepost-keys").await.is(200).json();
    assert_eq!(
        all["keys"].as_array().expect("keys").len(),
        1,
        "a shared secret has no public half"
    );
}

async fn the_key_set_has_both_keys_after_a_rotation_and_no_secret(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|_| Reply::new(200, "")).await;
    let fields = json!({"url": receiver.url("/hook"), "events": ["*"], "signature": "ed25519"});
    let made = api.post("/webhooks", fields).await.is(201);
    let webhook = made.text("id");
    let first = keys(&gateway, &webhook, 1).await;
    api.post(&format!("/webhooks/{webhook}/rotate"), json!({})).await.is(200);
    let both = keys(&gateway, &webhook, 2).await;
    assert_eq!(both[1]["kid"], format!("{webhook}.previous"));
    assert_eq!(both[1]["x"], first[0]["x"]);
    assert_ne!(both[0]["x"], first[0]["x"]);
    api.post(&format!("/webhooks/{webhook}/revoke-previous"), json!({})).await.is(200);
    let left = keys(&gateway, &webhook, 1).await;
    assert_eq!(left[0], both[0]);
    api.delete(&format!("/webhooks/{webhook}")).await.is(204);
    keys(&gateway, &webhook, 0).await;
}
