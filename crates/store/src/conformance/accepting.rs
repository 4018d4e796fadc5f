//! Accepting: an event is stored whole, with what it led to, or not at all.

use wakepost_domain::receipt::Verdict;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, ReceiptId, TenantId, WorkId, limits};

use super::Harness;
use super::drafts::{ATTEMPTS, Inbox, rejection};
use super::world::{ALL, World, assert_near, sealed};
use crate::moves::{Accepted, NewEvent, NewReceipt, Page, ReceiptRow, SharedBody, WorkMeta};

pub async fn a_new_event_is_stored_with_every_column(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut new =
        world.event(&inbox).with_key("d-1").of_type("pull.merged").about("gh:pr:7").build();
    new.event.verified = false;
    new.event.occurred_at = Some(world.now().await);
    new.event.remote_addr = Some("2001:db8::1".to_owned());
    new.event.signature = Some(i64::MIN);
    new.event.payload_hash = std::array::from_fn(|index| 255 - index as u8);
    assert_eq!(world.accept(new.clone()).await, Accepted::New);
    assert_eq!(world.stored(inbox.tenant, new.event.id).await, new.event);
}

pub async fn a_body_is_kept_byte_for_byte(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let every_byte: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let large = vec![0x5A; 3 * 1024 * 1024];
    for body in [every_byte, large, vec![0]] {
        let new = world.event(&inbox).with_body(body).build();
        let (id, content) = (new.event.id, new.content.clone().unwrap());
        assert_eq!(world.accept(new).await, Accepted::New);
        let found = world.other.contents(vec![id]).await.unwrap();
        assert!(found == [(id, content)], "the body of {id} came back changed");
    }
}

pub async fn a_new_event_makes_its_job_in_the_same_breath(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let new = world.event(&inbox).about("gh:issue:1").build();
    let event = new.event.id;
    world.accept(new).await;
    let work = world.store.work_of_event(inbox.tenant, event).await.unwrap();
    assert_eq!(work.len(), 1);
    let row = &work[0];
    assert_near(row.run_at, world.now().await);
    assert_eq!((row.id, row.event), (WorkId::first_of(event), Some(event)));
    assert_eq!((row.tenant, row.lane, row.kind), (inbox.tenant, inbox.lane, WorkKind::Job));
    assert_eq!((row.state, row.attempts, row.max_attempts), (State::Pending, 0, ATTEMPTS));
    assert_eq!((row.fence, row.scope), (0, event.0));
    assert_eq!(row.subject.as_deref(), Some("gh:issue:1"));
    assert_eq!((&row.held, &row.last_error, &row.worker), (&None, &None, &None));
    assert_eq!((row.started_at, row.lease_expires_at, row.finished_at), (None, None, None));
    assert_eq!((row.cancel_requested, row.replayed_as), (false, None));
    assert_eq!(row.meta, WorkMeta::default());
}

pub async fn ignored_and_unmapped_events_are_kept_and_make_no_job(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for new in [world.event(&inbox).ignored().build(), world.event(&inbox).unmapped().build()] {
        assert_eq!(world.accept(new.clone()).await, Accepted::New);
        assert_eq!(world.stored(inbox.tenant, new.event.id).await, new.event);
        assert_eq!(world.store.contents(vec![new.event.id]).await.unwrap().len(), 1);
        let work = world.store.work_of_event(inbox.tenant, new.event.id).await.unwrap();
        assert!(work.is_empty(), "{work:?}");
    }
    assert!(world.claim(&inbox).take().await.is_empty());
}

pub async fn an_empty_batch_is_answered_with_nothing(harness: &impl Harness) {
    let world = World::new(harness).await;
    assert!(world.store.accept(vec![]).await.is_empty());
    world.store.keep_rejections(vec![]).await.unwrap();
}

pub async fn answers_come_in_the_order_of_the_batch(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let known = world.event(&inbox).with_key("known").build();
    let quiet = world.event(&inbox).with_key("quiet").ignored().build();
    world.accept(known.clone()).await;
    world.accept(quiet.clone()).await;
    let batch: Vec<NewEvent> = ["a", "known", "b", "quiet", "known", "c"]
        .map(|key| world.event(&inbox).with_key(key).build())
        .into();
    let answers = world.store.accept(batch).await;
    let of_known =
        Accepted::Duplicate { of: known.event.id, job: Some(WorkId::first_of(known.event.id)) };
    let of_quiet = Accepted::Duplicate { of: quiet.event.id, job: None };
    let expected = [Accepted::New, of_known, Accepted::New, of_quiet, of_known, Accepted::New];
    let answers: Vec<Accepted> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers, expected);
}

pub async fn many_events_from_two_nodes_are_all_stored(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut calls = Vec::new();
    for turn in 0..40 {
        let batch: Vec<NewEvent> = (0..10).map(|_| world.event(&inbox).build()).collect();
        let node = world.node(turn);
        calls.push(tokio::spawn(async move { node.accept(batch).await }));
    }
    for call in calls {
        for answer in call.await.unwrap() {
            assert_eq!(answer.unwrap(), Accepted::New);
        }
    }
    let events = world.store.events(inbox.tenant, Default::default(), ALL).await.unwrap();
    assert_eq!(events.len(), 400);
    assert!(events.iter().all(|row| row.work == [State::Pending]));
    assert_eq!(world.claim(&inbox).up_to(1000).take().await.len(), 400);
}

fn shared(inbox: &Inbox, id: EventId) -> SharedBody {
    SharedBody { id, tenant: inbox.tenant, content: sealed("[1,2,3]") }
}

pub async fn events_of_one_request_share_its_body(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let body = EventId(world.id());
    let part = |index: u16| {
        let key = format!("item-{index}");
        world.event(&inbox).with_key(&key).part_of(body, index).build()
    };
    let first: Vec<NewEvent> = (0..3).map(part).collect();
    let answers = world.store.accept_together(shared(&inbox, body), first.clone()).await.unwrap();
    assert_eq!(answers, [Accepted::New; 3]);
    for new in &first {
        assert_eq!(world.stored(inbox.tenant, new.event.id).await, new.event);
        assert_eq!(new.event.body(), body);
    }
    let found = world.other.contents(vec![body]).await.unwrap();
    assert_eq!(found, [(body, sealed("[1,2,3]"))]);
    assert_eq!(world.claim(&inbox).up_to(10).take().await.len(), 3);
}

pub async fn of_a_repeated_request_only_what_is_new_is_stored(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let part =
        |body, key: &str, index| world.event(&inbox).with_key(key).part_of(body, index).build();
    let body = EventId(world.id());
    let first = vec![part(body, "a", 0), part(body, "b", 1)];
    world.store.accept_together(shared(&inbox, body), first.clone()).await.unwrap();

    let of = |new: &NewEvent| Accepted::Duplicate {
        of: new.event.id,
        job: Some(WorkId::first_of(new.event.id)),
    };
    let again = EventId(world.id());
    let repeat = vec![part(again, "a", 0), part(again, "b", 1)];
    let answers = world.store.accept_together(shared(&inbox, again), repeat).await.unwrap();
    assert_eq!(answers, [of(&first[0]), of(&first[1])]);
    assert!(
        world.store.contents(vec![again]).await.unwrap().is_empty(),
        "no body without an event"
    );

    let more = EventId(world.id());
    let mixed = vec![part(more, "b", 0), part(more, "c", 1), part(more, "c", 2)];
    let answers = world.store.accept_together(shared(&inbox, more), mixed.clone()).await.unwrap();
    assert_eq!(answers, [of(&first[1]), Accepted::New, of(&mixed[1])]);
    assert_eq!(world.store.contents(vec![more]).await.unwrap().len(), 1);
    assert_eq!(world.stored(inbox.tenant, first[1].event.id).await.duplicates, 2);
}

/// The id of another event cannot be stored a second time, whatever the database.
pub async fn of_one_request_all_events_are_stored_or_none(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let taken = world.event(&inbox).with_key("taken").build();
    world.accept(taken.clone()).await;
    let body = EventId(world.id());
    let good = world.event(&inbox).with_key("good").part_of(body, 0).build();
    let bad = world.event(&inbox).with_key("bad").with_id(taken.event.id).part_of(body, 1).build();
    let refused = world.store.accept_together(shared(&inbox, body), vec![good.clone(), bad]).await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(world.store.event(inbox.tenant, good.event.id).await.unwrap().is_none());
    assert!(world.store.contents(vec![body]).await.unwrap().is_empty());
    assert_eq!(world.accept(world.event(&inbox).with_key("good")).await, Accepted::New);
}

/// The same request from many senders at once, on two nodes.
pub async fn copies_of_one_request_at_once_make_each_event_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut calls = Vec::new();
    for turn in 0..16u16 {
        let body = EventId(world.id());
        // Half of them the other way round: keys taken in another order must not lock each other out.
        let keys = if turn % 4 < 2 { ["a", "b", "c"] } else { ["c", "b", "a"] };
        let events = keys
            .iter()
            .zip(0..)
            .map(|(key, index)| world.event(&inbox).with_key(key).part_of(body, index).build());
        let (events, shared) = (events.collect(), shared(&inbox, body));
        let node = world.node(turn.into());
        calls.push(tokio::spawn(async move { node.accept_together(shared, events).await }));
    }
    let mut new = 0;
    for call in calls {
        let answers = call.await.unwrap().unwrap();
        new += answers.iter().filter(|answer| **answer == Accepted::New).count();
    }
    assert_eq!(new, 3);
    assert_eq!(world.claim(&inbox).up_to(100).take().await.len(), 3);
}

/// The id of another event cannot be stored a second time, whatever the database.
pub async fn an_event_that_cannot_be_stored_fails_alone_and_leaves_nothing(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.event(&inbox).with_key("first").build();
    world.accept(first.clone()).await;
    let good = world.event(&inbox).with_key("good").build();
    let bad = world.event(&inbox).with_key("bad").with_id(first.event.id).of_type("other").build();
    let fine = world.event(&inbox).with_key("fine").build();
    let answers = world.store.accept(vec![good.clone(), bad, fine.clone()]).await;
    assert_eq!(answers.len(), 3);
    assert!(matches!(answers[0], Ok(Accepted::New)), "{:?}", answers[0]);
    assert!(answers[1].is_err(), "{:?}", answers[1]);
    assert!(matches!(answers[2], Ok(Accepted::New)), "{:?}", answers[2]);
    assert_eq!(world.stored(inbox.tenant, first.event.id).await, first.event);
    assert_eq!(world.stored(inbox.tenant, good.event.id).await, good.event);
    assert_eq!(world.stored(inbox.tenant, fine.event.id).await, fine.event);
    assert_eq!(world.accept(world.event(&inbox).with_key("bad")).await, Accepted::New);
}

/// A provider's id may hold a NUL, which PostgreSQL's text cannot.
pub async fn a_text_that_is_hard_to_store_harms_no_other_event(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let odd = world.event(&inbox).with_key("a\0b").of_type("x\0y").about("s\0").build();
    let batch = vec![world.event(&inbox).build(), odd.clone(), world.event(&inbox).build()];
    let ids: Vec<EventId> = batch.iter().map(|new| new.event.id).collect();
    let answers = world.store.accept(batch).await;
    assert_eq!(answers[0].as_ref().unwrap(), &Accepted::New);
    assert_eq!(answers[2].as_ref().unwrap(), &Accepted::New);
    let found = world.store.event(inbox.tenant, odd.event.id).await.unwrap();
    assert_eq!(answers[1].is_ok(), found.is_some(), "what was acknowledged is there");
    assert!(world.store.event(inbox.tenant, ids[2]).await.unwrap().is_some());
}

fn rejections<H: Harness>(world: &World<'_, H>, inbox: &Inbox, count: usize) -> Vec<NewReceipt> {
    let verdict = Verdict::BadSignature;
    (0..count).map(|_| rejection(inbox, ReceiptId(world.id()), verdict)).collect()
}

pub async fn a_rejection_is_kept_as_it_was(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let stranger = world.tenant("stranger").await;
    let kept = rejection(&inbox, ReceiptId(world.id()), Verdict::Stale);
    world.store.keep_rejections(vec![kept.clone()]).await.unwrap();
    let rows = world.store.source_receipts(inbox.tenant, inbox.source, ALL).await.unwrap();
    let expected = ReceiptRow {
        id: kept.id,
        event: None,
        remote_addr: kept.remote_addr,
        verdict: Verdict::Stale,
        latency_us: kept.latency_us,
        detail: kept.detail,
        evidence: None,
    };
    assert_eq!(rows, [expected]);
    assert!(world.store.source_receipts(stranger, inbox.source, ALL).await.unwrap().is_empty());
}

pub async fn only_the_latest_rejections_of_each_source_are_kept(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (flooded, calm) = (world.inbox().await, world.inbox().await);
    let quiet = rejections(&world, &calm, 5);
    world.store.keep_rejections(quiet).await.unwrap();
    let repeat = world.event(&flooded).with_key("a").build();
    world.accept(repeat).await;
    world.accept(world.event(&flooded).with_key("a")).await;
    let mut sent = Vec::new();
    for size in [1, 349, 100, 1, 1] {
        let batch = rejections(&world, &flooded, size);
        sent.extend(batch.iter().map(|receipt| receipt.id));
        world.store.keep_rejections(batch).await.unwrap();
    }
    let rows = world.store.source_receipts(flooded.tenant, flooded.source, ALL).await.unwrap();
    let (kept, duplicates): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|row| row.verdict == Verdict::BadSignature);
    let kept: Vec<ReceiptId> = kept.into_iter().map(|row| row.id).collect();
    sent.reverse();
    sent.truncate(limits::REJECTIONS_KEPT as usize);
    assert_eq!(kept, sent, "the latest, newest first");
    assert_eq!(duplicates.len(), 1, "a duplicate's receipt is no rejection");
    let rows = world.store.source_receipts(calm.tenant, calm.source, ALL).await.unwrap();
    assert_eq!(rows.len(), 5, "another source's are its own");
}

pub async fn kept_requests_come_in_pages(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut sent: Vec<ReceiptId> = Vec::new();
    let batch = rejections(&world, &inbox, 7);
    sent.extend(batch.iter().map(|receipt| receipt.id));
    world.store.keep_rejections(batch).await.unwrap();
    let mut seen = Vec::new();
    let mut page = Page { before: None, limit: 3 };
    loop {
        let rows = world.store.source_receipts(inbox.tenant, inbox.source, page).await.unwrap();
        let Some(last) = rows.last() else { break };
        page.before = Some(last.id.0);
        seen.extend(rows.into_iter().map(|row| row.id));
    }
    sent.reverse();
    assert_eq!(seen, sent);
}

pub async fn another_tenant_cannot_see_an_event_or_its_work(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let stranger = world.tenant("stranger").await;
    let new = world.event(&inbox).with_key("a").build();
    world.accept(new.clone()).await;
    world.accept(world.event(&inbox).with_key("a")).await;
    let (event, work) = (new.event.id, WorkId::first_of(new.event.id));
    assert_eq!(world.store.event(stranger, event).await.unwrap(), None);
    assert_eq!(world.store.work(stranger, work).await.unwrap(), None);
    assert!(world.store.work_of_event(stranger, event).await.unwrap().is_empty());
    assert!(world.store.receipts(stranger, event).await.unwrap().is_empty());
    assert_eq!(world.store.receipts(TenantId::DEFAULT, event).await.unwrap().len(), 1);
}
