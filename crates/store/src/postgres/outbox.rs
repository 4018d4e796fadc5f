//! What users publish within transactions of their own, through `wakepost_publish`.
//!
//! Differs from SQLite, which has no such way. Rows become visible when their transactions commit, which need not be in
//! the order of their numbers. So nothing here remembers how far it read: what was dealt with is deleted, and whatever
//! else is there waits.

use async_trait::async_trait;
use tokio_postgres::Row;
use wakepost_domain::EventId;

use super::Postgres;
use super::rows::{execute, get, id, query, text};
use crate::error::Result;
use crate::moves::{Outbox, Outboxed};

#[async_trait]
impl Outbox for Postgres {
    async fn outbox(&self, limit: u32) -> Result<Vec<Outboxed>> {
        let client = self.cool().await?;
        let rows = query(
            &client,
            "SELECT number, event, tenant, type, data, dedup_key FROM outbox
             WHERE refused IS NULL ORDER BY number LIMIT $1::bigint",
            &[&i64::from(limit)],
        )
        .await?;
        rows.iter().map(outboxed).collect()
    }

    async fn outbox_done(&self, mut numbers: Vec<i64>) -> Result<()> {
        // In their order: two nodes that picked up the same could deadlock.
        numbers.sort_unstable();
        let client = self.cool().await?;
        let sql = "DELETE FROM outbox WHERE ctid = ANY (ARRAY(
                     SELECT ctid FROM outbox WHERE number = ANY ($1::bigint[]) ORDER BY number FOR UPDATE))";
        execute(&client, sql, &[&numbers]).await?;
        Ok(())
    }

    async fn outbox_refused(&self, number: i64, reason: String) -> Result<()> {
        let client = self.cool().await?;
        let sql = "UPDATE outbox SET refused = $2::text WHERE number = $1::bigint";
        execute(&client, sql, &[&number, &text(&reason)]).await?;
        Ok(())
    }
}

fn outboxed(row: &Row) -> Result<Outboxed> {
    Ok(Outboxed {
        number: get(row, 0)?,
        event: EventId(id(row, 1)?),
        tenant: get(row, 2)?,
        event_type: get(row, 3)?,
        data: get(row, 4)?,
        dedup_key: get(row, 5)?,
    })
}
