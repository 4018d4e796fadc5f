//! The catalogue of types of published events.

use async_trait::async_trait;
use rusqlite::Connection;
use wakepost_domain::TenantId;
use wakepost_domain::event_type::{EventType, PER_TENANT_MAX};

use super::Sqlite;
use super::rows::{audit, collect, json, unavailable};
use super::settings::remember;
use super::settings_rows::found;
use crate::error::Result;
use crate::moves::{AuditEntry, EventTypes, Idempotency, Once, too_many_types, type_exists};

#[async_trait]
impl EventTypes for Sqlite {
    async fn put_event_type(
        &self,
        tenant: TenantId,
        event_type: EventType,
        only_new: bool,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        let spec = serde_json::to_string(&event_type.spec).expect("a type is plain data");
        self.write_whole(spec.len(), move |tx, now| {
            if let Some(before) = remember(tx, now, once.as_ref())? {
                return Ok(Once::Before(before));
            }
            let (is_there, count) = seen(tx, tenant, &event_type.name).map_err(unavailable)?;
            if is_there && only_new {
                return Err(type_exists(&event_type.name));
            }
            if !is_there && count >= PER_TENANT_MAX {
                return Err(too_many_types());
            }
            tx.execute(
                "INSERT INTO event_types (tenant, name, spec) VALUES (?1, ?2, ?3)
                 ON CONFLICT (tenant, name) DO UPDATE SET spec = excluded.spec",
                (tenant.0, &event_type.name, &spec),
            )
            .map_err(unavailable)?;
            audit(tx, &entry)?;
            Ok(Once::Now(()))
        })
        .await
    }

    async fn delete_event_type(
        &self,
        tenant: TenantId,
        name: String,
        entry: AuditEntry,
    ) -> Result<()> {
        self.write_whole(0, move |tx, _| {
            let delete = "DELETE FROM event_types WHERE tenant = ?1 AND name = ?2";
            found(tx.execute(delete, (tenant.0, &name)).map_err(unavailable)?)?;
            audit(tx, &entry)
        })
        .await
    }

    async fn event_types(&self, tenant: TenantId) -> Result<Vec<EventType>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT name, spec FROM event_types WHERE tenant = ?1 ORDER BY name",
                    )
                    .map_err(unavailable)?;
                let rows = select.query_map([tenant.0], |row| {
                    Ok(EventType { name: row.get(0)?, spec: json(row, 1)? })
                });
                collect(rows.map_err(unavailable)?)
            })
            .await
    }
}

/// Whether a tenant has a type of this name, and how many it has.
fn seen(tx: &Connection, tenant: TenantId, name: &str) -> rusqlite::Result<(bool, i64)> {
    tx.query_row(
        "SELECT coalesce(max(name = ?2), 0), count(*) FROM event_types WHERE tenant = ?1",
        (tenant.0, name),
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}
