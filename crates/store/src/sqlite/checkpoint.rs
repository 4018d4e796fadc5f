//! The checkpointer: moves committed pages from the log to the database beside the writer, so that no
//! commit has to wait for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;

const PERIOD: Duration = Duration::from_millis(50);

/// Above this the writer itself restarts the log between two batches: a passive checkpoint alone never
/// does while the log is being written to.
pub const LOG_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The thread that checkpoints; it ends when this is dropped.
pub struct Checkpointer {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Checkpointer {
    pub fn start(path: PathBuf) -> std::io::Result<Checkpointer> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name("sqlite-checkpoint".to_owned())
            .spawn(move || run(&path, &seen))?;
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

fn run(path: &Path, stop: &AtomicBool) {
    let mut connection: Option<Connection> = None;
    let mut done: Option<u64> = None;
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(PERIOD);
        let size = log_bytes(path);
        // The log only grows between checkpoints, so an unchanged size means nothing new to move.
        if size == 0 || Some(size) == done {
            continue;
        }
        let open = match connection.take() {
            Some(open) => Ok(open),
            None => Connection::open(path),
        };
        let moved = open.and_then(|open| {
            open.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
            Ok(open)
        });
        // A failed checkpoint loses nothing: the log stays, and the next one tries again.
        match moved {
            Ok(open) => {
                connection = Some(open);
                done = Some(size);
            }
            Err(error) => tracing::warn!(%error, "a checkpoint failed"),
        }
    }
}

/// How large the log is.
pub fn log_bytes(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).map_or(0, |meta| meta.len())
}
