//! Effects: what was committed never happens again, and what is in doubt is never silently repeated.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wakepost_client::worker::{self, ActError, JobContext, Settings, Stop};
use wakepost_client::{Completion, Failure};
use wakepost_tests::{Api, Database, Gateway, Lease, on_both, until, within};

on_both!(
    an_effect_committed_before_a_crash_is_skipped_after_it_with_its_result,
    an_effect_begun_and_lost_in_a_crash_holds_the_job_until_an_operator_decides,
    an_effect_in_doubt_is_done_again_only_if_its_owner_said_that_is_safe,
    an_effect_asked_for_again_in_the_same_run_gets_the_same_answer,
    a_replay_skips_what_was_committed_and_a_fresh_one_does_not,
    an_effect_through_the_sdk_happens_once_however_often_its_job_runs,
);

/// Long enough to begin an effect on a busy machine, short enough to wait for its end.
const SHORT: u64 = 2;

/// Makes a call with the lease's token that the server does not live to answer.
async fn dies_on(gateway: &mut Gateway, lease: &Lease, path: &str, mut fields: Value) {
    fields["lease_token"] = lease.token().into();
    let path = format!("/jobs/{}/{path}", lease.id());
    let call = gateway.admin();
    let call = call.try_call(Method::POST, &path, HeaderMap::new(), Some(&fields)).await;
    call.expect_err("the server dies");
    gateway.ended().await;
}

async fn an_effect_committed_before_a_crash_is_skipped_after_it_with_its_result(
    database: Database,
) {
    let mut gateway = Gateway::start(database).await;
    let id = gateway.admin().job().await;
    gateway.restart_with("effect.after_commit=kill").await;
    let first = gateway.worker("first").wait_with(json!({"lease_s": SHORT})).await;
    let begun = first.begin("mail:welcome").await.is(200).json();
    assert_eq!(begun["decision"], "execute");
    let result = json!({"result": {"message_id": "m-1"}});
    dies_on(&mut gateway, &first, "effects/mail:welcome/commit", result).await;

    gateway.restart().await;
    let second = gateway.worker("second").wait().await;
    assert_eq!((second.id(), second.attempt()), (id.as_str(), 2));
    let again = second.begin("mail:welcome").await.is(200).json();
    assert_eq!(again["decision"], "skip");
    assert_eq!(again["result"], json!({"message_id": "m-1"}));
    assert_eq!(again["idempotency_key"], begun["idempotency_key"]);
    // Committed is committed: it can be neither undone nor changed.
    second.abort("mail:welcome", "no").await.is(409);
    let shown = gateway.admin().show_job(&id).await;
    assert_eq!(shown["effects"][0]["state"], "committed");
    assert_eq!(shown["effects"][0]["result"], json!({"message_id": "m-1"}));
    second.complete(json!({})).await.is(200);
}

/// Waits until a job's short lease has run out and it is free again.
async fn freed(api: &Api, id: &str) {
    within(std::time::Duration::from_secs(10), "the lease runs out", || async {
        (api.show_job(id).await["status"] == "retrying").then_some(())
    })
    .await;
}

async fn an_effect_begun_and_lost_in_a_crash_holds_the_job_until_an_operator_decides(
    database: Database,
) {
    let mut gateway = Gateway::start(database).await;
    let crashed = gateway.admin().job_with(json!({"kind": "crashed", "input": 1})).await;
    gateway.restart_with("effect.after_begin=kill").await;
    let lease = gateway.worker("first").wait_with(json!({"lease_s": SHORT})).await;
    dies_on(&mut gateway, &lease, "effects", json!({"key": "charge"})).await;
    gateway.restart().await;
    let api = gateway.admin();
    let worker = gateway.worker("second");

    // A worker that just went away leaves the same doubt.
    let left = api.job_with(json!({"kind": "left", "input": 1})).await;
    let lease = worker.wait_with(json!({"kinds": ["left"], "lease_s": SHORT})).await;
    lease.begin("charge").await.is(200);
    freed(&api, &left).await;

    for (id, kind) in [(&crashed, "crashed"), (&left, "left")] {
        let lease = worker.wait_with(json!({"kinds": [kind]})).await;
        assert_eq!((lease.id(), lease.attempt()), (id.as_str(), 2));
        let doubt = lease.begin("charge").await.is(200).json();
        assert_eq!(doubt["decision"], "in_doubt");
        // The run has ended, and it does not count.
        lease.heartbeat().await.refuses(409, "lease_lost");
        let held = api.show_job(id).await;
        assert_eq!((&held["status"], &held["held_reason"]), (&json!("held"), &json!("in_doubt")));
        assert_eq!(held["attempts"], 1);
        assert_eq!(held["effects"][0]["state"], "in_doubt");
        assert_eq!(held["next_action"], "1 effect in doubt: decide before retrying");
    }
    assert!(worker.lease().await.is_none());
    let path = |id: &str| format!("/jobs/{id}/effects/charge/resolve");
    let outcome = json!({"outcome": "committed"});
    api.post(&path(&crashed), outcome).await.refuses_field("note");
    let unknown = json!({"outcome": "committed", "note": "n"});
    api.post(&format!("/jobs/{crashed}/effects/other/resolve"), unknown).await.is(404);

    let committed = json!({"outcome": "committed", "result": "ch_1", "note": "it is on the bill"});
    let answer = api.post(&path(&crashed), committed).await.is(200);
    assert_eq!(answer.json()["status"], "pending");
    let lease = worker.wait_with(json!({"kinds": ["crashed"]})).await;
    let begun = lease.begin("charge").await.is(200).json();
    assert_eq!((&begun["decision"], &begun["result"]), (&json!("skip"), &json!("ch_1")));
    lease.complete(json!({})).await.is(200);

    let not_done = json!({"outcome": "not_done", "note": "it is not on the bill"});
    api.post(&path(&left), not_done.clone()).await.is(200);
    let lease = worker.wait_with(json!({"kinds": ["left"]})).await;
    assert_eq!(lease.begin("charge").await.is(200).json()["decision"], "execute");
    lease.commit("charge", json!("ch_2")).await.is(200);
    lease.complete(json!({})).await.is(200);
    // There is no doubt any more.
    api.post(&path(&left), not_done).await.is(409);

    let audit = api.list("/audit").await;
    let notes: Vec<_> = audit
        .iter()
        .filter(|row| row["action"] == "effect.resolve")
        .map(|row| row["note"].as_str().expect("a note"))
        .collect();
    assert_eq!(notes, ["it is not on the bill", "it is on the bill"]);
}

async fn an_effect_in_doubt_is_done_again_only_if_its_owner_said_that_is_safe(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let id = api.job().await;
    let worker = gateway.worker("w");
    let lease = worker.wait_with(json!({"lease_s": SHORT})).await;
    let safe = json!({"key": "upsert", "on_doubt": "execute", "description": "write the row"});
    let first = lease.post("effects", safe.clone()).await.is(200).json();
    freed(&api, &id).await;

    let lease = worker.wait().await;
    let again = lease.post("effects", safe).await.is(200).json();
    assert_eq!(again["decision"], "execute");
    assert_eq!(again["idempotency_key"], first["idempotency_key"]);
    lease.commit("upsert", json!(1)).await.is(200);
    lease.post("effects", json!({"key": "x", "on_doubt": "guess"})).await.refuses_field("on_doubt");
    lease.complete(json!({})).await.is(200);
    assert_eq!(api.show_job(&id).await["effects"][0]["description"], "write the row");
}

async fn an_effect_asked_for_again_in_the_same_run_gets_the_same_answer(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let id = api.job().await;
    let lease = gateway.worker("w").wait().await;
    let answers = join_all((0..20).map(|_| lease.begin("mail"))).await;
    let first = answers[0].json();
    for answer in answers {
        let answer = answer.is(200).json();
        assert_eq!(answer["decision"], "execute");
        assert_eq!(answer["idempotency_key"], first["idempotency_key"]);
    }
    let other = lease.begin("other").await.is(200).json();
    assert_ne!(other["idempotency_key"], first["idempotency_key"]);

    lease.abort("mail", "the address was refused").await.is(200);
    assert_eq!(api.show_job(&id).await["effects"][0]["state"], "aborted");
    assert_eq!(lease.begin("mail").await.is(200).json()["decision"], "execute");
    lease.commit("mail", json!({"n": 1})).await.is(200);
    lease.commit("mail", json!({"n": 1})).await.is(200);
    let skipped = lease.begin("mail").await.is(200).json();
    assert_eq!((&skipped["decision"], &skipped["result"]), (&json!("skip"), &json!({"n": 1})));
    // What was never begun cannot be committed.
    lease.commit("never", json!(1)).await.is(404);

    // A key may hold anything that can be written down.
    let odd = "mail/ü 1?#%";
    lease.begin(odd).await.is(200);
    lease.commit("mail%2F%C3%BC%201%3F%23%25", json!(2)).await.is(200);
    assert_eq!(lease.begin(odd).await.is(200).json()["decision"], "skip");
    lease.begin("").await.refuses_field("key");
}

async fn a_replay_skips_what_was_committed_and_a_fresh_one_does_not(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = gateway.with_source("stripe").await;
    let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
    let (event, id) = (sent.text("event_id"), sent.text("job_id"));
    let worker = gateway.worker("w");
    let lease = worker.wait().await;
    let replay = format!("/jobs/{id}/replay");
    let note = json!({"note": "the customer asked"});
    api.post(&replay, note.clone()).await.refuses(409, "invalid_state");
    let begun = lease.begin("charge").await.is(200).json();
    lease.commit("charge", json!("ch_1")).await.is(200);
    lease.complete(json!(1)).await.is(200);

    api.post(&replay, json!({})).await.refuses_field("note");
    let same = api.post(&replay, note).await.is(202).text("job_id");
    assert_ne!(same, id);
    assert_eq!(api.show_job(&id).await["replayed_as"], same);
    let lease = worker.wait().await;
    assert_eq!((lease.id(), lease.attempt()), (same.as_str(), 1));
    assert_eq!(lease.job["envelope"]["event_id"], event);
    let again = lease.begin("charge").await.is(200).json();
    assert_eq!((&again["decision"], &again["result"]), (&json!("skip"), &json!("ch_1")));
    lease.complete(json!(2)).await.is(200);

    let fresh = json!({"note": "charge once more", "scope": "fresh"});
    let fresh = api.post(&format!("/inbox/{event}/replay"), fresh).await.is(202);
    let lease = worker.wait().await;
    assert_eq!(lease.id(), fresh.text("job_id"));
    let anew = lease.begin("charge").await.is(200).json();
    assert_eq!(anew["decision"], "execute");
    assert_ne!(anew["idempotency_key"], begun["idempotency_key"]);
    lease.commit("charge", json!("ch_2")).await.is(200);
    lease.complete(json!(3)).await.is(200);

    let shown = api.show_event(&event).await;
    assert_eq!(shown["status"], "succeeded");
    assert_eq!(shown["work"].as_array().map(Vec::len), Some(3));
    let audit = api.list("/audit").await;
    let replays = audit.iter().filter(|row| row["action"] == "work.replay");
    let notes: Vec<_> = replays.map(|row| row["note"].as_str().expect("a note")).collect();
    assert_eq!(notes, ["charge once more", "the customer asked"]);
}

/// A job whose first run fails after its effect (every third), or whose effect first fails (every third).
async fn send_a_mail(
    job: JobContext,
    outside: Arc<Mutex<HashMap<String, u32>>>,
) -> Result<Completion, Stop> {
    let number = job.job().input["n"].as_u64().expect("a number");
    let first = job.job().attempt == 1;
    let sent: String = job
        .effect("mail", |key| async move {
            if first && number % 3 == 1 {
                return Err(ActError::NotDone("the mail server is full".to_owned()));
            }
            *outside.lock().expect("the world").entry(key).or_default() += 1;
            Ok(format!("message {number}"))
        })
        .await?;
    if first && number.is_multiple_of(3) {
        let error = "fell over after the mail".to_owned();
        return Err(Stop::Failed(Failure { error, ..Failure::default() }));
    }
    Ok(Completion { result: Some(sent.into()), ..Completion::default() })
}

async fn an_effect_through_the_sdk_happens_once_however_often_its_job_runs(database: Database) {
    const JOBS: usize = 24;
    let nodes = Gateway::nodes(database).await;
    let api = nodes[0].admin();
    api.patch("/tenants/default", json!({"backoff_s": [0]})).await.is(200);
    let jobs: Vec<Value> = (0..JOBS).map(|n| json!({"input": {"n": n}})).collect();
    api.post("/jobs", jobs.into()).await.is(201);

    let outside = Arc::new(Mutex::new(HashMap::new()));
    let stop = CancellationToken::new();
    let workers = nodes.iter().chain(&nodes).enumerate().map(|(n, node)| {
        let (client, world, stop) = (node.client(), outside.clone(), stop.clone());
        let mut settings = Settings::named(&format!("sdk-{n}"));
        settings.concurrency = 4;
        settings.wait = std::time::Duration::from_secs(1);
        tokio::spawn(async move {
            let mail = move |job: JobContext| send_a_mail(job, world.clone());
            worker::run(&client, &settings, mail, stop.cancelled_owned()).await
        })
    });
    let workers: Vec<_> = workers.collect();
    let done = until("every job is done", || async {
        let done = api.list("/jobs?status=succeeded").await;
        (done.len() == JOBS).then_some(done)
    })
    .await;
    stop.cancel();
    for worker in workers {
        worker.await.expect("the worker ends").expect("the worker ends well");
    }
    let outside = outside.lock().expect("the world").clone();
    assert_eq!(outside.len(), JOBS);
    assert!(outside.values().all(|count| *count == 1), "{outside:?}");
    let again = done.iter().filter(|job| job["attempts"] == 2).count();
    assert_eq!(again, JOBS / 3 * 2);
    for job in &done {
        let shown = api.show_job(job["id"].as_str().expect("an id")).await;
        let number = shown["input"]["n"].as_u64().expect("a number");
        assert_eq!(shown["result"], format!("message {number}"));
    }
}
