//! Work from outside a run: made, cancelled, released, replayed, purged.

use wakepost_domain::event::Route;
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::{HeldReason, State, WorkKind};
use wakepost_domain::{OperationId, TenantId, WorkId};
use wakepost_store::moves::{
    CancelOutcome, HOP_LIMIT, JobState, NewWork, Once, Replay, ReplayFrom, WorkMeta, WorkRow,
};

use super::{Item, Model};
use crate::call::{Answer, Refused, sorted, tell};

impl Model {
    pub(super) fn create(&mut self, items: &[NewWork]) -> Answer {
        let mut ids = Vec::new();
        for item in items {
            if let Some((key, until)) = item.dedup {
                if let Some(first) = self.holder(key) {
                    ids.push(WorkId(first));
                    continue;
                }
                self.keys.insert(key, (item.id.0, until));
            }
            self.insert(item);
            ids.push(item.id);
        }
        tell(Ok(Once::Now(ids)))
    }

    /// A new item waits for its time, for an operator, or for a worker; behind whoever has its order key.
    pub(super) fn insert(&mut self, new: &NewWork) {
        let is_later = new.run_at.is_some_and(|at| at > self.now);
        let is_held = new.meta.flags.iter().any(|flag| flag == HOP_LIMIT);
        let state = match (is_held, is_later) {
            (true, _) => State::Held,
            (false, true) => State::Scheduled,
            (false, false) => State::Pending,
        };
        let behind = new.order.is_some_and(|order| self.in_order(order).next().is_some());
        let row = WorkRow {
            id: new.id,
            tenant: new.tenant,
            kind: new.kind,
            lane: new.lane,
            state,
            run_at: new.run_at.map_or(self.now, |at| at.max(self.now)),
            attempts: 0,
            max_attempts: new.max_attempts,
            fence: 0,
            event: new.event,
            scope: new.scope.unwrap_or(new.id.0),
            subject: new.subject.clone(),
            order: new.order,
            behind,
            held: is_held.then_some(HeldReason::HopLimit),
            last_error: None,
            meta: new.meta.clone(),
            worker: None,
            started_at: None,
            lease_expires_at: None,
            cancel_requested: false,
            finished_at: None,
            replayed_as: None,
            purged_by: None,
        };
        let mut item = Item::new(row);
        item.kept = new.input.clone().map(|input| JobState {
            input: Some(input),
            scheduled_for: new.meta.scheduled_for,
            ..JobState::default()
        });
        assert!(self.items.insert(new.id, item).is_none(), "an id is given once");
        self.touched.insert(new.id);
    }

    pub(super) fn cancel_one(&mut self, tenant: TenantId, id: WorkId) -> Answer {
        self.touched.insert(id);
        self.of_tenant(tenant, id)?;
        tell(Ok(self.cancel(id, None)?))
    }

    /// Whoever runs is asked to stop; nobody else can be asked.
    pub(super) fn cancel(
        &mut self,
        id: WorkId,
        reason: Option<&str>,
    ) -> Result<CancelOutcome, Refused> {
        let now = self.now;
        let item = self.item(id);
        if item.row.state.is_terminal() {
            return Err(Refused::InvalidState);
        }
        if item.is_running() {
            item.cancel_at.get_or_insert(now);
            item.row.cancel_requested = true;
            item.row.last_error = reason.map(str::to_owned).or(item.row.last_error.take());
            return Ok(CancelOutcome::Requested);
        }
        let next_in_order = self.finish(id, State::Cancelled, reason);
        Ok(CancelOutcome::Cancelled { next_in_order })
    }

    /// What stands behind goes before what it stands behind: none is let go only to be cancelled.
    pub(super) fn cancel_many(&mut self, tenant: TenantId, ids: &[WorkId]) -> Answer {
        let is_one = |item: &&Item| {
            item.row.tenant == tenant && item.is_live() && ids.contains(&item.row.id)
        };
        let mut live: Vec<(bool, WorkId)> = self
            .items
            .values()
            .filter(is_one)
            .map(|item| (!item.row.behind, item.row.id))
            .collect();
        live.sort();
        let outcomes = live.into_iter().map(|(_, id)| self.cancel(id, None).expect("it lives"));
        tell(Ok(sorted(outcomes.collect())))
    }

    pub(super) fn release(&mut self, tenant: TenantId, id: WorkId, to: Option<LaneId>) -> Answer {
        self.touched.insert(id);
        if self.of_tenant(tenant, id)?.row.state != State::Held {
            return Err(Refused::InvalidState);
        }
        let now = self.now;
        let row = &mut self.item(id).row;
        row.state = State::Pending;
        row.run_at = now;
        row.held = None;
        row.lane = to.unwrap_or(row.lane);
        let lane = row.lane;
        if to.is_some() { tell(Ok(())) } else { tell(Ok(lane)) }
    }

    /// A finished item is replayed once, and only as long as something is left of it.
    pub(super) fn replay(&mut self, replay: &Replay) -> Answer {
        let new = match replay.from {
            ReplayFrom::Work(id) => self.replay_of(replay, id)?,
            ReplayFrom::Event(event, lane) => {
                // What was published makes no job.
                let found = self.events.get(&event).filter(|event| {
                    event.tenant == replay.tenant && event.route != Route::Published
                });
                let found = found.ok_or(Refused::NotFound)?;
                let (subject, trace) = (found.subject.clone(), found.trace.clone());
                let is_of =
                    |item: &Item| item.row.event == Some(event) || item.joined.contains(&event);
                if self.items.values().any(is_of) {
                    return Err(Refused::InvalidState);
                }
                let callback_lane = replay.callback_lane;
                let meta = WorkMeta { callback_lane, trace, ..WorkMeta::default() };
                NewWork {
                    event: Some(event),
                    scope: (!replay.fresh_scope).then_some(event.0),
                    subject,
                    meta,
                    ..blank(replay, WorkKind::Job, lane)
                }
            }
        };
        self.insert(&new);
        if let ReplayFrom::Work(old) = replay.from {
            let joined = self.items[&old].joined.clone();
            self.item(new.id).joined = joined;
        }
        tell(Ok(Once::Now((new.id, new.lane))))
    }

    fn replay_of(&mut self, replay: &Replay, id: WorkId) -> Result<NewWork, Refused> {
        self.touched.insert(id);
        let old = &self.of_tenant(replay.tenant, id)?.row;
        let is_dealt_with = old.replayed_as.is_some() || old.purged_by.is_some();
        if !old.state.is_terminal() || is_dealt_with {
            return Err(Refused::InvalidState);
        }
        let row = &mut self.item(id).row;
        row.replayed_as = Some(replay.id);
        let old = row.clone();
        let meta = WorkMeta {
            parent_id: Some(old.id.text(old.kind)),
            superseded_by: None,
            flags: Vec::new(),
            ..old.meta
        };
        Ok(NewWork {
            event: old.event,
            scope: (!replay.fresh_scope).then_some(old.scope),
            subject: old.subject,
            order: old.order,
            meta,
            ..blank(replay, old.kind, old.lane)
        })
    }

    /// A tenant's live jobs about a subject, by id.
    pub fn about(&self, tenant: TenantId, subject: &str) -> Vec<WorkId> {
        let is_one = |item: &&Item| {
            let row = &item.row;
            let is_job = row.tenant == tenant && row.kind == WorkKind::Job && item.is_live();
            is_job && row.subject.as_deref() == Some(subject)
        };
        self.items.values().filter(is_one).map(|item| item.row.id).collect()
    }

    /// A tenant's dead letters that were neither replayed nor purged, by id.
    pub fn open_letters(&self, tenant: TenantId) -> Vec<WorkId> {
        let rows = self.items.values().map(|item| &item.row);
        let open = rows.filter(|row| row.tenant == tenant && is_open_letter(row));
        open.map(|row| row.id).collect()
    }

    /// Only the rows stay of dead letters that nobody dealt with.
    pub(super) fn purge(&mut self, tenant: TenantId, ids: &[WorkId], by: OperationId) -> Answer {
        let mut purged = 0u64;
        for id in ids {
            self.touched.insert(*id);
            let Ok(item) = self.of_tenant(tenant, *id) else { continue };
            if !is_open_letter(&item.row) {
                continue;
            }
            let item = self.item(*id);
            item.row.purged_by = Some(by);
            item.row.last_error = None;
            item.runs.clear();
            item.details.clear();
            item.progress.clear();
            item.kept = None;
            purged += 1;
        }
        tell(Ok(purged))
    }
}

pub(super) fn is_open_letter(row: &WorkRow) -> bool {
    row.state == State::DeadLetter && row.replayed_as.is_none() && row.purged_by.is_none()
}

fn blank(replay: &Replay, kind: WorkKind, lane: LaneId) -> NewWork {
    NewWork {
        id: replay.id,
        tenant: replay.tenant,
        kind,
        lane,
        run_at: None,
        max_attempts: replay.max_attempts,
        event: None,
        scope: None,
        subject: None,
        order: None,
        meta: WorkMeta::default(),
        input: replay.input.clone(),
        dedup: None,
    }
}
