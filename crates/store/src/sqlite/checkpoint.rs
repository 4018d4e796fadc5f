//! The checkpointer: moves committed pages from the log to the database beside the writer, so that no
//! commit has to wait for it.
//!
//! The log is a ring only if it is restarted: while it is being written to, a checkpoint beside the writer
//! never empties it. So once it is long, and nearly all of it has been moved, the writer is asked to
//! restart it between two batches, which then costs it little. Lengths are counted in pages by the
//! writer's commits: the file keeps its size when the log restarts, and says nothing.
//!
//! While somebody reads one moment of the database for long, such as a backup, nothing can be moved past that moment. What
//! is written meanwhile makes the log longer, up to a bound; then writing is refused until the reader is through.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, ffi};

use super::rows::unavailable;
use crate::error::{Result, StoreError};
use crate::failpoint;

const PERIOD: Duration = Duration::from_millis(50);
/// Pages that wait for a checkpoint until there are this many, or the writer rests. While these are synced the
/// writer's own sync waits, so they are few: with 512 the slowest hundredth of requests took three times as
/// long at half of the durable rate.
const STEP_PAGES: u32 = 64;
/// The same while commits are large: then the writer is the bottleneck, and each page that many of its commits
/// touched is to be moved once. With 64 a fifth fewer events were taken in.
const BUSY_STEP_PAGES: u32 = 2048;
/// Commits are large if they have this many pages each.
const LARGE_COMMIT: u32 = 32;
/// Above this the log is restarted: 64 MiB.
const LOG_PAGES_MAX: u32 = 16_384;
/// From here on nothing more is written to it until it was restarted: 4 GiB. A backup of a large database under load must
/// fit below, and the disk must not be filled by one that hangs.
const LOG_PAGES_FULL: u32 = 64 * LOG_PAGES_MAX;
/// So little left to move that the writer may do it.
const REST_PAGES: u32 = 512;
/// Checkpoints in a row after which the writer restarts the log with whatever is left.
const PASSES_MAX: u32 = 4;

/// How long the writer waits for readers when it restarts the log.
const RESTART_PATIENCE: Duration = Duration::from_millis(50);
/// How long the writer waits for a lock otherwise.
pub const BUSY_PATIENCE: Duration = Duration::from_secs(5);

/// What the writer and the checkpointer tell each other.
#[derive(Debug)]
pub struct Log {
    pages_full: u32,
    /// Whether it was said that it is full.
    full_told: AtomicBool,
    pages: AtomicU32,
    moved: AtomicU32,
    /// Since the last checkpoint.
    commits: AtomicU32,
    restart: AtomicBool,
    /// A sync failed: what the log holds may not be on the disk although the next sync succeeds.
    doubted: AtomicBool,
    /// Held by whoever moves pages, or writes the log again.
    moving: Mutex<()>,
    checkpointer: OnceLock<Thread>,
}

impl Default for Log {
    fn default() -> Log {
        Log::bounded(LOG_PAGES_FULL)
    }
}

impl Log {
    /// One that takes no more from this length on.
    pub fn bounded(pages_full: u32) -> Log {
        Log {
            pages_full,
            full_told: AtomicBool::default(),
            pages: AtomicU32::default(),
            moved: AtomicU32::default(),
            commits: AtomicU32::default(),
            restart: AtomicBool::default(),
            doubted: AtomicBool::default(),
            moving: Mutex::default(),
            checkpointer: OnceLock::default(),
        }
    }

    /// A commit left the log this long.
    pub fn has(&self, pages: u32) {
        self.pages.store(pages, Ordering::Relaxed);
        self.commits.fetch_add(1, Ordering::Relaxed);
        if self.is_due(pages.saturating_sub(self.moved.load(Ordering::Relaxed)))
            && let Some(checkpointer) = self.checkpointer.get()
        {
            checkpointer.unpark();
        }
    }

    /// Whether so many pages are worth a checkpoint while the writer works.
    fn is_due(&self, waiting: u32) -> bool {
        let large = LARGE_COMMIT.saturating_mul(self.commits.load(Ordering::Relaxed));
        waiting >= if waiting < large { STEP_PAGES } else { BUSY_STEP_PAGES }
    }

    /// A sync failed. No page is moved until the doubt is settled.
    pub fn doubt(&self) {
        self.doubted.store(true, Ordering::SeqCst);
    }

    /// A checkpoint failed, perhaps in a sync.
    fn failed(&self, error: rusqlite::Error) -> StoreError {
        if error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure) {
            self.doubt();
        }
        unavailable(error)
    }

    /// Whether a sync failed that nobody made up for yet.
    pub fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::SeqCst)
    }

    /// Makes up for a sync that failed. `write_again` gets how many pages the log has, and no page is moved
    /// meanwhile. The writer calls this, and writes nothing itself then.
    pub fn settle_doubt(&self, write_again: impl FnOnce(u32) -> Result<()>) -> Result<()> {
        let _still = self.moving.lock();
        write_again(self.pages.load(Ordering::Relaxed))?;
        self.doubted.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Restarts the log if the checkpointer asked for it; between two batches of the writer.
    pub fn restart_if_due(&self, writer: &Connection) {
        if !self.is_doubted() && self.restart.swap(false, Ordering::Relaxed) {
            // Not while somebody reads from it: the checkpointer will ask again.
            self.restart(writer);
        }
    }

    /// Whether the writer may write. A log that is full is restarted as soon as the checkpointer has moved it: to move all
    /// of it would keep the writer, and whoever waits for it, for long.
    pub fn has_room(&self, writer: &Connection) -> bool {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.pages_full {
            return true;
        }
        let left = pages.saturating_sub(self.moved.load(Ordering::Relaxed));
        if left < REST_PAGES && self.restart(writer) {
            if self.full_told.swap(false, Ordering::Relaxed) {
                tracing::info!("the log was restarted; the database is written to again");
            }
            return true;
        }
        if !self.full_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                pages,
                "somebody reads one moment of the database for very long, such as a backup; nothing is written until \
                 that ends"
            );
        }
        false
    }

    /// Moves what is left of the log and begins it anew, unless somebody reads from it; answers whether it did.
    fn restart(&self, writer: &Connection) -> bool {
        let _ = writer.busy_timeout(RESTART_PATIENCE);
        let done = move_pages(writer, "RESTART").map_err(|error| self.failed(error));
        let _ = writer.busy_timeout(BUSY_PATIENCE);
        match done {
            Ok((is_busy, _)) => {
                if !is_busy {
                    self.pages.store(0, Ordering::Relaxed);
                }
                !is_busy
            }
            Err(error) => {
                tracing::warn!(%error, "the log could not be restarted");
                false
            }
        }
    }
}

/// The thread that checkpoints; it ends when this is dropped.
pub struct Checkpointer {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Checkpointer {
    pub fn start(path: PathBuf, log: Arc<Log>) -> std::io::Result<Checkpointer> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let of_thread = log.clone();
        let thread = std::thread::Builder::new()
            .name("sqlite-checkpoint".to_owned())
            .spawn(move || run(&path, &of_thread, &seen))?;
        let _ = log.checkpointer.set(thread.thread().clone());
        Ok(Checkpointer { stop, thread: Some(thread) })
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn run(path: &Path, log: &Log, stop: &AtomicBool) {
    let mut connection: Option<Connection> = None;
    let (mut seen, mut moved) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(PERIOD);
        let pages = log.pages.load(Ordering::Relaxed);
        let rests = pages == seen;
        seen = pages;
        if pages < moved {
            moved = 0; // The log was restarted.
        }
        log.moved.store(moved, Ordering::Relaxed);
        if pages == moved || !(rests || log.is_due(pages - moved)) {
            continue;
        }
        let _moving = log.moving.lock();
        if log.is_doubted() {
            // It may have kept its own word of the failure, which is settled when the log was written again.
            connection = None;
            continue;
        }
        log.commits.store(0, Ordering::Relaxed);
        let open = match connection.take() {
            Some(open) => Ok(open),
            None => Connection::open(path),
        };
        // A failed checkpoint loses nothing: the log stays, and the next one tries again.
        let open = open.map_err(unavailable).and_then(|open| {
            let moved = checkpoint(&open, log, moved);
            Ok((moved.map_err(|error| log.failed(error))?, open))
        });
        match open {
            Ok((done, open)) => {
                connection = Some(open);
                moved = done;
                log.moved.store(moved, Ordering::Relaxed);
            }
            Err(error) => tracing::warn!(%error, "a checkpoint failed"),
        }
    }
}

/// Moves what is there, and answers how much of the log has been moved.
fn checkpoint(connection: &Connection, log: &Log, before: u32) -> rusqlite::Result<u32> {
    let mut moved = before;
    for pass in 1..=PASSES_MAX {
        let (_, done) = move_pages(connection, "PASSIVE")?;
        // Below zero while the writer restarts the log.
        let done = done.and_then(|pages| u32::try_from(pages).ok());
        let step = done.unwrap_or(moved).saturating_sub(moved);
        moved += step;
        if log.pages.load(Ordering::Relaxed) < LOG_PAGES_MAX {
            break;
        }
        if step < REST_PAGES || pass == PASSES_MAX {
            log.restart.store(true, Ordering::Relaxed);
            break;
        }
    }
    Ok(moved)
}

/// Moves pages of the log into the file: whether somebody kept it from moving all, and how many have been moved.
fn move_pages(connection: &Connection, mode: &str) -> rusqlite::Result<(bool, Option<i64>)> {
    failpoint::pass("sqlite.checkpoint").map_err(as_of_the_disk)?;
    let pragma = format!("PRAGMA wal_checkpoint({mode})");
    connection.query_row(&pragma, [], |row| Ok((row.get(0)?, row.get(2)?)))
}

/// What SQLite says of a disk that could not sync.
fn as_of_the_disk(error: StoreError) -> rusqlite::Error {
    let code = ffi::Error::new(ffi::SQLITE_IOERR_FSYNC);
    rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
}

#[cfg(test)]
mod tests {
    use wakepost_domain::Timestamp;
    use wakepost_domain::ports::Clock;

    use super::super::{Drive, Durability, Sqlite};
    use super::*;

    #[test]
    fn small_commits_are_moved_in_short_steps_and_large_ones_in_long() {
        let small = Log::default();
        (1..=2).for_each(|commit| small.has(commit * (LARGE_COMMIT - 1)));
        assert!(!small.is_due(STEP_PAGES - 1));
        (3..=9).for_each(|commit| small.has(commit * (LARGE_COMMIT - 1)));
        assert!(small.is_due(9 * (LARGE_COMMIT - 1)));
        let large = Log::default();
        (1..=9).for_each(|commit| large.has(commit * LARGE_COMMIT));
        assert!(!large.is_due(9 * LARGE_COMMIT));
        assert!(large.is_due(BUSY_STEP_PAGES));
    }

    struct Clockless;

    impl Clock for Clockless {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(0)
        }
    }

    /// A store in this directory whose log takes so many pages.
    fn bounded(directory: &Path, pages: u32) -> Sqlite {
        let (clock, drive) = (Arc::new(Clockless), Drive::Thread);
        let log = Arc::new(Log::bounded(pages));
        Sqlite::open_with(directory, clock, Durability::Normal, drive, log).unwrap()
    }

    async fn put(store: &Sqlite, n: i64) -> Result<()> {
        let put = move |tx: &Connection, _| {
            tx.execute("INSERT INTO long VALUES (?1, zeroblob(8000))", [n]).map_err(unavailable)
        };
        store.write(8000, put).await.map(|_| ())
    }

    #[tokio::test]
    async fn the_log_has_a_bound_however_long_somebody_reads() {
        const PAGES: u32 = 2000;
        let directory = tempfile::tempdir().unwrap();
        let store = bounded(directory.path(), PAGES);
        let make = |tx: &Connection, _| {
            tx.execute_batch("CREATE TABLE long (n INTEGER PRIMARY KEY, text BLOB)")
                .map_err(unavailable)
        };
        store.write_whole(0, make).await.unwrap();
        let path = directory.path().join(super::super::FILE);
        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM long").unwrap();

        let (mut taken, mut refused) = (Vec::new(), 0);
        for n in 0..2500 {
            match put(&store, n).await {
                Ok(()) => taken.push(n),
                Err(StoreError::Busy) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(taken.len() > 100 && refused > 1000, "{} taken, {refused} refused", taken.len());
        let log = std::fs::metadata(super::super::rewrite::log_path(&path)).unwrap().len();
        // One commit of a single row comes on top.
        assert!(log < u64::from(PAGES + 20) * 4120, "the log has {log} bytes");

        reader.execute_batch("ROLLBACK").unwrap();
        let mut tries = 0;
        for n in 5000..7000 {
            while let Err(error) = put(&store, n).await {
                assert!(matches!(error, StoreError::Busy), "{error}");
                tries += 1;
                assert!(tries < 2000, "it does not go on");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            taken.push(n);
        }
        let there: Vec<i64> = reader
            .prepare("SELECT n FROM long ORDER BY n")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(rusqlite::Result::unwrap)
            .collect();
        assert_eq!(there, taken, "what was taken is there, and what was refused is not");
    }
}
