//! Sequencing: numbered events run in the order of their numbers, as far as they come in time.

use wakepost_domain::WorkId;
use wakepost_domain::sequence::{LATE, OUT_OF_ORDER};
use wakepost_domain::transition::Ending;
use wakepost_domain::work::State;

use super::Harness;
use super::drafts::Inbox;
use super::world::{World, assert_near, failed_for_s};
use crate::moves::Accepted;

const WAIT_S: u64 = 100;

impl<H: Harness> World<'_, H> {
    async fn numbered(&self, inbox: &Inbox, number: i64) -> WorkId {
        let new = self.event(inbox).in_order("k").numbered(number, WAIT_S).build();
        assert_eq!(self.accept(new.clone()).await, Accepted::New);
        WorkId::first_of(new.event.id)
    }

    /// Runs whatever can run now, one after the other.
    async fn run_all(&self, inbox: &Inbox) -> Vec<WorkId> {
        let mut ran = Vec::new();
        loop {
            let claimed = self.claim(inbox).up_to(9).take().await;
            assert!(claimed.len() <= 1, "one at a time");
            let Some(item) = claimed.first() else { return ran };
            ran.push(item.ticket.work);
            self.finish(&item.ticket, Ending::Succeeded).await;
        }
    }

    async fn flags(&self, inbox: &Inbox, work: WorkId) -> Vec<String> {
        self.row(inbox.tenant, work).await.meta.flags
    }
}

pub async fn numbers_that_come_in_turn_run_at_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut made = Vec::new();
    for number in [17, 18, 19] {
        made.push(world.numbered(&inbox, number).await);
    }
    assert_eq!(world.run_all(&inbox).await, made);
    let next = world.numbered(&inbox, 20).await;
    assert_eq!(world.run_all(&inbox).await, [next]);
    for work in made {
        assert!(world.flags(&inbox, work).await.is_empty());
    }
}

pub async fn a_later_number_waits_for_the_missing_one(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.numbered(&inbox, 1).await;
    let (fourth, third) = (world.numbered(&inbox, 4).await, world.numbered(&inbox, 3).await);
    assert_eq!(world.run_all(&inbox).await, [first]);
    let row = world.row(inbox.tenant, third).await;
    assert_eq!((row.state, row.behind), (State::Scheduled, false));
    assert_eq!(row.meta.flags, [OUT_OF_ORDER]);
    assert!(world.flags(&inbox, fourth).await.is_empty(), "it follows the third");
    let second = world.numbered(&inbox, 2).await;
    assert_eq!(world.run_all(&inbox).await, [second, third, fourth]);
    assert!(world.flags(&inbox, third).await.is_empty());
    let fifth = world.numbered(&inbox, 5).await;
    assert_eq!(world.run_all(&inbox).await, [fifth]);
}

pub async fn after_the_wait_it_runs_out_of_order_and_the_missing_one_is_late(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.numbered(&inbox, 1).await;
    world.run_all(&inbox).await;
    let third = world.numbered(&inbox, 3).await;
    let fourth = world.numbered(&inbox, 4).await;
    world.advance_s(WAIT_S - 20).await;
    assert!(world.run_all(&inbox).await.is_empty());
    world.advance_s(21).await;
    assert_eq!(world.run_all(&inbox).await, [third, fourth], "together, since they follow");
    assert_eq!(world.flags(&inbox, third).await, [OUT_OF_ORDER]);
    assert!(world.flags(&inbox, fourth).await.is_empty());
    // Whoever comes next does not wait for the missing one again.
    let fifth = world.numbered(&inbox, 5).await;
    assert_eq!(world.run_all(&inbox).await, [fifth]);
    let second = world.numbered(&inbox, 2).await;
    assert_eq!(world.run_all(&inbox).await, [second]);
    assert_eq!(world.flags(&inbox, second).await, [LATE]);
    let sixth = world.numbered(&inbox, 6).await;
    assert_eq!(world.run_all(&inbox).await, [sixth]);
}

pub async fn a_lower_number_runs_before_what_still_waits(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let fifth = world.numbered(&inbox, 5).await;
    let third = world.numbered(&inbox, 3).await;
    let sixth = world.numbered(&inbox, 6).await;
    let fourth = world.numbered(&inbox, 4).await;
    let all = [third, fourth, fifth, sixth];
    assert_eq!(world.run_all(&inbox).await, all);
    for work in all {
        assert!(world.flags(&inbox, work).await.is_empty());
    }
}

pub async fn what_has_begun_keeps_its_place(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let fifth = world.numbered(&inbox, 5).await;
    let running = world.claim(&inbox).one().await;
    let third = world.numbered(&inbox, 3).await;
    assert_eq!(world.flags(&inbox, third).await, [LATE]);
    world.finish(&running.ticket, failed_for_s(10)).await;
    let fourth = world.numbered(&inbox, 4).await;
    assert_eq!(world.flags(&inbox, fourth).await, [LATE]);
    world.advance_s(11).await;
    assert_eq!(world.run_all(&inbox).await, [fifth, third, fourth]);
}

pub async fn an_early_one_never_waits_longer_than_one_behind_it(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.numbered(&inbox, 1).await;
    world.run_all(&inbox).await;
    let ninth = world.numbered(&inbox, 9).await;
    world.advance_s(WAIT_S / 2).await;
    let third = world.numbered(&inbox, 3).await;
    let (early, late) =
        (world.row(inbox.tenant, third).await, world.row(inbox.tenant, ninth).await);
    assert_eq!(early.run_at, late.run_at);
    assert!(late.behind);
    world.advance_s(WAIT_S / 2 + 1).await;
    assert_eq!(world.run_all(&inbox).await, [third, ninth]);
    for work in [third, ninth] {
        assert_eq!(world.flags(&inbox, work).await, [OUT_OF_ORDER]);
    }
}

pub async fn keys_count_for_themselves_and_begin_anew_when_forgotten(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.numbered(&inbox, 1).await;
    let other = world.event(&inbox).in_order("other").numbered(7, WAIT_S).build();
    assert_eq!(world.accept(other).await, Accepted::New);
    assert_eq!(world.claim(&inbox).up_to(9).take().await.len(), 2);
    let later = world.inbox().await;
    world.numbered(&later, 1).await;
    world.run_all(&later).await;
    world.advance_s(31 * 24 * 3600).await;
    let again = world.numbered(&later, 5).await;
    assert_near(world.row(later.tenant, again).await.run_at, world.now().await);
    assert_eq!(world.run_all(&later).await, [again]);
}

pub async fn events_without_a_number_run_behind_those_that_wait(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.numbered(&inbox, 1).await;
    let plain = world.event(&inbox).in_order("k").build();
    let plain_work = WorkId::first_of(plain.event.id);
    assert_eq!(world.accept(plain).await, Accepted::New);
    let second = world.numbered(&inbox, 2).await;
    assert_eq!(world.run_all(&inbox).await, [first, second, plain_work]);
}

pub async fn shuffled_numbers_from_two_nodes_at_once_run_in_order(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    const NUMBERS: usize = 25;
    world.numbered(&inbox, 0).await;
    let mut calls = Vec::new();
    for turn in 0..NUMBERS {
        let number = (turn * 7 % NUMBERS) as i64 + 1;
        let new = world.event(&inbox).in_order("k").numbered(number, WAIT_S).build();
        let node = world.node(turn);
        let work = WorkId::first_of(new.event.id);
        calls.push(tokio::spawn(async move {
            assert_eq!(node.accept(vec![new]).await.remove(0).unwrap(), Accepted::New);
            (number, work)
        }));
    }
    let mut expected = Vec::new();
    for call in calls {
        expected.push(call.await.unwrap());
    }
    expected.sort_unstable();
    let ran = world.run_all(&inbox).await;
    let expected: Vec<WorkId> = expected.into_iter().map(|(_, work)| work).collect();
    assert_eq!(ran[1..], expected);
}
