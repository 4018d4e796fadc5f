//! Ending runs, however they came: what follows is decided, this does it.

use rusqlite::{Connection, OptionalExtension};
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::run::RunOutcome;
use wakepost_domain::sequence::NO_NUMBER;
use wakepost_domain::work::State;
use wakepost_domain::{TenantId, Timestamp, WorkId};

use super::callbacks;
use super::caps;
use super::costs::{self, Payer};
use super::ordering::let_next_go;
use super::rows::{Bits, known, time, unavailable};
use super::sequencing;
use super::work;
use crate::error::Result;
use crate::failpoint;
use crate::moves::{Evidence, Expanded, Guard, OrderKey, Settle, Settled};
use crate::vault::Sealed;

/// The places of tests that some ends pass.
pub fn pass_end(item: &Settle) -> Result<()> {
    if item.guard != Guard::Live {
        failpoint::pass("rescue.mid_batch")?;
    }
    if item.settlement.outcome == RunOutcome::Failed {
        failpoint::pass("fail.before_commit")?;
    }
    Ok(())
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
pub fn settle(tx: &Connection, now: Timestamp, item: &Settle) -> Result<Option<Settled>> {
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
pub fn finish(
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

pub fn keep_evidence(
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
