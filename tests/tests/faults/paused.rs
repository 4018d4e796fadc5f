//! Four nodes, of which one is stopped in the middle of everything, for longer than its leases live.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use wakepost_tests::{Database, Gateway, Receiver, Reply, until};

use crate::load::Load;

/// The lease of a pushed job.
const LEASE_S: u64 = 2;
const PUSHED: usize = 24;

async fn four() -> [Gateway; 4] {
    let first = Gateway::start(Database::Postgres).await;
    [first.node().await, first.node().await, first.node().await, first]
}

#[tokio::test]
async fn the_others_do_its_work_once_and_it_goes_on_as_one_of_them_on_postgres() {
    let nodes = four().await;
    let load = Load::new(&nodes).await;
    load.through(async {
        for _ in 0..2 {
            let ghosts = load.leaves_some(0).await;
            nodes[0].pause().await;
            load.is_not_answered().await;
            load.goes_on("while one is paused").await;
            load.leases_run_out().await;
            nodes[0].resume();
            for ghost in ghosts {
                ghost.heartbeat().await.refuses(409, "lease_lost");
                ghost.begin("other").await.refuses(409, "lease_lost");
                ghost.commit("charge", json!(1)).await.refuses(409, "lease_lost");
                ghost.complete(json!(2)).await.refuses(409, "lease_lost");
            }
            load.goes_on("when it is back").await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_pushed_run_of_the_paused_one_ends_as_its_successor_says_on_postgres() {
    let nodes = four().await;
    // An agent that takes its time, and says which request of a job it answers.
    let receiver = Receiver::start(|seen| {
        let attempt = seen.json()["attempt"].clone();
        Reply::new(200, json!({"result": attempt})).after(Duration::from_millis(400))
    })
    .await;
    let executor = json!({"kind": "http", "url": receiver.url("/agent")});
    let policy = json!({"executor": executor, "lease_s": LEASE_S, "max_attempts": 9});
    let source = nodes[0].admin().source_with("stripe", policy).await;
    let mut ids = Vec::new();
    for number in 0..PUSHED {
        let event = source.event(&format!("e-{number}"));
        ids.push(nodes[0].send(&source, &event).await.is(202).text("job_id"));
    }
    // Those that the others run end; what runs on is its own.
    receiver.wait("/agent", 1).await;
    nodes[0].pause().await;
    let api = nodes[1].admin();
    let shown = until("every job has ended", || async {
        let jobs = api.list("/jobs").await;
        jobs.iter().all(|job| job["status"] == "succeeded").then_some(jobs)
    })
    .await;
    assert_eq!(shown.len(), PUSHED);
    let before = ends(&nodes[1], &ids).await;
    let taken_over = before.values().filter(|job| job["attempts"] == 2).count();
    assert!(taken_over > 0, "the paused one had jobs of which nobody knew the end");
    nodes[0].resume();
    // It has the agent's answers, and must not believe that they are still wanted. It works as before.
    let event = source.event("e-last");
    let last = nodes[0].send(&source, &event).await.is(202).text("job_id");
    until("what comes later ends", || async {
        (api.show_job(&last).await["status"] == "succeeded").then_some(())
    })
    .await;
    assert_eq!(ends(&nodes[1], &ids).await, before, "nothing changes what has ended");
    // The agent tells a repeat by the job's id: none came that was not told to be one.
    for (id, job) in &before {
        let seen = receiver.seen("/agent");
        let runs = seen.iter().filter(|seen| seen.header("idempotency-key") == id);
        assert!(runs.count() as u64 <= job["attempts"].as_u64().expect("a number"), "{job}");
    }
}

async fn ends(gateway: &Gateway, ids: &[String]) -> HashMap<String, Value> {
    let mut ends = HashMap::new();
    for id in ids {
        ends.insert(id.clone(), gateway.admin().show_job(id).await);
    }
    ends
}
