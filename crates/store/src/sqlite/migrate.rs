//! Migrations: applied at start, in order, each in a transaction of its own.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rusqlite::Connection;

use super::rows::unavailable;
use crate::error::{Result, StoreError};
use crate::{coming, failpoint};

/// A number, a name and statements.
type Migration = (i64, &'static str, &'static str);

/// The migrations, by number. They are only ever added to.
const MIGRATIONS: [Migration; 2] = [
    (1, "foundation", include_str!("../../migrations/sqlite/0001_foundation.sql")),
    (
        2,
        "secret_age_and_trace",
        include_str!("../../migrations/sqlite/0002_secret_age_and_trace.sql"),
    ),
];

/// Those, and in a debug build perhaps one that is to come.
fn migrations() -> impl Iterator<Item = Migration> {
    let coming = coming::statements().map(|sql| (MIGRATIONS.len() as i64 + 1, coming::NAME, sql));
    MIGRATIONS.into_iter().chain(coming)
}

/// The schema this program works with.
pub fn schema_version() -> i64 {
    migrations().map(|(version, ..)| version).last().unwrap_or_default()
}

/// A migration that a database lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Its number.
    pub version: i64,
    /// Its name.
    pub name: &'static str,
}

/// Where SQLite's file format has the `user_version`: four bytes, the highest first.
const VERSION_OFFSET: u64 = 60;

/// Refuses a newer schema by the file alone, before it is opened: that writes to it. What a newer program left in the
/// log only is seen by [`pending`].
pub fn refuse_newer(path: &Path) -> Result<()> {
    let mut version = [0; 4];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut version, VERSION_OFFSET));
    // There is no file yet, or nothing in it.
    if read.is_err() {
        return Ok(());
    }
    known(i32::from_be_bytes(version).into())
}

/// Brings the schema up to date.
pub fn migrate(connection: &mut Connection) -> Result<()> {
    for (version, name, sql) in missing(connection)? {
        let tx = connection.transaction().map_err(unavailable)?;
        tx.execute_batch(sql).map_err(unavailable)?;
        failpoint::pass("migration.mid_step")?;
        tx.pragma_update(None, "user_version", version).map_err(unavailable)?;
        tx.commit().map_err(unavailable)?;
        tracing::info!(version, name, "migrated the database");
    }
    Ok(())
}

/// Which migrations are missing. A schema from a newer program is refused.
pub fn pending(connection: &Connection) -> Result<Vec<Pending>> {
    let missing = missing(connection)?.into_iter();
    Ok(missing.map(|(version, name, _)| Pending { version, name }).collect())
}

fn missing(connection: &Connection) -> Result<Vec<Migration>> {
    let version: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(unavailable)?;
    known(version)?;
    Ok(migrations().filter(|migration| migration.0 > version).collect())
}

fn known(version: i64) -> Result<()> {
    match version > schema_version() {
        true => Err(StoreError::newer_schema(version, schema_version())),
        false => Ok(()),
    }
}

/// All migrations.
pub fn all() -> Vec<Pending> {
    migrations().map(|(version, name, _)| Pending { version, name }).collect()
}
