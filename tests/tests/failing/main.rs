//! Failing: at every place of the program that has a failpoint, it dies, fails or waits; what clients were
//! told stays true, and every job still ends.
//!
//! One test a place. Each tries the action that fits the place best; with `WAKEPOST_FAILPOINTS_ALL=1` all
//! three. What the places stand for is told in `docs/crash-testing.md`.

mod check;
mod client;
mod load;

use futures_util::future::join;
use serde_json::json;
use wakepost_tests::Act::{self, Delay, Error, Kill};
use wakepost_tests::{Database, Gateway, wakepost};

use check::check;
use client::Client;
use load::{Load, Told};

/// The places, with the usual action and from which time on it happens: a start passes some by itself. An
/// error or a delay happens twice, so that the same server must recover as well.
macro_rules! places {
    ($($test:ident: $place:literal, $act:ident, $nth:literal;)+) => {
        const TRIED: &[&str] = &[$($place),+];
        $(
            mod $test {
                #[tokio::test]
                async fn on_sqlite() {
                    super::try_place(super::Database::Sqlite, $place, super::$act, $nth).await;
                }

                #[tokio::test]
                async fn on_postgres() {
                    super::try_place(super::Database::Postgres, $place, super::$act, $nth).await;
                }
            }
        )+
    };
}

places! {
    edge_after_verify: "edge.after_verify", Error, 1;
    edge_before_answer: "edge.before_answer", Kill, 1;
    edge_while_answering: "edge.while_answering", Kill, 1;
    accept_on_conflict: "accept.on_conflict", Kill, 1;
    store_busy: "store.busy", Error, 7;
    store_before_commit: "store.before_commit", Kill, 6;
    store_commit_error: "store.commit_error", Error, 5;
    store_commit_unknown: "store.commit_unknown", Error, 6;
    store_after_commit: "store.after_commit", Kill, 7;
    claim_before_commit: "claim.before_commit", Error, 2;
    claim_after_commit: "claim.after_commit", Kill, 2;
    lease_heartbeat: "lease.heartbeat", Error, 1;
    settle_before_commit: "settle.before_commit", Error, 1;
    settle_after_commit: "settle.after_commit", Kill, 1;
    fail_before_commit: "fail.before_commit", Kill, 1;
    rescue_after_select: "rescue.after_select", Kill, 1;
    rescue_mid_batch: "rescue.mid_batch", Kill, 1;
    scheduler_after_select: "scheduler.after_select", Error, 1;
    checkpoint_before_commit: "checkpoint.before_commit", Kill, 1;
    effect_after_begin: "effect.after_begin", Kill, 2;
    effect_before_commit: "effect.before_commit", Kill, 1;
    effect_after_commit: "effect.after_commit", Kill, 1;
    replay_before_commit: "replay.before_commit", Kill, 1;
    wake_lost: "wake.lost", Error, 3;
    retention_mid_batch: "retention.mid_batch", Kill, 2;
    migration_mid_step: "migration.mid_step", Kill, 1;
    shutdown_mid_drain: "shutdown.mid_drain", Kill, 1;
    sqlite_checkpoint: "sqlite.checkpoint", Kill, 1;
    sqlite_reopen: "sqlite.reopen", Error, 1;
    sqlite_sync_error: "sqlite.sync_error", Error, 5;
}

/// Places that are no fault: `sqlite.sync` is the control of the power cuts.
const CONTROLS: [&str; 1] = ["sqlite.sync"];
/// Places that this load does not lead to: `tests/expanding.rs`, `tests/bulk.rs`, `tests/dead_letters.rs`,
/// `tests/scheduling.rs`, `tests/delivering` and `tests/rotating.rs` try them, with all actions as well.
const ELSEWHERE: [&str; 11] = [
    "expand.before_position",
    "operation.before_position",
    "replay.mid_batch",
    "cron.after_select",
    "cron.after_enqueue",
    "publish.mid_fan_out",
    "delivery.before_send",
    "delivery.after_send",
    "webhook.before_write",
    "backfill.before_page",
    "rotation.mid_batch",
];

async fn try_place(database: Database, place: &'static str, usual: Act, nth: u32) {
    if place.starts_with("sqlite.") && database == Database::Postgres {
        return;
    }
    for act in Act::tried(usual) {
        eprintln!("{place}: {act:?}");
        let failpoint = act.at(place, nth);
        // Only a commit that fails leads there.
        let failpoint = match place {
            "sqlite.reopen" => format!("store.commit_error=error@5x1;{failpoint}"),
            _ => failpoint,
        };
        match place {
            "migration.mid_step" => migrate(database, act, &failpoint).await,
            _ => try_one(database, place, act, &failpoint).await,
        }
    }
}

async fn try_one(database: Database, place: &'static str, act: Act, failpoint: &str) {
    let mut load = begin(Gateway::setup(database).file(RETENTION).start().await).await;
    // Retention works at the start: there must be something old by then.
    load.send("e-0").await;
    load.send("e-0").await;
    load.client.gateway.restart_with(failpoint).await;
    load.drive().await;
    if place == "shutdown.mid_drain" {
        stop_under_load(&mut load, act).await;
    }
    load.client.acted(place).await;
    if act == Kill {
        load.client.dies().await;
    }
    load.client.gateway.restart().await;
    load.drive_on().await;
    check(&mut load).await;
}

/// Receipts are too old at once.
const RETENTION: &str = "[retention]\nreceipts_days = 0\n";

async fn begin(gateway: Gateway) -> Load {
    let policy = json!({"max_attempts": 20});
    let source = gateway.admin().source_with("stripe", policy).await;
    Load { client: Client::new(gateway), source, told: Told::default(), hopeless: String::new() }
}

/// A migration that is broken off leaves nothing, and the next start does it.
async fn migrate(database: Database, act: Act, failpoint: &str) {
    let prepared = Gateway::setup(database).prepare().await;
    let ran = prepared.run_with(&[("WAKEPOST_FAILPOINTS", failpoint)], &["migrate"]).await;
    match act {
        Kill => assert_eq!(ran.code, None, "{ran:?}"),
        Error => {
            let ran = ran.ends_with(1);
            assert!(ran.stderr.contains("failpoint migration.mid_step"), "{}", ran.stderr);
        }
        Delay => {
            ran.ends_with(0);
        }
    }
    let left = prepared.run(&["migrate", "--check"]).await;
    left.ends_with(if act == Delay { 0 } else { 1 });
    let mut load = begin(prepared.start().await).await;
    load.drive().await;
    check(&mut load).await;
}

/// The server is asked to stop while an event comes in and a worker waits.
async fn stop_under_load(load: &mut Load, act: Act) {
    let gateway = &load.client.gateway;
    let worker = gateway.worker("waiting");
    // It may be given the event's job, and vanishes with it.
    let ask = json!({"wait_s": 20, "lease_s": load::LEASE_S});
    let waiting = tokio::spawn(async move { worker.try_ask(ask).await });
    let event = load::event(&load.source, "e-9");
    let (sent, ()) =
        join(gateway.try_send(&load.source, &event), async { gateway.terminate() }).await;
    let status = load.client.gateway.ended().await;
    assert_eq!(status.code(), (act != Kill).then_some(0), "{status:?}");
    load.client.deaths += u32::from(act == Kill);
    let _ = waiting.await.expect("no panic");
    if let Ok(answer) = sent
        && answer.status != 503
    {
        load.told.events.insert("e-9".to_owned(), answer.is(202).text("event_id"));
    }
    load.client.gateway.restart().await;
    load.send("e-9").await;
}

/// A misspelt place would test nothing; and a place that is not tried here would be forgotten.
#[tokio::test]
async fn every_place_is_tried_and_a_misspelt_one_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let misspelt = [("WAKEPOST_FAILPOINTS", "store.after_comit=kill")];
    let refused = wakepost(directory.path(), &misspelt, &["serve"]).await.ends_with(1);
    let (_, places) = refused.stderr.trim().split_once("there are ").expect("the places");
    let mut places: Vec<&str> = places.split(", ").collect();
    let mut tried = [TRIED, &CONTROLS, &ELSEWHERE].concat();
    places.sort_unstable();
    tried.sort_unstable();
    assert_eq!(places, tried);
    let wrong = [("WAKEPOST_FAILPOINTS", "store.after_commit=dye")];
    wakepost(directory.path(), &wrong, &["serve"]).await.ends_with(1);
}
