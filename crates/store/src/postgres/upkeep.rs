//! Upkeep: what keeps the queue moving and the ledger small.

use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Row;
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::work::{HeldReason, State, WorkKind};
use wakepost_domain::{TenantId, Timestamp, Ulid, WorkId};

use super::Postgres;
use super::claim::millis;
use super::rows::{Params, code, execute, get, id, opt_id, opt_time, query, time, uuid};
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{
    DueLane, Expired, Item, OwnWalk, PruneBefore, Pruned, StatCount, Upkeep, Walked,
};

#[async_trait]
impl Upkeep for Postgres {
    async fn ping(&self) -> Result<()> {
        let client = self.cool().await?;
        let sql = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean";
        let read_only = get(&client.query_one(sql, &[]).await?, 0)?;
        self.inner.fresh.found(read_only);
        match read_only {
            true => Err(StoreError::Unavailable("PostgreSQL is read-only".to_owned())),
            false => Ok(()),
        }
    }

    fn waiting(&self) -> usize {
        self.inner.admission.inside()
    }

    async fn now(&self) -> Result<Timestamp> {
        time(&self.cool().await?.query_one("SELECT wakepost_now()", &[]).await?, 0)
    }

    async fn newest_id(&self, below: Ulid) -> Result<Option<Ulid>> {
        // Each the end of an index.
        let client = self.cool().await?;
        let rows = query(
            &client,
            "SELECT greatest((SELECT id FROM bodies WHERE id < $1::uuid ORDER BY id DESC LIMIT 1),
                             (SELECT work_id FROM job_state WHERE work_id < $1::uuid
                              ORDER BY work_id DESC LIMIT 1))",
            &[&uuid(below)],
        )
        .await?;
        rows.first().map_or(Ok(None), |row| opt_id(row, 0))
    }

    async fn waiting_lanes(&self) -> Result<Vec<DueLane>> {
        // One step of the index a lane, however many items wait in it.
        let client = self.hot().await?;
        let rows = query(
            &client,
            "WITH RECURSIVE waiting AS (
               (SELECT lane, run_at FROM work WHERE state <= 2 AND NOT behind ORDER BY lane, run_at, id LIMIT 1)
               UNION ALL
               SELECT next.lane, next.run_at FROM waiting w CROSS JOIN LATERAL (
                 SELECT lane, run_at FROM work WHERE state <= 2 AND NOT behind AND lane > w.lane
                 ORDER BY lane, run_at, id LIMIT 1) next
             )
             SELECT lane, run_at FROM waiting w
             WHERE (SELECT shut_until FROM lanes WHERE id = w.lane) > wakepost_now() IS NOT TRUE",
            &[],
        )
        .await?;
        rows.iter()
            .map(|row| Ok(DueLane { lane: LaneId(get(row, 0)?), run_at: time(row, 1)? }))
            .collect()
    }

    async fn hold_unknown(&self, lanes: Vec<LaneId>, limit: u32) -> Result<u64> {
        let client = self.cool().await?;
        let lanes: Vec<i64> = lanes.into_iter().map(|lane| lane.0).collect();
        let known: Vec<i16> = WorkKind::ALL.into_iter().map(|kind| kind as i16).collect();
        let held = execute(
            &client,
            "UPDATE work SET state = 4, held_reason = $3::smallint WHERE ctid = ANY (ARRAY(
               SELECT ctid FROM work WHERE lane = ANY ($1::bigint[]) AND state <= 2 AND NOT behind
                 AND kind <> ALL ($2::smallint[])
               LIMIT $4::bigint FOR UPDATE SKIP LOCKED))",
            &[&lanes, &known, &(HeldReason::UnknownKind as i16), &i64::from(limit)],
        )
        .await?;
        Ok(held)
    }

    async fn due_lanes(&self, within: Duration) -> Result<(Timestamp, Vec<LaneId>)> {
        let client = self.hot().await?;
        // The order asks for the index of timers. Without it a plan made while the table was empty walks
        // along all that is ready.
        let rows = query(
            &client,
            "SELECT lane, 0::bigint FROM (
               SELECT DISTINCT lane FROM (
                 SELECT lane FROM work
                 WHERE state IN (1, 2) AND NOT behind AND run_at > wakepost_now() - $1::bigint
                   AND run_at <= wakepost_now()
                 ORDER BY run_at OFFSET 0) due OFFSET 0) due
             WHERE (SELECT shut_until FROM lanes WHERE id = due.lane) > wakepost_now() IS NOT TRUE
             UNION ALL SELECT NULL, wakepost_now()",
            &[&millis(within)],
        )
        .await?;
        let (mut now, mut lanes) = (Timestamp::default(), Vec::new());
        for row in &rows {
            match get::<Option<i64>>(row, 0)? {
                Some(lane) => lanes.push(LaneId(lane)),
                None => now = time(row, 1)?,
            }
        }
        Ok((now, lanes))
    }

    async fn ready(&self, lane: LaneId, limit: u32) -> Result<Vec<Item>> {
        let client = self.hot().await?;
        let rows = query(
            &client,
            "SELECT tenant, id FROM work
             WHERE lane = $1::bigint AND state <= 2 AND NOT behind AND run_at <= wakepost_now()
               AND (SELECT shut_until FROM lanes WHERE id = $1::bigint) > wakepost_now() IS NOT TRUE
             ORDER BY run_at, id LIMIT $2::bigint",
            &[&lane.0, &i64::from(limit)],
        )
        .await?;
        let item =
            |row: &Row| Ok(Item { tenant: TenantId(get(row, 0)?), work: WorkId(id(row, 1)?) });
        rows.iter().map(item).collect()
    }

    async fn expired(&self, cancel_patience: Duration, limit: u32) -> Result<Vec<Expired>> {
        let client = self.hot().await?;
        let low = self.inner.rescue_mark.low();
        let params: Params<'_> = &[&low, &millis(cancel_patience), &i64::from(limit)];
        let rows = query(&client, EXPIRED, params).await?;
        let ended: Vec<&Row> = rows
            .iter()
            .filter(|row| get::<Option<i32>>(row, 1).is_ok_and(|id| id.is_some()))
            .collect();
        if let Some(row) = rows.first()
            && ended.len() < limit as usize
        {
            self.inner.rescue_mark.learn(low, get(row, 0)?);
        }
        let mut expired = ended.into_iter().map(expired_row).collect::<Result<Vec<_>>>()?;
        expired.sort_by_key(|run| run.lease_expires_at);
        expired.truncate(limit as usize);
        if !expired.is_empty() {
            failpoint::pass_async("rescue.after_select").await?;
        }
        Ok(expired)
    }

    async fn prune(&self, before: PruneBefore) -> Result<Pruned> {
        self.prune_step(&before).await
    }

    async fn prune_own(&self, walk: OwnWalk, after: Ulid) -> Result<Walked> {
        self.prune_own_step(walk, after).await
    }

    async fn live_counts(&self) -> Result<Vec<StatCount>> {
        let client = self.cool().await?;
        let sql = "SELECT tenant, state, count(*) FROM work GROUP BY tenant, state ORDER BY 1, 2";
        let rows = query(&client, sql, &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(StatCount {
                    tenant: TenantId(get(row, 0)?),
                    state: code(row, 1, State::from_code)?,
                    count: get(row, 2)?,
                })
            })
            .collect()
    }
}

/// The time, with each run whose lease has ended and each that was asked to stop and did not: two short
/// walks along an index each. `low` keeps the first from entries of runs that are long gone.
const EXPIRED: &str = "
SELECT n.now, e.*
FROM (SELECT wakepost_now() AS now) n LEFT JOIN LATERAL (
  (SELECT tenant, id, fence, attempts, max_attempts, started_at, lane, lease_expires_at, cancel_at,
          order_key IS NOT NULL
   FROM work WHERE state = 5 AND lease_expires_at <= n.now AND lease_expires_at >= $1::bigint
   ORDER BY lease_expires_at LIMIT $3::bigint)
  UNION ALL
  (SELECT tenant, id, fence, attempts, max_attempts, started_at, lane, lease_expires_at, cancel_at,
          order_key IS NOT NULL
   FROM work WHERE cancel_at <= n.now - $2::bigint AND state = 5 AND lease_expires_at > n.now
   ORDER BY cancel_at LIMIT $3::bigint)
) e ON true";

fn expired_row(row: &Row) -> Result<Expired> {
    Ok(Expired {
        ticket: Ticket {
            tenant: TenantId(get(row, 1)?),
            work: WorkId(id(row, 2)?),
            fence: get(row, 3)?,
            attempt: get(row, 4)?,
            max_attempts: get(row, 5)?,
            lease_s: 0,
            started_at: time(row, 6)?,
            ordered: get(row, 10)?,
        },
        lane: LaneId(get(row, 7)?),
        lease_expires_at: time(row, 8)?,
        cancel_requested: opt_time(row, 9)?.is_some(),
    })
}
