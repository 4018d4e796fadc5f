//! Publications, and what is done to webhooks and their queues.

use std::time::Duration;

use wakepost_domain::event::{Event, Route};
use wakepost_domain::publication::NO_SOURCE;
use wakepost_domain::receipt::Verdict;
use wakepost_domain::{EventId, ReceiptId, TenantId, Timestamp};
use wakepost_store::moves::{
    DedupKey, NewDelivery, NewEvent, NewReceipt, OrderKey, WebhookRecord, delivery_of,
};

use super::{Scene, subject};
use crate::call::Call;
use crate::wish::{HookPick, PublicationWish};
use crate::world::{Hook, sealed};

/// How many events a backfill is about, the newest.
const BACKFILLED: usize = 4;

impl Scene<'_> {
    pub(super) fn hook(&self, pick: HookPick) -> Hook {
        self.party(pick.second_tenant).hooks[usize::from(pick.second)]
    }

    pub(super) fn publication(&mut self, second: bool, wish: &PublicationWish) -> NewEvent {
        let now = self.model.now;
        let party = self.party(second);
        let tenant = party.tenant;
        let id = EventId(self.ids.next(now));
        let key = wish.key.map(|nth| format!("key {nth}"));
        let event = Event {
            id,
            tenant,
            source: NO_SOURCE,
            event_type: "order.created".to_owned(),
            dedup_key: key.clone().unwrap_or_else(|| id.to_string()),
            route: Route::Published,
            verified: true,
            subject: wish.subject.map(subject),
            thread: None,
            occurred_at: None,
            received_at: now,
            payload_hash: [u8::from(wish.differs); 32],
            duplicates: 0,
            remote_addr: None,
            latency_us: 7,
            signature: None,
            part: None,
            trace: wish.subject.map(|nth| format!("{nth:032x}")),
        };
        let receipt = NewReceipt {
            id: ReceiptId(self.ids.next(now)),
            tenant,
            source: NO_SOURCE,
            remote_addr: None,
            verdict: Verdict::Accepted,
            latency_us: 7,
            detail: None,
        };
        let run_at = wish.delay_s.map(|s| now.after(Duration::from_secs(s.into())));
        let wanted = party.hooks.into_iter().zip(wish.hooks).filter(|(_, wants)| *wants);
        let deliveries = wanted.map(|(hook, _)| {
            let order = wish.order.map(|nth| order(tenant, hook, nth));
            NewDelivery { run_at, order, ..delivery(id, hook) }
        });
        let key = key.map(|key| DedupKey::of_publication(tenant, b"key", key.as_bytes()));
        NewEvent {
            event,
            dedup: key.into_iter().collect(),
            dedup_until: now.after(Duration::from_secs(wish.window_s.into())),
            content: Some(sealed(&format!("body of {id}"))),
            job: None,
            deliveries: deliveries.collect(),
            receipt,
            retry: None,
            our_fault: None,
        }
    }

    /// Shuts a webhook's lane for so long, for good, or opens it.
    pub(super) fn shut(
        &self,
        hook: HookPick,
        for_s: Option<u16>,
        stale: bool,
        foreign: bool,
    ) -> Call {
        let seen = &self.model.webhooks[&self.hook(hook).id];
        let until = for_s.map(|seconds| match seconds {
            u16::MAX => Timestamp::from_millis(i64::MAX),
            seconds => self.model.now.after(Duration::from_secs(seconds.into())),
        });
        Call::UpdateWebhook(Box::new(WebhookRecord {
            tenant: self.maybe_foreign(seen.tenant, foreign),
            shut_until: until,
            due_at: until,
            version: seen.version - i64::from(stale),
            ..seen.clone()
        }))
    }

    /// With the latest event of all, too: if it was received, or is the other tenant's, it makes nothing.
    pub(super) fn backfill(&self, pick: HookPick, ordered: bool) -> Call {
        let hook = self.hook(pick);
        let tenant = self.party(pick.second_tenant).tenant;
        let events = || self.model.events.values().rev();
        let own = |event: &&Event| event.route == Route::Published && event.tenant == tenant;
        let mut about: Vec<EventId> = events()
            .filter(own)
            .take(BACKFILLED)
            .chain(events().next())
            .map(|event| event.id)
            .collect();
        about.sort();
        about.dedup();
        let items = about.into_iter().map(|event| {
            let order = ordered.then(|| order(tenant, hook, 0));
            (event, NewDelivery { order, ..delivery(event, hook) })
        });
        Call::AddDeliveries(tenant, items.collect())
    }
}

fn delivery(event: EventId, hook: Hook) -> NewDelivery {
    NewDelivery {
        id: delivery_of(event, hook.id),
        lane: hook.lane,
        run_at: None,
        max_attempts: 2,
        order: None,
        parent_id: None,
    }
}

fn order(tenant: TenantId, hook: Hook, nth: u8) -> (OrderKey, String) {
    let text = format!("order {nth}");
    (OrderKey::of_webhook(tenant, hook.id, text.as_bytes()), text)
}
