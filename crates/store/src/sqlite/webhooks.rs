//! Webhooks: subscribers' settings, and how long their lanes are shut.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::State;
use wakepost_domain::{EventId, TenantId, Timestamp, WebhookId};

use super::Sqlite;
use super::deliveries;
use super::rows::{Bits, SealedColumn, audit, collect, json, time, unavailable};
use super::settings::remember;
use super::shutting::shut;
use crate::error::{Result, StoreError};
use crate::moves::{
    AuditEntry, Cursor, Idempotency, NewDelivery, Once, WebhookRecord, Webhooks, WorkRow, check_end,
};

#[async_trait]
impl Webhooks for Sqlite {
    async fn create_webhook(
        &self,
        record: WebhookRecord,
        most: u32,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        self.write_whole(record.secrets.len(), move |tx, now| {
            if let Some(before) = remember(tx, now, once.as_ref())? {
                return Ok(Once::Before(before));
            }
            let count = "SELECT count(*) FROM webhooks WHERE tenant = ?1";
            let there: i64 =
                tx.query_row(count, [record.tenant.0], |row| row.get(0)).map_err(unavailable)?;
            if there >= i64::from(most) {
                return Err(WebhookRecord::too_many(most));
            }
            insert(tx, &record).map_err(unavailable)?;
            audit(tx, &entry)?;
            Ok(Once::Now(()))
        })
        .await
    }

    async fn update_webhook(&self, record: WebhookRecord, entry: Option<AuditEntry>) -> Result<()> {
        self.write_whole(record.secrets.len(), move |tx, _| {
            if !update(tx, &record).map_err(unavailable)? {
                let there = find(tx, record.id)?.filter(|found| found.tenant == record.tenant);
                return Err(there.map_or(StoreError::NotFound, |_| StoreError::changed_meanwhile()));
            }
            entry.as_ref().map_or(Ok(()), |entry| audit(tx, entry))
        })
        .await
    }

    async fn delete_webhook(
        &self,
        tenant: TenantId,
        id: WebhookId,
        entry: AuditEntry,
    ) -> Result<()> {
        self.write_whole(0, move |tx, _| {
            let lane = tx
                .prepare_cached("DELETE FROM webhooks WHERE tenant = ?1 AND id = ?2 RETURNING lane")
                .and_then(|mut delete| {
                    let key = (tenant.0, Bits(id.to_bytes()));
                    delete.query_row(key, |row| Ok(LaneId(row.get(0)?))).optional()
                })
                .map_err(unavailable)?
                .ok_or(StoreError::NotFound)?;
            shut(tx, lane, None).map_err(unavailable)?;
            audit(tx, &entry)
        })
        .await
    }

    async fn webhook(&self, id: WebhookId) -> Result<Option<WebhookRecord>> {
        self.readers.read(move |connection, _| find(connection, id)).await
    }

    async fn webhooks(&self, tenant: TenantId) -> Result<Vec<WebhookRecord>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(&format!(
                        "SELECT {WEBHOOK} FROM webhooks w WHERE tenant = ?1 ORDER BY id DESC"
                    ))
                    .map_err(unavailable)?;
                collect(select.query_map([tenant.0], webhook_row).map_err(unavailable)?)
            })
            .await
    }

    async fn signing_webhooks(
        &self,
        after: Option<WebhookId>,
        limit: u32,
    ) -> Result<Vec<WebhookRecord>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(&format!(
                        "SELECT {WEBHOOK} FROM webhooks w
                         WHERE signs_publicly = 1 AND (?1 IS NULL OR id > ?1) ORDER BY id LIMIT ?2"
                    ))
                    .map_err(unavailable)?;
                let after = after.map(|id| Bits(id.to_bytes()));
                collect(select.query_map((after, limit), webhook_row).map_err(unavailable)?)
            })
            .await
    }

    async fn due_webhooks(&self, limit: u32) -> Result<Vec<WebhookRecord>> {
        self.readers
            .read(move |connection, now| {
                let mut select = connection
                    .prepare_cached(&format!(
                        "SELECT {WEBHOOK} FROM webhooks w WHERE due_at <= ?1
                         ORDER BY due_at, id LIMIT ?2"
                    ))
                    .map_err(unavailable)?;
                let rows = select.query_map((now.as_millis(), limit), webhook_row);
                collect(rows.map_err(unavailable)?)
            })
            .await
    }

    async fn end_waiting(
        &self,
        lane: LaneId,
        state: State,
        reason: String,
        limit: u32,
    ) -> Result<u64> {
        check_end(state)?;
        self.write_whole(0, move |tx, now| {
            deliveries::end_waiting(tx, now, lane, state, &reason, limit)
        })
        .await
    }

    async fn deliveries(
        &self,
        tenant: TenantId,
        lane: LaneId,
        state: Option<State>,
        page: Cursor,
    ) -> Result<Vec<WorkRow>> {
        self.readers
            .read(move |connection, _| deliveries::list(connection, tenant, lane, state, page))
            .await
    }

    async fn delivery_counts(&self, lane: LaneId, rows_max: u32) -> Result<Vec<(State, i64)>> {
        self.readers.read(move |connection, _| deliveries::count(connection, lane, rows_max)).await
    }

    async fn add_deliveries(
        &self,
        tenant: TenantId,
        items: Vec<(EventId, NewDelivery)>,
    ) -> Result<Vec<NewDelivery>> {
        self.write_whole(0, move |tx, now| deliveries::add(tx, now, tenant, &items)).await
    }
}

fn insert(tx: &Connection, record: &WebhookRecord) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO webhooks (id, tenant, lane, config, secrets, circuit, notices, due_at, version,
                               signs_publicly)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        Bits(record.id.to_bytes()),
        record.tenant.0,
        record.lane.0,
        text(&record.config),
        record.secrets.as_bytes(),
        text(&record.circuit),
        text(&record.notices),
        record.due_at.map(Timestamp::as_millis),
        record.version,
        record.signs_publicly(),
    ])?;
    shut(tx, record.lane, record.shut_until)
}

/// Whether it still had the version. Its lane stays what it was.
fn update(tx: &Connection, record: &WebhookRecord) -> rusqlite::Result<bool> {
    let lane = tx
        .prepare_cached(
            "UPDATE webhooks SET config = ?4, secrets = ?5, circuit = ?6, notices = ?7, due_at = ?8,
                    signs_publicly = ?9, version = version + 1
             WHERE tenant = ?1 AND id = ?2 AND version = ?3
             RETURNING lane",
        )?
        .query_row(
            params![
                record.tenant.0,
                Bits(record.id.to_bytes()),
                record.version,
                text(&record.config),
                record.secrets.as_bytes(),
                text(&record.circuit),
                text(&record.notices),
                record.due_at.map(Timestamp::as_millis),
                record.signs_publicly(),
            ],
            |row| Ok(LaneId(row.get(0)?)),
        )
        .optional()?;
    lane.map(|lane| shut(tx, lane, record.shut_until)).transpose().map(|done| done.is_some())
}

fn find(connection: &Connection, id: WebhookId) -> Result<Option<WebhookRecord>> {
    connection
        .prepare_cached(&format!("SELECT {WEBHOOK} FROM webhooks w WHERE id = ?1"))
        .and_then(|mut select| select.query_row([Bits(id.to_bytes())], webhook_row).optional())
        .map_err(unavailable)
}

const WEBHOOK: &str = "id, tenant, lane, config, secrets, circuit, notices, due_at, version, \
     (SELECT nullif(shut_until, 0) FROM lanes WHERE lanes.id = w.lane)";

fn webhook_row(row: &Row<'_>) -> rusqlite::Result<WebhookRecord> {
    Ok(WebhookRecord {
        id: WebhookId::from_bytes(row.get::<_, Bits>(0)?.0),
        tenant: TenantId(row.get(1)?),
        lane: LaneId(row.get(2)?),
        config: json(row, 3)?,
        secrets: row.get::<_, SealedColumn>(4)?.0,
        circuit: json(row, 5)?,
        notices: json(row, 6)?,
        due_at: row.get::<_, Option<i64>>(7)?.map(time),
        version: row.get(8)?,
        shut_until: row.get::<_, Option<i64>>(9)?.map(time),
    })
}

fn text(part: &impl Serialize) -> String {
    serde_json::to_string(part).expect("a webhook is plain data")
}
