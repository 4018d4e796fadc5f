//! SQLite: the embedded default. One process, one writer.
//!
//! One thread owns the only write connection (`writer`). It runs everything that waits in one transaction, so that
//! the cost of a commit is shared by whoever is there, and another thread puts it on the disk and answers
//! (`syncer`). Reads go to a few read-only connections. The files beside this one hold the moves, and each has its twin in
//! `postgres/`.

mod accept;
mod alerts;
mod approvals;
mod backup;
mod beside;
mod callbacks;
mod cancelling;
mod caps;
mod checkpoint;
mod checks;
mod claim;
mod coalescing;
mod conversing;
mod costs;
mod data_keys;
mod dead_letters;
mod deliveries;
mod effects;
mod event_types;
mod fixtures;
mod migrate;
mod operations;
mod ordering;
mod outbox;
mod placing;
mod prune;
mod prune_own;
mod publishing;
mod queue;
mod read;
mod readers;
mod registration;
mod rewrite;
mod rows;
mod schedules;
mod sequencing;
mod series;
mod settings;
mod settings_rows;
mod settle;
mod shutting;
mod stats;
mod syncer;
mod upkeep;
mod webhooks;
mod work;
mod writer;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use wakepost_domain::ports::Clock;

use crate::admission::Admission;
use crate::error::{Result, StoreError};
use crate::failpoint;
use checkpoint::Log;
use readers::Readers;
use syncer::Marks;
use writer::Writer;

pub use backup::schema_of;
pub use beside::Beside;
pub use migrate::{Pending, schema_version};

/// The name of the database file in the data directory.
pub const FILE: &str = "wakepost.db";

/// The first version without the race between a checkpoint and a write that could corrupt the file.
const SQLITE_MIN: i32 = 3_051_003;

/// How strictly a commit waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Every commit is on the disk before it is answered.
    #[default]
    Full,
    /// A power cut may lose the last commits. Only for measurements and as a control in tests.
    Normal,
}

/// How the writer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Drive {
    /// On a thread of its own, with group commit.
    #[default]
    Thread,
    /// On the caller's thread, one move or read after the other and without a checkpointer, for simulations.
    Inline,
}

/// The store on SQLite.
#[derive(Clone)]
pub struct Sqlite {
    writer: Arc<Writer>,
    readers: Arc<Readers>,
    admission: Admission,
    walk: Arc<Mutex<prune::Walk>>,
    _lock: Arc<File>,
}

impl std::fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sqlite")
    }
}

impl Sqlite {
    /// Opens, and if need be makes and migrates, the database in a directory. A second process is refused.
    pub fn open(
        directory: &Path,
        clock: Arc<dyn Clock>,
        durability: Durability,
        drive: Drive,
    ) -> Result<Sqlite> {
        Sqlite::open_with(directory, clock, durability, drive, Arc::default())
    }

    /// The same with a log that may have a bound of its own.
    fn open_with(
        directory: &Path,
        clock: Arc<dyn Clock>,
        durability: Durability,
        drive: Drive,
        log: Arc<Log>,
    ) -> Result<Sqlite> {
        if rusqlite::version_number() < SQLITE_MIN {
            return Err(StoreError::Unavailable("this SQLite is too old to be safe".to_owned()));
        }
        let lock = lock(directory)?;
        let path = directory.join(FILE);
        // The control of the power cut test, in debug builds only: it must see commits lost.
        let durability =
            if failpoint::skips("sqlite.sync") { Durability::Normal } else { durability };
        let marks = Arc::new(Marks::default());
        migrate::refuse_newer(&path)?;
        // Whoever wrote to the log before may have ended because it could not be synced.
        rewrite::rewrite(&path)?;
        let mut connection = writer::connect(&path, durability, &log)?;
        migrate::migrate(&mut connection)?;
        Ok(Sqlite {
            writer: Arc::new(Writer::start(
                connection,
                path.clone(),
                durability,
                log,
                marks.clone(),
                clock.clone(),
                drive,
            )?),
            readers: Arc::new(Readers::new(path, marks, clock, drive)),
            admission: Admission::default(),
            walk: Arc::default(),
            _lock: Arc::new(lock),
        })
    }

    /// Keeps servers out of a directory for as long as the answer is held.
    pub fn lock(directory: &Path) -> Result<File> {
        lock(directory)
    }

    /// Which migrations a database in a directory still lacks, without changing it.
    pub fn pending(directory: &Path) -> Result<Vec<Pending>> {
        let path = directory.join(FILE);
        if !path.exists() {
            return Ok(migrate::all());
        }
        let connection =
            Connection::open_with_flags(&path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
                .map_err(rows::unavailable)?;
        migrate::pending(&connection)
    }
}

/// Takes the lock that keeps a second process out. It ends with the process, however that ends.
fn lock(directory: &Path) -> Result<File> {
    let path: PathBuf = directory.join("wakepost.lock");
    let problem = |error: std::io::Error| {
        StoreError::Unavailable(format!("cannot open {}: {error}", path.display()))
    };
    let file =
        File::options().create(true).truncate(false).write(true).open(&path).map_err(problem)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(StoreError::Unavailable(format!(
            "another wakepost already uses {}; SQLite serves one process, PostgreSQL many",
            directory.display()
        ))),
        Err(std::fs::TryLockError::Error(error)) => Err(problem(error)),
    }
}
