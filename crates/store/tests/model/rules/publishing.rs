//! Publishing: an event goes to each webhook that wants it, all of a call or none, and a shut lane hands out nothing.

use wakepost_domain::event::Route;
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, TenantId, WorkId};
use wakepost_store::moves::{Accepted, NewDelivery, NewEvent, NewWork, WebhookRecord, WorkMeta};

use super::{Item, Model};
use crate::call::{Answer, GONE, Refused, tell};

impl Model {
    pub(super) fn publish(&mut self, events: &[NewEvent]) -> Answer {
        let before = self.clone();
        let mut answers = Vec::new();
        for (place, new) in events.iter().enumerate() {
            let Some(first) = new.dedup.iter().find_map(|key| self.holder(*key)) else {
                self.publish_new(new);
                answers.push(Accepted::New);
                continue;
            };
            let of = EventId(first);
            let event = self.events.get_mut(&of).expect("no sequence prunes");
            if event.payload_hash != new.event.payload_hash {
                *self = before;
                return Err(Refused::Mismatch(place));
            }
            event.duplicates += 1;
            answers.push(Accepted::Duplicate { of, job: None });
        }
        tell(Ok(answers))
    }

    fn publish_new(&mut self, new: &NewEvent) {
        for key in &new.dedup {
            self.keys.insert(*key, (new.event.id.0, new.dedup_until));
        }
        self.events.insert(new.event.id, new.event.clone());
        self.bodies.insert(new.event.id);
        for delivery in &new.deliveries {
            self.deliver(new.event.id, delivery);
        }
    }

    fn deliver(&mut self, event: EventId, new: &NewDelivery) {
        let event = &self.events[&event];
        let (order, order_key) = new.order.clone().unzip();
        let item = NewWork {
            id: new.id,
            tenant: event.tenant,
            kind: WorkKind::Delivery,
            lane: new.lane,
            run_at: new.run_at,
            max_attempts: new.max_attempts,
            event: Some(event.id),
            scope: None,
            subject: event.subject.clone(),
            order,
            meta: WorkMeta {
                order_key,
                parent_id: new.parent_id.clone(),
                trace: event.trace.clone(),
                ..WorkMeta::default()
            },
            input: None,
            dedup: None,
        };
        self.insert(&item);
    }

    /// What was made before, live or finished, is not made again.
    pub(super) fn add_deliveries(
        &mut self,
        tenant: TenantId,
        items: &[(EventId, NewDelivery)],
    ) -> Answer {
        let mut made = Vec::new();
        for (event, delivery) in items {
            let is_there = self
                .events
                .get(event)
                .is_some_and(|event| event.tenant == tenant && event.route == Route::Published);
            if is_there && !self.items.contains_key(&delivery.id) {
                self.deliver(*event, delivery);
                made.push(delivery.clone());
            }
        }
        tell(Ok(made))
    }

    /// Whoever saw the latest version may change it.
    pub(super) fn update_webhook(&mut self, record: &WebhookRecord) -> Answer {
        let found = self.webhooks.get_mut(&record.id).filter(|one| one.tenant == record.tenant);
        let webhook = found.ok_or(Refused::NotFound)?;
        if webhook.version != record.version {
            return Err(Refused::InvalidState);
        }
        *webhook = WebhookRecord { version: record.version + 1, ..record.clone() };
        tell(Ok(()))
    }

    pub fn is_shut(&self, lane: LaneId) -> bool {
        let of_lane = self.webhooks.values().find(|webhook| webhook.lane == lane);
        of_lane.and_then(|webhook| webhook.shut_until).is_some_and(|until| until > self.now)
    }

    /// Ends the oldest that nobody has. What stands behind goes before what it stands behind: none is let go only to
    /// be ended.
    pub(super) fn end_waiting(&mut self, lane: LaneId, state: State, limit: u32) -> Answer {
        let waits = |item: &&Item| item.row.lane == lane && item.is_live() && !item.is_running();
        let oldest = self.items.values().filter(waits).take(limit as usize);
        let mut oldest: Vec<(bool, WorkId)> =
            oldest.map(|item| (!item.row.behind, item.row.id)).collect();
        oldest.sort();
        for (_, id) in &oldest {
            self.finish(*id, state, Some(GONE));
        }
        tell(Ok(oldest.len() as u64))
    }
}
