//! Claiming: one statement for all lanes, hard caps, and a lower bound that keeps it cheap.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use deadpool_postgres::{Client, GenericClient, Transaction};
use tokio_postgres::Row;
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, TenantId, WorkId};

use super::marks::{LOW_LAG, LowMarks};
use super::rows::{code, execute, get, id, opt_id, query, text, time};
use super::{Postgres, after_commit, before_commit, commit};
use crate::error::Result;
use crate::failpoint;
use crate::moves::{ClaimLane, ClaimRequest, Claimed};

impl Postgres {
    /// Claims from capped lanes first, in a transaction that holds their counters, then from all others
    /// without touching any counter.
    pub(super) async fn claim_lanes(&self, request: &ClaimRequest) -> Result<Vec<Claimed>> {
        let (capped, free): (Vec<&ClaimLane>, Vec<&ClaimLane>) = request
            .lanes
            .iter()
            .filter(|lane| lane.count > 0)
            .partition(|lane| !lane.caps.is_empty());
        let mut claimed = match capped.is_empty() {
            true => Vec::new(),
            false => self.claim_capped(&request.worker, &capped).await?,
        };
        if !free.is_empty() {
            match self.claim_free(&request.worker, &free).await {
                Ok(rows) => claimed.extend(rows),
                Err(error) if claimed.is_empty() => return Err(error),
                // What the first half got is committed: it must reach its worker.
                Err(error) => tracing::warn!(%error, "half of a claim failed"),
            }
        }
        failpoint::pass_async("claim.after_commit").await?;
        Ok(claimed)
    }

    async fn claim_free(&self, worker: &str, lanes: &[&ClaimLane]) -> Result<Vec<Claimed>> {
        let client = self.hot().await?;
        let takes: Vec<Take<'_>> =
            lanes.iter().map(|lane| Take { lane, count: lane.count, caps: None }).collect();
        failpoint::pass_async("claim.before_commit").await?;
        before_commit().await?;
        let (claimed, _) = claim(&client, &self.inner.low_marks, worker, &takes).await?;
        after_commit().await?;
        Ok(claimed)
    }

    async fn claim_capped(&self, worker: &str, lanes: &[&ClaimLane]) -> Result<Vec<Claimed>> {
        let mut client = self.hot().await?;
        let mut names: Vec<String> =
            lanes.iter().flat_map(|lane| &lane.caps).map(|cap| cap.scope.text()).collect();
        names.sort_unstable();
        names.dedup();
        loop {
            let tx = client.transaction().await?;
            if let Some(counters) = lock_counters(&tx, &names).await? {
                return self.claim_within(tx, counters, worker, lanes).await;
            }
            // Made apart, with no lock held: a transaction that holds some counters while it makes others
            // takes them out of their order.
            tx.rollback().await?;
            make_counters(&client, &names).await?;
        }
    }

    /// The counters are locked from the look to the commit: no other claim can fill the same room, and
    /// every committed state is within its caps.
    async fn claim_within(
        &self,
        tx: Transaction<'_>,
        mut counters: BTreeMap<String, i64>,
        worker: &str,
        lanes: &[&ClaimLane],
    ) -> Result<Vec<Claimed>> {
        let takes: Vec<Take<'_>> =
            lanes.iter().filter_map(|lane| Take::within(lane, &mut counters)).collect();
        if takes.is_empty() {
            return Ok(Vec::new());
        }
        let (claimed, counts) = claim(&tx, &self.inner.low_marks, worker, &takes).await?;
        count_running(&tx, &takes, &counts).await?;
        failpoint::pass_async("claim.before_commit").await?;
        commit(tx).await?;
        Ok(claimed)
    }
}

/// What to take from one lane.
struct Take<'a> {
    lane: &'a ClaimLane,
    count: u32,
    /// The counters that each item will hold, separated by spaces.
    caps: Option<String>,
}

impl Take<'_> {
    /// As much as the caps leave room for; that room is then taken, for lanes may share a cap.
    fn within<'a>(lane: &'a ClaimLane, counters: &mut BTreeMap<String, i64>) -> Option<Take<'a>> {
        let names: Vec<String> = lane.caps.iter().map(|cap| cap.scope.text()).collect();
        let running = |name: &String| counters.get(name).copied().unwrap_or(0);
        let room = lane
            .caps
            .iter()
            .zip(&names)
            .map(|(cap, name)| i64::from(cap.limit) - running(name))
            .fold(i64::from(lane.count), i64::min);
        let count = u32::try_from(room).ok().filter(|count| *count > 0)?;
        for name in &names {
            *counters.entry(name.clone()).or_default() += i64::from(count);
        }
        Some(Take { lane, count, caps: Some(names.join(" ")) })
    }
}

/// What the counters say, locked in their order until the transaction ends; none if one is not there yet.
async fn lock_counters(
    tx: &Transaction<'_>,
    names: &[String],
) -> Result<Option<BTreeMap<String, i64>>> {
    let rows = query(
        tx,
        "SELECT scope, running FROM lane_caps WHERE scope = ANY($1::text[]) ORDER BY scope FOR UPDATE",
        &[&names],
    )
    .await?;
    if rows.len() < names.len() {
        return Ok(None);
    }
    rows.iter().map(|row| Ok(Some((get(row, 0)?, i64::from(get::<i32>(row, 1)?))))).collect()
}

async fn make_counters(client: &Client, names: &[String]) -> Result<()> {
    execute(
        client,
        "INSERT INTO lane_caps (scope, running)
         SELECT scope, 0 FROM unnest($1::text[]) AS s (scope) ORDER BY scope
         ON CONFLICT (scope) DO NOTHING",
        &[&names],
    )
    .await?;
    Ok(())
}

async fn count_running(tx: &Transaction<'_>, takes: &[Take<'_>], counts: &[usize]) -> Result<()> {
    let mut got: BTreeMap<&str, i32> = BTreeMap::new();
    for (take, count) in takes.iter().zip(counts).filter(|(_, count)| **count > 0) {
        for name in take.caps.as_deref().unwrap_or_default().split(' ') {
            *got.entry(name).or_default() += *count as i32;
        }
    }
    if got.is_empty() {
        return Ok(());
    }
    let (names, counts): (Vec<&str>, Vec<i32>) = got.into_iter().unzip();
    execute(
        tx,
        "UPDATE lane_caps c SET running = c.running + g.got
         FROM unnest($1::text[], $2::int[]) AS g (scope, got) WHERE c.scope = g.scope",
        &[&names, &counts],
    )
    .await?;
    Ok(())
}

/// Each lane is one short walk along its index, past what others are claiming just now. `low` keeps the
/// walk from dead entries that vacuum could not remove yet; it never hides what was made in the last
/// [`LOW_LAG`].
const CLAIM: &str = "
WITH taken AS MATERIALIZED (
  SELECT w.tenant, w.id, t.lease_ms, t.run_ms, t.caps
  FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])
    AS t (lane, take, lease_ms, run_ms, caps, low)
  CROSS JOIN LATERAL (
    SELECT tenant, id FROM work
    WHERE lane = t.lane AND state <= 2 AND NOT behind AND run_at <= wakepost_now()
      AND run_at >= least(t.low, wakepost_now() - $7::bigint)
    ORDER BY run_at, id LIMIT t.take FOR UPDATE SKIP LOCKED) w
)
UPDATE work w
SET state = 5, attempts = w.attempts + 1, fence = w.fence + 1, worker = $8::text,
    started_at = wakepost_now(),
    lease_expires_at = wakepost_now() + least(t.lease_ms, t.run_ms),
    run_deadline = wakepost_now() + t.run_ms,
    caps = t.caps, held_reason = NULL, cancel_at = NULL
FROM taken t WHERE w.tenant = t.tenant AND w.id = t.id
RETURNING w.tenant, w.id, w.kind, w.lane, w.fence, w.attempts, w.max_attempts, w.event_id, w.scope,
          w.started_at, w.lease_expires_at, w.run_at, w.order_key IS NOT NULL";

/// What was claimed, oldest first in each lane, and how many rows that is by lane.
async fn claim(
    client: &impl GenericClient,
    low_marks: &LowMarks,
    worker: &str,
    takes: &[Take<'_>],
) -> Result<(Vec<Claimed>, Vec<usize>)> {
    macro_rules! column {
        ($take:ident => $of:expr) => {
            takes.iter().map(|$take| $of).collect::<Vec<_>>()
        };
    }
    let lows = column!(take => low_marks.low(take.lane.lane));
    let rows = query(
        client,
        CLAIM,
        &[
            &column!(take => take.lane.lane.0),
            &column!(take => i32::try_from(take.count).unwrap_or(i32::MAX)),
            &column!(take => millis(take.lane.lease)),
            &column!(take => millis(take.lane.run_timeout)),
            &column!(take => take.caps.as_deref()),
            &lows,
            &millis(LOW_LAG),
            &text(worker),
        ],
    )
    .await?;
    let mut by_lane: HashMap<LaneId, Vec<&Row>> = HashMap::new();
    for row in &rows {
        by_lane.entry(LaneId(get(row, 3)?)).or_default().push(row);
    }
    let mut claimed = Vec::with_capacity(rows.len());
    let mut counts = Vec::with_capacity(takes.len());
    for (take, low) in takes.iter().zip(&lows) {
        let rows = by_lane.remove(&take.lane.lane).unwrap_or_default();
        counts.push(rows.len());
        // RETURNING promises no order; workers should see the oldest first.
        let mut found =
            rows.iter().map(|row| Ok((get(row, 11)?, *row))).collect::<Result<Vec<(i64, _)>>>()?;
        found.sort_by_key(|(run_at, row)| (*run_at, id(row, 1).ok()));
        if let Some((oldest, row)) = found.first() {
            let full = found.len() >= take.count as usize;
            low_marks.learn(take.lane.lane, *low, full.then_some(*oldest), get(row, 9)?);
        }
        for (_, row) in found {
            match claimed_row(row, take.lane) {
                Ok(item) => claimed.push(item),
                // It is committed as claimed; its lease will end, and the others must not suffer.
                Err(error) => tracing::error!(%error, "a claimed row cannot be read"),
            }
        }
    }
    Ok((claimed, counts))
}

pub(super) fn millis(duration: Duration) -> i64 {
    // Far beyond any lease, and still safe to add to the time.
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).min(i64::MAX / 4)
}

fn claimed_row(row: &Row, lane: &ClaimLane) -> Result<Claimed> {
    let ticket = Ticket {
        tenant: TenantId(get(row, 0)?),
        work: WorkId(id(row, 1)?),
        fence: get(row, 4)?,
        attempt: get(row, 5)?,
        max_attempts: get(row, 6)?,
        lease_s: lane.lease.as_secs().try_into().unwrap_or(i32::MAX),
        started_at: time(row, 9)?,
        ordered: get(row, 12)?,
    };
    Ok(Claimed {
        ticket,
        kind: code(row, 2, WorkKind::from_code)?,
        lane: lane.lane,
        event: opt_id(row, 7)?.map(EventId),
        scope: id(row, 8)?,
        lease_expires_at: time(row, 10)?,
    })
}
