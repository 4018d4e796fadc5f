//! Deduplicating: of any number of copies, on any number of nodes, one is new.

use std::time::Duration;

use wakepost_domain::receipt::{Evidence, OurFault, Verdict};
use wakepost_domain::transition::Ending;
use wakepost_domain::work::HeldReason;
use wakepost_domain::{EventId, OperationId, WorkId, limits};

use super::Harness;
use super::drafts::Inbox;
use super::world::{ALL, World, given_up, sealed};
use crate::moves::{Accepted, NewEvent, ReceiptRow, SharedBody};

/// All at once, over both nodes, each in a call of its own.
pub(super) async fn accept_at_once<H: Harness>(
    world: &World<'_, H>,
    events: Vec<NewEvent>,
) -> Vec<(EventId, Accepted)> {
    let mut calls = Vec::new();
    for (turn, new) in events.into_iter().enumerate() {
        let node = world.node(turn);
        calls.push(tokio::spawn(async move {
            let id = new.event.id;
            (id, node.accept(vec![new]).await.remove(0).unwrap())
        }));
    }
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    answers
}

pub(super) fn new_ones(answers: &[(EventId, Accepted)]) -> Vec<EventId> {
    answers.iter().filter(|(_, answer)| *answer == Accepted::New).map(|(id, _)| *id).collect()
}

pub async fn a_repeat_is_a_duplicate_of_the_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.event(&inbox).with_key("a").build();
    let mut again = world.event(&inbox).with_key("a").with_body(b"other".to_vec()).build();
    again.event.signature = Some(-7);
    again.retry = Some("2".to_owned());
    again.our_fault = Some(OurFault::Slow);
    world.accept(first.clone()).await;
    let of_first =
        Accepted::Duplicate { of: first.event.id, job: Some(WorkId::first_of(first.event.id)) };
    assert_eq!(world.accept(again.clone()).await, of_first);
    assert_eq!(world.stored(inbox.tenant, first.event.id).await.duplicates, 1);
    assert_eq!(world.store.event(inbox.tenant, again.event.id).await.unwrap(), None);
    assert!(world.store.contents(vec![again.event.id]).await.unwrap().is_empty());
    let work = WorkId::first_of(again.event.id);
    assert_eq!(world.store.work(inbox.tenant, work).await.unwrap(), None);
    let receipt = ReceiptRow {
        id: again.receipt.id,
        event: Some(first.event.id),
        remote_addr: again.receipt.remote_addr,
        verdict: Verdict::Duplicate,
        latency_us: again.receipt.latency_us,
        detail: again.receipt.detail,
        evidence: Some(Evidence {
            dedup_key: "a".to_owned(),
            body: Evidence::body_text(&again.event.payload_hash),
            signature: Some(-7),
            retry: Some("2".to_owned()),
            our_fault: Some(OurFault::Slow),
        }),
    };
    assert_eq!(world.store.receipts(inbox.tenant, first.event.id).await.unwrap(), [receipt]);
}

pub async fn a_repeat_of_an_event_without_a_job_says_so(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.event(&inbox).with_key("a").unmapped().build();
    world.accept(first.clone()).await;
    let again = world.accept(world.event(&inbox).with_key("a")).await;
    assert_eq!(again, Accepted::Duplicate { of: first.event.id, job: None });
}

/// A caller that never learned of the commit tries the very same event again.
pub async fn the_very_same_event_again_is_new_and_stored_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let new = world.event(&inbox).with_key("a").with_key("b").build();
    for _ in 0..3 {
        assert_eq!(world.accept(new.clone()).await, Accepted::New);
    }
    assert_eq!(world.stored(inbox.tenant, new.event.id).await.duplicates, 0);
    assert_eq!(world.claim(&inbox).up_to(10).take().await.len(), 1);
}

pub async fn of_two_hundred_copies_at_once_one_is_new(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let copies: Vec<NewEvent> =
        (0..200).map(|_| world.event(&inbox).with_key("a").build()).collect();
    let answers = accept_at_once(&world, copies).await;
    let new = new_ones(&answers);
    assert_eq!(new.len(), 1);
    let of_first = Accepted::Duplicate { of: new[0], job: Some(WorkId::first_of(new[0])) };
    assert_eq!(answers.iter().filter(|(_, answer)| *answer == of_first).count(), 199);
    let events = world.store.events(inbox.tenant, Default::default(), ALL).await.unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].event.id, events[0].event.duplicates), (new[0], 199));
    assert_eq!(world.claim(&inbox).up_to(10).take().await.len(), 1);
    let kept = world.store.receipts(inbox.tenant, new[0]).await.unwrap().len();
    assert_eq!(kept, limits::DUPLICATE_RECEIPTS_KEPT as usize);
}

pub async fn copies_in_one_batch_are_duplicates_of_its_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let batch: Vec<NewEvent> =
        ["a", "b", "a", "a", "b"].map(|key| world.event(&inbox).with_key(key).build()).into();
    let ids: Vec<EventId> = batch.iter().map(|new| new.event.id).collect();
    let answers: Vec<Accepted> =
        world.store.accept(batch).await.into_iter().map(Result::unwrap).collect();
    let of = |index: usize| Accepted::Duplicate {
        of: ids[index],
        job: Some(WorkId::first_of(ids[index])),
    };
    assert_eq!(answers, [Accepted::New, Accepted::New, of(0), of(0), of(1)]);
    assert_eq!(world.stored(inbox.tenant, ids[0]).await.duplicates, 2);
    assert_eq!(world.stored(inbox.tenant, ids[1]).await.duplicates, 1);
}

pub async fn batches_of_the_same_copies_at_once_make_each_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut calls = Vec::new();
    for turn in 0..12 {
        // Each in another order, so that two batches meet the same keys from both ends.
        let keys = (0..30).map(|key| (key * 7 + turn * 11) % 30);
        let batch: Vec<NewEvent> =
            keys.map(|key| world.event(&inbox).with_key(&format!("k{key}")).build()).collect();
        let node = world.node(turn);
        calls.push(tokio::spawn(async move { node.accept(batch).await }));
    }
    let mut new = 0;
    for call in calls {
        new += call
            .await
            .unwrap()
            .into_iter()
            .filter(|a| *a.as_ref().unwrap() == Accepted::New)
            .count();
    }
    assert_eq!(new, 30);
    let events = world.store.events(inbox.tenant, Default::default(), ALL).await.unwrap();
    assert_eq!(events.len(), 30);
    assert!(events.iter().all(|row| row.event.duplicates == 11), "every repeat is counted");
}

pub async fn the_same_key_of_two_tenants_or_sources_never_mixes(harness: &impl Harness) {
    let world = World::new(harness).await;
    let mine = world.inbox().await;
    let second = world.inbox().await;
    let theirs = world.inbox_of(world.tenant("theirs").await).await;
    // Even a source of the same id, which chance does not make, stays with its tenant.
    let twin = Inbox { source: mine.source, ..theirs };
    for inbox in [&mine, &second, &theirs, &twin] {
        assert_eq!(world.accept(world.event(inbox).with_key("a")).await, Accepted::New);
    }
    for inbox in [&mine, &second, &theirs, &twin] {
        let again = world.event(inbox).with_key("a").build();
        let Accepted::Duplicate { of, .. } = world.accept(again).await else {
            panic!("not a copy")
        };
        let first = world.stored(inbox.tenant, of).await;
        assert_eq!((first.source, first.tenant), (inbox.source, inbox.tenant));
        assert_eq!(first.duplicates, 1);
    }
}

fn of(first: EventId) -> Accepted {
    Accepted::Duplicate { of: first, job: Some(WorkId::first_of(first)) }
}

impl<H: Harness> World<'_, H> {
    /// Repeats under each of the keys are answered so: alone, in a batch, beside something new, and with others that share
    /// a body.
    async fn answers_repeats(&self, inbox: &Inbox, keys: &[&str], answer: Accepted) {
        let batch = || keys.iter().map(|key| self.event(inbox).with_key(key).build()).collect();
        for _ in 0..2 {
            for key in keys {
                assert_eq!(self.accept(self.event(inbox).with_key(key)).await, answer, "{key}");
            }
            for repeat in self.store.accept(batch()).await {
                assert_eq!(repeat.unwrap(), answer);
            }
            let mixed = [batch(), vec![self.event(inbox).ignored().build()]].concat();
            let mut answers = self.store.accept(mixed).await;
            assert_eq!(answers.pop().unwrap().unwrap(), Accepted::New);
            for repeat in answers {
                assert_eq!(repeat.unwrap(), answer);
            }
            let body =
                SharedBody { id: EventId(self.id()), tenant: inbox.tenant, content: sealed("[]") };
            for repeat in self.store.accept_together(body, batch()).await.unwrap() {
                assert_eq!(repeat, answer);
            }
        }
    }
}

pub async fn a_key_blocks_for_its_whole_window_and_no_longer_than_its_body(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let until = world.now().await.after(Duration::from_secs(1000));
    let first = world.event(&inbox).with_key("a").blocking_until(until).build();
    world.accept(first.clone()).await;
    world.run_to(&inbox, Ending::Succeeded).await;
    world.forget_bodies(inbox.tenant).await;
    assert!(!world.has_body(first.event.id).await);
    world.advance_s(900).await;
    let again = world.accept(world.event(&inbox).with_key("a")).await;
    assert_eq!(again, of(first.event.id), "its window is not over");
    world.advance_s(101).await;
    let next = world.event(&inbox).with_key("a").build();
    assert_eq!(world.accept(next.clone()).await, Accepted::New);
    let again = world.accept(world.event(&inbox).with_key("a")).await;
    assert_eq!(again, of(next.event.id));
    assert_eq!(world.stored(inbox.tenant, first.event.id).await.duplicates, 1);
}

/// What waits, is held or was given up keeps its body for longer than any window.
pub async fn an_expired_key_blocks_as_long_as_its_body_is_there(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let soon = world.now().await.after(Duration::from_secs(10));
    let first = world.event(&inbox).with_key("a").with_key("b").blocking_until(soon).build();
    world.accept(first.clone()).await;
    world.run_to(&inbox, Ending::Held(HeldReason::Budget)).await;
    world.advance_s(11).await;
    world.forget_bodies(inbox.tenant).await;
    assert!(world.has_body(first.event.id).await, "a held job needs it");
    world.answers_repeats(&inbox, &["a", "b"], of(first.event.id)).await;
    assert!(world.claim(&inbox).take().await.is_empty(), "nothing runs twice");
    assert_eq!(world.stored(inbox.tenant, first.event.id).await.duplicates, 16);
    let audit = world.audit(inbox.tenant, "job.release");
    world.store.release(inbox.tenant, WorkId::first_of(first.event.id), audit).await.unwrap();
    world.run_to(&inbox, Ending::Succeeded).await;
    world.forget_bodies(inbox.tenant).await;
    assert!(!world.has_body(first.event.id).await);
    let next = world.event(&inbox).with_key("a").with_key("b").build();
    assert_eq!(world.accept(next.clone()).await, Accepted::New);
    world.answers_repeats(&inbox, &["a", "b"], of(next.event.id)).await;
}

pub async fn an_expired_key_blocks_as_long_as_the_body_its_event_shares(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let soon = world.now().await.after(Duration::from_secs(10));
    let body = EventId(world.id());
    let part = |index: u16, key: &str| {
        world.event(&inbox).part_of(body, index).with_key(key).blocking_until(soon).build()
    };
    let (done, dead) = (part(0, "a"), part(1, "b"));
    let shared = SharedBody { id: body, tenant: inbox.tenant, content: sealed("[1,2]") };
    let both = vec![done.clone(), dead.clone()];
    world.store.accept_together(shared, both).await.unwrap();
    world.run_to(&inbox, Ending::Succeeded).await;
    let given_up = world.run_to(&inbox, given_up()).await.ticket.work;
    assert_eq!(given_up, WorkId::first_of(dead.event.id));
    world.advance_s(11).await;
    world.forget_bodies(inbox.tenant).await;
    assert!(world.has_body(body).await, "a dead letter needs it");
    world.answers_repeats(&inbox, &["a"], of(done.event.id)).await;
    world.answers_repeats(&inbox, &["b"], of(dead.event.id)).await;
    let by = OperationId(world.id());
    world.store.purge(inbox.tenant, vec![given_up], by).await.unwrap();
    world.forget_bodies(inbox.tenant).await;
    assert!(!world.has_body(body).await);
    for key in ["a", "b"] {
        assert_eq!(world.accept(world.event(&inbox).with_key(key)).await, Accepted::New, "{key}");
    }
}

pub async fn an_expired_key_is_taken_over_by_exactly_one_of_many(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let until = world.now().await.after(Duration::from_secs(10));
    let first = world.event(&inbox).with_key("a").blocking_until(until).build();
    world.accept(first.clone()).await;
    world.run_to(&inbox, Ending::Succeeded).await;
    world.advance_s(11).await;
    world.forget_bodies(inbox.tenant).await;
    let copies: Vec<NewEvent> =
        (0..60).map(|_| world.event(&inbox).with_key("a").build()).collect();
    let answers = accept_at_once(&world, copies).await;
    let new = new_ones(&answers);
    assert_eq!(new.len(), 1);
    assert_eq!(answers.iter().filter(|(_, answer)| *answer == of(new[0])).count(), 59);
    assert_eq!(world.stored(inbox.tenant, first.event.id).await.duplicates, 0);
}

pub async fn at_most_twenty_duplicate_receipts_are_kept_and_all_are_counted(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.event(&inbox).with_key("a").build();
    world.accept(first.clone()).await;
    let mut sent = Vec::new();
    for size in [3, 1, 30, 1] {
        let batch: Vec<NewEvent> =
            (0..size).map(|_| world.event(&inbox).with_key("a").build()).collect();
        sent.extend(batch.iter().map(|new| new.receipt.id));
        world.store.accept(batch).await;
    }
    assert_eq!(world.stored(inbox.tenant, first.event.id).await.duplicates, 35);
    let kept = world.store.receipts(inbox.tenant, first.event.id).await.unwrap();
    assert_eq!(kept.len(), limits::DUPLICATE_RECEIPTS_KEPT as usize);
    let ids: Vec<_> = kept.iter().map(|row| row.id).collect();
    assert_eq!(ids, sent[..20], "the first twenty, oldest first");
}
