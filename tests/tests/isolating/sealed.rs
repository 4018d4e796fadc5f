//! Sealed: no secret and no body can be read from what is stored, logged or, for secrets, answered.

use http::Method;
use serde_json::json;
use tokio::process::Command;
use wakepost_tests::{Database, Gateway, Receiver, Reply, Worker, on_both, random_text, until};

use super::described;

on_both!(no_secret_and_no_body_can_be_read_from_the_database_or_the_log_and_no_secret_from_the_api);

/// What an administrator and a viewer can read of everything: each list, each thing, and the counters.
async fn readable(gateway: &Gateway, things: &[String]) -> Vec<u8> {
    let admin = gateway.admin();
    let viewer = admin.role("viewer", "*").await;
    let routes = described(gateway).await.into_iter().filter(|(method, _)| method == "GET");
    let lists = routes.filter_map(|(_, path)| Some(path.strip_prefix("/api/v1")?.to_owned()));
    let lists = lists.filter(|path| !path.contains('{'));
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

/// Every file of a backup. PostgreSQL's dump is packed, and read as what a restore would do.
async fn backed_up(gateway: &Gateway) -> Vec<u8> {
    let directory = gateway.directory().join("backup");
    let path = directory.display().to_string();
    gateway.run(&[], &["backup", &path]).await.ends_with(0);
    let mut read = Vec::new();
    for entry in std::fs::read_dir(&directory).expect("the backup") {
        let file = entry.expect("an entry").path();
        let bytes = std::fs::read(&file).expect("a file");
        if bytes.starts_with(b"PGDMP") {
            let unpack = Command::new("pg_restore").arg("--file=-").arg(&file).output();
            let unpacked = unpack.await.expect("pg_restore starts");
            assert!(unpacked.status.success(), "{unpacked:?}");
            read.extend(unpacked.stdout);
        }
        read.extend(bytes);
    }
    read
}

/// What the collector of traces was sent, once the last delivery is told of.
async fn exported(collector: &Receiver) -> Vec<u8> {
    let sent = || collector.seen("/v1/traces").into_iter().flat_map(|seen| seen.body).collect();
    until("all spans are sent", || async {
        let sent: Vec<u8> = sent();
        let text = String::from_utf8_lossy(&sent);
        let all = ["receive", "run", "effect", "publish", "deliver"];
        all.iter().all(|name| text.contains(&format!(r#""name":"{name}""#))).then_some(sent)
    })
    .await
}

/// Pages of the dashboard, as an administrator and a viewer see them.
async fn opened(gateway: &Gateway, things: &[String]) -> Vec<u8> {
    let admin = gateway.admin();
    let viewer = admin.role("viewer", "*").await;
    let lists = ["/", "/inbox", "/jobs", "/dead-letters", "/sources", "/webhooks", "/events"];
    let lists = lists.into_iter().chain(["/event-types", "/tenants", "/keys", "/audit"]);
    let pages: Vec<&str> = lists.chain(things.iter().map(String::as_str)).collect();
    let mut read = Vec::new();
    for key in [admin.key(), viewer.key()] {
        let mut form = http::HeaderMap::new();
        let kind = "application/x-www-form-urlencoded".parse().expect("a value");
        form.insert("content-type", kind);
        let url = format!("{}/sign-in", gateway.url());
        let signed_in = wakepost_tests::Http::default();
        let signed_in =
            signed_in.send(Method::POST, &url, form, format!("key={key}")).await.is(303);
        let cookie = signed_in.header("set-cookie").split(';').next().expect("a cookie");
        for page in &pages {
            let mut headers = http::HeaderMap::new();
            headers.insert("cookie", cookie.parse().expect("a value"));
            let answer = gateway.ask(Method::GET, page, headers).await;
            assert!([200, 403].contains(&answer.status), "{page}: {}", answer.status);
            read.extend_from_slice(&answer.body);
        }
    }
    read
}

async fn no_secret_and_no_body_can_be_read_from_the_database_or_the_log_and_no_secret_from_the_api(
    database: Database,
) {
    let collector = Receiver::start(|_| Reply::new(200, "{}")).await;
    let gateway = Gateway::setup(database)
        .setting("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url(""))
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
    let backup = backed_up(&gateway).await;
    let log = gateway.logged().into_bytes();
    let holds = |place: &[u8], text: &str| {
        let bytes = text.as_bytes();
        place.windows(bytes.len()).any(|window| window.eq_ignore_ascii_case(bytes))
    };
    // What is meant to be legible is found: the search itself works.
    assert!(holds(&stored, "issues.opened"));
    assert!(holds(&log, "could not be understood"));
    assert!(holds(&backup, "issues.opened"));
    let told = exported(&collector).await;
    assert!(holds(&told, &source.id));
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
    let pages = [
        format!("/sources/{}", talks.id),
        format!("/sources/{}/edit", pushed.id),
        format!("/webhooks/{}", webhook.text("id")),
        format!("/jobs/{}", lease.id()),
        "/dead-letters/export".to_owned(),
    ];
    let pages = opened(&gateway, &pages).await;
    assert!(holds(&pages, "issues.opened") && holds(&pages, "order.paid"));
    for (what, text) in &secrets {
        assert!(!holds(&read, text), "{what} can be read through the API");
        assert!(!holds(&pages, text), "{what} can be read in the dashboard");
    }
    for (what, text) in &hidden {
        let digits = hex::encode(text);
        assert!(!holds(&stored, text) && !holds(&stored, &digits), "{what} is in the database");
        assert!(!holds(&log, text) && !holds(&log, &digits), "{what} is in the log");
        assert!(!holds(&backup, text) && !holds(&backup, &digits), "{what} is in the backup");
        assert!(!holds(&told, text) && !holds(&told, &digits), "{what} is in a span");
    }
}
