//! Migrations: in order, each in a transaction of its own, safe when many nodes start at once.

use deadpool_postgres::Transaction;

use super::rows::get;
use super::{Postgres, commit};
use crate::error::{Result, StoreError};
use crate::failpoint;

/// The migrations, by number. They are only ever added to.
const MIGRATIONS: [(i32, &str, &str); 2] = [
    (1, "foundation", include_str!("../../migrations/postgres/0001_foundation.sql")),
    (
        2,
        "secret_age_and_trace",
        include_str!("../../migrations/postgres/0002_secret_age_and_trace.sql"),
    ),
];

/// The schema this program works with.
pub const SCHEMA_VERSION: i32 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// What nodes hold while they change the schema: an arbitrary number, the same in all of them.
const LOCK: i64 = 0x77616b65_706f7374;

/// A migration that a database lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Its number.
    pub version: i32,
    /// Its name.
    pub name: &'static str,
}

impl Postgres {
    /// Brings the schema up to date. Many nodes may do so at once: one does the work, the others wait.
    pub async fn migrate(&self) -> Result<()> {
        let mut client = self.cool().await?;
        loop {
            let tx = client.transaction().await?;
            lock_schema(&tx).await?;
            let Some(Pending { version, name }) = pending(&tx).await?.into_iter().next() else {
                return Ok(());
            };
            apply(&tx, version, name).await?;
            failpoint::pass_async("migration.mid_step").await?;
            commit(tx).await?;
            tracing::info!(version, name, "migrated the database");
        }
    }

    /// Which migrations the database still lacks, without changing it.
    pub async fn pending_migrations(&self) -> Result<Vec<Pending>> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        pending(&tx).await
    }
}

/// The tables that migrations made, partitions not counted.
pub(super) fn tables() -> Vec<&'static str> {
    let lines = MIGRATIONS.iter().flat_map(|(_, _, sql)| sql.lines());
    let named = lines.filter_map(|line| line.strip_prefix("CREATE TABLE ")?.strip_suffix(" ("));
    named.chain(["schema_migrations"]).collect()
}

/// Waits for, and takes, the right to change the schema, until the transaction ends.
///
/// Differs from SQLite, where the file lock keeps other nodes out. The lock is the transaction's and not
/// the session's, so that it also holds behind a pooler and never outlives its holder.
pub(super) async fn lock_schema(tx: &Transaction<'_>) -> Result<()> {
    tx.batch_execute("SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = 0").await?;
    tx.execute("SELECT pg_advisory_xact_lock($1::bigint)", &[&LOCK]).await?;
    Ok(())
}

/// A schema from a newer program is refused.
async fn pending(tx: &Transaction<'_>) -> Result<Vec<Pending>> {
    let version = version(tx).await?;
    if version > SCHEMA_VERSION {
        return Err(StoreError::newer_schema(version.into(), SCHEMA_VERSION.into()));
    }
    Ok(MIGRATIONS
        .iter()
        .filter(|migration| migration.0 > version)
        .map(|&(version, name, _)| Pending { version, name })
        .collect())
}

async fn version(tx: &Transaction<'_>) -> Result<i32> {
    let exists = tx.query_one("SELECT to_regclass('schema_migrations') IS NOT NULL", &[]).await?;
    if !get::<bool>(&exists, 0)? {
        return Ok(0);
    }
    let row = tx.query_one("SELECT coalesce(max(version), 0) FROM schema_migrations", &[]).await?;
    get(&row, 0)
}

async fn apply(tx: &Transaction<'_>, version: i32, name: &str) -> Result<()> {
    tx.batch_execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations (
           version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())",
    )
    .await?;
    let sql =
        MIGRATIONS.iter().find(|migration| migration.0 == version).map(|migration| migration.2);
    tx.batch_execute(sql.unwrap_or_default()).await?;
    tx.execute(
        "INSERT INTO schema_migrations (version, name) VALUES ($1::int, $2::text)",
        &[&version, &name],
    )
    .await?;
    Ok(())
}
