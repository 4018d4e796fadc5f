//! Upkeep: what keeps the queue moving and the ledger small.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::OptionalExtension;
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::work::{HeldReason, State, WorkKind};
use wakepost_domain::{TenantId, Timestamp, Ulid, WorkId};

use super::Sqlite;
use super::prune::prune;
use super::rows::{Bits, collect, known, time, unavailable};
use super::shutting::is_shut;
use crate::error::Result;
use crate::failpoint;
use crate::moves::{
    DueLane, Expired, Item, OwnWalk, PruneBefore, Pruned, StatCount, Upkeep, Walked,
};

#[async_trait]
impl Upkeep for Sqlite {
    async fn ping(&self) -> Result<()> {
        self.write(0, |tx, _| {
            tx.query_row("SELECT 1 FROM tenants LIMIT 1", [], |_| Ok(())).map_err(unavailable)
        })
        .await
    }

    fn waiting(&self) -> usize {
        self.admission.inside()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.readers.read(|_, now| Ok(now)).await
    }

    async fn newest_id(&self, below: Ulid) -> Result<Option<Ulid>> {
        self.readers
            .read(move |connection, _| {
                // Each the end of an index.
                let newest: Option<Bits> = connection
                    .query_row(
                        "SELECT max(id) FROM (
                           SELECT max(id) AS id FROM bodies WHERE id < ?1
                           UNION ALL SELECT max(work_id) FROM job_state WHERE work_id < ?1)",
                        [Bits(below.to_bytes())],
                        |row| row.get(0),
                    )
                    .map_err(unavailable)?;
                Ok(newest.map(|bits| Ulid::from_bytes(bits.0)))
            })
            .await
    }

    async fn waiting_lanes(&self) -> Result<Vec<DueLane>> {
        self.readers
            .read(|connection, now| {
                // One step of the index a lane, however many items wait in it.
                let mut select = connection
                    .prepare_cached(
                        "SELECT lane, run_at FROM work WHERE state <= 2 AND behind = 0 AND lane > ?1
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
                    last = lane;
                    let lane = LaneId(lane);
                    if !is_shut(connection, now, lane).map_err(unavailable)? {
                        lanes.push(DueLane { lane, run_at: time(run_at) });
                    }
                }
                Ok(lanes)
            })
            .await
    }

    async fn hold_unknown(&self, lanes: Vec<LaneId>, limit: u32) -> Result<u64> {
        self.write(0, move |tx, _| {
            let mut held = 0;
            for lane in &lanes {
                let rest = limit.saturating_sub(held as u32);
                held += tx
                    .prepare_cached(
                        "UPDATE work SET state = 4, held_reason = ?2 WHERE (tenant, id) IN (
                           SELECT tenant, id FROM work WHERE lane = ?1 AND state <= 2 AND behind = 0
                             AND kind NOT BETWEEN ?3 AND ?4 LIMIT ?5)",
                    )
                    .and_then(|mut hold| {
                        let (first, last) =
                            (WorkKind::ALL[0], WorkKind::ALL[WorkKind::ALL.len() - 1]);
                        let why = HeldReason::UnknownKind as i16;
                        hold.execute((lane.0, why, first as i16, last as i16, rest))
                    })
                    .map_err(unavailable)?;
            }
            Ok(held as u64)
        })
        .await
    }

    async fn due_lanes(&self, within: Duration) -> Result<(Timestamp, Vec<LaneId>)> {
        self.readers
            .read(move |connection, now| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT DISTINCT lane FROM work
                         WHERE state IN (1, 2) AND behind = 0 AND run_at > ?1 AND run_at <= ?2",
                    )
                    .map_err(unavailable)?;
                let rows = select
                    .query_map((now.before(within).as_millis(), now.as_millis()), |row| {
                        Ok(LaneId(row.get(0)?))
                    })
                    .map_err(unavailable)?;
                let mut lanes = Vec::new();
                for lane in collect(rows)? {
                    if !is_shut(connection, now, lane).map_err(unavailable)? {
                        lanes.push(lane);
                    }
                }
                Ok((now, lanes))
            })
            .await
    }

    async fn ready(&self, lane: LaneId, limit: u32) -> Result<Vec<Item>> {
        self.readers
            .read(move |connection, now| {
                if is_shut(connection, now, lane).map_err(unavailable)? {
                    return Ok(Vec::new());
                }
                let mut select = connection
                    .prepare_cached(
                        "SELECT tenant, id FROM work
                         WHERE lane = ?1 AND state <= 2 AND behind = 0 AND run_at <= ?2
                         ORDER BY run_at, id LIMIT ?3",
                    )
                    .map_err(unavailable)?;
                let rows = select.query_map((lane.0, now.as_millis(), limit), |row| {
                    Ok(Item {
                        tenant: TenantId(row.get(0)?),
                        work: WorkId::from_bytes(row.get::<_, Bits>(1)?.0),
                    })
                });
                collect(rows.map_err(unavailable)?)
            })
            .await
    }

    async fn expired(&self, cancel_patience: Duration, limit: u32) -> Result<Vec<Expired>> {
        self.readers
            .read(move |connection, now| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT tenant, id, fence, attempts, max_attempts, started_at, lane,
                                lease_expires_at, cancel_at, order_key IS NOT NULL
                         FROM work WHERE state = 5 AND lease_expires_at <= ?1
                         UNION
                         SELECT tenant, id, fence, attempts, max_attempts, started_at, lane,
                                lease_expires_at, cancel_at, order_key IS NOT NULL
                         FROM work WHERE cancel_at <= ?2 AND state = 5
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
                                ordered: row.get(9)?,
                            },
                            lane: LaneId(row.get(6)?),
                            lease_expires_at: time(row.get(7)?),
                            cancel_requested: row.get::<_, Option<i64>>(8)?.is_some(),
                        })
                    })
                    .map_err(unavailable)?;
                let expired = collect(rows)?;
                if !expired.is_empty() {
                    failpoint::pass("rescue.after_select")?;
                }
                Ok(expired)
            })
            .await
    }

    async fn prune(&self, before: PruneBefore) -> Result<Pruned> {
        let walk = self.walk.clone();
        self.write_whole(0, move |tx, now| prune(tx, now, &before, &mut walk.lock())).await
    }

    async fn prune_own(&self, walk: OwnWalk, after: Ulid) -> Result<Walked> {
        self.prune_own_step(walk, after).await
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
