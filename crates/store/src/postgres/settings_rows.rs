//! Between rows and settings.

use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use wakepost_domain::access::{Key, Reach, Role};
use wakepost_domain::lane::{Lane, LaneId, LaneKey};
use wakepost_domain::source::SourceConfig;
use wakepost_domain::tenant::{Tenant, TenantSettings};
use wakepost_domain::work::{Priority, WorkKind};
use wakepost_domain::{AuditId, KeyId, SourceId, TenantId, Timestamp};

use super::fault::is_taken;
use super::rows::{code, execute, get, id, opt_id, opt_time, sealed, text, time, uuid};
use crate::error::{Result, StoreError};
use crate::moves::{AuditEntry, AuditRow, KeyRecord, SourceRecord};

pub fn found(changed: u64) -> Result<()> {
    if changed == 0 { Err(StoreError::NotFound) } else { Ok(()) }
}

pub fn settings_text(settings: &TenantSettings) -> String {
    serde_json::to_string(settings).expect("settings are plain data")
}

pub fn config_text(config: &SourceConfig) -> String {
    serde_json::to_string(config).expect("a source's configuration is plain data")
}

/// The tenant column, with null for keys of all tenants.
pub fn reach_column(reach: Option<Reach>) -> Option<i32> {
    match reach {
        Some(Reach::Tenant(tenant)) => Some(tenant.0),
        Some(Reach::All) | None => None,
    }
}

pub async fn insert_key(tx: &Transaction<'_>, record: &KeyRecord) -> Result<()> {
    let key = &record.key;
    let added = execute(
        tx,
        "INSERT INTO keys (id, hash, tenant, role, name, created_at, expires_at, rate_per_s)
         VALUES ($1::uuid, $2::bytea, $3::int, $4::smallint, $5::text, $6::bigint, $7::bigint, $8::float8)",
        &[
            &uuid(key.id.0),
            &&record.hash[..],
            &reach_column(Some(key.reach)),
            &(key.role as i16),
            &text(&key.name),
            &key.created_at.as_millis(),
            &key.expires_at.map(Timestamp::as_millis),
            &key.rate_per_s,
        ],
    )
    .await;
    match added {
        Err(error) if is_taken(&error) => {
            Err(StoreError::Exists("the key is there already".to_owned()))
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

pub fn tenant_row(row: &Row) -> Result<Tenant> {
    Ok(Tenant {
        id: TenantId(get(row, 0)?),
        slug: get(row, 1)?,
        settings: json(row, 2)?,
        created_at: time(row, 3)?,
    })
}

pub const KEY: &str = "id, name, role, tenant, created_at, expires_at, last_used_at, rate_per_s";

pub fn key_row(row: &Row) -> Result<Key> {
    let tenant: Option<i32> = get(row, 3)?;
    Ok(Key {
        id: KeyId(id(row, 0)?),
        name: get(row, 1)?,
        role: code(row, 2, Role::from_code)?,
        reach: tenant.map_or(Reach::All, |tenant| Reach::Tenant(TenantId(tenant))),
        created_at: time(row, 4)?,
        expires_at: opt_time(row, 5)?,
        last_used_at: opt_time(row, 6)?,
        rate_per_s: get(row, 7)?,
    })
}

pub const SOURCE: &str = "id, tenant, provider, config, secrets, created_at, updated_at, \
     coalesce(secret_made_at, created_at)";

pub fn source_row(row: &Row) -> Result<SourceRecord> {
    Ok(SourceRecord {
        id: SourceId(id(row, 0)?),
        tenant: TenantId(get(row, 1)?),
        provider: get(row, 2)?,
        config: json(row, 3)?,
        secrets: sealed(row, 4)?,
        created_at: time(row, 5)?,
        updated_at: time(row, 6)?,
        secret_made_at: time(row, 7)?,
    })
}

pub fn lane_row(row: &Row) -> Result<Lane> {
    Ok(Lane {
        id: LaneId(get(row, 0)?),
        key: LaneKey {
            tenant: TenantId(get(row, 1)?),
            kind: code(row, 2, WorkKind::from_code)?,
            priority: code(row, 3, Priority::from_code)?,
            origin: opt_id(row, 4)?,
            name: get(row, 5)?,
            executor: get(row, 6)?,
        },
    })
}

pub fn audit_row(row: &Row) -> Result<AuditRow> {
    Ok(AuditEntry {
        id: AuditId(id(row, 0)?),
        tenant: get::<Option<i32>>(row, 1)?.map(TenantId),
        actor: get(row, 2)?,
        action: get(row, 3)?,
        target: get(row, 4)?,
        note: get(row, 5)?,
    })
}

pub fn json<T: serde::de::DeserializeOwned>(row: &Row, index: usize) -> Result<T> {
    serde_json::from_str(get(row, index)?).map_err(|error| StoreError::Corrupt(error.to_string()))
}
