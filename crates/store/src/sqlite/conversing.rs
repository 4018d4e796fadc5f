//! Conversations: a message joins its thread's job, interrupts it, or makes the next.

use rusqlite::{Connection, OptionalExtension};
use wakepost_domain::backoff::Backoff;
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::thread::{KNOWN_FOR, Last, Way};
use wakepost_domain::transition::{self, Ending};
use wakepost_domain::work::State;
use wakepost_domain::{TenantId, Timestamp, WorkId};

use super::rows::{Bits, known, time, unavailable};
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
pub fn talk(tx: &Connection, now: Timestamp, new: &NewEvent, thread: &NewThread) -> Result<Talk> {
    if thread.only_if_known && !is_known(tx, now, thread.key).map_err(unavailable)? {
        return Ok(Talk::Settled(Accepted::Ignored));
    }
    remember(tx, now, new.event.tenant, thread.key).map_err(unavailable)?;
    let last = match thread.policy.gathers() {
        true => last(tx, thread.key).map_err(unavailable)?,
        false => None,
    };
    let way = thread.policy.way(last.as_ref().map(|found| found.last));
    let joined = match (way, last) {
        (Way::Join, Some(found)) => Some((found, false)),
        (Way::Interrupt, Some(found)) => {
            // The lease may have ended a moment ago: then the rescuer ends the run, and the message waits.
            let settled = interrupt(tx, now, &found, thread)?;
            settled.map(|freed_cap| (Found { gathers_until: None, ..found }, freed_cap))
        }
        _ => None,
    };
    let Some((found, freed_cap)) = joined else {
        return Ok(Talk::Own);
    };
    join(tx, now, &found, new, thread).map_err(unavailable)?;
    let Found { ticket, lane, .. } = found;
    Ok(Talk::Settled(Accepted::Joined { work: ticket.work, lane, freed_cap }))
}

fn is_known(tx: &Connection, now: Timestamp, key: OrderKey) -> rusqlite::Result<bool> {
    tx.prepare_cached("SELECT 1 FROM threads WHERE key = ?1 AND expires_at > ?2")?
        .exists((Bits(key.0), now.as_millis()))
}

fn remember(
    tx: &Connection,
    now: Timestamp,
    tenant: TenantId,
    key: OrderKey,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO threads (key, tenant, expires_at) VALUES (?1, ?2, ?3)
         ON CONFLICT (key) DO UPDATE SET expires_at = excluded.expires_at",
    )?
    .execute((Bits(key.0), tenant.0, now.after(KNOWN_FOR).as_millis()))?;
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

/// Those behind the first stand in their order; the first is the last where none is behind it.
fn last(tx: &Connection, key: OrderKey) -> rusqlite::Result<Option<Found>> {
    let find = |which: &str| {
        tx.prepare_cached(&format!(
            "SELECT id, tenant, state, fence, scope <> id, cancel_at IS NOT NULL, lane, attempts,
                    max_attempts, coalesce(started_at, 0), gathers_until,
                    (SELECT coalesce(max(place), 0) FROM joined j WHERE j.work_id = w.id)
             FROM work w WHERE order_key = ?1 AND {which} LIMIT 1"
        ))?
        .query_row([Bits(key.0)], found)
        .optional()
    };
    match find("behind = 1 ORDER BY place DESC, id DESC")? {
        Some(last) => Ok(Some(last)),
        None => find("behind = 0"),
    }
}

fn found(row: &rusqlite::Row<'_>) -> rusqlite::Result<Found> {
    let fence: i32 = row.get(3)?;
    Ok(Found {
        last: Last {
            state: known(row.get(2)?, State::from_code)?,
            was_claimed: fence > 0,
            is_replay: row.get(4)?,
            is_stopping: row.get(5)?,
            joined: row.get(11)?,
        },
        lane: LaneId(row.get(6)?),
        ticket: Ticket {
            work: WorkId::from_bytes(row.get::<_, Bits>(0)?.0),
            tenant: TenantId(row.get(1)?),
            fence,
            attempt: row.get(7)?,
            max_attempts: row.get(8)?,
            lease_s: 0,
            started_at: time(row.get(9)?),
            ordered: true,
        },
        gathers_until: row.get::<_, Option<i64>>(10)?.map(time),
    })
}

/// Ends the live run. Answers whether a bound on running items got a free place; none if the lease was no longer
/// live.
fn interrupt(
    tx: &Connection,
    now: Timestamp,
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
    Ok(settle(tx, now, &end)?.map(|settled| settled.freed_cap))
}

fn join(
    tx: &Connection,
    now: Timestamp,
    found: &Found,
    new: &NewEvent,
    thread: &NewThread,
) -> rusqlite::Result<()> {
    let work = Bits(found.ticket.work.to_bytes());
    tx.prepare_cached(
        "INSERT INTO joined (work_id, place, tenant, event_id) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute((
        work,
        found.last.joined + 1,
        new.event.tenant.0,
        Bits(new.event.id.to_bytes()),
    ))?;
    let until = found.gathers_until.unwrap_or(now.after(thread.quiet.cap));
    let run_at = thread.quiet.run_at(now, until);
    let state = if run_at > now { State::Scheduled } else { State::Pending };
    tx.prepare_cached(
        "UPDATE work SET run_at = ?3, state = ?4, gathers_until = ?5 WHERE tenant = ?1 AND id = ?2",
    )?
    .execute((
        new.event.tenant.0,
        work,
        run_at.as_millis(),
        state as i16,
        until.as_millis(),
    ))?;
    Ok(())
}
