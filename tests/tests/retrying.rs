//! Retrying: a failed job is tried again, at last given up, and never lost; a stop is heard.

use std::time::Duration;

use serde_json::{Value, json};
use wakepost_domain::Timestamp;
use wakepost_tests::{Database, Gateway, now, on_both};

on_both!(
    a_failed_job_waits_and_is_tried_again_until_it_is_a_dead_letter,
    a_worker_can_say_that_trying_again_is_no_use,
    a_dead_letter_can_be_replayed_and_then_counts_no_more,
    a_replay_is_tried_as_often_as_its_job_was_to_be,
    what_fell_due_while_the_server_was_frozen_starts_at_once,
    work_of_an_unknown_kind_is_held_and_keeps_nothing_else,
    a_job_that_waits_is_cancelled_at_once,
    a_running_job_hears_of_its_cancellation_and_what_it_finished_first_counts,
);

fn at(value: &Value) -> Timestamp {
    value.as_str().expect("a time").parse().expect("a time")
}

async fn a_failed_job_waits_and_is_tried_again_until_it_is_a_dead_letter(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let policy = json!({"max_attempts": 3, "backoff_s": [0, 1]});
    let source = api.source_with("stripe", policy).await;
    let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
    let (event, id) = (sent.text("event_id"), sent.text("job_id"));
    let worker = gateway.worker("w");
    for attempt in 1..=3 {
        let lease = worker.wait().await;
        assert_eq!((lease.id(), lease.attempt()), (id.as_str(), attempt));
        let answer = lease.fail(&format!("no, {attempt}")).await.is(200).json();
        let expected = if attempt < 3 { "retrying" } else { "dead_letter" };
        assert_eq!(answer["status"], expected);
        assert_eq!(api.show_event(&event).await["status"], expected);
    }
    assert!(worker.lease_many(json!({"wait_s": 1})).await.is_empty());
    let shown = api.show_job(&id).await;
    assert_eq!((&shown["attempts"], &shown["last_error"]), (&json!(3), &json!("no, 3")));
    let runs = shown["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 3);
    // The second failure waited a second, give or take half of it.
    let mut started: Vec<_> = runs.iter().map(|run| at(&run["started_at"])).collect();
    let mut ended: Vec<_> = runs.iter().map(|run| at(&run["ended_at"])).collect();
    started.sort();
    ended.sort();
    assert!(started[2].since(ended[1]) >= Duration::from_millis(500));

    // Without a policy of the source's own the first wait is about ten seconds.
    let id = api.job().await;
    worker.wait().await.fail("no").await.is(200);
    let shown = api.show_job(&id).await;
    assert_eq!(shown["status"], "retrying");
    let wait = at(&shown["run_at"]).since(now());
    assert!((Duration::from_secs(3)..Duration::from_secs(16)).contains(&wait), "{wait:?}");
}

async fn a_worker_can_say_that_trying_again_is_no_use(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let worker = gateway.worker("w");
    let given_up = api.job().await;
    let lease = worker.wait().await;
    let failure = json!({"error": "no such customer", "retryable": false});
    let answer = lease.post("fail", failure).await.is(200);
    assert_eq!(answer.json()["status"], "dead_letter");

    let later = api.job().await;
    let lease = worker.wait().await;
    let failure = json!({"error": "come back later", "retry_after_s": 3600});
    lease.post("fail", failure).await.is(200);
    let shown = api.show_job(&later).await;
    assert_eq!(shown["status"], "retrying");
    let wait = at(&shown["run_at"]).since(now());
    assert!(wait > Duration::from_secs(3500), "{wait:?}");

    let letters = api.list("/dead-letters").await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0]["id"], given_up);
    assert_eq!(letters[0]["last_error"], "no such customer");
    api.get(&format!("/dead-letters/{later}")).await.refuses(404, "not_found");
}

async fn a_dead_letter_can_be_replayed_and_then_counts_no_more(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = api.source_with("stripe", json!({"max_attempts": 1})).await;
    let event = source.event("e-1");
    let sent = gateway.send(&source, &event).await.is(202);
    let (event_id, id) = (sent.text("event_id"), sent.text("job_id"));
    let worker = gateway.worker("w");
    worker.wait().await.fail("no").await.is(200);
    let shown = api.get(&format!("/dead-letters/{id}")).await.is(200).json();
    assert_eq!(shown["status"], "dead_letter");

    let replay = format!("/dead-letters/{id}/replay");
    api.post(&replay, json!({})).await.refuses_field("note");
    let note = json!({"note": "it is repaired"});
    let new = api.post(&replay, note.clone()).await.is(202).text("job_id");
    assert!(api.list("/dead-letters").await.is_empty());
    assert_eq!(api.show_event(&event_id).await["status"], "pending");
    // What was replayed is done with.
    api.post(&replay, note).await.is(409);
    // The provider's own repeat still makes no second job.
    gateway.send(&source, &event).await.is(200);
    let lease = worker.wait().await;
    assert_eq!(lease.id(), new);
    lease.complete(json!(1)).await.is(200);
    assert_eq!(api.show_event(&event_id).await["status"], "succeeded");
    assert_eq!(api.list("/jobs").await.len(), 2);
}

async fn a_job_that_waits_is_cancelled_at_once(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let pending = api.job().await;
    let scheduled = api.job_with(json!({"input": 1, "delay_s": 3600})).await;
    assert_eq!(api.show_job(&scheduled).await["status"], "scheduled");
    for id in [&pending, &scheduled] {
        let path = format!("/jobs/{id}/cancel");
        let answer = api.post(&path, json!({"note": "not needed"})).await.is(200);
        assert_eq!(answer.json()["status"], "cancelled");
        assert_eq!(api.show_job(id).await["status"], "cancelled");
        api.post(&path, json!({})).await.refuses(409, "invalid_state");
    }
    assert!(gateway.worker("w").lease_many(json!({"wait_s": 1})).await.is_empty());
    let release = format!("/jobs/{pending}/release");
    let note = json!({"note": "n"});
    api.post(&release, note).await.refuses(409, "invalid_state");
}

async fn a_running_job_hears_of_its_cancellation_and_what_it_finished_first_counts(
    database: Database,
) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let worker = gateway.worker("w");
    let cancel = |id: String| {
        let api = api.clone();
        async move { api.post(&format!("/jobs/{id}/cancel"), json!({})).await.is(200).json() }
    };
    let obedient = api.job().await;
    let lease = worker.wait().await;
    lease.begin("before").await.is(200);
    let beat = lease.heartbeat().await.is(200).json();
    assert_eq!(beat["cancel_requested"], false);
    assert_eq!(cancel(obedient.clone()).await["status"], "running");
    let beat = lease.heartbeat().await.is(200).json();
    assert_eq!(beat["cancel_requested"], true);
    lease.begin("after").await.refuses(409, "cancel_requested");
    // What was begun may still be told.
    lease.commit("before", json!(1)).await.is(200);
    let answer = lease.fail("stopped").await.is(200);
    assert_eq!(answer.json()["status"], "cancelled");
    assert_eq!(api.show_job(&obedient).await["status"], "cancelled");

    let quick = api.job().await;
    let lease = worker.wait().await;
    cancel(quick.clone()).await;
    let answer = lease.complete(json!("done")).await.is(200);
    assert_eq!(answer.json()["status"], "succeeded");
    assert_eq!(api.show_job(&quick).await["status"], "succeeded");

    // One that is silent is cancelled when its lease runs out, and not tried again.
    let silent = api.job().await;
    let lease = worker.wait_with(json!({"lease_s": 1})).await;
    cancel(silent.clone()).await;
    wakepost_tests::until("it is cancelled", || async {
        (api.show_job(&silent).await["status"] == "cancelled").then_some(())
    })
    .await;
    lease.complete(json!(1)).await.refuses(409, "lease_lost");
}

async fn a_replay_is_tried_as_often_as_its_job_was_to_be(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let worker = gateway.worker("w");
    let id = api.job_with(json!({"input": 1, "max_attempts": 1})).await;
    worker.wait().await.fail("no").await.is(200);
    let note = json!({"note": "ann: fixed"});
    let new = api.post(&format!("/jobs/{id}/replay"), note).await.is(202).text("job_id");
    assert_eq!(api.show_job(&new).await["max_attempts"], 1);
    worker.wait().await.fail("no").await.is(200);
    assert_eq!(api.show_job(&new).await["status"], "dead_letter");
}

async fn what_fell_due_while_the_server_was_frozen_starts_at_once(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let id = api.job_with(json!({"input": 1, "delay_s": 3})).await;
    gateway.pause().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    gateway.resume();
    let began = std::time::Instant::now();
    let lease = gateway.worker("w").wait().await;
    assert_eq!(lease.id(), id);
    // Without a look further back it waits for the next look at all lanes, every twenty seconds.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

async fn work_of_an_unknown_kind_is_held_and_keeps_nothing_else(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let strange = api.job_with(json!({"input": 1, "kind": "strange"})).await;
    let plain = api.job_with(json!({"input": 1, "kind": "plain"})).await;
    // As a newer program would have made it.
    let of_strange = "(SELECT id FROM lanes WHERE name = 'strange')";
    gateway.execute(&format!("UPDATE work SET kind = 99 WHERE lane = {of_strange}")).await;
    gateway.execute("UPDATE lanes SET kind = 99 WHERE name = 'strange'").await;
    let mut gateway = gateway;
    gateway.restart().await;
    let api = gateway.admin();
    let lease = gateway.worker("w").wait().await;
    assert_eq!(lease.id(), plain);
    let shown = wakepost_tests::until("it is held", || async {
        let shown = api.show_job(&strange).await;
        (shown["status"] == "held").then_some(shown)
    })
    .await;
    assert_eq!((&shown["held_reason"], &shown["attempts"]), (&json!("unknown_kind"), &json!(0)));
    assert_eq!(api.list("/jobs").await.len(), 2);
}
