//! Approving: where a person must agree, nothing happens that nobody agreed to, and what was agreed to happens once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wakepost_client::Completion;
use wakepost_client::worker::{self, ActError, JobContext, Settings, Stop};
use wakepost_tests::{
    Answer, Api, Database, Gateway, Lease, Worker, on_both, until, webhookctl, within,
};

on_both!(
    an_approved_effect_is_executed_once_and_the_job_goes_on_from_its_checkpoint,
    a_rejected_job_is_cancelled_and_says_why,
    what_nobody_decides_on_in_time_is_cancelled_once,
    another_proposal_than_the_one_seen_is_not_decided_on_and_asks_again,
    a_stale_lease_cannot_use_an_approval,
    an_approved_effect_that_was_lost_in_a_crash_is_in_doubt,
    of_those_who_decide_at_once_one_has_the_word,
    a_jobs_own_mode_wins_and_a_source_that_is_switched_protects_what_runs,
    what_waits_for_a_person_blocks_its_order_key_until_it_is_rejected,
    a_place_that_was_given_up_for_a_person_is_anothers,
    a_worker_of_the_sdk_stops_at_a_proposal_and_acts_once_it_is_approved,
    the_command_line_shows_and_approves_what_waits,
);

const REFUND: &str = "refund 30 EUR to Ada";

/// A job that asks before it acts.
async fn draft(api: &Api, kind: &str) -> String {
    api.job_with(json!({"kind": kind, "input": 1, "mode": "draft"})).await
}

async fn begin(lease: &Lease, key: &str, description: &str) -> Answer {
    lease.post("effects", json!({"key": key, "description": description})).await
}

/// Proposes the refund; answers its hash.
async fn proposes(lease: &Lease) -> Value {
    let begun = begin(lease, "refund", REFUND).await.is(200).json();
    assert_eq!(begun["decision"], "needs_approval", "{begun}");
    begun["proposal_hash"].clone()
}

async fn decide(api: &Api, word: &str, id: &str, hash: &Value) -> Answer {
    let effects = json!([{"key": "refund", "proposal_hash": hash}]);
    let body = json!({"effects": effects, "note": "Grace: looked at the order"});
    api.post(&format!("/jobs/{id}/{word}"), body).await
}

/// A job whose refund was approved, and who works on it now.
async fn approved(api: &Api, worker: &Worker, fields: Value) -> Lease {
    let id = draft(api, "refund").await;
    let hash = proposes(&worker.wait().await).await;
    decide(api, "approve", &id, &hash).await.is(200);
    let lease = worker.wait_with(fields).await;
    assert_eq!(lease.id(), id);
    lease
}

async fn trail(api: &Api, action: &str) -> Vec<Value> {
    let audit = api.list("/audit").await;
    audit.into_iter().filter(|row| row["action"] == action).collect()
}

async fn an_approved_effect_is_executed_once_and_the_job_goes_on_from_its_checkpoint(
    database: Database,
) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = api.source_with("github", json!({"mode": "draft"})).await;
    let id = gateway.send(&source, &source.event("e-1")).await.is(202).text("job_id");
    let worker = gateway.worker("agent");
    let first = worker.wait().await;
    first.checkpoint(json!({"read": "the order"})).await.is(200);
    let hash = proposes(&first).await;
    // An answer that got lost: the same call gets the same answer, and no other call any.
    assert_eq!(proposes(&first).await, hash);
    begin(&first, "other", REFUND).await.refuses(409, "lease_lost");
    first.heartbeat().await.refuses(409, "lease_lost");
    first.complete(json!(1)).await.refuses(409, "lease_lost");

    let shown = api.show_job(&id).await;
    assert_eq!((&shown["status"], &shown["attempts"]), (&json!("awaiting_approval"), &json!(0)));
    assert_eq!(shown["next_action"], "1 effect waits for approval: approve or reject it");
    assert_eq!(shown["runs"][0]["outcome"], "awaiting_approval");
    let effect = &shown["effects"][0];
    assert_eq!((&effect["state"], &effect["description"]), (&json!("proposed"), &json!(REFUND)));
    assert_eq!((&effect["proposal_hash"], &effect["decided_by"]), (&hash, &Value::Null));
    assert!(effect["expires_at"].is_string());
    let waiting = api.list("/jobs?status=awaiting_approval").await;
    assert_eq!((waiting.len(), &waiting[0]["id"]), (1, &json!(id)));
    assert!(worker.lease().await.is_none());

    let operator = api.role("operator", "default").await;
    let answer = decide(&operator, "approve", &id, &hash).await.is(200);
    assert_eq!(answer.json(), json!({"id": id, "status": "pending"}));
    decide(&operator, "approve", &id, &hash).await.refuses(409, "invalid_state");
    let second = worker.wait().await;
    assert_eq!((second.id(), second.attempt()), (id.as_str(), 1));
    assert_eq!(second.job["checkpoint"], json!({"read": "the order"}));
    assert_eq!(begin(&second, "refund", REFUND).await.is(200).json()["decision"], "execute");
    second.commit("refund", json!("re_1")).await.is(200);
    assert_eq!(begin(&second, "refund", REFUND).await.is(200).json()["decision"], "skip");
    second.complete(json!(1)).await.is(200);
    let effect = &api.show_job(&id).await["effects"][0];
    assert_eq!(effect["state"], "committed");

    let trail = trail(&api, "effect.approve").await;
    assert_eq!((trail.len(), &trail[0]["actor"]), (1, &effect["decided_by"]));
    assert_eq!(trail[0]["target"], format!("{id} refund {}", hash.as_str().expect("a hash")));
    assert_eq!(trail[0]["note"], "Grace: looked at the order");
}

async fn a_rejected_job_is_cancelled_and_says_why(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let id = draft(&api, "refund").await;
    let hash = proposes(&gateway.worker("agent").wait().await).await;
    let answer = decide(&api, "reject", &id, &hash).await.is(200);
    assert_eq!(answer.json()["status"], "cancelled");
    let shown = api.show_job(&id).await;
    let error = shown["last_error"].as_str().expect("a reason");
    assert!(error.contains("Grace: looked at the order"), "{error}");
    assert_eq!(shown["effects"][0]["state"], "rejected");
    assert_eq!(trail(&api, "effect.reject").await.len(), 1);
    for word in ["approve", "reject"] {
        decide(&api, word, &id, &hash).await.refuses(409, "invalid_state");
    }
}

async fn what_nobody_decides_on_in_time_is_cancelled_once(database: Database) {
    let nodes = Gateway::nodes(database).await;
    let api = nodes[0].admin();
    let source = api.source_with("github", json!({"mode": "draft", "approval_expires_s": 1})).await;
    let id = nodes[0].send(&source, &source.event("e-1")).await.is(202).text("job_id");
    let hash = proposes(&nodes[0].worker("agent").wait().await).await;
    let shown = until("its time is over", || async {
        let shown = api.show_job(&id).await;
        (shown["status"] == "cancelled").then_some(shown)
    })
    .await;
    assert_eq!(shown["last_error"], "nobody decided in time on what it proposed");
    assert_eq!(shown["effects"][0]["state"], "rejected");
    decide(&api, "approve", &id, &hash).await.refuses(409, "invalid_state");
    let trail = trail(&api, "effect.expire").await;
    assert_eq!((trail.len(), &trail[0]["actor"]), (1, &json!("wakepost")));
}

async fn another_proposal_than_the_one_seen_is_not_decided_on_and_asks_again(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let worker = gateway.worker("agent");
    let lease = approved(&api, &worker, json!({})).await;
    let id = lease.id().to_owned();
    let changed = begin(&lease, "refund", "refund 3000 EUR to Ada").await.is(200).json();
    assert_eq!(changed["decision"], "needs_approval");
    let before = api.show_job(&id).await;
    let effects = [
        json!([{"key": "refund", "proposal_hash": "0".repeat(64)}]),
        json!([{"key": "refund", "proposal_hash": "rubbish"}]),
        json!([{"key": "other", "proposal_hash": changed["proposal_hash"]}]),
        json!([{"key": "refund", "proposal_hash": changed["proposal_hash"]},
               {"key": "other", "proposal_hash": "0".repeat(64)}]),
    ];
    for word in ["approve", "reject"] {
        let path = format!("/jobs/{id}/{word}");
        for effects in &effects {
            api.post(&path, json!({"effects": effects})).await.refuses(409, "proposal_changed");
        }
        api.post(&path, json!({"effects": []})).await.refuses_field("effects");
        api.post(&path, json!({})).await.refuses_field("effects");
        let twice = json!([{"key": "refund", "proposal_hash": changed["proposal_hash"]},
            {"key": "refund", "proposal_hash": changed["proposal_hash"]}]);
        api.post(&path, json!({"effects": twice})).await.refuses_field("effects.1.key");
    }
    assert_eq!(api.show_job(&id).await, before);
    let stranger = api.tenant("acme").await;
    decide(&stranger, "approve", &id, &changed["proposal_hash"]).await.refuses(404, "not_found");
    decide(&api, "approve", &id, &changed["proposal_hash"]).await.is(200);
    let lease = worker.wait().await;
    let again = begin(&lease, "refund", "refund 3000 EUR to Ada").await.is(200).json();
    assert_eq!(again["decision"], "execute");
    // What certainly did not happen is proposed anew.
    lease.abort("refund", "the bank is closed").await.is(200);
    proposes(&lease).await;
}

async fn a_stale_lease_cannot_use_an_approval(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let worker = gateway.worker("agent");
    let zombie = approved(&api, &worker, json!({"lease_s": 1})).await;
    let lease = worker.wait().await;
    assert_eq!(lease.id(), zombie.id());
    begin(&zombie, "refund", REFUND).await.refuses(409, "lease_lost");
    assert_eq!(begin(&lease, "refund", REFUND).await.is(200).json()["decision"], "execute");
    zombie.commit("refund", json!(1)).await.refuses(409, "lease_lost");
    lease.commit("refund", json!(2)).await.is(200);
}

async fn an_approved_effect_that_was_lost_in_a_crash_is_in_doubt(database: Database) {
    let mut gateway = Gateway::start(database).await;
    let lease = approved(&gateway.admin(), &gateway.worker("first"), json!({"lease_s": 3})).await;
    let id = lease.id().to_owned();
    gateway.restart_with("effect.after_begin=kill").await;
    let wish = json!({"lease_token": lease.token(), "key": "refund", "description": REFUND});
    let path = format!("/jobs/{id}/effects");
    let api = gateway.admin();
    let call = api.try_call(Method::POST, &path, HeaderMap::new(), Some(&wish)).await;
    call.expect_err("the server dies");
    gateway.ended().await;
    gateway.restart().await;

    let (api, worker) = (gateway.admin(), gateway.worker("second"));
    let lease = worker.wait().await;
    assert_eq!(begin(&lease, "refund", REFUND).await.is(200).json()["decision"], "in_doubt");
    assert_eq!(api.show_job(&id).await["status"], "held");
    let not_done = json!({"outcome": "not_done", "note": "it is not on the account"});
    api.post(&format!("{path}/refund/resolve"), not_done).await.is(200);
    // The approval was used up.
    proposes(&worker.wait().await).await;
}

async fn of_those_who_decide_at_once_one_has_the_word(database: Database) {
    let nodes = Gateway::nodes(database).await;
    let api = nodes[0].admin();
    let id = draft(&api, "refund").await;
    let hash = proposes(&nodes[0].worker("agent").wait().await).await;
    let words = (0..12).map(|n| {
        let api = nodes[n % nodes.len()].admin();
        let word = if n % 2 == 0 { "approve" } else { "reject" };
        let (id, hash) = (&id, &hash);
        async move { (word, decide(&api, word, id, hash).await) }
    });
    let answers = join_all(words).await;
    let (won, lost): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|(_, answer)| answer.status == 200);
    assert_eq!(won.len(), 1);
    for (_, answer) in lost {
        answer.refuses(409, "invalid_state");
    }
    let status = api.show_job(&id).await["status"].clone();
    assert_eq!(status, if won[0].0 == "approve" { "pending" } else { "cancelled" });
    let decided =
        trail(&api, "effect.approve").await.len() + trail(&api, "effect.reject").await.len();
    assert_eq!(decided, 1);
}

async fn a_jobs_own_mode_wins_and_a_source_that_is_switched_protects_what_runs(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let worker = gateway.worker("agent");
    let source = gateway.with_source("github").await;
    let path = format!("/sources/{}", source.id);
    assert_eq!(source.made["mode"], "auto");
    gateway.send(&source, &source.event("e-1")).await.is(202);
    let lease = worker.wait().await;
    assert_eq!(lease.begin("first").await.is(200).json()["decision"], "execute");
    let made = api.patch(&path, json!({"mode": "draft", "approval_expires_s": 60})).await.is(200);
    let made = made.json();
    assert_eq!((&made["mode"], &made["approval_expires_s"]), (&json!("draft"), &json!(60)));
    // What it was told before stands.
    assert_eq!(lease.begin("first").await.is(200).json()["decision"], "execute");
    lease.commit("first", json!(1)).await.is(200);
    proposes(&lease).await;
    api.patch(&path, json!({"mode": null})).await.is(200);
    gateway.send(&source, &source.event("e-2")).await.is(202);
    assert_eq!(worker.wait().await.begin("x").await.is(200).json()["decision"], "execute");

    api.patch(&path, json!({"mode": "dry"})).await.refuses_field("mode");
    api.patch(&path, json!({"approval_expires_s": 0})).await.refuses_field("approval_expires_s");
    api.post("/jobs", json!({"input": 1, "mode": "x"})).await.refuses_field("mode");
    for (mode, decision) in [(json!("auto"), "execute"), (json!("draft"), "needs_approval")] {
        let id = api.job_with(json!({"kind": decision, "input": 1, "mode": mode})).await;
        assert_eq!(api.show_job(&id).await["mode"], mode);
        let lease = worker.wait_with(json!({"kinds": [decision]})).await;
        assert_eq!(lease.begin("x").await.is(200).json()["decision"], decision);
    }
    // A replay is as its job was, and asks for itself.
    let id = draft(&api, "again").await;
    let hash = proposes(&worker.wait_with(json!({"kinds": ["again"]})).await).await;
    decide(&api, "approve", &id, &hash).await.is(200);
    api.post(&format!("/jobs/{id}/cancel"), json!({})).await.is(200);
    let note = json!({"note": "once more"});
    let again = api.post(&format!("/jobs/{id}/replay"), note).await.is(202).text("job_id");
    assert_eq!(proposes(&worker.wait_with(json!({"kinds": ["again"]})).await).await, hash);
    decide(&api, "approve", &id, &hash).await.refuses(409, "invalid_state");
    decide(&api, "approve", &again, &hash).await.is(200);
}

async fn what_waits_for_a_person_blocks_its_order_key_until_it_is_rejected(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let ordered = json!({"input": 1, "mode": "draft", "order_key": "customer 7"});
    let first = api.job_with(ordered.clone()).await;
    let second = api.job_with(ordered).await;
    let worker = gateway.worker("agent");
    let hash = proposes(&worker.wait().await).await;
    assert!(worker.lease().await.is_none());
    assert_eq!(api.show_job(&second).await["waiting_on"], "order_key");
    decide(&api, "reject", &first, &hash).await.is(200);
    // Told at once: nobody waits for a sweep.
    let lease = within(Duration::from_secs(5), "the next goes", || worker.lease()).await;
    assert_eq!(lease.id(), second);
}

async fn a_place_that_was_given_up_for_a_person_is_anothers(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    api.patch("/tenants/default", json!({"concurrency": 1})).await.is(200);
    let first = draft(&api, "refund").await;
    let second = draft(&api, "refund").await;
    let worker = gateway.worker("agent");
    let lease = worker.wait().await;
    assert_eq!(lease.id(), first);
    assert!(worker.lease().await.is_none());
    let waits = tokio::spawn({
        let worker = worker.clone();
        async move { worker.lease_many(json!({"wait_s": 5})).await }
    });
    proposes(&lease).await;
    let next = waits.await.expect("the call ends").pop().expect("the place is free");
    assert_eq!(next.id(), second);
}

async fn a_worker_of_the_sdk_stops_at_a_proposal_and_acts_once_it_is_approved(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let id = draft(&api, "refund").await;
    let (acted, runs) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(Vec::new())));
    let stop = CancellationToken::new();
    let working = tokio::spawn({
        let (client, acted, runs) = (gateway.client(), acted.clone(), runs.clone());
        let stop = stop.clone();
        let refund = move |job: JobContext| {
            let (acted, runs) = (acted.clone(), runs.clone());
            async move {
                runs.lock().expect("the runs").push(job.job().attempt);
                let done: u32 = job
                    .effect("refund", |_| async move {
                        Ok::<_, ActError>(acted.fetch_add(1, Ordering::Relaxed) + 1)
                    })
                    .await?;
                Ok::<_, Stop>(Completion { result: Some(done.into()), ..Completion::default() })
            }
        };
        let mut settings = Settings::named("sdk");
        settings.wait = Duration::from_secs(1);
        async move { worker::run(&client, &settings, refund, stop.cancelled_owned()).await }
    });
    let client = gateway.client();
    let job = until("it proposes", || async {
        let job = client.get_job(&id).await.expect("the job");
        (job.status == "awaiting_approval").then_some(job)
    })
    .await;
    assert_eq!(acted.load(Ordering::Relaxed), 0);
    let proposals: Vec<_> = job.proposed().filter_map(|effect| effect.proposal()).collect();
    assert_eq!(proposals.len(), 1);
    let moved = client.approve(&id, &proposals, Some("Grace: yes")).await.expect("approved");
    assert_eq!(moved.status.as_deref(), Some("pending"));
    let done = until("it is done", || async {
        let job = client.get_job(&id).await.expect("the job");
        (job.status == "succeeded").then_some(job)
    })
    .await;
    stop.cancel();
    working.await.expect("the worker ends").expect("the worker ends well");
    assert_eq!((done.result, acted.load(Ordering::Relaxed)), (json!(1), 1));
    assert_eq!(*runs.lock().expect("the runs"), [1, 1]);
}

async fn the_command_line_shows_and_approves_what_waits(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let id = draft(&api, "refund").await;
    let worker = gateway.worker("agent");
    proposes(&worker.wait().await).await;
    let (url, key) = (gateway.url(), gateway.admin_key());
    let listed =
        webhookctl(url, key, &["jobs", "list", "--status", "awaiting_approval"]).await.ends_with(0);
    assert!(listed.stdout.contains(&id), "{listed:?}");
    let ran =
        webhookctl(url, key, &["jobs", "approve", &id, "--yes", "--note", "Grace: yes"]).await;
    let ran = ran.ends_with(0);
    assert!(ran.stderr.contains(REFUND) && ran.stdout.contains("pending"), "{ran:?}");
    let lease = worker.wait().await;
    assert_eq!(begin(&lease, "refund", REFUND).await.is(200).json()["decision"], "execute");
}
