//! Deduplicating: however often an event comes, on however many nodes, it is taken in once.

use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::json;
use wakepost_tests::{Database, Gateway, on_both};

on_both!(
    two_hundred_copies_at_once_make_one_event_and_one_job,
    the_same_id_from_two_tenants_or_two_sources_is_two_events,
    a_kill_between_the_commit_and_the_answer_makes_the_repeat_a_duplicate,
    a_kill_before_the_commit_leaves_nothing,
    a_storage_error_is_never_an_acknowledgement,
    a_captured_body_cannot_come_back_under_a_new_id,
    a_job_with_the_same_dedup_key_is_made_once,
    a_repeated_call_with_an_idempotency_key_gets_the_first_answer,
);

async fn two_hundred_copies_at_once_make_one_event_and_one_job(database: Database) {
    const COPIES: usize = 200;
    let nodes = Gateway::nodes(database).await;
    let api = nodes[0].admin();
    let source = nodes[0].with_source("stripe").await;
    let event = source.event("e-1");
    let copies = (0..COPIES).map(|n| nodes[n % nodes.len()].send(&source, &event));
    let answers = join_all(copies).await;

    let new: Vec<_> = answers.iter().filter(|answer| answer.status == 202).collect();
    assert_eq!(new.len(), 1, "exactly one is the first");
    let first = new[0].json();
    for answer in &answers {
        assert!(matches!(answer.status, 200 | 202), "{}", answer.json());
        assert_eq!(answer.json()["event_id"], first["event_id"]);
        assert_eq!(answer.json()["job_id"], first["job_id"]);
    }
    let events = api.list("/inbox").await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["duplicates"], COPIES - 1);
    assert_eq!(api.list("/jobs").await.len(), 1);
    // Each duplicate is counted, and some of them are kept.
    let id = first["event_id"].as_str().expect("an id");
    let receipts = api.show_event(id).await["receipts"].clone();
    let verdicts = receipts.as_array().expect("receipts").iter();
    let verdicts: Vec<_> = verdicts.map(|row| row["verdict"].clone()).collect();
    assert_eq!(verdicts.len(), 21, "{verdicts:?}");
    assert_eq!(verdicts[0], "accepted");
    assert!(verdicts[1..].iter().all(|verdict| verdict == "duplicate"));
}

async fn the_same_id_from_two_tenants_or_two_sources_is_two_events(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let (acme, globex) = (admin.tenant("acme").await, admin.tenant("globex").await);
    let secret = json!({"secret": "whsec_the_same_for_all"});
    let sources = [
        acme.source_with("stripe", secret.clone()).await,
        acme.source_with("stripe", secret.clone()).await,
        globex.source_with("stripe", secret).await,
    ];
    let mut ids = Vec::new();
    for source in &sources {
        let event = source.event("evt_colliding");
        let first = gateway.send(source, &event).await.is(202).text("event_id");
        let again = gateway.send(source, &event).await.is(200);
        assert_eq!(again.json()["status"], "duplicate");
        assert_eq!(again.text("event_id"), first);
        ids.push(first);
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    assert_eq!(acme.list("/inbox").await.len(), 2);
    assert_eq!(globex.list("/inbox").await.len(), 1);
    let found = globex.list("/inbox?dedup_key=evt_colliding").await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["source"], sources[2].id);

    // The same holds for the dedup keys of jobs.
    let job = json!({"input": 1, "dedup_key": "nightly"});
    let first = acme.job_with(job.clone()).await;
    let other = globex.job_with(job.clone()).await;
    assert_ne!(first, other);
    let repeat = acme.post("/jobs", job).await.is(200);
    assert_eq!(repeat.text("id"), first);
}

async fn a_kill_between_the_commit_and_the_answer_makes_the_repeat_a_duplicate(database: Database) {
    let mut gateway = Gateway::start(database).await;
    let source = gateway.with_source("github").await;
    let event = source.event("e-1");
    gateway.restart_with("edge.before_answer=kill").await;
    gateway.try_send(&source, &event).await.expect_err("the server dies");
    gateway.ended().await;

    gateway.restart().await;
    let api = gateway.admin();
    let kept = api.list("/inbox").await;
    assert_eq!(kept.len(), 1, "what was committed is there");
    let repeat = gateway.send(&source, &event).await.is(200).json();
    assert_eq!(repeat["status"], "duplicate");
    assert_eq!(repeat["event_id"], kept[0]["id"]);
    // Nobody was told of the job when it was committed; it is found all the same.
    let lease = gateway.worker("w").wait().await;
    assert_eq!(repeat["job_id"], lease.id());
    lease.complete(json!({})).await.is(200);
    assert_eq!(api.list("/jobs").await.len(), 1);
}

async fn a_kill_before_the_commit_leaves_nothing(database: Database) {
    let mut gateway = Gateway::start(database).await;
    let source = gateway.with_source("github").await;
    let event = source.event("e-1");
    gateway.restart_with("edge.after_verify=kill").await;
    gateway.try_send(&source, &event).await.expect_err("the server dies");
    gateway.ended().await;

    gateway.restart().await;
    let api = gateway.admin();
    assert!(api.list("/inbox").await.is_empty());
    assert!(api.list("/jobs").await.is_empty());
    let repeat = gateway.send(&source, &event).await.is(202);
    assert_eq!(repeat.json()["status"], "accepted");
}

async fn a_storage_error_is_never_an_acknowledgement(database: Database) {
    let mut gateway = Gateway::start(database).await;
    let source = gateway.with_source("github").await;
    let (lost, kept) = (source.event("e-1"), source.event("e-2"));

    gateway.restart_with("edge.after_verify=error").await;
    let answer = gateway.send(&source, &lost).await.is(503);
    assert_eq!(answer.header("retry-after"), "1");
    gateway.restart_with("edge.before_answer=error").await;
    gateway.send(&source, &kept).await.is(503);

    // Which of the two it was, the repeat finds out.
    gateway.restart().await;
    gateway.send(&source, &lost).await.is(202);
    let repeat = gateway.send(&source, &kept).await.is(200);
    assert_eq!(repeat.json()["status"], "duplicate");
    assert_eq!(gateway.admin().list("/inbox").await.len(), 2);
}

async fn a_captured_body_cannot_come_back_under_a_new_id(database: Database) {
    let gateway = Gateway::start(database).await;
    let source = gateway.with_source("github").await;
    let event = source.event("e-1");
    let first = gateway.send(&source, &event).await.is(202).text("event_id");
    let mut again = event.clone();
    again.id = "e-2".to_owned();
    let answer = gateway.send(&source, &again).await.is(200);
    assert_eq!(answer.json()["status"], "duplicate");
    assert_eq!(answer.text("event_id"), first);
    // The id alone is enough, too.
    let changed = event.with_body(r#"{"action":"closed"}"#);
    let answer = gateway.send(&source, &changed).await.is(200);
    assert_eq!(answer.text("event_id"), first);
}

async fn a_job_with_the_same_dedup_key_is_made_once(database: Database) {
    let nodes = Gateway::nodes(database).await;
    let api = nodes[0].admin();
    let job = json!({"kind": "report", "input": {"n": 1}, "dedup_key": "nightly"});
    let apis: Vec<_> = nodes.iter().map(Gateway::admin).collect();
    let calls = (0..20).map(|n| apis[n % apis.len()].post("/jobs", job.clone()));
    let answers = join_all(calls).await;
    let new = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(new, 1);
    let first = answers[0].text("id");
    for answer in answers {
        assert!(matches!(answer.status, 200 | 201), "{}", answer.json());
        assert_eq!(answer.text("id"), first);
    }
    assert_eq!(api.list("/jobs").await.len(), 1);
}

async fn a_repeated_call_with_an_idempotency_key_gets_the_first_answer(database: Database) {
    let nodes = Gateway::nodes(database).await;
    let api = nodes[0].admin();
    let headers: HeaderMap =
        [("idempotency-key".parse().expect("a name"), HeaderValue::from_static("key-1"))]
            .into_iter()
            .collect();
    let apis: Vec<_> = nodes.iter().map(Gateway::admin).collect();
    let body = json!({"input": {"n": 1}});
    let calls = (0..10).map(|n| {
        apis[n % 2 % apis.len()].call_with(Method::POST, "/jobs", headers.clone(), Some(&body))
    });
    let answers = join_all(calls).await;
    // The key is stored with the job: whoever comes meanwhile waits for that commit, and is never told of one that
    // still runs.
    let mut ids: Vec<_> = answers.into_iter().map(|answer| answer.is(201).text("id")).collect();
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let again = api.call_with(Method::POST, "/jobs", headers.clone(), Some(&body));
    let again = again.await.is(201);
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.text("id"), ids[0]);
    let other = json!({"input": {"n": 2}});
    let other = api.call_with(Method::POST, "/jobs", headers.clone(), Some(&other));
    other.await.refuses(409, "idempotency_mismatch");
    assert_eq!(api.list("/jobs").await.len(), 1);

    // A secret is shown once, whoever asks again.
    for (path, body, secret) in [
        ("/keys", json!({"name": "k", "role": "viewer"}), "key"),
        ("/sources", json!({"provider": "github"}), "secret"),
    ] {
        let first = api.call_with(Method::POST, path, headers.clone(), Some(&body)).await.is(201);
        let again = api.call_with(Method::POST, path, headers.clone(), Some(&body)).await.is(201);
        assert_eq!(again.text("id"), first.text("id"));
        assert!(!first.text(secret).is_empty());
        assert!(again.json().get(secret).is_none(), "{path}");
    }
}
