//! A work item as clients see it.

use serde::Serialize;
use serde_json::value::RawValue;
use wakepost_domain::approval::Mode;
use wakepost_domain::lane::Lane;
use wakepost_domain::lease::run_id;
use wakepost_domain::work::{HeldReason, State, WorkKind};
use wakepost_domain::{EventId, ScheduleId, SourceId, Timestamp};
use wakepost_store::moves::WorkRow;

use super::waiting::Waits;
use crate::chains;

/// A job, as the API answers it. Lists leave out what only a single job carries.
#[derive(Debug, Serialize)]
pub struct WorkView {
    /// Its id.
    pub id: String,
    /// The job's kind, or what kind of work it is.
    pub kind: String,
    /// The event it is about.
    pub event_id: Option<EventId>,
    /// All events it is about.
    pub event_ids: Vec<EventId>,
    /// Whose it is.
    pub tenant: String,
    /// Where its event came from.
    pub source: Option<SourceId>,
    /// Who asked for it.
    pub owner: Option<String>,
    /// Where it stands.
    pub status: State,
    /// Why it waits for an operator.
    pub held_reason: Option<HeldReason>,
    /// Which queue it waits in.
    pub priority: wakepost_domain::work::Priority,
    /// How often it was tried.
    pub attempts: i32,
    /// How often it may be.
    pub max_attempts: i32,
    /// When it may start.
    pub run_at: Timestamp,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// What it is about.
    pub subject: Option<String>,
    /// What it must run in order with.
    pub order_key: Option<String>,
    /// What it waits for, if it neither runs nor has ended.
    pub waiting_on: Option<&'static str>,
    /// Whether a person must agree before it acts, by its maker's word.
    pub mode: Option<Mode>,
    /// What is unusual about it.
    pub flags: Vec<String>,
    /// The item that took its place before it ran.
    pub superseded_by: Option<String>,
    /// What it was replayed as.
    pub replayed_as: Option<String>,
    /// The work that led to it.
    pub parent_id: Option<String>,
    /// How many agents led to it.
    pub hops: u32,
    /// Whose effects it shares.
    pub scope: String,
    /// The live lease.
    pub lease: Option<LeaseView>,
    /// Whether a stop was asked for.
    pub cancel_requested: bool,
    /// Who had it last.
    pub last_worker: Option<String>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// The trace it belongs to.
    pub trace_id: String,
    /// The event that would cancel it.
    pub cancel_on: Option<CancelOnView>,
    /// The schedule that made it.
    pub schedule_id: Option<ScheduleId>,
    /// Which of its ticks did.
    pub scheduled_for: Option<Timestamp>,
    /// What only a single item carries.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub detail: Option<WorkDetail>,
}

/// What cancels a job.
#[derive(Debug, Serialize)]
pub struct CancelOnView {
    /// The event's type, or a pattern.
    #[serde(rename = "type")]
    pub event_type: String,
}

/// A live lease.
#[derive(Debug, Serialize)]
pub struct LeaseView {
    /// Who has it.
    pub worker: Option<String>,
    /// Until when.
    pub expires_at: Option<Timestamp>,
    /// Which run.
    pub run_id: Option<wakepost_domain::RunId>,
}

/// What only a single item carries.
#[derive(Debug, Serialize)]
pub struct WorkDetail {
    /// What the agent gets.
    pub input: Option<Box<RawValue>>,
    /// What came of it.
    pub result: Option<Box<RawValue>>,
    /// The text to reply with.
    pub reply: Option<String>,
    /// The agent's own state.
    pub checkpoint: Option<Box<RawValue>>,
    /// What it cost.
    pub cost: Option<f64>,
    /// Its side effects.
    pub effects: Vec<serde_json::Value>,
    /// Its finished runs.
    pub runs: Vec<wakepost_domain::run::Run>,
    /// The work that led to it, the nearest first.
    pub chain: Vec<ChainLink>,
    /// What to do next.
    pub next_action: String,
}

/// Work that led to other work.
#[derive(Debug, Serialize)]
pub struct ChainLink {
    /// Its id.
    pub id: String,
    /// The job's kind, or what kind of work it is.
    pub kind: String,
    /// Where it stands.
    pub status: State,
    /// How many agents led to it.
    pub hops: u32,
}

/// The name of an item's kind: a job's own, or the kind of work.
pub fn name_of(row: &WorkRow, lane: Option<&Lane>) -> String {
    match (row.kind, &row.meta.name, lane) {
        (WorkKind::Job, Some(name), _) => name.clone(),
        (WorkKind::Job, None, Some(lane)) => lane.key.name.clone(),
        (kind, ..) => serde_json::to_value(kind)
            .ok()
            .and_then(|value| value.as_str().map(str::to_owned))
            .unwrap_or_default(),
    }
}

/// The view of a row, with all events it is about.
pub fn work_view(
    row: WorkRow,
    events: Vec<EventId>,
    lane: Option<&Lane>,
    tenant: &str,
    waits: &Waits,
) -> WorkView {
    let running = row.state == State::Running;
    let waiting_on = waits.on(&row, lane);
    WorkView {
        kind: name_of(&row, lane),

        id: row.id.text(row.kind),
        event_id: row.event,
        event_ids: events,
        tenant: tenant.to_owned(),
        // The lane of a delivery is a webhook's.
        source: row
            .event
            .filter(|_| row.kind != WorkKind::Delivery)
            .and(lane.and_then(|lane| lane.key.origin))
            .map(SourceId),
        status: row.state,
        held_reason: row.held,
        priority: lane.map_or(wakepost_domain::work::Priority::Webhook, |lane| lane.key.priority),
        attempts: row.attempts,
        max_attempts: row.max_attempts,
        run_at: row.run_at,
        created_at: row.id.0.time(),
        finished_at: row.finished_at,
        subject: row.subject,
        order_key: row.meta.order_key,
        waiting_on,
        mode: row.meta.mode,
        flags: row.meta.flags,
        owner: row.meta.owner,
        superseded_by: row.meta.superseded_by,
        replayed_as: row.replayed_as.map(|id| id.text(row.kind)),
        parent_id: row.meta.parent_id,
        hops: row.meta.hops,
        scope: row.scope.to_string(),
        trace_id: chains::trace_id(row.meta.trace.as_deref(), row.event, row.id),
        lease: running.then(|| LeaseView {
            worker: row.worker.clone(),
            expires_at: row.lease_expires_at,
            run_id: row.started_at.map(|at| run_id(row.id, row.fence, at)),
        }),
        cancel_requested: row.cancel_requested,
        last_worker: row.worker,
        last_error: row.last_error,
        cancel_on: row.meta.cancel_on.map(|event_type| CancelOnView { event_type }),
        schedule_id: row.meta.schedule_id,
        scheduled_for: row.meta.scheduled_for,
        detail: None,
    }
}
