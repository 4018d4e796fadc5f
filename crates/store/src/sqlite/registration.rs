//! Registrations: what the server itself keeps of a source, apart from what people set.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::OptionalExtension;
use wakepost_domain::{SourceId, TenantId, Timestamp};

use super::Sqlite;
use super::rows::{Bits, SealedColumn, collect, time, unavailable};
use crate::error::{Result, StoreError};
use crate::moves::{Registrations, Renewal, SourceState};
use crate::vault::Sealed;

#[async_trait]
impl Registrations for Sqlite {
    async fn source_state(&self, tenant: TenantId, source: SourceId) -> Result<SourceState> {
        self.readers
            .read(move |connection, _| {
                let state = connection
                    .prepare_cached(
                        "SELECT registration, expires_at, position, version FROM source_states
                         WHERE source = ?1 AND tenant = ?2",
                    )
                    .and_then(|mut select| {
                        let key = (Bits(source.to_bytes()), tenant.0);
                        select.query_row(key, |row| {
                            let sealed = |column: Option<SealedColumn>| column.map(|found| found.0);
                            Ok(SourceState {
                                registration: sealed(row.get(0)?),
                                expires_at: row.get::<_, Option<i64>>(1)?.map(time),
                                position: sealed(row.get(2)?),
                                version: row.get(3)?,
                            })
                        })
                    });
                Ok(state.optional().map_err(unavailable)?.unwrap_or_default())
            })
            .await
    }

    async fn keep_registration(
        &self,
        tenant: TenantId,
        source: SourceId,
        registration: Sealed,
        ends: Option<(Timestamp, Timestamp)>,
    ) -> Result<()> {
        self.write_whole(registration.len(), move |tx, _| {
            let kept = tx
                .execute(
                    "INSERT INTO source_states (source, tenant, registration, expires_at, renew_at)
                     SELECT id, tenant, ?3, ?4, ?5 FROM sources WHERE id = ?1 AND tenant = ?2
                     ON CONFLICT (source) DO UPDATE
                     SET registration = excluded.registration,
                         expires_at = coalesce(excluded.expires_at, expires_at),
                         renew_at = coalesce(excluded.renew_at, renew_at)",
                    (
                        Bits(source.to_bytes()),
                        tenant.0,
                        registration.as_bytes(),
                        ends.map(|(expires_at, _)| expires_at.as_millis()),
                        ends.map(|(_, renew_at)| renew_at.as_millis()),
                    ),
                )
                .map_err(unavailable)?;
            if kept == 0 { Err(StoreError::NotFound) } else { Ok(()) }
        })
        .await
    }

    async fn move_position(
        &self,
        tenant: TenantId,
        source: SourceId,
        position: Sealed,
        seen: i64,
    ) -> Result<bool> {
        self.write_whole(position.len(), move |tx, _| {
            let moved = tx
                .execute(
                    "INSERT INTO source_states (source, tenant, position, version)
                     SELECT id, tenant, ?3, ?4 + 1 FROM sources WHERE id = ?1 AND tenant = ?2
                     ON CONFLICT (source) DO UPDATE
                     SET position = excluded.position, version = excluded.version WHERE version = ?4",
                    (Bits(source.to_bytes()), tenant.0, position.as_bytes(), seen),
                )
                .map_err(unavailable)?;
            Ok(moved > 0)
        })
        .await
    }

    async fn due_renewals(&self, limit: u32) -> Result<Vec<Renewal>> {
        self.readers
            .read(move |connection, now| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT tenant, source, renew_at FROM source_states WHERE renew_at <= ?1
                         ORDER BY renew_at LIMIT ?2",
                    )
                    .map_err(unavailable)?;
                collect(
                    select
                        .query_map((now.as_millis(), limit), |row| {
                            Ok(Renewal {
                                tenant: TenantId(row.get(0)?),
                                source: SourceId::from_bytes(row.get::<_, Bits>(1)?.0),
                                due: time(row.get(2)?),
                            })
                        })
                        .map_err(unavailable)?,
                )
            })
            .await
    }

    async fn claim_renewal(&self, renewal: Renewal, patience: Duration) -> Result<bool> {
        self.write_whole(0, move |tx, now| {
            let taken = tx
                .execute(
                    "UPDATE source_states SET renew_at = ?4
                     WHERE source = ?1 AND tenant = ?2 AND renew_at = ?3",
                    (
                        Bits(renewal.source.to_bytes()),
                        renewal.tenant.0,
                        renewal.due.as_millis(),
                        now.after(patience).as_millis(),
                    ),
                )
                .map_err(unavailable)?;
            Ok(taken > 0)
        })
        .await
    }
}
