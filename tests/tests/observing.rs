//! What operators see: counters of every stage, and ids in every line.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use wakepost_tests::{Database, Gateway, Receiver, Reply, Setup, on_both, until};

on_both!(
    every_stage_is_counted,
    every_answer_has_a_request_id,
    a_whole_story_in_the_log_has_ids_and_no_secrets,
    a_collector_that_is_away_costs_nothing_but_spans,
);

/// What no log may say.
const SAID: &str = "what-only-the-customer-knows";

fn setup(database: Database) -> Setup {
    Gateway::setup(database)
        .setting("WAKEPOST_ALLOW_HTTP", "true")
        .setting("WAKEPOST_ALLOW_PRIVATE", "true")
}

/// One of everything: received, repeated, forged; done with an effect, failed; published, taken, refused.
async fn scenario(gateway: &Gateway) -> Receiver {
    let api = gateway.admin();
    let source = gateway.with_source("github").await;
    let event = source.event(SAID);
    gateway.send(&source, &event).await.is(202);
    gateway.send(&source, &event).await.is(200);
    let mut forged = source.sign(&source.event("two"));
    forged.body = b"{}".to_vec();
    gateway.send_request(&forged).await.is(401);
    let worker = gateway.worker("ada");
    let lease = worker.wait().await;
    lease.begin("mail:1").await.is(200);
    lease.commit("mail:1", json!({"said": SAID})).await.is(200);
    lease.complete(json!({"said": SAID})).await.is(200);
    api.job_with(json!({"input": {"said": SAID}})).await;
    worker.wait().await.fail("no").await.is(200);
    api.job_with(json!({"input": {"said": SAID}, "kind": "x"})).await;
    let lease = worker.wait_with(json!({"kinds": ["x"]})).await;
    lease.post("fail", json!({"error": "no", "retryable": false})).await.is(200);
    let receiver = Receiver::start(|seen| match seen.path.as_str() {
        "/good" => Reply::new(200, ""),
        "/away" => Reply::new(503, ""),
        _ => Reply::new(400, "no"),
    })
    .await;
    for path in ["/good", "/bad", "/away"] {
        let fields = json!({"url": receiver.url(path), "events": ["order.created"],
            "circuit_settings": {"failures": 1}});
        api.post("/webhooks", fields).await.is(201);
    }
    let order = json!({"type": "order.created", "data": {"said": SAID}});
    api.post("/events", order).await.is(202);
    receiver
}

/// The text of `/metrics`, read as Prometheus does: every line a comment or a number with a name and labels.
async fn scrape(gateway: &Gateway) -> BTreeMap<String, f64> {
    let mut headers = HeaderMap::new();
    let key = HeaderValue::from_str(&format!("Bearer {}", gateway.admin_key())).expect("a key");
    headers.insert("authorization", key);
    let answer = gateway.ask(Method::GET, "/metrics", headers).await.is(200);
    let text = String::from_utf8(answer.body.to_vec()).expect("text");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let read = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
        let plain = name.split('{').next().expect("a name");
        assert!(plain.starts_with("wakepost_"), "{line}");
        assert!(plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{line}");
        assert_eq!(name.contains('{'), name.ends_with('}'), "{line}");
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line:?}")))
    });
    read.collect()
}

async fn every_stage_is_counted(database: Database) {
    let gateway = setup(database).setting("WAKEPOST_METRICS_TENANTS_MAX", "1").start().await;
    let _receiver = scenario(&gateway).await;
    // The next look at queues would be in the next minute.
    gateway.execute("DELETE FROM turns").await;
    let moved = [
        "wakepost_inbound_requests_total{provider=\"github\",verdict=\"accepted\"}",
        "wakepost_inbound_requests_total{provider=\"github\",verdict=\"duplicate\"}",
        "wakepost_inbound_requests_total{provider=\"github\",verdict=\"bad_signature\"}",
        "wakepost_ack_seconds_count",
        "wakepost_claimed_total",
        "wakepost_start_seconds_count{kind=\"job\"}",
        "wakepost_start_seconds_count{kind=\"delivery\"}",
        "wakepost_runs_total{kind=\"job\",state=\"succeeded\"}",
        "wakepost_runs_total{kind=\"job\",state=\"retrying\"}",
        "wakepost_runs_total{kind=\"delivery\",state=\"succeeded\"}",
        "wakepost_run_seconds_count{kind=\"job\"}",
        "wakepost_retries_total{kind=\"job\"}",
        "wakepost_dead_letters_total{kind=\"job\"}",
        "wakepost_dead_letters_total{kind=\"delivery\"}",
        "wakepost_effects_total{word=\"execute\"}",
        "wakepost_published_total",
        "wakepost_delivery_attempts_total{outcome=\"2xx\"}",
        "wakepost_delivery_attempts_total{outcome=\"4xx\"}",
        "wakepost_delivery_attempts_total{outcome=\"5xx\"}",
        "wakepost_delivery_seconds_count",
        "wakepost_circuit_changes_total{state=\"open\"}",
        "wakepost_open_circuits",
        "wakepost_store_seconds_count{move=\"accept\"}",
        "wakepost_store_seconds_count{move=\"settle\"}",
        "wakepost_store_seconds_count{move=\"publish\"}",
        "wakepost_store_seconds_count{move=\"ping\"}",
        "wakepost_connections",
        "wakepost_api_answers_total{route=\"jobs\",status=\"200\"}",
        "wakepost_api_answers_total{route=\"events\",status=\"202\"}",
        "wakepost_api_seconds_count{route=\"webhooks\"}",
        "wakepost_tenant_figures_total{tenant=\"default\",figure=\"accepted\"}",
        "wakepost_process_resident_memory_bytes",
        "wakepost_process_open_fds",
    ];
    until("every stage moved", || async {
        let seen = scrape(&gateway).await;
        let still: Vec<_> = moved
            .iter()
            .filter(|name| seen.get(**name).is_none_or(|value| *value <= 0.0))
            .collect();
        if !still.is_empty() {
            eprintln!("not yet: {still:?}");
        }
        still.is_empty().then_some(())
    })
    .await;
    let seen = scrape(&gateway).await;
    for there in ["queue_depth", "queue_oldest_age_seconds"] {
        assert!(seen.contains_key(&format!("wakepost_{there}{{priority=\"webhook\"}}")), "{there}");
    }
    // Beyond the bound tenants have no name.
    let acme = gateway.admin().tenant("acme").await;
    acme.post("/events", json!({"type": "a.b", "data": {}})).await.is(202);
    let other = "wakepost_tenant_figures_total{tenant=\"other\",figure=\"published\"}";
    until("the other tenant is counted", || async {
        let seen = scrape(&gateway).await;
        assert!(!seen.keys().any(|name| name.contains("acme")), "{:?}", seen.keys());
        seen.get(other).is_some_and(|value| *value == 1.0).then_some(())
    })
    .await;
}

async fn every_answer_has_a_request_id(database: Database) {
    let gateway = setup(database).start().await;
    let api = gateway.admin();
    let asked = async |given: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("x-request-id", HeaderValue::from_str(given).expect("a header"));
        api.call_with(Method::GET, "/jobs/job_x", headers, None).await.is(404)
    };
    let mine = asked("deploy-7:a.b_c").await;
    assert_eq!(mine.headers["x-request-id"], "deploy-7:a.b_c");
    assert_eq!(mine.json()["request_id"], "deploy-7:a.b_c");
    for insane in ["", "a b", "{\"x\":1}", &"a".repeat(129)] {
        let made = asked(insane).await;
        let id = made.headers["x-request-id"].to_str().expect("text").to_owned();
        assert!(id.starts_with("req_") && made.json()["request_id"] == id, "{insane:?}: {id}");
    }
    let good = api.get("/jobs").await.is(200);
    assert!(good.headers.contains_key("x-request-id"));
    let nowhere = api.get("/nowhere").await.is(404);
    assert_eq!(
        nowhere.json()["request_id"],
        nowhere.headers["x-request-id"].to_str().expect("text")
    );
}

async fn a_whole_story_in_the_log_has_ids_and_no_secrets(database: Database) {
    let gateway = setup(database)
        .setting("WAKEPOST_LOG_FORMAT", "json")
        .setting("WAKEPOST_LOG_LEVEL", "wakepost_server=debug")
        .start()
        .await;
    let receiver = scenario(&gateway).await;
    receiver.wait("/good", 2).await;
    let lines = until("the story is told", || async {
        let logged = gateway.logged();
        // The last line may be half there.
        let whole = logged.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines: Vec<Value> = whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
            .collect();
        let says = |message: &str| lines.iter().any(|line| line["fields"]["message"] == message);
        let is_told = says("a pushed run ended") && says("a pushed run succeeded");
        is_told.then_some(lines)
    })
    .await;
    let about = |message: &str| {
        let found: Vec<&Value> =
            lines.iter().filter(|line| line["fields"]["message"] == message).collect();
        assert!(!found.is_empty(), "no line says: {message}");
        found
    };
    let has = |message: &str, fields: &[&str]| {
        for line in about(message) {
            for field in fields {
                assert!(line["fields"][field].is_string(), "{field} is missing: {line}");
            }
        }
    };
    has("a request was taken in", &["tenant", "source_id", "event_id", "job_id", "verdict"]);
    has("a run began", &["tenant", "id", "run_id"]);
    has("it was decided on an effect", &["tenant", "job_id", "run_id"]);
    has("a run ended", &["tenant", "id", "run_id", "state"]);
    has("an event was published", &["tenant", "event_id"]);
    for line in about("an API call was answered") {
        assert!(line["span"]["request_id"].is_string(), "{line}");
    }
    for line in about("a pushed run ended") {
        let span = &line["span"];
        for field in ["tenant", "id", "event_id", "run_id", "webhook_id"] {
            assert!(span[field].is_string(), "{field} is missing: {line}");
        }
    }
    let all = gateway.logged();
    for secret in [SAID, gateway.admin_key(), gateway.master_key(), "whsec_"] {
        assert!(!all.contains(secret), "the log says {secret}");
    }
}

async fn a_collector_that_is_away_costs_nothing_but_spans(database: Database) {
    let gateway =
        setup(database).setting("WAKEPOST_OTLP_ENDPOINT", "http://127.0.0.1:1").start().await;
    let _receiver = scenario(&gateway).await;
    until("spans are dropped", || async {
        let seen = scrape(&gateway).await;
        seen.get("wakepost_trace_spans_total{word=\"dropped\"}").filter(|count| **count > 0.0)?;
        Some(())
    })
    .await;
}
