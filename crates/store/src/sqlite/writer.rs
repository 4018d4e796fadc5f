//! The writer: the one thread that changes the database.
//!
//! It runs what waits in one transaction, commits, and hands the batch to the syncer, which answers it when it is on
//! the disk. There is no linger: while one batch is on its way to the disk, the next gathers and runs. If a batch
//! fails, its moves are run again one by one, so that only the guilty one fails.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use parking_lot::Mutex;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tokio::sync::oneshot;
use wakepost_domain::Timestamp;
use wakepost_domain::ports::Clock;

use super::checkpoint::{BUSY_PATIENCE, Checkpointer, Log};
use super::migrate::schema_version;
use super::rewrite::rewrite;
use super::rows::unavailable;
use super::syncer::{Committed, LogFile, Marks, Syncer};
use super::{Drive, Durability, Sqlite};
use crate::admission::Place;
use crate::error::{Result, StoreError};
use crate::failpoint;

/// How many moves one transaction may hold.
const MOVES_PER_COMMIT: usize = 512;
/// How many bytes of bodies one transaction may hold.
const BYTES_PER_COMMIT: usize = 2 * 1024 * 1024;
/// With what the process ends when the disk lost a part of the log.
const EXIT_LOG_LOST: i32 = 74;
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
pub trait Waiting: Send {
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
    /// Held until the move is answered, whether its caller waits for that or not.
    place: Place,
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
        let Call { apply, done, reply, place, .. } = *self;
        let answer = match (committed, done) {
            (Ok(()), Some(done)) => done,
            (Ok(()), None) => Err(StoreError::Unavailable("the move was not run".to_owned())),
            (Err(error), _) => Err(error),
        };
        // Whoever is answered finds what it took given back.
        drop((apply, place));
        let _ = reply.send(answer);
    }
}

/// What the writer is sent.
enum Message {
    Move(Box<dyn Waiting>),
    /// The disk has caught up.
    Synced,
    /// Nothing comes after this.
    Close,
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
    _checkpointer: Option<Checkpointer>,
}

enum Way {
    Thread { queue: Option<SyncSender<Message>>, thread: Option<std::thread::JoinHandle<()>> },
    Inline(Mutex<Core>),
}

impl Writer {
    pub fn start(
        connection: Connection,
        path: PathBuf,
        durability: Durability,
        log: Arc<Log>,
        marks: Arc<Marks>,
        clock: Arc<dyn Clock>,
        drive: Drive,
    ) -> Result<Writer> {
        let problem = |error: std::io::Error| StoreError::Unavailable(error.to_string());
        // A simulation's log is moved when its database is closed.
        let checkpointer = match drive {
            Drive::Thread => Some(Checkpointer::start(path.clone(), log.clone()).map_err(problem)?),
            Drive::Inline => None,
        };
        let core = Core { connection: Some(connection), path, durability, log, clock };
        let way = match drive {
            Drive::Inline => Way::Inline(Mutex::new(core)),
            Drive::Thread => {
                let (queue, waiting) = sync_channel(QUEUE);
                let to_writer = queue.clone();
                // A queue that is full wakes the writer as well.
                let woken = move || drop(to_writer.try_send(Message::Synced));
                let syncer =
                    Syncer::start(marks.clone(), core.log.clone(), woken).map_err(problem)?;
                let mut ahead = Ahead::new(core, syncer, marks)?;
                let thread = std::thread::Builder::new()
                    .name("sqlite-writer".to_owned())
                    .spawn(move || ahead.serve(&waiting))
                    .map_err(problem)?;
                Way::Thread { queue: Some(queue), thread: Some(thread) }
            }
        };
        Ok(Writer { way, _checkpointer: checkpointer })
    }

    fn submit(&self, call: Box<dyn Waiting>) -> Result<()> {
        match &self.way {
            Way::Inline(core) => {
                core.lock().commit(call);
                Ok(())
            }
            Way::Thread { queue, .. } => {
                let queue = queue.as_ref().ok_or_else(stopped)?;
                queue.try_send(Message::Move(call)).map_err(|_| StoreError::Busy)
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Way::Thread { queue, thread } = &mut self.way {
            // The thread finishes what waits before this, and ends.
            if let Some(queue) = queue.take() {
                let _ = queue.send(Message::Close);
            }
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}

fn stopped() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

/// Why a transaction left nothing, and whether its connection must not be used again: what a failed connection
/// believes to be on the disk may not be.
struct Failed {
    error: StoreError,
    broken: bool,
}

impl Core {
    /// Runs a move in a transaction of its own, which SQLite syncs, and answers it.
    fn commit(&mut self, mut call: Box<dyn Waiting>) {
        let done = self.attempt(&mut call);
        call.answer(done);
    }

    fn attempt(&mut self, call: &mut Box<dyn Waiting>) -> Result<()> {
        let connection = match self.connection.take() {
            Some(connection) if !self.log.is_doubted() => connection,
            _ => self.reopen()?,
        };
        let done = begin(&connection)
            .and_then(|()| run(call, &connection, self.clock.now()))
            .and_then(|()| commit(&connection));
        if done.as_ref().is_err_and(|failed| failed.broken) {
            done.map_err(|failed| failed.error)
        } else {
            self.connection = Some(connection);
            done.map_err(|failed| failed.error)
        }
    }

    fn reopen(&self) -> Result<Connection> {
        failpoint::pass("sqlite.reopen")?;
        self.log.settle_doubt(|committed| {
            let whole = rewrite(&self.path)?;
            if whole < committed {
                // What this process takes for committed is gone, and was acknowledged to nobody. Only a new one
                // sees what is really there.
                tracing::error!(
                    whole,
                    committed,
                    "the disk lost a part of the log; a restart is needed"
                );
                std::process::exit(EXIT_LOG_LOST);
            }
            Ok(())
        })?;
        let connection = connect(&self.path, self.durability, &self.log)?;
        // Something is read, and something is written and synced: only that shows that the disk takes it.
        connection
            .execute_batch(&format!(
                "BEGIN IMMEDIATE; SELECT count(*) FROM tenants;
                 PRAGMA user_version = {}; COMMIT;",
                schema_version()
            ))
            .map_err(unavailable)?;
        tracing::info!("the database was reopened");
        Ok(connection)
    }
}

/// The writer on its thread: its commits run ahead of the disk.
struct Ahead {
    core: Core,
    syncer: Syncer,
    marks: Arc<Marks>,
    /// Which connection it is, counted from 1, and its log.
    number: u32,
    log: LogFile,
    is_closing: bool,
}

impl Ahead {
    fn new(core: Core, syncer: Syncer, marks: Arc<Marks>) -> Result<Ahead> {
        let log = LogFile::unsynced();
        let mut ahead = Ahead { core, syncer, marks, number: 0, log, is_closing: false };
        if let Some(connection) = ahead.core.connection.take() {
            ahead.adopt(&connection)?;
            ahead.core.connection = Some(connection);
        }
        Ok(ahead)
    }

    /// From here on the connection's commits are the syncer's to sync.
    fn adopt(&mut self, connection: &Connection) -> Result<()> {
        self.log = match self.core.durability {
            Durability::Full => LogFile::open(&self.core.path)?,
            Durability::Normal => LogFile::unsynced(),
        };
        connection.execute_batch("PRAGMA synchronous = NORMAL").map_err(unavailable)?;
        self.number += 1;
        Ok(())
    }

    fn serve(&mut self, waiting: &Receiver<Message>) {
        while !self.is_closing {
            match waiting.recv() {
                Ok(Message::Move(first)) => self.commit(first, Some(waiting)),
                Ok(Message::Synced) => {}
                Ok(Message::Close) | Err(_) => return,
            }
            if let Some(connection) = &self.core.connection {
                self.core.log.restart_if_due(connection);
            }
        }
    }

    /// Runs a move, and what else waits, in one transaction, and hands the batch to the syncer.
    fn commit(&mut self, first: Box<dyn Waiting>, waiting: Option<&Receiver<Message>>) {
        let connection = match self.connection() {
            Ok(connection) => connection,
            Err(error) => return first.answer(Err(error)),
        };
        if !self.core.log.has_room(&connection) {
            self.core.connection = Some(connection);
            return first.answer(Err(StoreError::Busy));
        }
        let mut batch = vec![first];
        let done = self.run_batch(&connection, &mut batch, waiting);
        let number = self.marks.commits();
        let done = done.and_then(|()| commit(&connection));
        let (log, failed) = (self.log.clone(), done.is_err());
        let committed = if failed { Vec::new() } else { std::mem::take(&mut batch) };
        // Also if there is nothing to answer: numbers are settled in their order.
        let connection_number = self.number;
        self.syncer.take(Committed {
            batch: committed,
            number,
            connection: connection_number,
            log,
        });
        let Err(Failed { error, broken }) = done else {
            self.core.connection = Some(connection);
            return;
        };
        match broken {
            true => tracing::error!(%error, "the database failed; it will be reopened"),
            false => self.core.connection = Some(connection),
        }
        match <[_; 1]>::try_from(batch) {
            Ok([call]) => call.answer(Err(error)),
            Err(batch) => batch.into_iter().for_each(|call| self.commit(call, None)),
        }
    }

    /// The connection; a new one if the last one failed, or its log could not be synced.
    fn connection(&mut self) -> Result<Connection> {
        match self.core.connection.take() {
            Some(connection)
                if !self.marks.is_broken(self.number) && !self.core.log.is_doubted() =>
            {
                Ok(connection)
            }
            _ => {
                let connection = self.core.reopen()?;
                self.adopt(&connection)?;
                Ok(connection)
            }
        }
    }

    /// Begins a transaction with the batch's first move, and adds what waits or comes while the disk is busy.
    fn run_batch(
        &mut self,
        connection: &Connection,
        batch: &mut Vec<Box<dyn Waiting>>,
        waiting: Option<&Receiver<Message>>,
    ) -> std::result::Result<(), Failed> {
        begin(connection)?;
        let mut bytes = 0;
        for index in 0.. {
            let call = &mut batch[index];
            bytes += call.bytes();
            run(call, connection, self.core.clock.now())?;
            let is_full = batch.len() >= MOVES_PER_COMMIT || bytes >= BYTES_PER_COMMIT;
            match waiting.filter(|_| !is_full).and_then(|waiting| self.next(waiting)) {
                Some(call) => batch.push(call),
                None => break,
            }
        }
        if self.marks.is_broken(self.number) {
            // It stands on commits that may be lost.
            let _ = connection.execute_batch("ROLLBACK");
            let error = StoreError::Unavailable("the log was not synced".to_owned());
            return Err(Failed { error, broken: true });
        }
        Ok(())
    }

    /// The next move of the batch; none once the disk is free and nothing waits.
    fn next(&mut self, waiting: &Receiver<Message>) -> Option<Box<dyn Waiting>> {
        let message = match waiting.try_recv() {
            Err(TryRecvError::Empty) if self.marks.is_syncing() => waiting.recv().ok()?,
            message => message.ok()?,
        };
        match message {
            Message::Move(call) => Some(call),
            Message::Synced => None,
            Message::Close => {
                self.is_closing = true;
                None
            }
        }
    }
}

fn begin(connection: &Connection) -> std::result::Result<(), Failed> {
    let begun = connection.execute_batch("BEGIN IMMEDIATE");
    begun.map_err(|error| Failed { error: unavailable(error), broken: true })
}

fn run(
    call: &mut Box<dyn Waiting>,
    connection: &Connection,
    now: Timestamp,
) -> std::result::Result<(), Failed> {
    call.run(connection, now).map_err(|error| undone(connection, error))
}

fn undone(connection: &Connection, error: StoreError) -> Failed {
    Failed { error, broken: connection.execute_batch("ROLLBACK").is_err() }
}

fn commit(connection: &Connection) -> std::result::Result<(), Failed> {
    failpoint::pass("store.before_commit").map_err(|error| undone(connection, error))?;
    let committed = failpoint::pass("store.commit_error")
        .and_then(|()| connection.execute_batch("COMMIT").map_err(unavailable));
    committed.map_err(|error| {
        let _ = connection.execute_batch("ROLLBACK");
        Failed { error, broken: true }
    })?;
    failpoint::pass("store.commit_unknown").map_err(|error| Failed { error, broken: true })
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
        let place = self.admission.enter(bytes)?;
        let (reply, answer) = oneshot::channel();
        self.writer.submit(Box::new(Call { apply, done: None, reply, bytes, savepoint, place }))?;
        let answer = answer.await.map_err(|_| stopped())?;
        if answer.is_ok() && matches!(self.writer.way, Way::Inline(_)) {
            // Elsewhere the syncer passes it. Here, where others go on while this one waits.
            failpoint::pass_async("store.after_commit").await?;
        }
        answer
    }
}
