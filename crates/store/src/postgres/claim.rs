//! Claiming: one statement for all lanes, hard caps, and a lower bound that keeps it cheap.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Client, GenericClient, Transaction};
use tokio_postgres::Row;
use uuid::Uuid;
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, TenantId, WorkId};

use super::batch::Verb;
use super::caps;
use super::fault::Fault;
use super::marks::{LOW_LAG, LowMarks};
use super::rows::{code, get, id, meta, opt_id, query, query_opt, text, time, uuid};
use super::{Postgres, commit};
use crate::error::Result;
use crate::failpoint;
use crate::moves::{Cap, ClaimLane, ClaimRequest, Claimed, Counts, Item, names};

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
            let lanes = free.into_iter().cloned().collect();
            let free = ClaimRequest { worker: request.worker.clone(), lanes };
            match self.inner.claims.submit(vec![free]).await.pop().unwrap_or(Ok(Vec::new())) {
                Ok(rows) => claimed.extend(rows),
                Err(error) if claimed.is_empty() => return Err(error),
                // What the first half got is committed: it must reach its worker.
                Err(error) => tracing::warn!(%error, "half of a claim failed"),
            }
        }
        failpoint::pass_async("claim.after_commit").await?;
        Ok(claimed)
    }

    /// Claims one item by its key. Of two that try at once, the second waits for the first, and then finds it
    /// taken.
    pub(super) async fn claim_item(
        &self,
        worker: &str,
        item: Item,
        lane: &ClaimLane,
    ) -> Result<Option<Claimed>> {
        let mut client = self.hot().await?;
        let claimed = loop {
            let tx = client.transaction().await?;
            let Some(mut counts) = caps::lock(&tx, &lane.caps).await? else {
                tx.rollback().await?;
                caps::make(&client, &lane.caps).await?;
                continue;
            };
            if counts.room(&lane.caps, lane.count) == 0 {
                return Ok(None);
            }
            let take = Take::of(worker, lane, 1);
            let Some(claimed) = claim_by_key(&tx, item, &take).await? else { return Ok(None) };
            if !lane.caps.is_empty() {
                counts.start(&lane.caps, 1);
                caps::write(&tx, &lane.caps, &counts).await?;
            }
            failpoint::pass_async("claim.before_commit").await?;
            commit(tx).await?;
            break claimed;
        };
        failpoint::pass_async("claim.after_commit").await?;
        Ok(Some(claimed))
    }

    async fn claim_capped(&self, worker: &str, lanes: &[&ClaimLane]) -> Result<Vec<Claimed>> {
        let mut client = self.hot().await?;
        let all: Vec<Cap> = lanes.iter().flat_map(|lane| &lane.caps).copied().collect();
        loop {
            let tx = client.transaction().await?;
            if let Some(mut counts) = caps::lock(&tx, &all).await? {
                let claimed = self.claim_within(&tx, &mut counts, worker, lanes).await?;
                if !claimed.is_empty() {
                    caps::write(&tx, &all, &counts).await?;
                    failpoint::pass_async("claim.before_commit").await?;
                    commit(tx).await?;
                }
                return Ok(claimed);
            }
            tx.rollback().await?;
            caps::make(&client, &all).await?;
        }
    }

    /// The counters are locked from the look to the commit: no other claim can fill the same room, and
    /// every committed state is within its bounds.
    ///
    /// Lanes may share a bound, and then its room. One that has less than its share leaves the rest to the others,
    /// who are asked again: as often as there are lanes at most, since each time another turned out to be empty.
    async fn claim_within(
        &self,
        tx: &Transaction<'_>,
        counts: &mut Counts,
        worker: &str,
        lanes: &[&ClaimLane],
    ) -> Result<Vec<Claimed>> {
        let mut claimed = Vec::new();
        let mut wanted: Vec<(&ClaimLane, u32)> =
            lanes.iter().map(|lane| (*lane, lane.count)).collect();
        for _ in lanes {
            let mut reserved = counts.clone();
            let mut takes = Vec::new();
            for (lane, count) in &wanted {
                let count = reserved.room(&lane.caps, *count);
                reserved.start(&lane.caps, count);
                takes.push(Take::of(worker, lane, count));
            }
            if takes.iter().all(|take| take.count == 0) {
                break;
            }
            let got = claim(tx, &self.inner.low_marks, &takes).await?;
            let mut left_over = false;
            let mut cut = Vec::new();
            for ((take, got), (lane, count)) in takes.iter().zip(got).zip(wanted) {
                counts.start(&lane.caps, got.len() as u32);
                left_over |= got.len() < take.count as usize;
                if got.len() == take.count as usize && take.count < count {
                    cut.push((lane, count - take.count));
                }
                claimed.extend(got);
            }
            if !left_over || cut.is_empty() {
                break;
            }
            wanted = cut;
        }
        Ok(claimed)
    }
}

/// The verb behind claims of lanes without caps. Workers that ask at the same time share a statement: apart,
/// each would walk past what the others are claiming.
pub struct Claims(pub Arc<LowMarks>);

impl Verb for Claims {
    type Item = ClaimRequest;
    type Answer = Vec<Claimed>;

    /// Bounds the items that one statement claims.
    fn bytes(request: &ClaimRequest) -> usize {
        request.lanes.iter().map(|lane| lane.count as usize).sum::<usize>() * BYTES_PER_ITEM
    }

    async fn run(
        &self,
        client: &mut Client,
        requests: &[ClaimRequest],
    ) -> std::result::Result<Vec<Result<Vec<Claimed>>>, Fault> {
        failpoint::pass_async("claim.before_commit").await?;
        let takes: Vec<Take<'_>> = requests.iter().flat_map(Take::all).collect();
        let mut claimed = claim(client, &self.0, &takes).await?.into_iter();
        let mut of =
            |request: &ClaimRequest| claimed.by_ref().take(request.lanes.len()).flatten().collect();
        Ok(requests.iter().map(|request| Ok(of(request))).collect())
    }
}

/// About as much as a claimed item takes on its way to its worker.
const BYTES_PER_ITEM: usize = 1024;

/// What one worker takes from one lane.
struct Take<'a> {
    worker: &'a str,
    lane: &'a ClaimLane,
    count: u32,
    /// The counters that each item will hold, separated by spaces.
    caps: Option<String>,
}

impl<'a> Take<'a> {
    fn of(worker: &'a str, lane: &'a ClaimLane, count: u32) -> Take<'a> {
        Take { worker, lane, count, caps: names(&lane.caps) }
    }

    /// All that is asked for, of lanes that have no caps.
    fn all(request: &'a ClaimRequest) -> impl Iterator<Item = Take<'a>> {
        let worker = request.worker.as_str();
        let take = move |lane: &'a ClaimLane| Take { worker, lane, count: lane.count, caps: None };
        request.lanes.iter().map(take)
    }
}

/// Each lane is one short walk along its index, past what others are claiming just now. `low` keeps the
/// walk from dead entries that vacuum could not remove yet; it never hides what was made in the last
/// [`LOW_LAG`]. Of a lane that is shut the limit is zero: one look at its row, however much waits in it. Takes of one lane share what its walk finds: `$5` says whose its first, second and further items
/// are, from `start` on.
///
/// The rows are locked, so they are found again by where they are. Found by their keys, they would be found by
/// a walk over the whole table whenever the plan was made while the queue was empty. One that another moved
/// between the look and the lock is not where this statement can see it: it stays, for the next claim.
const CLAIM: &str = "
WITH found AS MATERIALIZED (
  SELECT w.at, ($5::int[])[l.start + w.nth] AS take
  FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::int[]) AS l (lane, count, low, start)
  CROSS JOIN LATERAL (
    SELECT at, (row_number() OVER ())::int AS nth FROM (
      SELECT ctid AS at FROM work
      WHERE lane = l.lane AND state <= 2 AND NOT behind AND run_at <= wakepost_now()
        AND run_at >= least(l.low, wakepost_now() - $10::bigint)
      ORDER BY run_at, id
      LIMIT CASE WHEN (SELECT shut_until FROM lanes WHERE id = l.lane) > wakepost_now() THEN 0 ELSE l.count END
      FOR UPDATE SKIP LOCKED) w) w
)
UPDATE work w
SET state = 5, attempts = w.attempts + 1, fence = w.fence + 1, worker = ($6::text[])[f.take],
    started_at = wakepost_now(),
    lease_expires_at = wakepost_now() + least(($7::bigint[])[f.take], ($8::bigint[])[f.take]),
    run_deadline = wakepost_now() + ($8::bigint[])[f.take], caps = ($9::text[])[f.take],
    held_reason = NULL, cancel_at = NULL
FROM found f WHERE w.ctid = f.at
RETURNING w.tenant, w.id, w.kind, w.lane, w.fence, w.attempts, w.max_attempts, w.event_id, w.scope,
          w.started_at, w.lease_expires_at, w.run_at, w.order_key IS NOT NULL, w.meta, f.take";

/// One item, if it is as ready as [`CLAIM`] wants it. The columns are that statement's. It waits for no item either:
/// the counters are locked by now, and whoever has the item may want them.
const CLAIM_ONE: &str = "
UPDATE work w
SET state = 5, attempts = w.attempts + 1, fence = w.fence + 1, worker = $4::text,
    started_at = wakepost_now(), lease_expires_at = wakepost_now() + least($5::bigint, $6::bigint),
    run_deadline = wakepost_now() + $6::bigint, caps = $7::text, held_reason = NULL, cancel_at = NULL
WHERE w.ctid = (
  SELECT ctid FROM work
  WHERE tenant = $1::int AND id = $2::uuid AND lane = $3::bigint
    AND state <= 2 AND NOT behind AND run_at <= wakepost_now()
    AND (SELECT shut_until FROM lanes WHERE id = $3::bigint) > wakepost_now() IS NOT TRUE
  FOR UPDATE SKIP LOCKED)
RETURNING w.tenant, w.id, w.kind, w.lane, w.fence, w.attempts, w.max_attempts, w.event_id, w.scope,
          w.started_at, w.lease_expires_at, w.run_at, w.order_key IS NOT NULL, w.meta";

async fn claim_by_key(
    tx: &Transaction<'_>,
    item: Item,
    take: &Take<'_>,
) -> Result<Option<Claimed>> {
    let row = query_opt(
        tx,
        CLAIM_ONE,
        &[
            &item.tenant.0,
            &uuid(item.work.0),
            &take.lane.lane.0,
            &text(take.worker),
            &millis(take.lane.lease),
            &millis(take.lane.run_timeout),
            &take.caps,
        ],
    )
    .await?;
    row.map(|row| claimed_row(&row, take.lane)).transpose()
}

/// What was claimed by each take, oldest first.
async fn claim(
    client: &impl GenericClient,
    low_marks: &LowMarks,
    takes: &[Take<'_>],
) -> std::result::Result<Vec<Vec<Claimed>>, Fault> {
    // Whose the items of each lane are, in their order. Counted from one, as PostgreSQL does.
    let mut lanes: BTreeMap<LaneId, Vec<i32>> = BTreeMap::new();
    for (take, number) in takes.iter().zip(1..) {
        let shares = lanes.entry(take.lane.lane).or_default();
        shares.extend(std::iter::repeat_n(number, take.count as usize));
    }
    let counts: Vec<i32> = lanes.values().map(|shares| shares.len() as i32).collect();
    let starts: Vec<i32> =
        counts.iter().scan(0, |end, count| Some(std::mem::replace(end, *end + count))).collect();
    let lows: Vec<i64> = lanes.keys().map(|lane| low_marks.low(*lane)).collect();
    macro_rules! column {
        ($take:ident => $of:expr) => {
            takes.iter().map(|$take| $of).collect::<Vec<_>>()
        };
    }
    let rows = query(
        client,
        CLAIM,
        &[
            &lanes.keys().map(|lane| lane.0).collect::<Vec<_>>(),
            &counts,
            &lows,
            &starts,
            &lanes.values().flatten().copied().collect::<Vec<_>>(),
            &column!(take => text(take.worker)),
            &column!(take => millis(take.lane.lease)),
            &column!(take => millis(take.lane.run_timeout)),
            &column!(take => take.caps.as_deref()),
            &millis(LOW_LAG),
        ],
    )
    .await?;
    let mut found: HashMap<LaneId, Found> = HashMap::new();
    let mut placed = rows.iter().map(place).collect::<Result<Vec<_>>>()?;
    // RETURNING promises no order; workers should see the oldest first.
    placed.sort_unstable_by_key(|(place, _)| *place);
    let mut claimed: Vec<Vec<Claimed>> = takes.iter().map(|_| Vec::new()).collect();
    for ((run_at, _), row) in placed {
        let found = found.entry(LaneId(get(row, 3)?)).or_insert(Found { oldest: run_at, count: 0 });
        found.count += 1;
        let take = usize::try_from(get::<i32>(row, 14)? - 1).unwrap_or(usize::MAX);
        let Some((take, claimed)) = takes.get(take).zip(claimed.get_mut(take)) else { continue };
        match claimed_row(row, take.lane) {
            Ok(item) => claimed.push(item),
            // It is committed as claimed; its lease will end, and the others must not suffer.
            Err(error) => tracing::error!(%error, "a claimed row cannot be read"),
        }
    }
    if let Some(row) = rows.first() {
        let now = get(row, 9)?;
        for ((lane, shares), low) in lanes.iter().zip(&lows) {
            if let Some(found) = found.get(lane) {
                let full = found.count >= shares.len();
                low_marks.learn(*lane, *low, full.then_some(found.oldest), now);
            }
        }
    }
    Ok(claimed)
}

/// What one lane had.
struct Found {
    oldest: i64,
    count: usize,
}

/// A claimed row, and its place in its lane.
fn place(row: &Row) -> Result<((i64, Uuid), &Row)> {
    Ok(((get(row, 11)?, get(row, 1)?), row))
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
        meta: meta(get(row, 13)?),
    })
}
