//! Ordering: items that share an order key run one at a time, in order, and hold nobody else up.

use std::collections::BTreeMap;

use wakepost_domain::WorkId;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State};

use super::Harness;
use super::drafts::Inbox;
use super::world::{World, failed_for_s, given_up};
use crate::moves::{Accepted, CancelOutcome, NewWork, Once};

impl<H: Harness> World<'_, H> {
    async fn ordered(&self, inbox: &Inbox, key: &str, count: usize) -> Vec<WorkId> {
        let mut made = Vec::new();
        for _ in 0..count {
            made.push(self.created(self.job(inbox).in_order(key)).await);
        }
        made
    }

    async fn claimable(&self, inbox: &Inbox) -> Vec<WorkId> {
        let claimed = self.claim(inbox).up_to(50).take().await;
        claimed.into_iter().map(|item| item.ticket.work).collect()
    }

    async fn cancelled(&self, inbox: &Inbox, work: WorkId) -> CancelOutcome {
        let audit = self.audit(inbox.tenant, "job.cancel");
        self.store.cancel(inbox.tenant, work, audit).await.unwrap()
    }
}

pub async fn items_of_one_key_run_one_at_a_time_in_order(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let made = world.ordered(&inbox, "order 7", 4).await;
    for (index, work) in made.iter().enumerate() {
        let claimed = world.claim(&inbox).up_to(9).take().await;
        assert_eq!(claimed.len(), 1, "one at a time");
        assert_eq!(claimed[0].ticket.work, *work, "in order");
        assert!(claimed[0].ticket.ordered);
        assert!(world.claim(&inbox).up_to(9).on(world.other.clone()).take().await.is_empty());
        let behind = world.row(inbox.tenant, made[made.len() - 1]).await.behind;
        assert_eq!(behind, index + 1 < made.len());
        let settled = world.finish(&claimed[0].ticket, Ending::Succeeded).await;
        assert_eq!(settled.next_in_order, (index + 1 < made.len()).then_some(inbox.lane));
    }
    assert_eq!(world.claimable(&inbox).await, []);
    let again = world.ordered(&inbox, "order 7", 1).await;
    assert_eq!(world.claimable(&inbox).await, again, "a key that is through begins anew");
}

pub async fn items_made_together_keep_their_order(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let new = |key: &str| world.job(&inbox).in_order(key).build();
    let batch: Vec<NewWork> = ["a", "b", "a", "a", "b"].map(new).to_vec();
    let ids: Vec<WorkId> = batch.iter().map(|item| item.id).collect();
    world.store.create_work(batch, None).await.unwrap();
    for expected in [vec![ids[0], ids[1]], vec![ids[2], ids[4]], vec![ids[3]], vec![]] {
        let claimed = world.claim(&inbox).up_to(9).take().await;
        let works: Vec<WorkId> = claimed.iter().map(|item| item.ticket.work).collect();
        assert_eq!(works, expected);
        for item in claimed {
            world.finish(&item.ticket, Ending::Succeeded).await;
        }
    }
}

pub async fn a_first_item_that_waits_blocks_its_key(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for ending in [failed_for_s(100), Ending::Held(HeldReason::Budget)] {
        let made = world.ordered(&inbox, "blocked", 2).await;
        let first = world.claim(&inbox).one().await;
        let settled = world.finish(&first.ticket, ending).await;
        assert_eq!(settled.next_in_order, None, "{ending:?}");
        assert_eq!(world.claimable(&inbox).await, [], "{ending:?}");
        let CancelOutcome::Cancelled { next_in_order } = world.cancelled(&inbox, made[0]).await
        else {
            panic!("it does not run");
        };
        assert_eq!(next_in_order, Some(inbox.lane));
        let second = world.claim(&inbox).one().await;
        assert_eq!(second.ticket.work, made[1]);
        world.finish(&second.ticket, Ending::Succeeded).await;
    }
}

pub async fn a_retried_first_item_stays_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let made = world.ordered(&inbox, "k", 2).await;
    world.run_to(&inbox, failed_for_s(10)).await;
    world.advance_s(11).await;
    assert_eq!(world.run_to(&inbox, Ending::Succeeded).await.ticket.work, made[0]);
    assert_eq!(world.run_to(&inbox, Ending::Succeeded).await.ticket.work, made[1]);
}

pub async fn a_dead_letter_lets_the_next_go(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let made = world.ordered(&inbox, "k", 3).await;
    world.run_to(&inbox, given_up()).await;
    assert_eq!(world.state(inbox.tenant, made[0]).await, State::DeadLetter);
    let second = world.claim(&inbox).one().await;
    assert_eq!(second.ticket.work, made[1]);
    // Given up by the rescuer, not by a worker.
    world.cancelled(&inbox, made[1]).await;
    world.rescue(&second.ticket).await;
    assert_eq!(world.claimable(&inbox).await, [made[2]]);
}

pub async fn an_item_cancelled_while_behind_changes_no_order(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let made = world.ordered(&inbox, "k", 3).await;
    let outcome = world.cancelled(&inbox, made[1]).await;
    assert_eq!(outcome, CancelOutcome::Cancelled { next_in_order: None });
    assert_eq!(world.run_to(&inbox, Ending::Succeeded).await.ticket.work, made[0]);
    assert_eq!(world.claimable(&inbox).await, [made[2]]);
}

pub async fn a_blocked_key_holds_nobody_else_up(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let blocked = world.ordered(&inbox, "blocked", 30).await;
    world.run_to(&inbox, Ending::Held(HeldReason::Budget)).await;
    let other = world.ordered(&inbox, "other", 1).await;
    let free = world.accepted(&inbox).await;
    assert_eq!(world.claim(&inbox).up_to(2).take().await.len(), 2);
    assert_eq!(world.state(inbox.tenant, other[0]).await, State::Running);
    assert_eq!(world.state(inbox.tenant, free).await, State::Running);
    assert_eq!(world.state(inbox.tenant, blocked[1]).await, State::Pending);
}

pub async fn the_same_key_of_two_tenants_is_two_keys(harness: &impl Harness) {
    let world = World::new(harness).await;
    let ours = world.inbox().await;
    let theirs = world.inbox_of(world.tenant("theirs").await).await;
    let (a, b) = (world.ordered(&ours, "k", 1).await, world.ordered(&theirs, "k", 1).await);
    assert_eq!(world.claimable(&ours).await, a);
    assert_eq!(world.claimable(&theirs).await, b);
}

pub async fn a_replayed_item_goes_to_the_end_of_its_key(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let made = world.ordered(&inbox, "k", 2).await;
    world.run_to(&inbox, given_up()).await;
    let replayed = world.replayed(inbox.tenant, made[0], false).await;
    assert!(world.row(inbox.tenant, replayed).await.behind);
    assert_eq!(world.run_to(&inbox, Ending::Succeeded).await.ticket.work, made[1]);
    assert_eq!(world.claimable(&inbox).await, [replayed]);
}

pub async fn a_later_first_item_waits_for_its_time_and_blocks(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let later = world.now().await.after(std::time::Duration::from_secs(60));
    let first = world.created(world.job(&inbox).in_order("k").at(later)).await;
    world.ordered(&inbox, "k", 1).await;
    assert_eq!(world.claimable(&inbox).await, []);
    world.advance_s(61).await;
    assert_eq!(world.claimable(&inbox).await, [first]);
}

pub async fn of_many_made_and_ended_at_once_none_is_stuck_or_beside_another(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    const KEYS: usize = 3;
    const EACH: usize = 20;
    let makers: Vec<_> = (0..KEYS * EACH)
        .map(|nth| {
            let new = world.job(&inbox).in_order(&format!("k{}", nth % KEYS)).build();
            let node = world.node(nth);
            tokio::spawn(async move {
                let made = node.create_work(vec![new], None).await.unwrap();
                assert!(matches!(made, Once::Now(_)));
            })
        })
        .collect();
    let mut ended: BTreeMap<WorkId, usize> = BTreeMap::new();
    let mut idle = 0;
    while ended.len() < KEYS * EACH {
        let claimed = world.claim(&inbox).up_to(50).on(world.node(ended.len())).take().await;
        assert!(claimed.len() <= KEYS, "one at a time of each key");
        idle = if claimed.is_empty() { idle + 1 } else { 0 };
        assert!(idle < 2000, "{} of {} are stuck", KEYS * EACH - ended.len(), KEYS * EACH);
        for item in claimed {
            world.finish(&item.ticket, Ending::Succeeded).await;
            *ended.entry(item.ticket.work).or_default() += 1;
        }
    }
    for maker in makers {
        maker.await.unwrap();
    }
    assert!(ended.values().all(|runs| *runs == 1));
}

pub async fn received_events_of_one_key_run_one_at_a_time_in_order_of_arrival(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut expected = Vec::new();
    for (key, order) in [("1", "a"), ("2", "a"), ("3", "b"), ("4", "a")] {
        let new = world.event(&inbox).with_key(key).in_order(order).build();
        assert_eq!(world.accept(new.clone()).await, Accepted::New);
        let row = world.row(inbox.tenant, WorkId::first_of(new.event.id)).await;
        assert_eq!(row.meta.order_key.as_deref(), Some(order));
        if order == "a" {
            expected.push(row.id);
        }
    }
    // A repeat adds nothing to its key.
    let again = world.accept(world.event(&inbox).with_key("1").in_order("a")).await;
    assert!(matches!(again, Accepted::Duplicate { job: Some(_), .. }), "{again:?}");
    let mut ran = Vec::new();
    let heads = world.claim(&inbox).up_to(10).take().await;
    assert_eq!(heads.len(), 2, "one of each key");
    let mut next = heads.into_iter().find(|item| item.ticket.work == expected[0]);
    while let Some(item) = next {
        ran.push(item.ticket.work);
        world.finish(&item.ticket, Ending::Succeeded).await;
        next = world.claim(&inbox).up_to(10).take().await.pop();
    }
    assert_eq!(ran, expected);
}

pub async fn events_of_one_key_from_two_nodes_at_once_have_one_head(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut calls = Vec::new();
    for turn in 0..30 {
        let new = world.event(&inbox).with_key(&turn.to_string()).in_order("a").build();
        let node = world.node(turn);
        calls.push(tokio::spawn(async move { node.accept(vec![new]).await.remove(0) }));
    }
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), Accepted::New);
    }
    for _ in 0..30 {
        let claimed = world.claim(&inbox).up_to(10).take().await;
        assert_eq!(claimed.len(), 1, "only the head can be claimed");
        world.finish(&claimed[0].ticket, Ending::Succeeded).await;
    }
}
