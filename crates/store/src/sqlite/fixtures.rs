//! Fixtures: requests that were kept to be sent again.

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Row};
use wakepost_domain::limits::FIXTURES_PER_TENANT_MAX;
use wakepost_domain::{EventId, TenantId, Ulid};

use super::Sqlite;
use super::rows::{Bits, SealedColumn, audit, collect, unavailable};
use super::settings::remember;
use super::settings_rows::found;
use crate::error::Result;
use crate::moves::{AuditEntry, Cursor, Fixture, Fixtures, Idempotency, Once};
use crate::vault::Sealed;

#[async_trait]
impl Fixtures for Sqlite {
    async fn keep_fixture(
        &self,
        fixture: Fixture,
        content: Sealed,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        self.write_whole(content.len(), move |tx, now| {
            if let Some(before) = remember(tx, now, once.as_ref())? {
                return Ok(Once::Before(before));
            }
            let kept: i64 = tx
                .query_row("SELECT count(*) FROM fixtures WHERE tenant = ?1", [fixture.tenant.0], |row| {
                    row.get(0)
                })
                .map_err(unavailable)?;
            let added = tx
                .execute(
                    "INSERT INTO fixtures (id, tenant, name, provider, type, event_id, body_bytes, content)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (tenant, name) DO NOTHING",
                    (
                        Bits(fixture.id.to_bytes()),
                        fixture.tenant.0,
                        &fixture.name,
                        &fixture.provider,
                        &fixture.event_type,
                        Bits(fixture.event.to_bytes()),
                        fixture.body_bytes,
                        content.as_bytes(),
                    ),
                )
                .map_err(unavailable)?;
            if added == 0 {
                return Err(fixture.taken());
            }
            if kept >= FIXTURES_PER_TENANT_MAX {
                return Err(Fixture::too_many());
            }
            audit(tx, &entry)?;
            Ok(Once::Now(()))
        })
        .await
    }

    async fn fixture(&self, tenant: TenantId, name: String) -> Result<Option<(Fixture, Sealed)>> {
        self.readers
            .read(move |connection, _| {
                connection
                    .prepare_cached(&format!(
                        "SELECT {FIXTURE}, content FROM fixtures WHERE tenant = ?1 AND name = ?2"
                    ))
                    .and_then(|mut select| {
                        let row = |row: &Row<'_>| {
                            Ok((fixture_row(row)?, row.get::<_, SealedColumn>(7)?.0))
                        };
                        select.query_row((tenant.0, name), row).optional()
                    })
                    .map_err(unavailable)
            })
            .await
    }

    async fn fixtures(&self, tenant: TenantId, page: Cursor) -> Result<Vec<Fixture>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(&format!(
                        "SELECT {FIXTURE} FROM fixtures WHERE tenant = ?1 AND (?2 IS NULL OR id < ?2)
                         ORDER BY id DESC LIMIT ?3"
                    ))
                    .map_err(unavailable)?;
                let before = page.before.map(|id| Bits(id.to_bytes()));
                let rows = select.query_map((tenant.0, before, page.limit), fixture_row);
                collect(rows.map_err(unavailable)?)
            })
            .await
    }

    async fn delete_fixture(
        &self,
        tenant: TenantId,
        name: String,
        entry: AuditEntry,
    ) -> Result<()> {
        self.write_whole(0, move |tx, _| {
            let gone = tx
                .execute("DELETE FROM fixtures WHERE tenant = ?1 AND name = ?2", (tenant.0, &name))
                .map_err(unavailable)?;
            found(gone)?;
            audit(tx, &entry)
        })
        .await
    }
}

const FIXTURE: &str = "id, tenant, name, provider, type, event_id, body_bytes";

fn fixture_row(row: &Row<'_>) -> rusqlite::Result<Fixture> {
    Ok(Fixture {
        id: Ulid::from_bytes(row.get::<_, Bits>(0)?.0),
        tenant: TenantId(row.get(1)?),
        name: row.get(2)?,
        provider: row.get(3)?,
        event_type: row.get(4)?,
        event: EventId::from_bytes(row.get::<_, Bits>(5)?.0),
        body_bytes: row.get(6)?,
    })
}
