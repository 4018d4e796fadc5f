//! The syncer: puts committed batches on the disk beside the writer, and only then answers them.
//!
//! SQLite itself would sync within each commit, and the writer's thread would wait for the disk every time. So its
//! commits only write to the log (`synchronous = NORMAL`), and this thread syncs the log: while a batch is on its
//! way to the disk the writer already runs the next one. Nothing else changes: a batch is answered when a sync of
//! the whole log that began after its commit is done, and readers show nothing that may still be lost. After a sync
//! that failed nothing is acknowledged until the log was written again (`rewrite`); what is read meanwhile may show a
//! batch that was answered as failed.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::watch;

use super::checkpoint::Log;
use super::rewrite::log_path;
use super::writer::Waiting;
use crate::error::{Result, StoreError};
use crate::failpoint;

/// Batches that may be committed ahead of the disk. More than one only where batches are full.
const AHEAD: usize = 4;

/// SQLite's log, as a file.
#[derive(Clone)]
pub struct LogFile(Option<Arc<File>>);

impl LogFile {
    /// The log of a database that was just opened, and has one.
    pub fn open(database: &Path) -> Result<LogFile> {
        let file = File::options().write(true).open(log_path(database));
        let problem = |error| StoreError::Unavailable(format!("the log cannot be opened: {error}"));
        Ok(LogFile(Some(Arc::new(file.map_err(problem)?))))
    }

    /// A log that is never synced: the control of the power cut test.
    pub fn unsynced() -> LogFile {
        LogFile(None)
    }

    /// Puts everything that was written to it on the disk.
    pub fn sync(&self) -> Result<()> {
        failpoint::pass("sqlite.sync_error")?;
        let Some(file) = &self.0 else { return Ok(()) };
        file.sync_data()
            .map_err(|error| StoreError::Unavailable(format!("the log cannot be synced: {error}")))
    }
}

/// How far the commits are, and how far the disk is.
pub struct Marks {
    committed: AtomicU64,
    synced: watch::Sender<u64>,
    /// The last connection whose log could not be synced.
    broken: AtomicU32,
}

impl Default for Marks {
    fn default() -> Marks {
        let (synced, _) = watch::channel(0);
        Marks { committed: AtomicU64::new(0), synced, broken: AtomicU32::new(0) }
    }
}

impl Marks {
    /// A commit is about to be made: its number.
    pub fn commits(&self) -> u64 {
        self.committed.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Every commit up to this one is on the disk, or was answered as failed.
    pub fn settled(&self, number: u64) {
        self.synced.send_if_modified(|synced| {
            let is_further = number > *synced;
            *synced = number.max(*synced);
            is_further
        });
    }

    /// Whether a batch is on its way to the disk.
    pub fn is_syncing(&self) -> bool {
        *self.synced.borrow() < self.committed.load(Ordering::SeqCst)
    }

    /// Whether a connection's log could not be synced.
    pub fn is_broken(&self, connection: u32) -> bool {
        self.broken.load(Ordering::SeqCst) >= connection
    }

    /// Waits until everything is on the disk that a reader may have seen by now.
    pub async fn all_seen_is_synced(&self) {
        let seen = self.committed.load(Ordering::SeqCst);
        if *self.synced.borrow() < seen {
            // The sender lives as long as we do.
            let _ = self.synced.subscribe().wait_for(|synced| *synced >= seen).await;
        }
    }
}

/// A batch that is committed, and waits for the disk.
pub struct Committed {
    /// Its moves, which are answered then.
    pub batch: Vec<Box<dyn Waiting>>,
    /// The number of its commit.
    pub number: u64,
    /// Which of the writer's connections made it.
    pub connection: u32,
    /// That connection's log.
    pub log: LogFile,
}

/// The thread; it ends when this is dropped, after what waits.
pub struct Syncer {
    queue: Option<SyncSender<Committed>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Syncer {
    /// Starts it. `woken` is called whenever the disk has caught up.
    pub fn start(
        marks: Arc<Marks>,
        log: Arc<Log>,
        woken: impl Fn() + Send + 'static,
    ) -> std::io::Result<Syncer> {
        let (queue, waiting) = sync_channel(AHEAD);
        let thread = std::thread::Builder::new()
            .name("sqlite-sync".to_owned())
            .spawn(move || serve(&waiting, &marks, &log, woken))?;
        Ok(Syncer { queue: Some(queue), thread: Some(thread) })
    }

    /// Takes a batch over; waits while too many are ahead of the disk.
    pub fn take(&self, committed: Committed) {
        if let Some(queue) = &self.queue {
            // It is there as long as the queue is open.
            let _ = queue.send(committed);
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(waiting: &Receiver<Committed>, marks: &Marks, log: &Log, woken: impl Fn()) {
    while let Ok(first) = waiting.recv() {
        let mut batches = vec![first];
        batches.extend(waiting.try_iter());
        let last = batches.last().expect("one at least");
        let (number, connection) = (last.number, last.connection);
        let outcome = put_on_disk(&batches, marks, log);
        if let Err((error, true)) = &outcome {
            tracing::error!(%error, "the log could not be synced; the database will be reopened");
            log.doubt();
            marks.broken.fetch_max(connection, Ordering::SeqCst);
        }
        marks.settled(number);
        woken();
        let outcome = outcome.map_err(|(error, _)| error);
        for call in batches.into_iter().flat_map(|committed| committed.batch) {
            call.answer(outcome.clone());
        }
    }
}

/// One sync for all. The error says whether the connection must not be used again.
fn put_on_disk(
    batches: &[Committed],
    marks: &Marks,
    log: &Log,
) -> std::result::Result<(), (StoreError, bool)> {
    for committed in batches {
        if marks.is_broken(committed.connection) {
            // What this connection committed after the failure stands on what may be lost.
            return Err((StoreError::Unavailable("the log was not synced".to_owned()), false));
        }
    }
    let last = batches.last().expect("one at least");
    last.log.sync().map_err(|error| (error, true))?;
    if log.is_doubted() {
        // A checkpoint could not sync it, and the kernel may have told that one alone.
        return Err((StoreError::Unavailable("the log was not synced".to_owned()), false));
    }
    failpoint::pass("store.after_commit").map_err(|error| (error, false))
}
