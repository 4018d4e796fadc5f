//! One call of the store, whole: made by the plan, done by the store, and judged by the model.

use std::fmt::Debug;

use wakepost_domain::budget::Budget;
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::State;
use wakepost_domain::{EventId, OperationId, ScheduleId, SourceId, TenantId, Ulid, WorkId};
use wakepost_store::moves::{
    Ask, AuditEntry, Begin, CancelOutcome, ClaimLane, ClaimRequest, Claimed, Decide, Firing,
    Heartbeat, Item, NewDelivery, NewEvent, NewWork, Overdue, OwnWalk, Progress, Replay, Resolve,
    Schedule, Settle, WebhookRecord,
};
use wakepost_store::vault::Sealed;
use wakepost_store::{Store, StoreError};

#[derive(Debug, Clone)]
pub enum Call {
    Accept(Box<NewEvent>),
    Create(Vec<NewWork>),
    Publish(Vec<NewEvent>),
    UpdateWebhook(Box<WebhookRecord>),
    EndWaiting(LaneId, State, u32),
    AddDeliveries(TenantId, Vec<(EventId, NewDelivery)>),
    Claim(ClaimRequest),
    ClaimOne(String, Item, ClaimLane),
    Heartbeat(Heartbeat),
    FollowUp(Ticket, Box<NewWork>),
    Checkpoint(Ticket, Sealed),
    Progress(Progress),
    Begin(Begin),
    Commit(Ticket, String, Option<Sealed>),
    Abort(Ticket, String, String),
    Resolve(Resolve),
    Ask(Ask),
    Decide(Decide),
    Expire(Overdue, AuditEntry),
    /// With how it came to the end, which the model decides by itself.
    Settle(Box<Settle>, Ending),
    Cancel(TenantId, WorkId, AuditEntry),
    CancelMany(TenantId, Vec<WorkId>),
    Release(TenantId, WorkId, AuditEntry),
    ReleaseInto(TenantId, WorkId, LaneId, AuditEntry),
    HoldOverBudget(LaneId, SourceId, Budget),
    Replay(Box<Replay>),
    Purge(TenantId, Vec<WorkId>, OperationId),
    PruneOwn(OwnWalk),
    CreateSchedule(Schedule, Sealed, AuditEntry),
    UpdateSchedule(Schedule, Option<Sealed>, AuditEntry),
    DeleteSchedule(TenantId, ScheduleId, AuditEntry),
    Fire(Box<Firing>),
}

/// Why a call changed nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    LeaseLost,
    NotFound,
    InvalidState,
    CancelRequested,
    ProposalChanged,
    Mismatch(usize),
    /// What no sequence should lead to.
    Other(String),
}

/// What a call was answered, as text: the two sides have the same types, and a failure shows both.
pub type Answer = Result<String, Refused>;

/// How many ready items are held over a budget at once.
pub const HELD_AT_ONCE: u32 = 2;

/// Why what waits is ended.
pub const GONE: &str = "nobody is there";

impl Call {
    /// The lease that a worker needs for it. The end of a run has conditions of its own.
    pub fn ticket(&self) -> Option<&Ticket> {
        match self {
            Call::Heartbeat(beat) => Some(&beat.ticket),
            Call::Progress(progress) => Some(&progress.ticket),
            Call::Begin(begin) => Some(&begin.ticket),
            Call::Ask(ask) => Some(&ask.ticket),
            Call::FollowUp(ticket, _)
            | Call::Checkpoint(ticket, _)
            | Call::Commit(ticket, ..)
            | Call::Abort(ticket, ..) => Some(ticket),
            _ => None,
        }
    }

    /// Makes the call.
    pub async fn perform(self, store: &dyn Store) -> Answer {
        match self {
            Call::Accept(new) => tell(store.accept(vec![*new]).await.remove(0)),
            Call::Create(items) => tell(store.create_work(items, None).await),
            Call::Publish(events) => tell(store.publish(events, None).await),
            Call::UpdateWebhook(record) => tell(store.update_webhook(*record, None).await),
            Call::EndWaiting(lane, state, limit) => {
                tell(store.end_waiting(lane, state, GONE.to_owned(), limit).await)
            }
            Call::AddDeliveries(tenant, items) => tell(store.add_deliveries(tenant, items).await),
            Call::Claim(request) => tell(store.claim(request).await.map(by_lane)),
            Call::ClaimOne(worker, item, lane) => tell(store.claim_one(worker, item, lane).await),
            Call::Heartbeat(beat) => tell(store.heartbeat(vec![beat]).await.remove(0)),
            Call::FollowUp(ticket, item) => tell(store.follow_up(ticket, *item, None).await),
            Call::Checkpoint(ticket, state) => tell(store.checkpoint(ticket, state).await),
            Call::Progress(progress) => tell(store.progress(progress).await),
            Call::Begin(begin) => tell(store.begin(begin).await),
            Call::Commit(ticket, key, result) => tell(store.commit(ticket, key, result).await),
            Call::Abort(ticket, key, error) => tell(store.abort(ticket, key, error).await),
            Call::Resolve(resolve) => tell(store.resolve(resolve).await),
            Call::Ask(ask) => tell(store.ask(ask).await),
            Call::Decide(decide) => tell(store.decide(decide).await),
            Call::Expire(overdue, audit) => tell(store.expire(overdue, audit).await),
            Call::Settle(settle, _) => tell(store.settle(vec![*settle]).await.remove(0)),
            Call::Cancel(tenant, work, audit) => tell(store.cancel(tenant, work, audit).await),
            Call::CancelMany(tenant, works) => {
                tell(store.cancel_many(tenant, works, None).await.map(sorted))
            }
            Call::Release(tenant, work, audit) => tell(store.release(tenant, work, audit).await),
            Call::ReleaseInto(tenant, work, lane, audit) => {
                tell(store.release_into(tenant, work, lane, audit).await)
            }
            Call::HoldOverBudget(lane, source, budget) => {
                tell(store.hold_over_budget(lane, source, budget, HELD_AT_ONCE).await)
            }
            Call::Replay(replay) => tell(store.replay(*replay, None).await),
            Call::Purge(tenant, works, by) => tell(store.purge(tenant, works, by).await),
            Call::PruneOwn(walk) => tell(store.prune_own(walk, Ulid::MIN).await),
            Call::CreateSchedule(schedule, input, audit) => {
                tell(store.create_schedule(schedule, input, audit, None).await)
            }
            Call::UpdateSchedule(schedule, input, audit) => {
                tell(store.update_schedule(schedule, input, audit).await)
            }
            Call::DeleteSchedule(tenant, id, audit) => {
                tell(store.delete_schedule(tenant, id, audit).await)
            }
            Call::Fire(firing) => tell(store.fire_schedule(*firing).await),
        }
    }
}

/// Lanes come in no promised order, the items of each in theirs.
pub fn by_lane(mut claimed: Vec<Claimed>) -> Vec<Claimed> {
    claimed.sort_by_key(|item| item.lane);
    claimed
}

/// What each of many came to, in no promised order.
pub fn sorted(mut outcomes: Vec<CancelOutcome>) -> Vec<CancelOutcome> {
    outcomes.sort_by_key(|outcome| format!("{outcome:?}"));
    outcomes
}

/// An answer as text.
pub fn tell<T: Debug>(answer: Result<T, StoreError>) -> Answer {
    match answer {
        Ok(answer) => Ok(format!("{answer:?}")),
        Err(StoreError::LeaseLost) => Err(Refused::LeaseLost),
        Err(StoreError::NotFound) => Err(Refused::NotFound),
        Err(StoreError::InvalidState(_)) => Err(Refused::InvalidState),
        Err(StoreError::CancelRequested) => Err(Refused::CancelRequested),
        Err(StoreError::Mismatch(place)) => Err(Refused::Mismatch(place)),
        Err(StoreError::ProposalChanged) => Err(Refused::ProposalChanged),
        Err(other) => Err(Refused::Other(other.to_string())),
    }
}
