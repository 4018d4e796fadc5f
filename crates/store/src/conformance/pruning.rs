//! Pruning: old history goes, and nothing that live work or a promise still needs.

use std::time::Duration;

use wakepost_domain::receipt::Verdict;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::State;
use wakepost_domain::{EventId, ReceiptId, Timestamp, WorkId};

use super::Harness;
use super::drafts::{Inbox, once, rejection};
use super::world::{ALL, World, given_up, sealed};
use crate::moves::{Idempotency, NewEvent, Progress, PruneBefore};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Longer than any partition, so that what is older than half of it is so wholly.
pub(super) const LONG: Duration = Duration::from_secs(60 * 24 * 3600);

/// Everything older than this may go.
pub(super) fn all_before(at: Timestamp) -> PruneBefore {
    PruneBefore { bodies: at, events: at, runs: at, dead_letters: at, receipts: at, figures: at }
}

impl<H: Harness> World<'_, H> {
    /// Prunes until there is nothing more to do; answers how many rows went.
    pub async fn prune(&self, before: PruneBefore) -> u64 {
        let mut rows = 0;
        for _ in 0..200 {
            let pruned = self.store.prune(before).await.unwrap();
            rows += pruned.rows;
            if !pruned.more {
                return rows;
            }
        }
        panic!("there is always more to prune");
    }

    /// Moves time far on and prunes all that is older than half of that.
    pub async fn much_later(&self) {
        self.advance(LONG).await;
        self.prune(all_before(self.now().await.before(LONG / 2))).await;
    }

    pub async fn has_body(&self, event: EventId) -> bool {
        !self.store.contents(vec![event]).await.unwrap().is_empty()
    }
}

/// A job that left a trace in every table, and how it ended.
pub(super) async fn eventful<H: Harness>(world: &World<'_, H>, inbox: &Inbox, key: &str) -> WorkId {
    let new = world.event(inbox).with_key(key).build();
    let work = WorkId::first_of(new.event.id);
    world.accept(new).await;
    world.accept(world.event(inbox).with_key(key)).await;
    let ticket = world.claim(inbox).one().await.ticket;
    world.begin(&ticket, "mail").await;
    world.commit(&ticket, "mail", "sent").await.unwrap();
    world.store.checkpoint(ticket, sealed("page 1")).await.unwrap();
    world.store.progress(Progress { ticket, content: sealed("half") }).await.unwrap();
    world.finish(&ticket, Ending::Succeeded).await;
    let refused = rejection(inbox, ReceiptId(world.id()), Verdict::Stale);
    world.store.keep_rejections(vec![refused]).await.unwrap();
    work
}

pub async fn old_history_goes_and_young_history_stays(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let old = eventful(&world, &inbox, "old").await;
    world.advance(LONG).await;
    let young = eventful(&world, &inbox, "young").await;
    let before = world.picture(inbox.tenant, young).await;
    let event = world.stored(inbox.tenant, EventId(young.0)).await;
    let cut = world.now().await.before(LONG / 2);
    assert!(world.prune(all_before(cut)).await > 0);
    assert_eq!(world.store.event(inbox.tenant, EventId(old.0)).await.unwrap(), None);
    assert!(!world.has_body(EventId(old.0)).await);
    assert_eq!(world.store.work(inbox.tenant, old).await.unwrap(), None);
    assert!(world.store.runs(inbox.tenant, old).await.unwrap().is_empty());
    assert!(world.store.effects(inbox.tenant, old.0).await.unwrap().is_empty());
    assert!(world.store.progress_after(inbox.tenant, old, 0).await.unwrap().is_empty());
    assert!(world.store.job_states(vec![old]).await.unwrap().is_empty());
    assert!(world.store.receipts(inbox.tenant, EventId(old.0)).await.unwrap().is_empty());
    assert_eq!(world.picture(inbox.tenant, young).await, before);
    assert_eq!(world.stored(inbox.tenant, event.id).await, event);
    assert!(world.has_body(event.id).await);
    assert_eq!(world.store.receipts(inbox.tenant, event.id).await.unwrap().len(), 1);
    let kept = world.store.source_receipts(inbox.tenant, inbox.source, ALL).await.unwrap();
    assert_eq!(kept.len(), 2, "the young event's repeat, and one rejection");
}

pub async fn what_ended_late_is_kept_from_its_end_on(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let work = world.accepted(&inbox).await;
    let ticket = world.claim(&inbox).one().await.ticket;
    world.store.checkpoint(ticket, sealed("page 1")).await.unwrap();
    world.finish(&ticket, Ending::Failed { retryable: true, retry_after: None }).await;
    world.advance(LONG).await;
    let ticket = world.claim(&inbox).one().await.ticket;
    world.finish(&ticket, Ending::Failed { retryable: false, retry_after: None }).await;
    let before = world.picture(inbox.tenant, work).await;
    world.prune(all_before(world.now().await.before(LONG / 2))).await;
    assert_eq!(world.picture(inbox.tenant, work).await, before);
    assert_eq!(world.store.runs(inbox.tenant, work).await.unwrap().len(), 2);
    assert_eq!(world.store.job_states(vec![work]).await.unwrap().len(), 1);
    world.much_later().await;
    assert_eq!(world.store.work(inbox.tenant, work).await.unwrap(), None);
    assert!(world.store.runs(inbox.tenant, work).await.unwrap().is_empty());
    assert!(world.store.job_states(vec![work]).await.unwrap().is_empty());
}

pub async fn each_kind_of_history_has_its_own_age(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let began = world.now().await.before(LONG);
    let work = eventful(&world, &inbox, "a").await;
    let event = EventId(work.0);
    world.advance(LONG).await;
    let cut = world.now().await.before(LONG / 2);
    let picture = world.picture(inbox.tenant, work).await;
    let mut before = all_before(began);
    assert_eq!(world.prune(before).await, 0);
    before.bodies = cut;
    world.prune(before).await;
    assert!(!world.has_body(event).await);
    assert_eq!(world.picture(inbox.tenant, work).await, picture);
    assert_eq!(world.store.receipts(inbox.tenant, event).await.unwrap().len(), 1);
    before.receipts = cut;
    world.prune(before).await;
    assert!(world.store.receipts(inbox.tenant, event).await.unwrap().is_empty());
    assert_eq!(world.picture(inbox.tenant, work).await, picture);
    before.runs = cut;
    world.prune(before).await;
    assert_eq!(world.store.work(inbox.tenant, work).await.unwrap(), None);
    let rows = world.store.events(inbox.tenant, Default::default(), ALL).await.unwrap();
    assert_eq!((rows.len(), rows[0].event.id), (1, event), "the event outlives its work");
    assert!(rows[0].work.is_empty());
    before.events = cut;
    world.prune(before).await;
    assert_eq!(world.store.event(inbox.tenant, event).await.unwrap(), None);
}

pub async fn dead_letters_have_an_age_of_their_own(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let never = world.now().await.before(LONG);
    let done = world.ended(&inbox, Ending::Succeeded).await;
    let dead = world.ended(&inbox, given_up()).await;
    let other = world.ended(&inbox, given_up()).await;
    world.advance(LONG).await;
    let cut = world.now().await.before(LONG / 2);
    let kept = world.picture(inbox.tenant, dead).await;
    world.prune(PruneBefore { dead_letters: never, ..all_before(cut) }).await;
    assert_eq!(world.store.work(inbox.tenant, done).await.unwrap(), None);
    assert_eq!(world.picture(inbox.tenant, dead).await, kept);
    assert!(world.has_body(EventId(dead.0)).await, "it can be replayed as long as it is there");
    assert!(world.has_body(EventId(other.0)).await);
    for _ in 0..2 {
        world.prune(all_before(cut)).await;
    }
    for work in [dead, other] {
        assert_eq!(world.store.work(inbox.tenant, work).await.unwrap(), None);
        assert!(world.store.runs(inbox.tenant, work).await.unwrap().is_empty());
        assert!(!world.has_body(EventId(work.0)).await);
        assert_eq!(world.store.event(inbox.tenant, EventId(work.0)).await.unwrap(), None);
    }
}

pub async fn dead_letters_may_go_before_what_succeeded(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let never = world.now().await.before(LONG);
    let done = eventful(&world, &inbox, "done").await;
    let dead = world.ended(&inbox, given_up()).await;
    let picture = world.picture(inbox.tenant, done).await;
    world.advance(LONG).await;
    let young = world.ended(&inbox, given_up()).await;
    let cut = world.now().await.before(LONG / 2);
    let before = PruneBefore { dead_letters: cut, ..all_before(never) };
    world.prune(before).await;
    assert_eq!(world.store.work(inbox.tenant, dead).await.unwrap(), None);
    assert_eq!(world.picture(inbox.tenant, done).await, picture);
    assert_eq!(world.state(inbox.tenant, young).await, State::DeadLetter);
    assert_eq!(world.prune(before).await, 0);
}

pub async fn expired_keys_go_and_live_ones_stay(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let now = world.now().await;
    let (soon, late) = (now.after(DAY), now.after(LONG));
    let never = now.before(LONG);
    let short = world.job(&inbox).with_key("short", soon).build();
    let long = world.job(&inbox).with_key("long", late).build();
    let kept = long.id;
    world.store.create_work(vec![short], Some(once(1, "short", soon))).await.unwrap();
    world.store.create_work(vec![long], Some(once(2, "long", late))).await.unwrap();
    let before = all_before(never);
    assert_eq!(world.prune(before).await, 0);
    world.advance(DAY * 2).await;
    assert_eq!(world.prune(before).await, 2, "one key of each kind");
    assert_eq!(world.prune(before).await, 0);
    let again = world.job(&inbox).with_key("long", late).build();
    let answer = world.store.create_work(vec![again], None).await.unwrap();
    assert_eq!(answer, crate::moves::Once::Now(vec![kept]));
    let again = vec![world.job(&inbox).build()];
    let answer = world.store.create_work(again, Some(once(2, "x", late))).await.unwrap();
    assert!(matches!(answer, crate::moves::Once::Before(_)));
}

pub async fn pruning_goes_on_in_steps_until_all_is_gone(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let until = world.now().await.after(DAY);
    for part in 0..3 {
        let batch: Vec<NewEvent> = (0..400)
            .map(|turn| {
                let (key, second) = (format!("{part}-{turn}"), format!("also {part}-{turn}"));
                world
                    .event(&inbox)
                    .with_key(&key)
                    .with_key(&second)
                    .ignored()
                    .blocking_until(until)
                    .build()
            })
            .collect();
        assert!(world.store.accept(batch).await.into_iter().all(|answer| answer.is_ok()));
    }
    world.advance(LONG).await;
    let cut = world.now().await.before(LONG / 2);
    assert!(world.prune(all_before(cut)).await > 0);
    let left = world.store.events(inbox.tenant, Default::default(), ALL).await.unwrap();
    assert!(left.is_empty());
    let more = world.prune(all_before(cut)).await;
    assert_eq!(more, 0, "it said that there was nothing more");
}

pub async fn however_many_callers_keys_expired_all_of_them_go(harness: &impl Harness) {
    // More than go in one step of anything else.
    const KEYS: u64 = 600;
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let soon = world.now().await.after(DAY);
    for number in 1..=u128::from(KEYS) {
        let key = Idempotency { key: number.to_be_bytes(), ..once(0, "noted", soon) };
        world.store.note(world.audit(inbox.tenant, "noted"), Some(key)).await.unwrap();
    }
    let before = all_before(world.now().await.before(LONG));
    assert_eq!(world.prune(before).await, 0);
    world.advance(DAY * 2).await;
    assert_eq!(world.prune(before).await, KEYS);
}

pub async fn work_goes_on_while_history_is_pruned(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for turn in 0..20 {
        eventful(&world, &inbox, &format!("old-{turn}")).await;
    }
    world.advance(LONG).await;
    let before = all_before(world.now().await.before(LONG / 2));
    let mut pruners = Vec::new();
    for turn in 0..4 {
        let node = world.node(turn);
        pruners.push(tokio::spawn(async move { while node.prune(before).await.unwrap().more {} }));
    }
    let mut works = Vec::new();
    for turn in 0..20 {
        works.push(eventful(&world, &inbox, &format!("new-{turn}")).await);
    }
    for pruner in pruners {
        pruner.await.unwrap();
    }
    world.prune(before).await;
    for work in works {
        assert_eq!(world.state(inbox.tenant, work).await, State::Succeeded);
        assert!(world.has_body(EventId(work.0)).await);
    }
    let rows = world.store.events(inbox.tenant, Default::default(), ALL).await.unwrap();
    assert_eq!(rows.len(), 20);
}
