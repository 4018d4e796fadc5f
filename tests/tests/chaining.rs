//! Chaining: agents that call agents are counted, shown, and stopped before they go round for ever.

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use wakepost_tests::{Api, Database, Gateway, Lease, Receiver, Reply, Worker, on_both, until};

on_both!(
    a_job_that_an_agent_asks_for_knows_what_led_to_it,
    a_trace_leads_to_the_job_it_belongs_to,
    a_webhook_that_an_agent_causes_carries_the_chain,
    too_long_a_chain_is_held_until_an_operator_lets_it_go,
    what_is_forged_foreign_or_broken_says_nothing,
    a_trace_from_outside_is_gone_on_with,
    pushed_agents_are_given_the_chain,
    what_a_job_published_is_found_by_the_job_and_told_with_its_event,
);

fn with(name: &'static str, value: &str) -> HeaderMap {
    [(name.parse().expect("a name"), value.parse().expect("a value"))].into_iter().collect()
}

async fn made(api: &Api, headers: HeaderMap) -> Value {
    let job = json!({"input": 1});
    api.call_with(Method::POST, "/jobs", headers, Some(&job)).await.is(201).json()
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_else(|| panic!("no {field} in {of}"))
}

fn chain(lease: &Lease) -> HeaderMap {
    with("wakepost-chain", text(&lease.job, "chain"))
}

async fn a_job_that_an_agent_asks_for_knows_what_led_to_it(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let worker = Worker::new(&api, "ada");
    let first = api.job().await;
    let plain = api.show_job(&first).await;
    assert_eq!((&plain["parent_id"], &plain["hops"]), (&Value::Null, &json!(0)));
    assert_eq!(plain["chain"], json!([]));
    let lease = worker.wait().await;
    let second = made(&api, chain(&lease)).await;
    assert_eq!((&second["parent_id"], &second["hops"]), (&json!(first), &json!(1)));
    lease.complete(json!(1)).await.is(200);
    let lease = worker.wait().await;
    // With both, the chain counts, and the trace goes on.
    let mut headers = chain(&lease);
    headers.extend(with("traceparent", text(&lease.job, "traceparent")));
    let third = made(&api, headers).await;
    assert_eq!((&third["parent_id"], &third["hops"]), (&second["id"], &json!(2)));
    assert_eq!(third["trace_id"], second["trace_id"]);
    let shown = api.show_job(text(&third, "id")).await;
    let ids: Vec<&str> =
        shown["chain"].as_array().expect("a list").iter().map(|link| text(link, "id")).collect();
    assert_eq!(ids, [text(&second, "id"), first.as_str()]);
    assert_eq!(
        (&shown["chain"][1]["status"], &shown["chain"][1]["hops"]),
        (&json!("succeeded"), &json!(0))
    );
    // A run of it has its trace.
    lease.complete(json!(1)).await.is(200);
    let lease = worker.wait().await;
    assert!(text(&lease.job, "traceparent").contains(text(&third, "trace_id")));
    lease.complete(json!(1)).await.is(200);

    // A replay keeps its place in the chain.
    let replay = json!({"note": "Ada: again"});
    let path = format!("/jobs/{}/replay", text(&third, "id"));
    let again = api.post(&path, replay).await.is(202).text("job_id");
    let again = api.show_job(&again).await;
    assert_eq!((&again["hops"], &again["trace_id"]), (&json!(2), &third["trace_id"]));
}

async fn a_trace_leads_to_the_job_it_belongs_to(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let worker = Worker::new(&api, "ada");
    let source = api.source("github").await;
    let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
    let mut parent = sent.text("job_id");
    assert_eq!(
        api.show_event(&sent.text("event_id")).await["trace_id"],
        api.show_job(&parent).await["trace_id"],
    );
    for hops in 1..=3 {
        let lease = worker.wait().await;
        let trace = text(&lease.job, "traceparent").to_owned();
        // Another span of the same trace, as an agent's own tracing has it.
        let trace = format!("{}-00f067aa0ba902b7-01", &trace[..35]);
        let next = made(&api, with("traceparent", &trace)).await;
        assert_eq!((&next["parent_id"], &next["hops"]), (&json!(parent), &json!(hops)));
        lease.complete(json!(1)).await.is(200);
        parent = text(&next, "id").to_owned();
    }
}

async fn a_webhook_that_an_agent_causes_carries_the_chain(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let first = api.job().await;
    let lease = Worker::new(&api, "ada").wait().await;
    let sources = [
        api.source("github").await,
        api.source_with("github", json!({"order_by": "/issue/number"})).await,
    ];
    for source in &sources {
        let event = source.event("e-1").with_header("wakepost-chain", text(&lease.job, "chain"));
        let sent = gateway.send(source, &event).await.is(202);
        let shown = api.show_job(&sent.text("job_id")).await;
        assert_eq!((&shown["parent_id"], &shown["hops"]), (&json!(first), &json!(1)));
        // A repeat is still a duplicate of the first.
        let again = gateway.send(source, &source.event("e-1")).await.is(200);
        assert_eq!(again.text("job_id"), sent.text("job_id"));
    }
}

async fn too_long_a_chain_is_held_until_an_operator_lets_it_go(database: Database) {
    let gateway = Gateway::setup(database).file("max_hops = 2\n").start().await;
    let api = gateway.admin();
    let worker = Worker::new(&api, "ada");
    api.job().await;
    for hops in 1..=2 {
        let lease = worker.wait().await;
        assert_eq!(made(&api, chain(&lease)).await["hops"], hops);
        lease.complete(json!(1)).await.is(200);
    }
    let lease = worker.wait().await;
    let over = made(&api, chain(&lease)).await;
    assert_eq!((&over["status"], &over["held_reason"]), (&json!("held"), &json!("hop_limit")));
    assert_eq!((&over["hops"], &over["flags"]), (&json!(3), &json!(["hop_limit"])));
    let source = api.source("github").await;
    let event = source.event("e-1").with_header("wakepost-chain", text(&lease.job, "chain"));
    let sent = gateway.send(&source, &event).await.is(202).text("job_id");
    lease.complete(json!(1)).await.is(200);
    for job in [text(&over, "id"), &sent] {
        let shown = api.show_job(job).await;
        assert_eq!(
            (&shown["status"], &shown["held_reason"]),
            (&json!("held"), &json!("hop_limit"))
        );
        assert_eq!(shown["chain"].as_array().expect("a list").len(), 3, "{shown}");
        assert!(worker.lease().await.is_none(), "it waits for a person");
        let note = json!({"note": "Ada: it is meant to"});
        api.post(&format!("/jobs/{job}/release"), note).await.is(200);
        let lease = worker.wait().await;
        assert_eq!(lease.id(), job);
        lease.complete(json!(1)).await.is(200);
    }
}

async fn what_is_forged_foreign_or_broken_says_nothing(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let (acme, globex) = (admin.tenant("acme").await, admin.tenant("globex").await);
    acme.job().await;
    let theirs = Worker::new(&acme, "ada").wait().await;
    let (good, trace) = (text(&theirs.job, "chain"), text(&theirs.job, "traceparent"));
    let mut forged = good.to_owned();
    forged.replace_range(10..11, if &good[10..11] == "A" { "B" } else { "A" });
    let broken = ["", "rubbish", "wpc_", "job_01JX9M9M7S7ABCDEFGHJKMNPQR", &forged, good];
    let chains = broken.iter().map(|value| with("wakepost-chain", value));
    let broken = ["00-zz-1-01", "ff", trace];
    let traces = broken.iter().map(|value| with("traceparent", value));
    for headers in chains.chain(traces) {
        let job = made(&globex, headers.clone()).await;
        assert_eq!((&job["parent_id"], &job["hops"]), (&Value::Null, &json!(0)), "{headers:?}");
        assert_eq!(job["status"], "pending");
        assert!(!job.to_string().contains(theirs.id()), "{job}");
    }
    // And to their own tenant they say what they are.
    assert_eq!(made(&acme, with("wakepost-chain", good)).await["hops"], 1);
}

async fn a_trace_from_outside_is_gone_on_with(database: Database) {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let outside = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let made = made(&api, with("traceparent", &outside)).await;
    assert_eq!((&made["trace_id"], &made["parent_id"]), (&json!(TRACE), &Value::Null));
    let source = api.source("github").await;
    let event = source.event("e-1").with_header("traceparent", &outside);
    let sent = gateway.send(&source, &event).await.is(202);
    assert_eq!(api.show_job(&sent.text("job_id")).await["trace_id"], TRACE);
    assert_eq!(api.show_event(&sent.text("event_id")).await["trace_id"], TRACE);
    let worker = Worker::new(&api, "ada");
    for _ in 0..2 {
        let lease = worker.wait().await;
        assert!(text(&lease.job, "traceparent").starts_with(&format!("00-{TRACE}-")));
    }
}

async fn pushed_agents_are_given_the_chain(database: Database) {
    const COMMANDS: &str = "[exec.chain]\ncommand = [\"sh\", \"-c\", \"echo $WAKEPOST_CHAIN\"]\n";
    let gateway = Gateway::setup(database).file(COMMANDS).start().await;
    let api = gateway.admin();
    let agent =
        Receiver::start(|seen| Reply::new(200, json!({"reply": seen.header("wakepost-chain")})))
            .await;
    for executor in
        [json!({"kind": "http", "url": agent.url("/")}), json!({"kind": "exec", "name": "chain"})]
    {
        let job = api.job_with(json!({"input": 1, "executor": executor})).await;
        let done = until("it is done", || async {
            let shown = api.show_job(&job).await;
            (shown["status"] == "succeeded").then_some(shown)
        })
        .await;
        let next = made(&api, with("wakepost-chain", text(&done, "reply"))).await;
        assert_eq!((&next["parent_id"], &next["hops"]), (&json!(job), &json!(1)));
    }
}

async fn what_a_job_published_is_found_by_the_job_and_told_with_its_event(database: Database) {
    let setup = Gateway::setup(database).setting("WAKEPOST_ALLOW_HTTP", "true");
    let gateway = setup.setting("WAKEPOST_ALLOW_PRIVATE", "true").start().await;
    let api = gateway.admin();
    let receiver = Receiver::start(|_| Reply::new(410, "gone")).await;
    let fields = json!({"url": receiver.url("/in"), "events": ["order.*"]});
    api.post("/webhooks", fields).await.is(201);
    let source = gateway.with_source("github").await;
    let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
    let (event, job) = (sent.text("event_id"), sent.text("job_id"));
    let lease = gateway.worker("ada").wait().await;
    let publish = async |headers: HeaderMap, event_type: &str| {
        let body = json!({"type": event_type, "data": {"id": 1}});
        api.call_with(Method::POST, "/events", headers, Some(&body)).await.is(202).text("id")
    };
    let first = publish(chain(&lease), "order.created").await;
    publish(HeaderMap::new(), "order.created").await;
    let trace = with("traceparent", text(&lease.job, "traceparent"));
    let second = publish(trace, "invoice.paid").await;
    lease.complete(json!(1)).await.is(200);

    let found = async |api: &Api, query: &str| -> Vec<String> {
        let rows = api.list(&format!("/events?parent={query}")).await;
        rows.iter().map(|row| text(row, "id").to_owned()).collect()
    };
    assert_eq!(found(&api, &job).await, [second.clone(), first.clone()]);
    assert_eq!(found(&api, &format!("{job}&type=invoice.*")).await, [second]);
    assert!(found(&api, &api.job().await).await.is_empty());
    assert!(found(&api.tenant("acme").await, &job).await.is_empty());
    for bad in [event.as_str(), "job_", "rubbish"] {
        api.get(&format!("/events?parent={bad}")).await.refuses_field("parent");
    }

    let shown = until("the delivery is given up", || async {
        let shown = api.show_event(&event).await;
        let delivery = shown["work"].as_array()?.get(1)?.clone();
        (delivery["status"] == "dead_letter").then_some((shown, delivery))
    });
    let (shown, delivery) = shown.await;
    assert_eq!(shown["work"].as_array().map(Vec::len), Some(2), "{shown}");
    assert_eq!((&delivery["kind"], &delivery["name"]), (&json!("delivery"), &json!("delivery")));
    assert_eq!((&delivery["event_id"], &delivery["parent_id"]), (&json!(first), &json!(job)));
    assert_eq!(delivery["source"], Value::Null, "it came from no source");
    assert_eq!(shown["status"], "succeeded", "what is delivered is another event");
    assert_eq!(shown["next_action"], api.show_job(&job).await["next_action"]);
}
