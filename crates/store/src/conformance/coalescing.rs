//! Coalescing: a newer event takes the place of older ones that wait, and of nothing else.

use wakepost_domain::WorkId;
use wakepost_domain::thread::ThreadPolicy;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State, WorkKind};

use super::Harness;
use super::drafts::EventDraft;
use super::world::{World, failed_for_s};
use crate::moves::Accepted;

impl<H: Harness> World<'_, H> {
    async fn takes_over(&self, draft: EventDraft) -> (WorkId, Accepted) {
        let new = draft.build();
        (WorkId::first_of(new.event.id), self.accept(new).await)
    }
}

pub async fn a_newer_event_supersedes_a_queued_older_one(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (old, _) = world.takes_over(world.event(&inbox).instead_of("ticket 1")).await;
    let (other, _) = world.takes_over(world.event(&inbox).instead_of("ticket 2")).await;
    let (new, answer) = world.takes_over(world.event(&inbox).instead_of("ticket 1")).await;
    assert_eq!(answer, Accepted::New);
    let row = world.row(inbox.tenant, old).await;
    assert_eq!(row.state, State::Cancelled);
    assert_eq!(row.meta.superseded_by.as_deref(), Some(new.text(WorkKind::Job).as_str()));
    assert!(row.finished_at.is_some());
    let claimed = world.claim(&inbox).up_to(9).take().await;
    let works: Vec<WorkId> = claimed.iter().map(|item| item.ticket.work).collect();
    assert_eq!(works, [other, new]);
    let elsewhere = world.inbox().await;
    let (_, answer) = world.takes_over(world.event(&elsewhere).instead_of("ticket 1")).await;
    assert_eq!(answer, Accepted::New);
}

pub async fn what_runs_or_is_held_goes_on_and_knows_what_came_after_it(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (running, _) = world.takes_over(world.event(&inbox).instead_of("v")).await;
    let claimed = world.claim(&inbox).one().await;
    let (retried, _) = world.takes_over(world.event(&inbox).instead_of("v")).await;
    assert_eq!(world.state(inbox.tenant, running).await, State::Running);
    let after = async |of: WorkId| world.row(inbox.tenant, of).await.meta.superseded_by;
    assert_eq!(after(running).await, Some(retried.text(WorkKind::Job)));
    world.run_to(&inbox, failed_for_s(100)).await;
    let (held, _) = world.takes_over(world.event(&inbox).instead_of("v")).await;
    assert_eq!(world.state(inbox.tenant, retried).await, State::Cancelled, "a retry waits too");
    world.run_to(&inbox, Ending::Held(HeldReason::Budget)).await;
    let (last, _) = world.takes_over(world.event(&inbox).instead_of("v")).await;
    assert_eq!(world.state(inbox.tenant, held).await, State::Held);
    assert_eq!(after(held).await, Some(last.text(WorkKind::Job)));
    assert_eq!(after(last).await, None);
    world.finish(&claimed.ticket, failed_for_s(0)).await;
    // Whoever gets it can tell that it need not be run.
    let again = world.claim(&inbox).up_to(9).take().await;
    let mut again: Vec<_> =
        again.iter().map(|item| (item.ticket.work, item.meta.superseded_by.is_some())).collect();
    again.sort();
    assert_eq!(again, [(running, true), (last, false)]);
}

pub async fn superseding_the_first_of_an_order_key_lets_the_next_go(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let event = |value: &str| world.event(&inbox).in_order("k").instead_of(value);
    let (first, _) = world.takes_over(event("a")).await;
    let (second, _) = world.takes_over(event("b")).await;
    let (third, answer) = world.takes_over(event("a")).await;
    assert_eq!(answer, Accepted::NewBefore(inbox.lane), "the second may go now");
    assert_eq!(world.state(inbox.tenant, first).await, State::Cancelled);
    let (fourth, answer) = world.takes_over(event("a")).await;
    assert_eq!(answer, Accepted::New, "the third was behind");
    assert_eq!(world.state(inbox.tenant, third).await, State::Cancelled);
    for work in [second, fourth] {
        let claimed = world.claim(&inbox).up_to(9).take().await;
        assert_eq!(claimed.iter().map(|item| item.ticket.work).collect::<Vec<_>>(), [work]);
        world.finish(&claimed[0].ticket, Ending::Succeeded).await;
    }
    // The same value under another order key is another thing.
    let (here, _) = world.takes_over(event("a")).await;
    let (there, _) = world.takes_over(world.event(&inbox).in_order("other").instead_of("a")).await;
    let claimed = world.claim(&inbox).up_to(9).take().await;
    assert_eq!(claimed.iter().map(|item| item.ticket.work).collect::<Vec<_>>(), [here, there]);
}

pub async fn superseding_the_first_of_another_thread_lets_its_next_go(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let said = |thread: &str| world.event(&inbox).in_thread(thread, ThreadPolicy::Queue);
    let (first, _) = world.takes_over(said("one").instead_of("v")).await;
    let (second, _) = world.takes_over(said("one")).await;
    assert!(world.row(inbox.tenant, second).await.behind);
    let (third, answer) = world.takes_over(said("other").instead_of("v")).await;
    assert_eq!(answer, Accepted::NewBefore(inbox.lane));
    assert_eq!(world.state(inbox.tenant, first).await, State::Cancelled);
    let claimed = world.claim(&inbox).up_to(9).take().await;
    assert_eq!(claimed.iter().map(|item| item.ticket.work).collect::<Vec<_>>(), [second, third]);
}

pub async fn of_messages_of_two_threads_that_come_at_once_one_is_left(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    const MESSAGES: usize = 30;
    let mut calls = Vec::new();
    for turn in 0..MESSAGES {
        let thread = ["one", "other"][turn / 2 % 2];
        let draft = world.event(&inbox).in_thread(thread, ThreadPolicy::Queue);
        let new = draft.instead_of("v").build();
        let node = world.node(turn);
        calls.push(tokio::spawn(async move { node.accept(vec![new]).await.remove(0) }));
    }
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), Accepted::New);
    }
    assert_eq!(world.claim(&inbox).up_to(50).take().await.len(), 1);
}

pub async fn of_events_that_come_at_once_one_is_left(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    const EVENTS: usize = 30;
    for ordered in [false, true] {
        let mut calls = Vec::new();
        for turn in 0..EVENTS {
            let draft = world.event(&inbox);
            let draft = if ordered { draft.in_order("k") } else { draft };
            let new = draft.instead_of("v").build();
            let node = world.node(turn);
            calls.push(tokio::spawn(async move { node.accept(vec![new]).await.remove(0) }));
        }
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap(), Accepted::New);
        }
        let claimed = world.claim(&inbox).up_to(50).take().await;
        assert_eq!(claimed.len(), 1);
        world.finish(&claimed[0].ticket, Ending::Succeeded).await;
    }
}
