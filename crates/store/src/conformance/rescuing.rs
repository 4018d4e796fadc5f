//! Rescuing: runs whose lease ended are found, and ended exactly once.

use std::time::Duration;

use wakepost_domain::run::RunOutcome;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::State;

use super::Harness;
use super::drafts::{LEASE_S, end};
use super::world::{World, assert_lost, assert_near};
use crate::error::StoreError;
use crate::moves::{Expired, Guard, Heartbeat, Settle};

const PATIENCE: Duration = Duration::from_secs(30);

fn rescue(expired: &Expired) -> Settle {
    let guard = Guard::ExpiredAt(expired.lease_expires_at);
    Settle { guard, ..end(&expired.ticket, Ending::Expired) }
}

pub async fn only_leases_that_ended_are_listed_oldest_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut claimed = Vec::new();
    for lease_s in [300, 200, 100, 900] {
        world.accepted(&inbox).await;
        claimed.push(world.claim(&inbox).leased_s(lease_s).one().await);
    }
    world.ended(&inbox, Ending::Succeeded).await;
    assert!(world.store.expired(PATIENCE, 10).await.unwrap().is_empty());
    world.advance_s(320).await;
    let expired = world.other.expired(PATIENCE, 10).await.unwrap();
    let seen: Vec<_> = expired.iter().map(|run| (run.ticket.work, run.lease_expires_at)).collect();
    let expected =
        [2, 1, 0].map(|turn: usize| (claimed[turn].ticket.work, claimed[turn].lease_expires_at));
    assert_eq!(seen, expected);
    let (first, ticket) = (expired[0], claimed[2].ticket);
    assert_eq!((first.ticket.tenant, first.ticket.fence), (ticket.tenant, ticket.fence));
    assert_eq!((first.ticket.attempt, first.ticket.max_attempts), (1, ticket.max_attempts));
    assert_eq!(first.ticket.started_at, ticket.started_at);
    assert_eq!((first.lane, first.cancel_requested), (inbox.lane, false));
    assert_eq!(world.store.expired(PATIENCE, 2).await.unwrap(), expired[..2]);
}

pub async fn a_rescued_item_is_due_at_once_and_its_attempt_counts(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.running(&inbox).await.ticket;
    world.advance_s(LEASE_S + 1).await;
    let expired = world.store.expired(PATIENCE, 10).await.unwrap();
    assert_eq!(world.settle(rescue(&expired[0])).await.unwrap().state, State::Retrying);
    let row = world.row(inbox.tenant, ticket.work).await;
    assert_eq!((row.attempts, row.fence, row.lease_expires_at), (1, 1, None));
    assert_near(row.run_at, world.now().await);
    let runs = world.store.runs(inbox.tenant, ticket.work).await.unwrap();
    assert_eq!((runs.len(), runs[0].outcome), (1, RunOutcome::LeaseExpired));
    let again = world.claim(&inbox).one().await.ticket;
    assert_eq!((again.work, again.attempt, again.fence), (ticket.work, 2, 2));
    assert!(world.store.expired(PATIENCE, 10).await.unwrap().is_empty());
}

pub async fn the_last_expired_lease_makes_a_dead_letter(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let work = world.created(world.job(&inbox).tried_at_most(2)).await;
    for state in [State::Retrying, State::DeadLetter] {
        world.claim(&inbox).one().await;
        world.advance_s(LEASE_S + 1).await;
        let expired = world.store.expired(PATIENCE, 10).await.unwrap();
        assert_eq!(world.settle(rescue(&expired[0])).await.unwrap().state, state);
    }
    assert_eq!(world.row(inbox.tenant, work).await.attempts, 2);
    assert_eq!(world.store.runs(inbox.tenant, work).await.unwrap().len(), 2);
}

pub async fn many_rescuers_rescue_each_run_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let works = world.accepted_many(&inbox, 50).await;
    world.claim(&inbox).up_to(50).take().await;
    world.advance_s(LEASE_S + 1).await;
    let mut rescuers = Vec::new();
    for turn in 0..8 {
        let node = world.node(turn);
        rescuers.push(tokio::spawn(async move {
            let expired = node.expired(PATIENCE, 100).await.unwrap();
            let answers = node.settle(expired.iter().map(rescue).collect()).await;
            let mut rescued = 0;
            for answer in answers {
                match answer {
                    Ok(settled) => rescued += usize::from(!settled.repeated),
                    Err(StoreError::LeaseLost) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            rescued
        }));
    }
    let mut rescued = 0;
    for rescuer in rescuers {
        rescued += rescuer.await.unwrap();
    }
    assert_eq!(rescued, 50);
    for work in works {
        let row = world.row(inbox.tenant, work).await;
        assert_eq!((row.state, row.attempts), (State::Retrying, 1));
        assert_eq!(world.store.runs(inbox.tenant, work).await.unwrap().len(), 1);
    }
}

pub async fn a_lease_that_was_extended_is_not_rescued(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    let ticket = claimed.ticket;
    let seen = Settle {
        guard: Guard::ExpiredAt(claimed.lease_expires_at),
        ..end(&ticket, Ending::Expired)
    };
    assert_lost(world.settle(seen.clone()).await);
    world.advance_s(LEASE_S - 20).await;
    let beat = Heartbeat { ticket, extend: Duration::from_secs(LEASE_S), cost: None };
    world.store.heartbeat(vec![beat]).await.remove(0).unwrap();
    world.advance_s(30).await;
    let before = world.picture(inbox.tenant, ticket.work).await;
    assert_lost(world.settle(seen.clone()).await);
    world.advance_s(LEASE_S).await;
    assert_lost(world.settle(seen).await);
    assert_eq!(world.picture(inbox.tenant, ticket.work).await, before);
}

pub async fn a_lease_that_was_claimed_anew_is_not_rescued(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.running(&inbox).await.ticket;
    world.advance_s(LEASE_S + 1).await;
    let seen = world.store.expired(PATIENCE, 10).await.unwrap().remove(0);
    world.settle(rescue(&seen)).await.unwrap();
    assert_lost(world.settle(rescue(&seen)).await);
    let next = world.claim(&inbox).one().await;
    let before = world.picture(inbox.tenant, ticket.work).await;
    assert_lost(world.settle(rescue(&seen)).await);
    world.advance_s(LEASE_S + 1).await;
    assert_lost(world.settle(rescue(&seen)).await);
    assert_eq!(world.picture(inbox.tenant, ticket.work).await, before);
    assert_eq!(before.row.fence, next.ticket.fence);
}

pub async fn a_run_that_ended_in_time_is_not_rescued(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    world.finish(&claimed.ticket, Ending::Succeeded).await;
    world.advance_s(LEASE_S + 1).await;
    let guard = Guard::ExpiredAt(claimed.lease_expires_at);
    let late = Settle { guard, ..end(&claimed.ticket, Ending::Expired) };
    assert_lost(world.settle(late).await);
    assert_eq!(world.state(inbox.tenant, claimed.ticket.work).await, State::Succeeded);
}
