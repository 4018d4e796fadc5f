//! New events and new jobs.

use std::time::Duration;

use wakepost_domain::event::{Event, Route};
use wakepost_domain::receipt::Verdict;
use wakepost_domain::thread::Quiet;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, ReceiptId, WorkId};
use wakepost_store::moves::{
    CoalesceKey, DedupKey, HOP_LIMIT, NewEvent, NewJob, NewOrder, NewReceipt, NewThread, NewWork,
    OrderKey, WorkMeta,
};

use super::{MINUTES, Scene, subject};
use crate::wish::{NewEventWish, NewJobWish};
use crate::world::sealed;

/// The conversation of a source.
const THREAD: &str = "thread";

impl Scene<'_> {
    pub fn event(&mut self, second: bool, wish: &NewEventWish) -> NewEvent {
        let now = self.model.now;
        let party = self.party(second);
        let (tenant, source) = (party.tenant, party.source);
        let id = EventId(self.ids.next(now));
        let thread = wish.thread.map(|thread| NewThread {
            key: OrderKey::of_thread(tenant, source, THREAD.as_bytes()),
            only_if_known: thread.only_if_known,
            policy: thread.policy,
            quiet: Quiet {
                for_: Duration::from_secs(thread.quiet_s.into()),
                cap: Duration::from_secs(thread.cap_s.into()),
            },
        });
        let order = wish.order.filter(|_| thread.is_none()).map(|nth| {
            let text = format!("order {nth}");
            let key = OrderKey::of_source(tenant, source, text.as_bytes());
            NewOrder { key, text, sequence: None }
        });
        let coalesce = wish.coalesce.map(|nth| {
            CoalesceKey::new(tenant, source, &[nth], order.as_ref().map(|order| order.key))
        });
        let keys = [Some(wish.key), wish.second_key.filter(|key| *key != wish.key)];
        let keys: Vec<String> =
            keys.into_iter().flatten().map(|key| format!("key {key}")).collect();
        let event = Event {
            id,
            tenant,
            source,
            event_type: (if wish.is_reply { "reply.created" } else { "note" }).to_owned(),
            dedup_key: keys[0].clone(),
            route: if wish.makes_job { Route::Job } else { Route::Ignored },
            verified: true,
            subject: wish.subject.map(subject),
            thread: thread.map(|_| THREAD.to_owned()),
            occurred_at: None,
            received_at: now,
            payload_hash: [wish.key; 32],
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
            source,
            remote_addr: None,
            verdict: Verdict::Accepted,
            latency_us: 7,
            detail: None,
        };
        let job = NewJob {
            lane: party.of_source,
            max_attempts: 2,
            order,
            thread,
            coalesce,
            callback_lane: wish.calls_back.then_some(party.callbacks),
            lineage: None,
        };
        NewEvent {
            event,
            dedup: keys.iter().map(|key| DedupKey::new(tenant, source, key.as_bytes())).collect(),
            dedup_until: now.after(Duration::from_secs(wish.window_s.into())),
            content: Some(sealed(&format!("body of {id}"))),
            job: wish.makes_job.then_some(job),
            deliveries: Vec::new(),
            receipt,
            retry: None,
            our_fault: None,
        }
    }

    /// A job that others may have to do with.
    pub(super) fn usual_job(&mut self) -> NewWork {
        let nth = self.ids.count();
        let wish = NewJobWish {
            of_source: nth.is_multiple_of(2),
            delay_s: None,
            key: None,
            order: nth.is_multiple_of(3).then_some(0),
            subject: Some(0),
            cancel_on: nth.is_multiple_of(4).then_some(0),
            calls_back: nth % 5 < 2,
            max_attempts: 3,
            over_hops: false,
            with_input: false,
        };
        self.job(nth.is_multiple_of(7), &wish)
    }

    pub(super) fn job(&mut self, second: bool, wish: &NewJobWish) -> NewWork {
        let now = self.model.now;
        let party = self.party(second);
        let tenant = party.tenant;
        let patterns = ["reply.created", "reply.*", "never"];
        let order_text = wish.order.map(|nth| format!("job order {nth}"));
        let key = wish.key.map(|nth| DedupKey::of_job(tenant, &[nth]));
        NewWork {
            id: WorkId(self.ids.next(now)),
            tenant,
            kind: WorkKind::Job,
            lane: if wish.of_source { party.of_source } else { party.of_api },
            run_at: wish.delay_s.map(|s| now.after(Duration::from_secs(s.into()))),
            max_attempts: wish.max_attempts,
            event: None,
            scope: None,
            subject: wish.subject.map(subject),
            order: order_text.as_ref().map(|text| OrderKey::of_job(tenant, text.as_bytes())),
            meta: WorkMeta {
                order_key: order_text,
                cancel_on: wish.cancel_on.map(|nth| patterns[usize::from(nth)].to_owned()),
                callback_lane: wish.calls_back.then_some(party.callbacks),
                flags: wish.over_hops.then(|| HOP_LIMIT.to_owned()).into_iter().collect(),
                ..WorkMeta::default()
            },
            input: wish.with_input.then(|| sealed("input")),
            dedup: key.map(|key| (key, now.after(MINUTES))),
        }
    }
}
