//! What a dump needs of us: a snapshot that others can share, and what is in it.

use deadpool_postgres::Client;

use super::migrate::{lock_schema, tables};
use super::rows::{audit, get};
use super::{Postgres, commit};
use crate::error::Result;
use crate::moves::{AuditEntry, COUNTED, Counted};
use crate::vault::LEASES;

/// One moment of the database, for as long as it is held.
pub struct Snapshot {
    client: Client,
    /// What a program that shares it says.
    pub name: String,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({})", self.name)
    }
}

impl Snapshot {
    /// How many rows there are.
    pub async fn counts(&self) -> Result<Vec<Counted>> {
        count(&self.client).await
    }

    /// Lets it go.
    pub async fn end(self) -> Result<()> {
        Ok(self.client.batch_execute("COMMIT").await?)
    }
}

impl Postgres {
    /// Takes a snapshot that pg_dump can share.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        let client = self.cool().await?;
        client
            .batch_execute(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
                 SET LOCAL idle_in_transaction_session_timeout = 0;
                 SET LOCAL statement_timeout = 0;",
            )
            .await?;
        let name = get(&client.query_one("SELECT pg_export_snapshot()", &[]).await?, 0)?;
        Ok(Snapshot { client, name })
    }

    /// Whether the database has no tables of ours.
    pub async fn is_empty(&self) -> Result<bool> {
        let client = self.cool().await?;
        let row = client
            .query_one(
                "SELECT NOT EXISTS (SELECT 1 FROM pg_class c
                   WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace
                     AND c.relname = ANY ($1::text[]))",
                &[&tables()],
            )
            .await?;
        get(&row, 0)
    }

    /// Moves our tables and functions to a schema of their own, and nobody else's.
    pub async fn set_aside(&self, schema: &str) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        lock_schema(&tx).await?;
        let rows = tx
            .query(
                "SELECT format('ALTER TABLE %s SET SCHEMA %I', c.oid::regclass, $2::text) FROM pg_class c
                 LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
                 WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace
                   AND coalesce(p.relname, c.relname) = ANY ($1::text[])
                 UNION ALL
                 SELECT format('ALTER FUNCTION %s SET SCHEMA %I', f.oid::regprocedure, $2::text) FROM pg_proc f
                 WHERE f.pronamespace = current_schema()::regnamespace AND f.proname LIKE 'wakepost\\_%'",
                &[&tables(), &schema],
            )
            .await?;
        let mut moves = vec![format!("CREATE SCHEMA {schema}")];
        for row in &rows {
            moves.push(get(row, 0)?);
        }
        tx.batch_execute(&moves.join(";\n")).await?;
        commit(tx).await
    }

    /// How many rows there are.
    pub async fn counts(&self) -> Result<Vec<Counted>> {
        let client = self.cool().await?;
        client.batch_execute("SET statement_timeout = 0").await?;
        count(&client).await
    }

    /// Makes a database that was restored safe to go on with, and notes it in the audit trail: leases from before are
    /// nobody's any more (see [`crate::vault::LEASES`]).
    pub async fn after_restore(&self, entry: AuditEntry) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        tx.execute("DELETE FROM data_keys WHERE tenant = $1::int", &[&LEASES.0]).await?;
        audit(&tx, &entry).await?;
        commit(tx).await
    }
}

async fn count(client: &Client) -> Result<Vec<Counted>> {
    let mut counts = Vec::with_capacity(COUNTED.len());
    for table in COUNTED {
        let row = client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await?;
        counts.push(Counted { table, rows: get(&row, 0)? });
    }
    Ok(counts)
}
