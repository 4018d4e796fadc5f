//! Pre-flight: a job that its source no longer wants ends before an agent is called.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use wakepost_domain::Timestamp;
use wakepost_providers::{Check, Request, registry};
use wakepost_tests::{Api, Database, Gateway, Receiver, Reply, Seen, Worker, now, on_both, until};

on_both!(
    a_pulled_job_is_asked_about_before_a_worker_gets_it,
    a_worker_gets_other_jobs_in_place_of_those_that_are_stale,
    a_waiting_worker_waits_on_past_a_stale_job,
    a_pushed_job_is_asked_about_before_its_agent_is_called,
    a_preflight_that_fails_is_a_failed_attempt,
    a_slow_preflight_does_not_eat_into_the_workers_lease,
    a_slow_preflight_costs_the_other_jobs_of_a_call_nothing,
    a_job_that_was_superseded_while_it_ran_is_not_run_again,
    only_addresses_that_may_be_reached_are_asked,
);

async fn job_is(api: &Api, id: &str, status: &str) -> Value {
    until(&format!("the job is {status}"), || async {
        let shown = api.show_job(id).await;
        (shown["status"] == status).then_some(shown)
    })
    .await
}

/// Answers by the id of the event that is asked about.
fn verdict(seen: &Seen) -> Reply {
    let job = seen.json();
    match job["envelope"]["data"]["id"].as_str().unwrap_or_default() {
        id if id.starts_with("stale") => {
            Reply::new(200, json!({"proceed": false, "reason": "the ticket is closed"}))
        }
        id if id.starts_with("empty") => Reply::new(204, ""),
        id if id.starts_with("broken") => Reply::new(200, "rubbish"),
        id if id.starts_with("vague") => Reply::new(200, "{}"),
        id if id.starts_with("down") => Reply::new(503, "later"),
        id if id.starts_with("moved") => Reply::new(302, "").with_header("location", "/elsewhere"),
        id if id.starts_with("large") => Reply::new(200, " ".repeat(70_000)),
        _ => Reply::new(200, json!({"proceed": true, "more": 1})),
    }
}

/// Whether a request is signed with the secret, as Standard Webhooks has it.
fn is_signed(seen: &Seen, secret: &str) -> bool {
    let provider = registry::find("standard-webhooks").expect("the provider");
    let url = format!("http://receiver{}", seen.path);
    let request = Request {
        method: &seen.method,
        url: &url,
        headers: &seen.headers,
        body: &seen.body,
        fetched: None,
    };
    let now: Timestamp = now();
    let tolerance = std::time::Duration::from_secs(300);
    let check = Check { secrets: &[secret], settings: &Default::default(), now, tolerance };
    provider.verify(&request, &check).is_ok()
}

async fn a_pulled_job_is_asked_about_before_a_worker_gets_it(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let asked = Receiver::start(verdict).await;
    let fields =
        json!({"provider": "stripe", "secret": "whsec_x", "preflight_url": asked.url("/go")});
    let made = api.post("/sources", fields).await.is(201).json();
    let secret = made["executor_secret"].as_str().expect("a secret, once").to_owned();
    let id = made["id"].as_str().expect("an id");
    let shown = api.get(&format!("/sources/{id}")).await.is(200).json();
    assert_eq!(shown["preflight_url"], asked.url("/go"));
    assert!(shown.get("executor_secret").is_none());
    let source = api.source_with("stripe", json!({"preflight_url": asked.url("/go")})).await;
    let secret_of =
        api.patch(&format!("/sources/{}", source.id), json!({"name": "n"})).await.is(200);
    assert!(
        secret_of.json().get("executor_secret").is_none(),
        "it was shown where the URL was set"
    );

    let worker = Worker::new(&api, "ada");
    let test = json!({"event_type": "invoice.paid"});
    let tried = api.post(&format!("/sources/{id}/test"), test).await.is(200).json();
    let lease = worker.wait().await;
    assert_eq!(lease.id(), tried["body"]["job_id"]);
    let seen = asked.wait("/go", 1).await.remove(0);
    assert!(is_signed(&seen, &secret) && !is_signed(&seen, "whsec_b3RoZXI="));
    let told = seen.json();
    assert_eq!((&told["id"], &told["run_id"]), (&lease.job["id"], &lease.job["run_id"]));
    assert_eq!(told["envelope"], lease.job["envelope"]);
    assert!(told.get("lease_token").is_none(), "who is asked does not work on it");
    assert!(!String::from_utf8_lossy(&seen.body).contains(lease.token()));
    assert!(seen.headers.get("wakepost-lease-token").is_none());
    lease.complete(json!(1)).await.is(200);
}

async fn a_worker_gets_other_jobs_in_place_of_those_that_are_stale(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let asked = Receiver::start(verdict).await;
    let source = api.source_with("stripe", json!({"preflight_url": asked.url("/go")})).await;
    let send =
        async |id: &str| gateway.send(&source, &source.event(id)).await.is(202).text("job_id");
    let stale = [send("stale-1").await, send("stale-2").await];
    let (fresh, empty) = (send("e-1").await, send("empty-1").await);
    let plain = api.job().await;
    let worker = Worker::new(&api, "ada");
    // Without a wait, too.
    let mut got = Vec::new();
    while let Some(lease) = worker.lease().await {
        got.push(lease.id().to_owned());
        lease.complete(json!(1)).await.is(200);
    }
    got.sort();
    let mut wanted = [fresh, empty, plain.clone()];
    wanted.sort();
    assert_eq!(got, wanted);
    for job in &stale {
        let shown = api.show_job(job).await;
        assert_eq!(
            (&shown["status"], &shown["last_error"]),
            (&json!("cancelled"), &json!("the ticket is closed"))
        );
        assert_eq!(shown["runs"][0]["outcome"], "cancelled");
    }
    let about = asked.seen("/go").iter().any(|seen| seen.json()["id"] == plain);
    assert!(!about, "a job without a source has no pre-flight");

    // Many at once.
    let more = [send("e-2").await, send("stale-3").await, send("e-3").await];
    let leases = worker.lease_many(json!({"max": 10})).await;
    let ids: Vec<&str> = leases.iter().map(|lease| lease.id()).collect();
    assert_eq!(ids, [&more[0], &more[2]]);
}

async fn a_waiting_worker_waits_on_past_a_stale_job(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let asked = Receiver::start(verdict).await;
    let source = api.source_with("stripe", json!({"preflight_url": asked.url("/go")})).await;
    let worker = Worker::new(&api, "ada");
    let waiting = tokio::spawn(async move { worker.wait().await.id().to_owned() });
    let stale = gateway.send(&source, &source.event("stale-1")).await.is(202).text("job_id");
    job_is(&api, &stale, "cancelled").await;
    let good = gateway.send(&source, &source.event("e-1")).await.is(202).text("job_id");
    assert_eq!(waiting.await.expect("a job"), good);
}

async fn a_pushed_job_is_asked_about_before_its_agent_is_called(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let asked = Receiver::start(verdict).await;
    let agent = Receiver::start(|_| Reply::new(200, "{}")).await;
    let http = json!({"kind": "http", "url": agent.url("/run")});
    for executor in [http.clone(), json!({"kind": "self_webhook", "run": http})] {
        let fields = json!({"preflight_url": asked.url("/go"), "executor": executor});
        let source = api.source_with("stripe", fields).await;
        let before = agent.seen("/run").len();
        let stale = gateway.send(&source, &source.event("stale-1")).await.is(202).text("job_id");
        let shown = job_is(&api, &stale, "cancelled").await;
        assert_eq!(shown["last_error"], "the ticket is closed");
        let good = gateway.send(&source, &source.event("e-1")).await.is(202).text("job_id");
        job_is(&api, &good, "succeeded").await;
        let called = agent.seen("/run");
        assert_eq!(called.len(), before + 1, "for the good one alone");
        assert_eq!(called[before].json()["id"], good);
    }
}

async fn a_preflight_that_fails_is_a_failed_attempt(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let asked = Receiver::start(verdict).await;
    let source = api.source_with("stripe", json!({"preflight_url": asked.url("/go")})).await;
    let worker = Worker::new(&api, "ada");
    for (id, error) in [
        ("down-1", "pre-flight: it was answered 503"),
        ("moved-1", "pre-flight: it was answered 302"),
        ("broken-1", "pre-flight: the answer is not"),
        ("vague-1", "pre-flight: the answer is not"),
        ("large-1", "pre-flight: "),
    ] {
        let job = gateway.send(&source, &source.event(id)).await.is(202).text("job_id");
        assert!(worker.lease().await.is_none(), "{id}");
        let shown = api.show_job(&job).await;
        assert_eq!((&shown["status"], &shown["attempts"]), (&json!("retrying"), &json!(1)), "{id}");
        let said = shown["last_error"].as_str().expect("an error");
        assert!(said.starts_with(error), "{said}");
    }
    assert!(asked.seen("/elsewhere").is_empty(), "a redirect is not followed");
    let nobody = json!({"preflight_url": "http://127.0.0.1:1/go", "max_attempts": 1});
    let source = api.source_with("stripe", nobody).await;
    let job = gateway.send(&source, &source.event("e-1")).await.is(202).text("job_id");
    assert!(worker.lease().await.is_none());
    assert_eq!(api.show_job(&job).await["status"], "dead_letter");
}

async fn a_slow_preflight_does_not_eat_into_the_workers_lease(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let count = AtomicUsize::new(0);
    let asked = Receiver::start(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(2500));
        }
        Reply::new(200, json!({"proceed": true}))
    })
    .await;
    let source = api.source_with("stripe", json!({"preflight_url": asked.url("/go")})).await;
    let job = gateway.send(&source, &source.event("e-1")).await.is(202).text("job_id");
    // The check takes longer than the lease.
    let lease = Worker::new(&api, "ada").wait_with(json!({"lease_s": 1})).await;
    assert_eq!((lease.id(), lease.attempt()), (job.as_str(), 1));
    lease.complete(json!(1)).await.is(200);
}

async fn only_addresses_that_may_be_reached_are_asked(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    admin.tenant("acme").await;
    let asked = Receiver::start(verdict).await;
    let api = admin.role("operator", "acme").await;
    for url in [asked.url("/go").as_str(), "https://10.0.0.1/", "http://example.com/", "rubbish"] {
        let fields = json!({"provider": "stripe", "preflight_url": url});
        api.post("/sources", fields).await.refuses_field("preflight_url");
    }
    let source = api.source("stripe").await;
    let change = json!({"preflight_url": asked.url("/go")});
    api.patch(&format!("/sources/{}", source.id), change).await.refuses_field("preflight_url");
    assert!(asked.seen("/go").is_empty());
}

async fn a_slow_preflight_costs_the_other_jobs_of_a_call_nothing(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let asked = Receiver::start(|seen| {
        if seen.json()["envelope"]["data"]["id"] == "slow" {
            std::thread::sleep(std::time::Duration::from_millis(3500));
        }
        Reply::new(200, json!({"proceed": true}))
    })
    .await;
    let source = api.source_with("stripe", json!({"preflight_url": asked.url("/go")})).await;
    for id in ["slow", "quick"] {
        gateway.send(&source, &source.event(id)).await.is(202);
    }
    let plain = api.job().await;
    // Leases far shorter than the slowest check, also of a job that nobody asks about.
    let leases = Worker::new(&api, "ada").lease_many(json!({"max": 10, "lease_s": 1})).await;
    assert_eq!(leases.len(), 3);
    assert!(leases.iter().any(|lease| lease.id() == plain));
    for lease in &leases {
        assert_eq!(lease.attempt(), 1);
        lease.complete(json!(1)).await.is(200);
    }
}

async fn a_job_that_was_superseded_while_it_ran_is_not_run_again(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let fields = json!({"coalesce_by": "/data/object/id", "backoff_s": [0]});
    let source = api.source_with("stripe", fields).await;
    let worker = Worker::new(&api, "ada");
    let send = async |id: &str| {
        let body = json!({"id": id, "type": "invoice.updated",
            "data": {"object": {"object": "invoice", "id": "in_1"}}});
        let event = source.event(id).with_body(body.to_string());
        gateway.send(&source, &event).await.is(202).text("job_id")
    };
    let old = send("e-1").await;
    let running = worker.wait().await;
    let new = send("e-2").await;
    running.fail("lost the thread").await.is(200);
    let lease = worker.wait().await;
    assert_eq!(lease.id(), new);
    lease.complete(json!(1)).await.is(200);
    assert!(worker.lease_many(json!({"wait_s": 1})).await.is_empty());
    let shown = job_is(&api, &old, "cancelled").await;
    assert_eq!(shown["superseded_by"], json!(new));
    assert_eq!(shown["last_error"], json!(format!("superseded by {new}")));
}
