//! Providers: every one of them is taken in as it sends, and nobody else is.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use std::time::Duration;

use wakepost_providers::{SecretNeed, SignedRequest, registry};
use wakepost_tests::{Api, Database, Gateway, Receiver, Reply, Source, now, on_both, until};

on_both!(
    every_provider_is_accepted_once_and_read_back,
    whatever_is_wrong_with_a_request_it_is_refused_and_says_why_to_the_operator_only,
    a_body_that_tells_of_many_events_makes_each_of_them_once,
    events_with_the_same_value_run_one_at_a_time_in_order_of_arrival,
    the_secret_of_a_provider_that_sends_it_is_kept_and_shown_once,
);

fn names() -> impl Iterator<Item = &'static str> {
    registry::all().iter().map(|provider| provider.name())
}

async fn every_provider_is_accepted_once_and_read_back(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    for name in names() {
        let source = api.source(name).await;
        let facts = source.provider().facts_for(source.settings());
        let request = source.sample("7001");
        let mapped = source.provider().map(&request.as_request(), source.settings());
        let mapped = mapped.expect("a mapping");
        let first = gateway.send_request(&request).await;
        let prescribed = source.provider().prescribed(&request.as_request(), source.settings());
        let wanted = match &prescribed {
            Some(answer) => answer.status,
            None => facts.accepted_status,
        };
        assert!(
            first.status == wanted || first.status == 200,
            "{name}: {} {}",
            first.status,
            String::from_utf8_lossy(&first.body)
        );
        let again = gateway.send_request(&request).await.is(200);
        let ids = match prescribed {
            Some(answer) => {
                assert_eq!(String::from_utf8_lossy(&first.body), answer.body, "{name}");
                assert_eq!(first.header("wakepost-event-id"), again.header("wakepost-event-id"));
                first.header("wakepost-event-id").split(", ").map(str::to_owned).collect()
            }
            None => {
                let (first, again) = (first.json(), again.json());
                assert_eq!(again["status"], "duplicate", "{name}: {again}");
                assert_eq!(ids_of(&first), ids_of(&again), "{name}");
                ids_of(&first)
            }
        };
        assert_eq!(ids.len(), mapped.len(), "{name}");
        for (id, mapped) in ids.iter().zip(&mapped) {
            let story = api.show_event(id).await;
            let envelope = &story["envelope"];
            assert_eq!(envelope["provider"], name);
            assert_eq!(envelope["event_type"], mapped.event_type, "{name}");
            assert_eq!(envelope["message"].is_object(), mapped.message.is_some(), "{name}");
            assert_eq!(story["receipts"][1]["verdict"], "duplicate", "{name}: {story}");
        }
        let raw = api.get(&format!("/inbox/{}/raw", ids[0])).await.is(200);
        assert_eq!(raw.body, request.body, "{name}: byte for byte");
        let headers = api.get(&format!("/inbox/{}/headers", ids[0])).await.is(200);
        let shown = String::from_utf8_lossy(&headers.body).into_owned();
        assert!(!shown.contains(source.secret()), "{name}: the secret shows in the headers");
    }
}

fn ids_of(answer: &Value) -> Vec<String> {
    let one = |value: &Value| value["event_id"].as_str().expect("an id").to_owned();
    match answer["events"].as_array() {
        Some(events) => events.iter().map(one).collect(),
        None => vec![one(answer)],
    }
}

async fn whatever_is_wrong_with_a_request_it_is_refused_and_says_why_to_the_operator_only(
    database: Database,
) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let stranger = api.tenant("stranger").await;
    for name in names() {
        let source = api.source(name).await;
        let others = stranger.source(name).await;
        let facts = source.provider().facts_for(source.settings());
        let good = source.sample("7001");
        let refuse = async |request: SignedRequest, status: u16, what: &str| {
            let answer = gateway.send_request(&request).await;
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            assert_eq!(answer.status, status, "{name}, {what}: {body}");
            assert!(!body.contains("detail"), "{name}, {what}: {body}");
        };
        let forged = others.sample("7001");
        refuse(SignedRequest { url: good.url.clone(), ..forged }, 401, "another's secret").await;
        for header in source.provider().signed_headers(source.settings()) {
            let header: HeaderName = header.name.parse().expect("a name");
            let value = good.headers[&header].clone();
            let mut request = good.clone();
            request.headers.remove(&header);
            refuse(request.clone(), 401, "a missing header").await;
            request.headers.insert(&header, HeaderValue::from_static("v1,"));
            refuse(request.clone(), 401, "an empty version").await;
            request.headers.insert(&header, value.clone());
            request.headers.append(&header, value);
            refuse(request, 401, "a doubled header").await;
        }
        if facts.signs_body {
            let mut request = good.clone();
            request.body[1] ^= 1;
            refuse(request, 401, "a flipped bit").await;
        }
        let late = Duration::from_secs(facts.tolerance.as_secs() + 5);
        if is_timed(&source, &good) {
            refuse(source.sample_at(None, "7001", now().before(late)), 403, "stale").await;
            refuse(source.sample_at(None, "7001", now().after(late)), 403, "from the future").await;
        }
        assert!(api.list(&format!("/inbox?source={}", source.id)).await.is_empty(), "{name}");
        let path = format!("/sources/{}/receipts", source.id);
        let receipts = until("receipts of refusals", async || {
            let rows = api.list(&path).await;
            (!rows.is_empty()).then_some(rows)
        })
        .await;
        for row in receipts {
            assert!(row["detail"].as_str().is_some_and(|text| !text.is_empty()), "{name}: {row}");
        }
        let status = gateway.send_request(&good).await.status;
        assert!(matches!(status, 200 | 202), "{name}: the good one is still good: {status}");
    }
}

/// Whether the sender signs a time: a request of another second is then another one.
fn is_timed(source: &Source, good: &SignedRequest) -> bool {
    let check = wakepost_providers::Check {
        secrets: &[source.verifies()],
        settings: source.settings(),
        now: now(),
        tolerance: Duration::from_secs(3600),
    };
    let url = source.made["ingest_url"].as_str().expect("an address");
    let request = wakepost_providers::Request { url, ..good.as_request() };
    source.provider().verify(&request, &check).expect("a good request").signed_at.is_some()
}

async fn a_body_that_tells_of_many_events_makes_each_of_them_once(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = api.source("hubspot").await;
    let item = |id: u32| {
        json!({"eventId": id, "subscriptionId": 7, "portalId": 1, "objectId": 100 + id,
            "subscriptionType": "contact.creation", "occurredAt": now().as_millis()})
    };
    let send = async |ids: &[u32]| {
        let items: Vec<Value> = ids.iter().map(|id| item(*id)).collect();
        let event = source.event("x").with_body(json!(items).to_string());
        gateway.send(&source, &event).await
    };
    let first = send(&[1, 2, 3]).await.is(202).json();
    assert_eq!(first["status"], "accepted");
    assert_eq!(first["events"].as_array().expect("events").len(), 3);
    let mixed = send(&[3, 4]).await.is(202).json();
    assert_eq!(mixed["events"][0]["status"], "duplicate");
    assert_eq!(mixed["events"][0]["event_id"], first["events"][2]["event_id"]);
    assert_eq!(mixed["events"][0]["job_id"], first["events"][2]["job_id"]);
    assert_eq!(mixed["events"][1]["status"], "accepted");
    let all_known = send(&[1, 4]).await.is(200).json();
    assert_eq!(all_known["status"], "duplicate");
    assert_eq!(api.list("/jobs").await.len(), 4);

    // Each job is about its own part, whichever of them shares the body.
    let worker = gateway.worker("w");
    let mut seen = Vec::new();
    for lease in worker.lease_many(json!({"max": 10})).await {
        let envelope = &lease.job["envelope"];
        seen.push(envelope["data"]["eventId"].as_u64().expect("its own item"));
        assert_eq!(envelope["subject"]["id"], json!((100 + seen[seen.len() - 1]).to_string()));
    }
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3, 4]);
}

async fn events_with_the_same_value_run_one_at_a_time_in_order_of_arrival(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let fields = json!({"order_by": "/data/object/customer"});
    let source = api.source_with("stripe", fields).await;
    let mut jobs = Vec::new();
    for (id, customer) in [("evt_1", "ada"), ("evt_2", "ada"), ("evt_3", "bob"), ("evt_4", "ada")] {
        let body = json!({"id": id, "type": "invoice.paid",
            "data": {"object": {"object": "invoice", "id": id, "customer": customer}}});
        let event = source.event(id).with_body(body.to_string());
        let answer = gateway.send(&source, &event).await.is(202);
        // A repeat adds nothing.
        gateway.send(&source, &event).await.is(200);
        jobs.push(answer.text("job_id"));
    }
    let waiting = api.show_job(&jobs[1]).await;
    assert_eq!(
        (&waiting["order_key"], &waiting["waiting_on"]),
        (&json!("ada"), &json!("order_key"))
    );
    let worker = gateway.worker("w");
    let first = worker.lease_many(json!({"max": 10})).await;
    let ids: Vec<_> = first.iter().map(|lease| lease.job["id"].clone()).collect();
    assert_eq!(ids, [json!(jobs[0]), json!(jobs[2])], "the first of each");
    assert_eq!(first[0].job["envelope"]["order_key"], "ada");
    first[0].complete(json!({})).await.is(200);
    let next = worker.wait().await;
    assert_eq!(next.job["id"], json!(jobs[1]));
    next.complete(json!({})).await.is(200);
    assert_eq!(worker.wait().await.job["id"], json!(jobs[3]));
    let bad = json!({"provider": "github", "order_by": "data.id"});
    api.post("/sources", bad).await.refuses_field("order_by");
}

async fn the_secret_of_a_provider_that_sends_it_is_kept_and_shown_once(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let made = api.post("/sources", json!({"provider": "notion"})).await.is(201).json();
    let id = made["id"].as_str().expect("an id");
    assert_eq!(made["missing_settings"], json!(["secret"]));
    let post = async |body: &str| {
        let mut request = SignedRequest::post(format!("/in/{id}"), body);
        request.set("x-notion-signature", "sha256=00").expect("a header");
        gateway.send_request(&request).await
    };
    post(r#"{"id":"1","type":"page.created"}"#).await.is(503);
    post(r#"{"verification_token":"secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl"}"#)
        .await
        .is(200);
    // Somebody else's token does not replace it.
    post(r#"{"verification_token":"secret_of_somebody_else_0000000000"}"#).await.is(401);

    let setup = format!("/sources/{id}/setup");
    let shown = api.post(&setup, json!({})).await.is(200).json();
    assert_eq!(shown["verification_token"], "secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl");
    assert_eq!(api.post(&setup, json!({})).await.is(200).json()["verification_token"], Value::Null);
    assert_eq!(api.get(&format!("/sources/{id}/status")).await.json()["configured"], true);
}

#[tokio::test]
async fn handshakes_are_answered_as_prescribed() {
    let gateway = Gateway::start(Database::Sqlite).await;
    let api = gateway.admin();
    let ask = async |method: Method, path: String, headers: &[(&str, &str)]| {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        gateway.ask(method, &path, all).await
    };

    let whatsapp =
        api.source_with("whatsapp", json!({"settings": {"verify_token": "my-token"}})).await;
    let query = |token: &str| {
        format!(
            "/in/{}?hub.mode=subscribe&hub.verify_token={token}&hub.challenge=1158201444",
            whatsapp.id
        )
    };
    let answer = ask(Method::GET, query("my-token"), &[]).await.is(200);
    assert_eq!(answer.body, "1158201444");
    assert!(ask(Method::GET, query("other"), &[]).await.status >= 400);

    let cloud = api.source("cloudevents").await;
    let path = format!("/in/{}", cloud.id);
    let answer = ask(Method::OPTIONS, path, &[("webhook-request-origin", "events.example")]).await;
    assert_eq!(answer.is(200).header("webhook-allowed-origin"), "events.example");

    let slack = api.source("slack").await;
    let challenge = json!({"type": "url_verification", "challenge": "3eZbrw1aB", "token": "x"});
    let event = slack.event("1").with_body(challenge.to_string());
    assert_eq!(gateway.send(&slack, &event).await.is(200).body, "3eZbrw1aB");
    let forged = slack.with_secret("another");
    gateway.send(&forged, &event).await.is(401);

    let discord = api.source("discord").await;
    let event = discord.event("1").with_body(r#"{"type":1}"#);
    assert_eq!(gateway.send(&discord, &event).await.is(200).json(), json!({"type": 1}));
    assert!(api.list("/inbox").await.is_empty(), "a handshake is no event");
}

#[tokio::test]
async fn a_source_is_also_reached_by_its_platforms_name() {
    let gateway = Gateway::start(Database::Sqlite).await;
    let api = gateway.admin();
    let to = |path: &str, request: &SignedRequest| SignedRequest {
        url: path.to_owned(),
        ..request.clone()
    };
    let hook = "/integrations/github/webhook";
    let source = api.source("github").await;
    let event = source.sample("7001");
    let first = gateway.send_request(&to(hook, &event)).await.is(200).json();
    assert_eq!(first["status"], "accepted");
    let prefixed = format!("/_agent-native{hook}");
    let again = gateway.send_request(&to(&prefixed, &event)).await.is(200).json();
    assert_eq!((&again["status"], &again["event_id"]), (&json!("duplicate"), &first["event_id"]));
    gateway.send_request(&to("/integrations/gitlab/webhook", &event)).await.is(404);
    gateway.send_request(&to("/integrations/unheard-of/webhook", &event)).await.is(404);

    let integration = async |path: &str| integration(&gateway, &api, Method::GET, path).await;
    let status = integration("/integrations/github/status").await.is(200).json();
    assert_eq!(status["platform"], "github");
    assert_eq!((&status["enabled"], &status["configured"]), (&json!(true), &json!(true)));
    assert_eq!(status["self_webhook"]["reachable"], true, "{status}");
    let all = integration("/_agent-native/integrations/status").await.is(200).json();
    let names: Vec<_> =
        all["data"].as_array().unwrap().iter().map(|row| &row["platform"]).collect();
    for name in ["github", "slack", "telegram", "whatsapp", "discord", "email", "google-docs"] {
        assert!(names.contains(&&json!(name)), "{name} in {names:?}");
    }
    let switch = async |word: &str| {
        let path = format!("/integrations/github/{word}");
        integration_post(&gateway, &api, &path).await
    };
    switch("disable").await.is(200);
    gateway.send_request(&to(hook, &event)).await.is(404);
    switch("enable").await.is(200);
    gateway.send_request(&to(hook, &event)).await.is(200);

    // Two of them: nobody can say which is meant.
    let second = api.source("github").await;
    gateway.send_request(&to(hook, &event)).await.is(409);
    let refused =
        integration("/integrations/github/status").await.refuses(409, "ambiguous_platform");
    for id in [&source.id, &second.id] {
        assert!(refused.text("detail").contains(id.as_str()));
    }
    // Only the default tenant's operators, and nobody without a key.
    let acme = api.tenant("acme").await;
    let path = "/integrations/github/status";
    assert_eq!(integration_of(&gateway, &acme, path).await.status, 403);
    assert_eq!(integration_of(&gateway, &api.without_key(), path).await.status, 401);
}

async fn integration(
    gateway: &Gateway,
    api: &Api,
    method: Method,
    path: &str,
) -> wakepost_tests::Answer {
    let mut headers = HeaderMap::new();
    if !api.key().is_empty() {
        let value = HeaderValue::from_str(&format!("Bearer {}", api.key())).expect("a key");
        headers.insert(http::header::AUTHORIZATION, value);
    }
    gateway.ask(method, path, headers).await
}

async fn integration_of(gateway: &Gateway, api: &Api, path: &str) -> wakepost_tests::Answer {
    integration(gateway, api, Method::GET, path).await
}

async fn integration_post(gateway: &Gateway, api: &Api, path: &str) -> wakepost_tests::Answer {
    integration(gateway, api, Method::POST, path).await
}

/// A stand-in of Telegram's API: it takes a registration for one bot only.
async fn telegram() -> Receiver {
    Receiver::start(|seen| match seen.path.as_str() {
        "/bot7007:AAE/setWebhook" => Reply::new(200, json!({"ok": true, "result": true})),
        "/bot7007:AAE/getMe" => Reply::new(200, json!({"ok": true, "result": {"id": 7007}})),
        "/bot7007:AAE/getWebhookInfo" => {
            Reply::new(200, json!({"ok": true, "result": {"url": "https://hooks.example"}}))
        }
        _ => Reply::new(401, json!({"ok": false, "description": "Unauthorized"})),
    })
    .await
}

#[tokio::test]
async fn a_set_up_registers_the_webhook_where_the_platform_has_a_call_for_it() {
    let gateway = Gateway::start(Database::Sqlite).await;
    let (api, telegram) = (gateway.admin(), telegram().await);
    let settings = json!({"bot_token": "7007:AAE", "api_url": telegram.url("")});
    let source = api.source_with("telegram", json!({"settings": settings})).await;
    let path = format!("/sources/{}/setup", source.id);
    let done = api.post(&path, json!({})).await.is(200).json();
    assert_eq!((&done["status"], &done["steps"]), (&json!("registered"), &json!([])));
    let seen = telegram.seen("/bot7007:AAE/setWebhook");
    assert_eq!(seen.len(), 1);
    let told = seen[0].json();
    assert_eq!(
        (&told["url"], &told["secret_token"]),
        (&source.made["ingest_url"], &json!(source.secret()))
    );
    assert_eq!(told["allowed_updates"], json!(["message", "edited_message"]));
    // By the platform's name, the address is the platform's.
    integration_post(&gateway, &api, "/integrations/telegram/setup").await.is(200);
    let told = telegram.seen("/bot7007:AAE/setWebhook")[1].json();
    assert_eq!(told["url"], format!("{}/integrations/telegram/webhook", gateway.url()));

    let standing = format!("/sources/{}/status", source.id);
    let status = api.get(&standing).await.is(200).json();
    assert_eq!(status["error"], Value::Null, "Telegram has nothing to say against it");

    // What the platform says against it is told, and the bot's token is not.
    let settings = json!({"bot_token": "wrong", "api_url": telegram.url("")});
    api.patch(&format!("/sources/{}", source.id), json!({"settings": settings})).await.is(200);
    let refused = api.post(&path, json!({})).await.refuses(502, "registration_failed");
    assert!(refused.text("detail").contains("Unauthorized"));
    assert!(!refused.text("detail").contains("wrong"));
    let error = api.get(&standing).await.is(200).text("error");
    assert!(error.contains("Unauthorized") && !error.contains("wrong"), "{error}");
    // A tenant's operator cannot send this server to a private address.
    let acme = api.tenant("acme").await;
    let settings = json!({"bot_token": "7007:AAE", "api_url": telegram.url("")});
    let theirs = acme.source_with("telegram", json!({"settings": settings})).await;
    acme.post(&format!("/sources/{}/setup", theirs.id), json!({})).await.is(422);
    assert_eq!(telegram.seen("/bot7007:AAE/setWebhook").len(), 2);
}

/// Settings are changed one by one; an address that secrets go to only by those who know the secrets.
#[tokio::test]
async fn a_setting_that_is_not_named_stays_and_no_address_is_changed_under_kept_secrets() {
    let gateway = Gateway::start(Database::Sqlite).await;
    let (api, telegram) = (gateway.admin(), telegram().await);
    let settings = json!({"bot_token": "7007:AAE", "api_url": telegram.url("")});
    let source = api.source_with("telegram", json!({"settings": settings})).await;
    let path = format!("/sources/{}", source.id);
    let change = async |settings| api.patch(&path, json!({"settings": settings})).await;
    let address = telegram.url("");
    let kept = change(json!({"bot_username": "post_bot"})).await.is(200).json();
    let shown = json!({"bot_token": "(secret)", "api_url": address, "bot_username": "post_bot"});
    assert_eq!(kept["settings"], shown);
    // Still the token that was set, and still a private address that an admin of all tenants chose.
    api.post(&format!("{path}/setup"), json!({})).await.is(200);
    assert_eq!(telegram.seen("/bot7007:AAE/setWebhook").len(), 1);

    let elsewhere = json!({"api_url": "https://elsewhere.example"});
    let refused = change(elsewhere).await.refuses_field("settings.api_url");
    assert!(refused.text("detail").contains("bot_token"), "{}", refused.text("detail"));
    change(json!({"api_url": null})).await.refuses_field("settings.api_url");
    change(json!({"api_url": address})).await.is(200);
    let both = json!({"bot_token": "7007:BBE", "api_url": null, "bot_username": null});
    assert_eq!(change(both).await.is(200).json()["settings"], json!({"bot_token": "(secret)"}));

    // What a tenant's operator entered is not trusted because an admin changed something beside it.
    let acme = api.tenant("acme").await;
    let theirs = acme.source_with("telegram", json!({"settings": settings})).await;
    let path = format!("/sources/{}", theirs.id);
    let beside = json!({"settings": {"bot_username": "theirs"}});
    api.patch(&format!("{path}?tenant=acme"), beside).await.is(200);
    acme.post(&format!("{path}/setup"), json!({})).await.is(422);
    assert_eq!(telegram.seen("/bot7007:AAE/setWebhook").len(), 1);
}

/// Mail is handed in at a server that is named in parts, by a service that is named apart from its key.
#[tokio::test]
async fn no_part_of_where_mail_is_handed_in_is_changed_under_kept_secrets() {
    let gateway = Gateway::start(Database::Sqlite).await;
    let api = gateway.admin();
    let settings = json!({
        "from": "agent@acme.example", "smtp_host": "mail.acme.example", "smtp_port": "465",
        "smtp_username": "agent", "smtp_password": "hunter2", "reply_api_key": "SG.key",
    });
    let source = api.source_with("email-postmark", json!({"settings": settings})).await;
    let path = format!("/sources/{}", source.id);
    let change = async |settings| api.patch(&path, json!({"settings": settings})).await;
    let elsewhere = [
        ("smtp_host", json!("mail.evil.example")),
        ("smtp_host", json!(null)),
        ("smtp_port", json!("2525")),
        ("smtp_tls", json!("none")),
        ("reply_via", json!("resend")),
        ("reply_api_url", json!("https://evil.example")),
    ];
    for (name, value) in elsewhere {
        let field = format!("settings.{name}");
        let refused = change(json!({name: value})).await.refuses_field(&field);
        let why = refused.text("detail");
        assert!(why.contains("reply_api_key and smtp_password"), "{why}");
        // One of two secrets does not do.
        change(json!({name: value, "smtp_password": "x"})).await.refuses_field(&field);
    }
    change(json!({"from": "other@acme.example", "smtp_username": "other"})).await.is(200);
    change(json!({"smtp_host": "mail.acme.example", "smtp_port": "465"})).await.is(200);
    let known =
        json!({"smtp_host": "new.acme.example", "smtp_password": "x", "reply_api_key": "y"});
    let moved = change(known).await.is(200).json();
    assert_eq!(moved["settings"]["smtp_host"], "new.acme.example");
}

#[tokio::test]
async fn a_source_can_be_tried_and_says_how_it_stands() {
    let gateway = Gateway::start(Database::Sqlite).await;
    let api = gateway.admin();
    for name in names() {
        let source = api.source(name).await;
        let path = format!("/sources/{}/test", source.id);
        let status = api.get(&format!("/sources/{}/status", source.id)).await.is(200).json();
        assert_eq!(status["configured"], true, "{name}: {status}");
        let answer = api.post(&path, json!({})).await;
        if source.secret() != source.verifies() {
            // Nobody but the provider has the private key.
            answer.refuses(409, "invalid_state");
            continue;
        }
        let good = answer.is(200).json();
        assert!(matches!(good["status_code"].as_u64(), Some(200 | 202)), "{name}: {good}");
        let bad = api.post(&path, json!({"variant": "bad_signature"})).await.is(200).json();
        assert_eq!(bad["status_code"], 401, "{name}: {bad}");
        let twice = api.post(&path, json!({"variant": "duplicate"})).await.is(200).json();
        assert_eq!(twice["status_code"], 200, "{name}: {twice}");
    }
    let github = api.source("github").await;
    let path = format!("/sources/{}/test", github.id);
    api.post(&path, json!({"event_type": "nothing"})).await.refuses_field("event_type");
    let stripe = api.source("stripe").await;
    let path = format!("/sources/{}/test", stripe.id);
    let stale = api.post(&path, json!({"variant": "stale"})).await.is(200).json();
    assert_eq!(stale["status_code"], 403);
    let named = api.post(&path, json!({"event_type": "invoice.paid"})).await.is(200).json();
    assert_eq!(named["status_code"], 202);
    assert_eq!(SecretNeed::Given, stripe.provider().facts().secret);
}
