//! Traces: one from a receipt to the last delivery that came of it, whatever fails, restarts or is sent again between.

use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use wakepost_tests::platform::Slack;
use wakepost_tests::{Api, Database, Gateway, Receiver, Reply, Seen, now, on_both, until};

on_both!(
    one_trace_goes_from_the_receipt_to_the_delivery,
    what_is_published_goes_on_with_the_trace_of_its_request,
    a_trace_outlives_a_restart_and_holds_what_is_sent_again,
    an_event_without_a_job_is_in_the_trace_it_came_with,
    a_callback_is_in_the_trace_of_its_job,
    a_reply_is_in_the_trace_of_the_message_it_answers,
);

/// What no trace may say.
const SAID: &str = "what-only-the-customer-knows";
/// Somebody else's trace, and a span of it.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn outside() -> String {
    format!("00-{TRACE}-{PARENT}-01")
}

/// A gateway whose spans the collector gets.
async fn gateway(database: Database, collector: &Receiver) -> Gateway {
    Gateway::setup(database)
        .setting("WAKEPOST_ALLOW_HTTP", "true")
        .setting("WAKEPOST_ALLOW_PRIVATE", "true")
        .setting("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url(""))
        .setting("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=k1")
        .setting("OTEL_SERVICE_NAME", "gate")
        .start()
        .await
}

async fn taker() -> Receiver {
    Receiver::start(|_| Reply::new(200, "{}")).await
}

/// A collector: it takes what it is sent, and shows every span of it.
fn spans(collector: &Receiver) -> Vec<Value> {
    let mut spans = Vec::new();
    for seen in collector.seen("/v1/traces") {
        assert_eq!(seen.header("content-type"), "application/json");
        assert_eq!(seen.header("x-api-key"), "k1");
        let sent = seen.json();
        let resource = &sent["resourceSpans"][0];
        let name = &resource["resource"]["attributes"][0];
        assert_eq!(name, &json!({"key": "service.name", "value": {"stringValue": "gate"}}));
        let batch = resource["scopeSpans"][0]["spans"].as_array().expect("spans");
        for span in batch {
            let is_hex = |name: &str, length: usize| {
                span[name].as_str().is_some_and(|id| {
                    id.len() == length && id.bytes().all(|byte| byte.is_ascii_hexdigit())
                })
            };
            assert!(is_hex("traceId", 32) && is_hex("spanId", 16), "{span}");
            let nanos = |name: &str| span[name].as_str().and_then(|text| text.parse::<u64>().ok());
            assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"), "{span}");
            assert!(nanos("startTimeUnixNano") > Some(1_700_000_000_000_000_000), "{span}");
        }
        spans.extend(batch.iter().cloned());
    }
    spans
}

async fn span(collector: &Receiver, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
    until(&format!("a span {name}"), || async {
        spans(collector).into_iter().find(|span| span["name"] == name && fits(span))
    })
    .await
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let all = span["attributes"].as_array().expect("attributes");
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.map_or(&Value::Null, |found| &found["value"]["stringValue"])
}

/// The span of this name about this event, in a state if one is named.
async fn span_of(collector: &Receiver, name: &str, event: &str, state: Option<&str>) -> Value {
    span(collector, name, |span| {
        let fits = state.is_none_or(|state| attribute(span, "wakepost.state") == state);
        fits && attribute(span, "wakepost.event_id") == event
    })
    .await
}

/// A span stands in a trace, below this one.
fn is_below(span: &Value, trace: &str, parent: &Value) {
    assert_eq!((&span["traceId"], &span["parentSpanId"]), (&json!(trace), parent), "{span}");
}

/// What a receiver got names the span of the try.
fn names(seen: &Seen, span: &Value) {
    let text = |name: &str| span[name].as_str().expect("an id").to_owned();
    let expected = format!("00-{}-{}-01", text("traceId"), text("spanId"));
    assert_eq!(seen.header("traceparent"), expected);
}

async fn webhook(api: &Api, receiver: &Receiver, path: &str) -> String {
    let fields = json!({"url": receiver.url(path), "events": ["order.*"], "retry_s": [0, 1, 1]});
    api.post("/webhooks", fields).await.is(201).text("id")
}

async fn publish(api: &Api, headers: &[(&'static str, &str)]) -> String {
    let order = json!({"type": "order.created", "data": {"said": SAID}});
    let headers = headers
        .iter()
        .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
    let headers: HeaderMap = headers.collect();
    api.call_with(Method::POST, "/events", headers, Some(&order)).await.is(202).text("id")
}

/// What came to a path about an event, once there are so many.
async fn came(receiver: &Receiver, path: &str, event: &str, count: usize) -> Vec<Seen> {
    until("it is delivered", || async {
        let mut seen = receiver.seen(path);
        seen.retain(|seen| seen.header("webhook-id") == event);
        (seen.len() >= count).then_some(seen)
    })
    .await
}

async fn one_trace_goes_from_the_receipt_to_the_delivery(database: Database) {
    let collector = taker().await;
    let gateway = gateway(database, &collector).await;
    let api = gateway.admin();
    // The first order is refused once, so that there are two tries.
    let refused = AtomicBool::new(false);
    let receiver = Receiver::start(move |seen| {
        let is_order = seen.json()["type"] == "order.created";
        match is_order && !refused.swap(true, Ordering::SeqCst) {
            true => Reply::new(503, ""),
            false => Reply::new(200, ""),
        }
    })
    .await;
    webhook(&api, &receiver, "/hook").await;
    let source = gateway.with_source("github").await;
    let event = source.event(SAID).with_header("traceparent", &outside());
    gateway.send(&source, &event).await.is(202);
    let lease = gateway.worker("ada").wait().await;
    lease.begin("mail:1").await.is(200);
    lease.commit("mail:1", json!({"said": SAID})).await.is(200);
    // Nothing but the chain says which job it is.
    let chain = lease.job["chain"].as_str().expect("a chain");
    let order = publish(&api, &[("wakepost-chain", chain)]).await;
    lease.complete(json!({"said": SAID})).await.is(200);

    let received = span(&collector, "receive", |_| true).await;
    is_below(&received, TRACE, &json!(PARENT));
    let run = span(&collector, "run", |_| true).await;
    is_below(&run, TRACE, &received["spanId"]);
    let given = lease.job["traceparent"].as_str().expect("a traceparent");
    assert_eq!(given, format!("00-{TRACE}-{}-01", run["spanId"].as_str().expect("an id")));
    let effect = span(&collector, "effect", |_| true).await;
    is_below(&effect, TRACE, &run["spanId"]);
    let published = span_of(&collector, "publish", &order, None).await;
    is_below(&published, TRACE, &run["spanId"]);
    assert_eq!(attribute(&published, "wakepost.job_id"), lease.id());
    let seen = came(&receiver, "/hook", &order, 2).await;
    for (seen, state) in seen.iter().zip(["retrying", "succeeded"]) {
        let tried = span_of(&collector, "deliver", &order, Some(state)).await;
        is_below(&tried, TRACE, &published["spanId"]);
        assert_eq!(tried["status"]["code"], if state == "succeeded" { 1 } else { 2 });
        names(seen, &tried);
    }
    for seen in collector.seen("/v1/traces") {
        let text = String::from_utf8_lossy(&seen.body).into_owned();
        assert!(!text.contains(SAID) && !text.contains("mail:1"), "{text}");
    }
}

async fn what_is_published_goes_on_with_the_trace_of_its_request(database: Database) {
    let collector = taker().await;
    let gateway = gateway(database, &collector).await;
    let api = gateway.admin();
    let receiver = taker().await;
    webhook(&api, &receiver, "/hook").await;
    api.job().await;
    let lease = gateway.worker("ada").wait().await;
    let chain = lease.job["chain"].as_str().expect("a chain");
    let given = lease.job["traceparent"].as_str().expect("a traceparent");
    let own = given.split('-').nth(1).expect("a trace");
    let run = given.split('-').nth(2).expect("a span");
    // An agent's tracing may have spans of its own below the run's.
    let below = format!("00-{own}-{PARENT}-01");
    let outside = outside();
    for (headers, trace, parent) in [
        (vec![("traceparent", outside.as_str())], TRACE, PARENT),
        (vec![("traceparent", outside.as_str()), ("wakepost-chain", chain)], TRACE, PARENT),
        (vec![("wakepost-chain", chain)], own, run),
        (vec![("traceparent", given)], own, run),
        (vec![("traceparent", &below)], own, PARENT),
        (vec![("traceparent", "00-zz-1-01"), ("wakepost-chain", chain)], own, run),
    ] {
        let order = publish(&api, &headers).await;
        let published = span_of(&collector, "publish", &order, None).await;
        is_below(&published, trace, &json!(parent));
        let tried = span_of(&collector, "deliver", &order, None).await;
        is_below(&tried, trace, &published["spanId"]);
        names(&came(&receiver, "/hook", &order, 1).await[0], &tried);
        let shown = api.get(&format!("/events/{order}")).await.is(200).json();
        let is_ours =
            headers.iter().any(|(name, value)| *name == "wakepost-chain" || value.contains(own));
        let job = if is_ours { json!(lease.id()) } else { Value::Null };
        assert_eq!(shown["parent_id"], job, "{headers:?}");
    }
    // What says nothing, or nothing that can be read, begins a trace.
    let zeros = format!("00-{}-{PARENT}-01", "0".repeat(32));
    let bad = ["", "rubbish", "00-zz-1-01", &zeros, &outside[..52]];
    let bad = bad.iter().map(|value| vec![("traceparent", *value)]);
    for headers in bad.chain([Vec::new(), vec![("wakepost-chain", "wpc_forged")]]) {
        let order = publish(&api, &headers).await;
        let published = span_of(&collector, "publish", &order, None).await;
        assert!(published["parentSpanId"].is_null(), "{published}");
        let trace = published["traceId"].as_str().expect("a trace");
        assert!(trace != TRACE && trace != own, "{headers:?}");
        let tried = span_of(&collector, "deliver", &order, None).await;
        is_below(&tried, trace, &published["spanId"]);
    }
}

async fn a_trace_outlives_a_restart_and_holds_what_is_sent_again(database: Database) {
    let collector = taker().await;
    let mut gateway = gateway(database, &collector).await;
    let receiver = taker().await;
    let api = gateway.admin();
    let hook = webhook(&api, &receiver, "/hook").await;
    let act = |what: &str| format!("/webhooks/{hook}/{what}");
    api.post(&act("pause"), json!({})).await.is(200);
    let order = publish(&api, &[("traceparent", &outside())]).await;
    let published = span_of(&collector, "publish", &order, None).await;
    is_below(&published, TRACE, &json!(PARENT));
    gateway.restart().await;
    let api = gateway.admin();
    api.post(&act("resume"), json!({})).await.is(200);
    let first = came(&receiver, "/hook", &order, 1).await.remove(0);
    let tried = span_of(&collector, "deliver", &order, None).await;
    is_below(&tried, TRACE, &published["spanId"]);
    names(&first, &tried);

    // The same again, and to somebody who was not there yet.
    let shown = api.get(&format!("/events/{order}")).await.is(200).json();
    let delivery = shown["deliveries"][0]["id"].as_str().expect("a delivery").to_owned();
    let note = json!({"note": "Ada: again"});
    api.post(&format!("/deliveries/{delivery}/replay"), note).await.is(202);
    let late = webhook(&api, &receiver, "/late").await;
    api.post(&format!("/webhooks/{late}/backfill"), json!({"since": "2020-01-01T00:00:00Z"}))
        .await
        .is(202);
    let again = came(&receiver, "/hook", &order, 2).await.remove(1);
    for seen in [again, came(&receiver, "/late", &order, 1).await.remove(0)] {
        let id = seen.header("traceparent").split('-').nth(2).expect("a span").to_owned();
        let tried = span(&collector, "deliver", |span| span["spanId"] == id).await;
        is_below(&tried, TRACE, &published["spanId"]);
        assert_ne!(tried["spanId"], published["spanId"]);
    }
}

async fn an_event_without_a_job_is_in_the_trace_it_came_with(database: Database) {
    let collector = taker().await;
    let gateway = gateway(database, &collector).await;
    let api = gateway.admin();
    let source = api.source_with("github", json!({"filter": ["push"]})).await;
    let event = source.event(SAID).with_header("traceparent", &outside());
    let sent = gateway.send(&source, &event).await.is(200);
    let received = span(&collector, "receive", |_| true).await;
    is_below(&received, TRACE, &json!(PARENT));
    let id = sent.text("event_id");
    assert_eq!(api.show_event(&id).await["trace_id"], TRACE);
    // And so is the job that a person makes of it.
    let note = json!({"note": "Ada: run it"});
    let job = api.post(&format!("/inbox/{id}/replay"), note).await.is(202).text("job_id");
    assert_eq!(api.show_job(&job).await["trace_id"], TRACE);
    gateway.worker("ada").wait().await.complete(json!(1)).await.is(200);
    is_below(&span(&collector, "run", |_| true).await, TRACE, &received["spanId"]);
}

async fn a_callback_is_in_the_trace_of_its_job(database: Database) {
    let collector = taker().await;
    let gateway = gateway(database, &collector).await;
    let api = gateway.admin();
    let receiver = taker().await;
    let source = api.source_with("github", json!({"callback_url": receiver.url("/source")})).await;
    let event = source.event(SAID).with_header("traceparent", &outside());
    let sent = gateway.send(&source, &event).await.is(202).text("job_id");
    // One without an event, and without a trace from outside.
    let made = api.job_with(json!({"input": 1, "callback_url": receiver.url("/own")})).await;
    let worker = gateway.worker("ada");
    for _ in 0..2 {
        worker.wait().await.complete(json!(1)).await.is(200);
    }
    for (path, job) in [("/source", sent), ("/own", made)] {
        let seen = receiver.wait(path, 1).await.remove(0);
        let trace = api.show_job(&job).await["trace_id"].clone();
        let id = seen.header("traceparent").split('-').nth(2).expect("a span").to_owned();
        let told = span(&collector, "callback", |span| span["spanId"] == id).await;
        assert_eq!(told["traceId"], trace, "{told}");
        names(&seen, &told);
    }
}

async fn a_reply_is_in_the_trace_of_the_message_it_answers(database: Database) {
    const CHANNEL: &str = "C0DEPLOYS";
    let collector = taker().await;
    let gateway = gateway(database, &collector).await;
    let slack = Slack::start("xoxb-1-2-abc").await;
    let settings = json!({"bot_token": "xoxb-1-2-abc", "api_url": slack.url("/api")});
    let source = gateway.admin().source_with("slack", json!({"settings": settings})).await;
    let at = now();
    let ts = format!("{}.4711", at.as_secs());
    slack.with(|slack| slack.hears(CHANNEL, &ts, "why did the build fail?"));
    let mut asked = source.sample_at(Some("app_mention"), "4711", at);
    asked.set("traceparent", &outside()).expect("a header");
    let event = gateway.send_request(&asked).await.is(202).text("event_id");
    let lease = gateway.worker("ada").wait().await;
    lease.post("complete", json!({"reply": SAID})).await.is(200);
    slack.wait_for("the reply", |slack| slack.said(CHANNEL, &ts).pop()).await;

    let received = span_of(&collector, "receive", &event, None).await;
    is_below(&received, TRACE, &json!(PARENT));
    let told = span_of(&collector, "reply", &event, Some("succeeded")).await;
    is_below(&told, TRACE, &received["spanId"]);
    assert_eq!(told["status"]["code"], 1);
    for seen in collector.seen("/v1/traces") {
        assert!(!String::from_utf8_lossy(&seen.body).contains(SAID));
    }
}
