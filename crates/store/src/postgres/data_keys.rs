//! The tenants' keys, wrapped by a master key.

use async_trait::async_trait;
use tokio_postgres::Row;
use wakepost_domain::{EventId, SourceId, TenantId, Ulid, WebhookId};

use super::rows::{audit, execute, get, id, query, query_opt, sealed};
use super::{Postgres, commit};
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{AuditEntry, DataKeyRow, DataKeys, Rewrap, SealedRow, WrappedKey};
use crate::vault::{MasterKeyId, Slot};

#[async_trait]
impl DataKeys for Postgres {
    async fn data_key(&self, tenant: TenantId, candidate: WrappedKey) -> Result<(i32, WrappedKey)> {
        let client = self.cool().await?;
        let select = "SELECT id, tenant, master, wrapped FROM data_keys WHERE tenant = $1::int";
        let found = match query_opt(&client, select, &[&tenant.0]).await? {
            Some(row) => row,
            None => {
                execute(
                    &client,
                    "INSERT INTO data_keys (tenant, master, wrapped)
                     VALUES ($1::int, $2::bytea, $3::bytea) ON CONFLICT (tenant) DO NOTHING",
                    &[&tenant.0, &candidate.master.0.as_slice(), &candidate.bytes],
                )
                .await?;
                query_opt(&client, select, &[&tenant.0]).await?.ok_or(StoreError::NotFound)?
            }
        };
        key_row(&found).map(|found| (found.number, found.wrapped))
    }

    async fn data_keys_by_master(&self) -> Result<Vec<(MasterKeyId, i64)>> {
        let client = self.cool().await?;
        let rows = query(
            &client,
            "SELECT master, count(*) FROM data_keys GROUP BY master ORDER BY master",
            &[],
        )
        .await?;
        rows.iter().map(|row| Ok((master(row, 0)?, get(row, 1)?))).collect()
    }

    async fn wrapped_by_others(
        &self,
        master: MasterKeyId,
        after: i32,
        limit: u32,
    ) -> Result<Vec<DataKeyRow>> {
        let client = self.cool().await?;
        let rows = query(
            &client,
            "SELECT id, tenant, master, wrapped FROM data_keys
             WHERE id > $1::int AND master <> $2::bytea ORDER BY id LIMIT $3::bigint",
            &[&after, &master.0.as_slice(), &i64::from(limit)],
        )
        .await?;
        rows.iter().map(key_row).collect()
    }

    async fn rewrap(&self, changes: Vec<Rewrap>) -> Result<u64> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let mut changed = 0;
        for change in &changes {
            changed += execute(
                &tx,
                "UPDATE data_keys SET master = $2::bytea, wrapped = $3::bytea
                 WHERE id = $1::int AND wrapped = $4::bytea",
                &[
                    &change.number,
                    &change.wrapped.master.0.as_slice(),
                    &change.wrapped.bytes,
                    &change.seen.bytes,
                ],
            )
            .await?;
            failpoint::pass_async("rotation.mid_batch").await?;
        }
        commit(tx).await?;
        Ok(changed)
    }

    async fn sealed_by(&self, tenants: Vec<TenantId>) -> Result<Vec<SealedRow>> {
        let client = self.cool().await?;
        let tenants: Vec<i32> = tenants.iter().map(|tenant| tenant.0).collect();
        let mut found = Vec::new();
        for (sql, slot) in SAMPLES {
            for row in &query(&client, sql, &[&tenants]).await? {
                let slot = slot(id(row, 1)?);
                found.push(SealedRow {
                    tenant: TenantId(get(row, 0)?),
                    slot,
                    record: sealed(row, 2)?,
                });
            }
        }
        Ok(found)
    }

    async fn note_rotation(&self, entry: AuditEntry) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        audit(&tx, &entry).await?;
        commit(tx).await
    }
}

type SlotOf = fn(Ulid) -> Slot<'static>;

/// One record of a tenant each. The newest event's body may be gone, or be that of many events.
const SAMPLES: [(&str, SlotOf); 3] = [
    (
        "SELECT t.id, b.id, b.content FROM unnest($1::int[]) AS t (id)
         CROSS JOIN LATERAL (
           SELECT coalesce(body_id, id) AS id FROM events WHERE tenant = t.id ORDER BY id DESC LIMIT 1) e
         CROSS JOIN LATERAL (SELECT id, content FROM bodies WHERE id = e.id OFFSET 0) b",
        |id| Slot::Content(EventId(id)),
    ),
    (
        "SELECT t.id, s.id, s.secrets FROM unnest($1::int[]) AS t (id)
         CROSS JOIN LATERAL (
           SELECT id, secrets FROM sources WHERE tenant = t.id
           ORDER BY created_at DESC, id DESC LIMIT 1) s",
        |id| Slot::SourceSecrets(SourceId(id)),
    ),
    (
        "SELECT t.id, w.id, w.secrets FROM unnest($1::int[]) AS t (id)
         CROSS JOIN LATERAL (
           SELECT id, secrets FROM webhooks WHERE tenant = t.id ORDER BY id DESC LIMIT 1) w",
        |id| Slot::WebhookSecrets(WebhookId(id)),
    ),
];

fn key_row(row: &Row) -> Result<DataKeyRow> {
    Ok(DataKeyRow {
        number: get(row, 0)?,
        tenant: TenantId(get(row, 1)?),
        wrapped: WrappedKey { master: master(row, 2)?, bytes: get(row, 3)? },
    })
}

fn master(row: &Row, column: usize) -> Result<MasterKeyId> {
    let bytes: Vec<u8> = get(row, column)?;
    let wrong = |_| StoreError::Corrupt("the name of a master key has eight bytes".to_owned());
    bytes.try_into().map(MasterKeyId).map_err(wrong)
}
