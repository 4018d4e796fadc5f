//! Settings: tenants, keys, sources, lanes; and who changed what.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row};
use wakepost_domain::access::{Key, Reach, Role};
use wakepost_domain::lane::{Lane, LaneId, LaneKey};
use wakepost_domain::tenant::{Tenant, TenantSettings};
use wakepost_domain::work::WorkKind;
use wakepost_domain::{KeyId, SourceId, TenantId, Timestamp, Ulid};

use super::Sqlite;
use super::read::Query;
use super::rows::{Bits, SealedColumn, audit, collect, time, unavailable};
use super::settings_rows::{
    KEY, SECRET_BEFORE, SOURCE, audit_row, config_text, found, insert_key, key_row, lane_row,
    reach_column, settings_text, source_row, tenant_row,
};
use crate::error::{Result, StoreError};
use crate::moves::{
    AuditEntry, AuditFilter, AuditRow, Cursor, Idempotency, KeyRecord, Once, Page, Replayed,
    Settings, SourceRecord, after_prefix, lane_hash,
};

#[async_trait]
impl Settings for Sqlite {
    async fn create_tenant(
        &self,
        slug: String,
        settings: TenantSettings,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<Tenant>> {
        self.write_whole(0, move |tx, now| {
            if let Some(before) = remember(tx, now, once.as_ref())? {
                return Ok(Once::Before(before));
            }
            let id: Option<i32> = tx
                .query_row(
                    "INSERT INTO tenants (slug, settings, created_at) VALUES (?1, ?2, ?3)
                     ON CONFLICT (slug) DO NOTHING RETURNING id",
                    (&slug, settings_text(&settings), now.as_millis()),
                    |row| row.get(0),
                )
                .optional()
                .map_err(unavailable)?;
            let id =
                id.ok_or_else(|| StoreError::Exists(format!("there is a tenant {slug} already")))?;
            audit(tx, &AuditEntry { tenant: Some(TenantId(id)), ..entry.clone() })?;
            let slug = slug.clone();
            let settings = settings.clone();
            Ok(Once::Now(Tenant { id: TenantId(id), slug, settings, created_at: now }))
        })
        .await
    }

    async fn update_tenant(
        &self,
        tenant: TenantId,
        seen: TenantSettings,
        settings: TenantSettings,
        entry: AuditEntry,
    ) -> Result<()> {
        self.write_whole(0, move |tx, _| {
            let select = "SELECT id, slug, settings, created_at FROM tenants WHERE id = ?1";
            let current = tx.query_row(select, [tenant.0], tenant_row).optional();
            match current.map_err(unavailable)? {
                None => return Err(StoreError::NotFound),
                Some(current) if current.settings != seen => {
                    return Err(StoreError::changed_meanwhile());
                }
                Some(_) => {}
            }
            tx.execute(
                "UPDATE tenants SET settings = ?2 WHERE id = ?1",
                (tenant.0, settings_text(&settings)),
            )
            .map_err(unavailable)?;
            audit(tx, &entry)
        })
        .await
    }

    async fn tenants(&self) -> Result<Vec<Tenant>> {
        self.readers.read(|connection, _| tenants(connection)).await
    }

    async fn create_key(
        &self,
        record: KeyRecord,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        self.write_whole(0, move |tx, now| {
            if let Some(before) = remember(tx, now, once.as_ref())? {
                return Ok(Once::Before(before));
            }
            insert_key(tx, &record)?;
            audit(tx, &entry)?;
            Ok(Once::Now(()))
        })
        .await
    }

    async fn key_by_hash(&self, hash: [u8; 32]) -> Result<Option<Key>> {
        self.readers
            .read(move |connection, now| {
                connection
                    .prepare_cached(&format!(
                        "SELECT {KEY} FROM keys WHERE hash = ?1 AND revoked_at IS NULL
                         AND (expires_at IS NULL OR expires_at > ?2)"
                    ))
                    .and_then(|mut select| {
                        select.query_row((&hash[..], now.as_millis()), key_row).optional()
                    })
                    .map_err(unavailable)
            })
            .await
    }

    async fn keys(&self, reach: Option<Reach>) -> Result<Vec<Key>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(&format!(
                        "SELECT {KEY} FROM keys WHERE revoked_at IS NULL
                         AND (?1 OR tenant IS ?2) ORDER BY id DESC"
                    ))
                    .map_err(unavailable)?;
                collect(
                    select
                        .query_map((reach.is_none(), reach_column(reach)), key_row)
                        .map_err(unavailable)?,
                )
            })
            .await
    }

    async fn revoke_key(&self, id: KeyId, reach: Option<Reach>, entry: AuditEntry) -> Result<()> {
        self.write_whole(0, move |tx, now| {
            let changed = tx
                .execute(
                    "UPDATE keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL
                     AND (?3 OR tenant IS ?4)",
                    (Bits(id.to_bytes()), now.as_millis(), reach.is_none(), reach_column(reach)),
                )
                .map_err(unavailable)?;
            found(changed)?;
            audit(tx, &entry)
        })
        .await
    }

    async fn touch_keys(&self, used: Vec<(KeyId, Timestamp)>) -> Result<()> {
        self.write(0, move |tx, _| {
            for (id, at) in &used {
                tx.prepare_cached("UPDATE keys SET last_used_at = max(coalesce(last_used_at, 0), ?2) WHERE id = ?1")
                    .and_then(|mut update| update.execute((Bits(id.to_bytes()), at.as_millis())))
                    .map_err(unavailable)?;
            }
            Ok(())
        })
        .await
    }

    async fn note(&self, entry: AuditEntry, once: Option<Idempotency>) -> Result<Once<()>> {
        self.write_whole(0, move |tx, now| {
            if let Some(before) = remember(tx, now, once.as_ref())? {
                return Ok(Once::Before(before));
            }
            audit(tx, &entry)?;
            Ok(Once::Now(()))
        })
        .await
    }

    async fn remembered(&self, key: [u8; 16]) -> Result<Option<Replayed>> {
        self.readers
            .read(move |connection, now| {
                let sql =
                    "SELECT body_hash, answer FROM idempotency WHERE key = ?1 AND expires_at > ?2";
                let mut select = connection.prepare_cached(sql).map_err(unavailable)?;
                let found = select.query_row((Bits(key), now.as_millis()), replayed);
                found.optional().map_err(unavailable)
            })
            .await
    }

    async fn count_keys(&self, role: Role) -> Result<i64> {
        self.readers
            .read(move |connection, now| {
                connection
                    .query_row(
                        "SELECT count(*) FROM keys WHERE role = ?1 AND revoked_at IS NULL
                         AND (expires_at IS NULL OR expires_at > ?2)",
                        (role as i16, now.as_millis()),
                        |row| row.get(0),
                    )
                    .map_err(unavailable)
            })
            .await
    }

    async fn create_source(
        &self,
        record: SourceRecord,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        self.write_whole(0, move |tx, now| {
            if let Some(before) = remember(tx, now, once.as_ref())? {
                return Ok(Once::Before(before));
            }
            tx.execute(
                "INSERT INTO sources (id, tenant, provider, config, secrets, created_at, updated_at,
                                      secret_made_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                (
                    Bits(record.id.to_bytes()),
                    record.tenant.0,
                    &record.provider,
                    config_text(&record.config),
                    record.secrets.as_bytes(),
                    record.created_at.as_millis(),
                    record.updated_at.as_millis(),
                    record.secret_made_at.as_millis(),
                ),
            )
            .map_err(unavailable)?;
            audit(tx, &entry)?;
            Ok(Once::Now(()))
        })
        .await
    }

    async fn update_source(
        &self,
        record: SourceRecord,
        seen: Timestamp,
        entry: AuditEntry,
    ) -> Result<()> {
        self.write_whole(0, move |tx, _| {
            let key = (record.tenant.0, Bits(record.id.to_bytes()));
            let current: Option<i64> = tx
                .query_row(
                    "SELECT updated_at FROM sources WHERE tenant = ?1 AND id = ?2",
                    key,
                    |row| row.get(0),
                )
                .optional()
                .map_err(unavailable)?;
            match current {
                None => return Err(StoreError::NotFound),
                Some(at) if time(at) != seen => return Err(StoreError::changed_meanwhile()),
                Some(_) => {}
            }
            tx.execute(
                "UPDATE sources SET config = ?3, secrets = ?4, updated_at = ?5, secret_made_at = ?6
                 WHERE tenant = ?1 AND id = ?2",
                (
                    key.0,
                    key.1,
                    config_text(&record.config),
                    record.secrets.as_bytes(),
                    record.updated_at.as_millis(),
                    record.secret_made_at.as_millis(),
                ),
            )
            .map_err(unavailable)?;
            audit(tx, &entry)
        })
        .await
    }

    async fn delete_source(&self, tenant: TenantId, id: SourceId, entry: AuditEntry) -> Result<()> {
        self.write_whole(0, move |tx, _| {
            let gone = tx
                .execute(
                    "DELETE FROM sources WHERE tenant = ?1 AND id = ?2",
                    (tenant.0, Bits(id.to_bytes())),
                )
                .map_err(unavailable)?;
            found(gone)?;
            tx.execute("DELETE FROM source_states WHERE source = ?1", [Bits(id.to_bytes())])
                .map_err(unavailable)?;
            audit(tx, &entry)
        })
        .await
    }

    async fn source(&self, id: SourceId) -> Result<Option<SourceRecord>> {
        self.readers
            .read(move |connection, _| {
                connection
                    .prepare_cached(&format!("SELECT {SOURCE} FROM sources WHERE id = ?1"))
                    .and_then(|mut select| {
                        select.query_row([Bits(id.to_bytes())], source_row).optional()
                    })
                    .map_err(unavailable)
            })
            .await
    }

    async fn sources(&self, tenant: TenantId, page: Page<SourceId>) -> Result<Vec<SourceRecord>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(&format!(
                        "SELECT {SOURCE} FROM sources WHERE tenant = ?1
                         AND (?2 IS NULL OR (created_at, id) <
                              (SELECT created_at, id FROM sources WHERE id = ?2))
                         ORDER BY created_at DESC, id DESC LIMIT ?3"
                    ))
                    .map_err(unavailable)?;
                let before = page.before.map(|id| Bits(id.to_bytes()));
                collect(
                    select
                        .query_map((tenant.0, before, page.limit), source_row)
                        .map_err(unavailable)?,
                )
            })
            .await
    }

    async fn sources_with_secrets_before(
        &self,
        tenant: TenantId,
        before: Timestamp,
        after: Option<SourceId>,
        limit: u32,
    ) -> Result<Vec<SourceRecord>> {
        let after = Bits(after.map_or([0; 16], |after| after.to_bytes()));
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(&format!(
                        "SELECT {SOURCE} FROM sources
                         WHERE tenant = ?1 AND id > ?3 AND {SECRET_BEFORE} ORDER BY id LIMIT ?4"
                    ))
                    .map_err(unavailable)?;
                let rows =
                    select.query_map((tenant.0, before.as_millis(), after, limit), source_row);
                collect(rows.map_err(unavailable)?)
            })
            .await
    }

    async fn tenants_with_secrets_before(
        &self,
        before: Timestamp,
        after: Option<TenantId>,
        limit: u32,
    ) -> Result<Vec<TenantId>> {
        let after = after.map_or(i32::MIN, |after| after.0);
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(&format!(
                        "SELECT tenant FROM sources WHERE tenant > ?1 AND {SECRET_BEFORE}
                         UNION
                         SELECT tenant FROM webhooks
                         WHERE tenant > ?1 AND id < ?3 AND config ->> '$.disabled' IS NULL
                         ORDER BY 1 LIMIT ?4"
                    ))
                    .map_err(unavailable)?;
                let first = Bits(Ulid::floor(before).to_bytes());
                let rows = select.query_map((after, before.as_millis(), first, limit), |row| {
                    row.get(0).map(TenantId)
                });
                collect(rows.map_err(unavailable)?)
            })
            .await
    }

    async fn lane(&self, key: LaneKey) -> Result<Lane> {
        self.write_whole(0, move |tx, _| {
            let hash = lane_hash(&key);
            tx.prepare_cached(
                "INSERT INTO lanes (key, tenant, kind, priority, origin, name, executor)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (key) DO NOTHING",
            )
            .and_then(|mut put| {
                put.execute((
                    &hash[..],
                    key.tenant.0,
                    key.kind as i16,
                    key.priority as i16,
                    key.origin.map(|origin| Bits(origin.to_bytes())),
                    &key.name,
                    &key.executor,
                ))
            })
            .and_then(|_| {
                tx.query_row("SELECT id FROM lanes WHERE key = ?1", [&hash[..]], |row| row.get(0))
            })
            .map(|id| Lane { id: LaneId(id), key: key.clone() })
            .map_err(unavailable)
        })
        .await
    }

    async fn lanes(&self, ids: Vec<LaneId>) -> Result<Vec<Lane>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT id, tenant, kind, priority, origin, name, executor FROM lanes WHERE id = ?1",
                    )
                    .map_err(unavailable)?;
                let known = |row: &Row<'_>| match WorkKind::from_code(row.get(2)?) {
                    Some(_) => lane_row(row).map(Some),
                    None => Ok(None),
                };
                let mut lanes = Vec::with_capacity(ids.len());
                for id in &ids {
                    let found = select.query_row([id.0], known).optional().map_err(unavailable)?;
                    lanes.extend(found.flatten());
                }
                Ok(lanes)
            })
            .await
    }

    async fn count_lanes(&self, tenant: TenantId) -> Result<i64> {
        self.readers
            .read(move |connection, _| {
                connection
                    .query_row("SELECT count(*) FROM lanes WHERE tenant = ?1", [tenant.0], |row| {
                        row.get(0)
                    })
                    .map_err(unavailable)
            })
            .await
    }

    async fn audit(&self, filter: AuditFilter, cursor: Cursor) -> Result<Vec<AuditRow>> {
        self.readers
            .read(move |connection, _| audit_query(&filter, cursor).run(connection, audit_row))
            .await
    }
}

fn audit_query(filter: &AuditFilter, cursor: Cursor) -> Query {
    let (from, before) = filter.bounds(cursor);
    let mut query = Query::new("SELECT id, tenant, actor, action, target, note FROM audit".into());
    let bits = |id: Ulid| Box::new(Bits(id.to_bytes()));
    query.add(" WHERE id >= ? AND id < ?", vec![bits(from), bits(before)]);
    if let Some(tenant) = filter.tenant {
        query.add(" AND tenant = ?", vec![Box::new(tenant.0)]);
    }
    if let Some(actor) = filter.actor.clone() {
        query.add(" AND actor = ?", vec![Box::new(actor)]);
    }
    if let Some(target) = filter.target.clone() {
        query.add(" AND target = ?", vec![Box::new(target)]);
    }
    if let Some(action) = filter.action.clone() {
        let after = after_prefix(&action);
        query.add(" AND action >= ? AND action < ?", vec![Box::new(action), Box::new(after)]);
    }
    query.add(" ORDER BY id DESC LIMIT ?", vec![Box::new(cursor.limit)]);
    query
}

/// Takes an idempotency key in the transaction of what it guards, or finds what it came to before.
pub(super) fn remember(
    tx: &Connection,
    now: Timestamp,
    once: Option<&Idempotency>,
) -> Result<Option<Replayed>> {
    let Some(once) = once else { return Ok(None) };
    let taken = tx
        .execute(
            "INSERT INTO idempotency (key, body_hash, answer, expires_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (key) DO UPDATE SET body_hash = excluded.body_hash, answer = excluded.answer,
               expires_at = excluded.expires_at WHERE idempotency.expires_at <= ?5",
            (
                Bits(once.key),
                &once.body_hash[..],
                once.answer.as_bytes(),
                once.until.as_millis(),
                now.as_millis(),
            ),
        )
        .map_err(unavailable)?;
    if taken == 1 {
        return Ok(None);
    }
    tx.query_row(
        "SELECT body_hash, answer FROM idempotency WHERE key = ?1",
        [Bits(once.key)],
        replayed,
    )
    .map(Some)
    .map_err(unavailable)
}

fn replayed(row: &Row<'_>) -> rusqlite::Result<Replayed> {
    Ok(Replayed { body_hash: row.get(0)?, answer: row.get::<_, SealedColumn>(1)?.0 })
}

/// Gives an idempotency key back that guards nothing new.
pub(super) fn forget(tx: &Connection, once: Option<&Idempotency>) -> Result<()> {
    if let Some(once) = once {
        tx.execute("DELETE FROM idempotency WHERE key = ?1", [Bits(once.key)])
            .map_err(unavailable)?;
    }
    Ok(())
}

/// All tenants, by slug.
pub(super) fn tenants(connection: &Connection) -> Result<Vec<Tenant>> {
    let mut select = connection
        .prepare_cached("SELECT id, slug, settings, created_at FROM tenants ORDER BY slug")
        .map_err(unavailable)?;
    collect(select.query_map([], tenant_row).map_err(unavailable)?)
}
