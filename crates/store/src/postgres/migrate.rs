//! Migrations: in order, each in a transaction of its own, safe when many nodes start at once.

use std::time::Duration;

use deadpool_postgres::{Client, Transaction};
use tokio_postgres::error::SqlState;

use super::rows::get;
use super::{Postgres, commit};
use crate::error::{Result, StoreError};
use crate::{coming, failpoint};

/// A number, a name and statements.
type Migration = (i32, &'static str, &'static str);

/// The migrations, by number. They are only ever added to.
const MIGRATIONS: [Migration; 2] = [
    (1, "foundation", include_str!("../../migrations/postgres/0001_foundation.sql")),
    (
        2,
        "secret_age_and_trace",
        include_str!("../../migrations/postgres/0002_secret_age_and_trace.sql"),
    ),
];

/// Those, and in a debug build perhaps one that is to come.
fn migrations() -> impl Iterator<Item = Migration> {
    let coming = coming::statements().map(|sql| (MIGRATIONS.len() as i32 + 1, coming::NAME, sql));
    MIGRATIONS.into_iter().chain(coming)
}

/// The schema this program works with.
pub fn schema_version() -> i32 {
    migrations().map(|(version, ..)| version).last().unwrap_or_default()
}

/// What nodes hold while they change the schema: an arbitrary number, the same in all of them.
const LOCK: i64 = 0x77616b65_706f7374;

/// How long a migration waits for a table. Whoever comes after it waits as well: behind a dump or a report that would be
/// everybody.
const TABLE_PATIENCE: &str = "SET LOCAL lock_timeout = '500ms'";
/// How often a migration is tried while somebody has a table of it, and how long others go on in between.
const TRIES_MAX: u32 = 60;
const PAUSE: Duration = Duration::from_secs(1);

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
        let mut tries = 0;
        loop {
            match migrate_one(&mut client).await? {
                None => return Ok(()),
                Some(Step::Done) => tries = 0,
                Some(Step::InUse(Pending { version, name })) => {
                    tries += 1;
                    if tries == TRIES_MAX {
                        return Err(StoreError::Unavailable(format!(
                            "migration {version} ({name}) could not be applied: somebody else uses the tables, such as a \
                             dump or a report; nothing was changed, start again when that is over"
                        )));
                    }
                    if tries == 1 {
                        tracing::warn!(
                            version,
                            name,
                            "the tables are in use; the database is migrated when they are free"
                        );
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Which migrations the database still lacks, without changing it.
    pub async fn pending_migrations(&self) -> Result<Vec<Pending>> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        pending(&tx).await
    }
}

/// What became of a migration.
enum Step {
    Done,
    /// It was not applied.
    InUse(Pending),
}

/// Applies the next migration, if there is one.
async fn migrate_one(client: &mut Client) -> Result<Option<Step>> {
    let tx = client.transaction().await?;
    lock_schema(&tx).await?;
    let Some(next) = pending(&tx).await?.into_iter().next() else { return Ok(None) };
    tx.batch_execute(TABLE_PATIENCE).await?;
    match apply(&tx, next.version, next.name).await {
        Ok(()) => {}
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            tx.rollback().await?;
            return Ok(Some(Step::InUse(next)));
        }
        Err(error) => return Err(StoreError::from(error)),
    }
    failpoint::pass_async("migration.mid_step").await?;
    commit(tx).await?;
    tracing::info!(version = next.version, name = next.name, "migrated the database");
    Ok(Some(Step::Done))
}

/// The tables that migrations made, partitions not counted.
pub(super) fn tables() -> Vec<&'static str> {
    let lines = migrations().flat_map(|(_, _, sql)| sql.lines());
    let named = lines.filter_map(|line| line.strip_prefix("CREATE TABLE ")?.strip_suffix(" ("));
    named.chain(["schema_migrations"]).collect()
}

/// Waits for, and takes, the right to change the schema, until the transaction ends.
///
/// Differs from SQLite, where the file lock keeps other nodes out. The lock is the transaction's and not
/// the session's, so that it also holds behind a pooler and never outlives its holder. Whoever then locks tables
/// that are in use says first how long that may take.
pub(super) async fn lock_schema(tx: &Transaction<'_>) -> Result<()> {
    tx.batch_execute("SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = 0").await?;
    tx.execute("SELECT pg_advisory_xact_lock($1::bigint)", &[&LOCK]).await?;
    Ok(())
}

/// A schema from a newer program is refused.
async fn pending(tx: &Transaction<'_>) -> Result<Vec<Pending>> {
    let version = version(tx).await?;
    if version > schema_version() {
        return Err(StoreError::newer_schema(version.into(), schema_version().into()));
    }
    Ok(migrations()
        .filter(|migration| migration.0 > version)
        .map(|(version, name, _)| Pending { version, name })
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

async fn apply(
    tx: &Transaction<'_>,
    version: i32,
    name: &str,
) -> std::result::Result<(), tokio_postgres::Error> {
    tx.batch_execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations (
           version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())",
    )
    .await?;
    let sql = migrations().find(|migration| migration.0 == version).map(|migration| migration.2);
    tx.batch_execute(sql.unwrap_or_default()).await?;
    tx.execute(
        "INSERT INTO schema_migrations (version, name) VALUES ($1::int, $2::text)",
        &[&version, &name],
    )
    .await?;
    Ok(())
}
