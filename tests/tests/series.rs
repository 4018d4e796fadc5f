//! Figures over time: what happened is counted once, over all nodes, and outlives them.

use serde_json::{Value, json};
use wakepost_tests::{Api, Database, Gateway, Receiver, Reply, on_both, until};

on_both!(
    what_happens_is_counted_over_all_nodes_and_outlives_them,
    queues_are_looked_at_for_tenants_that_have_work,
    a_tenant_sees_its_own_figures,
);

async fn gateway(database: Database) -> Gateway {
    Gateway::setup(database)
        .setting("WAKEPOST_ALLOW_HTTP", "true")
        .setting("WAKEPOST_ALLOW_PRIVATE", "true")
        .start()
        .await
}

async fn series(api: &Api, minutes: u32) -> Value {
    api.get(&format!("/series?minutes={minutes}")).await.is(200).json()
}

/// The figures, once these of them are so.
async fn counted(api: &Api, expected: &[(&str, u64)]) -> Value {
    until(&format!("{expected:?} is counted"), || async {
        let series = series(api, 10).await;
        let totals = &series["totals"];
        expected.iter().all(|(name, count)| totals[name] == *count).then_some(series)
    })
    .await
}

/// Nothing is missing and nothing is twice: points, without a gap, add up to the totals.
fn adds_up(series: &Value, name: &str) {
    let points = series["points"].as_array().expect("points");
    let sum: u64 = points.iter().map(|point| point[name].as_u64().expect("a count")).sum();
    assert_eq!(series["totals"][name], sum, "{name}");
}

async fn what_happens_is_counted_over_all_nodes_and_outlives_them(database: Database) {
    let mut first = gateway(database).await;
    let second = match database {
        Database::Sqlite => None,
        Database::Postgres => Some(first.node().await),
    };
    let other = second.as_ref().unwrap_or(&first);
    let api = first.admin();
    let source = first.with_source("github").await;
    let event = source.event("one");
    first.send(&source, &event).await.is(202);
    other.send(&source, &event).await.is(200);
    other.send(&source, &source.event("two")).await.is(202);
    let mut forged = source.sign(&source.event("three"));
    forged.body = b"{\"forged\":true}".to_vec();
    other.send_request(&forged).await.is(401);
    let worker = first.worker("ada");
    worker.wait().await.complete(json!({})).await.is(200);
    let failing = json!({"error": "no", "retryable": false});
    worker.wait().await.post("fail", failing).await.is(200);
    let receiver = Receiver::start(|seen| match seen.path.as_str() {
        "/good" => Reply::new(200, ""),
        _ => Reply::new(400, "no"),
    })
    .await;
    for path in ["/good", "/bad"] {
        let fields = json!({"url": receiver.url(path), "events": ["order.created"]});
        other.admin().post("/webhooks", fields).await.is(201);
    }
    let order = json!({"type": "order.created", "data": {}, "dedup_key": "1"});
    api.post("/events", order.clone()).await.is(202);
    other.admin().post("/events", order).await.is(202);
    let expected = [
        ("received", 4),
        ("accepted", 2),
        ("duplicates", 1),
        ("rejected", 1),
        ("published", 1),
        ("jobs_succeeded", 1),
        ("jobs_failed", 1),
        ("jobs_dead", 1),
        ("deliveries_succeeded", 1),
        ("deliveries_failed", 1),
        ("deliveries_dead", 1),
        ("first_attempts", 2),
        ("first_attempts_succeeded", 1),
    ];
    let series = counted(&api, &expected).await;
    expected.iter().for_each(|(name, _)| adds_up(&series, name));
    assert_eq!((&series["step_s"], &series["tenant"]), (&json!(60), &json!("default")));
    let points = series["points"].as_array().expect("points");
    assert_eq!(points.len(), 10);
    for name in ["ack_ms_p50", "ack_ms_p99", "delivery_ms_p50", "delivery_ms_p99"] {
        assert!(series["totals"][name].as_f64().is_some_and(|ms| ms > 0.0), "{name}: {series}");
        assert_eq!(points[0][name], Value::Null);
    }
    assert_eq!(series["before"]["received"], 0);
    let sdk = first.client().series(10).await.expect("the series");
    assert_eq!((sdk.totals.received, sdk.points.len(), sdk.step_s), (4, 10, 60));
    // What was counted in the last moment is written down by a stop, and a restart counts on beside it.
    first.send(&source, &source.event("four")).await.is(202);
    first.terminate();
    assert!(first.ended().await.success());
    first.restart().await;
    first.send(&source, &source.event("five")).await.is(202);
    counted(&first.admin(), &[("received", 6), ("accepted", 4), ("duplicates", 1)]).await;
}

async fn queues_are_looked_at_for_tenants_that_have_work(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let acme = api.tenant("acme").await;
    for priority in ["interactive", "batch", "batch"] {
        acme.job_with(json!({"input": {}, "priority": priority})).await;
    }
    let dead = acme.job_with(json!({"input": {}, "priority": "webhook", "kind": "x"})).await;
    let worker = wakepost_tests::Worker::new(&acme.role("worker", "acme").await, "ada");
    let lease = worker.wait_with(json!({"kinds": ["x"]})).await;
    assert_eq!(lease.id(), dead);
    lease.post("fail", json!({"error": "no", "retryable": false})).await.is(200);
    // The next look would be in the next minute.
    gateway.execute("DELETE FROM turns").await;
    let point = until("the queue is looked at", || async {
        let series = series(&acme, 2).await;
        let points = series["points"].as_array()?;
        points.iter().find(|point| point["dead_letters"] == 1).cloned()
    })
    .await;
    assert_eq!(point["queue"], json!({"interactive": 1, "webhook": 0, "batch": 2}));
    assert!(point["oldest_age_s"]["batch"].is_u64() && point["oldest_age_s"]["webhook"].is_null());
    assert_eq!((&point["retrying"], &point["open_circuits"]), (&json!(0), &json!(0)));
}

async fn a_tenant_sees_its_own_figures(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let (acme, other) = (api.tenant("acme").await, api.tenant("other").await);
    acme.post("/events", json!({"type": "a.b", "data": {}})).await.is(202);
    counted(&acme, &[("published", 1)]).await;
    assert_eq!(series(&other, 10).await["totals"]["published"], 0);
    other.get("/series?tenant=acme").await.is(404);
    counted(&api.of_tenant("acme"), &[("published", 1)]).await;
    let worker = api.role("worker", "acme").await;
    worker.get("/series").await.is(403);
    api.without_key().get("/series").await.is(401);
    api.get("/series?minutes=2881").await.is(422);
}
