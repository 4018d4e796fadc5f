//! The model: what the store promises, in plain maps. It knows no SQL, no batches and no nodes.

mod accepting;
mod approving;
mod bounds;
mod conversing;
mod effects;
mod ending;
mod forgetting;
mod leasing;
mod publishing;
mod scheduling;
mod working;

use std::collections::{BTreeMap, BTreeSet};

use wakepost_domain::effect::{EffectState, Runner};
use wakepost_domain::event::Event;
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::run::Run;
use wakepost_domain::work::State;
use wakepost_domain::{
    EventId, RunId, ScheduleId, SourceId, TenantId, Timestamp, Ulid, WebhookId, WorkId,
};
use wakepost_store::moves::{
    ApprovalRow, CapScope, CoalesceKey, DedupKey, EffectRow, JobState, OrderKey, ProgressRow,
    Schedule, WebhookRecord, WorkRow,
};
use wakepost_store::vault::Sealed;

use crate::call::{Answer, Call, Refused};

pub use bounds::day;
pub use effects::Effect;

/// All there is, of both tenants.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub now: Timestamp,
    pub items: BTreeMap<WorkId, Item>,
    pub effects: BTreeMap<(Ulid, String), Effect>,
    pub events: BTreeMap<EventId, Event>,
    /// The events whose bodies are there.
    pub bodies: BTreeSet<EventId>,
    /// Conversations that the agent takes part in, and until when.
    pub threads: BTreeMap<OrderKey, Timestamp>,
    /// Whose each dedup key is, and until when.
    pub keys: BTreeMap<DedupKey, (Ulid, Timestamp)>,
    pub schedules: BTreeMap<ScheduleId, (Schedule, Sealed)>,
    pub webhooks: BTreeMap<WebhookId, WebhookRecord>,
    /// When the next start of a scope is due, if they come evenly.
    pub next_starts_ms: BTreeMap<CapScope, i64>,
    /// Runs and cost by source and day.
    pub spent: BTreeMap<(SourceId, i64), (i64, f64)>,
    pub origins: BTreeMap<LaneId, Option<SourceId>>,
    /// Every lease that was ever given out, in that order.
    pub tickets: Vec<Ticket>,
    /// What the latest move was about.
    pub touched: BTreeSet<WorkId>,
}

/// One work item: what can be read of it, and what cannot.
#[derive(Debug, Clone)]
pub struct Item {
    pub row: WorkRow,
    pub deadline: Option<Timestamp>,
    pub cancel_at: Option<Timestamp>,
    /// The counters that its run holds.
    pub caps: BTreeSet<CapScope>,
    pub coalesce: Option<CoalesceKey>,
    /// How long messages that join it may put it off.
    pub gathers_until: Option<Timestamp>,
    /// The events after its first, in order.
    pub joined: Vec<EventId>,
    /// Its ended runs that did not succeed, by fence.
    pub runs: BTreeMap<i32, Run>,
    /// How exactly they went, of those that said so.
    pub details: BTreeMap<i32, (RunId, Sealed)>,
    pub costs: BTreeMap<i32, f64>,
    pub progress: Vec<ProgressRow>,
    pub kept: Option<JobState>,
}

impl Item {
    pub fn new(row: WorkRow) -> Item {
        Item {
            row,
            deadline: None,
            cancel_at: None,
            caps: BTreeSet::new(),
            coalesce: None,
            gathers_until: None,
            joined: Vec::new(),
            runs: BTreeMap::new(),
            details: BTreeMap::new(),
            costs: BTreeMap::new(),
            progress: Vec::new(),
            kept: None,
        }
    }

    pub fn is_live(&self) -> bool {
        !self.row.state.is_terminal()
    }

    pub fn is_running(&self) -> bool {
        self.row.state == State::Running
    }

    /// Whether nobody has it and it is not kept back for a person.
    pub fn waits(&self) -> bool {
        matches!(self.row.state, State::Pending | State::Scheduled | State::Retrying)
    }

    /// Whether a lease is what its worker thinks it is.
    pub fn is_leased(&self, ticket: &Ticket, now: Timestamp) -> bool {
        self.row.tenant == ticket.tenant
            && self.row.fence == ticket.fence
            && self.is_running()
            && self.row.lease_expires_at.is_some_and(|end| end > now)
    }
}

impl Model {
    /// Judges a call: what it is answered, and what is so afterwards.
    pub fn apply(&mut self, call: &Call) -> Answer {
        match call {
            Call::Accept(new) => self.accept(new),
            Call::Create(items) => self.create(items),
            Call::Publish(events) => self.publish(events),
            Call::UpdateWebhook(record) => self.update_webhook(record),
            Call::EndWaiting(lane, state, limit) => self.end_waiting(*lane, *state, *limit),
            Call::AddDeliveries(tenant, items) => self.add_deliveries(*tenant, items),
            Call::Claim(request) => self.claim(request),
            Call::ClaimOne(worker, item, lane) => self.claim_one(worker, *item, lane),
            Call::Heartbeat(beat) => self.heartbeat(beat),
            Call::FollowUp(ticket, item) => self.follow_up(ticket, item),
            Call::Checkpoint(ticket, state) => self.checkpoint(ticket, state),
            Call::Progress(progress) => self.progress(progress),
            Call::Begin(begin) => self.begin(begin),
            Call::Commit(ticket, key, result) => {
                self.resolve_own(ticket, key, EffectState::Committed, result.clone(), None)
            }
            Call::Abort(ticket, key, error) => {
                self.resolve_own(ticket, key, EffectState::Aborted, None, Some(error.clone()))
            }
            Call::Resolve(resolve) => self.resolve(resolve),
            Call::Ask(ask) => self.ask(ask),
            Call::Decide(decide) => self.decide(decide),
            Call::Expire(overdue, _) => self.expire(overdue),
            Call::Settle(settle, ending) => self.settle(settle, *ending),
            Call::Cancel(tenant, work, _) => self.cancel_one(*tenant, *work),
            Call::CancelMany(tenant, works) => self.cancel_many(*tenant, works),
            Call::Release(tenant, work, _) => self.release(*tenant, *work, None),
            Call::ReleaseInto(tenant, work, lane, _) => self.release(*tenant, *work, Some(*lane)),
            Call::HoldOverBudget(lane, source, budget) => self.hold_over(*lane, *source, budget),
            Call::Replay(replay) => self.replay(replay),
            Call::Purge(tenant, works, by) => self.purge(*tenant, works, *by),
            Call::PruneOwn(walk) => self.prune_own(walk),
            Call::CreateSchedule(schedule, input, _) => self.create_schedule(schedule, input),
            Call::UpdateSchedule(schedule, input, _) => self.update_schedule(schedule, input),
            Call::DeleteSchedule(tenant, id, _) => self.delete_schedule(*tenant, *id),
            Call::Fire(firing) => self.fire(firing),
        }
    }

    /// An item, if it is this tenant's.
    pub fn of_tenant(&self, tenant: TenantId, id: WorkId) -> Result<&Item, Refused> {
        self.items.get(&id).filter(|item| item.row.tenant == tenant).ok_or(Refused::NotFound)
    }

    /// The item of a live lease.
    fn leased(&mut self, ticket: &Ticket) -> Result<&mut Item, Refused> {
        self.touched.insert(ticket.work);
        let now = self.now;
        let item = self.items.get_mut(&ticket.work).ok_or(Refused::LeaseLost)?;
        if item.is_leased(ticket, now) { Ok(item) } else { Err(Refused::LeaseLost) }
    }

    fn item(&mut self, id: WorkId) -> &mut Item {
        self.touched.insert(id);
        self.items.get_mut(&id).expect("the model has it")
    }

    /// The live items of an order key, first to last. Without numbers they stand as their ids do.
    pub fn in_order(&self, order: OrderKey) -> impl Iterator<Item = &Item> {
        self.items.values().filter(move |item| item.is_live() && item.row.order == Some(order))
    }

    /// Whether a run still goes on.
    pub fn is_alive(&self, runner: Runner) -> bool {
        self.items.get(&runner.work).is_some_and(|item| {
            let lives = item.row.lease_expires_at.is_some_and(|end| end > self.now);
            item.is_running() && item.row.fence == runner.fence && lives
        })
    }

    /// The effects of a scope as they are read.
    pub fn effects_of(&self, scope: Ulid) -> Vec<EffectRow> {
        let of_scope = self.effects.iter().filter(|((of, _), _)| *of == scope);
        of_scope
            .map(|((_, key), effect)| EffectRow {
                key: key.clone(),
                state: effect.state,
                runner: effect.runner,
                alive: self.is_alive(effect.runner),
                begun_nth: effect.begun_nth,
                resolved_nth: effect.resolved_nth,
                description: effect.description.clone(),
                result: effect.result.clone(),
                error: effect.error.clone(),
                begun_at: effect.begun_at,
                resolved_at: effect.resolved_at,
                approval: effect.hash.zip(effect.expires_at).map(|(hash, expires_at)| {
                    ApprovalRow {
                        hash,
                        expires_at,
                        decided_by: effect.decided_by.clone(),
                        decided_at: effect.decided_at,
                    }
                }),
            })
            .collect()
    }
}
