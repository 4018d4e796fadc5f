//! Fixtures: requests that were kept to be sent again.

use async_trait::async_trait;
use tokio_postgres::Row;
use wakepost_domain::limits::FIXTURES_PER_TENANT_MAX;
use wakepost_domain::{EventId, TenantId};

use super::rows::{audit, execute, get, id, query, query_opt, sealed, text, uuid};
use super::settings::remember;
use super::settings_rows::found;
use super::{Postgres, commit};
use crate::error::Result;
use crate::moves::{AuditEntry, Cursor, Fixture, Fixtures, Idempotency, Once};
use crate::vault::Sealed;

#[async_trait]
impl Fixtures for Postgres {
    async fn keep_fixture(
        &self,
        fixture: Fixture,
        content: Sealed,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        let _place = self.inner.admission.enter(content.len())?;
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        if let Some(before) = remember(&tx, once.as_ref()).await? {
            return Ok(Once::Before(before));
        }
        // Differs from SQLite: the tenant's row is locked, so that two at once cannot both be the last.
        let tenant = "SELECT 1 FROM tenants WHERE id = $1::int FOR UPDATE";
        query(&tx, tenant, &[&fixture.tenant.0]).await?;
        let count = "SELECT count(*) FROM fixtures WHERE tenant = $1::int";
        let count = query_opt(&tx, count, &[&fixture.tenant.0]).await?;
        let kept: i64 = count.map_or(Ok(0), |row| get(&row, 0))?;
        let added = execute(
            &tx,
            "INSERT INTO fixtures (id, tenant, name, provider, type, event_id, body_bytes, content)
             VALUES ($1::uuid, $2::int, $3::text, $4::text, $5::text, $6::uuid, $7::bigint, $8::bytea)
             ON CONFLICT (tenant, name) DO NOTHING",
            &[
                &uuid(fixture.id),
                &fixture.tenant.0,
                &text(&fixture.name),
                &text(&fixture.provider),
                &text(&fixture.event_type),
                &uuid(fixture.event.0),
                &fixture.body_bytes,
                &content.as_bytes(),
            ],
        )
        .await?;
        if added == 0 {
            return Err(fixture.taken());
        }
        if kept >= FIXTURES_PER_TENANT_MAX {
            return Err(Fixture::too_many());
        }
        audit(&tx, &entry).await?;
        commit(tx).await?;
        Ok(Once::Now(()))
    }

    async fn fixture(&self, tenant: TenantId, name: String) -> Result<Option<(Fixture, Sealed)>> {
        let client = self.cool().await?;
        let sql = format!(
            "SELECT {FIXTURE}, content FROM fixtures WHERE tenant = $1::int AND name = $2::text"
        );
        let row = query_opt(&client, &sql, &[&tenant.0, &text(&name)]).await?;
        row.map(|row| Ok((fixture_row(&row)?, sealed(&row, 7)?))).transpose()
    }

    async fn fixtures(&self, tenant: TenantId, page: Cursor) -> Result<Vec<Fixture>> {
        let client = self.cool().await?;
        let sql = format!(
            "SELECT {FIXTURE} FROM fixtures
             WHERE tenant = $1::int AND ($2::uuid IS NULL OR id < $2::uuid)
             ORDER BY id DESC LIMIT $3::bigint"
        );
        let before = page.before.map(uuid);
        let rows = query(&client, &sql, &[&tenant.0, &before, &i64::from(page.limit)]).await?;
        rows.iter().map(fixture_row).collect()
    }

    async fn delete_fixture(
        &self,
        tenant: TenantId,
        name: String,
        entry: AuditEntry,
    ) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let sql = "DELETE FROM fixtures WHERE tenant = $1::int AND name = $2::text";
        found(execute(&tx, sql, &[&tenant.0, &text(&name)]).await?)?;
        audit(&tx, &entry).await?;
        commit(tx).await
    }
}

const FIXTURE: &str = "id, tenant, name, provider, type, event_id, body_bytes";

fn fixture_row(row: &Row) -> Result<Fixture> {
    Ok(Fixture {
        id: id(row, 0)?,
        tenant: TenantId(get(row, 1)?),
        name: get(row, 2)?,
        provider: get(row, 3)?,
        event_type: get(row, 4)?,
        event: EventId(id(row, 5)?),
        body_bytes: get(row, 6)?,
    })
}
