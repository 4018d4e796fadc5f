//! Between rows and things: ids, times, optional words.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Type, ValueRef};
use rusqlite::{Connection, Row};
use serde::de::DeserializeOwned;
use wakepost_domain::effect::EffectState;
use wakepost_domain::event::{Event, Part, Route};
use wakepost_domain::lane::LaneId;
use wakepost_domain::receipt::{Evidence, Verdict};
use wakepost_domain::work::{HeldReason, State, WorkKind};
use wakepost_domain::{
    EventId, OperationId, ReceiptId, SourceId, TenantId, Timestamp, Ulid, WorkId,
};

use crate::error::{Result, StoreError};
use crate::moves::{AuditEntry, OrderKey, ReceiptRow, WorkMeta, WorkRow};
use crate::vault::Sealed;

/// The database failed.
pub fn unavailable(error: rusqlite::Error) -> StoreError {
    match error {
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..) => StoreError::Corrupt(error.to_string()),
        _ => StoreError::Unavailable(error.to_string()),
    }
}

/// 16 bytes of id as a column.
#[derive(Clone, Copy, Default)]
pub struct Bits(pub [u8; 16]);

impl ToSql for Bits {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(&self.0)))
    }
}

impl FromSql for Bits {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Bits> {
        let bytes: [u8; 16] = value.as_blob()?.try_into().map_err(|_| FromSqlError::InvalidType)?;
        Ok(Bits(bytes))
    }
}

/// A sealed record as a column.
pub struct SealedColumn(pub Sealed);

impl FromSql for SealedColumn {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<SealedColumn> {
        Ok(SealedColumn(Sealed::from_stored(value.as_blob()?.to_vec())))
    }
}

/// A code that must be one this program knows.
pub fn known<T>(code: i16, read: fn(i16) -> Option<T>) -> rusqlite::Result<T> {
    read(code).ok_or(rusqlite::Error::IntegralValueOutOfRange(0, i64::from(code)))
}

pub fn time(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// The columns of an event, in the order [`event`] reads them.
pub const EVENT: &str = "tenant, id, source, type, dedup_key, route, verified, subject, occurred_at, \
     payload_hash, duplicates, remote_addr, latency_us, body_id, part, signature, thread, trace";

pub fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    let id = EventId::from_bytes(row.get::<_, Bits>(1)?.0);
    Ok(Event {
        tenant: TenantId(row.get(0)?),
        id,
        source: SourceId::from_bytes(row.get::<_, Bits>(2)?.0),
        event_type: row.get(3)?,
        dedup_key: row.get(4)?,
        route: known(row.get(5)?, Route::from_code)?,
        verified: row.get(6)?,
        subject: row.get(7)?,
        occurred_at: row.get::<_, Option<i64>>(8)?.map(time),
        received_at: id.0.time(),
        payload_hash: row.get(9)?,
        duplicates: row.get(10)?,
        remote_addr: row.get(11)?,
        latency_us: row.get(12)?,
        part: match row.get::<_, Option<Bits>>(13)? {
            Some(body) => Some(Part { body: EventId::from_bytes(body.0), index: row.get(14)? }),
            None => None,
        },
        signature: row.get(15)?,
        thread: row.get(16)?,
        trace: row.get(17)?,
    })
}

/// The columns of a live item, in the order [`work`] reads them.
pub const WORK_LIVE: &str = "tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, \
     event_id, scope, subject, meta, held_reason, last_error, worker, started_at, lease_expires_at, \
     cancel_at, NULL, NULL, order_key, behind, callback_lane, NULL";
/// The columns of a finished item, in the order [`work`] reads them.
pub const WORK_DONE: &str = "tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, \
     event_id, scope, subject, meta, NULL, last_error, worker, started_at, NULL, NULL, finished_at, \
     replayed_as, order_key, 0, callback_lane, purged_by";

pub fn work(row: &Row<'_>) -> rusqlite::Result<WorkRow> {
    let held: Option<i16> = row.get(13)?;
    let state = known(row.get(4)?, State::from_code)?;
    Ok(WorkRow {
        tenant: TenantId(row.get(0)?),
        id: WorkId::from_bytes(row.get::<_, Bits>(1)?.0),
        // One that a newer program made is held, and seen as a job.
        kind: WorkKind::from_code(row.get(2)?).unwrap_or(WorkKind::Job),
        lane: LaneId(row.get(3)?),
        state,
        run_at: time(row.get(5)?),
        attempts: row.get(6)?,
        max_attempts: row.get(7)?,
        fence: row.get(8)?,
        event: row.get::<_, Option<Bits>>(9)?.map(|bits| EventId::from_bytes(bits.0)),
        scope: Ulid::from_bytes(row.get::<_, Bits>(10)?.0),
        subject: row.get(11)?,
        meta: WorkMeta {
            callback_lane: row.get::<_, Option<i64>>(23)?.map(LaneId),
            ..meta(row.get(12)?)
        },
        held: held.map(|code| known(code, HeldReason::from_code)).transpose()?,
        last_error: row.get(14)?,
        worker: row.get(15)?,
        started_at: row.get::<_, Option<i64>>(16)?.map(time),
        lease_expires_at: row.get::<_, Option<i64>>(17)?.map(time),
        cancel_requested: row.get::<_, Option<i64>>(18)?.is_some(),
        finished_at: row.get::<_, Option<i64>>(19)?.map(time),
        replayed_as: row.get::<_, Option<Bits>>(20)?.map(|bits| WorkId::from_bytes(bits.0)),
        order: row.get::<_, Option<Bits>>(21)?.map(|bits| OrderKey(bits.0)),
        behind: row.get(22)?,
        purged_by: row.get::<_, Option<Bits>>(24)?.map(|bits| OperationId::from_bytes(bits.0)),
    })
}

/// What an item carries besides what the queue needs; most carry nothing.
pub fn meta(text: Option<String>) -> WorkMeta {
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// The column for [`meta`].
pub fn meta_text(meta: &WorkMeta) -> Option<String> {
    meta.text()
}

pub const RECEIPT: &str = "id, event_id, remote_addr, verdict, latency_us, detail, evidence";

fn evidence(text: Option<&str>) -> Option<Evidence> {
    serde_json::from_str(text?).ok()
}

pub fn receipt(row: &Row<'_>) -> rusqlite::Result<ReceiptRow> {
    Ok(ReceiptRow {
        id: ReceiptId::from_bytes(row.get::<_, Bits>(0)?.0),
        event: row.get::<_, Option<Bits>>(1)?.map(|bits| EventId::from_bytes(bits.0)),
        remote_addr: row.get(2)?,
        verdict: known(row.get(3)?, Verdict::from_code)?,
        latency_us: row.get(4)?,
        detail: row.get(5)?,
        evidence: evidence(row.get::<_, Option<String>>(6)?.as_deref()),
    })
}

pub fn effect_state(code: i16) -> rusqlite::Result<EffectState> {
    known(code, EffectState::from_code)
}

/// Writes an audit entry, in the transaction of the thing itself.
pub fn audit(tx: &Connection, entry: &AuditEntry) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO audit (id, tenant, actor, action, target, note) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )
    .and_then(|mut insert| {
        insert.execute((
            Bits(entry.id.to_bytes()),
            entry.tenant.map(|tenant| tenant.0),
            &entry.actor,
            &entry.action,
            &entry.target,
            &entry.note,
        ))
    })
    .map_err(unavailable)?;
    Ok(())
}

/// A column of JSON that this program wrote.
pub fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}

/// All rows of a query.
pub fn collect<T>(rows: impl Iterator<Item = rusqlite::Result<T>>) -> Result<Vec<T>> {
    rows.collect::<rusqlite::Result<Vec<T>>>().map_err(unavailable)
}
