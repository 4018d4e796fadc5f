//! Between rows and things: ids, times, optional words; and the three ways to run a statement.

use std::borrow::Cow;

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};
use uuid::Uuid;
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

pub type Params<'a> = &'a [&'a (dyn ToSql + Sync)];
type Answer<T> = std::result::Result<T, tokio_postgres::Error>;

/// All rows of a statement.
pub async fn query(on: &impl GenericClient, sql: &str, params: Params<'_>) -> Answer<Vec<Row>> {
    let statement = on.prepare_cached(sql).await?;
    on.query(&statement, params).await
}

/// The row of a statement that has one or none.
pub async fn query_opt(
    on: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
) -> Answer<Option<Row>> {
    let statement = on.prepare_cached(sql).await?;
    on.query_opt(&statement, params).await
}

/// How many rows a statement touched.
pub async fn execute(on: &impl GenericClient, sql: &str, params: Params<'_>) -> Answer<u64> {
    let statement = on.prepare_cached(sql).await?;
    on.execute(&statement, params).await
}

/// An id as a column.
pub fn uuid(id: Ulid) -> Uuid {
    Uuid::from_bytes(id.to_bytes())
}

/// An id from a column.
pub fn ulid(id: Uuid) -> Ulid {
    Ulid::from_bytes(id.into_bytes())
}

/// A text as a column. Differs from SQLite: PostgreSQL's text cannot hold NUL, and one that a sender
/// smuggled into a subject must not make its event unacceptable.
pub fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{FFFD}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// [`text`], if there is one.
pub fn opt_text(value: &Option<String>) -> Option<Cow<'_, str>> {
    value.as_deref().map(text)
}

/// A column.
pub fn get<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T> {
    row.try_get(index).map_err(|error| StoreError::Corrupt(error.to_string()))
}

pub fn id(row: &Row, index: usize) -> Result<Ulid> {
    get(row, index).map(ulid)
}

pub fn opt_id(row: &Row, index: usize) -> Result<Option<Ulid>> {
    Ok(get::<Option<Uuid>>(row, index)?.map(ulid))
}

pub fn time(row: &Row, index: usize) -> Result<Timestamp> {
    get(row, index).map(Timestamp::from_millis)
}

pub fn opt_time(row: &Row, index: usize) -> Result<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, index)?.map(Timestamp::from_millis))
}

pub fn sealed(row: &Row, index: usize) -> Result<Sealed> {
    get(row, index).map(Sealed::from_stored)
}

pub fn opt_sealed(row: &Row, index: usize) -> Result<Option<Sealed>> {
    Ok(get::<Option<Vec<u8>>>(row, index)?.map(Sealed::from_stored))
}

/// A fixed number of bytes.
pub fn bytes<const N: usize>(row: &Row, index: usize) -> Result<[u8; N]> {
    let bytes: &[u8] = get(row, index)?;
    bytes.try_into().map_err(|_| StoreError::Corrupt(format!("{N} bytes expected")))
}

/// A code that must be one this program knows.
pub fn code<T>(row: &Row, index: usize, read: fn(i16) -> Option<T>) -> Result<T> {
    let code = get(row, index)?;
    read(code).ok_or_else(|| StoreError::Corrupt(format!("unknown code {code}")))
}

/// The columns of an event, in the order [`event`] reads them.
pub const EVENT: &str = "tenant, id, source, type, dedup_key, route, verified, subject, occurred_at, \
     payload_hash, duplicates, remote_addr, latency_us, body_id, part, signature, thread, trace";

pub fn event(row: &Row) -> Result<Event> {
    let id = EventId(id(row, 1)?);
    Ok(Event {
        tenant: TenantId(get(row, 0)?),
        id,
        source: SourceId(self::id(row, 2)?),
        event_type: get(row, 3)?,
        dedup_key: get(row, 4)?,
        route: code(row, 5, Route::from_code)?,
        verified: get(row, 6)?,
        subject: get(row, 7)?,
        occurred_at: opt_time(row, 8)?,
        received_at: id.0.time(),
        payload_hash: bytes(row, 9)?,
        duplicates: get(row, 10)?,
        remote_addr: get(row, 11)?,
        latency_us: get(row, 12)?,
        part: match opt_id(row, 13)? {
            Some(body) => Some(Part { body: EventId(body), index: index(row, 14)? }),
            None => None,
        },
        signature: get(row, 15)?,
        thread: get(row, 16)?,
        trace: get(row, 17)?,
    })
}

fn index(row: &Row, column: usize) -> Result<u16> {
    let number: i16 = get(row, column)?;
    number.try_into().map_err(|_| StoreError::Corrupt(format!("unknown part {number}")))
}

/// The columns of a live item, in the order [`work`] reads them.
pub const WORK_LIVE: &str = "tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, \
     event_id, scope, subject, meta, held_reason, last_error, worker, started_at, lease_expires_at, \
     cancel_at, NULL::bigint AS finished_at, NULL::uuid AS replayed_as, order_key, behind, \
     callback_lane, NULL::uuid AS purged_by";
/// The columns of a finished item, in the order [`work`] reads them.
pub const WORK_DONE: &str = "tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, \
     event_id, scope, subject, meta, NULL::smallint AS held_reason, last_error, worker, started_at, \
     NULL::bigint AS lease_expires_at, NULL::bigint AS cancel_at, finished_at, replayed_as, \
     order_key, false AS behind, callback_lane, purged_by";

pub fn work(row: &Row) -> Result<WorkRow> {
    let held: Option<i16> = get(row, 13)?;
    Ok(WorkRow {
        tenant: TenantId(get(row, 0)?),
        id: WorkId(id(row, 1)?),
        // One that a newer program made is held, and seen as a job.
        kind: WorkKind::from_code(get(row, 2)?).unwrap_or(WorkKind::Job),
        lane: LaneId(get(row, 3)?),
        state: code(row, 4, State::from_code)?,
        run_at: time(row, 5)?,
        attempts: get(row, 6)?,
        max_attempts: get(row, 7)?,
        fence: get(row, 8)?,
        event: opt_id(row, 9)?.map(EventId),
        scope: id(row, 10)?,
        subject: get(row, 11)?,
        meta: WorkMeta {
            callback_lane: get::<Option<i64>>(row, 23)?.map(LaneId),
            ..meta(get(row, 12)?)
        },
        held: held.and_then(HeldReason::from_code),
        last_error: get(row, 14)?,
        worker: get(row, 15)?,
        started_at: opt_time(row, 16)?,
        lease_expires_at: opt_time(row, 17)?,
        cancel_requested: opt_time(row, 18)?.is_some(),
        finished_at: opt_time(row, 19)?,
        replayed_as: opt_id(row, 20)?.map(WorkId),
        order: get::<Option<Uuid>>(row, 21)?.map(|key| OrderKey(key.into_bytes())),
        behind: get(row, 22)?,
        purged_by: opt_id(row, 24)?.map(OperationId),
    })
}

/// What an item carries besides what the queue needs; most carry nothing.
pub fn meta(text: Option<&str>) -> WorkMeta {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The column for [`meta`].
pub fn meta_text(meta: &WorkMeta) -> Option<String> {
    meta.text()
}

/// The columns of a receipt, in the order [`receipt`] reads them.
pub const RECEIPT: &str = "id, event_id, remote_addr, verdict, latency_us, detail, evidence";

fn evidence(text: Option<&str>) -> Option<Evidence> {
    serde_json::from_str(text?).ok()
}

pub fn receipt(row: &Row) -> Result<ReceiptRow> {
    Ok(ReceiptRow {
        id: ReceiptId(id(row, 0)?),
        event: opt_id(row, 1)?.map(EventId),
        remote_addr: get(row, 2)?,
        verdict: code(row, 3, Verdict::from_code)?,
        latency_us: get(row, 4)?,
        detail: get(row, 5)?,
        evidence: evidence(get(row, 6)?),
    })
}

/// Writes an audit entry, in the transaction of the thing itself.
pub async fn audit(tx: &impl GenericClient, entry: &AuditEntry) -> Result<()> {
    execute(
        tx,
        "INSERT INTO audit (id, tenant, actor, action, target, note)
         VALUES ($1::uuid, $2::int, $3::text, $4::text, $5::text, $6::text)",
        &[
            &uuid(entry.id.0),
            &entry.tenant.map(|tenant| tenant.0),
            &text(&entry.actor),
            &text(&entry.action),
            &text(&entry.target),
            &opt_text(&entry.note),
        ],
    )
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_becomes_a_character_that_text_can_hold() {
        assert_eq!(text("a\0b"), "a\u{FFFD}b");
        assert!(matches!(text("plain"), Cow::Borrowed("plain")));
    }
}
