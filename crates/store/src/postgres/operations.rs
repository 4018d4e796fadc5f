//! Bulk work: one request that means many moves.

use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Row;
use uuid::Uuid;
use wakepost_domain::{OperationId, TenantId};

use super::claim::millis;
use super::rows::{audit, code, execute, get, id, opt_time, query_opt, text, ulid, uuid};
use super::settings::remember;
use super::{Postgres, commit};
use crate::error::Result;
use crate::moves::{
    AuditEntry, Idempotency, Once, Operation, OperationKind, OperationStep, Operations,
};

#[async_trait]
impl Operations for Postgres {
    async fn create_operation(
        &self,
        operation: Operation,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        if let Some(before) = remember(&tx, once.as_ref()).await? {
            return Ok(Once::Before(before));
        }
        execute(
            &tx,
            "INSERT INTO operations (id, tenant, kind, asked)
             VALUES ($1::uuid, $2::int, $3::smallint, $4::text)",
            &[
                &uuid(operation.id.0),
                &operation.tenant.0,
                &(operation.kind as i16),
                &text(&operation.asked),
            ],
        )
        .await?;
        audit(&tx, &entry).await?;
        commit(tx).await?;
        Ok(Once::Now(()))
    }

    async fn operation(&self, tenant: TenantId, id: OperationId) -> Result<Option<Operation>> {
        let client = self.cool().await?;
        let sql =
            format!("SELECT {OPERATION} FROM operations WHERE tenant = $1::int AND id = $2::uuid");
        let row = query_opt(&client, &sql, &[&tenant.0, &uuid(id.0)]).await?;
        row.map(|row| operation_row(&row)).transpose()
    }

    async fn take_operation(&self, hold: Duration) -> Result<Option<Operation>> {
        let client = self.cool().await?;
        let sql = format!(
            "UPDATE operations SET turn = turn + 1, busy_until = wakepost_now() + $1::bigint
             WHERE id = (SELECT id FROM operations
                         WHERE finished_at IS NULL AND busy_until <= wakepost_now()
                         ORDER BY busy_until LIMIT 1 FOR UPDATE SKIP LOCKED)
             RETURNING {OPERATION}"
        );
        let row = query_opt(&client, &sql, &[&millis(hold)]).await?;
        row.map(|row| operation_row(&row)).transpose()
    }

    async fn advance_operation(&self, step: OperationStep) -> Result<bool> {
        let client = self.cool().await?;
        let noted = execute(
            &client,
            "UPDATE operations SET position = coalesce($3::uuid, position),
                    matched = matched + $4::bigint, done = done + $5::bigint,
                    failed = failed + $6::bigint, busy_until = 0,
                    finished_at = CASE WHEN $7::boolean THEN wakepost_now() END
             WHERE id = $1::uuid AND turn = $2::int AND finished_at IS NULL",
            &[
                &uuid(step.id.0),
                &step.turn,
                &step.position.map(uuid),
                &step.matched,
                &step.done,
                &step.failed,
                &step.is_over,
            ],
        )
        .await?;
        Ok(noted == 1)
    }
}

const OPERATION: &str =
    "id, tenant, kind, asked, position, matched, done, failed, turn, finished_at";

fn operation_row(row: &Row) -> Result<Operation> {
    Ok(Operation {
        id: OperationId(id(row, 0)?),
        tenant: TenantId(get(row, 1)?),
        kind: code(row, 2, OperationKind::from_code)?,
        asked: get(row, 3)?,
        position: get::<Option<Uuid>>(row, 4)?.map(ulid),
        matched: get(row, 5)?,
        done: get(row, 6)?,
        failed: get(row, 7)?,
        turn: get(row, 8)?,
        finished_at: opt_time(row, 9)?,
    })
}
