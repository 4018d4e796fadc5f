//! Ends: of runs and of items, what they lead to, and what they let go.

use std::time::Duration;

use wakepost_domain::backoff::DELIVERY_ATTEMPTS;
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::{Ticket, run_id};
use wakepost_domain::run::{Run, RunOutcome};
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State, WorkKind};
use wakepost_domain::{Timestamp, WorkId};
use wakepost_store::moves::{
    Expired, Guard, JobState, OrderKey, Settle, Settled, WorkMeta, WorkRow, callback,
};

use super::{Item, Model};
use crate::call::{Answer, Refused, tell};

/// How long a failed attempt waits, by its number. Half-way through the jitter it is what the policy says.
const BACKOFF_S: [u64; 3] = [10, 60, 300];

/// What an end leads to.
struct Next {
    state: State,
    outcome: RunOutcome,
    delay: Duration,
    given_back: bool,
    held: Option<HeldReason>,
}

fn next(ending: Ending, attempt: i32, max_attempts: i32) -> Next {
    let to = |state, outcome| Next {
        state,
        outcome,
        delay: Duration::ZERO,
        given_back: false,
        held: None,
    };
    let waits = |state, outcome| Next { given_back: true, ..to(state, outcome) };
    let is_last = attempt >= max_attempts;
    match ending {
        Ending::Succeeded => to(State::Succeeded, RunOutcome::Succeeded),
        Ending::Failed { retryable: true, retry_after } if !is_last => {
            let usual = Duration::from_secs(BACKOFF_S[(attempt as usize - 1).min(2)]);
            let delay = retry_after.unwrap_or(usual);
            Next { delay, ..to(State::Retrying, RunOutcome::Failed) }
        }
        Ending::Failed { .. } => to(State::DeadLetter, RunOutcome::Failed),
        Ending::Expired if is_last => to(State::DeadLetter, RunOutcome::LeaseExpired),
        Ending::Expired => to(State::Retrying, RunOutcome::LeaseExpired),
        Ending::ProbeFailed => waits(State::Retrying, RunOutcome::Failed),
        Ending::HandedBack => waits(State::Pending, RunOutcome::HandedBack),
        Ending::Held(reason) => Next { held: Some(reason), ..waits(State::Held, RunOutcome::Held) },
        Ending::Proposed => waits(State::AwaitingApproval, RunOutcome::AwaitingApproval),
        Ending::Cancelled => to(State::Cancelled, RunOutcome::Cancelled),
        Ending::Interrupted { quiet } => {
            let state = if quiet.is_zero() { State::Pending } else { State::Scheduled };
            Next { delay: quiet, ..waits(state, RunOutcome::Interrupted) }
        }
    }
}

impl Model {
    pub(super) fn settle(&mut self, settle: &Settle, ending: Ending) -> Answer {
        let ticket = &settle.ticket;
        self.touched.insert(ticket.work);
        let asked = next(ending, ticket.attempt, ticket.max_attempts);
        let item = self.items.get(&ticket.work).filter(|item| item.row.tenant == ticket.tenant);
        let Some(item) = item else { return Err(Refused::LeaseLost) };
        if !self.holds(item, settle) {
            return repeated(item, settle, &asked);
        }
        // Whoever was asked to stop is stopped by every end but success.
        let stops = item.cancel_at.is_some() && asked.state != State::Succeeded;
        let stop = Next { given_back: false, ..next(Ending::Cancelled, 1, 1) };
        let next = if stops { stop } else { asked };
        let (lane, freed_cap) = (item.row.lane, !item.caps.is_empty());
        if let Some(cost) = settle.evidence.cost {
            self.cost(ticket.work, cost);
        }
        self.keep(settle);
        if let Some(detail) = &settle.evidence.detail
            && next.state != State::Succeeded
        {
            self.item(ticket.work).details.insert(ticket.fence, (ticket.run_id(), detail.clone()));
        }
        let next_in_order = self.end_run(ticket.work, &next, settle.error.as_deref());
        if let Some(follow_up) = &settle.follow_up
            && next.state == State::Succeeded
        {
            self.insert(follow_up);
        }
        tell(Ok(Settled { state: next.state, lane, next_in_order, freed_cap, repeated: false }))
    }

    /// Whether the run may be ended on this condition.
    fn holds(&self, item: &Item, settle: &Settle) -> bool {
        let is_run = item.is_running() && item.row.fence == settle.ticket.fence;
        let expires = item.row.lease_expires_at;
        is_run
            && match settle.guard {
                Guard::Live => expires.is_some_and(|end| end > self.now),
                Guard::ExpiredAt(seen) => expires == Some(seen) && seen <= self.now,
                Guard::CancelledBefore(at) => item.cancel_at.is_some_and(|asked| asked <= at),
            }
    }

    /// When the next lease is over.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.items.values().filter_map(|item| item.row.lease_expires_at).min()
    }

    /// What a rescuer has to end: leases that are over, and runs that were asked to stop so long ago.
    pub fn expired(&self, patience: Duration) -> Vec<Expired> {
        let is_over = |item: &&Item| {
            let over = item.row.lease_expires_at.is_some_and(|end| end <= self.now);
            let stops = item.cancel_at.is_some_and(|asked| asked <= self.now.before(patience));
            item.is_running() && (over || stops)
        };
        let over = self.items.values().filter(is_over);
        over.map(|item| {
            let row = &item.row;
            let ticket = Ticket {
                work: row.id,
                tenant: row.tenant,
                fence: row.fence,
                attempt: row.attempts,
                max_attempts: row.max_attempts,
                lease_s: 0,
                started_at: row.started_at.expect("it runs"),
                ordered: row.order.is_some(),
            };
            Expired {
                ticket,
                lane: row.lane,
                lease_expires_at: row.lease_expires_at.expect("it runs"),
                cancel_requested: item.cancel_at.is_some(),
            }
        })
        .collect()
    }

    fn keep(&mut self, settle: &Settle) {
        let evidence = &settle.evidence;
        if evidence.result.is_none() && evidence.reply.is_none() {
            return;
        }
        let kept = self.item(settle.ticket.work).kept.get_or_insert_with(JobState::default);
        kept.result = evidence.result.clone().or(kept.result.take());
        kept.reply = evidence.reply.clone().or(kept.reply.take());
    }

    /// Ends a run that has to wait: for a person, or with a message that joins it.
    pub(super) fn end_for_person(&mut self, id: WorkId, ending: Ending, error: Option<&str>) {
        let row = &self.item(id).row;
        let next = next(ending, row.attempts, row.max_attempts);
        self.end_run(id, &next, error);
    }

    /// Answers the lane of the next item of its order key, if that may go now.
    fn end_run(&mut self, id: WorkId, next: &Next, error: Option<&str>) -> Option<LaneId> {
        let now = self.now;
        let item = self.item(id);
        let (fence, row) = (item.row.fence, &mut item.row);
        let started_at = row.started_at.expect("it ran");
        let run = Run {
            id: run_id(id, fence, started_at),
            attempt: row.attempts,
            worker: row.worker.clone().expect("it ran"),
            started_at,
            ended_at: now,
            outcome: next.outcome,
            error: error.map(str::to_owned),
            cost: None,
        };
        // That of a success is told by the item itself.
        if next.state != State::Succeeded {
            item.runs.insert(fence, run);
        }
        if next.state.is_terminal() {
            return self.finish(id, next.state, error);
        }
        row.state = next.state;
        row.run_at = now.after(next.delay);
        row.attempts -= i32::from(next.given_back);
        row.held = next.held;
        row.last_error = error.map(str::to_owned).or(row.last_error.take());
        row.lease_expires_at = None;
        item.deadline = None;
        item.caps.clear();
        None
    }

    /// An item is through: its callback is made, and the next of its order key may go.
    pub(super) fn finish(&mut self, id: WorkId, to: State, error: Option<&str>) -> Option<LaneId> {
        let now = self.now;
        let item = self.item(id);
        (item.deadline, item.cancel_at) = (None, None);
        item.caps.clear();
        let row = &mut item.row;
        let was_first = !row.behind;
        row.state = to;
        row.finished_at = Some(now);
        row.last_error = error.map(str::to_owned).or(row.last_error.take());
        (row.lease_expires_at, row.held) = (None, None);
        (row.behind, row.cancel_requested) = (false, false);
        let order = row.order.filter(|_| was_first);
        let row = row.clone();
        if let Some(lane) = row.meta.callback_lane {
            self.call_back(&row, lane, now);
        }
        order.and_then(|order| self.let_next_go(order))
    }

    fn call_back(&mut self, job: &WorkRow, lane: LaneId, now: Timestamp) {
        let id = callback::id(job.id, now);
        let meta = WorkMeta { parent_id: Some(job.id.text(WorkKind::Job)), ..WorkMeta::default() };
        let told = WorkRow {
            id,
            kind: WorkKind::Callback,
            lane,
            state: State::Scheduled,
            run_at: now,
            attempts: 0,
            max_attempts: DELIVERY_ATTEMPTS as i32,
            fence: 0,
            scope: id.0,
            order: None,
            behind: false,
            last_error: None,
            meta,
            worker: None,
            started_at: None,
            finished_at: None,
            ..job.clone()
        };
        assert!(self.items.insert(id, Item::new(told)).is_none(), "a second callback");
        self.touched.insert(id);
    }

    fn let_next_go(&mut self, order: OrderKey) -> Option<LaneId> {
        let next = self.in_order(order).find(|item| item.row.behind)?.row.id;
        let now = self.now;
        let row = &mut self.item(next).row;
        row.behind = false;
        row.run_at = row.run_at.max(now);
        Some(row.lane)
    }
}

/// The same call again, whose answer got lost.
fn repeated(item: &Item, settle: &Settle, asked: &Next) -> Answer {
    let (row, ticket) = (&item.row, &settle.ticket);
    if settle.guard != Guard::Live || row.fence != ticket.fence {
        return Err(Refused::LeaseLost);
    }
    let run = item.runs.get(&row.fence);
    let outcome = match (row.state, run) {
        (State::Succeeded, _) => RunOutcome::Succeeded,
        (_, Some(run)) => run.outcome,
        (_, None) => return Err(Refused::LeaseLost),
    };
    let is_same = (row.state, outcome) == (asked.state, asked.outcome);
    let was_stopped = (row.state, outcome) == (State::Cancelled, RunOutcome::Cancelled)
        && asked.state != State::Succeeded
        && run.is_some_and(|run| run.error == settle.error);
    if !is_same && !was_stopped {
        return Err(Refused::LeaseLost);
    }
    let (state, lane) = (row.state, row.lane);
    tell(Ok(Settled { state, lane, next_in_order: None, freed_cap: false, repeated: true }))
}
