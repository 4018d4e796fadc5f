//! Delivering: what goes to a webhook goes in order where that is asked for, comes to one end each, and none is lost.

use std::collections::BTreeMap;

use wakepost_domain::run::RunOutcome;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State, WorkKind};
use wakepost_domain::{EventId, OperationId, TenantId, WorkId};

use super::Harness;
use super::drafts::end;
use super::subscribers::Hook;
use super::world::{World, assert_invalid, failed, failed_for_s, given_up, sealed};
use crate::moves::{Claimed, Evidence, NewEvent, Settle};

const TENANT: TenantId = TenantId::DEFAULT;
/// More than any promise here makes.
const ALL_ROWS: u32 = 100_000;

/// How a run went, in the words of whoever ran it.
fn told(claimed: &Claimed, ending: Ending, detail: &str) -> Settle {
    let evidence = Evidence { detail: Some(sealed(detail)), ..Evidence::default() };
    Settle { evidence, ..end(&claimed.ticket, ending) }
}

impl<H: Harness> World<'_, H> {
    pub async fn standing(&self, hook: &Hook) -> BTreeMap<State, i64> {
        let counts = self.other.delivery_counts(hook.lane, ALL_ROWS).await.unwrap();
        let counted = counts.len();
        let counts: BTreeMap<State, i64> = counts.into_iter().collect();
        assert_eq!(counts.len(), counted, "each state is counted once");
        counts
    }

    /// The events of what can be claimed of a webhook now.
    async fn next_events(&self, hook: &Hook) -> Vec<EventId> {
        let claimed = self.claim(hook).up_to(50).take().await;
        claimed.into_iter().map(|item| item.event.unwrap()).collect()
    }

    async fn ordered_events(&self, hooks: &[&Hook], key: &str, count: usize) -> Vec<EventId> {
        let new = || self.publication(TENANT).to(hooks).in_order(key).build();
        let batch: Vec<NewEvent> = (0..count).map(|_| new()).collect();
        let ids = batch.iter().map(|new| new.event.id).collect();
        assert!(
            self.store.publish(batch, None).await.unwrap().iter().all(|answer| answer.is_new())
        );
        ids
    }

    async fn end_waiting(&self, hook: &Hook, state: State, limit: u32) -> u64 {
        self.store.end_waiting(hook.lane, state, "it is gone".to_owned(), limit).await.unwrap()
    }
}

pub async fn a_failed_probe_gives_the_attempt_back_and_is_kept(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let event = world.published(world.publication(TENANT).to(&[&hook]).tried_at_most(1)).await;
    let work = hook.delivery(event);
    for turn in 1..=3 {
        let claimed = world.claim(&hook).one().await;
        let settle = told(&claimed, Ending::ProbeFailed, &format!("probe {turn}"));
        let settled = world.settle(settle.clone()).await.unwrap();
        assert_eq!((settled.state, settled.repeated), (State::Retrying, false));
        assert!(world.settle(settle).await.unwrap().repeated);
        let row = world.row(TENANT, work).await;
        assert_eq!((row.state, row.attempts, row.fence), (State::Retrying, 0, turn));
    }
    let claimed = world.claim(&hook).one().await;
    let settled = world.settle(told(&claimed, failed(), "real")).await.unwrap();
    assert_eq!(settled.state, State::DeadLetter, "it was the first try that counts");
    let runs = world.store.runs(TENANT, work).await.unwrap();
    assert_eq!(runs.len(), 4);
    assert!(runs.iter().all(|run| run.outcome == RunOutcome::Failed && run.attempt == 1));
    let details = world.other.run_details(TENANT, work).await.unwrap();
    let expected = ["probe 1", "probe 2", "probe 3", "real"];
    let expected = runs.iter().zip(expected).map(|(run, text)| (run.id, sealed(text)));
    assert_eq!(details, expected.collect::<Vec<_>>());
}

pub async fn how_a_run_went_is_kept_unless_it_succeeded(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let events = world.published_many(&hook, 2).await;
    let (done, dead) = (hook.delivery(events[0]), hook.delivery(events[1]));
    let claimed = world.claim(&hook).up_to(2).take().await;
    world.settle(told(&claimed[0], failed(), "503")).await.unwrap();
    world.settle(told(&claimed[1], given_up(), "404")).await.unwrap();
    // Nothing is told of this one.
    world.run_to(&hook, Ending::HandedBack).await;
    let claimed = world.claim(&hook).one().await;
    let mut settle = told(&claimed, Ending::Succeeded, "200");
    settle.evidence.result = Some(sealed("200"));
    world.settle(settle).await.unwrap();
    let runs = world.store.runs(TENANT, done).await.unwrap();
    let details = world.store.run_details(TENANT, done).await.unwrap();
    assert_eq!(details, [(runs[0].id, sealed("503"))]);
    assert_eq!(world.kept(done).await.result, Some(sealed("200")));
    assert_eq!(world.store.runs(TENANT, done).await.unwrap().len(), 3);
    let runs = world.store.runs(TENANT, dead).await.unwrap();
    let details = world.store.run_details(TENANT, dead).await.unwrap();
    assert_eq!(details, [(runs[0].id, sealed("404"))]);
    let theirs = world.tenant("theirs").await;
    assert_eq!(world.store.run_details(theirs, dead).await.unwrap(), []);
    let by = OperationId(world.id());
    assert_eq!(world.store.purge(TENANT, vec![dead], by).await.unwrap(), 1);
    assert_eq!(world.store.run_details(TENANT, dead).await.unwrap(), []);
}

pub async fn what_shares_an_order_key_goes_to_each_webhook_in_order(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (a, b) = (world.hook().await, world.hook().await);
    let events = world.ordered_events(&[&a, &b], "order 7", 12).await;
    let free = world.published(world.publication(TENANT).to(&[&a])).await;
    let row = world.row(TENANT, a.delivery(events[3])).await;
    assert_eq!((row.behind, row.meta.order_key.as_deref()), (true, Some("order 7")));
    // A failing head blocks its key at its webhook, and nothing else.
    let stuck = world.claim(&b).one().await;
    assert!(stuck.ticket.ordered);
    world.finish(&stuck.ticket, failed_for_s(500)).await;
    assert_eq!(world.next_events(&b).await, []);
    for (nth, event) in events.iter().enumerate() {
        let claimed = world.claim(&a).up_to(9).take().await;
        let seen: Vec<EventId> = claimed.iter().map(|item| item.event.unwrap()).collect();
        let expected = if nth == 0 { vec![*event, free] } else { vec![*event] };
        assert_eq!(seen, expected);
        let settled = world.finish(&claimed[0].ticket, Ending::Succeeded).await;
        assert_eq!(settled.next_in_order, (nth + 1 < events.len()).then_some(a.lane));
    }
    world.advance_s(501).await;
    for event in &events {
        assert_eq!(world.run_to(&b, Ending::Succeeded).await.event, Some(*event));
    }
}

pub async fn ordered_events_from_two_nodes_at_once_have_one_head(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (a, b) = (world.hook().await, world.hook().await);
    let mut calls = Vec::new();
    for turn in 0..30 {
        // The webhooks in another order: whoever waits for a key must not be waited for.
        let hooks = if turn % 2 == 0 { [&a, &b] } else { [&b, &a] };
        let new = world.publication(TENANT).to(&hooks).in_order("k").build();
        let node = world.node(turn / 2);
        calls.push(tokio::spawn(async move { node.publish(vec![new], None).await }));
    }
    for call in calls {
        assert!(call.await.unwrap().unwrap()[0].is_new());
    }
    for hook in [&a, &b] {
        for _ in 0..30 {
            let claimed = world.claim(hook).up_to(10).take().await;
            assert_eq!(claimed.len(), 1, "only the head can be claimed");
            world.finish(&claimed[0].ticket, Ending::Succeeded).await;
        }
        assert_eq!(world.standing(hook).await, BTreeMap::from([(State::Succeeded, 30)]));
    }
}

pub async fn a_delivery_is_replayed_in_its_lane_and_its_order(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let events = world.ordered_events(&[&hook], "k", 2).await;
    world.run_to(&hook, given_up()).await;
    let old = hook.delivery(events[0]);
    let new = world.replayed(TENANT, old, false).await;
    let (was, row) = (world.row(TENANT, old).await, world.row(TENANT, new).await);
    assert_eq!((was.state, was.replayed_as), (State::DeadLetter, Some(new)));
    assert_eq!((row.kind, row.lane, row.event), (WorkKind::Delivery, hook.lane, Some(events[0])));
    assert_eq!((row.order, row.behind), (was.order, true), "it goes to the end of its key");
    assert_eq!(row.meta.order_key.as_deref(), Some("k"));
    assert_eq!(row.meta.parent_id, Some(old.text(WorkKind::Delivery)));
    assert_eq!(world.run_to(&hook, Ending::Succeeded).await.event, Some(events[1]));
    let again = world.run_to(&hook, Ending::Succeeded).await;
    assert_eq!((again.ticket.work, again.event), (new, Some(events[0])));
}

pub async fn a_delivery_is_cancelled_and_rescued_like_any_work(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let events = world.ordered_events(&[&hook], "k", 3).await;
    let audit = world.audit(TENANT, "delivery.cancel");
    let outcome = world.store.cancel(TENANT, hook.delivery(events[0]), audit).await.unwrap();
    assert_eq!(outcome.next_in_order(), Some(hook.lane));
    let claimed = world.claim(&hook).one().await;
    assert_eq!(claimed.event, Some(events[1]));
    world.rescue(&claimed.ticket).await;
    let row = world.row(TENANT, hook.delivery(events[1])).await;
    assert_eq!((row.state, row.attempts), (State::Retrying, 1));
    assert_eq!(world.run_to(&hook, Ending::Succeeded).await.event, Some(events[1]));
    assert_eq!(world.run_to(&hook, Ending::Succeeded).await.event, Some(events[2]));
}

pub async fn what_waits_ends_and_what_runs_goes_on(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (hook, other) = (world.hook().await, world.hook().await);
    world.published_many(&other, 2).await;
    let running = world.ordered_events(&[&hook], "k", 3).await;
    let ticket = world.claim(&hook).one().await.ticket;
    world.ordered_events(&[&hook], "m", 3).await;
    world.run_to(&hook, failed_for_s(500)).await;
    world.published_many(&hook, 2).await;
    world.run_to(&hook, Ending::Held(HeldReason::InDoubt)).await;
    let later = world.now().await.after(std::time::Duration::from_secs(900));
    world.published(world.publication(TENANT).to(&[&hook]).at(later)).await;
    assert_eq!(world.end_waiting(&hook, State::DeadLetter, 100).await, 8);
    assert_eq!(world.end_waiting(&hook, State::DeadLetter, 100).await, 0);
    let expected = BTreeMap::from([(State::Running, 1), (State::DeadLetter, 8)]);
    assert_eq!(world.standing(&hook).await, expected);
    let row = world.row(TENANT, hook.delivery(running[1])).await;
    assert_eq!(row.last_error.as_deref(), Some("it is gone"));
    assert!(row.finished_at.is_some());
    assert_eq!(world.store.runs(TENANT, row.id).await.unwrap(), [], "it never ran");
    // The key's run ends, and nothing is left of the key that could stand in the way.
    let settled = world.finish(&ticket, Ending::Succeeded).await;
    assert_eq!(settled.next_in_order, None);
    for key in ["k", "m"] {
        let fresh = world.ordered_events(&[&hook], key, 1).await;
        assert_eq!(world.next_events(&hook).await, fresh);
    }
    assert_eq!(world.standing(&other).await, BTreeMap::from([(State::Pending, 2)]));
}

pub async fn what_waits_ends_oldest_first_and_leaves_nothing_behind(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let events = world.ordered_events(&[&hook], "k", 5).await;
    assert_eq!(world.end_waiting(&hook, State::Cancelled, 2).await, 2);
    for (nth, event) in events.iter().enumerate() {
        let row = world.row(TENANT, hook.delivery(*event)).await;
        assert_eq!(row.state == State::Cancelled, nth < 2);
        assert_eq!(row.behind, nth > 2, "the next of the key may go");
    }
    assert_eq!(world.run_to(&hook, Ending::Succeeded).await.event, Some(events[2]));
    assert_eq!(world.end_waiting(&hook, State::Cancelled, 1).await, 1);
    assert_eq!(world.next_events(&hook).await, [events[4]]);
    assert_eq!(world.end_waiting(&hook, State::Cancelled, 9).await, 0);
}

pub async fn what_waits_can_only_be_given_up_or_cancelled(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    world.published_many(&hook, 1).await;
    for state in State::ALL {
        if ![State::DeadLetter, State::Cancelled].contains(&state) {
            let ended = world.store.end_waiting(hook.lane, state, "why".to_owned(), 9).await;
            assert_invalid(ended);
        }
    }
    assert_eq!(world.standing(&hook).await, BTreeMap::from([(State::Pending, 1)]));
}

pub async fn of_what_is_claimed_and_ended_at_once_each_comes_to_one_end(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    const EACH: usize = 20;
    world.published_many(&hook, EACH).await;
    for key in ["a", "b"] {
        world.ordered_events(&[&hook], key, EACH).await;
    }
    let enders: Vec<_> = (0..6)
        .map(|turn| {
            let (node, lane) = (world.node(turn), hook.lane);
            tokio::spawn(async move {
                node.end_waiting(lane, State::DeadLetter, "gone".to_owned(), 5).await.unwrap()
            })
        })
        .collect();
    let mut ran: BTreeMap<WorkId, usize> = BTreeMap::new();
    for turn in 0..8 {
        for item in world.claim(&hook).up_to(4).on(world.node(turn)).take().await {
            world.finish(&item.ticket, Ending::Succeeded).await;
            *ran.entry(item.ticket.work).or_default() += 1;
        }
    }
    let mut given_up = 0;
    for ender in enders {
        given_up += ender.await.unwrap() as usize;
    }
    for turn in 0..1000 {
        let Some(item) = world.claim(&hook).on(world.node(turn)).take().await.pop() else {
            break;
        };
        world.finish(&item.ticket, Ending::Succeeded).await;
        *ran.entry(item.ticket.work).or_default() += 1;
    }
    assert!(ran.values().all(|runs| *runs == 1));
    assert_eq!(ran.len() + given_up, 3 * EACH, "none is stuck and none is lost");
    let expected = [(State::Succeeded, ran.len() as i64), (State::DeadLetter, given_up as i64)];
    let expected: BTreeMap<_, _> = expected.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(world.standing(&hook).await, expected);
}
