//! Bulk work: one request that means many moves.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Row};
use wakepost_domain::{OperationId, TenantId, Ulid};

use super::Sqlite;
use super::rows::{Bits, audit, known, time, unavailable};
use super::settings::remember;
use crate::error::Result;
use crate::moves::{
    AuditEntry, Idempotency, Once, Operation, OperationKind, OperationStep, Operations,
};

#[async_trait]
impl Operations for Sqlite {
    async fn create_operation(
        &self,
        operation: Operation,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        self.write_whole(operation.asked.len(), move |tx, now| {
            if let Some(before) = remember(tx, now, once.as_ref())? {
                return Ok(Once::Before(before));
            }
            tx.prepare_cached(
                "INSERT INTO operations (id, tenant, kind, asked) VALUES (?1, ?2, ?3, ?4)",
            )
            .and_then(|mut put| {
                put.execute((
                    Bits(operation.id.to_bytes()),
                    operation.tenant.0,
                    operation.kind as i16,
                    &operation.asked,
                ))
            })
            .map_err(unavailable)?;
            audit(tx, &entry)?;
            Ok(Once::Now(()))
        })
        .await
    }

    async fn operation(&self, tenant: TenantId, id: OperationId) -> Result<Option<Operation>> {
        self.readers
            .read(move |connection, _| {
                connection
                    .prepare_cached(&format!(
                        "SELECT {OPERATION} FROM operations WHERE tenant = ?1 AND id = ?2"
                    ))
                    .and_then(|mut select| {
                        let key = (tenant.0, Bits(id.to_bytes()));
                        select.query_row(key, operation_row).optional()
                    })
                    .map_err(unavailable)
            })
            .await
    }

    async fn take_operation(&self, hold: Duration) -> Result<Option<Operation>> {
        self.write_whole(0, move |tx, now| {
            tx.prepare_cached(&format!(
                "UPDATE operations SET turn = turn + 1, busy_until = ?1
                 WHERE id = (SELECT id FROM operations WHERE finished_at IS NULL AND busy_until <= ?2
                             ORDER BY busy_until LIMIT 1)
                 RETURNING {OPERATION}"
            ))
            .and_then(|mut take| {
                let until = now.after(hold).as_millis();
                take.query_row((until, now.as_millis()), operation_row).optional()
            })
            .map_err(unavailable)
        })
        .await
    }

    async fn advance_operation(&self, step: OperationStep) -> Result<bool> {
        self.write_whole(0, move |tx, now| {
            let noted = tx
                .prepare_cached(
                    "UPDATE operations SET position = coalesce(?3, position), matched = matched + ?4,
                            done = done + ?5, failed = failed + ?6, busy_until = 0,
                            finished_at = CASE WHEN ?7 THEN ?8 END
                     WHERE id = ?1 AND turn = ?2 AND finished_at IS NULL",
                )
                .and_then(|mut update| {
                    update.execute((
                        Bits(step.id.to_bytes()),
                        step.turn,
                        step.position.map(|id| Bits(id.to_bytes())),
                        step.matched,
                        step.done,
                        step.failed,
                        step.is_over,
                        now.as_millis(),
                    ))
                })
                .map_err(unavailable)?;
            Ok(noted == 1)
        })
        .await
    }
}

const OPERATION: &str =
    "id, tenant, kind, asked, position, matched, done, failed, turn, finished_at";

fn operation_row(row: &Row<'_>) -> rusqlite::Result<Operation> {
    Ok(Operation {
        id: OperationId::from_bytes(row.get::<_, Bits>(0)?.0),
        tenant: TenantId(row.get(1)?),
        kind: known(row.get(2)?, OperationKind::from_code)?,
        asked: row.get(3)?,
        position: row.get::<_, Option<Bits>>(4)?.map(|bits| Ulid::from_bytes(bits.0)),
        matched: row.get(5)?,
        done: row.get(6)?,
        failed: row.get(7)?,
        turn: row.get(8)?,
        finished_at: row.get::<_, Option<i64>>(9)?.map(time),
    })
}
