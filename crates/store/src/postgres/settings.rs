//! Settings: tenants, keys, sources, lanes; and who changed what.

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use uuid::Uuid;
use wakepost_domain::access::{Key, Reach, Role};
use wakepost_domain::lane::{Lane, LaneId, LaneKey};
use wakepost_domain::tenant::{Tenant, TenantSettings};
use wakepost_domain::work::WorkKind;
use wakepost_domain::{KeyId, SourceId, TenantId, Timestamp, Ulid};

use super::event_list::Query;
use super::rows::{
    Params, audit, bytes, execute, get, opt_text, query, query_opt, sealed, text, time, uuid,
};
use super::settings_rows::{
    KEY, SOURCE, audit_row, config_text, found, insert_key, key_row, lane_row, reach_column,
    settings_text, source_row, tenant_row,
};
use super::{Postgres, commit};
use crate::error::{Result, StoreError};
use crate::moves::{
    AuditEntry, AuditFilter, AuditRow, Cursor, Idempotency, KeyRecord, Once, Page, Replayed,
    Settings, SourceRecord, after_prefix, lane_hash,
};

/// Of an enabled source: its secret was made before `$2`.
const SECRET_BEFORE: &str = "coalesce(secret_made_at, created_at) < $2::bigint
     AND coalesce((config::json ->> 'enabled')::boolean, true)";

#[async_trait]
impl Settings for Postgres {
    async fn create_tenant(
        &self,
        slug: String,
        settings: TenantSettings,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<Tenant>> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        if let Some(before) = remember(&tx, once.as_ref()).await? {
            return Ok(Once::Before(before));
        }
        let row = query_opt(
            &tx,
            "INSERT INTO tenants (slug, settings, created_at)
             VALUES ($1::text, $2::text, wakepost_now())
             ON CONFLICT (slug) DO NOTHING RETURNING id, created_at",
            &[&text(&slug), &settings_text(&settings)],
        )
        .await?
        .ok_or_else(|| StoreError::Exists(format!("there is a tenant {slug} already")))?;
        let (id, created_at) = (TenantId(get(&row, 0)?), time(&row, 1)?);
        audit(&tx, &AuditEntry { tenant: Some(id), ..entry }).await?;
        commit(tx).await?;
        Ok(Once::Now(Tenant { id, slug, settings, created_at }))
    }

    async fn update_tenant(
        &self,
        tenant: TenantId,
        seen: TenantSettings,
        settings: TenantSettings,
        entry: AuditEntry,
    ) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let current = query_opt(
            &tx,
            "SELECT id, slug, settings, created_at FROM tenants WHERE id = $1::int FOR UPDATE",
            &[&tenant.0],
        )
        .await?
        .ok_or(StoreError::NotFound)?;
        if tenant_row(&current)?.settings != seen {
            return Err(StoreError::changed_meanwhile());
        }
        execute(
            &tx,
            "UPDATE tenants SET settings = $2::text WHERE id = $1::int",
            &[&tenant.0, &settings_text(&settings)],
        )
        .await?;
        audit(&tx, &entry).await?;
        commit(tx).await
    }

    async fn tenants(&self) -> Result<Vec<Tenant>> {
        let client = self.cool().await?;
        let rows = query(
            &client,
            "SELECT id, slug, settings, created_at FROM tenants ORDER BY slug COLLATE \"C\"",
            &[],
        )
        .await?;
        rows.iter().map(tenant_row).collect()
    }

    async fn create_key(
        &self,
        record: KeyRecord,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        if let Some(before) = remember(&tx, once.as_ref()).await? {
            return Ok(Once::Before(before));
        }
        insert_key(&tx, &record).await?;
        audit(&tx, &entry).await?;
        commit(tx).await?;
        Ok(Once::Now(()))
    }

    async fn key_by_hash(&self, hash: [u8; 32]) -> Result<Option<Key>> {
        let client = self.cool().await?;
        let sql = format!(
            "SELECT {KEY} FROM keys WHERE hash = $1::bytea AND revoked_at IS NULL
             AND (expires_at IS NULL OR expires_at > wakepost_now())"
        );
        query_opt(&client, &sql, &[&&hash[..]]).await?.as_ref().map(key_row).transpose()
    }

    async fn keys(&self, reach: Option<Reach>) -> Result<Vec<Key>> {
        let client = self.cool().await?;
        let sql = format!(
            "SELECT {KEY} FROM keys WHERE revoked_at IS NULL
             AND ($1::boolean OR tenant IS NOT DISTINCT FROM $2::int) ORDER BY id DESC"
        );
        let rows = query(&client, &sql, &[&reach.is_none(), &reach_column(reach)]).await?;
        rows.iter().map(key_row).collect()
    }

    async fn revoke_key(&self, id: KeyId, reach: Option<Reach>, entry: AuditEntry) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let changed = execute(
            &tx,
            "UPDATE keys SET revoked_at = wakepost_now() WHERE id = $1::uuid AND revoked_at IS NULL
             AND ($2::boolean OR tenant IS NOT DISTINCT FROM $3::int)",
            &[&uuid(id.0), &reach.is_none(), &reach_column(reach)],
        )
        .await?;
        found(changed)?;
        audit(&tx, &entry).await?;
        commit(tx).await
    }

    async fn touch_keys(&self, mut used: Vec<(KeyId, Timestamp)>) -> Result<()> {
        // In their order, the latest use last, and each key once: nodes that note the same keys in
        // different orders could deadlock.
        used.sort_unstable();
        let latest: std::collections::BTreeMap<KeyId, Timestamp> = used.into_iter().collect();
        let client = self.cool().await?;
        execute(
            &client,
            "UPDATE keys k SET last_used_at = greatest(coalesce(k.last_used_at, 0), u.at)
             FROM (SELECT k.id, u.at FROM unnest($1::uuid[], $2::bigint[]) AS u (id, at)
                   JOIN keys k ON k.id = u.id ORDER BY k.id FOR UPDATE OF k) u
             WHERE k.id = u.id",
            &[
                &latest.keys().map(|id| uuid(id.0)).collect::<Vec<_>>(),
                &latest.values().map(|at| at.as_millis()).collect::<Vec<_>>(),
            ],
        )
        .await?;
        Ok(())
    }

    async fn note(&self, entry: AuditEntry, once: Option<Idempotency>) -> Result<Once<()>> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        if let Some(before) = remember(&tx, once.as_ref()).await? {
            return Ok(Once::Before(before));
        }
        audit(&tx, &entry).await?;
        commit(tx).await?;
        Ok(Once::Now(()))
    }

    async fn remembered(&self, key: [u8; 16]) -> Result<Option<Replayed>> {
        let client = self.cool().await?;
        let sql = "SELECT body_hash, answer FROM idempotency WHERE key = $1::uuid AND expires_at > wakepost_now()";
        query_opt(&client, sql, &[&Uuid::from_bytes(key)]).await?.as_ref().map(replayed).transpose()
    }

    async fn count_keys(&self, role: Role) -> Result<i64> {
        let client = self.cool().await?;
        let row = client
            .query_one(
                "SELECT count(*) FROM keys WHERE role = $1::smallint AND revoked_at IS NULL
                 AND (expires_at IS NULL OR expires_at > wakepost_now())",
                &[&(role as i16)],
            )
            .await?;
        get(&row, 0)
    }

    async fn create_source(
        &self,
        record: SourceRecord,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        if let Some(before) = remember(&tx, once.as_ref()).await? {
            return Ok(Once::Before(before));
        }
        execute(
            &tx,
            "INSERT INTO sources (id, tenant, provider, config, secrets, created_at, updated_at,
                                  secret_made_at)
             VALUES ($1::uuid, $2::int, $3::text, $4::text, $5::bytea, $6::bigint, $7::bigint,
                     $8::bigint)",
            &[
                &uuid(record.id.0),
                &record.tenant.0,
                &text(&record.provider),
                &config_text(&record.config),
                &record.secrets.as_bytes(),
                &record.created_at.as_millis(),
                &record.updated_at.as_millis(),
                &record.secret_made_at.as_millis(),
            ],
        )
        .await?;
        audit(&tx, &entry).await?;
        commit(tx).await?;
        Ok(Once::Now(()))
    }

    async fn update_source(
        &self,
        record: SourceRecord,
        seen: Timestamp,
        entry: AuditEntry,
    ) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let current = query_opt(
            &tx,
            "SELECT updated_at FROM sources WHERE tenant = $1::int AND id = $2::uuid FOR UPDATE",
            &[&record.tenant.0, &uuid(record.id.0)],
        )
        .await?
        .ok_or(StoreError::NotFound)?;
        if time(&current, 0)? != seen {
            return Err(StoreError::changed_meanwhile());
        }
        execute(
            &tx,
            "UPDATE sources SET config = $3::text, secrets = $4::bytea, updated_at = $5::bigint,
                    secret_made_at = $6::bigint
             WHERE tenant = $1::int AND id = $2::uuid",
            &[
                &record.tenant.0,
                &uuid(record.id.0),
                &config_text(&record.config),
                &record.secrets.as_bytes(),
                &record.updated_at.as_millis(),
                &record.secret_made_at.as_millis(),
            ],
        )
        .await?;
        audit(&tx, &entry).await?;
        commit(tx).await
    }

    async fn delete_source(&self, tenant: TenantId, id: SourceId, entry: AuditEntry) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let gone = execute(
            &tx,
            "DELETE FROM sources WHERE tenant = $1::int AND id = $2::uuid",
            &[&tenant.0, &uuid(id.0)],
        )
        .await?;
        found(gone)?;
        let forget = "DELETE FROM source_states WHERE source = $1::uuid";
        execute(&tx, forget, &[&uuid(id.0)]).await?;
        audit(&tx, &entry).await?;
        commit(tx).await
    }

    async fn source(&self, id: SourceId) -> Result<Option<SourceRecord>> {
        let client = self.cool().await?;
        let sql = format!("SELECT {SOURCE} FROM sources WHERE id = $1::uuid");
        query_opt(&client, &sql, &[&uuid(id.0)]).await?.as_ref().map(source_row).transpose()
    }

    async fn sources(&self, tenant: TenantId, page: Page<SourceId>) -> Result<Vec<SourceRecord>> {
        let client = self.cool().await?;
        let sql = format!(
            "SELECT {SOURCE} FROM sources WHERE tenant = $1::int
             AND ($2::uuid IS NULL OR (created_at, id) <
                  (SELECT created_at, id FROM sources WHERE id = $2::uuid))
             ORDER BY created_at DESC, id DESC LIMIT $3::bigint"
        );
        let before = page.before.map(|id| uuid(id.0));
        let rows = query(&client, &sql, &[&tenant.0, &before, &i64::from(page.limit)]).await?;
        rows.iter().map(source_row).collect()
    }

    async fn sources_with_secrets_before(
        &self,
        tenant: TenantId,
        before: Timestamp,
        after: Option<SourceId>,
        limit: u32,
    ) -> Result<Vec<SourceRecord>> {
        let client = self.cool().await?;
        let sql = format!(
            "SELECT {SOURCE} FROM sources
             WHERE tenant = $1::int AND id > $3::uuid AND {SECRET_BEFORE} ORDER BY id LIMIT $4::bigint"
        );
        let after = after.map_or(Uuid::nil(), |after| uuid(after.0));
        let params: Params<'_> = &[&tenant.0, &before.as_millis(), &after, &i64::from(limit)];
        query(&client, &sql, params).await?.iter().map(source_row).collect()
    }

    async fn tenants_with_secrets_before(
        &self,
        before: Timestamp,
        after: Option<TenantId>,
        limit: u32,
    ) -> Result<Vec<TenantId>> {
        let client = self.cool().await?;
        let sql = format!(
            "SELECT tenant FROM sources WHERE tenant > $1::int AND {SECRET_BEFORE}
             UNION
             SELECT tenant FROM webhooks
             WHERE tenant > $1::int AND id < $3::uuid AND config::json ->> 'disabled' IS NULL
             ORDER BY 1 LIMIT $4::bigint"
        );
        let after = after.map_or(i32::MIN, |after| after.0);
        let params: Params<'_> =
            &[&after, &before.as_millis(), &uuid(Ulid::floor(before)), &i64::from(limit)];
        let rows = query(&client, &sql, params).await?;
        rows.iter().map(|row| Ok(TenantId(get(row, 0)?))).collect()
    }

    async fn lane(&self, key: LaneKey) -> Result<Lane> {
        let hash = lane_hash(&key);
        let client = self.cool().await?;
        let select = "SELECT id FROM lanes WHERE key = $1::bytea";
        if let Some(row) = query_opt(&client, select, &[&&hash[..]]).await? {
            return Ok(Lane { id: LaneId(get(&row, 0)?), key });
        }
        execute(
            &client,
            "INSERT INTO lanes (key, tenant, kind, priority, origin, name, executor)
             VALUES ($1::bytea, $2::int, $3::smallint, $4::smallint, $5::uuid, $6::text, $7::text)
             ON CONFLICT (key) DO NOTHING",
            &[
                &&hash[..],
                &key.tenant.0,
                &(key.kind as i16),
                &(key.priority as i16),
                &key.origin.map(uuid),
                &text(&key.name),
                &opt_text(&key.executor),
            ],
        )
        .await?;
        let row = query_opt(&client, select, &[&&hash[..]]).await?.ok_or(StoreError::NotFound)?;
        Ok(Lane { id: LaneId(get(&row, 0)?), key })
    }

    async fn lanes(&self, ids: Vec<LaneId>) -> Result<Vec<Lane>> {
        let client = self.cool().await?;
        let rows = query(
            &client,
            "SELECT l.id, l.tenant, l.kind, l.priority, l.origin, l.name, l.executor
             FROM unnest($1::bigint[]) WITH ORDINALITY AS i (id, nth) JOIN lanes l ON l.id = i.id
             WHERE l.kind = ANY ($2::smallint[]) ORDER BY i.nth",
            &[
                &ids.iter().map(|id| id.0).collect::<Vec<_>>(),
                &WorkKind::ALL.map(|kind| kind as i16).to_vec(),
            ],
        )
        .await?;
        rows.iter().map(lane_row).collect()
    }

    async fn count_lanes(&self, tenant: TenantId) -> Result<i64> {
        let client = self.cool().await?;
        let sql = "SELECT count(*) FROM lanes WHERE tenant = $1::int";
        get(&client.query_one(sql, &[&tenant.0]).await?, 0)
    }

    async fn audit(&self, filter: AuditFilter, cursor: Cursor) -> Result<Vec<AuditRow>> {
        let client = self.cool().await?;
        let rows = audit_query(&filter, cursor).run(&client).await?;
        rows.iter().map(audit_row).collect()
    }
}

fn audit_query(filter: &AuditFilter, cursor: Cursor) -> Query {
    let (from, before) = filter.bounds(cursor);
    let mut query = Query::new("SELECT id, tenant, actor, action, target, note FROM audit".into());
    query.add(" WHERE id >= ?::uuid", uuid(from));
    query.add(" AND id < ?::uuid", uuid(before));
    if let Some(tenant) = filter.tenant {
        query.add(" AND tenant = ?::int", tenant.0);
    }
    if let Some(actor) = &filter.actor {
        query.add(" AND actor = ?::text", text(actor).into_owned());
    }
    if let Some(target) = &filter.target {
        query.add(" AND target = ?::text", text(target).into_owned());
    }
    if let Some(action) = &filter.action {
        query.add(" AND action >= ?::text", text(action).into_owned());
        query.add(" AND action < ?::text", text(&after_prefix(action)).into_owned());
    }
    query.add(" ORDER BY id DESC LIMIT ?::bigint", i64::from(cursor.limit));
    query
}

/// Takes an idempotency key in the transaction of what it guards, or finds what it came to before.
pub(super) async fn remember(
    tx: &Transaction<'_>,
    once: Option<&Idempotency>,
) -> Result<Option<Replayed>> {
    let Some(once) = once else { return Ok(None) };
    let key = Uuid::from_bytes(once.key);
    // Differs from SQLite: while another transaction holds the key this waits for its end.
    let taken = execute(
        tx,
        "INSERT INTO idempotency AS i (key, body_hash, answer, expires_at)
         VALUES ($1::uuid, $2::bytea, $3::bytea, $4::bigint)
         ON CONFLICT (key) DO UPDATE SET body_hash = excluded.body_hash, answer = excluded.answer,
           expires_at = excluded.expires_at WHERE i.expires_at <= wakepost_now()",
        &[&key, &&once.body_hash[..], &once.answer.as_bytes(), &once.until.as_millis()],
    )
    .await?;
    if taken == 1 {
        return Ok(None);
    }
    let select = "SELECT body_hash, answer FROM idempotency WHERE key = $1::uuid";
    let row = query_opt(tx, select, &[&key]).await?.ok_or(StoreError::Busy)?;
    replayed(&row).map(Some)
}

fn replayed(row: &Row) -> Result<Replayed> {
    Ok(Replayed { body_hash: bytes(row, 0)?, answer: sealed(row, 1)? })
}

/// Gives an idempotency key back that guards nothing new.
pub(super) async fn forget(tx: &Transaction<'_>, once: Option<&Idempotency>) -> Result<()> {
    if let Some(once) = once {
        let key = Uuid::from_bytes(once.key);
        execute(tx, "DELETE FROM idempotency WHERE key = $1::uuid", &[&key]).await?;
    }
    Ok(())
}
