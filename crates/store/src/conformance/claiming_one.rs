//! Claiming one item by its id: on the terms of every claim, and to one worker only.

use std::time::Duration;

use futures_util::future::join_all;
use wakepost_domain::WorkId;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::State;

use super::Harness;
use super::drafts::Inbox;
use super::world::{World, failed_for_s};
use crate::moves::{Claimed, Item};

impl<H: Harness> World<'_, H> {
    async fn claim_one(&self, inbox: &Inbox, work: WorkId) -> Option<Claimed> {
        let item = Item { tenant: inbox.tenant, work };
        let lane = self.claim(inbox).lane();
        self.store.claim_one("ada".to_owned(), item, lane).await.unwrap()
    }

    async fn ready_items(&self, inbox: &Inbox, limit: u32) -> Vec<WorkId> {
        let items = self.store.ready(inbox.lane, limit).await.unwrap();
        assert!(items.iter().all(|item| item.tenant == inbox.tenant));
        items.into_iter().map(|item| item.work).collect()
    }
}

pub async fn exactly_the_named_item_is_claimed(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let waiting = world.accepted_many(&inbox, 3).await;
    let claimed = world.claim_one(&inbox, waiting[1]).await.expect("it is ready");
    assert_eq!((claimed.ticket.work, claimed.ticket.fence), (waiting[1], 1));
    let row = world.row(inbox.tenant, waiting[1]).await;
    assert_eq!((row.state, row.attempts), (State::Running, 1));
    assert_eq!(row.worker.as_deref(), Some("ada"));
    assert_eq!(row.lease_expires_at, Some(claimed.lease_expires_at));
    assert_eq!(world.ready_items(&inbox, 9).await, [waiting[0], waiting[2]]);
    assert_eq!(world.claim_one(&inbox, waiting[1]).await, None, "it runs");
    world.finish(&claimed.ticket, Ending::Succeeded).await;
    assert_eq!(world.claim_one(&inbox, waiting[1]).await, None, "it is done");
}

pub async fn of_many_that_claim_one_item_at_once_one_has_it(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for capped in [false, true] {
        let work = world.accepted(&inbox).await;
        let claims = (0..12).map(|turn| {
            let item = Item { tenant: inbox.tenant, work };
            let claim = world.claim(&inbox);
            let claim = if capped { claim.capped(inbox.tenant_cap(9)) } else { claim };
            let (store, lane) = (world.node(turn), claim.lane());
            async move { store.claim_one("ada".to_owned(), item, lane).await.unwrap() }
        });
        let claimed: Vec<Claimed> = join_all(claims).await.into_iter().flatten().collect();
        assert_eq!(claimed.len(), 1);
        world.finish(&claimed[0].ticket, Ending::Succeeded).await;
    }
}

pub async fn an_item_is_claimed_by_its_id_only_when_due_and_first_of_its_key(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.created(world.job(&inbox).in_order("k")).await;
    let second = world.created(world.job(&inbox).in_order("k")).await;
    assert_eq!(world.ready_items(&inbox, 9).await, [first]);
    assert_eq!(world.claim_one(&inbox, second).await, None, "it stands behind the first");
    let run = world.claim_one(&inbox, first).await.expect("it is the first");
    world.finish(&run.ticket, failed_for_s(30)).await;
    assert_eq!(world.claim_one(&inbox, first).await, None, "it waits for its time");
    assert!(world.ready_items(&inbox, 9).await.is_empty());
    world.advance(Duration::from_secs(31)).await;
    let run = world.claim_one(&inbox, first).await.expect("it is due");
    assert_eq!(run.ticket.attempt, 2);
    world.finish(&run.ticket, Ending::Succeeded).await;
    assert!(world.claim_one(&inbox, second).await.is_some());
}

pub async fn a_claim_by_id_keeps_to_its_lane_its_tenant_and_the_caps(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (inbox, other) = (world.inbox().await, world.inbox().await);
    let theirs = world.inbox_of(world.tenant("theirs").await).await;
    let waiting = world.accepted_many(&inbox, 2).await;
    assert_eq!(world.claim_one(&other, waiting[0]).await, None);
    assert_eq!(world.claim_one(&theirs, waiting[0]).await, None);
    let capped = async |work| {
        let item = Item { tenant: inbox.tenant, work };
        let lane = world.claim(&inbox).capped(inbox.tenant_cap(1)).lane();
        world.store.claim_one("ada".to_owned(), item, lane).await.unwrap()
    };
    let run = capped(waiting[0]).await.expect("there is room");
    assert_eq!(capped(waiting[1]).await, None, "the cap is full");
    assert!(world.finish(&run.ticket, Ending::Succeeded).await.freed_cap);
    assert!(capped(waiting[1]).await.is_some());
}

pub async fn ready_items_are_listed_oldest_first_up_to_a_bound(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let later = world.now().await.after(Duration::from_secs(100));
    world.created(world.job(&inbox).at(later)).await;
    let waiting = world.accepted_many(&inbox, 5).await;
    assert_eq!(world.ready_items(&inbox, 3).await, waiting[..3]);
    assert_eq!(world.ready_items(&inbox, 9).await, waiting);
}
