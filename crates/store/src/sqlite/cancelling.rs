//! Cancelling by what happens, and by subject: an event gives up jobs that it makes pointless.

use std::collections::BTreeSet;

use rusqlite::Connection;
use wakepost_domain::event::Event;
use wakepost_domain::lane::LaneId;
use wakepost_domain::limits::CANCEL_ON_PER_SUBJECT_MAX;
use wakepost_domain::{TenantId, Timestamp, WorkId};

use super::rows::{Bits, WORK_LIVE, collect, unavailable, work};
use super::work::{cancel, find};
use crate::error::Result;
use crate::moves::{CancelKey, CancelOutcome, NewWork, SubjectStep, WorkRow};

/// Gives up the jobs that wait for such an event, and asks those that run to stop. Answers the lane of an item that
/// stood behind one of them.
pub fn cancel_by(tx: &Connection, now: Timestamp, event: &Event) -> Result<Option<LaneId>> {
    let Some(key) = CancelKey::of_event(event) else {
        return Ok(None);
    };
    let mut next = None;
    for row in waiting(tx, key)? {
        if row.is_cancelled_by(event) {
            let reason = row.cancel_reason(event.id);
            next = cancel(tx, now, &row, Some(&reason))?.next_in_order().or(next);
        }
    }
    Ok(next)
}

/// The first of its order key comes last: what it lets go is then none of the others.
fn waiting(tx: &Connection, key: CancelKey) -> Result<Vec<WorkRow>> {
    let mut select = tx
        .prepare_cached(&format!(
            "SELECT {WORK_LIVE} FROM work WHERE cancel_key = ?1 ORDER BY behind DESC, id"
        ))
        .map_err(unavailable)?;
    collect(select.query_map([Bits(key.0)], work).map_err(unavailable)?)
}

/// Refuses new jobs that would make an event's transaction too long.
pub fn check_new(tx: &Connection, items: &[NewWork]) -> Result<()> {
    let keys: BTreeSet<CancelKey> = items.iter().filter_map(NewWork::cancel_key).collect();
    for key in keys {
        let there: i64 = tx
            .prepare_cached("SELECT count(*) FROM work WHERE cancel_key = ?1")
            .and_then(|mut count| count.query_row([Bits(key.0)], |row| row.get(0)))
            .map_err(unavailable)?;
        if there > CANCEL_ON_PER_SUBJECT_MAX {
            return Err(CancelKey::too_many());
        }
    }
    Ok(())
}

/// Gives up those of these jobs that still live.
pub fn cancel_each(
    tx: &Connection,
    now: Timestamp,
    tenant: TenantId,
    ids: &[WorkId],
) -> Result<Vec<CancelOutcome>> {
    let mut rows = Vec::with_capacity(ids.len());
    for id in ids {
        rows.extend(find(tx, tenant, *id)?.filter(|row| !row.state.is_terminal()));
    }
    // The first of its order key comes last: what it lets go is then none of the others.
    rows.sort_by_key(|row| (!row.behind, row.id));
    rows.dedup_by_key(|row| row.id);
    rows.iter().map(|row| cancel(tx, now, row, None)).collect()
}

/// Looks at the next few live items of a tenant, and picks the jobs about a subject.
pub fn next_of_subject(
    connection: &Connection,
    tenant: TenantId,
    subject: &str,
    after: Option<WorkId>,
    rows_max: u32,
) -> Result<SubjectStep> {
    let mut select = connection
        .prepare_cached(
            "SELECT id, kind = 0 AND subject IS ?3 FROM work
             WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?4",
        )
        .map_err(unavailable)?;
    let after = after.map_or([0; 16], WorkId::to_bytes);
    let rows = select
        .query_map((tenant.0, Bits(after), subject, rows_max), |row| {
            Ok((WorkId::from_bytes(row.get::<_, Bits>(0)?.0), row.get(1)?))
        })
        .map_err(unavailable)?;
    Ok(SubjectStep::of(collect(rows)?, rows_max))
}
