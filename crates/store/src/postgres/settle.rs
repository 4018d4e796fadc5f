//! Ending runs: one statement for a batch of ends, however they came.

use std::collections::{HashMap, HashSet};

use deadpool_postgres::{Client, GenericClient, Transaction};
use tokio_postgres::Row;
use uuid::Uuid;
use wakepost_domain::lane::LaneId;
use wakepost_domain::run::RunOutcome;
use wakepost_domain::sequence::NO_NUMBER;
use wakepost_domain::work::State;

use super::batch::Verb;
use super::callbacks::make_callbacks;
use super::claim::millis;
use super::costs::{told, total_cost};
use super::fault::Fault;
use super::ordering::{let_next_go, lock_live_and_new};
use super::rows::{code, execute, get, opt_text, query, uuid};
use super::sequencing;
use super::succeed::{all_succeed, succeed};
use super::work;
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{Guard, NewWork, Settle, Settled};
use crate::vault::Sealed;

/// The verb behind [`crate::moves::Queue::settle`].
pub struct End;

impl Verb for End {
    type Item = Settle;
    type Answer = Settled;

    fn bytes(item: &Settle) -> usize {
        item.bytes()
    }

    async fn run(
        &self,
        client: &mut Client,
        items: &[Settle],
    ) -> std::result::Result<Vec<Result<Settled>>, Fault> {
        let mut answers: Vec<Option<Settled>> = vec![None; items.len()];
        let mut open: Vec<usize> = (0..items.len()).collect();
        // One statement can end an item once: a second end of the same item is judged after the first.
        while !open.is_empty() {
            let mut seen = HashSet::new();
            let (round, later): (Vec<usize>, Vec<usize>) =
                open.into_iter().partition(|index| seen.insert(items[*index].ticket.work));
            let ends: Vec<&Settle> = round.iter().map(|index| &items[*index]).collect();
            pass_ends(&ends).await?;
            let has_more = |end: &&Settle| {
                end.ticket.ordered || end.follow_up.is_some() || end.expanded.is_some()
            };
            let settled = match ends.iter().any(has_more) {
                // The usual batch is one statement, and its own transaction.
                false => settle(&*client, &ends).await?,
                true => {
                    let tx = client.transaction().await?;
                    let settled = settle_with_more(&tx, &ends).await?;
                    keep_contents(&tx, &ends, &settled).await?;
                    tx.commit().await?;
                    settled
                }
            };
            if ends.iter().any(|end| end.guard != Guard::Live) {
                // Differs from SQLite: one statement ends them all, so the middle of a batch is after it.
                failpoint::pass_async("rescue.mid_batch").await?;
            }
            for (index, settled) in round.into_iter().zip(settled) {
                answers[index] = settled;
            }
            open = later;
        }
        failpoint::pass_async("settle.after_commit").await?;
        Ok(answers.into_iter().map(|answer| answer.ok_or(StoreError::LeaseLost)).collect())
    }
}

/// The places of tests before ends are committed.
async fn pass_ends(ends: &[&Settle]) -> Result<()> {
    if ends.iter().any(|end| end.settlement.outcome == RunOutcome::Failed) {
        failpoint::pass_async("fail.before_commit").await?;
    }
    failpoint::pass_async("settle.before_commit").await
}

/// Ends runs of which some have an order key, and lets the next of each key go; makes what follows a success.
pub async fn settle_with_more(
    tx: &Transaction<'_>,
    ends: &[&Settle],
) -> std::result::Result<Vec<Option<Settled>>, Fault> {
    let items: Vec<_> = ends
        .iter()
        .filter(|end| end.ticket.ordered)
        .map(|end| (end.ticket.tenant, end.ticket.work))
        .collect();
    let follow_ups: Vec<&NewWork> =
        ends.iter().filter_map(|end| end.follow_up.as_deref()).collect();
    let keys = lock_live_and_new(tx, &items, &follow_ups).await?;
    let mut ended = settle_numbered(tx, ends).await?;
    let number = |(id, key): (&Uuid, &Uuid)| Some((*key, ended.get(id)?.number?));
    sequencing::ended(tx, &keys.iter().filter_map(number).collect::<Vec<_>>()).await?;
    let next = let_next_go(tx, &keys.values().copied().collect::<Vec<_>>()).await?;
    for (id, key) in &keys {
        if let Some(Ended { settled, .. }) = ended.get_mut(id)
            && settled.state.is_terminal()
        {
            settled.next_in_order = next.get(key).copied();
        }
    }
    let settled = of_each(ends, &ended);
    let made = ends.iter().zip(&settled).filter_map(|(end, settled)| {
        let made = settled.is_some_and(|settled| settled.makes_follow_up());
        end.follow_up.as_deref().filter(|_| made)
    });
    let made: Vec<&NewWork> = made.collect();
    if !made.is_empty() {
        work::insert(tx, &made).await?;
    }
    Ok(settled)
}

/// What was fetched for events is stored with the end of the run that did. An event whose body is gone by now
/// stays without one.
async fn keep_contents(
    tx: &Transaction<'_>,
    ends: &[&Settle],
    settled: &[Option<Settled>],
) -> std::result::Result<(), Fault> {
    for (end, settled) in ends.iter().zip(settled) {
        if let (Some(expanded), Some(Settled { repeated: false, .. })) = (&end.expanded, settled) {
            execute(
                tx,
                "UPDATE bodies SET content = $3::bytea WHERE tenant = $1::int AND id = $2::uuid",
                &[&end.ticket.tenant.0, &uuid(expanded.event.0), &expanded.content.as_bytes()],
            )
            .await?;
            execute(
                tx,
                "UPDATE events SET thread = coalesce($3::text, thread)
                 WHERE tenant = $1::int AND id = $2::uuid",
                &[&end.ticket.tenant.0, &uuid(expanded.event.0), &opt_text(&expanded.thread)],
            )
            .await?;
        }
    }
    Ok(())
}

/// Ends runs, each item at most once. `None`: the lease is not what the caller thinks.
pub async fn settle(
    client: &impl GenericClient,
    ends: &[&Settle],
) -> std::result::Result<Vec<Option<Settled>>, Fault> {
    Ok(of_each(ends, &settle_numbered(client, ends).await?))
}

/// An end, and the number of an item that is through with it, if it has one.
pub struct Ended {
    settled: Settled,
    number: Option<i64>,
}

fn of_each(ends: &[&Settle], ended: &HashMap<Uuid, Ended>) -> Vec<Option<Settled>> {
    let of = |end: &&Settle| ended.get(&uuid(end.ticket.work.0)).map(|ended| ended.settled);
    ends.iter().map(of).collect()
}

async fn settle_numbered(
    client: &impl GenericClient,
    ends: &[&Settle],
) -> std::result::Result<HashMap<Uuid, Ended>, Fault> {
    let mut ended = match all_succeed(ends) {
        true => succeed(client, ends).await?,
        false => end(client, ends).await?,
    };
    let missed = missed(ends, &ended);
    if !missed.is_empty() {
        // Some may only have been moved, or have to make a callback.
        ended.extend(end(client, &missed).await?);
        let missed = self::missed(&missed, &ended);
        ended.extend(repeated(client, &missed).await?);
    }
    Ok(ended)
}

/// Only a worker repeats itself; a rescuer that comes too late has nothing to say.
fn missed<'a>(ends: &[&'a Settle], ended: &HashMap<Uuid, Ended>) -> Vec<&'a Settle> {
    let is_missed =
        |end: &&Settle| end.guard == Guard::Live && !ended.contains_key(&uuid(end.ticket.work.0));
    ends.iter().copied().filter(is_missed).collect()
}

/// Of the items that a statement took out of the queue, as `hit`: what they held of bounds is given back.
macro_rules! give_back_caps {
    () => {
        "freed AS MATERIALIZED (
  SELECT c.scope, f.count
  FROM (SELECT h.name AS scope, count(*)::int AS count
        FROM (SELECT unnest(string_to_array(caps, ' ')) AS name FROM hit WHERE caps IS NOT NULL) h
        GROUP BY h.name) f
  JOIN lane_caps c ON c.scope = f.scope
  ORDER BY c.scope FOR UPDATE OF c
), counted AS (
  UPDATE lane_caps c SET running = c.running - f.count FROM freed f WHERE c.scope = f.scope
  RETURNING c.scope
)"
    };
}

pub(super) use give_back_caps;

/// Of the same: they go to where final items are, in this state, with this error, and only those of which `which` says so.
macro_rules! move_to_done {
    ($state:literal, $error:literal, $which:literal) => {
        concat!(
            "done AS (
  INSERT INTO work_done (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence,
                         event_id, scope, subject, order_key, meta, last_error, worker, started_at,
                         finished_at, callback_lane)
  SELECT tenant, id, kind, lane, ", $state, ", run_at, attempts, max_attempts, fence, event_id, scope,
         subject, order_key, meta, ", $error, ", worker, started_at, wakepost_now(),
         callback_lane
  FROM hit WHERE ", $which, "
)"
        )
    };
}

pub(super) use move_to_done;

/// What ends is taken out of the queue and judged as it was then; what shall run again is put back. Items are
/// taken in their order, as the rows come in it, and only then counters in theirs. A claim that holds counters
/// waits for no item, so the two cannot deadlock. Budgets come last, for both.
///
/// Items are found by their keys, and then by where they are: joined with the table by their keys (OFFSET keeps
/// the planner from that), they would be found by a walk over all of it whenever the plan was made while the
/// queue was empty. One that a heartbeat moves between the two is missed.
const END: &str = concat!(
    "
WITH place AS MATERIALIZED (
  SELECT e.*, w.at
  FROM unnest($1::int[], $2::uuid[], $3::int[], $4::smallint[], $5::bigint[], $6::smallint[],
              $7::bigint[], $8::int[], $9::smallint[], $10::smallint[], $11::text[], $12::bytea[],
              $13::bytea[], $14::double precision[], $16::bigint[], $17::bytea[])
    AS e (tenant, id, fence, guard, guard_at, next, delay_ms, give_back, held, outcome, error,
          result, reply, cost, to_lane, detail)
  CROSS JOIN LATERAL (
    SELECT ctid AS at FROM work w WHERE w.tenant = e.tenant AND w.id = e.id OFFSET 0) w
), hit AS (
  DELETE FROM work w USING place p
  WHERE w.ctid = p.at
    AND CASE WHEN w.fence <> p.fence OR w.state <> 5 THEN false
             WHEN p.guard = 0 THEN w.lease_expires_at > wakepost_now()
             WHEN p.guard = 1 THEN w.lease_expires_at = p.guard_at
                                   AND w.lease_expires_at <= wakepost_now()
             ELSE w.cancel_at <= p.guard_at END
  RETURNING w.*, p.delay_ms, p.give_back, p.held, p.error, p.result, p.reply, p.cost, p.to_lane,
            p.detail,
            CASE WHEN w.cancel_at IS NOT NULL AND p.next <> 6 THEN 7::smallint ELSE p.next END AS next,
            CASE WHEN w.cancel_at IS NOT NULL AND p.next <> 6 THEN $15::smallint
                 ELSE p.outcome END AS outcome
), ",
    give_back_caps!(),
    ", ", told!("hit", "(SELECT count(*) FROM counted) >= 0"), ", ran AS (
  INSERT INTO attempts (work_id, fence, tenant, attempt, worker, started_at, ended_at, outcome, error, detail)
  SELECT id, fence, tenant, attempts, worker, started_at, wakepost_now(), outcome, error, detail FROM hit
  WHERE next <> 6
), kept AS (
  INSERT INTO job_state AS s (work_id, tenant, result, reply, cost)
  SELECT id, tenant, result, reply, ", total_cost!("hit"), " FROM hit
  WHERE result IS NOT NULL OR reply IS NOT NULL OR cost IS NOT NULL
  ON CONFLICT (work_id) DO UPDATE
  SET result = coalesce(excluded.result, s.result), reply = coalesce(excluded.reply, s.reply),
      cost = coalesce(excluded.cost, s.cost)
), ",
    move_to_done!("next", "coalesce(error, last_error)", "next >= 6"),
    ", called AS (
",
    make_callbacks!(),
    "
  FROM hit WHERE next >= 6 AND callback_lane IS NOT NULL
), again AS (
  INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id, scope,
                    subject, order_key, behind, meta, held_reason, last_error, worker, started_at,
                    cancel_at, place, coalesce_key, gathers_until, cancel_key, callback_lane)
  SELECT tenant, id, kind, coalesce(to_lane, lane), next, wakepost_now() + delay_ms,
         CASE WHEN to_lane IS NULL THEN attempts - give_back ELSE 0 END, max_attempts, fence,
         event_id, scope, subject, order_key, behind, meta, held, coalesce(error, last_error), worker,
         started_at, cancel_at, place, coalesce_key, gathers_until, cancel_key, callback_lane
  FROM hit WHERE next < 6
)
SELECT id, CASE WHEN next < 6 THEN coalesce(to_lane, lane) ELSE lane END, next, caps IS NOT NULL,
       CASE WHEN next >= 6 THEN place END
FROM hit"
);

async fn end(
    client: &impl GenericClient,
    ends: &[&Settle],
) -> std::result::Result<HashMap<Uuid, Ended>, Fault> {
    let mut ends = ends.to_vec();
    ends.sort_unstable_by_key(|end| (end.ticket.tenant, end.ticket.work));
    macro_rules! column {
        ($end:ident => $of:expr) => {
            ends.iter().map(|$end| $of).collect::<Vec<_>>()
        };
    }
    let rows = query(
        client,
        END,
        &[
            &column!(end => end.ticket.tenant.0),
            &column!(end => uuid(end.ticket.work.0)),
            &column!(end => end.ticket.fence),
            &column!(end => guard(end).0),
            &column!(end => guard(end).1),
            &column!(end => end.settlement.state as i16),
            &column!(end => millis(end.settlement.delay)),
            &column!(end => i32::from(end.settlement.give_back)),
            &column!(end => end.settlement.held.map(|reason| reason as i16)),
            &column!(end => end.settlement.outcome as i16),
            &column!(end => opt_text(&end.error)),
            &column!(end => end.evidence.result.as_ref().map(Sealed::as_bytes)),
            &column!(end => end.evidence.reply.as_ref().map(Sealed::as_bytes)),
            &column!(end => end.evidence.cost),
            &(RunOutcome::Cancelled as i16),
            &column!(end => end.expanded.as_ref().map(|expanded| expanded.lane.0)),
            &column!(end => end.evidence.detail.as_ref().map(Sealed::as_bytes)),
        ],
    )
    .await?;
    read_ended(&rows)
}

/// What the statements answer of each item that they ended.
pub fn read_ended(rows: &[Row]) -> std::result::Result<HashMap<Uuid, Ended>, Fault> {
    let mut ended = HashMap::with_capacity(rows.len());
    for row in rows {
        let settled = Settled {
            state: code(row, 2, State::from_code)?,
            lane: LaneId(get(row, 1)?),
            next_in_order: None,
            freed_cap: get(row, 3)?,
            repeated: false,
        };
        let number = get::<Option<i64>>(row, 4)?.filter(|number| *number != NO_NUMBER);
        ended.insert(get(row, 0)?, Ended { settled, number });
    }
    Ok(ended)
}

fn guard(end: &Settle) -> (i16, i64) {
    match end.guard {
        Guard::Live => (0, 0),
        Guard::ExpiredAt(at) => (1, at.as_millis()),
        Guard::CancelledBefore(at) => (2, at.as_millis()),
    }
}

const REPEATED: &str = "
SELECT w.id, w.lane, w.state, coalesce(a.outcome, 0::smallint), a.error
FROM unnest($1::int[], $2::uuid[], $3::int[]) AS e (tenant, id, fence)
CROSS JOIN LATERAL (
  SELECT id, fence, lane, state FROM work_done WHERE tenant = e.tenant AND id = e.id AND fence = e.fence
  UNION ALL
  SELECT id, fence, lane, state FROM work WHERE tenant = e.tenant AND id = e.id AND fence = e.fence OFFSET 0) w
LEFT JOIN attempts a ON a.work_id = w.id AND a.fence = w.fence
WHERE w.state = 6 OR a.outcome IS NOT NULL";

/// The same calls again, whose answers got lost: the same fence, and the outcome they asked for.
async fn repeated(
    client: &impl GenericClient,
    ends: &[&Settle],
) -> std::result::Result<HashMap<Uuid, Ended>, Fault> {
    let rows = query(
        client,
        REPEATED,
        &[
            &ends.iter().map(|end| end.ticket.tenant.0).collect::<Vec<_>>(),
            &ends.iter().map(|end| uuid(end.ticket.work.0)).collect::<Vec<_>>(),
            &ends.iter().map(|end| end.ticket.fence).collect::<Vec<_>>(),
        ],
    )
    .await?;
    let asked: HashMap<Uuid, &Settle> =
        ends.iter().map(|end| (uuid(end.ticket.work.0), *end)).collect();
    let mut found = HashMap::with_capacity(rows.len());
    for row in &rows {
        let id = get(row, 0)?;
        let ended = (code(row, 2, State::from_code)?, code(row, 3, RunOutcome::from_code)?);
        let error: Option<&str> = get(row, 4)?;
        if asked.get(&id).is_some_and(|end| is_same(end, ended, error)) {
            let lane = LaneId(get(row, 1)?);
            let before = Settled {
                state: ended.0,
                lane,
                next_in_order: None,
                freed_cap: false,
                repeated: true,
            };
            found.insert(id, Ended { settled: before, number: None });
        }
    }
    Ok(found)
}

/// Whether a run ended as this call asked. If a stop had been asked for, the end became it; its words tell
/// it from the sweep's.
fn is_same(end: &Settle, ended: (State, RunOutcome), error: Option<&str>) -> bool {
    let asked = &end.settlement;
    let stopped = ended == (State::Cancelled, RunOutcome::Cancelled)
        && asked.state != State::Succeeded
        && error == opt_text(&end.error).as_deref();
    ended == (asked.state, asked.outcome) || stopped
}
