//! Backfilling: a webhook's deliveries are listed and counted, kept while they are needed, and made for events of the
//! past exactly where they are missing.

use std::collections::BTreeMap;

use wakepost_domain::transition::Ending;
use wakepost_domain::work::State;
use wakepost_domain::{EventId, TenantId, WorkId};

use super::Harness;
use super::drafts::ATTEMPTS;
use super::pruning::{LONG, all_before};
use super::subscribers::Hook;
use super::world::{ALL, World, failed, failed_for_s, given_up};
use crate::moves::{DeadFilter, NewDelivery, OrderKey, Page, PruneBefore};

const TENANT: TenantId = TenantId::DEFAULT;

/// An event's delivery to a webhook that it made none for.
fn missing(hook: &Hook, event: EventId) -> (EventId, NewDelivery) {
    let delivery = NewDelivery {
        id: hook.delivery(event),
        lane: hook.lane,
        run_at: None,
        max_attempts: ATTEMPTS,
        order: None,
        parent_id: None,
    };
    (event, delivery)
}

fn ids(made: Vec<NewDelivery>) -> Vec<WorkId> {
    made.into_iter().map(|delivery| delivery.id).collect()
}

impl<H: Harness> World<'_, H> {
    async fn delivery_list(&self, hook: &Hook, state: Option<State>) -> Vec<WorkId> {
        let rows = self.other.deliveries(hook.tenant, hook.lane, state, ALL).await.unwrap();
        assert!(rows.iter().all(|row| state.is_none_or(|state| row.state == state)));
        rows.into_iter().map(|row| row.id).collect()
    }

    async fn backfill(&self, hook: &Hook, events: &[EventId]) -> Vec<WorkId> {
        let items = events.iter().map(|event| missing(hook, *event)).collect();
        ids(self.store.add_deliveries(hook.tenant, items).await.unwrap())
    }
}

pub async fn deliveries_of_a_webhook_are_listed_newest_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (hook, other) = (world.hook().await, world.hook().await);
    let mut made = Vec::new();
    for ending in [Ending::Succeeded, given_up(), failed_for_s(500), Ending::Cancelled] {
        let event = world.published(world.publication(TENANT).to(&[&hook, &other])).await;
        world.run_to(&hook, ending).await;
        made.push(hook.delivery(event));
        world.advance_s(10).await;
    }
    made.push(hook.delivery(world.published_many(&hook, 1).await[0]));
    let newest: Vec<WorkId> = made.iter().rev().copied().collect();
    assert_eq!(world.delivery_list(&hook, None).await, newest);
    for (nth, state) in
        [State::Succeeded, State::DeadLetter, State::Retrying, State::Cancelled, State::Pending]
            .into_iter()
            .enumerate()
    {
        assert_eq!(world.delivery_list(&hook, Some(state)).await, [made[nth]], "{state:?}");
    }
    assert!(world.delivery_list(&hook, Some(State::Running)).await.is_empty());
    let mut before = None;
    let mut paged = Vec::new();
    loop {
        let page = Page { before, limit: 2 };
        let rows = world.store.deliveries(TENANT, hook.lane, None, page).await.unwrap();
        let Some(last) = rows.last() else { break };
        before = Some(last.id.0);
        paged.extend(rows.into_iter().map(|row| row.id));
    }
    assert_eq!(paged, newest);
    world.advance_s(1).await;
    // A replay is one more.
    let again = world.replayed(TENANT, made[1], false).await;
    assert_eq!(world.delivery_list(&hook, None).await[0], again);
    let theirs = world.tenant("theirs").await;
    assert_eq!(world.store.deliveries(theirs, hook.lane, None, ALL).await.unwrap(), []);
}

pub async fn deliveries_are_counted_by_where_they_stand(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (hook, other) = (world.hook().await, world.hook().await);
    assert_eq!(world.standing(&hook).await, BTreeMap::new());
    world.published_many(&other, 3).await;
    for (count, ending) in [(4, Ending::Succeeded), (3, given_up())] {
        for _ in 0..count {
            world.published_many(&hook, 1).await;
            world.run_to(&hook, ending).await;
            world.advance_s(1).await;
        }
    }
    world.published_many(&hook, 5).await;
    world.claim(&hook).up_to(2).take().await;
    let live = [(State::Pending, 3), (State::Running, 2)];
    let all = BTreeMap::from([(State::Succeeded, 4), (State::DeadLetter, 3), live[0], live[1]]);
    assert_eq!(world.standing(&hook).await, all);
    // The newest of what lives, and of what is finished.
    let (some, dead) = ([(State::Pending, 3), (State::Running, 1)], [(State::DeadLetter, 3)]);
    let four = [&some[..], &dead, &[(State::Succeeded, 1)]].concat();
    let three = [&live[..1], &dead].concat();
    for (rows_max, expected) in [(4, four), (3, three), (0, vec![])] {
        let counts = world.store.delivery_counts(hook.lane, rows_max).await.unwrap();
        let expected: BTreeMap<State, i64> = expected.into_iter().collect();
        assert_eq!(counts.into_iter().collect::<BTreeMap<_, _>>(), expected);
    }
}

pub async fn a_backfill_makes_exactly_what_is_missing(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (early, late) = (world.hook().await, world.hook().await);
    let mut events = world.published_many(&early, 4).await;
    let draft = world.publication(TENANT).about("order:7").in_trace("4bf9");
    events.push(world.published(draft).await);
    events.push(world.published(world.publication(TENANT).to(&[&late])).await);
    world.run_to(&late, given_up()).await;
    events.push(world.published(world.publication(TENANT).to(&[&late])).await);
    let expected: Vec<WorkId> = events[..5].iter().map(|event| late.delivery(*event)).collect();
    assert_eq!(world.backfill(&late, &events).await, expected);
    assert_eq!(world.backfill(&late, &events).await, [], "all were made before");
    let row = world.row(TENANT, late.delivery(events[4])).await;
    assert_eq!((row.state, row.lane, row.event), (State::Pending, late.lane, Some(events[4])));
    assert_eq!((row.subject.as_deref(), row.max_attempts), (Some("order:7"), ATTEMPTS));
    assert_eq!(row.meta.trace.as_deref(), Some("4bf9"), "the event's");
    let counts = BTreeMap::from([(State::Pending, 6), (State::DeadLetter, 1)]);
    assert_eq!(world.standing(&late).await, counts);
    assert_eq!(world.standing(&early).await, BTreeMap::from([(State::Pending, 4)]));
    for _ in 0..6 {
        world.run_to(&late, Ending::Succeeded).await;
    }
    assert_eq!(world.backfill(&late, &events).await, [], "what ended was made too");
    assert!(world.claim(&late).take().await.is_empty());
}

pub async fn a_backfill_is_of_published_events_that_are_there(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (inbox, hook) = (world.inbox().await, world.hook().await);
    let theirs = world.tenant("theirs").await;
    let received = EventId(world.accepted(&inbox).await.0);
    let foreign = world.published(world.publication(theirs)).await;
    let ours = world.published(world.publication(TENANT)).await;
    let gone = EventId(world.id());
    let made = world.backfill(&hook, &[received, foreign, gone, ours]).await;
    assert_eq!(made, [hook.delivery(ours)]);
    assert_eq!(world.delivery_list(&hook, None).await, made);
    assert_eq!(world.store.add_deliveries(TENANT, Vec::new()).await.unwrap(), []);
}

pub async fn a_backfill_keeps_to_order_keys(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let first = world.published(world.publication(TENANT)).await;
    let second = world.published(world.publication(TENANT)).await;
    let head = world.published(world.publication(TENANT).to(&[&hook]).in_order("k")).await;
    let ordered = |event: EventId| {
        let key = OrderKey::of_webhook(TENANT, hook.id, b"k");
        let (event, delivery) = missing(&hook, event);
        (event, NewDelivery { order: Some((key, "k".to_owned())), ..delivery })
    };
    let items = vec![ordered(second), ordered(first)];
    assert_eq!(world.store.add_deliveries(TENANT, items).await.unwrap().len(), 2);
    // The head has its place; the others go by the age of their events.
    for event in [head, first, second] {
        let claimed = world.claim(&hook).up_to(9).take().await;
        assert_eq!(claimed.len(), 1);
        assert_eq!(claimed[0].event, Some(event));
        world.finish(&claimed[0].ticket, Ending::Succeeded).await;
    }
}

pub async fn backfills_at_once_make_each_delivery_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (early, late) = (world.hook().await, world.hook().await);
    let events = world.published_many(&early, 30).await;
    let mut calls = Vec::new();
    for turn in 0..8 {
        let mut items: Vec<_> = events.iter().map(|event| missing(&late, *event)).collect();
        if turn % 2 == 1 {
            items.reverse();
        }
        let node = world.node(turn / 2);
        calls.push(tokio::spawn(async move { node.add_deliveries(TENANT, items).await }));
    }
    let mut made = Vec::new();
    for call in calls {
        made.extend(ids(call.await.unwrap().unwrap()));
    }
    made.sort();
    let mut expected: Vec<WorkId> = events.iter().map(|event| late.delivery(*event)).collect();
    expected.sort();
    assert_eq!(made, expected);
    assert_eq!(world.standing(&late).await, BTreeMap::from([(State::Pending, 30)]));
}

pub async fn dead_letters_are_found_by_their_lane(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (inbox, a, b) = (world.inbox().await, world.hook().await, world.hook().await);
    world.ended(&inbox, given_up()).await;
    let mut dead = Vec::new();
    for _ in 0..2 {
        let event = world.published(world.publication(TENANT).to(&[&a, &b])).await;
        world.run_to(&a, given_up()).await;
        world.run_to(&b, given_up()).await;
        dead.push(a.delivery(event));
        world.advance_s(1).await;
    }
    let of_lane = DeadFilter { lane: Some(a.lane), ..DeadFilter::default() };
    let found = async |filter: DeadFilter| {
        let rows = world.other.dead_letters(TENANT, filter, ALL).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(found(of_lane.clone()).await, [dead[1], dead[0]]);
    assert_eq!(found(DeadFilter::default()).await.len(), 5);
    world.replayed(TENANT, dead[0], false).await;
    assert_eq!(found(of_lane.clone()).await, [dead[1]]);
    assert_eq!(found(DeadFilter { dealt_with: true, ..of_lane }).await, [dead[1], dead[0]]);
}

pub async fn retention_keeps_what_deliveries_need(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (hook, other) = (world.hook().await, world.hook().await);
    let later = world.now().await.after(2 * LONG);
    let late = world.published(world.publication(TENANT).to(&[&hook, &other])).await;
    world.run_to(&hook, failed()).await;
    world.run_to(&other, Ending::Succeeded).await;
    let scheduled = world.published(world.publication(TENANT).to(&[&hook]).at(later)).await;
    world.much_later().await;
    for event in [late, scheduled] {
        assert!(world.has_body(event).await);
        world.stored(TENANT, event).await;
    }
    assert_eq!(world.delivery_list(&other, None).await, [], "what ended long ago is gone");
    assert_eq!(world.run_to(&hook, Ending::Succeeded).await.event, Some(late));
    world.prune(all_before(world.now().await.before(LONG / 2))).await;
    assert_eq!(world.state(TENANT, hook.delivery(late)).await, State::Succeeded);
    assert_eq!(world.store.runs(TENANT, hook.delivery(late)).await.unwrap().len(), 2);
    assert!(!world.has_body(late).await, "nothing needs it any more");
    assert!(world.has_body(scheduled).await);
}

pub async fn a_dead_delivery_keeps_its_body_until_it_is_dealt_with(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (hook, other) = (world.hook().await, world.hook().await);
    let event = world.published(world.publication(TENANT).to(&[&hook, &other])).await;
    world.run_to(&hook, given_up()).await;
    world.run_to(&other, Ending::Succeeded).await;
    let never = world.now().await.before(LONG);
    world.advance(LONG).await;
    let bodies = world.now().await.before(LONG / 2);
    let before = PruneBefore { bodies, events: bodies, ..all_before(never) };
    world.prune(before).await;
    assert!(world.has_body(event).await);
    let again = world.replayed(TENANT, hook.delivery(event), false).await;
    world.prune(before).await;
    assert!(world.has_body(event).await, "the replay needs it");
    assert_eq!(world.run_to(&hook, Ending::Succeeded).await.ticket.work, again);
    world.prune(before).await;
    assert!(!world.has_body(event).await);
    assert_eq!(world.store.event(TENANT, event).await.unwrap(), None);
}
