//! The writer: the one thread that changes the database.
//!
//! It drains what waits, runs it in one transaction, commits, and only then answers. There is no linger:
//! while one batch is on its way to the disk, the next gathers by itself. If a batch fails, its moves are
//! run again one by one, so that only the guilty one fails.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tokio::sync::oneshot;
use wakepost_domain::Timestamp;
use wakepost_domain::ports::Clock;

use super::checkpoint::{BUSY_PATIENCE, Checkpointer, Log};
use super::migrate::SCHEMA_VERSION;
use super::rows::unavailable;
use super::{Drive, Durability, Sqlite};
use crate::error::{Result, StoreError};
use crate::failpoint;

/// How many moves one transaction may hold.
const MOVES_PER_COMMIT: usize = 512;
/// How many bytes of bodies one transaction may hold.
const BYTES_PER_COMMIT: usize = 2 * 1024 * 1024;
/// How many moves may wait. Admission refuses long before this is full.
const QUEUE: usize = 32_768;

/// Opens a connection that can write.
pub fn connect(path: &Path, durability: Durability, log: &Arc<Log>) -> Result<Connection> {
    let mut connection = Connection::open(path).map_err(unavailable)?;
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    connection
        .execute_batch(&format!(
            "PRAGMA auto_vacuum = INCREMENTAL;
             PRAGMA journal_mode = WAL;
             PRAGMA synchronous = {synchronous};
             PRAGMA fullfsync = 1;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA journal_size_limit = 268435456;
             PRAGMA cache_size = -16384;
             PRAGMA temp_store = MEMORY;"
        ))
        .map_err(unavailable)?;
    plan_once(&connection)?;
    connection.busy_timeout(BUSY_PATIENCE).map_err(unavailable)?;
    let log = log.clone();
    connection
        .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            log.has(pages.unsigned_abs());
            Ok(())
        }))
        .map_err(unavailable)?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// Statements are planned without a look at what is bound to them. With it, SQLite plans a claim anew each time,
/// for the sake of its LIMIT.
pub fn plan_once(connection: &Connection) -> Result<()> {
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map(|_| ())
        .map_err(unavailable)
}

/// A move that waits for the writer.
trait Waiting: Send {
    fn run(&mut self, tx: &Connection, now: Timestamp) -> Result<()>;
    fn bytes(&self) -> usize;
    fn answer(self: Box<Self>, committed: Result<()>);
}

struct Call<T, F> {
    apply: F,
    done: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
    bytes: usize,
    savepoint: bool,
}

impl<T, F> Waiting for Call<T, F>
where
    T: Send,
    F: FnMut(&Connection, Timestamp) -> Result<T> + Send,
{
    fn run(&mut self, tx: &Connection, now: Timestamp) -> Result<()> {
        if self.savepoint {
            tx.execute_batch("SAVEPOINT one").map_err(unavailable)?;
        }
        let done = (self.apply)(tx, now);
        // The database itself failed: the whole batch is rolled back and tried again one by one.
        if let Err(error @ (StoreError::Unavailable(_) | StoreError::Corrupt(_))) = &done {
            return Err(error.clone());
        }
        if self.savepoint {
            let end = if done.is_ok() { "RELEASE one" } else { "ROLLBACK TO one; RELEASE one" };
            tx.execute_batch(end).map_err(unavailable)?;
        }
        self.done = Some(done);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn answer(self: Box<Self>, committed: Result<()>) {
        let answer = match (committed, self.done) {
            (Ok(()), Some(done)) => done,
            (Ok(()), None) => Err(StoreError::Unavailable("the move was not run".to_owned())),
            (Err(error), _) => Err(error),
        };
        let _ = self.reply.send(answer);
    }
}

/// The connection, and how to get a new one when it breaks.
struct Core {
    connection: Option<Connection>,
    path: PathBuf,
    durability: Durability,
    log: Arc<Log>,
    clock: Arc<dyn Clock>,
}

pub struct Writer {
    way: Way,
    _checkpointer: Checkpointer,
}

enum Way {
    Thread {
        queue: Option<SyncSender<Box<dyn Waiting>>>,
        thread: Option<std::thread::JoinHandle<()>>,
    },
    Inline(Mutex<Core>),
}

impl Writer {
    pub fn start(
        connection: Connection,
        path: PathBuf,
        durability: Durability,
        log: Arc<Log>,
        clock: Arc<dyn Clock>,
        drive: Drive,
    ) -> Result<Writer> {
        let problem = |error: std::io::Error| StoreError::Unavailable(error.to_string());
        let checkpointer = Checkpointer::start(path.clone(), log.clone()).map_err(problem)?;
        let mut core = Core { connection: Some(connection), path, durability, log, clock };
        let way = match drive {
            Drive::Inline => Way::Inline(Mutex::new(core)),
            Drive::Thread => {
                let (queue, waiting) = sync_channel(QUEUE);
                let thread = std::thread::Builder::new()
                    .name("sqlite-writer".to_owned())
                    .spawn(move || core.serve(&waiting))
                    .map_err(problem)?;
                Way::Thread { queue: Some(queue), thread: Some(thread) }
            }
        };
        Ok(Writer { way, _checkpointer: checkpointer })
    }

    fn submit(&self, call: Box<dyn Waiting>) -> Result<()> {
        match &self.way {
            Way::Inline(core) => {
                core.lock().commit(vec![call]);
                Ok(())
            }
            Way::Thread { queue, .. } => {
                let queue = queue.as_ref().ok_or_else(stopped)?;
                queue.try_send(call).map_err(|_| StoreError::Busy)
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Way::Thread { queue, thread } = &mut self.way {
            // Closing the queue lets the thread finish what waits, and end.
            drop(queue.take());
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}

fn stopped() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

impl Core {
    fn serve(&mut self, waiting: &Receiver<Box<dyn Waiting>>) {
        while let Ok(first) = waiting.recv() {
            let mut bytes = first.bytes();
            let mut batch = vec![first];
            while batch.len() < MOVES_PER_COMMIT && bytes < BYTES_PER_COMMIT {
                let Ok(next) = waiting.try_recv() else { break };
                bytes += next.bytes();
                batch.push(next);
            }
            self.commit(batch);
            if let Some(connection) = &self.connection {
                self.log.restart_if_due(connection);
            }
        }
    }

    /// Runs a batch in one transaction and answers it.
    fn commit(&mut self, mut batch: Vec<Box<dyn Waiting>>) {
        match self.attempt(&mut batch) {
            Ok(()) => batch.into_iter().for_each(|call| call.answer(Ok(()))),
            Err(error) if batch.len() == 1 => {
                batch.into_iter().for_each(|call| call.answer(Err(error.clone())));
            }
            Err(_) => {
                for call in batch {
                    self.commit(vec![call]);
                }
            }
        }
    }

    fn attempt(&mut self, batch: &mut [Box<dyn Waiting>]) -> Result<()> {
        let now = self.clock.now();
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.reopen()?,
        };
        let outcome = transact(&connection, batch, now);
        // After a failed write or sync nothing is acknowledged until the database was opened anew: what
        // the failed connection believes to be on the disk may not be.
        match outcome {
            Err((error, true)) => {
                tracing::error!(%error, "the database failed; it will be reopened");
                Err(error)
            }
            Err((error, false)) => {
                self.connection = Some(connection);
                Err(error)
            }
            Ok(()) => {
                self.connection = Some(connection);
                Ok(())
            }
        }
    }

    fn reopen(&self) -> Result<Connection> {
        failpoint::pass("sqlite.reopen")?;
        let connection = connect(&self.path, self.durability, &self.log)?;
        // Something is read, and something is written and synced: only that shows that the disk takes it.
        connection
            .execute_batch(&format!(
                "BEGIN IMMEDIATE; SELECT count(*) FROM tenants;
                 PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            ))
            .map_err(unavailable)?;
        tracing::info!("the database was reopened");
        Ok(connection)
    }
}

/// The error says whether the connection must not be used again.
fn transact(
    connection: &Connection,
    batch: &mut [Box<dyn Waiting>],
    now: Timestamp,
) -> std::result::Result<(), (StoreError, bool)> {
    let begun = connection.execute_batch("BEGIN IMMEDIATE");
    begun.map_err(|error| (unavailable(error), true))?;
    for call in batch.iter_mut() {
        if let Err(error) = call.run(connection, now) {
            let undone = connection.execute_batch("ROLLBACK");
            return Err((error, undone.is_err()));
        }
    }
    if let Err(error) = failpoint::pass("store.before_commit") {
        let undone = connection.execute_batch("ROLLBACK");
        return Err((error, undone.is_err()));
    }
    let committed = failpoint::pass("store.commit_error")
        .and_then(|()| connection.execute_batch("COMMIT").map_err(unavailable));
    committed.map_err(|error| {
        let _ = connection.execute_batch("ROLLBACK");
        (error, true)
    })?;
    failpoint::pass("store.commit_unknown").map_err(|error| (error, true))?;
    failpoint::pass("store.after_commit").map_err(|error| (error, false))
}

impl Sqlite {
    /// Runs a move whose rows carry their own results. It must not write before it knows it will succeed.
    pub(super) async fn write<T, F>(&self, bytes: usize, apply: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection, Timestamp) -> Result<T> + Send + 'static,
    {
        self.call(bytes, apply, false).await
    }

    /// Runs a move that may fail after it wrote: then it leaves nothing behind.
    pub(super) async fn write_whole<T, F>(&self, bytes: usize, apply: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection, Timestamp) -> Result<T> + Send + 'static,
    {
        self.call(bytes, apply, true).await
    }

    async fn call<T, F>(&self, bytes: usize, apply: F, savepoint: bool) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection, Timestamp) -> Result<T> + Send + 'static,
    {
        failpoint::pass_async("store.busy").await.map_err(|_| StoreError::Busy)?;
        let _place = self.admission.enter(bytes)?;
        let (reply, answer) = oneshot::channel();
        self.writer.submit(Box::new(Call { apply, done: None, reply, bytes, savepoint }))?;
        answer.await.map_err(|_| stopped())?
    }
}
