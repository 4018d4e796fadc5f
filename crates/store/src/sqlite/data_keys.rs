//! The tenants' keys, wrapped by a master key.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row};
use wakepost_domain::{EventId, SourceId, TenantId, WebhookId};

use super::Sqlite;
use super::rows::{Bits, SealedColumn, audit, collect, unavailable};
use crate::error::Result;
use crate::failpoint;
use crate::moves::{AuditEntry, DataKeyRow, DataKeys, Rewrap, SealedRow, WrappedKey};
use crate::vault::{MasterKeyId, Slot};

#[async_trait]
impl DataKeys for Sqlite {
    async fn data_key(&self, tenant: TenantId, candidate: WrappedKey) -> Result<(i32, WrappedKey)> {
        self.write_whole(0, move |tx, _| data_key(tx, tenant, &candidate)).await
    }

    async fn data_keys_by_master(&self) -> Result<Vec<(MasterKeyId, i64)>> {
        self.readers.read(|connection, _| by_master(connection)).await
    }

    async fn wrapped_by_others(
        &self,
        master: MasterKeyId,
        after: i32,
        limit: u32,
    ) -> Result<Vec<DataKeyRow>> {
        self.readers.read(move |connection, _| by_others(connection, master, after, limit)).await
    }

    async fn rewrap(&self, changes: Vec<Rewrap>) -> Result<u64> {
        self.write_whole(0, move |tx, _| rewrap(tx, &changes)).await
    }

    async fn sealed_by(&self, tenants: Vec<TenantId>) -> Result<Vec<SealedRow>> {
        self.readers.read(move |connection, _| sealed_by(connection, &tenants)).await
    }

    async fn note_rotation(&self, entry: AuditEntry) -> Result<()> {
        self.write_whole(0, move |tx, _| audit(tx, &entry)).await
    }
}

pub fn data_key(
    tx: &Connection,
    tenant: TenantId,
    candidate: &WrappedKey,
) -> Result<(i32, WrappedKey)> {
    tx.execute(
        "INSERT INTO data_keys (tenant, master, wrapped) VALUES (?1, ?2, ?3)
         ON CONFLICT (tenant) DO NOTHING",
        (tenant.0, candidate.master.0, &candidate.bytes),
    )
    .and_then(|_| {
        tx.query_row(
            "SELECT id, tenant, master, wrapped FROM data_keys WHERE tenant = ?1",
            [tenant.0],
            row,
        )
    })
    .map(|found| (found.number, found.wrapped))
    .map_err(unavailable)
}

pub fn by_master(connection: &Connection) -> Result<Vec<(MasterKeyId, i64)>> {
    let mut select = connection
        .prepare("SELECT master, count(*) FROM data_keys GROUP BY master ORDER BY master")
        .map_err(unavailable)?;
    let rows = select.query_map([], |row| Ok((MasterKeyId(row.get(0)?), row.get(1)?)));
    collect(rows.map_err(unavailable)?)
}

pub fn by_others(
    connection: &Connection,
    master: MasterKeyId,
    after: i32,
    limit: u32,
) -> Result<Vec<DataKeyRow>> {
    let mut select = connection
        .prepare(
            "SELECT id, tenant, master, wrapped FROM data_keys WHERE id > ?1 AND master <> ?2
             ORDER BY id LIMIT ?3",
        )
        .map_err(unavailable)?;
    let rows = select.query_map((after, master.0, limit), row);
    collect(rows.map_err(unavailable)?)
}

pub fn rewrap(tx: &Connection, changes: &[Rewrap]) -> Result<u64> {
    let mut changed = 0;
    for change in changes {
        changed += tx
            .execute(
                "UPDATE data_keys SET master = ?2, wrapped = ?3 WHERE id = ?1 AND wrapped = ?4",
                (change.number, change.wrapped.master.0, &change.wrapped.bytes, &change.seen.bytes),
            )
            .map_err(unavailable)?;
        failpoint::pass("rotation.mid_batch")?;
    }
    Ok(changed as u64)
}

type SlotOf = fn([u8; 16]) -> Slot<'static>;

/// One record of a tenant each. The newest event's body may be gone, or be that of many events.
const SAMPLES: [(&str, SlotOf); 3] = [
    (
        "SELECT b.id, b.content
         FROM (SELECT coalesce(body_id, id) AS id FROM events WHERE tenant = ?1 ORDER BY id DESC LIMIT 1) e
         JOIN bodies b ON b.id = e.id",
        |id| Slot::Content(EventId::from_bytes(id)),
    ),
    (
        "SELECT id, secrets FROM sources WHERE tenant = ?1 ORDER BY created_at DESC, id DESC LIMIT 1",
        |id| Slot::SourceSecrets(SourceId::from_bytes(id)),
    ),
    (
        "SELECT id, secrets FROM webhooks WHERE tenant = ?1 ORDER BY id DESC LIMIT 1",
        |id| Slot::WebhookSecrets(WebhookId::from_bytes(id)),
    ),
];

pub fn sealed_by(connection: &Connection, tenants: &[TenantId]) -> Result<Vec<SealedRow>> {
    let mut found = Vec::new();
    for (sql, slot) in SAMPLES {
        let mut select = connection.prepare(sql).map_err(unavailable)?;
        for tenant in tenants {
            let read = |row: &Row<'_>| {
                let slot = slot(row.get::<_, Bits>(0)?.0);
                let SealedColumn(record) = row.get(1)?;
                Ok(SealedRow { tenant: *tenant, slot, record })
            };
            found.extend(select.query_row([tenant.0], read).optional().map_err(unavailable)?);
        }
    }
    Ok(found)
}

fn row(row: &Row<'_>) -> rusqlite::Result<DataKeyRow> {
    Ok(DataKeyRow {
        number: row.get(0)?,
        tenant: TenantId(row.get(1)?),
        wrapped: WrappedKey { master: MasterKeyId(row.get(2)?), bytes: row.get(3)? },
    })
}
