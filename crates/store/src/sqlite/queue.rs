//! The queue: claim, heartbeat, settle, checkpoint, progress.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row};
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::run::RunOutcome;
use wakepost_domain::sequence::NO_NUMBER;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, TenantId, Timestamp, Ulid, WorkId, limits};

use super::Sqlite;
use super::callbacks;
use super::caps;
use super::costs::{self, Payer};
use super::ordering::let_next_go;
use super::rows::{Bits, known, meta, time, unavailable};
use super::sequencing;
use super::settings::remember;
use super::shutting::is_shut;
use super::work;
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{
    ClaimLane, ClaimRequest, Claimed, Evidence, Expanded, Guard, Heartbeat, HeartbeatAnswer,
    Idempotency, Item, NewWork, Once, OrderKey, Progress, Queue, Settle, Settled, names,
};
use crate::vault::Sealed;

#[async_trait]
impl Queue for Sqlite {
    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>> {
        let claimed = self
            .write(0, move |tx, now| {
                let mut claimed = Vec::new();
                for lane in &request.lanes {
                    claim(tx, now, &request.worker, lane, &mut claimed).map_err(unavailable)?;
                }
                failpoint::pass("claim.before_commit")?;
                Ok(claimed)
            })
            .await?;
        failpoint::pass_async("claim.after_commit").await?;
        Ok(claimed)
    }

    async fn claim_one(
        &self,
        worker: String,
        item: Item,
        lane: ClaimLane,
    ) -> Result<Option<Claimed>> {
        let claimed = self
            .write(0, move |tx, now| {
                let claimed = claim_one(tx, now, &worker, item, &lane).map_err(unavailable)?;
                failpoint::pass("claim.before_commit")?;
                Ok(claimed)
            })
            .await?;
        failpoint::pass_async("claim.after_commit").await?;
        Ok(claimed)
    }

    async fn heartbeat(&self, batch: Vec<Heartbeat>) -> Vec<Result<HeartbeatAnswer>> {
        let count = batch.len();
        let rows = self
            .write(0, move |tx, now| {
                let answers =
                    batch.iter().map(|beat| heartbeat(tx, now, beat).map_err(unavailable));
                let answers = answers.collect::<Result<Vec<_>>>()?;
                failpoint::pass("lease.heartbeat")?;
                Ok(answers)
            })
            .await;
        spread(rows, count, |answer: Option<HeartbeatAnswer>| answer.ok_or(StoreError::LeaseLost))
    }

    async fn settle(&self, batch: Vec<Settle>) -> Vec<Result<Settled>> {
        let count = batch.len();
        let bytes = batch.iter().map(Settle::bytes).sum();
        let rows = self
            .write(bytes, move |tx, now| {
                let mut answers = Vec::with_capacity(batch.len());
                for item in &batch {
                    answers.push(settle(tx, now, item)?);
                    pass_end(item)?;
                }
                failpoint::pass("settle.before_commit")?;
                Ok(answers)
            })
            .await;
        let rows = match failpoint::pass_async("settle.after_commit").await {
            Ok(()) => rows,
            Err(error) => Err(error),
        };
        spread(rows, count, |answer: Option<Settled>| answer.ok_or(StoreError::LeaseLost))
    }

    async fn follow_up(
        &self,
        ticket: Ticket,
        item: NewWork,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        let bytes = item.input.as_ref().map_or(0, Sealed::len);
        self.write_whole(bytes, move |tx, now| {
            if let Some(before) = remember(tx, now, once.as_ref())? {
                return Ok(Once::Before(before));
            }
            live(tx, now, &ticket)?;
            work::insert(tx, now, &item)?;
            Ok(Once::Now(()))
        })
        .await
    }

    async fn checkpoint(&self, ticket: Ticket, state: Sealed) -> Result<()> {
        self.write_whole(state.len(), move |tx, now| {
            live(tx, now, &ticket)?;
            tx.prepare_cached(
                "INSERT INTO job_state (work_id, tenant, checkpoint) VALUES (?1, ?2, ?3)
                 ON CONFLICT (work_id) DO UPDATE SET checkpoint = excluded.checkpoint",
            )
            .and_then(|mut put| {
                put.execute((Bits(ticket.work.to_bytes()), ticket.tenant.0, state.as_bytes()))
            })
            .map_err(unavailable)?;
            failpoint::pass("checkpoint.before_commit")
        })
        .await
    }

    async fn progress(&self, progress: Progress) -> Result<()> {
        self.write_whole(progress.content.len(), move |tx, now| {
            live(tx, now, &progress.ticket)?;
            add_progress(tx, now, &progress).map_err(unavailable)
        })
        .await
    }
}

/// The places of tests that some ends pass.
fn pass_end(item: &Settle) -> Result<()> {
    if item.guard != Guard::Live {
        failpoint::pass("rescue.mid_batch")?;
    }
    if item.settlement.outcome == RunOutcome::Failed {
        failpoint::pass("fail.before_commit")?;
    }
    Ok(())
}

/// One answer a row, or the batch's error for each.
fn spread<A, B>(rows: Result<Vec<A>>, count: usize, each: fn(A) -> Result<B>) -> Vec<Result<B>> {
    match rows {
        Ok(rows) => rows.into_iter().map(each).collect(),
        Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
    }
}

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

fn claim_one(
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

fn claim(
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

fn heartbeat(
    tx: &Connection,
    now: Timestamp,
    beat: &Heartbeat,
) -> rusqlite::Result<Option<HeartbeatAnswer>> {
    let ticket = &beat.ticket;
    let answer = tx
        .prepare_cached(
            "UPDATE work SET lease_expires_at = max(lease_expires_at, min(?1, run_deadline))
             WHERE tenant = ?2 AND id = ?3 AND fence = ?4 AND state = 5 AND lease_expires_at > ?5
             RETURNING lease_expires_at, cancel_at, lane, started_at, caps IS NOT NULL",
        )?
        .query_row(
            (
                now.after(beat.extend).as_millis(),
                ticket.tenant.0,
                Bits(ticket.work.to_bytes()),
                ticket.fence,
                now.as_millis(),
            ),
            |row| {
                let answer = HeartbeatAnswer {
                    lease_expires_at: time(row.get(0)?),
                    cancel_requested: row.get::<_, Option<i64>>(1)?.is_some(),
                };
                let (lane, started_at) = (LaneId(row.get(2)?), row.get(3)?);
                Ok((answer, Payer { lane, started_at, capped: row.get(4)? }))
            },
        )
        .optional()?;
    let Some((answer, payer)) = answer else {
        return Ok(None);
    };
    if beat.cost.is_some() {
        let evidence = Evidence { cost: beat.cost, ..Evidence::default() };
        keep_evidence(tx, ticket, &evidence, &payer)?;
    }
    Ok(Some(answer))
}

/// The part of a running row that its end needs.
struct Running {
    lane: LaneId,
    attempts: i32,
    worker: String,
    started_at: i64,
    cancelled: bool,
    caps: Option<String>,
}

impl Running {
    fn payer(&self) -> Payer {
        Payer { lane: self.lane, started_at: self.started_at, capped: self.caps.is_some() }
    }
}

/// Ends a run, and makes what follows a success. `None`: the lease is not what the caller thinks.
pub(super) fn settle(tx: &Connection, now: Timestamp, item: &Settle) -> Result<Option<Settled>> {
    let settled = end(tx, now, item).map_err(unavailable)?;
    if let (Some(settled), Some(next)) = (&settled, &item.follow_up)
        && settled.makes_follow_up()
    {
        work::insert(tx, now, next)?;
    }
    Ok(settled)
}

fn end(tx: &Connection, now: Timestamp, item: &Settle) -> rusqlite::Result<Option<Settled>> {
    let Some(running) = guarded(tx, now, item)? else {
        return repeated(tx, item);
    };
    // A stop that was asked for wins over everything but success.
    let stopped = running.cancelled && item.settlement.state != State::Succeeded;
    let state = if stopped { State::Cancelled } else { item.settlement.state };
    let outcome = if stopped { RunOutcome::Cancelled } else { item.settlement.outcome };
    let ticket = &item.ticket;
    // A success is told by the finished item itself.
    if state != State::Succeeded {
        record_run(tx, now, item, &running, outcome)?;
    }
    keep_evidence(tx, ticket, &item.evidence, &running.payer())?;
    if let Some(expanded) = &item.expanded {
        keep_content(tx, ticket.tenant, expanded)?;
    }
    let next_in_order = if state.is_terminal() {
        finish(tx, now, ticket.tenant, ticket.work, state, item.error.as_deref())?
    } else {
        wait_again(tx, now, item)?;
        None
    };
    let caps: Vec<&str> =
        running.caps.as_deref().map(|text| text.split(' ').collect()).unwrap_or_default();
    caps::free(tx, &caps)?;
    let freed_cap = !caps.is_empty();
    let lane = match &item.expanded {
        Some(expanded) if !state.is_terminal() => expanded.lane,
        _ => running.lane,
    };
    Ok(Some(Settled { state, lane, next_in_order, freed_cap, repeated: false }))
}

fn guarded(tx: &Connection, now: Timestamp, item: &Settle) -> rusqlite::Result<Option<Running>> {
    let ticket = &item.ticket;
    let row = tx
        .prepare_cached(
            "SELECT lane, attempts, worker, started_at, cancel_at, caps, lease_expires_at FROM work
             WHERE tenant = ?1 AND id = ?2 AND fence = ?3 AND state = 5",
        )?
        .query_row((ticket.tenant.0, Bits(ticket.work.to_bytes()), ticket.fence), |row| {
            let cancel_at: Option<i64> = row.get(4)?;
            let expires = time(row.get(6)?);
            let holds = match item.guard {
                Guard::Live => expires > now,
                Guard::ExpiredAt(seen) => expires == seen && expires <= now,
                Guard::CancelledBefore(moment) => cancel_at.is_some_and(|at| time(at) <= moment),
            };
            Ok((
                holds,
                Running {
                    lane: LaneId(row.get(0)?),
                    attempts: row.get(1)?,
                    worker: row.get(2)?,
                    started_at: row.get(3)?,
                    cancelled: cancel_at.is_some(),
                    caps: row.get(5)?,
                },
            ))
        })
        .optional()?;
    Ok(row.and_then(|(holds, running)| holds.then_some(running)))
}

/// The same call again, whose answer got lost: the same fence, and the outcome it asked for. The run's
/// record tells the worker's own end from a rescuer's that led to the same state.
fn repeated(tx: &Connection, item: &Settle) -> rusqlite::Result<Option<Settled>> {
    if item.guard != Guard::Live {
        return Ok(None);
    }
    let ticket = &item.ticket;
    let ended: Option<(i64, i16, i16, Option<String>)> = tx
        .prepare_cached(
            "SELECT w.lane, w.state, coalesce(a.outcome, 0), a.error
             FROM (SELECT id, fence, lane, state FROM work_done WHERE tenant = ?1 AND id = ?2
                   UNION ALL
                   SELECT id, fence, lane, state FROM work WHERE tenant = ?1 AND id = ?2) w
             LEFT JOIN attempts a ON a.work_id = w.id AND a.fence = w.fence
             WHERE w.fence = ?3 AND (w.state = 6 OR a.outcome IS NOT NULL)",
        )?
        .query_row((ticket.tenant.0, Bits(ticket.work.to_bytes()), ticket.fence), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let Some((lane, state, outcome, error)) = ended else {
        return Ok(None);
    };
    let (state, outcome) =
        (known(state, State::from_code)?, known(outcome, RunOutcome::from_code)?);
    let asked = &item.settlement;
    let same = (state, outcome) == (asked.state, asked.outcome);
    // A stop had been asked for, and this end became it. Its words tell it from the sweep's.
    let stopped = (state, outcome) == (State::Cancelled, RunOutcome::Cancelled)
        && asked.state != State::Succeeded
        && error == item.error;
    Ok((same || stopped).then_some(Settled {
        state,
        lane: LaneId(lane),
        next_in_order: None,
        freed_cap: false,
        repeated: true,
    }))
}

fn record_run(
    tx: &Connection,
    now: Timestamp,
    item: &Settle,
    running: &Running,
    outcome: RunOutcome,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO attempts (work_id, fence, tenant, attempt, worker, started_at, ended_at, outcome, error,
                               detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute((
        Bits(item.ticket.work.to_bytes()),
        item.ticket.fence,
        item.ticket.tenant.0,
        running.attempts,
        &running.worker,
        running.started_at,
        now.as_millis(),
        outcome as i16,
        &item.error,
        item.evidence.detail.as_ref().map(Sealed::as_bytes),
    ))?;
    Ok(())
}

/// Moves an item to the history, and makes what tells its outcome. Answers the lane of the item that stood behind it.
pub(super) fn finish(
    tx: &Connection,
    now: Timestamp,
    tenant: TenantId,
    work: WorkId,
    state: State,
    error: Option<&str>,
) -> rusqlite::Result<Option<LaneId>> {
    let key = (tenant.0, Bits(work.to_bytes()));
    tx.prepare_cached(
        "INSERT INTO work_done (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence,
                                event_id, scope, subject, order_key, meta, last_error, worker, started_at,
                                finished_at, callback_lane)
         SELECT tenant, id, kind, lane, ?3, run_at, attempts, max_attempts, fence, event_id, scope,
                subject, order_key, meta, coalesce(?4, last_error), worker, started_at, ?5,
                callback_lane
         FROM work WHERE tenant = ?1 AND id = ?2",
    )?
    .execute((key.0, key.1, state as i16, error, now.as_millis()))?;
    let (order, number, was_claimed, calls_back): (Option<Bits>, i64, bool, bool) = tx
        .prepare_cached(
            "DELETE FROM work WHERE tenant = ?1 AND id = ?2
             RETURNING CASE WHEN behind = 0 THEN order_key END, place, fence > 0,
                       callback_lane IS NOT NULL",
        )?
        .query_row(key, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    if calls_back {
        callbacks::make(tx, now, tenant, work)?;
    }
    let Some(order) = order.map(|order| OrderKey(order.0)) else {
        return Ok(None);
    };
    if was_claimed && number != NO_NUMBER {
        sequencing::ended(tx, order, number)?;
    }
    let_next_go(tx, now, order)
}

fn wait_again(tx: &Connection, now: Timestamp, item: &Settle) -> rusqlite::Result<()> {
    let settlement = &item.settlement;
    tx.prepare_cached(
        "UPDATE work SET state = ?3, run_at = ?4,
                attempts = CASE WHEN ?8 IS NULL THEN attempts - ?5 ELSE 0 END, held_reason = ?6,
                last_error = coalesce(?7, last_error), lease_expires_at = NULL, run_deadline = NULL,
                caps = NULL, lane = coalesce(?8, lane)
         WHERE tenant = ?1 AND id = ?2",
    )?
    .execute((
        item.ticket.tenant.0,
        Bits(item.ticket.work.to_bytes()),
        settlement.state as i16,
        now.after(settlement.delay).as_millis(),
        i32::from(settlement.give_back),
        settlement.held.map(|reason| reason as i16),
        &item.error,
        item.expanded.as_ref().map(|expanded| expanded.lane.0),
    ))?;
    Ok(())
}

/// An event whose body is gone by now stays without one.
fn keep_content(tx: &Connection, tenant: TenantId, expanded: &Expanded) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE bodies SET content = ?3 WHERE tenant = ?1 AND id = ?2")?
        .execute((tenant.0, Bits(expanded.event.to_bytes()), expanded.content.as_bytes()))?;
    tx.prepare_cached(
        "UPDATE events SET thread = coalesce(?3, thread) WHERE tenant = ?1 AND id = ?2",
    )?
    .execute((tenant.0, Bits(expanded.event.to_bytes()), &expanded.thread))?;
    Ok(())
}

fn keep_evidence(
    tx: &Connection,
    ticket: &Ticket,
    evidence: &Evidence,
    payer: &Payer,
) -> rusqlite::Result<()> {
    if evidence.result.is_none() && evidence.reply.is_none() && evidence.cost.is_none() {
        return Ok(());
    }
    let cost = evidence.cost.map(|cost| costs::tell(tx, ticket, payer, cost)).transpose()?;
    tx.prepare_cached(
        "INSERT INTO job_state (work_id, tenant, result, reply, cost) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (work_id) DO UPDATE SET result = coalesce(excluded.result, result),
           reply = coalesce(excluded.reply, reply), cost = coalesce(excluded.cost, cost)",
    )?
    .execute((
        Bits(ticket.work.to_bytes()),
        ticket.tenant.0,
        evidence.result.as_ref().map(Sealed::as_bytes),
        evidence.reply.as_ref().map(Sealed::as_bytes),
        cost,
    ))?;
    Ok(())
}

/// A live lease, and what it is about. Whether a stop was asked for comes with it.
pub(super) struct Live {
    pub scope: Ulid,
    pub cancel_requested: bool,
}

pub(super) fn live(tx: &Connection, now: Timestamp, ticket: &Ticket) -> Result<Live> {
    tx.prepare_cached(
        "SELECT scope, cancel_at FROM work
         WHERE tenant = ?1 AND id = ?2 AND fence = ?3 AND state = 5 AND lease_expires_at > ?4",
    )
    .and_then(|mut select| {
        select
            .query_row(
                (ticket.tenant.0, Bits(ticket.work.to_bytes()), ticket.fence, now.as_millis()),
                |row| {
                    Ok(Live {
                        scope: Ulid::from_bytes(row.get::<_, Bits>(0)?.0),
                        cancel_requested: row.get::<_, Option<i64>>(1)?.is_some(),
                    })
                },
            )
            .optional()
    })
    .map_err(unavailable)?
    .ok_or(StoreError::LeaseLost)
}

fn add_progress(tx: &Connection, now: Timestamp, progress: &Progress) -> rusqlite::Result<()> {
    let work = Bits(progress.ticket.work.to_bytes());
    let seq: i64 = tx
        .prepare_cached(
            "INSERT INTO progress (work_id, tenant, seq, at, content)
             SELECT ?1, ?4, coalesce(max(seq), 0) + 1, ?2, ?3 FROM progress WHERE work_id = ?1
             RETURNING seq",
        )?
        .query_row(
            (work, now.as_millis(), progress.content.as_bytes(), progress.ticket.tenant.0),
            |row| row.get(0),
        )?;
    tx.prepare_cached("DELETE FROM progress WHERE work_id = ?1 AND seq <= ?2")?
        .execute((work, seq - limits::PROGRESS_KEPT))?;
    Ok(())
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
