//! Cancelling: an event ends the jobs that wait for it, and all jobs of a subject can be given up at once.

use serde_json::{Value, json};
use wakepost_tests::{Database, Gateway, Source, on_both};

on_both!(
    a_follow_up_clears_itself_when_the_event_comes,
    a_running_job_learns_that_an_event_cancelled_it,
    an_event_lets_what_stood_behind_a_cancelled_job_go,
    all_jobs_of_a_subject_are_cancelled,
);

/// A source, and what its usual events are about.
async fn subject(gateway: &Gateway) -> (Source, String) {
    let source = gateway.with_source("github").await;
    let sent = gateway.send(&source, &source.event("first")).await.is(202);
    let job = gateway.admin().show_job(&sent.text("job_id")).await;
    let lease = gateway.worker("w").wait().await;
    lease.complete(json!({})).await.is(200);
    (source, job["subject"].as_str().expect("a subject").to_owned())
}

async fn a_follow_up_clears_itself_when_the_event_comes(database: Database) {
    let nodes = Gateway::nodes(database).await;
    let api = nodes[0].admin();
    let (source, subject) = subject(&nodes[0]).await;
    let follow_up = |on: &str, subject: &str| {
        json!({"kind": "follow-up", "input": 1, "delay_s": 14400, "subject": subject,
            "cancel_on": {"type": on}})
    };
    let exact = api.job_with(follow_up("issues.opened", &subject)).await;
    let pattern = api.job_with(follow_up("issues.*", &subject)).await;
    let closed = api.job_with(follow_up("issues.closed", &subject)).await;
    let other = api.job_with(follow_up("*", "github:issue:another")).await;
    let sent = nodes[nodes.len() - 1].send(&source, &source.event("second")).await.is(202);
    let event = sent.text("event_id");
    for job in [exact, pattern] {
        let job = api.show_job(&job).await;
        assert_eq!(job["status"], "cancelled");
        assert_eq!(job["last_error"], format!("cancelled by {event}"));
    }
    for job in [&closed, &other] {
        assert_eq!(api.show_job(job).await["status"], "scheduled");
    }
    let mut lost = follow_up("issues.*", &subject);
    lost["subject"] = Value::Null;
    let refused = api.post("/jobs", lost).await.refuses(422, "invalid_request").json();
    assert_eq!(refused["errors"][0]["field"], "subject");
    for bad in [json!({}), json!({"type": ""}), json!({"type": "a", "odd": 1}), json!("a")] {
        let mut job = follow_up("a", &subject);
        job["cancel_on"] = bad;
        api.post("/jobs", job).await.refuses(422, "invalid_request");
    }
}

async fn a_running_job_learns_that_an_event_cancelled_it(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let (source, subject) = subject(&gateway).await;
    let job = json!({"kind": "draft", "input": 1, "subject": subject, "cancel_on": {"type": "*"}});
    let id = api.job_with(job).await;
    let lease = gateway.worker("w").wait_with(json!({"kinds": ["draft"]})).await;
    gateway.send(&source, &source.event("second")).await.is(202);
    assert_eq!(lease.heartbeat().await.is(200).json()["cancel_requested"], true);
    lease.begin("mail").await.refuses(409, "cancel_requested");
    lease.fail("stopped").await.is(200);
    assert_eq!(api.show_job(&id).await["status"], "cancelled");
}

async fn an_event_lets_what_stood_behind_a_cancelled_job_go(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let (source, subject) = subject(&gateway).await;
    let mut first = json!({"kind": "k", "input": 1, "order_key": "o", "delay_s": 14400});
    first["subject"] = subject.as_str().into();
    first["cancel_on"] = json!({"type": "issues.*"});
    api.job_with(first).await;
    let second = api.job_with(json!({"kind": "k", "input": 2, "order_key": "o"})).await;
    let worker = gateway.worker("w");
    assert!(worker.lease_many(json!({"kinds": ["k"]})).await.is_empty());
    gateway.send(&source, &source.event("second")).await.is(202);
    let lease = worker.wait_with(json!({"kinds": ["k"]})).await;
    assert_eq!(lease.id(), second);
}

async fn all_jobs_of_a_subject_are_cancelled(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let subject = "zendesk:ticket:99102";
    let running = api.job_with(json!({"kind": "run", "input": 1, "subject": subject})).await;
    let lease = gateway.worker("w").wait().await;
    assert_eq!(lease.id(), running);
    let one = |n: usize| {
        let mut job = json!({"kind": "k", "input": n, "subject": subject});
        match n % 3 {
            0 => job["delay_s"] = 3600.into(),
            1 => job["order_key"] = "o".into(),
            _ => {}
        }
        job
    };
    let many: Vec<Value> = (0..250).map(one).collect();
    api.post("/jobs", many.into()).await.is(201);
    let behind = api.job_with(json!({"kind": "k", "input": 0, "order_key": "o"})).await;
    let other = api.job_with(json!({"input": 1, "subject": "zendesk:ticket:1"})).await;
    let acme = api.tenant("acme").await;
    let theirs = acme.job_with(json!({"input": 1, "subject": subject})).await;

    let body = json!({"subject": subject, "note": "Ada: solved by phone"});
    let done = api.post("/jobs/cancel", body).await.is(200).json();
    assert_eq!(done, json!({"subject": subject, "cancelled": 250, "requested": 1}));
    let live = api.list(&format!("/jobs?subject={subject}&status=pending")).await;
    assert!(live.is_empty(), "{live:?}");
    assert_eq!(lease.heartbeat().await.is(200).json()["cancel_requested"], true);
    let worker = gateway.worker("w");
    assert_eq!(worker.wait_with(json!({"kinds": ["k"]})).await.id(), behind, "it may go now");
    assert_eq!(api.show_job(&other).await["status"], "pending");
    assert_eq!(acme.show_job(&theirs).await["status"], "pending");
    let trail = api.list("/audit").await;
    let entries: Vec<&Value> =
        trail.iter().filter(|entry| entry["action"] == "jobs.cancel").collect();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["target"], subject);
    assert_eq!(entries[0]["note"], "Ada: solved by phone (250 cancelled, 1 asked to stop)");

    let again = api.post("/jobs/cancel", json!({"subject": "nobody:no:1"})).await.is(200).json();
    assert_eq!((&again["cancelled"], &again["requested"]), (&json!(0), &json!(0)));
    api.post("/jobs/cancel", json!({})).await.refuses(422, "invalid_request");
    api.post("/jobs/cancel", json!({"subject": ""})).await.refuses(422, "invalid_request");
}
