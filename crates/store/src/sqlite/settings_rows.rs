//! Between rows and settings.

use rusqlite::{Connection, Row};
use wakepost_domain::access::{Key, Reach, Role};
use wakepost_domain::lane::{Lane, LaneId, LaneKey};
use wakepost_domain::source::SourceConfig;
use wakepost_domain::tenant::{Tenant, TenantSettings};
use wakepost_domain::work::{Priority, WorkKind};
use wakepost_domain::{AuditId, KeyId, SourceId, TenantId, Timestamp, Ulid};

use super::rows::{Bits, json, known, time, unavailable};
use crate::error::{Result, StoreError};
use crate::moves::{AuditEntry, AuditRow, KeyRecord, SourceRecord};
use crate::vault::Sealed;

pub fn found(changed: usize) -> Result<()> {
    if changed == 0 { Err(StoreError::NotFound) } else { Ok(()) }
}

pub fn settings_text(settings: &TenantSettings) -> String {
    serde_json::to_string(settings).expect("settings are plain data")
}

pub fn config_text(config: &SourceConfig) -> String {
    serde_json::to_string(config).expect("a source's configuration is plain data")
}

/// `tenant IS ?` with null for keys of all tenants.
pub fn reach_column(reach: Option<Reach>) -> Option<i32> {
    match reach {
        Some(Reach::Tenant(tenant)) => Some(tenant.0),
        Some(Reach::All) | None => None,
    }
}

pub fn insert_key(tx: &Connection, record: &KeyRecord) -> Result<()> {
    let key = &record.key;
    let added = tx
        .execute(
            "INSERT INTO keys (id, hash, tenant, role, name, created_at, expires_at, rate_per_s)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (hash) DO NOTHING",
            (
                Bits(key.id.to_bytes()),
                &record.hash[..],
                reach_column(Some(key.reach)),
                key.role as i16,
                &key.name,
                key.created_at.as_millis(),
                key.expires_at.map(Timestamp::as_millis),
                key.rate_per_s,
            ),
        )
        .map_err(unavailable)?;
    if added == 0 { Err(StoreError::Exists("the key is there already".to_owned())) } else { Ok(()) }
}

pub fn tenant_row(row: &Row<'_>) -> rusqlite::Result<Tenant> {
    Ok(Tenant {
        id: TenantId(row.get(0)?),
        slug: row.get(1)?,
        settings: json(row, 2)?,
        created_at: time(row.get(3)?),
    })
}

pub const KEY: &str = "id, name, role, tenant, created_at, expires_at, last_used_at, rate_per_s";

pub fn key_row(row: &Row<'_>) -> rusqlite::Result<Key> {
    let tenant: Option<i32> = row.get(3)?;
    Ok(Key {
        id: KeyId::from_bytes(row.get::<_, Bits>(0)?.0),
        name: row.get(1)?,
        role: known(row.get(2)?, Role::from_code)?,
        reach: tenant.map_or(Reach::All, |tenant| Reach::Tenant(TenantId(tenant))),
        created_at: time(row.get(4)?),
        expires_at: row.get::<_, Option<i64>>(5)?.map(time),
        last_used_at: row.get::<_, Option<i64>>(6)?.map(time),
        rate_per_s: row.get(7)?,
    })
}

/// Of an enabled source: its secret was made before `?2`.
pub const SECRET_BEFORE: &str =
    "coalesce(secret_made_at, created_at) < ?2 AND coalesce(config ->> '$.enabled', true)";

pub const SOURCE: &str = "id, tenant, provider, config, secrets, created_at, updated_at, \
     coalesce(secret_made_at, created_at)";

pub fn source_row(row: &Row<'_>) -> rusqlite::Result<SourceRecord> {
    Ok(SourceRecord {
        id: SourceId::from_bytes(row.get::<_, Bits>(0)?.0),
        tenant: TenantId(row.get(1)?),
        provider: row.get(2)?,
        config: json(row, 3)?,
        secrets: Sealed::from_stored(row.get(4)?),
        created_at: time(row.get(5)?),
        updated_at: time(row.get(6)?),
        secret_made_at: time(row.get(7)?),
    })
}

pub fn lane_row(row: &Row<'_>) -> rusqlite::Result<Lane> {
    Ok(Lane {
        id: LaneId(row.get(0)?),
        key: LaneKey {
            tenant: TenantId(row.get(1)?),
            kind: known(row.get(2)?, WorkKind::from_code)?,
            priority: known(row.get(3)?, Priority::from_code)?,
            origin: row.get::<_, Option<Bits>>(4)?.map(|bits| Ulid::from_bytes(bits.0)),
            name: row.get(5)?,
            executor: row.get(6)?,
        },
    })
}

pub fn audit_row(row: &Row<'_>) -> rusqlite::Result<AuditRow> {
    Ok(AuditEntry {
        id: AuditId::from_bytes(row.get::<_, Bits>(0)?.0),
        tenant: row.get::<_, Option<i32>>(1)?.map(TenantId),
        actor: row.get(2)?,
        action: row.get(3)?,
        target: row.get(4)?,
        note: row.get(5)?,
    })
}
