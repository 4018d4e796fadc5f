//! Bounding: rates, budgets and what runs cost, over all nodes; fair shares; and what a job says it waits for.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use wakepost_domain::Timestamp;
use wakepost_tests::{
    Api, Database, Gateway, Receiver, Reply, Source, Worker, now, on_both, until, within,
};

on_both!(
    a_tenants_jobs_start_no_faster_than_its_rate_on_all_nodes_and_no_slower,
    a_source_at_its_rate_says_so_and_goes_on_once_it_may,
    pushed_jobs_and_jobs_within_a_request_keep_to_the_rate,
    a_spent_budget_makes_jobs_wait_until_it_is_changed,
    a_budget_that_refuses_holds_what_is_over_it_and_an_operator_lets_it_go,
    a_jobs_cost_is_the_sum_of_what_its_runs_said_in_the_end,
    a_cost_that_cannot_be_one_is_refused,
    a_job_says_what_it_waits_for,
    weighted_tenants_get_their_shares_and_a_lone_one_everything,
    the_stats_show_how_the_queue_stands,
);

/// A day has an end: what counts by the day is tested well within one.
async fn within_one_day() {
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let left = || DAY_MS - now().as_millis().rem_euclid(DAY_MS);
    if left() < 60_000 {
        tokio::time::sleep(Duration::from_millis(left() as u64 + 1000)).await;
    }
}

async fn send(gateway: &Gateway, source: &Source, count: usize) -> Vec<String> {
    let mut jobs = Vec::new();
    for n in 0..count {
        let event = source.event(&format!("{}-{n}", source.id));
        jobs.push(gateway.send(source, &event).await.is(202).text("job_id"));
    }
    jobs
}

/// When each of a caller's jobs began its latest run.
async fn starts(api: &Api) -> Vec<Timestamp> {
    let mut starts = Vec::new();
    for job in api.list("/jobs").await {
        let shown = api.show_job(job["id"].as_str().expect("an id")).await;
        for run in shown["runs"].as_array().expect("runs") {
            let at = run["started_at"].as_str().expect("a time");
            starts.push(at.parse().expect("a time"));
        }
    }
    starts.sort();
    starts
}

/// Between the moment a start is counted and the one it is noted with lie a few statements.
const NOTED_WITHIN_S: f64 = 0.02;

/// In no span of time did more start than its rate and one burst allow.
fn assert_within_rate(starts: &[Timestamp], per_s: f64) {
    for (first, from) in starts.iter().enumerate() {
        for (count, at) in starts[first..].iter().enumerate() {
            let span = at.since(*from).as_secs_f64() + NOTED_WITHIN_S;
            let most = span * per_s + per_s.max(1.0) + 1e-3;
            assert!((count + 1) as f64 <= most, "{} starts from {from} to {at}", count + 1);
        }
    }
}

async fn waits_for(api: &Api, job: &str, what: &str) {
    until(&format!("it waits for {what}"), || async {
        (api.show_job(job).await["waiting_on"] == what).then_some(())
    })
    .await;
}

async fn a_tenants_jobs_start_no_faster_than_its_rate_on_all_nodes_and_no_slower(
    database: Database,
) {
    const JOBS: usize = 30;
    const RATE: f64 = 8.0;
    let nodes = Gateway::nodes(database).await;
    let admin = nodes[0].admin();
    let acme = admin.tenant("acme").await;
    admin.patch("/tenants/acme", json!({"rate_per_s": RATE})).await.is(200);
    // Every node has heard of the rate before there is anything to start.
    for node in &nodes {
        until("the rate is known", || async {
            let tenant = node.admin().get("/tenants/acme").await.is(200).json();
            (tenant["rate_per_s"] == RATE).then_some(())
        })
        .await;
    }
    let jobs: Vec<Value> =
        (0..JOBS).map(|n| json!({"input": n, "kind": format!("k{}", n % 3)})).collect();
    let began = Instant::now();
    acme.post("/jobs", jobs.into()).await.is(201);
    let workers = (0..6).map(|n| {
        let worker = Worker::new(&nodes[n % nodes.len()].admin().of_tenant("acme"), "w");
        async move {
            // Nothing for a long poll: there is nothing left.
            loop {
                let leases = worker.lease_many(json!({"max": 3, "wait_s": 3})).await;
                if leases.is_empty() {
                    return;
                }
                for lease in leases {
                    // Some start twice: that counts twice.
                    match lease.attempt() == 1 && lease.id().ends_with(['0', '1', '2', '3']) {
                        true => {
                            let failure = json!({"error": "again", "retry_after_s": 0});
                            lease.post("fail", failure).await.is(200)
                        }
                        false => lease.complete(json!(1)).await.is(200),
                    };
                }
            }
        }
    });
    join_all(workers).await;
    let took = began.elapsed();
    let starts = starts(&acme).await;
    assert!(starts.len() >= JOBS);
    assert_within_rate(&starts, RATE);
    // A burst, then one after the other; and the long poll that found nothing. Lanes that came back only by the
    // slow resync would need many times that.
    let due = starts.len() as f64 / RATE;
    assert!(took.as_secs_f64() < due + 3.0 + 9.0, "{} starts took {took:?}", starts.len());
}

async fn a_source_at_its_rate_says_so_and_goes_on_once_it_may(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = api.source("stripe").await;
    let jobs = send(&gateway, &source, 3).await;
    // A start every hundred seconds.
    let path = format!("/sources/{}", source.id);
    api.patch(&path, json!({"rate_per_s": 0.01})).await.is(200);
    let worker = gateway.worker("ada");
    let first = worker.wait().await;
    assert_eq!(first.id(), jobs[0]);
    assert!(worker.lease().await.is_none());
    waits_for(&api, &jobs[1], "source_rate").await;
    first.complete(json!(1)).await.is(200);
    assert!(worker.lease().await.is_none(), "an end is no start");
    // A worker that waits already gets the next as soon as it may start.
    let next = tokio::spawn(async move { worker.lease_many(json!({"wait_s": 20})).await });
    api.patch(&path, json!({"rate_per_s": null})).await.is(200);
    let changed = Instant::now();
    let leases = next.await.expect("a worker");
    assert_eq!(leases.len(), 1);
    assert!(changed.elapsed() < Duration::from_secs(10), "{:?}", changed.elapsed());
}

async fn pushed_jobs_and_jobs_within_a_request_keep_to_the_rate(database: Database) {
    const RATE: f64 = 4.0;
    const JOBS: usize = 12;
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let agent = Receiver::start(|_| Reply::new(200, "{}")).await;
    for (slug, executor) in [
        ("pushed", json!({"kind": "http", "url": agent.url("/run")})),
        (
            "fired",
            json!({"kind": "self_webhook", "run": {"kind": "http", "url": agent.url("/run")}}),
        ),
    ] {
        admin.tenant(slug).await;
        let fields = json!({"rate_per_s": RATE, "default_executor": executor});
        admin.patch(&format!("/tenants/{slug}"), fields).await.is(200);
        let api = admin.of_tenant(slug);
        let jobs: Vec<Value> = (0..JOBS).map(|n| json!({"input": n})).collect();
        api.post("/jobs", jobs.into()).await.is(201);
        within(Duration::from_secs(15), "all have run", || async {
            (api.list("/jobs?status=succeeded").await.len() == JOBS).then_some(())
        })
        .await;
        assert_within_rate(&starts(&api).await, RATE);
    }
}

async fn a_spent_budget_makes_jobs_wait_until_it_is_changed(database: Database) {
    within_one_day().await;
    let nodes = Gateway::nodes(database).await;
    let (gateway, api) = (&nodes[0], nodes[0].admin());
    let source = api.source_with("stripe", json!({"budget": {"runs_per_day": 2}})).await;
    assert_eq!(source.made["budget"], json!({"runs_per_day": 2, "over": "wait"}));
    let jobs = send(gateway, &source, 4).await;
    let worker = nodes[nodes.len() - 1].worker("ada");
    for _ in 0..2 {
        worker.wait().await.complete(json!(1)).await.is(200);
    }
    assert!(worker.lease_many(json!({"wait_s": 1, "max": 9})).await.is_empty());
    for job in &jobs[2..] {
        waits_for(&api, job, "budget").await;
        assert_eq!(api.show_job(job).await["status"], "pending");
    }
    let path = format!("/sources/{}", source.id);
    let next = tokio::spawn({
        let worker = worker.clone();
        async move { worker.lease_many(json!({"wait_s": 20, "max": 9})).await }
    });
    api.patch(&path, json!({"budget": {"cost_per_day": 1.5}})).await.is(200);
    let mut leases = next.await.expect("a worker");
    // What runs already may cost more than is left: both were due before a cost was told.
    assert_eq!(leases.len(), 2);
    let lease = leases.remove(0);
    lease.post("complete", json!({"cost": 2.0})).await.is(200);
    send_one_more(gateway, &source, &api).await;
    assert!(worker.lease_many(json!({"wait_s": 1})).await.is_empty(), "the day's cost is reached");
}

async fn send_one_more(gateway: &Gateway, source: &Source, api: &Api) {
    let event = source.event("one more");
    let job = gateway.send(source, &event).await.is(202).text("job_id");
    waits_for(api, &job, "budget").await;
}

async fn a_budget_that_refuses_holds_what_is_over_it_and_an_operator_lets_it_go(
    database: Database,
) {
    within_one_day().await;
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let budget = json!({"budget": {"runs_per_day": 1, "over": "refuse"}});
    let source = api.source_with("stripe", budget).await;
    let jobs = send(&gateway, &source, 3).await;
    let worker = gateway.worker("ada");
    worker.wait().await.complete(json!(1)).await.is(200);
    for job in &jobs[1..] {
        let shown = until("it is held", || async {
            worker.lease_many(json!({"max": 9})).await;
            let shown = api.show_job(job).await;
            (shown["status"] == "held").then_some(shown)
        })
        .await;
        assert_eq!(
            (&shown["held_reason"], &shown["waiting_on"]),
            (&json!("budget"), &json!("operator"))
        );
    }
    let path = format!("/jobs/{}/release", jobs[1]);
    api.post(&path, json!({"note": "Ada: this one matters"})).await.is(200);
    let let_go = worker.wait().await;
    assert_eq!(let_go.id(), jobs[1]);
    // It stays let go, also through a retry.
    let_go.post("fail", json!({"error": "again", "retry_after_s": 0})).await.is(200);
    let again = worker.wait().await;
    assert_eq!(again.id(), jobs[1]);
    again.complete(json!(1)).await.is(200);
    assert_eq!(api.show_job(&jobs[2]).await["status"], "held");
    let stats = api.get("/stats").await.is(200).json();
    assert_eq!(stats["sources"][0]["budget"]["runs"], 3, "it is counted all the same: {stats}");
}

async fn a_jobs_cost_is_the_sum_of_what_its_runs_said_in_the_end(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let job = api.job().await;
    let worker = gateway.worker("ada");
    let first = worker.wait().await;
    for cost in [2, 5] {
        first.post("heartbeat", json!({"cost": cost})).await.is(200);
        assert_eq!(api.show_job(&job).await["cost"], f64::from(cost));
    }
    let failure = json!({"error": "again", "retry_after_s": 0, "cost": 7});
    first.post("fail", failure).await.is(200);
    assert_eq!(api.show_job(&job).await["cost"], 7.0);
    let second = worker.wait().await;
    second.post("heartbeat", json!({"cost": 1})).await.is(200);
    second.post("complete", json!({"cost": 3})).await.is(200);
    second.post("complete", json!({"cost": 3})).await.is(200);
    let shown = api.show_job(&job).await;
    assert_eq!(shown["cost"], 10.0);
    let costs: Vec<&Value> =
        shown["runs"].as_array().expect("runs").iter().map(|run| &run["cost"]).collect();
    assert_eq!(costs, [&json!(7.0), &json!(3.0)]);
}

async fn a_cost_that_cannot_be_one_is_refused(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let job = api.job().await;
    let lease = gateway.worker("ada").wait().await;
    for cost in [json!(-1), json!(1e13), json!("much")] {
        for (call, fields) in
            [("heartbeat", json!({})), ("complete", json!({})), ("fail", json!({"error": "e"}))]
        {
            let mut fields = fields;
            fields["cost"] = cost.clone();
            let answer = lease.post(call, fields).await;
            assert_eq!(answer.status, 422, "{call} {cost}");
        }
        let row =
            json!({"id": job, "lease_token": lease.token(), "outcome": "complete", "cost": cost});
        let answer = api.post("/jobs/finish", json!({"jobs": [row]})).await;
        let told = answer.status == 422 || answer.json()["jobs"][0]["ok"] == false;
        assert!(told, "{cost}");
    }
    assert_eq!(api.show_job(&job).await["cost"], Value::Null);
    lease.post("complete", json!({"cost": 0})).await.is(200);
}

async fn a_job_says_what_it_waits_for(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    admin.tenant("acme").await;
    let api = admin.of_tenant("acme");
    let worker = Worker::new(&api, "ada");
    let waits = |job: String| {
        let api = api.clone();
        async move { api.show_job(&job).await["waiting_on"].clone() }
    };
    let later = api.job_with(json!({"input": 1, "delay_s": 600})).await;
    assert_eq!(waits(later).await, "run_at");
    let job = |n: u32| json!({"input": n, "order_key": "customer 7"});
    let (first, second) = (api.job_with(job(1)).await, api.job_with(job(2)).await);
    assert_eq!(waits(first.clone()).await, "worker");
    assert_eq!(waits(second.clone()).await, "order_key");
    let lease = worker.wait().await;
    assert_eq!(waits(first.clone()).await, Value::Null, "it runs");
    admin.patch("/tenants/acme", json!({"concurrency": 1})).await.is(200);
    let third = api.job().await;
    // What ran before there was a bound does not count towards it.
    lease.complete(json!(1)).await.is(200);
    assert_eq!(waits(first).await, Value::Null, "it is done");
    let lease = worker.wait().await;
    waits_for(&api, if lease.id() == second { &third } else { &second }, "tenant_cap").await;
    lease.begin("mail").await.is(200);
    lease.post("fail", json!({"error": "e", "retry_after_s": 0})).await.is(200);
    let rates = json!({"concurrency": null, "rate_per_s": 0.01});
    admin.patch("/tenants/acme", rates).await.is(200);
    let lease = worker.wait().await;
    let other = api.job().await;
    waits_for(&api, &other, "tenant_rate").await;
    if lease.begin("mail").await.is(200).json()["decision"] == "in_doubt" {
        assert_eq!(waits(lease.id().to_owned()).await, "operator");
    }
    let pushed = json!({"input": 1, "executor": {"kind": "http", "url": "http://127.0.0.1:9/"}});
    let pushed = api.job_with(pushed).await;
    // All of a page at once, with one look at the counters.
    let listed: HashMap<String, Value> = api
        .list("/jobs")
        .await
        .into_iter()
        .map(|job| (job["id"].as_str().expect("an id").to_owned(), job["waiting_on"].clone()))
        .collect();
    assert_eq!(listed[&other], "tenant_rate");
    assert_eq!(listed[&pushed], "tenant_rate");
    admin.patch("/tenants/acme", json!({"rate_per_s": null})).await.is(200);
    waits_for(&api, &other, "worker").await;
}

async fn weighted_tenants_get_their_shares_and_a_lone_one_everything(database: Database) {
    const CLAIMS: usize = 1000;
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    for weight in 1..=10 {
        let slug = format!("t{weight}");
        let fields = json!({"slug": slug, "name": slug, "weight": weight});
        admin.post("/tenants", fields).await.is(201);
        let jobs: Vec<Value> = (0..250).map(|n| json!({"input": n})).collect();
        admin.of_tenant(&slug).post("/jobs", jobs.into()).await.is(201);
    }
    let worker = gateway.worker("ada");
    let mut got: HashMap<String, usize> = HashMap::new();
    let mut claims = 0;
    while claims < CLAIMS {
        let most = (CLAIMS - claims).min(37);
        let leases = worker.lease_many(json!({"max": most, "lease_s": 600, "wait_s": 5})).await;
        assert_eq!(leases.len(), most, "there is enough for everybody");
        claims += leases.len();
        for lease in leases {
            let tenant = lease.job["tenant"].as_str().expect("a tenant").to_owned();
            *got.entry(tenant).or_default() += 1;
        }
    }
    for weight in 1..=10 {
        let due = CLAIMS as f64 * f64::from(weight) / 55.0;
        let share = got[&format!("t{weight}")] as f64;
        assert!((share - due).abs() <= due * 0.1 + 1.0, "weight {weight}: {share} of {due}");
    }
    // Alone, the lightest gets all it asks for, at once.
    let lone = Worker::new(&admin.of_tenant("t1"), "bob");
    assert_eq!(lone.lease_many(json!({"max": 200, "wait_s": 5})).await.len(), 200);
}

async fn the_stats_show_how_the_queue_stands(database: Database) {
    within_one_day().await;
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let acme = admin.tenant("acme").await;
    admin.tenant("globex").await.job().await;
    admin.patch("/tenants/acme", json!({"concurrency": 5, "rate_per_s": 100})).await.is(200);
    let fields = json!({"name": "shop", "budget": {"runs_per_day": 10, "cost_per_day": 4}});
    let source = acme.source_with("stripe", fields).await;
    send(&gateway, &source, 3).await;
    acme.job_with(json!({"input": 1, "delay_s": 600, "priority": "batch"})).await;
    let lease = Worker::new(&acme, "ada").wait().await;
    lease.post("heartbeat", json!({"cost": 1.5})).await.is(200);
    let viewer = admin.role("viewer", "acme").await;
    let stats = viewer.get("/stats").await.is(200).json();
    assert_eq!((&stats["tenant"], &stats["at_least"]), (&json!("acme"), &json!(false)));
    let count = |kind: &str, word: &str| stats[kind][word]["count"].clone();
    for (state, expected) in [("pending", 2), ("running", 1), ("scheduled", 1), ("held", 0)] {
        assert_eq!(count("states", state), expected, "{state}");
    }
    assert_eq!(
        (count("priorities", "webhook"), count("priorities", "batch")),
        (json!(3), json!(1))
    );
    assert!(stats["states"]["pending"]["oldest_age_s"].is_u64());
    let lane = &stats["lanes"][0];
    assert_eq!((&lane["source"], &lane["ready"]), (&json!(source.id), &json!(2)));
    assert_eq!((&lane["running"], &lane["waiting"]), (&json!(1), &json!(0)));
    assert_eq!(stats["limits"], json!({"running": 1, "concurrency": 5, "rate_per_s": 100.0}));
    let shop = &stats["sources"][0];
    assert_eq!((&shop["name"], &shop["running"]), (&json!("shop"), &json!(1)));
    let budget = json!({"runs": 1, "runs_per_day": 10, "cost": 1.5, "cost_per_day": 4.0,
        "over": "wait", "spent": false});
    assert_eq!(shop["budget"], budget);
    assert_eq!(
        (&stats["workers"][0]["name"], &stats["workers"][0]["leases"]),
        (&json!("ada"), &json!(1))
    );
    let typed = gateway.client().with_tenant("acme").stats().await.expect("stats");
    assert_eq!(typed.states["pending"].count, 2);
    assert_eq!(typed.sources[0].budget.as_ref().map(|budget| budget.runs), Some(1));
}
