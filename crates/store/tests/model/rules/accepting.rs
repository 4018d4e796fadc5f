//! Accepting: an event is new or a duplicate; a new one makes its job, supersedes some and cancels some.

use wakepost_domain::event::{Event, Route};
use wakepost_domain::lane::LaneId;
use wakepost_domain::thread::ThreadPolicy;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, WorkId};
use wakepost_store::moves::{Accepted, NewEvent, NewJob, NewWork, WorkMeta};

use super::conversing::gathers;
use super::{Item, Model};
use crate::call::{Answer, tell};

impl Model {
    pub(super) fn accept(&mut self, new: &NewEvent) -> Answer {
        if let Some(first) = new.dedup.iter().find_map(|key| self.holder(*key)) {
            return tell(Ok(self.duplicate(EventId(first))));
        }
        for key in &new.dedup {
            self.keys.insert(*key, (new.event.id.0, new.dedup_until));
        }
        self.events.insert(new.event.id, new.event.clone());
        self.bodies.insert(new.event.id);
        let talked = new.job.as_ref().and_then(|job| self.talk(&new.event, job.thread.as_ref()?));
        if let Some(accepted) = talked {
            self.cancel_by(&new.event);
            return tell(Ok(accepted));
        }
        let superseded = new.job.as_ref().and_then(|job| self.place(&new.event, job));
        let next = superseded.or(self.cancel_by(&new.event));
        tell(Ok(next.map_or(Accepted::New, Accepted::NewBefore)))
    }

    fn duplicate(&mut self, first: EventId) -> Accepted {
        let event = self.events.get_mut(&first).expect("no sequence prunes");
        event.duplicates += 1;
        let job = match event.route {
            Route::Job => Some(WorkId::first_of(first)),
            // Later ones are replays of it.
            Route::Joined => {
                let joined = self.items.values().filter(|item| item.joined.contains(&first));
                joined.map(|item| item.row.id).min()
            }
            Route::Ignored | Route::Unmapped | Route::Published => None,
        };
        Accepted::Duplicate { of: first, job }
    }

    /// Makes an event's job. Answers the lane of what stood behind one that it supersedes.
    fn place(&mut self, event: &Event, job: &NewJob) -> Option<LaneId> {
        let id = WorkId::first_of(event.id);
        let order = job.order.as_ref();
        let talks = job.thread.as_ref().filter(|thread| thread.policy != ThreadPolicy::Off);
        let gathers = talks.filter(|thread| gathers(thread.policy));
        let until = gathers.map(|thread| self.now.after(thread.quiet.cap));
        let run_at = gathers.zip(until).map(|(thread, until)| self.quiet_at(thread, until));
        let superseded =
            |item: &Item| item.is_live() && job.coalesce.is_some() && item.coalesce == job.coalesce;
        let mut next = None;
        for old in self.last_first(superseded) {
            self.item(old).row.meta.superseded_by = Some(id.text(WorkKind::Job));
            // Whoever has one, or is to decide on it, sees that there is no need for it any more.
            if self.items[&old].waits() {
                next = self.finish(old, State::Cancelled, None).or(next);
            }
        }
        self.insert(&NewWork {
            id,
            tenant: event.tenant,
            kind: WorkKind::Job,
            lane: job.lane,
            run_at,
            max_attempts: job.max_attempts,
            event: Some(event.id),
            scope: None,
            subject: event.subject.clone(),
            order: order.map(|order| order.key).or(talks.map(|thread| thread.key)),
            meta: WorkMeta {
                order_key: order
                    .map(|order| order.text.clone())
                    .or(event.thread.clone().filter(|_| talks.is_some())),
                callback_lane: job.callback_lane,
                ..WorkMeta::default()
            },
            input: None,
            dedup: None,
        });
        self.item(id).coalesce = job.coalesce;
        self.item(id).gathers_until = until;
        next
    }

    /// Gives up the jobs that wait for such an event about their subject.
    fn cancel_by(&mut self, event: &Event) -> Option<LaneId> {
        let is_cancelled = |item: &Item| {
            let row = &item.row;
            let wanted = row.meta.cancel_on.as_deref();
            item.is_live()
                && row.tenant == event.tenant
                && row.subject.is_some()
                && row.subject == event.subject
                && wanted.is_some_and(|pattern| fits(pattern, &event.event_type))
        };
        let mut next = None;
        for id in self.last_first(is_cancelled) {
            let reason = match self.items[&id].is_running() {
                true => format!("asked to stop: cancelled by {}", event.id),
                false => format!("cancelled by {}", event.id),
            };
            let outcome = self.cancel(id, Some(&reason)).expect("it lives");
            next = outcome.next_in_order().or(next);
        }
        next
    }

    /// Those that stand behind others first, so that none is let go only to be given up.
    fn last_first(&self, which: impl Fn(&Item) -> bool) -> Vec<WorkId> {
        let found = self.items.values().filter(|item| which(item));
        let mut found: Vec<_> = found.map(|item| (!item.row.behind, item.row.id)).collect();
        found.sort();
        found.into_iter().map(|(_, id)| id).collect()
    }
}

fn fits(pattern: &str, event_type: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => event_type.starts_with(prefix),
        None => pattern == event_type,
    }
}
