//! Conversations: a message joins its thread's job, interrupts it, or makes the next.

use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use wakepost_domain::backoff::Backoff;
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::thread::{KNOWN_FOR, Last, Way};
use wakepost_domain::transition::{self, Ending};
use wakepost_domain::work::State;
use wakepost_domain::{TenantId, Timestamp, WorkId};

use super::claim::millis;
use super::ordering::key_uuid;
use super::rows::{code, execute, get, id, opt_time, query_opt, time, uuid};
use super::settle::settle;
use crate::error::Result;
use crate::moves::{Accepted, Evidence, Guard, NewEvent, NewThread, OrderKey, Settle};

/// What its thread makes of a message.
pub enum Talk {
    /// Nothing is left to do.
    Settled(Accepted),
    /// It makes a job of its own.
    Own,
}

/// Looks whether the agent takes part in the thread, remembers that it does, and joins its last job if the policy
/// says so.
pub async fn talk(
    tx: &Transaction<'_>,
    now: Timestamp,
    new: &NewEvent,
    thread: &NewThread,
) -> Result<Talk> {
    if thread.only_if_known && !is_known(tx, thread.key).await? {
        return Ok(Talk::Settled(Accepted::Ignored));
    }
    remember(tx, new.event.tenant, thread.key).await?;
    let last = match thread.policy.gathers() {
        true => last(tx, thread.key).await?,
        false => None,
    };
    let way = thread.policy.way(last.as_ref().map(|found| found.last));
    let joined = match (way, last) {
        (Way::Join, Some(found)) => Some((found, false)),
        (Way::Interrupt, Some(found)) => {
            // The lease may have ended a moment ago: then the rescuer ends the run, and the message waits.
            let settled = interrupt(tx, &found, thread).await?;
            settled.map(|freed_cap| (Found { gathers_until: None, ..found }, freed_cap))
        }
        _ => None,
    };
    let Some((found, freed_cap)) = joined else {
        return Ok(Talk::Own);
    };
    join(tx, now, &found, new, thread).await?;
    let Found { ticket, lane, .. } = found;
    Ok(Talk::Settled(Accepted::Joined { work: ticket.work, lane, freed_cap }))
}

async fn is_known(tx: &Transaction<'_>, key: OrderKey) -> Result<bool> {
    let known = query_opt(
        tx,
        "SELECT 1 FROM threads WHERE key = $1::uuid AND expires_at > wakepost_now()",
        &[&key_uuid(key)],
    )
    .await?;
    Ok(known.is_some())
}

async fn remember(tx: &Transaction<'_>, tenant: TenantId, key: OrderKey) -> Result<()> {
    execute(
        tx,
        "INSERT INTO threads (key, tenant, expires_at)
         VALUES ($1::uuid, $2::int, wakepost_now() + $3::bigint)
         ON CONFLICT (key) DO UPDATE SET expires_at = excluded.expires_at",
        &[&key_uuid(key), &tenant.0, &millis(KNOWN_FOR)],
    )
    .await?;
    Ok(())
}

/// The last live item of a thread.
struct Found {
    last: Last,
    lane: LaneId,
    /// Its live lease, if it runs.
    ticket: Ticket,
    gathers_until: Option<Timestamp>,
}

/// Those behind the first stand in their order; the first is the last where none is behind it. Differs from
/// SQLite: a claim may take the item at the same time, and does not ask for the key's lock; so the item is locked.
async fn last(tx: &Transaction<'_>, key: OrderKey) -> Result<Option<Found>> {
    for which in ["behind ORDER BY place DESC, id DESC", "NOT behind"] {
        let sql = format!(
            "SELECT id, tenant, state, fence, scope <> id, cancel_at IS NOT NULL, lane, attempts,
                    max_attempts, coalesce(started_at, 0), gathers_until,
                    (SELECT coalesce(max(place), 0) FROM joined j WHERE j.work_id = w.id)
             FROM work w WHERE order_key = $1::uuid AND {which} LIMIT 1 FOR UPDATE OF w"
        );
        if let Some(row) = query_opt(tx, &sql, &[&key_uuid(key)]).await? {
            return found(&row).map(Some);
        }
    }
    Ok(None)
}

fn found(row: &Row) -> Result<Found> {
    let fence: i32 = get(row, 3)?;
    Ok(Found {
        last: Last {
            state: code(row, 2, State::from_code)?,
            was_claimed: fence > 0,
            is_replay: get(row, 4)?,
            is_stopping: get(row, 5)?,
            joined: get(row, 11)?,
        },
        lane: LaneId(get(row, 6)?),
        ticket: Ticket {
            work: WorkId(id(row, 0)?),
            tenant: TenantId(get(row, 1)?),
            fence,
            attempt: get(row, 7)?,
            max_attempts: get(row, 8)?,
            lease_s: 0,
            started_at: time(row, 9)?,
            ordered: true,
        },
        gathers_until: opt_time(row, 10)?,
    })
}

/// Ends the live run. Answers whether a bound on running items got a free place; none if the lease was no longer
/// live.
async fn interrupt(
    tx: &Transaction<'_>,
    found: &Found,
    thread: &NewThread,
) -> Result<Option<bool>> {
    let ticket = found.ticket;
    let ending = Ending::Interrupted { quiet: thread.quiet.for_ };
    let (attempt, most) = (ticket.attempt, ticket.max_attempts);
    let end = Settle {
        ticket,
        guard: Guard::Live,
        settlement: transition::settle(ending, attempt, most, &Backoff::default(), 0.0),
        error: None,
        evidence: Evidence::default(),
        follow_up: None,
        expanded: None,
    };
    let settled = settle(tx, &[&end]).await?.into_iter().next().flatten();
    Ok(settled.map(|settled| settled.freed_cap))
}

async fn join(
    tx: &Transaction<'_>,
    now: Timestamp,
    found: &Found,
    new: &NewEvent,
    thread: &NewThread,
) -> Result<()> {
    let until = found.gathers_until.unwrap_or(now.after(thread.quiet.cap));
    let run_at = thread.quiet.run_at(now, until);
    let state = if run_at > now { State::Scheduled } else { State::Pending };
    execute(
        tx,
        "WITH more AS (
           INSERT INTO joined (work_id, place, tenant, event_id)
           VALUES ($2::uuid, $3::int, $1::int, $4::uuid)
         )
         UPDATE work SET run_at = $5::bigint, state = $6::smallint, gathers_until = $7::bigint
         WHERE tenant = $1::int AND id = $2::uuid",
        &[
            &new.event.tenant.0,
            &uuid(found.ticket.work.0),
            &(found.last.joined + 1),
            &uuid(new.event.id.0),
            &run_at.as_millis(),
            &(state as i16),
            &until.as_millis(),
        ],
    )
    .await?;
    Ok(())
}
