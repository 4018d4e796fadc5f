//! Read-only connections, a few, on blocking threads, so that reading never waits for the writer. A simulation reads on
//! its own thread.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;
use wakepost_domain::Timestamp;
use wakepost_domain::ports::Clock;

use super::Drive;
use super::rows::unavailable;
use super::syncer::Marks;
use super::writer::plan_once;
use crate::error::{Result, StoreError};

const READERS_MAX: usize = 4;

pub struct Readers {
    path: PathBuf,
    marks: Arc<Marks>,
    clock: Arc<dyn Clock>,
    idle: Mutex<Vec<Connection>>,
    places: Semaphore,
    drive: Drive,
}

impl Readers {
    pub fn new(path: PathBuf, marks: Arc<Marks>, clock: Arc<dyn Clock>, drive: Drive) -> Readers {
        let (idle, places) = (Mutex::default(), Semaphore::new(READERS_MAX));
        Readers { path, marks, clock, idle, places, drive }
    }

    /// Runs a query on a connection of its own. What it says holds through a power cut: it is answered when all that
    /// it may have seen is on the disk.
    pub async fn read<T, F>(self: &Arc<Self>, query: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, Timestamp) -> Result<T> + Send + 'static,
    {
        let answer = self.read_known(query).await;
        self.marks.all_seen_is_synced().await;
        answer
    }

    /// As [`Readers::read`], for the contents of rows that the caller knows to be on the disk.
    pub async fn read_known<T, F>(self: &Arc<Self>, query: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, Timestamp) -> Result<T> + Send + 'static,
    {
        let _place = self.places.acquire().await.map_err(|_| StoreError::Busy)?;
        if self.drive == Drive::Inline {
            return self.read_here(query);
        }
        let readers = self.clone();
        tokio::task::spawn_blocking(move || readers.read_here(query))
            .await
            .map_err(|error| StoreError::Unavailable(format!("a read was cut off: {error}")))?
    }

    fn read_here<T>(&self, query: impl FnOnce(&Connection, Timestamp) -> Result<T>) -> Result<T> {
        let connection = match self.idle.lock().pop() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let answer = at_one_moment(&connection, |snapshot| query(snapshot, self.clock.now()));
        // After a failure the connection may be stale: the next reader opens a fresh one.
        if !matches!(answer, Err(StoreError::Unavailable(_))) {
            self.idle.lock().push(connection);
        }
        answer
    }

    fn connect(&self) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags).map_err(unavailable)?;
        connection
            .execute_batch("PRAGMA busy_timeout = 2000; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8192;")
            .map_err(unavailable)?;
        plan_once(&connection)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    }
}
/// All that a query reads is of one moment: an item that ends meanwhile is not seen in both of its tables.
fn at_one_moment<T>(
    connection: &Connection,
    query: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    let snapshot = connection.unchecked_transaction().map_err(unavailable)?;
    query(&snapshot)
}
