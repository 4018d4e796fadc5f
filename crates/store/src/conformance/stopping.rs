//! Stopping: a run that was asked to stop ends as cancelled, unless it had succeeded first.

use std::time::Duration;

use wakepost_domain::run::RunOutcome;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State};

use super::Harness;
use super::drafts::{Inbox, LEASE_S, end};
use super::world::{World, assert_lost, failed, given_up};
use crate::moves::{CancelOutcome, Claimed, Guard, Settle};

const PATIENCE: Duration = Duration::from_secs(30);

impl<H: Harness> World<'_, H> {
    /// A running job that was asked to stop.
    async fn stopping(&self, inbox: &Inbox) -> Claimed {
        let claimed = self.running(inbox).await;
        let audit = self.audit(inbox.tenant, "job.cancel");
        let outcome = self.store.cancel(inbox.tenant, claimed.ticket.work, audit).await.unwrap();
        assert_eq!(outcome, CancelOutcome::Requested);
        claimed
    }

    async fn swept(&self) -> Settle {
        let run = self.store.expired(PATIENCE, 10).await.unwrap().remove(0);
        let guard = Guard::CancelledBefore(self.now().await.before(PATIENCE));
        Settle { guard, ..end(&run.ticket, Ending::Cancelled) }
    }
}

pub async fn a_running_item_is_only_asked_to_stop(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.stopping(&inbox).await;
    let row = world.row(inbox.tenant, claimed.ticket.work).await;
    assert_eq!((row.state, row.cancel_requested), (State::Running, true));
    assert_eq!(row.lease_expires_at, Some(claimed.lease_expires_at));
}

pub async fn a_stop_turns_every_end_but_success_into_cancelled(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let endings = [
        failed(),
        given_up(),
        Ending::HandedBack,
        Ending::Held(HeldReason::Budget),
        Ending::Cancelled,
    ];
    for ending in endings {
        let ticket = world.stopping(&inbox).await.ticket;
        let settled = world.finish(&ticket, ending).await;
        assert_eq!(settled.state, State::Cancelled, "{ending:?}");
        let row = world.row(inbox.tenant, ticket.work).await;
        assert_eq!((row.state, row.attempts), (State::Cancelled, 1), "{ending:?}");
        assert!(row.finished_at.is_some());
        let runs = world.store.runs(inbox.tenant, ticket.work).await.unwrap();
        assert_eq!((runs.len(), runs[0].outcome), (1, RunOutcome::Cancelled), "{ending:?}");
    }
    assert!(world.claim(&inbox).take().await.is_empty());
}

pub async fn a_success_that_arrives_first_wins_over_a_stop(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.stopping(&inbox).await.ticket;
    assert_eq!(world.finish(&ticket, Ending::Succeeded).await.state, State::Succeeded);
    let runs = world.store.runs(inbox.tenant, ticket.work).await.unwrap();
    assert_eq!((runs.len(), runs[0].outcome), (1, RunOutcome::Succeeded));
}

/// The worker said that it failed, was stopped instead, and never got the answer.
pub async fn an_end_that_became_a_stop_is_answered_the_same_again(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for ending in [failed(), given_up(), Ending::HandedBack, Ending::Cancelled] {
        let ticket = world.stopping(&inbox).await.ticket;
        world.finish(&ticket, ending).await;
        let before = world.picture(inbox.tenant, ticket.work).await;
        let again = world.settle(end(&ticket, ending)).await.unwrap();
        assert_eq!((again.state, again.repeated), (State::Cancelled, true), "{ending:?}");
        assert_lost(world.settle(end(&ticket, Ending::Succeeded)).await);
        assert_eq!(world.picture(inbox.tenant, ticket.work).await, before);
    }
}

pub async fn a_stop_that_is_not_heeded_ends_with_the_lease(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.stopping(&inbox).await.ticket;
    world.advance_s(LEASE_S + 1).await;
    let run = world.store.expired(Duration::from_secs(100_000), 10).await.unwrap().remove(0);
    assert!(run.cancel_requested);
    let guard = Guard::ExpiredAt(run.lease_expires_at);
    let rescue = Settle { guard, ..end(&run.ticket, Ending::Expired) };
    assert_eq!(world.settle(rescue).await.unwrap().state, State::Cancelled);
    assert_eq!(world.state(inbox.tenant, ticket.work).await, State::Cancelled);
}

pub async fn a_stop_that_is_not_heeded_is_swept_after_a_while(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.stopping(&inbox).await.ticket;
    let early = Guard::CancelledBefore(world.now().await.before(PATIENCE));
    assert_lost(world.settle(Settle { guard: early, ..end(&ticket, Ending::Cancelled) }).await);
    world.advance_s(15).await;
    assert!(world.store.expired(PATIENCE, 10).await.unwrap().is_empty());
    // Asking again does not start the wait anew.
    let audit = world.audit(inbox.tenant, "job.cancel");
    world.store.cancel(inbox.tenant, ticket.work, audit).await.unwrap();
    world.advance_s(16).await;
    let sweep = world.swept().await;
    assert_eq!(sweep.ticket.work, ticket.work);
    assert_eq!(world.settle(sweep.clone()).await.unwrap().state, State::Cancelled);
    assert_lost(world.settle(sweep).await);
    assert_eq!(world.store.runs(inbox.tenant, ticket.work).await.unwrap().len(), 1);
}

pub async fn a_swept_worker_has_lost_its_lease(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.stopping(&inbox).await.ticket;
    world.advance_s(31).await;
    world.settle(world.swept().await).await.unwrap();
    let before = world.picture(inbox.tenant, ticket.work).await;
    for ending in [Ending::Succeeded, failed(), given_up(), Ending::HandedBack] {
        assert_lost(world.settle(end(&ticket, ending)).await);
    }
    assert_eq!(world.picture(inbox.tenant, ticket.work).await, before);
}

pub async fn a_run_that_nobody_asked_to_stop_is_not_swept(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.running(&inbox).await.ticket;
    let guard = Guard::CancelledBefore(world.now().await);
    assert_lost(world.settle(Settle { guard, ..end(&ticket, Ending::Cancelled) }).await);
    assert_eq!(world.state(inbox.tenant, ticket.work).await, State::Running);
}
