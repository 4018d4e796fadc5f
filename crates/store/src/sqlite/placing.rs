//! A received event whose job has to do with others: it joins one, supersedes some, waits for one, or stands behind
//! them.

use rusqlite::{Connection, OptionalExtension};
use wakepost_domain::event::Route;
use wakepost_domain::{EventId, Timestamp, WorkId};

use super::coalescing::supersede;
use super::conversing::{self, Talk};
use super::rows::{Bits, known, unavailable};
use super::sequencing;
use super::work::{find, insert_at};
use crate::error::Result;
use crate::moves::{Accepted, NewEvent, NewJob, Spot};

/// Finds the event's place, and makes its job if it is to have one of its own.
pub fn place(tx: &Connection, now: Timestamp, new: &NewEvent, job: &NewJob) -> Result<Accepted> {
    let mut item = new.placed_work(job);
    let mut spot = Spot { coalesce: job.coalesce, ..Spot::USUAL };
    if let Some(thread) = &job.thread {
        match conversing::talk(tx, now, new, thread)? {
            Talk::Settled(accepted) => return Ok(accepted),
            Talk::Own => {}
        }
        if thread.policy.gathers() {
            let until = now.after(thread.quiet.cap);
            spot.gathers_until = Some(until);
            item.run_at = Some(thread.quiet.run_at(now, until));
        }
    }
    let next = supersede(tx, now, job.coalesce, &item)?;
    if let Some(order) = &job.order
        && let Some(sequence) = &order.sequence
    {
        sequencing::stand(tx, now, order.key, sequence, &mut item).map_err(unavailable)?;
        spot.number = sequence.number;
    }
    insert_at(tx, now, &item, spot)?;
    Ok(next.map_or(Accepted::New, Accepted::NewBefore))
}

/// What became of an event whose commit arrived although it was reported as failed.
pub fn placed_before(tx: &Connection, new: &NewEvent) -> Result<Accepted> {
    let key = (new.event.tenant.0, Bits(new.event.id.to_bytes()));
    let route: Option<i16> = tx
        .prepare_cached("SELECT route FROM events WHERE tenant = ?1 AND id = ?2")
        .and_then(|mut select| select.query_row(key, |row| row.get(0)).optional())
        .map_err(unavailable)?;
    match route.map(|code| known(code, Route::from_code)).transpose().map_err(unavailable)? {
        Some(Route::Ignored) if new.event.route == Route::Job => Ok(Accepted::Ignored),
        Some(Route::Joined) => {
            let work = joined_work(tx, new.event.id).map_err(unavailable)?;
            let row = work.map(|work| find(tx, new.event.tenant, work)).transpose()?.flatten();
            let joined = |row: crate::moves::WorkRow| Accepted::Joined {
                work: row.id,
                lane: row.lane,
                freed_cap: false,
            };
            Ok(row.map_or(Accepted::New, joined))
        }
        _ => Ok(Accepted::New),
    }
}

/// The item that an event joined first; later ones are replays of it.
pub fn joined_work(tx: &Connection, event: EventId) -> rusqlite::Result<Option<WorkId>> {
    tx.prepare_cached("SELECT work_id FROM joined WHERE event_id = ?1 ORDER BY work_id LIMIT 1")?
        .query_row([Bits(event.to_bytes())], |row| Ok(WorkId::from_bytes(row.get::<_, Bits>(0)?.0)))
        .optional()
}
