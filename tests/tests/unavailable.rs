//! Unavailable: while the store is down, read-only or full, nothing is acknowledged and what can be read is
//! read; then it goes on without a restart, with nothing lost and nothing doubled.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::json;
use wakepost_tests::{Answer, Database, Event, Gateway, Lease, SmallDisk, Source, skipped, until};
use xtask::postgres::{Durability, Postgres};

/// A gateway with an event that was acknowledged and a job that a worker has, and what was told since.
struct Story {
    gateway: Gateway,
    source: Source,
    sent: HashMap<String, Event>,
    told: HashMap<String, String>,
    lease: Lease,
}

impl Story {
    async fn begin(gateway: Gateway) -> Story {
        let source = gateway.with_source("standard-webhooks").await;
        gateway.admin().job().await;
        let lease = gateway.worker("w").wait().await;
        let (sent, told) = (HashMap::new(), HashMap::new());
        let mut story = Story { gateway, source, sent, told, lease };
        story.send("before", 100).await.is(202);
        story
    }

    /// Sends an event with a body of about this size.
    async fn send(&mut self, id: &str, bytes: usize) -> Answer {
        let body = json!({"type": id, "padding": "x".repeat(bytes)}).to_string();
        let event = self.source.event(id).with_body(body);
        let answer = self.gateway.send(&self.source, &event).await;
        if answer.status == 503 {
            assert_eq!(answer.header("retry-after"), "1");
        } else {
            self.told.insert(id.to_owned(), answer.text("event_id"));
        }
        self.sent.insert(id.to_owned(), event);
        answer
    }

    /// Nothing is taken in: no event, and no word of a worker. The process lives.
    async fn takes_nothing(&mut self, round: u32) {
        self.send(&format!("while-{round}"), 100).await.is(503);
        for answer in [self.lease.heartbeat().await, self.lease.complete(json!(1)).await] {
            assert_eq!(answer.is(503).header("retry-after"), "1");
        }
        assert_eq!(self.ready().await, 503);
        self.gateway.fetch("/healthz").await.is(200);
    }

    /// What was acknowledged can be read.
    async fn can_be_read(&self) {
        let api = self.gateway.admin();
        assert!(api.list("/inbox").await.len() >= self.told.len());
        let raw = api.get(&format!("/inbox/{}/raw", self.told["before"])).await.is(200);
        assert_eq!(raw.body, self.sent["before"].body);
    }

    async fn ready(&self) -> u16 {
        self.gateway.fetch("/readyz").await.status
    }

    /// By itself it takes in again what everybody repeats, each once.
    async fn goes_on(mut self) {
        until("it is ready again", || async { (self.ready().await == 200).then_some(()) }).await;
        for (id, event) in &self.sent {
            let answer = self.gateway.send(&self.source, event).await;
            assert!(matches!(answer.status, 200 | 202), "{id}: {}", answer.json());
            let given = answer.text("event_id");
            if let Some(told) = self.told.insert(id.clone(), given.clone()) {
                assert_eq!((given, answer.status), (told, 200), "{id} was acknowledged before");
            }
        }
        self.lease.complete(json!(1)).await.is(200);
        let api = self.gateway.admin();
        assert_eq!(api.list("/inbox").await.len(), self.sent.len(), "each event once");
        for (id, told) in &self.told {
            let raw = api.get(&format!("/inbox/{told}/raw")).await.is(200);
            assert_eq!(raw.body, self.sent[id].body);
        }
        for _ in &self.sent {
            self.gateway.worker("w").wait().await.complete(json!(1)).await.is(200);
        }
        assert!(self.gateway.worker("w").lease().await.is_none(), "one job for each event");
    }
}

#[tokio::test]
async fn a_full_disk_on_sqlite() {
    if let Some(reason) = SmallDisk::impossible() {
        return skipped(format!("no small disk can be had: {reason}"));
    }
    let gateway = Gateway::setup(Database::Sqlite).disk("3m").start().await;
    let disk = SmallDisk::of(&gateway);
    let mut story = Story::begin(gateway).await;
    // Large events leave room for small ones.
    for bytes in [200_000, 10_000, 100] {
        let mut refused = 0;
        for round in 0.. {
            refused +=
                u32::from(story.send(&format!("{bytes}-{round}"), bytes).await.status == 503);
            if refused == 3 {
                break;
            }
        }
    }
    story.can_be_read().await;
    story.takes_nothing(1).await;
    story.takes_nothing(2).await;
    story.can_be_read().await;
    disk.resize("64m");
    story.goes_on().await;
}

/// While this lives the files cannot be written, not even by who has them open. It must end even with a test
/// that fails: nobody can remove them either.
struct Immutable([PathBuf; 2]);

impl Immutable {
    fn set(gateway: &Gateway) -> Immutable {
        let files = ["wakepost.db", "wakepost.db-wal"].map(|file| gateway.data_dir().join(file));
        let ran = Command::new("chattr").arg("+i").args(&files).output().expect("chattr");
        let immutable = Immutable(files);
        assert!(ran.status.success(), "chattr worked a moment ago");
        immutable
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        let ran = Command::new("chattr").arg("-i").args(&self.0).output();
        if !ran.is_ok_and(|ran| ran.status.success()) {
            eprintln!("{:?} are left immutable", self.0);
        }
    }
}

/// Whether files can be made immutable here, and then really are.
fn immutable_is_possible() -> bool {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trial");
    let mut file = std::fs::File::create(&path).expect("a file");
    let chattr = |word: &str| {
        let ran = Command::new("chattr").arg(word).arg(&path).output();
        ran.is_ok_and(|ran| ran.status.success())
    };
    let refused = chattr("+i") && std::io::Write::write(&mut file, b"x").is_err();
    chattr("-i");
    refused
}

#[tokio::test]
async fn a_read_only_database_on_sqlite() {
    if !immutable_is_possible() {
        return skipped("open files cannot be made read-only");
    }
    let mut story = Story::begin(Gateway::start(Database::Sqlite).await).await;
    let immutable = Immutable::set(&story.gateway);
    for round in 0..3 {
        story.takes_nothing(round).await;
        story.can_be_read().await;
    }
    drop(immutable);
    story.goes_on().await;
}

#[tokio::test]
async fn a_database_that_another_program_holds_on_sqlite() {
    let mut story = Story::begin(Gateway::start(Database::Sqlite).await).await;
    let other = Connection::open(story.gateway.data_dir().join("wakepost.db")).expect("the file");
    other.busy_timeout(Duration::from_secs(10)).expect("a setting");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    // It may still be stored when the lock is free; the sender was told to come again.
    story.send("while-1", 100).await.is(503);
    story.can_be_read().await;
    assert_eq!(story.ready().await, 503);
    other.execute_batch("ROLLBACK").expect("the lock is free");
    story.goes_on().await;
}

/// D4. The disk fails once, and the database can then not be opened for a while. From `line` of the log on nothing is
/// acknowledged until it was.
async fn nothing_is_acknowledged_until_it_was_reopened(failpoint: &str, line: &str) {
    const REOPENINGS: usize = 10;
    let gateway = Gateway::start(Database::Sqlite).await;
    let mut story = Story::begin(gateway).await;
    let failpoints = format!("{failpoint};sqlite.reopen=error@1x{REOPENINGS}");
    story.gateway.restart_with(&failpoints).await;
    story.lease = story.lease.through(&story.gateway.admin());
    let mut refused = 0;
    for round in 0.. {
        assert!(round < 500, "no {line:?}, or it was never reopened");
        let has_failed = story.gateway.logged().contains(line);
        let status = story.send(&format!("e-{round}"), 100).await.status;
        if story.gateway.logged().contains("the database was reopened") {
            break;
        }
        assert!(!has_failed || status == 503, "e-{round} was acknowledged");
        refused += usize::from(has_failed);
    }
    // Receipts, the rescuer and their like take turns at opening it too.
    assert!(refused >= 2, "{refused}");
    let log = story.gateway.logged();
    assert_eq!(log.matches("failpoint sqlite.reopen acts").count(), REOPENINGS, "{log}");
    story.goes_on().await;
}

#[tokio::test]
async fn after_a_failed_commit_nothing_is_acknowledged_until_the_database_was_reopened_on_sqlite() {
    let line = "the database failed; it will be reopened";
    nothing_is_acknowledged_until_it_was_reopened("store.commit_error=error@10x1", line).await;
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_acknowledged_until_the_database_was_reopened_on_sqlite() {
    let line = "the log could not be synced; the database will be reopened";
    nothing_is_acknowledged_until_it_was_reopened("sqlite.sync_error=error@10x1", line).await;
}

#[tokio::test]
async fn after_a_failed_checkpoint_nothing_is_acknowledged_until_the_database_was_reopened_on_sqlite()
 {
    let line = "a checkpoint failed";
    nothing_is_acknowledged_until_it_was_reopened("sqlite.checkpoint=error@3x1", line).await;
}

#[tokio::test]
async fn a_server_that_is_down_on_postgres() {
    if !Postgres::is_installed() {
        return skipped("there is no PostgreSQL on this machine");
    }
    let start = || Postgres::start(Durability::Fast).expect("a server");
    let mut server = tokio::task::spawn_blocking(start).await.expect("a server");
    let gateway = Gateway::setup(Database::Postgres).server(&server.url()).start().await;
    let mut story = Story::begin(gateway).await;
    for round in 0..2 {
        server.quit().expect("it ends");
        story.takes_nothing(round).await;
        let read = story.gateway.admin().get("/inbox").await.is(503);
        assert_eq!(read.header("retry-after"), "1");
        server.start_again().expect("it starts");
        until("it is ready again", || async { (story.ready().await == 200).then_some(()) }).await;
        story.send(&format!("between-{round}"), 100).await.is(202);
    }
    story.goes_on().await;
}

#[tokio::test]
async fn a_read_only_database_on_postgres() {
    let mut story = Story::begin(Gateway::start(Database::Postgres).await).await;
    // All connections are then new ones, as after a failover.
    story.gateway.make_database_read_only().await;
    until("it is not ready", || async { (story.ready().await == 503).then_some(()) }).await;
    for round in 0..3 {
        story.takes_nothing(round).await;
        story.can_be_read().await;
    }
    // Its connections live on, and would stay read-only.
    story.gateway.make_database_writable().await;
    story.goes_on().await;
}

#[tokio::test]
async fn a_full_disk_on_postgres() {
    let mut story = Story::begin(Gateway::start(Database::Postgres).await).await;
    let full = "CREATE FUNCTION is_full() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END $$;";
    story.gateway.execute(full).await;
    for table in ["events", "work"] {
        let trigger = format!(
            "CREATE TRIGGER is_full BEFORE INSERT OR UPDATE OR DELETE ON {table}
             FOR EACH STATEMENT EXECUTE FUNCTION is_full()"
        );
        story.gateway.execute(&trigger).await;
    }
    for round in 0..3 {
        story.send(&format!("while-{round}"), 100).await.is(503);
        for answer in [story.lease.heartbeat().await, story.lease.complete(json!(1)).await] {
            assert_eq!(answer.is(503).header("retry-after"), "1");
        }
        story.can_be_read().await;
        story.gateway.fetch("/healthz").await.is(200);
    }
    for table in ["events", "work"] {
        story.gateway.execute(&format!("DROP TRIGGER is_full ON {table}")).await;
    }
    story.goes_on().await;
}
