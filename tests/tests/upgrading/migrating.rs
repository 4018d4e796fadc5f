//! The next migration, before there is one: a test makes it up, and it runs over what a release left behind. Broken off in
//! the middle it leaves nothing, and nodes of the program before it work on beside those that have it.

use std::sync::atomic::{AtomicBool, Ordering};

use wakepost_tests::{Database, Ran, migrations};

use super::load::load;
use super::opening::{everything_ends, everything_holds, is_well};
use super::upgraded::Upgraded;

/// All that a migration may do, on both databases: columns of tables that are used all the time, with and without a
/// value for the rows that are there, those rows changed, an index, and a table that is filled from others.
const NEXT: &str = "
ALTER TABLE events ADD COLUMN next_note TEXT;
ALTER TABLE work ADD COLUMN next_weight INT NOT NULL DEFAULT 7;
UPDATE work SET next_weight = max_attempts;
CREATE INDEX next_by_kind ON work (tenant, kind);
ALTER TABLE webhooks ADD COLUMN next_note TEXT;
CREATE TABLE next_counts (
  tenant INT PRIMARY KEY,
  events INT NOT NULL
);
INSERT INTO next_counts SELECT tenant, count(*) FROM events GROUP BY tenant;
";
/// Names its file.
const MIGRATION: &str = "WAKEPOST_NEXT_MIGRATION";
const FAILPOINTS: &str = "WAKEPOST_FAILPOINTS";

const EVENTS: &str = "SELECT count(*) FROM events";
const COUNTED: &str = "SELECT CAST(coalesce(sum(events), 0) AS BIGINT) FROM next_counts";
/// Work that the migration left out, and that was not made since.
const LEFT_OUT: &str = "SELECT count(*) FROM work WHERE next_weight NOT IN (max_attempts, 7)";

/// Breaks the migration off in the middle, in each way, with commands that `run` runs.
async fn broken_off_it_leaves_nothing(
    next: (&str, &str),
    run: impl AsyncFn(&[(&str, &str)], &[&str]) -> Ran,
) {
    for act in ["kill", "error"] {
        let place = format!("migration.mid_step={act}");
        let ran = run(&[next, (FAILPOINTS, &place)], &["migrate"]).await;
        assert_eq!(ran.code, (act == "error").then_some(1), "{ran:?}");
        let missing = run(&[next], &["migrate", "--check"]).await.ends_with(1).stdout;
        let number = migrations().len() / 2 + 1;
        assert_eq!(missing.trim(), format!("missing: {number:04} next"), "{act}");
        run(&[], &["migrate", "--check"]).await.ends_with(0);
    }
}

/// The migration is there once, over all that was there, and no program from before it starts any more.
async fn it_is_there(upgraded: &Upgraded, events: std::ops::RangeInclusive<i64>) {
    let counted = upgraded.gateway.count(COUNTED).await;
    assert!(events.contains(&counted), "{counted} of {events:?}");
    assert_eq!(upgraded.gateway.count(LEFT_OUT).await, 0);
    let refused = upgraded.gateway.run(&[], &["migrate", "--check"]).await.ends_with(1);
    assert!(refused.stderr.contains("made by a newer wakepost"), "{}", refused.stderr);
}

#[tokio::test]
async fn the_next_migration_runs_over_what_a_release_left_behind_on_sqlite() {
    let (prepared, receiver, past) = Upgraded::prepare(Database::Sqlite).await;
    let file = prepared.data_dir().with_file_name("next.sql");
    std::fs::write(&file, NEXT).expect("the migration");
    let next = (MIGRATION, file.to_str().expect("a plain path"));
    broken_off_it_leaves_nothing(next, async |own, args| prepared.run_with(own, args).await).await;
    let gateway = prepared.start_with(&[next]).await;
    let upgraded = Upgraded::new(gateway, receiver.into(), past.told());
    let there = past.told()["events"].as_array().expect("events").len() as i64;
    it_is_there(&upgraded, there..=i64::MAX).await;
    let done = AtomicBool::new(false);
    let checks = async {
        everything_holds(&upgraded, Database::Sqlite).await;
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(load(&upgraded, &done), checks);
    everything_ends(&upgraded).await;
    is_well(&upgraded, &[next]).await;
}

#[tokio::test]
async fn the_next_migration_runs_while_a_node_from_before_it_works_on_on_postgres() {
    let (prepared, receiver, past) = Upgraded::prepare(Database::Postgres).await;
    let file = prepared.data_dir().with_file_name("next.sql");
    std::fs::write(&file, NEXT).expect("the migration");
    let next = (MIGRATION, file.to_str().expect("a plain path"));
    // The second node has a data directory of its own, with no key in it.
    let key = past.master_key();
    let own = [next, ("WAKEPOST_MASTER_KEY", key.trim())];
    let old = Upgraded::new(prepared.start().await, receiver.into(), past.told());
    let done = AtomicBool::new(false);
    let upgrade = async {
        broken_off_it_leaves_nothing(next, async |own, args| old.gateway.run(own, args).await)
            .await;
        let before = old.gateway.count(EVENTS).await;
        let new = old.through(old.gateway.node_with(&own).await);
        it_is_there(&new, before..=new.gateway.count(EVENTS).await).await;
        everything_holds(&new, Database::Postgres).await;
        done.store(true, Ordering::Relaxed);
        new
    };
    let ((), new) = tokio::join!(load(&old, &done), upgrade);
    old.gateway.fetch("/readyz").await.is(200);
    everything_ends(&new).await;
    is_well(&new, &own).await;
}
