//! SQLite: each sequence has a copy of one small file, and a crash closes and reopens it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use tempfile::TempDir;
use wakepost_domain::Timestamp;
use wakepost_domain::ports::Clock;
use wakepost_store::Store;
use wakepost_store::sqlite::{Drive, Durability, FILE, Sqlite};

use super::Database;
use crate::world::{BEGINNING, Party, settle_in};

/// A clock that stands still until it is moved.
#[derive(Default)]
struct StillClock(AtomicI64);

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

pub struct OnSqlite {
    // Fields drop in this order: the store closes before its directory goes.
    store: Option<Arc<Sqlite>>,
    directory: TempDir,
    template: TempDir,
    clock: Arc<StillClock>,
    parties: [Party; 2],
}

#[async_trait(?Send)]
impl Database for OnSqlite {
    const NAME: &'static str = "SQLite";
    const CLAIMS_APART: bool = false;

    async fn open() -> OnSqlite {
        let clock = Arc::new(StillClock::default());
        let template = tempfile::tempdir().unwrap();
        let store = open(template.path(), &clock);
        let parties = settle_in(&store).await;
        drop(store);
        let directory = tempfile::tempdir().unwrap();
        OnSqlite { store: None, directory, template, clock, parties }
    }

    fn parties(&self) -> [Party; 2] {
        self.parties
    }

    async fn start_over(&mut self) -> Timestamp {
        self.store = None;
        self.directory = tempfile::tempdir().unwrap();
        std::fs::copy(self.template.path().join(FILE), self.directory.path().join(FILE)).unwrap();
        self.set_clock(BEGINNING).await;
        self.store = Some(Arc::new(open(self.directory.path(), &self.clock)));
        BEGINNING
    }

    fn node(&self, _: usize) -> Arc<dyn Store> {
        self.store.clone().expect("a sequence has begun")
    }

    async fn set_clock(&mut self, at: Timestamp) {
        self.clock.0.store(at.as_millis(), Ordering::SeqCst);
    }

    async fn calm(&mut self) {}

    async fn crash(&mut self) {
        self.store = None;
        self.store = Some(Arc::new(open(self.directory.path(), &self.clock)));
    }

    async fn close(self) {}
}

/// Power cuts are tested elsewhere: these sequences do not wait for the disk.
fn open(directory: &Path, clock: &Arc<StillClock>) -> Sqlite {
    Sqlite::open(directory, clock.clone(), Durability::Normal, Drive::Thread).unwrap()
}
