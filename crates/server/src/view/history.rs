//! The states an item went through, concluded from what is stored of it: its row and its ended runs. Nothing is
//! written for this when a state is entered, which would cost every claim and every end a row.

use serde::Serialize;
use wakepost_domain::lease::{fence_of, run_id};
use wakepost_domain::run::{Run, RunOutcome};
use wakepost_domain::work::{HeldReason, State};
use wakepost_domain::{RunId, Timestamp};
use wakepost_store::moves::{HOP_LIMIT, WorkRow};

/// A state that an item entered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entered {
    /// Its place among all of the item's states. It follows from the claim that led to it, so it is the same
    /// whoever concludes it, and whenever.
    #[serde(skip)]
    pub place: u64,
    /// The state.
    pub status: State,
    /// How often the item had been tried.
    pub attempt: i32,
    /// Why.
    pub reason: Option<String>,
    /// The run that began or ended with it.
    pub run_id: Option<RunId>,
    /// Who runs it.
    pub worker: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// What a claim can lead to, in its order: the run, its end, an operator's word, a hold while it waited for the next, and
/// an end without a run.
const BEGINS: u64 = 0;
const ENDS: u64 = 1;
const LET_GO: u64 = 2;
const SET_ASIDE: u64 = 3;
const GIVEN_UP: u64 = 4;

fn place(fence: i32, step: u64) -> u64 {
    u64::from(fence.max(0).unsigned_abs()) * (GIVEN_UP + 1) + step
}

/// An item whose time is this much later than itself was made for later; less is the way into the database.
const LATER_MS: i64 = 1000;

/// The states of an item, in their order. `runs` may be newer than `row`.
pub fn states(row: &WorkRow, runs: &[Run]) -> Vec<Entered> {
    let running = row.state == State::Running;
    let ended = if running { row.fence - 1 } else { row.fence };
    let mut entered = vec![first(row)];
    if row.meta.flags.iter().any(|flag| flag == HOP_LIMIT) {
        let released = row.fence > 0 || row.state.is_claimable();
        let at = runs.first().map_or(row.run_at, |run| run.started_at);
        entered.extend(released.then(|| waiting(place(0, LET_GO), 0, at)));
    }
    let runs = runs.iter().map(|run| (fence_of(row.id, run.id), run));
    let mut runs = runs.filter(|(fence, _)| *fence <= ended).peekable();
    while let Some((fence, run)) = runs.next() {
        entered.push(Entered {
            place: place(fence, BEGINS),
            status: State::Running,
            attempt: run.attempt,
            reason: None,
            run_id: Some(run.id),
            worker: Some(run.worker.clone()),
            at: run.started_at,
        });
        let next = runs.peek().map(|(_, next)| next.started_at);
        let next = next.or(row.started_at.filter(|_| running));
        entered.extend(after(row, fence, run, next));
    }
    if let (true, Some(at)) = (running, row.started_at) {
        entered.push(Entered {
            place: place(row.fence, BEGINS),
            status: State::Running,
            attempt: row.attempts,
            reason: None,
            run_id: Some(run_id(row.id, row.fence, at)),
            worker: row.worker.clone(),
            at,
        });
    }
    if let Some(why) = held_while_it_waited(row) {
        // Once it was let go nothing tells of it: the next run follows what went before.
        entered.push(Entered {
            place: place(row.fence, SET_ASIDE),
            status: State::Held,
            attempt: row.attempts,
            reason: Some(why.as_str().to_owned()),
            run_id: None,
            worker: None,
            at: row.run_at,
        });
    }
    let told = entered.iter().any(|state| state.status == row.state);
    if row.state.is_terminal() && !told {
        entered.push(Entered {
            place: place(row.fence, GIVEN_UP),
            status: row.state,
            attempt: row.attempts,
            reason: row.last_error.clone(),
            run_id: None,
            worker: None,
            at: row.finished_at.unwrap_or(row.run_at),
        });
    }
    entered
}

/// Why an item is held that no run of its own, nor how it was made, got there.
fn held_while_it_waited(row: &WorkRow) -> Option<HeldReason> {
    let while_waiting =
        |why: &HeldReason| matches!(why, HeldReason::Budget | HeldReason::UnknownKind);
    row.held.filter(|why| row.state == State::Held && while_waiting(why))
}

/// What it was made as. Of one that ran more than once, whether it was made for later is not known any more.
fn first(row: &WorkRow) -> Entered {
    let held = row.meta.flags.iter().any(|flag| flag == HOP_LIMIT);
    let made_at = row.id.0.time();
    let later = row.run_at.as_millis() - made_at.as_millis() > LATER_MS;
    // Whatever makes an item wait again gives it another time.
    let first_time = match row.state {
        State::Running | State::Succeeded | State::DeadLetter => row.fence <= 1,
        _ => row.fence == 0,
    };
    let status = match row.fence {
        _ if held => State::Held,
        0 if held_while_it_waited(row).is_some() => State::Pending,
        0 if !row.state.is_terminal() => row.state,
        _ if first_time && later => State::Scheduled,
        _ => State::Pending,
    };
    let reason = held.then(|| HOP_LIMIT.to_owned());
    Entered {
        place: place(0, ENDS),
        status,
        attempt: 0,
        reason,
        run_id: None,
        worker: None,
        at: made_at,
    }
}

fn waiting(place: u64, attempt: i32, at: Timestamp) -> Entered {
    let status = State::Pending;
    Entered { place, status, attempt, reason: None, run_id: None, worker: None, at }
}

/// What the end of a run led to. `next`: when the run after it began.
fn after(row: &WorkRow, fence: i32, run: &Run, next: Option<Timestamp>) -> Vec<Entered> {
    // Nothing has happened to it since: the row itself tells.
    let is_last = fence == row.fence;
    let status = match run.outcome {
        RunOutcome::Succeeded => State::Succeeded,
        RunOutcome::Cancelled => State::Cancelled,
        RunOutcome::Failed | RunOutcome::LeaseExpired => match row.state {
            State::DeadLetter if is_last => State::DeadLetter,
            _ => State::Retrying,
        },
        RunOutcome::AwaitingApproval => State::AwaitingApproval,
        RunOutcome::Held => State::Held,
        RunOutcome::HandedBack | RunOutcome::Interrupted => match row.state {
            State::Scheduled if is_last => State::Scheduled,
            _ => State::Pending,
        },
    };
    let held = row.held.filter(|_| is_last && status == State::Held);
    let ended = Entered {
        place: place(fence, ENDS),
        status,
        attempt: run.attempt,
        reason: held.map(|why| why.as_str().to_owned()).or_else(|| run.error.clone()),
        run_id: Some(run.id),
        worker: None,
        at: run.ended_at,
    };
    let stopped = matches!(status, State::Held | State::AwaitingApproval);
    let let_go = match next {
        Some(at) => Some(at),
        None => (is_last && row.state.is_claimable()).then_some(row.run_at),
    };
    let let_go = let_go.filter(|_| stopped);
    let let_go = let_go.map(|at| waiting(place(fence, LET_GO), run.attempt, at));
    [Some(ended), let_go].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use wakepost_domain::lane::LaneId;
    use wakepost_domain::work::WorkKind;
    use wakepost_domain::{TenantId, Ulid, WorkId};
    use wakepost_store::moves::WorkMeta;

    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn row(state: State, fence: i32) -> WorkRow {
        WorkRow {
            id: WorkId(Ulid::from_parts(at(1_000), 77)),
            tenant: TenantId(1),
            kind: WorkKind::Job,
            lane: LaneId(1),
            state,
            run_at: at(1_000),
            attempts: fence,
            max_attempts: 3,
            fence,
            event: None,
            scope: Ulid::MIN,
            subject: None,
            order: None,
            behind: false,
            held: None,
            last_error: None,
            meta: WorkMeta::default(),
            worker: Some("ada".to_owned()),
            started_at: (state == State::Running).then(|| at(9_000)),
            lease_expires_at: None,
            cancel_requested: false,
            finished_at: state.is_terminal().then(|| at(10_000)),
            purged_by: None,
            replayed_as: None,
        }
    }

    fn run(fence: i32, outcome: RunOutcome) -> Run {
        let started_at = at(1_000 + i64::from(fence) * 1_000);
        Run {
            id: run_id(row(State::Pending, 0).id, fence, started_at),
            attempt: fence,
            worker: "ada".to_owned(),
            started_at,
            ended_at: at(started_at.as_millis() + 500),
            outcome,
            cost: None,
            error: (outcome != RunOutcome::Succeeded).then(|| format!("error {fence}")),
        }
    }

    fn words(row: &WorkRow, runs: &[Run]) -> Vec<&'static str> {
        let entered = states(row, runs);
        assert!(entered.is_sorted_by(|a, b| a.place < b.place), "{entered:?}");
        entered.iter().map(|state| state.status.as_str()).collect()
    }

    #[test]
    fn a_jobs_life_is_told_from_its_runs() {
        use RunOutcome::*;
        assert_eq!(words(&row(State::Pending, 0), &[]), ["pending"]);
        assert_eq!(words(&row(State::Running, 1), &[]), ["pending", "running"]);
        assert_eq!(
            words(&row(State::Succeeded, 2), &[run(1, Failed), run(2, Succeeded)]),
            ["pending", "running", "retrying", "running", "succeeded"]
        );
        assert_eq!(
            words(&row(State::DeadLetter, 2), &[run(1, LeaseExpired), run(2, Failed)]),
            ["pending", "running", "retrying", "running", "dead_letter"]
        );
        assert_eq!(
            words(&row(State::Cancelled, 1), &[run(1, Failed)]),
            ["pending", "running", "retrying", "cancelled"],
            "given up while it waited"
        );
        assert_eq!(
            words(&row(State::Cancelled, 1), &[run(1, Cancelled)]),
            ["pending", "running", "cancelled"]
        );
        assert_eq!(words(&row(State::Cancelled, 0), &[]), ["pending", "cancelled"]);
    }

    #[test]
    fn what_was_made_for_later_says_so_while_that_is_known() {
        let later = |state, fence| {
            let mut row = row(state, fence);
            row.run_at = at(60_000);
            row
        };
        assert_eq!(words(&later(State::Scheduled, 0), &[]), ["scheduled"]);
        assert_eq!(words(&later(State::Running, 1), &[]), ["scheduled", "running"]);
        assert_eq!(words(&later(State::Cancelled, 0), &[]), ["scheduled", "cancelled"]);
        let waits = ["pending", "running", "retrying"];
        assert_eq!(words(&later(State::Retrying, 1), &[run(1, RunOutcome::Failed)]), waits);
    }

    #[test]
    fn what_an_operator_let_go_on_was_pending_in_between() {
        let mut held = row(State::Held, 1);
        held.held = Some(HeldReason::InDoubt);
        let entered = states(&held, &[run(1, RunOutcome::Held)]);
        assert_eq!(entered.last().unwrap().reason.as_deref(), Some("in_doubt"));
        assert_eq!(words(&held, &[run(1, RunOutcome::Held)]), ["pending", "running", "held"]);
        let released = row(State::Pending, 1);
        let story = ["pending", "running", "held", "pending"];
        assert_eq!(words(&released, &[run(1, RunOutcome::Held)]), story);
        let runs = [run(1, RunOutcome::Held)];
        let story = ["pending", "running", "held", "pending", "running"];
        assert_eq!(words(&row(State::Running, 2), &runs), story);
    }

    #[test]
    fn a_job_that_is_held_for_its_budget_was_waiting_before() {
        let mut held = row(State::Held, 0);
        held.held = Some(HeldReason::Budget);
        assert_eq!(words(&held, &[]), ["pending", "held"]);
        let waited = states(&row(State::Pending, 0), &[]);
        let places =
            |states: &[Entered]| states.iter().map(|state| state.place).collect::<Vec<_>>();
        assert!(places(&states(&held, &[])).starts_with(&places(&waited)));
        assert!(places(&states(&row(State::Running, 1), &[]))[1] > places(&states(&held, &[]))[1]);
        let mut again = row(State::Held, 1);
        again.held = Some(HeldReason::Budget);
        let story = ["pending", "running", "retrying", "held"];
        assert_eq!(words(&again, &[run(1, RunOutcome::Failed)]), story);
    }

    #[test]
    fn a_job_over_the_hop_limit_begins_held() {
        let flagged = |state, fence| {
            let mut row = row(state, fence);
            row.meta.flags.push(HOP_LIMIT.to_owned());
            row
        };
        assert_eq!(words(&flagged(State::Held, 0), &[]), ["held"]);
        assert_eq!(words(&flagged(State::Pending, 0), &[]), ["held", "pending"]);
        assert_eq!(words(&flagged(State::Running, 1), &[]), ["held", "pending", "running"]);
        assert_eq!(words(&flagged(State::Cancelled, 0), &[]), ["held", "cancelled"]);
    }

    #[test]
    fn what_was_told_keeps_its_place_while_the_job_goes_on() {
        use RunOutcome::*;
        let runs = [run(1, Failed), run(2, Held), run(3, Succeeded)];
        let stages = [
            (row(State::Pending, 0), 0),
            (row(State::Running, 1), 0),
            (row(State::Retrying, 1), 1),
            (row(State::Running, 2), 1),
            (row(State::Held, 2), 2),
            (row(State::Pending, 2), 2),
            (row(State::Running, 3), 2),
            (row(State::Succeeded, 3), 3),
        ];
        let places = |row: &WorkRow, runs: &[Run]| -> Vec<(u64, State)> {
            states(row, runs).iter().map(|state| (state.place, state.status)).collect()
        };
        let whole = places(&stages[7].0, &runs);
        for (index, (row, ended)) in stages.iter().enumerate() {
            assert_eq!(places(row, &runs[..*ended]), whole[..=index], "stage {index}");
            // Runs that are read later than the row add nothing.
            assert_eq!(places(row, &runs[..(*ended + 1).min(3)]), whole[..=index]);
        }
    }
}
