//! Data of an earlier release opens in this one under load: everything that clients were told holds, and everything
//! that was under way ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use wakepost_tests::{Database, Worker, on_both, within};

use super::upgraded::Upgraded;
use super::{jobs, load, senders, subscribers};

on_both!(what_a_release_left_behind_opens_under_load_and_goes_on);

/// Until everything that may run has ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// What may run, and what runs.
const RUNNABLE: &str =
    "SELECT count(*) FROM work WHERE state = 5 OR (state <= 2 AND run_at <= $NOW)";

async fn what_a_release_left_behind_opens_under_load_and_goes_on(database: Database) {
    let upgraded = Upgraded::start(database).await;
    let done = AtomicBool::new(false);
    let checks = async {
        everything_holds(&upgraded, database).await;
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(load::load(&upgraded, &done), checks);
    everything_ends(&upgraded).await;
    is_well(&upgraded, &[]).await;
}

/// What clients were told holds, and what was under way goes on.
pub async fn everything_holds(upgraded: &Upgraded, database: Database) {
    // First: what is done to it afterwards shows.
    upgraded.shows_what_it_showed().await;
    tokio::join!(
        senders::check(upgraded),
        jobs::check(upgraded),
        subscribers::check(upgraded, database),
        keys(upgraded),
    );
}

/// Who could come in can, and sees what they saw; who could not cannot.
async fn keys(upgraded: &Upgraded) {
    upgraded.key("revoked").get("/jobs").await.refuses(401, "unauthorized");
    for role in ["viewer", "operator"] {
        let jobs = upgraded.key(role).list("/jobs").await;
        assert_eq!(jobs.len(), 1, "{role} sees its tenant");
        assert_eq!(jobs[0]["id"], upgraded.job("theirs"));
    }
    upgraded.key("viewer").post("/jobs", json!({"input": 1})).await.refuses(403, "forbidden");
}

/// L7: once nobody makes more, whatever may run ends.
pub async fn everything_ends(upgraded: &Upgraded) {
    let worker = Worker::new(&upgraded.api, "last");
    within(PATIENCE, "everything ends", async || {
        for lease in worker.lease_many(json!({"max": 100, "lease_s": 30})).await {
            lease.complete(json!("done")).await.is(200);
        }
        let now = wakepost_tests::now().as_millis().to_string();
        (upgraded.gateway.count(&RUNNABLE.replace("$NOW", &now)).await == 0).then_some(())
    })
    .await;
}

/// `wakepost doctor`, with these settings, finds nothing wrong but the settings of the tests' own PostgreSQL.
pub async fn is_well(upgraded: &Upgraded, own: &[(&str, &str)]) {
    let said = upgraded.gateway.run(own, &["doctor", "--full", "--json"]).await.json();
    let checks = said["checks"].as_array().expect("checks");
    for check in checks {
        let of_tests = check["name"] == "fsync" || check["name"] == "full_page_writes";
        assert!(check["level"] != "fail" || of_tests, "{check}");
    }
    // A server has opened it, so there is nothing to say of SQLite's: its doctor only looks where one did.
    let migrations = upgraded.gateway.database_url().map(|_| "migrations");
    for name in ["master key", "records", "invariants"].into_iter().chain(migrations) {
        let found = checks.iter().any(|one| one["name"] == name && one["level"] == "ok");
        assert!(found, "{name}: {said}");
    }
}
