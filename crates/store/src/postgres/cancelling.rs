//! Cancelling by what happens, and by subject: an event gives up jobs that it makes pointless.

use std::collections::BTreeSet;

use deadpool_postgres::{GenericClient, Transaction};
use uuid::Uuid;
use wakepost_domain::lane::LaneId;
use wakepost_domain::limits::CANCEL_ON_PER_SUBJECT_MAX;
use wakepost_domain::{TenantId, WorkId};

use super::ordering::{key_uuid, lock_live, lock_live_and};
use super::placing::orders;
use super::rows::{WORK_LIVE, get, id, query, text, uuid, work};
use super::work::cancel;
use crate::error::Result;
use crate::moves::{Accepted, CancelKey, CancelOutcome, NewEvent, NewWork, SubjectStep, WorkRow};

/// What jobs wait for that an event may cancel.
pub fn key_of(new: &NewEvent) -> Option<Uuid> {
    CancelKey::of_event(&new.event).map(cancel_uuid)
}

/// A key as a column.
pub fn cancel_uuid(key: CancelKey) -> Uuid {
    Uuid::from_bytes(key.0)
}

/// Locks the order keys of the jobs that wait for these, and with them those that the events' own jobs need: two
/// rounds of locks could deadlock. Answers the jobs: one that comes later comes after the events.
pub async fn lock(
    tx: &Transaction<'_>,
    keys: &[Uuid],
    events: &[NewEvent],
) -> Result<Vec<(TenantId, WorkId)>> {
    let sql = "SELECT tenant, id FROM work WHERE cancel_key = ANY($1::uuid[])";
    let items = query(tx, sql, &[&keys]).await?;
    let items = items.iter().map(|row| Ok((TenantId(get(row, 0)?), WorkId(id(row, 1)?))));
    let items: Vec<(TenantId, WorkId)> = items.collect::<Result<_>>()?;
    let own = orders(tx, events.iter().filter_map(NewEvent::placed_job)).await?;
    lock_live_and(tx, &items, own).await?;
    Ok(items)
}

/// Gives up the jobs that wait for one of these events, if it is new, and asks those that run to stop. An answer then
/// says the lane of an item that stood behind one of them. The caller holds the locks.
pub async fn cancel_by(
    tx: &Transaction<'_>,
    locked: &[(TenantId, WorkId)],
    events: &[NewEvent],
    answers: &mut [Accepted],
) -> Result<()> {
    for row in waiting(tx, locked).await? {
        let new = |index: &usize| answers[*index].is_new();
        let fits = |index: &usize| row.is_cancelled_by(&events[*index].event);
        let Some(by) = (0..events.len()).filter(new).find(fits) else { continue };
        let reason = row.cancel_reason(events[by].event.id);
        let order: Vec<Uuid> = row.order.map(key_uuid).into_iter().collect();
        let next: Option<LaneId> = cancel(tx, &row, &order, Some(&reason)).await?.next_in_order();
        if let Some(lane) = next {
            answers[by] = answers[by].before(lane);
        }
    }
    Ok(())
}

/// The first of its order key comes last: what it lets go is then none of the others. Differs from SQLite: a claim
/// may take one at the same time, so they are locked.
async fn waiting(tx: &Transaction<'_>, of: &[(TenantId, WorkId)]) -> Result<Vec<WorkRow>> {
    let sql = format!(
        "SELECT {WORK_LIVE} FROM work WHERE tenant = ANY($1::int[]) AND id = ANY($2::uuid[])
         ORDER BY behind DESC, id FOR UPDATE"
    );
    let tenants: BTreeSet<i32> = of.iter().map(|(tenant, _)| tenant.0).collect();
    let tenants: Vec<i32> = tenants.into_iter().collect();
    let ids: Vec<Uuid> = of.iter().map(|(_, id)| uuid(id.0)).collect();
    query(tx, &sql, &[&tenants, &ids]).await?.iter().map(work).collect()
}

/// Refuses new jobs that would make an event's transaction too long. Differs from SQLite: of two that come at the
/// same time neither sees the other, so that there may be a few more.
pub async fn check_new(tx: &Transaction<'_>, items: &[&NewWork]) -> Result<()> {
    let keys: BTreeSet<CancelKey> = items.iter().filter_map(|item| item.cancel_key()).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let keys: Vec<Uuid> = keys.into_iter().map(cancel_uuid).collect();
    let full = query(
        tx,
        "SELECT cancel_key FROM work WHERE cancel_key = ANY($1::uuid[])
         GROUP BY cancel_key HAVING count(*) > $2::bigint LIMIT 1",
        &[&keys, &CANCEL_ON_PER_SUBJECT_MAX],
    )
    .await?;
    if full.is_empty() { Ok(()) } else { Err(CancelKey::too_many()) }
}

/// Gives up those of these jobs that still live.
pub async fn cancel_each(
    tx: &Transaction<'_>,
    tenant: TenantId,
    ids: &[WorkId],
) -> Result<Vec<CancelOutcome>> {
    let items: Vec<(TenantId, WorkId)> = ids.iter().map(|id| (tenant, *id)).collect();
    // The keys before the items: so does whoever ends their runs.
    lock_live(tx, &items).await?;
    let sql = format!(
        "SELECT {WORK_LIVE} FROM work WHERE tenant = $1::int AND id = ANY($2::uuid[])
         ORDER BY behind DESC, id FOR UPDATE"
    );
    let ids: Vec<Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
    let rows = query(tx, &sql, &[&tenant.0, &ids]).await?;
    let mut outcomes = Vec::with_capacity(rows.len());
    for row in &rows {
        let row = work(row)?;
        let order: Vec<Uuid> = row.order.map(key_uuid).into_iter().collect();
        outcomes.push(cancel(tx, &row, &order, None).await?);
    }
    Ok(outcomes)
}

/// Looks at the next few live items of a tenant, and picks the jobs about a subject.
pub async fn next_of_subject(
    on: &impl GenericClient,
    tenant: TenantId,
    subject: &str,
    after: Option<WorkId>,
    rows_max: u32,
) -> Result<SubjectStep> {
    let after = after.map_or(Uuid::nil(), |after| uuid(after.0));
    let rows = query(
        on,
        "SELECT id, kind = 0 AND subject IS NOT DISTINCT FROM $3::text FROM work
         WHERE tenant = $1::int AND id > $2::uuid ORDER BY id LIMIT $4::bigint",
        &[&tenant.0, &after, &text(subject), &i64::from(rows_max)],
    )
    .await?;
    let rows = rows.iter().map(|row| Ok((WorkId(id(row, 0)?), get(row, 1)?)));
    Ok(SubjectStep::of(rows.collect::<Result<_>>()?, rows_max))
}
