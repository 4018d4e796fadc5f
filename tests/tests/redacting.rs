//! Redacting: what a source hides is seen by nobody but operators who read the raw bytes.

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use wakepost_tests::{
    Api, Database, Gateway, Receiver, Reply, Worker, on_both, random_text, until,
};

on_both!(
    a_hidden_value_is_nowhere_but_in_the_raw_bytes_for_operators,
    what_is_said_and_who_says_it_can_be_hidden_on_a_messaging_platform,
    a_form_and_a_text_that_is_no_json_hide_as_well,
    rules_hold_when_their_source_is_gone,
    rules_are_checked_shown_and_taken_back,
);

const HIDDEN: &str = "[redacted]";

/// An issue in which much is nobody's business.
fn issue(mark: &str) -> Value {
    json!({
        "action": "opened",
        "issue": {"number": 7, "title": format!("title-{mark}"), "html_url": format!("https://x/{mark}")},
        "repository": {"full_name": format!("acme/{mark}")},
        "sender": {"id": 1, "login": format!("login-{mark}")},
        "cards": [{"no": format!("card-{mark}"), "kind": "debit"}, {"no": mark, "kind": "credit"}],
        "open": "seen by all",
    })
}

const RULES: [&str; 5] =
    ["/issue/title", "/issue/html_url", "/repository/full_name", "/sender", "/cards/*/no"];

#[track_caller]
fn lacks(place: &str, shown: &[u8], mark: &str) {
    let text = String::from_utf8_lossy(shown);
    assert!(!text.contains(mark), "{place} shows it: {text}");
}

async fn a_hidden_value_is_nowhere_but_in_the_raw_bytes_for_operators(database: Database) {
    let gateway = Gateway::setup(database).setting("WAKEPOST_LOG_LEVEL", "debug").start().await;
    let admin = gateway.admin();
    let mark = random_text(16);
    let receiver = Receiver::start(|seen| match seen.path.as_str() {
        "/preflight" => Reply::new(200, json!({"proceed": true})),
        _ => Reply::new(500, "no"),
    })
    .await;
    let told = json!({"redact": RULES, "max_attempts": 1, "callback_url": receiver.url("/told")});
    let pulled = admin.source_with("github", told.clone()).await;
    let mut pushed = told;
    pushed["executor"] = json!({"kind": "http", "url": receiver.url("/agent")});
    pushed["preflight_url"] = json!(receiver.url("/preflight"));
    let pushed = admin.source_with("github", pushed).await;
    let body = issue(&mark).to_string();
    let event = pulled.event("e-1").with_body(body.clone());
    let id = gateway.send(&pulled, &event).await.is(202).text("event_id");
    gateway.send(&pushed, &pushed.event("e-2").with_body(body.clone())).await.is(202);

    // Agents: leased, posted to, asked before.
    let lease = Worker::new(&admin, "w").wait_with(json!({"sources": [pulled.id]})).await;
    lacks("a lease", lease.job.to_string().as_bytes(), &mark);
    let envelope = &lease.job["envelope"];
    let cards = json!([{"no": HIDDEN, "kind": "debit"}, {"no": HIDDEN, "kind": "credit"}]);
    assert_eq!(envelope["data"]["cards"], cards);
    assert_eq!(envelope["data"]["open"], "seen by all");
    assert_eq!(
        (&envelope["data"]["sender"], &envelope["event_type"]),
        (&json!(HIDDEN), &json!("issues.opened"))
    );
    let job = lease.id().to_owned();
    lease.post("fail", json!({"error": "it broke", "retryable": false})).await.is(200);
    for path in ["/agent", "/preflight", "/told"] {
        for seen in receiver.wait(path, 1).await {
            lacks(path, &seen.body, &mark);
            lacks(path, format!("{:?}", seen.headers).as_bytes(), &mark);
        }
    }

    // Everything that can be read, by an administrator too.
    until("both are dead letters", || async {
        (admin.list("/dead-letters?kind=job").await.len() == 2).then_some(())
    })
    .await;
    let stream = async |api: &Api| {
        let mut after = HeaderMap::new();
        after.insert("last-event-id", "evt_00000000000000000000000000".parse().expect("a value"));
        api.call_with(Method::GET, "/inbox/stream?for_s=0", after, None).await.is(200)
    };
    for api in [&admin, &admin.role("viewer", "default").await] {
        for path in [
            format!("/inbox/{id}"),
            "/inbox".to_owned(),
            format!("/inbox/{id}/headers"),
            format!("/inbox?q={}", "github"),
            format!("/jobs/{job}"),
            "/jobs".to_owned(),
            "/dead-letters".to_owned(),
            format!("/dead-letters/{job}"),
            "/dead-letters/export".to_owned(),
            format!("/sources/{}", pulled.id),
            format!("/sources/{}/receipts", pulled.id),
            "/stats".to_owned(),
        ] {
            lacks(&path, &api.get(&path).await.is(200).body, &mark);
        }
        let streamed = stream(api).await;
        assert!(!streamed.body.is_empty());
        lacks("the stream", &streamed.body, &mark);
    }
    let shown = admin.show_event(&id).await;
    assert_eq!((&shown["envelope"]["actor"], &shown["subject"]), (&Value::Null, &Value::Null));
    lacks("the log", gateway.logged().as_bytes(), &mark);
    lacks("the database", &gateway.stored().await, &mark);

    // The raw bytes are whole, for those who may have them.
    let raw = format!("/inbox/{id}/raw");
    assert_eq!(admin.get(&raw).await.is(200).body, body);
    assert_eq!(admin.role("operator", "default").await.get(&raw).await.is(200).body, body);
    admin.role("viewer", "default").await.get(&raw).await.refuses(403, "redacted");
    let plain = gateway.with_source("github").await;
    let other = gateway.send(&plain, &plain.event("e-3")).await.is(202).text("event_id");
    admin.role("viewer", "default").await.get(&format!("/inbox/{other}/raw")).await.is(200);
}

async fn what_is_said_and_who_says_it_can_be_hidden_on_a_messaging_platform(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let says = |text: &str| {
        json!({"type": "event_callback", "team_id": "T1", "event_id": text, "api_app_id": "A1",
            "authorizations": [{"user_id": "U0BOT", "is_bot": true}],
            "event": {"type": "app_mention", "user": "U0ADA", "text": format!("<@U0BOT> {text}"),
                "ts": "1700000000.000100", "channel": "C1", "channel_type": "channel"}})
        .to_string()
    };
    for (rule, text, actor) in
        [("/event/text", HIDDEN, "U0ADA"), ("/event/user", "secret-words", HIDDEN)]
    {
        let source = admin.source_with("slack", json!({"redact": [rule]})).await;
        let event = source.event(rule).with_body(says("secret-words"));
        let id = gateway.send(&source, &event).await.is(202).text("event_id");
        let envelope = admin.show_event(&id).await["envelope"].clone();
        let message = &envelope["message"];
        assert_eq!(
            (&message["text"], &envelope["actor"]["id"]),
            (&json!(text), &json!(actor)),
            "{envelope}"
        );
        assert_eq!(envelope.pointer(&format!("/data{rule}")), Some(&json!(HIDDEN)));
        assert_eq!(message["conversation_type"], "channel");
    }
}

async fn a_form_and_a_text_that_is_no_json_hide_as_well(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let mark = random_text(16);
    let source = admin.source_with("generic", json!({"redact": ["/secret"]})).await;
    let form = format!("id=1&type=a.b&secret={mark}&open=yes");
    let form = source.event("f").with_body(form);
    let form = form.with_header("Content-Type", "application/x-www-form-urlencoded");
    let text = source.event("t").with_body(format!("{{\"secret\": \"{mark}\", cut off"));
    for (event, data) in [
        (form, json!({"id": "1", "type": "a.b", "secret": HIDDEN, "open": "yes"})),
        (text, json!(HIDDEN)),
    ] {
        let id = gateway.send(&source, &event).await.text("event_id");
        let shown = admin.show_event(&id).await;
        assert_eq!(shown["envelope"]["data"], data);
        lacks("the event", shown.to_string().as_bytes(), &mark);
    }
}

async fn rules_hold_when_their_source_is_gone(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let mark = random_text(16);
    let source = admin.source_with("github", json!({"redact": RULES})).await;
    let event = source.event("e-1").with_body(issue(&mark).to_string());
    let id = gateway.send(&source, &event).await.is(202).text("event_id");
    admin.delete(&format!("/sources/{}", source.id)).await.is(204);
    let shown = admin.show_event(&id).await;
    assert_eq!(shown["envelope"]["data"]["open"], "seen by all");
    lacks("the event", shown.to_string().as_bytes(), &mark);
    let lease = Worker::new(&admin, "w").wait().await;
    lacks("a lease", lease.job.to_string().as_bytes(), &mark);
    let raw = format!("/inbox/{id}/raw");
    admin.get(&raw).await.is(200);
    admin.role("viewer", "default").await.get(&raw).await.refuses(403, "redacted");
}

async fn rules_are_checked_shown_and_taken_back(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let make = async |redact: Value| {
        admin.post("/sources", json!({"provider": "github", "redact": redact})).await
    };
    make(json!(["/a", "b"])).await.refuses_field("redact.1");
    make(json!(["/a~2"])).await.refuses_field("redact.0");
    make(json!([format!("/{}", "x".repeat(500))])).await.refuses_field("redact.0");
    make(json!(vec!["/a"; 65])).await.refuses_field("redact");
    make(json!("/a")).await.refuses_field("redact");
    let source = make(json!(["/a/b", "/c/*"])).await.is(201).json();
    assert_eq!(source["redact"], json!(["/a/b", "/c/*"]));
    let path = format!("/sources/{}", source["id"].as_str().expect("an id"));
    for clash in [
        json!({"order_by": "/a/b/c"}),
        json!({"order_by": "/a"}),
        json!({"coalesce_by": "/c/0"}),
        json!({"dedup_key": "x:{/ok}:{/c/d}"}),
        json!({"order_by": "/x", "redact": [""]}),
    ] {
        admin.patch(&path, clash).await.refuses_field("redact");
    }
    admin.patch(&path, json!({"order_by": "/a/c"})).await.is(200);
    let changed = admin.patch(&path, json!({"redact": ["/z"]})).await.is(200).json();
    assert_eq!(changed["redact"], json!(["/z"]));
    assert_eq!(
        admin.patch(&path, json!({"redact": null})).await.is(200).json()["redact"],
        json!([])
    );
    assert_eq!(admin.get(&path).await.is(200).json()["redact"], json!([]));
}
