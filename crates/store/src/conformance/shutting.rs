//! Shutting: a lane that is shut hands out nothing, to nobody, and holds no other up.

use std::time::Duration;

use wakepost_domain::transition::Ending;
use wakepost_domain::work::State;
use wakepost_domain::{TenantId, Timestamp};

use super::Harness;
use super::subscribers::Hook;
use super::world::{World, failed};
use crate::moves::{CapScope, ClaimRequest, Item};

const TENANT: TenantId = TenantId::DEFAULT;
const LONG: Duration = Duration::from_secs(3600);

impl<H: Harness> World<'_, H> {
    /// Nobody who looks for work sees any of this lane.
    async fn assert_shut(&self, hook: &Hook, item: Item) {
        for node in [&self.store, &self.other] {
            assert!(self.claim(hook).up_to(9).on(node.clone()).take().await.is_empty());
            let one = node.claim_one("ada".to_owned(), item, self.claim(hook).lane()).await;
            assert_eq!(one.unwrap(), None);
            assert_eq!(node.ready(hook.lane, 9).await.unwrap(), []);
            let waiting = node.waiting_lanes().await.unwrap();
            assert!(waiting.iter().all(|due| due.lane != hook.lane));
            let (_, due) = node.due_lanes(LONG).await.unwrap();
            assert!(!due.contains(&hook.lane));
        }
        let counts = self.store.live_work(hook.tenant, 1000).await.unwrap().lanes;
        assert!(counts.iter().all(|count| count.lane != hook.lane || !count.ready));
    }

    /// Everybody who looks for work sees what is ready in this lane.
    async fn assert_open(&self, hook: &Hook, ready: usize) {
        assert_eq!(self.other.ready(hook.lane, 99).await.unwrap().len(), ready);
        let waiting = self.other.waiting_lanes().await.unwrap();
        assert_eq!(waiting.iter().filter(|due| due.lane == hook.lane).count(), 1);
        let counts = self.store.live_work(hook.tenant, 1000).await.unwrap().lanes;
        let seen = counts.iter().filter(|count| count.lane == hook.lane && count.ready);
        assert_eq!(seen.map(|count| count.count).sum::<i64>(), ready as i64);
    }
}

pub async fn a_shut_lane_hands_out_nothing_until_its_time_is_over(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (hook, _) = world.subscriber().await;
    let events = world.published_many(&hook, 3).await;
    let item = Item { tenant: TENANT, work: hook.delivery(events[1]) };
    world.assert_open(&hook, 3).await;
    world.shut(&hook, Some(world.now().await.after(LONG))).await;
    world.assert_shut(&hook, item).await;
    // What comes meanwhile waits too.
    world.published_many(&hook, 1).await;
    world.advance(LONG - Duration::from_secs(100)).await;
    world.assert_shut(&hook, item).await;
    for event in events {
        assert_eq!(world.state(TENANT, hook.delivery(event)).await, State::Pending);
    }
    world.advance_s(101).await;
    world.assert_open(&hook, 4).await;
    let one = world.store.claim_one("ada".to_owned(), item, world.claim(&hook).lane()).await;
    assert_eq!(one.unwrap().unwrap().ticket.work, item.work);
    assert_eq!(world.claim(&hook).up_to(9).take().await.len(), 3);
}

pub async fn a_lane_that_is_opened_hands_out_at_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (hook, record) = world.subscriber().await;
    let events = world.published_many(&hook, 2).await;
    let item = Item { tenant: TENANT, work: hook.delivery(events[0]) };
    let for_ever = Timestamp::from_millis(i64::MAX);
    world.shut(&hook, Some(for_ever)).await;
    world.assert_shut(&hook, item).await;
    let read = world.other.webhook(record.id).await.unwrap().unwrap();
    assert_eq!(read.shut_until, Some(for_ever));
    world.shut(&hook, None).await;
    assert_eq!(world.other.webhook(record.id).await.unwrap().unwrap().shut_until, None);
    world.assert_open(&hook, 2).await;
    assert_eq!(world.claim(&hook).up_to(9).on(world.other.clone()).take().await.len(), 2);
}

pub async fn a_timer_that_falls_due_in_a_shut_lane_waits(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (hook, _) = world.subscriber().await;
    let at = world.now().await.after(Duration::from_secs(60));
    let event = world.published(world.publication(TENANT).to(&[&hook]).at(at)).await;
    world.shut(&hook, Some(world.now().await.after(LONG))).await;
    world.advance_s(120).await;
    world.assert_shut(&hook, Item { tenant: TENANT, work: hook.delivery(event) }).await;
    world.shut(&hook, None).await;
    let (_, due) = world.store.due_lanes(LONG).await.unwrap();
    assert_eq!(due, [hook.lane]);
    assert_eq!(world.claim(&hook).one().await.event, Some(event));
}

pub async fn a_shut_lane_holds_no_other_up_and_counts_towards_no_bound(harness: &impl Harness) {
    let world = World::new(harness).await;
    let ((shut, _), (open, _)) = (world.subscriber().await, world.subscriber().await);
    world.published_many(&shut, 5).await;
    let events = world.published_many(&open, 2).await;
    world.shut(&shut, Some(world.now().await.after(LONG))).await;
    let cap = open.tenant_cap(2);
    let lanes = [&shut, &open].map(|hook| world.claim(hook).up_to(5).capped(cap).lane());
    let request = ClaimRequest { worker: "ada".to_owned(), lanes: lanes.to_vec() };
    let claimed = world.store.claim(request).await.unwrap();
    let seen: Vec<_> = claimed.iter().map(|item| item.event.unwrap()).collect();
    assert_eq!(seen, events);
    let scope = CapScope::Tenant(TENANT);
    assert_eq!(world.store.counts(vec![scope]).await.unwrap().get(scope).running, 2);
}

pub async fn a_run_that_began_before_its_lane_was_shut_ends_as_always(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (hook, _) = world.subscriber().await;
    world.published_many(&hook, 2).await;
    let claimed = world.claim(&hook).up_to(2).take().await;
    world.shut(&hook, Some(world.now().await.after(LONG))).await;
    assert_eq!(world.finish(&claimed[0].ticket, Ending::Succeeded).await.state, State::Succeeded);
    assert_eq!(world.finish(&claimed[1].ticket, failed()).await.state, State::Retrying);
    world.assert_shut(&hook, Item { tenant: TENANT, work: claimed[1].ticket.work }).await;
    world.advance(LONG + Duration::from_secs(1)).await;
    assert_eq!(world.claim(&hook).one().await.ticket.work, claimed[1].ticket.work);
}
