//! The promises of the store, kept by SQLite.

#![allow(clippy::unwrap_used, reason = "a harness is part of its tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use tempfile::TempDir;
use wakepost_domain::Timestamp;
use wakepost_domain::ports::Clock;
use wakepost_store::Store;
use wakepost_store::conformance::Harness;
use wakepost_store::sqlite::{Drive, Durability, Sqlite};

/// A clock that stands still until it is moved.
struct StillClock(AtomicI64);

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

struct OnSqlite {
    // Fields drop in this order: the store closes before its directory goes.
    store: Arc<Sqlite>,
    clock: Arc<StillClock>,
    directory: TempDir,
}

#[async_trait]
impl Harness for OnSqlite {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// SQLite serves one process: every caller is on the same node.
    fn other_node(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn advance(&self, by: Duration) {
        self.clock.0.fetch_add(by.as_millis() as i64, Ordering::SeqCst);
    }

    async fn execute(&self, sql: &str) {
        let path = self.directory.path().join(wakepost_store::sqlite::FILE);
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        connection.execute_batch(sql).unwrap();
    }

    async fn close(self) {}
}

async fn fresh() -> OnSqlite {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let clock = Arc::new(StillClock(AtomicI64::new(now.as_millis() as i64)));
    // Power cuts are tested elsewhere: these promises do not wait for the disk.
    let store =
        Sqlite::open(directory.path(), clock.clone(), Durability::Normal, Drive::Thread).unwrap();
    OnSqlite { store: Arc::new(store), clock, directory }
}

wakepost_store::conformance::conformance!(fresh);
