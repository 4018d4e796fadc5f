//! Upkeep: what keeps the queue moving and the ledger small.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension};
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::work::State;
use wakepost_domain::{TenantId, Timestamp, Ulid, WorkId};

use super::Sqlite;
use super::rows::{Bits, collect, known, time, unavailable};
use crate::error::Result;
use crate::failpoint;
use crate::moves::{DueLane, Expired, PruneBefore, Pruned, StatCount, Upkeep};

/// How many rows one step of retention looks at or removes, in each table.
const STEP: i64 = 500;

#[async_trait]
impl Upkeep for Sqlite {
    async fn ping(&self) -> Result<()> {
        self.write(0, |tx, _| {
            tx.query_row("SELECT 1 FROM tenants LIMIT 1", [], |_| Ok(()))
                .map_err(unavailable)
        })
        .await
    }

    async fn now(&self) -> Result<Timestamp> {
        self.readers.read(|_, now| Ok(now)).await
    }

    async fn waiting_lanes(&self) -> Result<Vec<DueLane>> {
        self.readers
            .read(|connection, _| {
                // One step of the index a lane, however many items wait in it.
                let mut select = connection
                    .prepare_cached(
                        "SELECT lane, run_at FROM work WHERE state <= 2 AND lane > ?1
                         ORDER BY lane, run_at, id LIMIT 1",
                    )
                    .map_err(unavailable)?;
                let mut lanes = Vec::new();
                let mut last = i64::MIN;
                while let Some((lane, run_at)) = select
                    .query_row([last], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()
                    .map_err(unavailable)?
                {
                    lanes.push(DueLane {
                        lane: LaneId(lane),
                        run_at: time(run_at),
                    });
                    last = lane;
                }
                Ok(lanes)
            })
            .await
    }

    async fn due_lanes(&self, within: Duration) -> Result<Vec<LaneId>> {
        self.readers
            .read(move |connection, now| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT DISTINCT lane FROM work
                         WHERE state IN (1, 2) AND run_at > ?1 AND run_at <= ?2",
                    )
                    .map_err(unavailable)?;
                let rows = select
                    .query_map((now.before(within).as_millis(), now.as_millis()), |row| {
                        Ok(LaneId(row.get(0)?))
                    })
                    .map_err(unavailable)?;
                collect(rows)
            })
            .await
    }

    async fn expired(&self, cancel_patience: Duration, limit: u32) -> Result<Vec<Expired>> {
        self.readers
            .read(move |connection, now| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT tenant, id, fence, attempts, max_attempts, started_at, lane,
                                lease_expires_at, cancel_at
                         FROM work
                         WHERE state = 5 AND (lease_expires_at <= ?1 OR cancel_at <= ?2)
                         ORDER BY lease_expires_at LIMIT ?3",
                    )
                    .map_err(unavailable)?;
                let asked_before = now.before(cancel_patience).as_millis();
                let rows = select
                    .query_map((now.as_millis(), asked_before, limit), |row| {
                        Ok(Expired {
                            ticket: Ticket {
                                tenant: TenantId(row.get(0)?),
                                work: WorkId::from_bytes(row.get::<_, Bits>(1)?.0),
                                fence: row.get(2)?,
                                attempt: row.get(3)?,
                                max_attempts: row.get(4)?,
                                lease_s: 0,
                                started_at: time(row.get(5)?),
                            },
                            lane: LaneId(row.get(6)?),
                            lease_expires_at: time(row.get(7)?),
                            cancel_requested: row.get::<_, Option<i64>>(8)?.is_some(),
                        })
                    })
                    .map_err(unavailable)?;
                let expired = collect(rows);
                failpoint::pass("rescue.after_select")?;
                expired
            })
            .await
    }

    async fn prune(&self, before: PruneBefore) -> Result<Pruned> {
        self.write_whole(0, move |tx, now| prune(tx, now, &before))
            .await
    }

    async fn live_counts(&self) -> Result<Vec<StatCount>> {
        self.readers
            .read(|connection, _| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT tenant, state, count(*) FROM work GROUP BY tenant, state",
                    )
                    .map_err(unavailable)?;
                let rows = select
                    .query_map([], |row| {
                        Ok(StatCount {
                            tenant: TenantId(row.get(0)?),
                            state: known(row.get(1)?, State::from_code)?,
                            count: row.get(2)?,
                        })
                    })
                    .map_err(unavailable)?;
                collect(rows)
            })
            .await
    }
}

fn floor(at: Timestamp) -> Bits {
    Bits(Ulid::floor(at).to_bytes())
}

/// What goes when it is older than a moment, slice by slice. `?1` is the first id to keep, `?2` the size
/// of a slice. Bodies of live work and of kept dead letters stay; effects stay as long as any item that
/// shares them, so that no replay can repeat one.
const SLICES: [(&str, fn(&PruneBefore) -> Timestamp); 7] = [
    (
        "DELETE FROM bodies WHERE id IN (
           SELECT b.id FROM bodies b WHERE b.id < ?1
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = b.tenant AND w.id = b.id)
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.event_id = b.id AND w.event_id <> w.id)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = b.tenant AND d.id = b.id
                             AND d.state = 8 AND d.replayed_as IS NULL)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.event_id = b.id AND d.event_id <> d.id
                             AND d.state = 8 AND d.replayed_as IS NULL)
           ORDER BY b.id LIMIT ?2)",
        |before| before.bodies,
    ),
    (
        "DELETE FROM events WHERE (tenant, id) IN (
           SELECT e.tenant, e.id FROM tenants t JOIN events e ON e.tenant = t.id AND e.id < ?1 LIMIT ?2)",
        |before| before.events,
    ),
    (
        "DELETE FROM work_done WHERE (tenant, id) IN (
           SELECT d.tenant, d.id FROM tenants t JOIN work_done d ON d.tenant = t.id AND d.id < ?1 LIMIT ?2)",
        |before| before.runs,
    ),
    (
        "DELETE FROM attempts WHERE (work_id, fence) IN (
           SELECT a.work_id, a.fence FROM attempts a WHERE a.work_id < ?1
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = a.tenant AND w.id = a.work_id) LIMIT ?2)",
        |before| before.runs,
    ),
    (
        "DELETE FROM job_state WHERE work_id IN (
           SELECT s.work_id FROM job_state s WHERE s.work_id < ?1
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = s.tenant AND w.id = s.work_id) LIMIT ?2)",
        |before| before.runs,
    ),
    (
        "DELETE FROM progress WHERE (work_id, seq) IN (
           SELECT p.work_id, p.seq FROM progress p WHERE p.work_id < ?1
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = p.tenant AND w.id = p.work_id) LIMIT ?2)",
        |before| before.runs,
    ),
    (
        "DELETE FROM effects WHERE (scope, key) IN (
           SELECT e.scope, e.key FROM effects e WHERE e.scope < ?1
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = e.tenant AND w.id = e.scope)
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.scope = e.scope AND w.scope <> w.id)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = e.tenant AND d.id = e.scope)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.scope = e.scope AND d.scope <> d.id)
           LIMIT ?2)",
        |before| before.runs,
    ),
];

fn prune(tx: &Connection, now: Timestamp, before: &PruneBefore) -> Result<Pruned> {
    let mut pruned = Pruned::default();
    let receipts = (
        "DELETE FROM receipts WHERE id IN (SELECT id FROM receipts WHERE id < ?1 ORDER BY id LIMIT ?2)",
        (|before: &PruneBefore| before.receipts) as fn(&PruneBefore) -> Timestamp,
    );
    for (sql, cut) in SLICES.into_iter().chain([receipts]) {
        let removed = tx
            .prepare_cached(sql)
            .and_then(|mut delete| delete.execute((floor(cut(before)), STEP)))
            .map_err(unavailable)?;
        pruned.rows += removed as u64;
        pruned.more |= removed as i64 >= STEP;
        failpoint::pass("retention.mid_batch")?;
    }
    prune_keys(tx, now, &mut pruned)?;
    Ok(pruned)
}

/// Removes expired keys: those of callers, and those of events whose body is gone. A key never ends before
/// the body it guards.
fn prune_keys(tx: &Connection, now: Timestamp, pruned: &mut Pruned) -> Result<()> {
    for sql in [
        "DELETE FROM idempotency WHERE key IN (SELECT key FROM idempotency WHERE expires_at <= ?1 LIMIT ?2)",
        "DELETE FROM dedup_keys WHERE key IN (
           SELECT k.key FROM dedup_keys k WHERE k.expires_at <= ?1
             AND NOT EXISTS (SELECT 1 FROM bodies b WHERE b.id = k.event_id) LIMIT ?2)",
    ] {
        let removed = tx
            .prepare_cached(sql)
            .and_then(|mut delete| delete.execute((now.as_millis(), STEP)))
            .map_err(unavailable)?;
        pruned.rows += removed as u64;
        pruned.more |= removed as i64 >= STEP;
    }
    Ok(())
}
