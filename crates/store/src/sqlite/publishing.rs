//! Publishing: an event, its dedup keys and its deliveries, in one transaction.

use rusqlite::{Connection, OptionalExtension};
use wakepost_domain::event::Route;
use wakepost_domain::{EventId, Timestamp};

use super::accept::{Keys, insert_event, take_keys};
use super::rows::{Bits, audit, unavailable};
use super::work;
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{Accepted, AuditEntry, HandedDown, NewEvent};

/// Stores publications. After a failure the caller rolls back what the ones before it left.
pub fn publish(
    tx: &Connection,
    now: Timestamp,
    events: &[NewEvent],
    entry: Option<&AuditEntry>,
) -> Result<Vec<Accepted>> {
    let mut answers = Vec::with_capacity(events.len());
    let mut any_stored = false;
    for (index, new) in events.iter().enumerate() {
        answers.push(match take_keys(tx, now, new)? {
            Keys::Own if !is_stored(tx, new).map_err(unavailable)? => {
                any_stored = true;
                store(tx, now, new)?
            }
            Keys::Own | Keys::Before => Accepted::New,
            Keys::Of(first) if repeats(tx, first, new).map_err(unavailable)? => {
                Accepted::Duplicate { of: first, job: None }
            }
            Keys::Of(_) => return Err(StoreError::Mismatch(index)),
        });
    }
    // What an earlier try stored has its entry.
    if let Some(entry) = entry.filter(|_| any_stored) {
        audit(tx, entry)?;
    }
    Ok(answers)
}

/// Whether an earlier try arrived although it was reported as failed. One without keys, or whose keys have expired, is
/// known by its id alone.
fn is_stored(tx: &Connection, new: &NewEvent) -> rusqlite::Result<bool> {
    tx.prepare_cached("SELECT 1 FROM events WHERE tenant = ?1 AND id = ?2")?
        .exists((new.event.tenant.0, Bits(new.event.id.to_bytes())))
}

fn store(tx: &Connection, now: Timestamp, new: &NewEvent) -> Result<Accepted> {
    let event = &new.event;
    insert_event(tx, new, Route::Published).map_err(unavailable)?;
    for (made, delivery) in new.deliveries.iter().enumerate() {
        if made > 0 {
            failpoint::pass("publish.mid_fan_out")?;
        }
        work::insert(tx, now, &delivery.work(event.tenant, event.id, HandedDown::by(event)))?;
    }
    Ok(Accepted::New)
}

/// Counts a repeat of the first; whether it says the same. What the first said is not known once it is gone.
fn repeats(tx: &Connection, first: EventId, new: &NewEvent) -> rusqlite::Result<bool> {
    let said: Option<[u8; 32]> = tx
        .prepare_cached(
            "UPDATE events SET duplicates = duplicates + 1 WHERE tenant = ?1 AND id = ?2
             RETURNING payload_hash",
        )?
        .query_row((new.event.tenant.0, Bits(first.to_bytes())), |row| row.get(0))
        .optional()?;
    Ok(said.is_none_or(|said| said == new.event.payload_hash))
}
