//! A disk that takes long to say that it has something: answers wait for it, and none is given before.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use rusqlite::Connection;
use serde_json::json;
use tokio::time::{Instant, timeout};
use wakepost_tests::{Database, Gateway, on_both, until};

use crate::load::Load;

on_both!(
    nothing_is_acknowledged_before_it_is_on_the_disk,
    a_sender_who_waits_too_long_is_told_to_come_again_and_the_repeat_is_a_duplicate,
    what_is_too_much_to_wait_is_refused_at_once,
    under_load_leases_live_and_everything_ends,
);

/// After this a sender is told to come again.
const PATIENCE: Duration = Duration::from_millis(2500);
/// Of these 64 fit into what may wait for the database.
const BYTES: usize = 1000 * 1024;
const MEMORY_KIB_MAX: u64 = 400 * 1024;

/// Makes every commit of a gateway wait from now on.
///
/// On SQLite it is the sync that takes so long. On PostgreSQL statements that store an event or the end of a run do, before
/// their commit: what a client sees is the same.
async fn slow(gateway: &mut Gateway, wait: Duration) {
    let Some(_) = gateway.database_url() else {
        // The start has commits of its own, which need not be slow.
        let failpoint = format!("sqlite.sync_error=delay:{}@9", wait.as_millis());
        gateway.restart_with(&failpoint).await;
        while !gateway.logged().contains("failpoint sqlite.sync_error acts") {
            gateway.admin().role("worker", "default").await;
        }
        return;
    };
    let seconds = wait.as_secs_f64();
    let function = format!(
        "CREATE OR REPLACE FUNCTION is_slow() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$"
    );
    gateway.execute(&function).await;
    for table in ["dedup_keys", "work_done", "effects"] {
        let trigger = format!(
            "CREATE TRIGGER is_slow AFTER INSERT OR UPDATE ON {table}
             FOR EACH STATEMENT EXECUTE FUNCTION is_slow()"
        );
        gateway.execute(&trigger).await;
    }
}

/// Makes commits as fast as they were.
async fn fast(gateway: &mut Gateway) {
    match gateway.database_url() {
        None => gateway.restart().await,
        Some(_) => {
            let function =
                "CREATE OR REPLACE FUNCTION is_slow() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN RETURN NULL; END $$";
            gateway.execute(function).await;
        }
    }
}

async fn nothing_is_acknowledged_before_it_is_on_the_disk(database: Database) {
    const WAIT: Duration = Duration::from_millis(700);
    let mut gateway = Gateway::start(database).await;
    let source = gateway.with_source("stripe").await;
    slow(&mut gateway, WAIT).await;
    for number in 0..3 {
        let sent = Instant::now();
        gateway.send(&source, &source.event(&format!("e-{number}"))).await.is(202);
        assert!(sent.elapsed() >= WAIT, "acknowledged after {:?}", sent.elapsed());
    }
    let lease = gateway.worker("w").wait().await;
    let ended = Instant::now();
    lease.complete(json!(1)).await.is(200);
    assert!(ended.elapsed() >= WAIT, "told of the end after {:?}", ended.elapsed());
}

async fn a_sender_who_waits_too_long_is_told_to_come_again_and_the_repeat_is_a_duplicate(
    database: Database,
) {
    let mut gateway = Gateway::start(database).await;
    let source = gateway.with_source("stripe").await;
    slow(&mut gateway, PATIENCE * 3 / 2).await;
    let event = source.event("e-1");
    let sent = Instant::now();
    let answer = gateway.send(&source, &event).await.is(503);
    assert_eq!(answer.header("retry-after"), "1");
    assert!(sent.elapsed() >= PATIENCE, "it was given up after {:?}", sent.elapsed());
    gateway.fetch("/healthz").await.is(200);
    let api = gateway.admin();
    let stored =
        until("it is stored all the same", || async { api.list("/inbox").await.pop() }).await;
    fast(&mut gateway).await;
    let repeat = gateway.send(&source, &event).await.is(200);
    assert_eq!(repeat.text("event_id"), stored["id"]);
    assert_eq!(gateway.admin().list("/jobs").await.len(), 1);
}

async fn what_is_too_much_to_wait_is_refused_at_once(database: Database) {
    // Together more than may wait for the database: 64 MiB.
    const EVENTS: usize = 90;
    let mut gateway = Gateway::start(database).await;
    let source = gateway.with_source("stripe").await;
    slow(&mut gateway, 3 * PATIENCE).await;
    let events: Vec<_> = (0..EVENTS)
        .map(|number| {
            let id = format!("e-{number}");
            let body = json!({"id": id, "type": "invoice.paid", "padding": "x".repeat(BYTES)});
            source.event(&id).with_body(body.to_string())
        })
        .collect();
    let sending = events.iter().map(async |event| {
        let answer = gateway.send(&source, event).await;
        assert_eq!(answer.is(503).header("retry-after"), "1");
    });
    join_all(sending).await;
    let refused = gateway.logged().matches("the store is busy").count();
    assert!(refused >= EVENTS - 64 * 1024 / 1000 - 1, "{refused} did not come in at all");
    let peak = memory_kib_peak(&gateway);
    assert!(peak < MEMORY_KIB_MAX, "{peak} KiB were used");
    fast(&mut gateway).await;
    for event in events.iter().step_by(EVENTS / 10) {
        let answer = until("it is taken", || async {
            Some(gateway.send(&source, event).await).filter(|answer| answer.status != 503)
        })
        .await;
        assert!(matches!(answer.status, 200 | 202));
    }
    let rows = gateway.admin().list("/inbox").await;
    let keys: HashSet<_> = rows.iter().map(|row| row["dedup_key"].as_str()).collect();
    assert_eq!(keys.len(), rows.len(), "each once");
}

/// Here it is another program that holds the database. On PostgreSQL such calls end with their callers.
#[tokio::test]
async fn what_waits_counts_though_its_callers_hung_up_on_sqlite() {
    const CALLS: usize = 50;
    const PATIENCE: Duration = Duration::from_secs(3);
    let gateway = Gateway::start(Database::Sqlite).await;
    gateway.admin().job().await;
    let lease = gateway.worker("w").wait().await;
    lease.checkpoint(json!(1)).await.is(200);
    let other = Connection::open(gateway.data_dir().join("wakepost.db")).expect("the file");
    other.busy_timeout(PATIENCE).expect("a setting");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let state = json!("x".repeat(BYTES));
    let mut refused = 0;
    for _ in 0..2 {
        let calls = (0..CALLS).map(|_| timeout(PATIENCE, lease.checkpoint(state.clone())));
        for answer in join_all(calls).await.into_iter().flatten() {
            refused += usize::from(answer.is(503).json()["code"] == "busy");
        }
    }
    assert!(refused > CALLS / 2, "{refused} did not come in");
    let peak = memory_kib_peak(&gateway);
    assert!(peak < MEMORY_KIB_MAX, "{peak} KiB were used");
}

/// The most memory that it ever had.
fn memory_kib_peak(gateway: &Gateway) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid()));
    let status = status.expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

async fn under_load_leases_live_and_everything_ends(database: Database) {
    let mut gateway = Gateway::start(database).await;
    slow(&mut gateway, Duration::from_millis(60)).await;
    let nodes = [gateway];
    Load::new(&nodes).await.through(async {}).await;
}
