//! Types of published events.

use async_trait::async_trait;
use tokio_postgres::Row;
use wakepost_domain::TenantId;
use wakepost_domain::event_type::{EventType, PER_TENANT_MAX};

use super::rows::{audit, execute, get, query, query_opt, text};
use super::settings::remember;
use super::settings_rows::{found, json};
use super::{Postgres, commit};
use crate::error::Result;
use crate::moves::{AuditEntry, EventTypes, Idempotency, Once, too_many_types, type_exists};

#[async_trait]
impl EventTypes for Postgres {
    async fn put_event_type(
        &self,
        tenant: TenantId,
        event_type: EventType,
        only_new: bool,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        if let Some(before) = remember(&tx, once.as_ref()).await? {
            return Ok(Once::Before(before));
        }
        // Differs from SQLite: the tenant's row is locked, so that two at once cannot both be the last.
        let lock = "SELECT 1 FROM tenants WHERE id = $1::int FOR UPDATE";
        query(&tx, lock, &[&tenant.0]).await?;
        let name = text(&event_type.name);
        let there = "SELECT 1 FROM event_types WHERE tenant = $1::int AND name = $2::text";
        if query_opt(&tx, there, &[&tenant.0, &name]).await?.is_some() {
            if only_new {
                return Err(type_exists(&event_type.name));
            }
        } else {
            let count = "SELECT count(*) FROM event_types WHERE tenant = $1::int";
            let there: i64 = get(&tx.query_one(count, &[&tenant.0]).await?, 0)?;
            if there >= PER_TENANT_MAX {
                return Err(too_many_types());
            }
        }
        let spec = serde_json::to_string(&event_type.spec).expect("a type is plain data");
        execute(
            &tx,
            "INSERT INTO event_types (tenant, name, spec) VALUES ($1::int, $2::text, $3::text)
             ON CONFLICT (tenant, name) DO UPDATE SET spec = excluded.spec",
            &[&tenant.0, &name, &spec],
        )
        .await?;
        audit(&tx, &entry).await?;
        commit(tx).await?;
        Ok(Once::Now(()))
    }

    async fn delete_event_type(
        &self,
        tenant: TenantId,
        name: String,
        entry: AuditEntry,
    ) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let sql = "DELETE FROM event_types WHERE tenant = $1::int AND name = $2::text";
        found(execute(&tx, sql, &[&tenant.0, &text(&name)]).await?)?;
        audit(&tx, &entry).await?;
        commit(tx).await
    }

    async fn event_types(&self, tenant: TenantId) -> Result<Vec<EventType>> {
        let client = self.cool().await?;
        let sql =
            "SELECT name, spec FROM event_types WHERE tenant = $1::int ORDER BY name COLLATE \"C\"";
        let of = |row: &Row| Ok(EventType { name: get(row, 0)?, spec: json(row, 1)? });
        query(&client, sql, &[&tenant.0]).await?.iter().map(of).collect()
    }
}
