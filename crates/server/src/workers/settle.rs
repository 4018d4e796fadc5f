//! The end of a run: what follows is decided by the domain, done by the store, and told to the queue.

use std::sync::Arc;
use std::time::Instant;

use wakepost_domain::backoff::Backoff;
use wakepost_domain::figures::Figure;
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::run::RunOutcome;
use wakepost_domain::transition::{self, Ending};
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{SourceId, TenantId, Timestamp};
use wakepost_store::Result;
use wakepost_store::moves::{Evidence, Expanded, Guard, NewWork, Settle, Settled};

use crate::context::Context;
use crate::telemetry::metrics::{Kind, KindState};
use crate::telemetry::story;
use crate::to_the_end::ToTheEnd;

/// A run that came to its end.
#[derive(Debug)]
pub struct End {
    /// Its lease.
    pub ticket: Ticket,
    /// How it ended.
    pub ending: Ending,
    /// What went wrong.
    pub error: Option<String>,
    /// What it leaves behind.
    pub evidence: Evidence,
    /// What follows a success.
    pub follow_up: Option<Box<NewWork>>,
    /// What it found out about the event, if it was for that.
    pub expanded: Option<Expanded>,
}

impl End {
    /// The end of a run that leaves nothing behind.
    pub fn plain(ticket: Ticket, ending: Ending, error: Option<String>) -> End {
        let evidence = Evidence::default();
        End { ticket, ending, error, evidence, follow_up: None, expanded: None }
    }
}

/// As [`settle`], also if whoever reports the ends hangs up: else they would be stored, and nobody told of what may run
/// next.
pub async fn settle_to_the_end(context: &Arc<Context>, ends: Vec<End>) -> Vec<Result<Settled>> {
    let context = context.clone();
    ToTheEnd::of(async move { settle(&context, ends).await }).await
}

/// Ends runs whose lease is live. Each has its own answer.
pub async fn settle(context: &Context, ends: Vec<End>) -> Vec<Result<Settled>> {
    let mut batch = Vec::with_capacity(ends.len());
    for end in ends {
        let backoff = match end.ending {
            Ending::Failed { retryable: true, retry_after: None } => {
                backoff_of(context, &end.ticket).await
            }
            _ => Backoff::default(),
        };
        let End { ticket, ending, error, evidence, follow_up, expanded } = end;
        let decided = decide(context, ticket, ending, &backoff, Guard::Live, error, evidence);
        batch.push(Settle { follow_up, expanded, ..decided });
    }
    settle_decided(context, batch).await
}

/// What follows a run, as the store is told.
pub fn decide(
    context: &Context,
    ticket: Ticket,
    ending: Ending,
    backoff: &Backoff,
    guard: Guard,
    error: Option<String>,
    evidence: Evidence,
) -> Settle {
    let chance = context.entropy.fraction();
    let settlement =
        transition::settle(ending, ticket.attempt, ticket.max_attempts, backoff, chance);
    Settle { ticket, guard, settlement, error, evidence, follow_up: None, expanded: None }
}

/// Ends runs as decided, and tells the queue about what may run next.
pub async fn settle_decided(context: &Context, batch: Vec<Settle>) -> Vec<Result<Settled>> {
    if batch.is_empty() {
        return Vec::new();
    }
    let tickets: Vec<Ticket> = batch.iter().map(|item| item.ticket).collect();
    let at_once: Vec<bool> = batch.iter().map(|item| item.settlement.delay.is_zero()).collect();
    let follow_ups: Vec<Option<LaneId>> =
        batch.iter().map(|item| item.follow_up.as_ref().map(|next| next.lane)).collect();
    let runs: Vec<Run> = batch.iter().map(Run::of).collect();
    let began = Instant::now();
    let settled = context.store.settle(batch).await;
    context.metrics.stored("settle", began.elapsed());
    count(context, &runs, &settled).await;
    let mut lanes = Vec::new();
    let mut tenants = Vec::new();
    let what = tickets.iter().zip(at_once).zip(follow_ups);
    for (((ticket, at_once), follow_up), settled) in what.zip(&settled) {
        let Ok(settled) = settled else { continue };
        if settled.repeated {
            continue;
        }
        let ready = matches!(settled.state, State::Pending | State::Retrying) && at_once;
        let again = ready.then_some(settled.lane);
        let made = follow_up.filter(|_| settled.makes_follow_up());
        for lane in again.into_iter().chain(settled.next_in_order).chain(made) {
            if !lanes.contains(&lane) {
                lanes.push(lane);
            }
        }
        if settled.freed_cap && !tenants.contains(&ticket.tenant) {
            tenants.push(ticket.tenant);
        }
    }
    // Hints that get lost here are found again by the resync.
    if !lanes.is_empty() {
        let _ = context.queue.hint_all_nodes(&lanes).await;
    }
    for tenant in tenants {
        let _ = context.queue.cap_freed(tenant).await;
    }
    settled
}

/// What is counted of a run.
struct Run {
    tenant: TenantId,
    ticket: Ticket,
    is_first: bool,
    outcome: RunOutcome,
    /// It was only to see whether its receiver is back: that counts towards nothing.
    is_probe: bool,
}

impl Run {
    fn of(settle: &Settle) -> Run {
        let Settle { ticket, settlement, .. } = settle;
        Run {
            tenant: ticket.tenant,
            ticket: *ticket,
            is_first: ticket.attempt <= 1,
            outcome: settlement.outcome,
            is_probe: settlement.give_back && settlement.outcome == RunOutcome::Failed,
        }
    }
}

/// Counts runs that ended now.
async fn count(context: &Context, runs: &[Run], settled: &[Result<Settled>]) {
    let ended = || {
        let both = runs.iter().zip(settled);
        both.filter_map(|(run, settled)| Some((run, settled.as_ref().ok()?)))
            .filter(|(_, settled)| !settled.repeated)
    };
    let mut ids: Vec<LaneId> = ended().map(|(_, settled)| settled.lane).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut lanes = context.directory.lanes(&ids).await.unwrap_or_default();
    lanes.sort_unstable_by_key(|lane| lane.id);
    let now = context.now();
    for (run, settled) in ended() {
        let place = lanes.binary_search_by_key(&settled.lane, |lane| lane.id);
        let Ok(lane) = place.map(|place| &lanes[place]) else { continue };
        measure(context, run, lane.key.kind, settled.state, now);
        story::ended(context, &run.ticket, lane.key.kind, settled.state).await;
        let (succeeded, failed, dead) = match lane.key.kind {
            WorkKind::Job => (Figure::JobsSucceeded, Figure::JobsFailed, Figure::JobsDead),
            WorkKind::Delivery => {
                (Figure::DeliveriesSucceeded, Figure::DeliveriesFailed, Figure::DeliveriesDead)
            }
            WorkKind::Reply | WorkKind::Callback => continue,
        };
        let has_failed = matches!(run.outcome, RunOutcome::Failed | RunOutcome::LeaseExpired);
        let has_succeeded = settled.state == State::Succeeded;
        if run.is_probe || settled.state == State::Cancelled || !has_failed && !has_succeeded {
            continue;
        }
        if let (WorkKind::Job, Some(origin)) = (lane.key.kind, lane.key.origin) {
            context.streaks.note(run.tenant, SourceId(origin), has_succeeded);
        }
        let is_first = run.is_first && lane.key.kind == WorkKind::Delivery;
        context.tally.note(run.tenant, now, |figures| {
            figures.count(if has_succeeded { succeeded } else { failed }, 1);
            figures.count(dead, u64::from(settled.state == State::DeadLetter));
            figures.count(Figure::FirstAttempts, u64::from(is_first));
            let taken = is_first && has_succeeded;
            figures.count(Figure::FirstAttemptsSucceeded, u64::from(taken));
        });
    }
}

fn measure(context: &Context, run: &Run, kind: WorkKind, state: State, now: Timestamp) {
    let (metrics, kind) = (&context.metrics, kind.as_str());
    metrics.runs.get_or_create(&KindState { kind, state: state.as_str() }).inc();
    let took = now.since(run.ticket.started_at).as_secs_f64();
    metrics.run_seconds.get_or_create(&Kind { kind }).observe(took);
    match state {
        State::Retrying => metrics.retries.get_or_create(&Kind { kind }).inc(),
        State::DeadLetter => metrics.dead_letters.get_or_create(&Kind { kind }).inc(),
        _ => 0,
    };
}

/// The rules for a failed item are its lane's; without them, the usual ones.
async fn backoff_of(context: &Context, ticket: &Ticket) -> Backoff {
    let Ok(Some(row)) = context.store.work(ticket.tenant, ticket.work).await else {
        return Backoff::default();
    };
    let Ok(mut lanes) = context.directory.lanes(&[row.lane]).await else {
        return Backoff::default();
    };
    match lanes.pop() {
        Some(lane) => match context.directory.policy(&lane).await {
            Ok(policy) => policy.backoff,
            Err(_) => Backoff::default(),
        },
        None => Backoff::default(),
    }
}
