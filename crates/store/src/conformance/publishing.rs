//! Publishing: an event is stored once, with one delivery for each webhook that wants it.

use std::collections::BTreeSet;
use std::time::Duration;

use wakepost_domain::event::{Route, status};
use wakepost_domain::publication::about_job;
use wakepost_domain::thread::ThreadPolicy;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, TenantId, WorkId};

use super::Harness;
use super::pruning::{LONG, all_before};
use super::reading_events::newest_first;
use super::subscribers::Hook;
use super::world::{ALL, World, assert_near, assert_not_found, failed_for_s, given_up, sealed};
use crate::error::{Result, StoreError};
use crate::moves::{Accepted, AuditFilter, EventFilter, NewEvent, Page, Replay, ReplayFrom};

const TENANT: TenantId = TenantId::DEFAULT;
const DAY: Duration = Duration::from_secs(24 * 3600);

#[track_caller]
fn assert_mismatch<T: std::fmt::Debug>(answer: Result<T>, place: usize) {
    let is_that = matches!(answer, Err(StoreError::Mismatch(index)) if index == place);
    assert!(is_that, "not Mismatch({place}): {answer:?}");
}

fn duplicate(of: EventId) -> Accepted {
    Accepted::Duplicate { of, job: None }
}

impl<H: Harness> World<'_, H> {
    async fn event_list(&self, filter: EventFilter) -> Vec<EventId> {
        let rows = self.other.events(TENANT, filter, ALL).await.unwrap();
        rows.into_iter().map(|row| row.event.id).collect()
    }

    /// The published events that have this status.
    async fn out_with_status(&self, status: &str) -> Vec<EventId> {
        let status = Some(status.to_owned());
        self.event_list(EventFilter { published: true, status, ..EventFilter::default() }).await
    }

    /// How many deliveries of a webhook there are.
    async fn deliveries_of(&self, hook: &Hook) -> usize {
        self.store.deliveries(hook.tenant, hook.lane, None, ALL).await.unwrap().len()
    }

    async fn is_stored(&self, event: EventId) -> bool {
        self.store.event(TENANT, event).await.unwrap().is_some()
    }
}

pub async fn a_published_event_is_stored_with_its_body(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let draft = world.publication(TENANT).saying("all of it").about("order:7");
    let new = draft.in_trace("4bf9").to(&[&hook]).build();
    let event = world.published(new.clone()).await;
    assert_eq!(world.stored(TENANT, event).await, new.event);
    assert_eq!(new.event.route, Route::Published);
    let contents = world.store.contents(vec![event]).await.unwrap();
    assert_eq!(contents, [(event, sealed("all of it"))]);
    assert_eq!(world.store.receipts(TENANT, event).await.unwrap(), []);
    assert_eq!(world.store.work(TENANT, WorkId::first_of(event)).await.unwrap(), None);
    assert_eq!(world.store.publish(Vec::new(), None).await.unwrap(), []);
}

pub async fn an_event_makes_one_delivery_for_each_webhook(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (a, b) = (world.hook().await, world.hook().await);
    let draft = world.publication(TENANT).about("order:7").published_by("job_7").to(&[&a, &b]);
    let event = world.published(draft.in_trace("4bf9").tried_at_most(7)).await;
    for hook in [&a, &b] {
        let row = world.row(TENANT, hook.delivery(event)).await;
        assert_eq!((row.kind, row.lane, row.event), (WorkKind::Delivery, hook.lane, Some(event)));
        assert_eq!((row.state, row.attempts, row.max_attempts), (State::Pending, 0, 7));
        assert_eq!((row.scope, row.subject.as_deref()), (row.id.0, Some("order:7")));
        assert_eq!(row.meta.parent_id.as_deref(), Some("job_7"));
        assert_eq!(row.meta.trace.as_deref(), Some("4bf9"));
        assert_near(row.run_at, world.now().await);
        let claimed = world.claim(hook).up_to(9).take().await;
        assert_eq!(claimed.len(), 1);
        let claimed = &claimed[0];
        assert_eq!((claimed.ticket.work, claimed.kind), (row.id, WorkKind::Delivery));
        assert_eq!((claimed.event, claimed.ticket.ordered), (Some(event), false));
        assert_eq!(claimed.meta.trace.as_deref(), Some("4bf9"));
    }
    let works = world.store.work_of_event(TENANT, event).await.unwrap();
    let expected = BTreeSet::from([a.delivery(event), b.delivery(event)]);
    assert_eq!(works.iter().map(|row| row.id).collect::<BTreeSet<_>>(), expected);
    assert_eq!(works.len(), 2);
}

pub async fn what_nobody_wants_is_kept_and_makes_nothing(harness: &impl Harness) {
    let world = World::new(harness).await;
    let event = world.published(world.publication(TENANT)).await;
    assert!(world.has_body(event).await);
    assert_eq!(world.store.work_of_event(TENANT, event).await.unwrap(), []);
    assert!(world.store.waiting_lanes().await.unwrap().is_empty());
}

pub async fn one_for_later_waits_until_then(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let later = world.now().await.after(Duration::from_secs(600));
    let event = world.published(world.publication(TENANT).to(&[&hook]).at(later)).await;
    let row = world.row(TENANT, hook.delivery(event)).await;
    assert_eq!((row.state, row.run_at), (State::Scheduled, later));
    assert!(world.claim(&hook).take().await.is_empty());
    world.advance_s(601).await;
    assert_eq!(world.claim(&hook).one().await.event, Some(event));
}

pub async fn a_repeat_returns_the_first_and_is_only_counted(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (hook, other) = (world.hook().await, world.hook().await);
    let new = || world.publication(TENANT).with_key("k").saying("same");
    let first = world.published(new().to(&[&hook])).await;
    for turn in 1..=25 {
        // Whoever subscribed meanwhile gets nothing of it.
        let again = new().to(&[&hook, &other]).build();
        assert_eq!(world.publish(again.clone()).await.unwrap(), duplicate(first));
        assert!(!world.is_stored(again.event.id).await);
        assert!(!world.has_body(again.event.id).await);
        assert_eq!(world.stored(TENANT, first).await.duplicates, turn);
    }
    assert_eq!(world.store.receipts(TENANT, first).await.unwrap(), []);
    assert_eq!((world.deliveries_of(&hook).await, world.deliveries_of(&other).await), (1, 0));
}

pub async fn something_else_under_a_key_is_refused_and_changes_nothing(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let first = world.published(world.publication(TENANT).with_key("k").saying("this")).await;
    let other = world.publication(TENANT).with_key("free").with_key("k").saying("that");
    let other = other.to(&[&hook]).build();
    assert_mismatch(world.publish(other.clone()).await, 0);
    assert!(!world.is_stored(other.event.id).await);
    assert!(!world.has_body(other.event.id).await);
    assert_eq!(world.deliveries_of(&hook).await, 0);
    assert_eq!(world.stored(TENANT, first).await.duplicates, 0, "it was no repeat");
    world.published(world.publication(TENANT).with_key("free").saying("more")).await;
    let again = world.publication(TENANT).with_key("k").saying("this");
    assert_eq!(world.publish(again).await.unwrap(), duplicate(first));
}

pub async fn publications_are_stored_all_or_none(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let new = |key: &str, text: &str| {
        world.publication(TENANT).with_key(key).saying(text).to(&[&hook]).build()
    };
    let first = world.published(new("taken", "one")).await;
    let batch = vec![new("a", "1"), new("taken", "one"), new("b", "2"), new("taken", "other")];
    let ids: Vec<EventId> = batch.iter().map(|new| new.event.id).collect();
    assert_mismatch(world.store.publish(batch.clone(), None).await, 3);
    for id in &ids {
        assert!(!world.is_stored(*id).await && !world.has_body(*id).await);
    }
    assert_eq!(world.stored(TENANT, first).await.duplicates, 0);
    assert_eq!(world.deliveries_of(&hook).await, 1);
    // Their keys are free, and the same call without the guilty one goes through.
    let answers = world.store.publish(batch[..3].to_vec(), None).await.unwrap();
    assert_eq!(answers, [Accepted::New, duplicate(first), Accepted::New]);
    assert_eq!(world.deliveries_of(&hook).await, 3);
}

pub async fn what_is_published_by_hand_is_in_the_trail_with_it_or_not_at_all(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let new = |key: &str, text: &str| {
        world.publication(TENANT).with_key(key).saying(text).to(&[&hook]).build()
    };
    let trail = async || {
        let filter = AuditFilter { action: Some("event.".to_owned()), ..AuditFilter::of(TENANT) };
        world.store.audit(filter, ALL).await.unwrap()
    };
    let mut entries = Vec::new();
    let mut publish = async |events: Vec<NewEvent>| {
        entries.push(world.audit(TENANT, "event.publish"));
        world.store.publish(events, entries.last().cloned()).await
    };
    let one = new("k", "this");
    assert_eq!(publish(vec![one.clone()]).await.unwrap(), [Accepted::New]);
    let ordered = world.publication(TENANT).in_order("o").to(&[&hook]).build();
    assert_eq!(publish(vec![ordered, new("l", "more")]).await.unwrap(), [Accepted::New; 2]);
    // Neither a repeat, nor what is refused, nor the same again after an answer that got lost.
    let first = one.event.id;
    assert_eq!(publish(vec![new("k", "this")]).await.unwrap(), [duplicate(first)]);
    assert_mismatch(publish(vec![new("m", "free"), new("k", "that")]).await, 1);
    assert_eq!(publish(vec![one]).await.unwrap(), [Accepted::New]);
    let noted: Vec<_> = entries[..2].iter().rev().cloned().collect();
    assert_eq!(trail().await, noted);
}

pub async fn copies_in_one_call_are_duplicates_of_its_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let new =
        |text: &str| world.publication(TENANT).with_key("k").saying(text).to(&[&hook]).build();
    assert_mismatch(world.store.publish(vec![new("a"), new("a"), new("b")], None).await, 2);
    assert_eq!(world.deliveries_of(&hook).await, 0);
    let batch = vec![new("a"), new("a"), new("a")];
    let first = batch[0].event.id;
    let answers = world.store.publish(batch, None).await.unwrap();
    assert_eq!(answers, [Accepted::New, duplicate(first), duplicate(first)]);
    assert_eq!(world.stored(TENANT, first).await.duplicates, 2);
    assert_eq!(world.deliveries_of(&hook).await, 1);
}

pub async fn the_very_same_publication_again_is_new_and_stored_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let keyed = world.publication(TENANT).with_key("k").to(&[&hook]).build();
    let plain = world.publication(TENANT).to(&[&hook]).build();
    for _ in 0..3 {
        // As after an answer that got lost.
        let batch = vec![keyed.clone(), plain.clone()];
        assert_eq!(world.other.publish(batch, None).await.unwrap(), [Accepted::New, Accepted::New]);
    }
    for new in [&keyed, &plain] {
        assert_eq!(world.stored(TENANT, new.event.id).await.duplicates, 0);
    }
    assert_eq!(world.deliveries_of(&hook).await, 2);
    world.run_to_end(&hook).await;
    world.run_to_end(&hook).await;
    assert_eq!(world.publish(plain).await.unwrap(), Accepted::New);
    assert!(world.claim(&hook).take().await.is_empty(), "it was delivered before");
}

pub async fn what_has_no_key_is_no_duplicate(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    for _ in 0..3 {
        world.published(world.publication(TENANT).saying("same").to(&[&hook])).await;
    }
    assert_eq!(world.deliveries_of(&hook).await, 3);
}

pub async fn of_many_copies_at_once_one_is_published(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let mut calls = Vec::new();
    for turn in 0..40 {
        let new = world.publication(TENANT).with_key("k").to(&[&hook]).build();
        let node = world.node(turn);
        calls
            .push(tokio::spawn(async move { (new.event.id, node.publish(vec![new], None).await) }));
    }
    let mut firsts = BTreeSet::new();
    let mut new = 0;
    for call in calls {
        let (id, answer) = call.await.unwrap();
        firsts.insert(match answer.unwrap().remove(0) {
            Accepted::New => {
                new += 1;
                id
            }
            Accepted::Duplicate { of, job: None } => of,
            other => panic!("not a publication's answer: {other:?}"),
        });
    }
    assert_eq!((new, firsts.len()), (1, 1));
    let first = firsts.pop_first().unwrap();
    assert_eq!(world.stored(TENANT, first).await.duplicates, 39);
    assert_eq!(world.deliveries_of(&hook).await, 1);
}

pub async fn calls_with_the_same_keys_in_another_order_never_block_each_other(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    const KEYS: usize = 10;
    let mut calls = Vec::new();
    for turn in 0..20 {
        let new = |nth: usize| {
            let key = if turn % 2 == 0 { nth } else { KEYS - 1 - nth };
            let (key, order) = (format!("k{key}"), format!("o{}", key % 3));
            world.publication(TENANT).with_key(&key).in_order(&order).to(&[&hook]).build()
        };
        let batch: Vec<NewEvent> = (0..KEYS).map(new).collect();
        let node = world.node(turn);
        calls.push(tokio::spawn(async move { node.publish(batch, None).await }));
    }
    let mut new = 0;
    for call in calls {
        new += call.await.unwrap().unwrap().iter().filter(|answer| answer.is_new()).count();
    }
    assert_eq!(new, KEYS);
    assert_eq!(world.deliveries_of(&hook).await, KEYS);
}

pub async fn a_publications_key_blocks_for_its_whole_window(harness: &impl Harness) {
    let world = World::new(harness).await;
    let until = world.now().await.after(DAY);
    let new = |text: &str| world.publication(TENANT).with_key("k").saying(text);
    let first = world.published(new("a").blocking_until(until)).await;
    world.advance(DAY - Duration::from_secs(60)).await;
    assert_eq!(world.publish(new("a")).await.unwrap(), duplicate(first));
    assert_mismatch(world.publish(new("b")).await, 0);
    world.advance_s(120).await;
    assert_eq!(world.publish(new("a")).await.unwrap(), duplicate(first), "its body is there");
    assert_mismatch(world.publish(new("b")).await, 0);
    let two = vec![new("a").build(), world.publication(TENANT).build()];
    let answers = world.store.publish(two, None).await.unwrap();
    assert_eq!(answers, [duplicate(first), Accepted::New]);
    world.forget_bodies(TENANT).await;
    let second = world.published(new("b")).await;
    assert_eq!(world.publish(new("b")).await.unwrap(), duplicate(second));
}

pub async fn of_many_publications_those_take_their_keys_over_whose_bodies_are_gone(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let until = world.now().await.after(DAY);
    let hook = world.hook().await;
    let new = |key: &str| world.publication(TENANT).with_key(key);
    let gone = world.published(new("gone").blocking_until(until)).await;
    let waits = world.published(new("waits").blocking_until(until).to(&[&hook])).await;
    world.advance(2 * DAY).await;
    world.forget_bodies(TENANT).await;
    assert!(!world.has_body(gone).await);
    assert!(world.has_body(waits).await, "its delivery needs it");
    let three: Vec<NewEvent> = ["gone", "waits", "new"].map(|key| new(key).build()).into();
    let answers = world.store.publish(three, None).await.unwrap();
    assert_eq!(answers, [Accepted::New, duplicate(waits), Accepted::New]);
}

pub async fn a_key_whose_event_is_gone_still_blocks(harness: &impl Harness) {
    let world = World::new(harness).await;
    let until = world.now().await.after(300 * DAY);
    let first =
        world.published(world.publication(TENANT).with_key("k").blocking_until(until)).await;
    world.much_later().await;
    assert!(!world.is_stored(first).await);
    // What the first said is no longer known, so nothing is said against this.
    let again = world.publication(TENANT).with_key("k").saying("other");
    assert_eq!(world.publish(again).await.unwrap(), duplicate(first));
}

pub async fn a_key_of_two_tenants_or_of_a_source_never_mixes(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let theirs = world.tenant("theirs").await;
    assert_eq!(world.accept(world.event(&inbox).with_key("k")).await, Accepted::New);
    let ours = world.published(world.publication(TENANT).with_key("k").saying("ours")).await;
    let new = world.published(world.publication(theirs).with_key("k").saying("theirs")).await;
    assert_eq!(world.store.event(TENANT, new).await.unwrap(), None);
    let again = world.publication(TENANT).with_key("k").saying("ours");
    assert_eq!(world.publish(again).await.unwrap(), duplicate(ours));
}

pub async fn lists_show_what_was_received_or_what_was_published(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (inbox, hook) = (world.inbox().await, world.hook().await);
    let (mut received, mut published) = (Vec::new(), Vec::new());
    for turn in 0..8 {
        let event_type = if turn % 2 == 0 { "order.created" } else { "user.left" };
        let new = world.event(&inbox).of_type(event_type).about("order:7").build();
        received.push(new.event.id);
        world.accept(new).await;
        let new = world.publication(TENANT).of_type(event_type).about("order:7").to(&[&hook]);
        published.push(world.published(new).await);
        world.advance_s(10).await;
    }
    let theirs = world.tenant("theirs").await;
    world.published(world.publication(theirs)).await;
    let out = EventFilter { published: true, ..EventFilter::default() };
    assert_eq!(world.event_list(EventFilter::default()).await, newest_first(received.clone()));
    assert_eq!(world.event_list(out.clone()).await, newest_first(published.clone()));
    for (filter, ids) in [(EventFilter::default(), &received), (out, &published)] {
        let of_type = EventFilter { event_type: Some("order.*".to_owned()), ..filter.clone() };
        let expected: Vec<EventId> = ids.iter().copied().step_by(2).collect();
        assert_eq!(world.event_list(of_type).await, newest_first(expected));
        let since = EventFilter { since: Some(ids[5].0.time()), ..filter.clone() };
        assert_eq!(world.event_list(since).await, newest_first(ids[5..].to_vec()));
        let prefix = EventFilter { prefix: Some("order:".to_owned()), ..filter.clone() };
        assert_eq!(world.event_list(prefix).await, newest_first(ids.clone()));
        let one = EventFilter { prefix: Some(ids[2].to_string()), ..filter.clone() };
        assert_eq!(world.event_list(one).await, [ids[2]]);
        let page = Page { before: Some(ids[6].0), limit: 3 };
        let rows = world.store.events(TENANT, filter, page).await.unwrap();
        let rows: Vec<EventId> = rows.into_iter().map(|row| row.event.id).collect();
        assert_eq!(rows, [ids[5], ids[4], ids[3]]);
    }
}

pub async fn what_a_job_published_is_found_by_the_job(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let by = |job: &str| {
        let thread = Some(about_job(job));
        EventFilter { published: true, thread, ..EventFilter::default() }
    };
    let mut published = Vec::new();
    for job in ["job_7", "job_70", "job_7"] {
        let draft = world.publication(TENANT).published_by(job).to(&[&hook]);
        published.push(world.published(draft).await);
        world.published(world.publication(TENANT).to(&[&hook])).await;
        world.advance_s(10).await;
    }
    let theirs = world.tenant("theirs").await;
    world.published(world.publication(theirs).published_by("job_7")).await;
    let inbox = world.inbox().await;
    let talk = world.event(&inbox).in_thread(&about_job("job_7"), ThreadPolicy::Queue);
    let talk = world.keep(talk).await;
    assert_eq!(world.event_list(by("job_7")).await, [published[2], published[0]]);
    assert_eq!(world.leaf(TENANT, &by("job_7"), 1).await, [published[2], published[0]]);
    assert_eq!(world.event_list(by("job_70")).await, [published[1]]);
    assert!(world.event_list(by("job_")).await.is_empty());
    let typed = EventFilter { event_type: Some("other.*".to_owned()), ..by("job_7") };
    assert!(world.event_list(typed).await.is_empty());
    let received = EventFilter { published: false, ..by("job_7") };
    assert_eq!(world.event_list(received).await, [talk], "a conversation is none");
    assert_eq!(world.found(theirs, by("job_7")).await.len(), 1);
}

pub async fn a_published_events_status_is_that_of_its_deliveries(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (a, b) = (world.hook().await, world.hook().await);
    world.accepted(&world.inbox().await).await;
    let new = || world.publication(TENANT).to(&[&a, &b]);
    let nobodys = world.published(world.publication(TENANT)).await;
    let ends = [
        ("succeeded", Ending::Succeeded),
        ("dead_letter", given_up()),
        ("retrying", failed_for_s(500)),
    ];
    let mut expected = vec![("succeeded", nobodys)];
    for (status, ending) in ends {
        let event = world.published(new()).await;
        world.run_to(&a, Ending::Succeeded).await;
        world.run_to(&b, ending).await;
        expected.push((status, event));
    }
    expected.push(("pending", world.published(new()).await));
    for (name, event) in &expected {
        let listed = world.out_with_status(name).await;
        assert!(listed.contains(event), "{name}: {listed:?}");
        let same = expected.iter().filter(|(other, _)| other == name).count();
        assert_eq!(listed.len(), same, "{name}");
    }
    let out = EventFilter { published: true, ..EventFilter::default() };
    for row in world.store.events(TENANT, out, ALL).await.unwrap() {
        let (name, _) = expected.iter().find(|(_, id)| *id == row.event.id).unwrap();
        assert_eq!(status(row.event.route, row.work.iter().copied()), *name);
    }
}

pub async fn a_published_event_gets_no_job_by_a_replay(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let event = world.published(world.publication(TENANT)).await;
    let replay = Replay {
        tenant: TENANT,
        from: ReplayFrom::Event(event, inbox.lane),
        id: WorkId(world.id()),
        fresh_scope: false,
        input: None,
        max_attempts: 3,
        callback_lane: None,
        audit: world.audit(TENANT, "event.replay"),
    };
    assert_not_found(world.store.replay(replay, None).await);
    assert!(world.claim(&inbox).take().await.is_empty());
}

pub async fn what_was_published_goes_when_its_time_is_over(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let done = world.published(world.publication(TENANT).to(&[&hook])).await;
    world.run_to(&hook, Ending::Succeeded).await;
    let nobodys = world.published(world.publication(TENANT)).await;
    world.advance(LONG).await;
    let young = world.published(world.publication(TENANT).to(&[&hook])).await;
    world.run_to(&hook, Ending::Succeeded).await;
    world.prune(all_before(world.now().await.before(LONG / 2))).await;
    for old in [done, nobodys] {
        assert!(!world.is_stored(old).await && !world.has_body(old).await);
    }
    assert!(world.is_stored(young).await && world.has_body(young).await);
    assert_eq!(world.store.work(TENANT, hook.delivery(done)).await.unwrap(), None);
    assert_eq!(world.state(TENANT, hook.delivery(young)).await, State::Succeeded);
}
