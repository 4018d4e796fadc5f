//! Connections to PostgreSQL that are cut right after a commit: the gateway does not know that it went through, and
//! tells nobody that it did. Whoever asks again finds it done, once.

use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use wakepost_tests::{Answer, Database, Gateway, Lease};

use crate::load::Load;
use crate::wire::Wire;

/// Words of the statements that make each thing true.
const EVENT: &str = "INSERT INTO events";
const JOB: &str = "INSERT INTO work (tenant";
const CLAIM: &str = "UPDATE work w";
const BEGIN: &str = "INSERT INTO effects";
const COMMIT: &str = "UPDATE effects";
const END: &str = "INSERT INTO work_done";

async fn on_a_wire() -> (Wire, Gateway) {
    let wire = Wire::to_the_server();
    let gateway = Gateway::setup(Database::Postgres).server(wire.url()).start().await;
    (wire, gateway)
}

/// The first answer is a 503 that says when to come again, because of a cut; the answer to the repeat.
async fn again(wire: &Wire, marker: &'static str, ask: impl AsyncFn() -> Answer) -> Answer {
    let before = wire.cuts();
    wire.cut_after(marker);
    assert_eq!(ask().await.is(503).header("retry-after"), "1");
    assert_eq!(wire.cuts(), before + 1, "it was committed, and nobody heard of it");
    ask().await
}

async fn leased(gateway: &Gateway) -> Lease {
    gateway.admin().job().await;
    gateway.worker("w").wait().await
}

#[tokio::test]
async fn an_event_is_a_duplicate_of_itself_and_makes_one_job_on_postgres() {
    let (wire, gateway) = on_a_wire().await;
    let source = gateway.with_source("stripe").await;
    let event = source.event("e-1");
    let repeat = again(&wire, EVENT, async || gateway.send(&source, &event).await).await.is(200);
    let api = gateway.admin();
    let inbox = api.list("/inbox").await;
    assert_eq!(inbox.len(), 1);
    assert_eq!(inbox[0]["id"], repeat.text("event_id"));
    assert_eq!(api.list("/jobs").await.len(), 1);
    let lease = gateway.worker("w").wait().await;
    assert_eq!(lease.id(), repeat.text("job_id"));
    lease.complete(json!(1)).await.is(200);
}

#[tokio::test]
async fn a_job_that_is_made_under_a_key_is_made_once_on_postgres() {
    let (wire, gateway) = on_a_wire().await;
    let api = gateway.admin();
    let headers = HeaderMap::from_iter([(
        "idempotency-key".parse().expect("a name"),
        HeaderValue::from_static("k-1"),
    )]);
    let job = json!({"input": 1});
    let by_call = again(&wire, JOB, async || {
        api.call_with(Method::POST, "/jobs", headers.clone(), Some(&job)).await
    });
    let by_call = by_call.await.is(201).text("id");
    let by_key = again(&wire, JOB, async || {
        api.post("/jobs", json!({"input": 2, "dedup_key": "k-2"})).await
    });
    let by_key = by_key.await.is(200).text("id");
    let jobs = api.list("/jobs").await;
    let ids: Vec<&Value> = jobs.iter().map(|job| &job["id"]).collect();
    assert_eq!(ids, [&json!(by_key), &json!(by_call)]);
}

#[tokio::test]
async fn what_is_published_under_its_key_is_published_once_on_postgres() {
    let (wire, gateway) = on_a_wire().await;
    let api = gateway.admin();
    let event = json!({"type": "order.paid", "data": {"id": 1}, "dedup_key": "order:1"});
    let repeat = again(&wire, EVENT, async || api.post("/events", event.clone()).await).await;
    let published = api.list("/events").await;
    assert_eq!(published.len(), 1);
    assert_eq!(
        (&published[0]["id"], repeat.text("status")),
        (&json!(repeat.text("id")), "duplicate".to_owned())
    );
}

#[tokio::test]
async fn a_lease_that_nobody_heard_of_runs_out_and_the_job_is_given_again_on_postgres() {
    let (wire, gateway) = on_a_wire().await;
    let id = gateway.admin().job().await;
    wire.cut_after(CLAIM);
    let lost = gateway.worker("w").ask(json!({"lease_s": 1})).await.is(503);
    assert_eq!((lost.header("retry-after"), wire.cuts()), ("1", 1));
    let lease = gateway.worker("w").wait().await;
    assert_eq!((lease.id(), lease.attempt(), lease.fence()), (&*id, 2, 2));
    lease.complete(json!(1)).await.is(200);
}

#[tokio::test]
async fn each_step_of_an_effect_is_made_once_on_postgres() {
    let (wire, gateway) = on_a_wire().await;
    let lease = leased(&gateway).await;
    let begun = again(&wire, BEGIN, async || lease.begin("charge").await).await.is(200).json();
    assert_eq!(begun["decision"], "execute", "the same run is told the same");
    let commit = async || lease.commit("charge", json!({"receipt": 7})).await;
    again(&wire, COMMIT, commit).await.is(200);
    // Another answer of the world does not take its place.
    lease.commit("charge", json!({"receipt": 8})).await;
    let known = lease.begin("charge").await.is(200).json();
    assert_eq!((&known["decision"], &known["result"]), (&json!("skip"), &json!({"receipt": 7})));
    lease.begin("mail").await.is(200);
    again(&wire, COMMIT, async || lease.abort("mail", "bounced").await).await.is(200);
    let shown = gateway.admin().show_job(lease.id()).await;
    let states: Vec<_> = shown["effects"].as_array().expect("effects").iter().collect();
    let state =
        |key: &str| states.iter().find(|effect| effect["key"] == key).expect("it")["state"].clone();
    assert_eq!((state("charge"), state("mail")), (json!("committed"), json!("aborted")));
}

#[tokio::test]
async fn a_run_ends_once_on_postgres() {
    let (wire, gateway) = on_a_wire().await;
    let api = gateway.admin();
    let lease = leased(&gateway).await;
    again(&wire, END, async || lease.complete(json!({"n": 1})).await).await.is(200);
    let shown = api.show_job(lease.id()).await;
    assert_eq!((&shown["status"], &shown["result"]), (&json!("succeeded"), &json!({"n": 1})));
    let lease = leased(&gateway).await;
    again(&wire, END, async || lease.fail("no").await).await;
    let shown = api.show_job(lease.id()).await;
    assert_eq!((&shown["status"], &shown["attempts"]), (&json!("retrying"), &json!(1)), "{shown}");
    assert_eq!(shown["runs"].as_array().map(Vec::len), Some(1), "{shown}");
}

/// The same by chance, with many under way: a whole batch of others shares the commit.
#[tokio::test]
async fn under_load_nothing_is_lost_or_doubled_on_postgres() {
    let wire = Wire::to_the_server();
    let first = Gateway::setup(Database::Postgres).server(wire.url()).start().await;
    let nodes = [first.node().await, first];
    let load = Load::new(&nodes).await;
    load.through(async {
        for marker in [EVENT, CLAIM, BEGIN, COMMIT, END].repeat(4) {
            wire.cuts_after(marker).await;
        }
        assert!(load.refused() >= 10, "somebody was told to come again");
    })
    .await;
}
