//! A second way into the database, for what an operator does beside a running server or without one.
//!
//! One short transaction at a time, which SQLite syncs itself. The log is left to the server: nothing is moved out of it
//! from here while a server runs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use wakepost_domain::TenantId;

use super::checkpoint::BUSY_PATIENCE;
use super::data_keys::{by_master, by_others, data_key, rewrap, sealed_by};
use super::rows::{audit, unavailable};
use super::{FILE, lock, migrate, rewrite};
use crate::error::{Result, StoreError};
use crate::moves::{AuditEntry, DataKeyRow, DataKeys, Rewrap, SealedRow, WrappedKey};
use crate::vault::MasterKeyId;

/// A connection beside the server's.
#[derive(Clone)]
pub struct Beside {
    connection: Arc<Mutex<Connection>>,
    path: PathBuf,
    /// Held if no server runs, so that none begins.
    lock: Option<Arc<File>>,
}

impl std::fmt::Debug for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Beside")
    }
}

impl Beside {
    /// Opens the database of a directory, which must be there and up to date.
    pub fn open(directory: &Path) -> Result<Beside> {
        let path = directory.join(FILE);
        if !path.exists() {
            let missing = format!("there is no database in {}", directory.display());
            return Err(StoreError::Unavailable(missing));
        }
        let lock = lock(directory).ok().map(Arc::new);
        if lock.is_some() {
            rewrite::rewrite(&path)?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags).map_err(unavailable)?;
        connection
            .execute_batch(
                "PRAGMA synchronous = FULL; PRAGMA fullfsync = 1; PRAGMA wal_autocheckpoint = 0;
                 PRAGMA temp_store = MEMORY;",
            )
            .map_err(unavailable)?;
        connection.busy_timeout(BUSY_PATIENCE).map_err(unavailable)?;
        if !migrate::pending(&connection)?.is_empty() {
            let old = "the database is not up to date: run `wakepost migrate` first";
            return Err(StoreError::Unavailable(old.to_owned()));
        }
        Ok(Beside { connection: Arc::new(Mutex::new(connection)), path, lock })
    }

    /// The database's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a server has the database open.
    pub fn server_runs(&self) -> bool {
        self.lock.is_none()
    }

    pub(super) async fn read<T, F>(&self, query: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let connection = self.connection.clone();
        tokio::task::spawn_blocking(move || query(&connection.lock()))
            .await
            .map_err(|error| StoreError::Unavailable(format!("a call was cut off: {error}")))?
    }

    pub(super) async fn write<T, F>(&self, change: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let connection = self.connection.clone();
        tokio::task::spawn_blocking(move || {
            let mut connection = connection.lock();
            let tx = connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(unavailable)?;
            let done = change(&tx)?;
            tx.commit().map_err(unavailable)?;
            Ok(done)
        })
        .await
        .map_err(|error| StoreError::Unavailable(format!("a call was cut off: {error}")))?
    }
}

#[async_trait]
impl DataKeys for Beside {
    async fn data_key(&self, tenant: TenantId, candidate: WrappedKey) -> Result<(i32, WrappedKey)> {
        self.write(move |tx| data_key(tx, tenant, &candidate)).await
    }

    async fn data_keys_by_master(&self) -> Result<Vec<(MasterKeyId, i64)>> {
        self.read(by_master).await
    }

    async fn wrapped_by_others(
        &self,
        master: MasterKeyId,
        after: i32,
        limit: u32,
    ) -> Result<Vec<DataKeyRow>> {
        self.read(move |connection| by_others(connection, master, after, limit)).await
    }

    async fn rewrap(&self, changes: Vec<Rewrap>) -> Result<u64> {
        self.write(move |tx| rewrap(tx, &changes)).await
    }

    async fn sealed_by(&self, tenants: Vec<TenantId>) -> Result<Vec<SealedRow>> {
        self.read(move |connection| sealed_by(connection, &tenants)).await
    }

    async fn note_rotation(&self, entry: AuditEntry) -> Result<()> {
        self.write(move |tx| audit(tx, &entry)).await
    }
}
