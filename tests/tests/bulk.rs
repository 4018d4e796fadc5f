//! Bulk: what is asked for many is done to each once, however often it is interrupted.

use serde_json::{Value, json};
use wakepost_tests::{Act, Api, Database, Gateway, on_both, until};

on_both!(
    events_that_fit_are_run_again_and_no_others,
    a_dry_run_counts_and_changes_nothing,
    a_kill_in_the_middle_doubles_and_loses_none,
    bulk_work_that_goes_on_days_later_doubles_none,
);

/// Events that made no job.
async fn ignored(gateway: &Gateway, count: usize) -> String {
    let api = gateway.admin();
    let source = api.source_with("github", json!({"filter": ["nothing"]})).await;
    for n in 0..count {
        gateway.send(&source, &source.event(&format!("e-{n}"))).await.is(200);
    }
    source.id
}

async fn over(api: &Api, operation: &str) -> Value {
    until("the operation is over", async || {
        let shown = api.get(&format!("/operations/{operation}")).await.is(200).json();
        (shown["status"] == "succeeded").then_some(shown)
    })
    .await
}

async fn counts(api: &Api) -> (usize, usize) {
    let jobs = api.list("/jobs").await;
    let mut events: Vec<String> = jobs.iter().map(|job| job["event_id"].to_string()).collect();
    events.sort();
    events.dedup();
    (jobs.len(), events.len())
}

async fn events_that_fit_are_run_again_and_no_others(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = ignored(&gateway, 5).await;
    let other = ignored(&gateway, 2).await;
    assert_ne!(source, other);
    let asked =
        json!({"filter": {"source": source, "status": "ignored"}, "note": "now we want them"});
    let begun = api.post("/inbox/replay", asked.clone()).await.is(202).text("operation_id");
    let shown = over(&api, &begun).await;
    assert_eq!(
        (&shown["matched"], &shown["done"], &shown["failed"]),
        (&json!(5), &json!(5), &json!(0))
    );
    assert_eq!(counts(&api).await, (5, 5));
    // They are not ignored any more, so nothing fits.
    let again = api.post("/inbox/replay", asked).await.is(202).text("operation_id");
    assert_eq!(over(&api, &again).await["matched"], 0);
    // What waits cannot be replayed, and that is told.
    let asked = json!({"filter": {"source": source}, "note": "once more"});
    let again = api.post("/inbox/replay", asked).await.is(202).text("operation_id");
    let shown = over(&api, &again).await;
    assert_eq!((&shown["matched"], &shown["failed"]), (&json!(5), &json!(5)));
    let trail = api.list("/audit").await;
    let notes = trail.iter().filter(|entry| entry["note"] == "now we want them").count();
    assert_eq!(notes, 7, "both operations, and each replay once");
}

async fn a_dry_run_counts_and_changes_nothing(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    ignored(&gateway, 3).await;
    let asked = json!({"filter": {"type": "issues.*"}, "note": "how many?", "dry_run": true});
    let begun = api.post("/inbox/replay", asked).await.is(202).text("operation_id");
    let shown = over(&api, &begun).await;
    assert_eq!((&shown["matched"], &shown["done"]), (&json!(3), &json!(0)));
    assert_eq!(counts(&api).await, (0, 0));
    for (body, status) in [
        (json!({"filter": {}, "note": ""}), 422),
        (json!({"note": "which?"}), 422),
        (json!({"filter": {"odd": 1}, "note": "n"}), 422),
    ] {
        assert_eq!(api.post("/inbox/replay", body).await.status, status);
    }
}

async fn a_kill_in_the_middle_doubles_and_loses_none(database: Database) {
    // After the first page was dealt with, and before that is noted.
    const PLACE: &str = "operation.before_position";
    for act in Act::tried(Act::Kill) {
        let mut gateway = Gateway::setup(database).failpoints(&act.at(PLACE, 1)).start().await;
        ignored(&gateway, 130).await;
        let asked = json!({"filter": {"status": "ignored"}, "note": "all of them"});
        let begun = gateway.admin().post("/inbox/replay", asked).await.is(202).text("operation_id");
        act.done(&mut gateway, PLACE).await;
        let api = gateway.admin();
        let limit = std::time::Duration::from_secs(120);
        let shown = wakepost_tests::within(limit, "it is over", async || {
            let shown = api.get(&format!("/operations/{begun}")).await.is(200).json();
            (shown["status"] == "succeeded").then_some(shown)
        })
        .await;
        assert_eq!(counts(&api).await, (130, 130), "{act:?}: {shown}");
    }
}

/// Runs so many jobs to their end.
async fn run(gateway: &Gateway, count: usize) {
    for _ in 0..count {
        gateway.worker("w").wait().await.complete(json!(1)).await.is(200);
    }
}

async fn bulk_work_that_goes_on_days_later_doubles_none(database: Database) {
    const PLACE: &str = "operation.before_position";
    const EVENTS: usize = 5;
    let kill = Act::Kill.at(PLACE, 1);
    let mut gateway = Gateway::setup(database).failpoints(&kill).start().await;
    let source = gateway.with_source("github").await;
    for n in 0..EVENTS {
        gateway.send(&source, &source.event(&format!("e-{n}"))).await.is(202);
    }
    run(&gateway, EVENTS).await;
    let asked = json!({"filter": {"source": source.id}, "note": "once more"});
    let begun = gateway.admin().post("/inbox/replay", asked).await.is(202).text("operation_id");
    Act::Kill.done(&mut gateway, PLACE).await;
    // Before it goes on, what it made has ended, and what is remembered for a day is forgotten.
    run(&gateway, EVENTS).await;
    gateway.execute("DELETE FROM idempotency").await;
    let api = gateway.admin();
    let limit = std::time::Duration::from_secs(120);
    let shown = wakepost_tests::within(limit, "it is over", async || {
        let shown = api.get(&format!("/operations/{begun}")).await.is(200).json();
        (shown["status"] == "succeeded").then_some(shown)
    })
    .await;
    assert_eq!(counts(&api).await, (2 * EVENTS, EVENTS), "{shown}");
    assert_eq!(shown["done"], EVENTS, "{shown}");
}
