//! Registrations: what the server itself keeps of a source, apart from what people set.

use std::time::Duration;

use async_trait::async_trait;
use wakepost_domain::{SourceId, TenantId, Timestamp};

use super::Postgres;
use super::claim::millis;
use super::rows::{execute, get, id, opt_sealed, opt_time, query, query_opt, time, uuid};
use crate::error::{Result, StoreError};
use crate::moves::{Registrations, Renewal, SourceState};
use crate::vault::Sealed;

#[async_trait]
impl Registrations for Postgres {
    async fn source_state(&self, tenant: TenantId, source: SourceId) -> Result<SourceState> {
        let client = self.cool().await?;
        let row = query_opt(
            &client,
            "SELECT registration, expires_at, position, version FROM source_states
             WHERE source = $1::uuid AND tenant = $2::int",
            &[&uuid(source.0), &tenant.0],
        )
        .await?;
        let Some(row) = row else { return Ok(SourceState::default()) };
        Ok(SourceState {
            registration: opt_sealed(&row, 0)?,
            expires_at: opt_time(&row, 1)?,
            position: opt_sealed(&row, 2)?,
            version: get(&row, 3)?,
        })
    }

    async fn keep_registration(
        &self,
        tenant: TenantId,
        source: SourceId,
        registration: Sealed,
        ends: Option<(Timestamp, Timestamp)>,
    ) -> Result<()> {
        let client = self.cool().await?;
        let kept = execute(
            &client,
            "INSERT INTO source_states AS s (source, tenant, registration, expires_at, renew_at)
             SELECT id, tenant, $3::bytea, $4::bigint, $5::bigint FROM sources
             WHERE id = $1::uuid AND tenant = $2::int
             ON CONFLICT (source) DO UPDATE
             SET registration = excluded.registration,
                 expires_at = coalesce(excluded.expires_at, s.expires_at),
                 renew_at = coalesce(excluded.renew_at, s.renew_at)",
            &[
                &uuid(source.0),
                &tenant.0,
                &registration.as_bytes(),
                &ends.map(|(expires_at, _)| expires_at.as_millis()),
                &ends.map(|(_, renew_at)| renew_at.as_millis()),
            ],
        )
        .await?;
        if kept == 0 { Err(StoreError::NotFound) } else { Ok(()) }
    }

    async fn move_position(
        &self,
        tenant: TenantId,
        source: SourceId,
        position: Sealed,
        seen: i64,
    ) -> Result<bool> {
        let client = self.cool().await?;
        let moved = execute(
            &client,
            "INSERT INTO source_states AS s (source, tenant, position, version)
             SELECT id, tenant, $3::bytea, $4::bigint + 1 FROM sources
             WHERE id = $1::uuid AND tenant = $2::int
             ON CONFLICT (source) DO UPDATE
             SET position = excluded.position, version = excluded.version WHERE s.version = $4::bigint",
            &[&uuid(source.0), &tenant.0, &position.as_bytes(), &seen],
        )
        .await?;
        Ok(moved > 0)
    }

    async fn due_renewals(&self, limit: u32) -> Result<Vec<Renewal>> {
        let client = self.cool().await?;
        let rows = query(
            &client,
            "SELECT tenant, source, renew_at FROM source_states WHERE renew_at <= wakepost_now()
             ORDER BY renew_at LIMIT $1::bigint",
            &[&i64::from(limit)],
        )
        .await?;
        let renewal = |row| {
            Ok(Renewal {
                tenant: TenantId(get(row, 0)?),
                source: SourceId(id(row, 1)?),
                due: time(row, 2)?,
            })
        };
        rows.iter().map(renewal).collect()
    }

    async fn claim_renewal(&self, renewal: Renewal, patience: Duration) -> Result<bool> {
        let client = self.cool().await?;
        let taken = execute(
            &client,
            "UPDATE source_states SET renew_at = wakepost_now() + $4::bigint
             WHERE source = $1::uuid AND tenant = $2::int AND renew_at = $3::bigint",
            &[
                &uuid(renewal.source.0),
                &renewal.tenant.0,
                &renewal.due.as_millis(),
                &millis(patience),
            ],
        )
        .await?;
        Ok(taken > 0)
    }
}
