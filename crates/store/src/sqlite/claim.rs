//! Claiming: the oldest ready items of a lane, or one by its key.

use rusqlite::{Connection, OptionalExtension, Row};
use wakepost_domain::lease::Ticket;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, TenantId, Timestamp, Ulid, WorkId};

use super::caps;
use super::rows::{Bits, known, meta, time};
use super::shutting::is_shut;
use crate::moves::{ClaimLane, Claimed, Item, names};

/// Claims the oldest ready items of a lane. Joined, not `IN (…)`: with two columns SQLite would search by the
/// tenant alone, and so walk through all of its work.
const CLAIM: &str =
    "UPDATE work SET state = 5, attempts = attempts + 1, fence = fence + 1, worker = ?1,
            started_at = ?2, lease_expires_at = min(?3, ?4), run_deadline = ?4, caps = ?5,
            held_reason = NULL, cancel_at = NULL
     FROM (SELECT tenant AS of, id AS item FROM work
           WHERE lane = ?6 AND state <= 2 AND behind = 0 AND run_at <= ?2 ORDER BY run_at, id LIMIT ?7)
     WHERE tenant = of AND id = item
     RETURNING tenant, id, kind, fence, attempts, max_attempts, event_id, scope, lease_expires_at, run_at,
               order_key IS NOT NULL, meta";

/// Claims one item, if it is as ready as [`CLAIM`] wants it.
const CLAIM_ONE: &str =
    "UPDATE work SET state = 5, attempts = attempts + 1, fence = fence + 1, worker = ?1,
            started_at = ?2, lease_expires_at = min(?3, ?4), run_deadline = ?4, caps = ?5,
            held_reason = NULL, cancel_at = NULL
     WHERE tenant = ?8 AND id = ?9 AND lane = ?6 AND state <= 2 AND behind = 0 AND run_at <= ?2 AND ?7 > 0
     RETURNING tenant, id, kind, fence, attempts, max_attempts, event_id, scope, lease_expires_at, run_at,
               order_key IS NOT NULL, meta";

pub fn claim_one(
    tx: &Connection,
    now: Timestamp,
    worker: &str,
    item: Item,
    lane: &ClaimLane,
) -> rusqlite::Result<Option<Claimed>> {
    if is_shut(tx, now, lane.lane)? {
        return Ok(None);
    }
    let mut counts = caps::read(tx, now, &lane.caps)?;
    let claimed = tx
        .prepare_cached(CLAIM_ONE)?
        .query_row(
            (
                worker,
                now.as_millis(),
                now.after(lane.lease).as_millis(),
                now.after(lane.run_timeout).as_millis(),
                names(&lane.caps),
                lane.lane.0,
                counts.room(&lane.caps, lane.count),
                item.tenant.0,
                Bits(item.work.to_bytes()),
            ),
            |row| claimed_row(row, lane, now),
        )
        .optional()?;
    if claimed.is_some() {
        counts.start(&lane.caps, 1);
        caps::write(tx, &lane.caps, &counts)?;
    }
    Ok(claimed)
}

pub fn claim(
    tx: &Connection,
    now: Timestamp,
    worker: &str,
    lane: &ClaimLane,
    claimed: &mut Vec<Claimed>,
) -> rusqlite::Result<()> {
    if is_shut(tx, now, lane.lane)? {
        return Ok(());
    }
    let mut counts = caps::read(tx, now, &lane.caps)?;
    let room = counts.room(&lane.caps, lane.count);
    if room == 0 {
        return Ok(());
    }
    let mut update = tx.prepare_cached(CLAIM)?;
    let rows = update.query_map(
        (
            worker,
            now.as_millis(),
            now.after(lane.lease).as_millis(),
            now.after(lane.run_timeout).as_millis(),
            names(&lane.caps),
            lane.lane.0,
            room,
        ),
        |row| Ok((row.get::<_, i64>(9)?, claimed_row(row, lane, now)?)),
    )?;
    let mut found = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    // RETURNING promises no order; workers should see the oldest first.
    found.sort_by_key(|(run_at, item)| (*run_at, item.ticket.work));
    if !found.is_empty() && !lane.caps.is_empty() {
        counts.start(&lane.caps, found.len() as u32);
        caps::write(tx, &lane.caps, &counts)?;
    }
    claimed.extend(found.into_iter().map(|(_, item)| item));
    Ok(())
}

fn claimed_row(row: &Row<'_>, lane: &ClaimLane, now: Timestamp) -> rusqlite::Result<Claimed> {
    let ticket = Ticket {
        tenant: TenantId(row.get(0)?),
        work: WorkId::from_bytes(row.get::<_, Bits>(1)?.0),
        fence: row.get(3)?,
        attempt: row.get(4)?,
        max_attempts: row.get(5)?,
        lease_s: lane.lease.as_secs().try_into().unwrap_or(i32::MAX),
        started_at: now,
        ordered: row.get(10)?,
    };
    Ok(Claimed {
        ticket,
        kind: known(row.get(2)?, WorkKind::from_code)?,
        lane: lane.lane,
        event: row.get::<_, Option<Bits>>(6)?.map(|bits| EventId::from_bytes(bits.0)),
        scope: Ulid::from_bytes(row.get::<_, Bits>(7)?.0),
        lease_expires_at: time(row.get(8)?),
        meta: meta(row.get(11)?),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use rusqlite::StatementStatus;

    use super::super::{Durability, migrate, writer};
    use super::*;

    /// As the writer has it.
    fn database() -> Connection {
        let memory = Path::new(":memory:");
        let mut connection = writer::connect(memory, Durability::Full, &Arc::default()).unwrap();
        migrate::migrate(&mut connection).unwrap();
        connection
    }

    #[test]
    fn a_claim_reads_the_ready_index_and_then_rows_by_their_whole_key() {
        let connection = database();
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {CLAIM}")).unwrap();
        let steps: Vec<String> = explain
            .query_map((1, 2, 3, 4, "", 6, 7), |row| row.get(3))
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        let plan = steps.join("\n");
        assert!(plan.contains("INDEX work_ready (lane=? AND run_at<?)"), "{plan}");
        assert!(plan.contains("PRIMARY KEY (tenant=? AND id=?)"), "{plan}");
        assert!(!plan.contains("SCAN work"), "{plan}");
    }

    #[test]
    fn a_claim_is_planned_once_however_many_items_it_asks_for() {
        let connection = database();
        let mut claim = connection.prepare(CLAIM).unwrap();
        for count in 1..=3 {
            let rows = claim.query_map(("ada", 1, 2, 3, None::<String>, 1, count), |_| Ok(()));
            assert_eq!(rows.unwrap().count(), 0);
        }
        assert_eq!(claim.get_status(StatementStatus::RePrepare), 0);
    }
}
