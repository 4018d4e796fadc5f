//! Claiming: ready items, oldest first, each to one worker only.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use wakepost_domain::lane::LaneId;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State, WorkKind};
use wakepost_domain::{TenantId, WorkId};

use super::Harness;
use super::drafts::{ATTEMPTS, Inbox, LEASE_S, RUN_S};
use super::world::{World, assert_near, failed, failed_for_s};
use crate::moves::{ClaimRequest, Claimed};

fn works(claimed: &[Claimed]) -> Vec<WorkId> {
    claimed.iter().map(|item| item.ticket.work).collect()
}

pub async fn a_claim_says_all_a_worker_needs(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox_of(world.tenant("acme").await).await;
    let new = world.event(&inbox).build();
    world.accept(new.clone()).await;
    let claimed = world.claim(&inbox).by("worker-7").one().await;
    let now = world.now().await;
    assert_eq!(claimed.ticket.work, WorkId::first_of(new.event.id));
    assert_eq!(claimed.ticket.tenant, inbox.tenant);
    assert_eq!((claimed.ticket.fence, claimed.ticket.attempt), (1, 1));
    assert_eq!(claimed.ticket.max_attempts, ATTEMPTS);
    assert_eq!(claimed.ticket.lease_s, LEASE_S as i32);
    assert_near(claimed.ticket.started_at, now);
    assert_eq!((claimed.kind, claimed.lane), (WorkKind::Job, inbox.lane));
    assert_eq!((claimed.event, claimed.scope), (Some(new.event.id), new.event.id.0));
    assert_near(claimed.lease_expires_at, now.after(Duration::from_secs(LEASE_S)));
    let row = world.row(inbox.tenant, claimed.ticket.work).await;
    assert_eq!((row.state, row.fence, row.attempts), (State::Running, 1, 1));
    assert_eq!(row.worker.as_deref(), Some("worker-7"));
    assert_eq!(row.started_at, Some(claimed.ticket.started_at));
    assert_eq!(row.lease_expires_at, Some(claimed.lease_expires_at));
}

pub async fn the_oldest_in_a_lane_is_claimed_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut waiting = Vec::new();
    for _ in 0..6 {
        waiting.push(world.accepted(&inbox).await);
        world.advance_s(1).await;
    }
    assert_eq!(works(&world.claim(&inbox).up_to(2).take().await), waiting[..2]);
    assert_eq!(world.claim(&inbox).one().await.ticket.work, waiting[2]);
    assert_eq!(works(&world.claim(&inbox).up_to(10).take().await), waiting[3..]);
    assert!(world.claim(&inbox).up_to(10).take().await.is_empty());
}

pub async fn of_one_moment_the_smaller_id_is_claimed_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let waiting = world.accepted_many(&inbox, 20).await;
    let mut claimed = Vec::new();
    for _ in 0..4 {
        claimed.extend(works(&world.claim(&inbox).up_to(5).take().await));
    }
    assert_eq!(claimed, waiting);
}

pub async fn an_item_that_waited_longer_comes_before_one_that_was_tried(harness: &impl Harness) {
    let world = World::new(harness).await;
    for at_once in [true, false] {
        let inbox = world.inbox().await;
        let tried = world.ended(&inbox, failed_for_s(50)).await;
        let fresh = world.accepted(&inbox).await;
        world.advance_s(60).await;
        let mut claimed = world.claim(&inbox).up_to(if at_once { 2 } else { 1 }).take().await;
        claimed.extend(world.claim(&inbox).take().await);
        assert_eq!(works(&claimed), [fresh, tried]);
    }
}

pub async fn nothing_is_claimed_before_its_time(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let later = world.now().await.after(Duration::from_secs(100));
    let work = world.created(world.job(&inbox).at(later)).await;
    assert!(world.claim(&inbox).take().await.is_empty());
    world.advance_s(80).await;
    assert!(world.claim(&inbox).take().await.is_empty());
    world.advance_s(20).await;
    let claimed = world.claim(&inbox).one().await;
    assert_eq!(claimed.ticket.work, work);
    assert!(claimed.ticket.started_at >= later, "it started early");
}

pub async fn the_fence_grows_with_every_claim(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let work = world.accepted(&inbox).await;
    let mut seen = Vec::new();
    for ending in [failed(), Ending::HandedBack, Ending::HandedBack, failed(), Ending::Succeeded] {
        let claimed = world.run_to(&inbox, ending).await;
        assert_eq!(claimed.ticket.work, work);
        seen.push((claimed.ticket.fence, claimed.ticket.attempt));
    }
    assert_eq!(seen, [(1, 1), (2, 2), (3, 2), (4, 2), (5, 3)]);
    let runs = world.store.runs(inbox.tenant, work).await.unwrap();
    assert_eq!(runs.len(), 5);
    let ids: HashSet<_> = runs.iter().map(|run| run.id).collect();
    assert_eq!(ids.len(), 5, "each run has an id of its own");
}

pub async fn only_waiting_items_are_claimed(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.ended(&inbox, Ending::Held(HeldReason::Budget)).await;
    world.ended(&inbox, Ending::Succeeded).await;
    world.ended(&inbox, super::world::given_up()).await;
    let cancelled = world.accepted(&inbox).await;
    let audit = world.audit(inbox.tenant, "job.cancel");
    world.store.cancel(inbox.tenant, cancelled, audit).await.unwrap();
    world.running(&inbox).await;
    assert!(world.claim(&inbox).up_to(10).take().await.is_empty());
}

pub async fn a_claim_keeps_to_its_lanes_and_counts(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inboxes = [world.inbox().await, world.inbox().await, world.inbox().await];
    for inbox in &inboxes {
        world.accepted_many(inbox, 5).await;
    }
    let [a, b, _] = &inboxes;
    let lanes = vec![world.claim(a).up_to(3).lane(), world.claim(b).up_to(10).lane()];
    let request = ClaimRequest { worker: "ada".to_owned(), lanes };
    let claimed = world.store.claim(request).await.unwrap();
    let of = |inbox: &Inbox| claimed.iter().filter(|item| item.lane == inbox.lane).count();
    assert_eq!(inboxes.each_ref().map(of), [3, 5, 0]);
    assert!(world.claim(a).up_to(0).take().await.is_empty());
    assert_eq!(world.claim(a).up_to(10).take().await.len(), 2);
}

pub async fn workers_that_claim_at_once_each_get_their_own_under_their_own_lease(
    harness: &impl Harness,
) {
    const WORKERS: u64 = 8;
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let waiting = world.accepted_many(&inbox, 30).await;
    let asking = (1..=WORKERS).map(|n| {
        let asked = world.claim(&inbox).by(&format!("worker-{n}")).up_to(5).leased_s(100 * n);
        async move { (n, asked.take().await) }
    });
    let mut claimed = HashSet::new();
    for (n, items) in join_all(asking).await {
        assert!(items.len() <= 5, "worker {n} asked for 5 and got {}", items.len());
        for item in items {
            assert_eq!(item.ticket.lease_s as u64, 100 * n);
            let row = world.row(inbox.tenant, item.ticket.work).await;
            assert_eq!(row.worker, Some(format!("worker-{n}")));
            assert_near(
                item.lease_expires_at,
                world.now().await.after(Duration::from_secs(100 * n)),
            );
            assert!(claimed.insert(item.ticket.work), "claimed twice");
        }
    }
    assert_eq!(claimed, waiting.into_iter().collect());
}

pub async fn a_lane_that_is_empty_or_unknown_has_nothing(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    assert!(world.claim(&inbox).up_to(10).take().await.is_empty());
    let nowhere = Inbox { lane: LaneId(4_000_000), ..inbox };
    assert!(world.claim(&nowhere).up_to(10).take().await.is_empty());
    let nothing = ClaimRequest { worker: "ada".to_owned(), lanes: vec![] };
    assert!(world.store.claim(nothing).await.unwrap().is_empty());
}

pub async fn two_nodes_never_claim_the_same_item(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inboxes = [world.inbox().await, world.inbox_of(world.tenant("acme").await).await];
    let mut waiting: HashSet<WorkId> = HashSet::new();
    for inbox in &inboxes {
        for _ in 0..4 {
            waiting.extend(world.accepted_many(inbox, 250).await);
        }
    }
    let mut workers = Vec::new();
    for turn in 0..8 {
        let claims = inboxes.map(|inbox| world.claim(&inbox).on(world.node(turn)).up_to(20));
        workers.push(tokio::spawn(async move {
            let mut claimed = Vec::new();
            loop {
                let mut round = claims[turn / 2 % 2].clone().take().await;
                round.extend(claims[1 - turn / 2 % 2].clone().take().await);
                if round.is_empty() {
                    return claimed;
                }
                claimed.extend(round);
            }
        }));
    }
    let mut claimed = Vec::new();
    for worker in workers {
        claimed.extend(worker.await.unwrap());
    }
    assert_eq!(claimed.len(), 2000);
    assert!(claimed.iter().all(|item| item.ticket.fence == 1 && item.ticket.attempt == 1));
    assert_eq!(works(&claimed).into_iter().collect::<HashSet<_>>(), waiting);
    let of_default = claimed.iter().filter(|item| item.ticket.tenant == TenantId::DEFAULT);
    assert!(of_default.into_iter().all(|item| item.lane == inboxes[0].lane));
}

/// Items come in, are claimed and are settled all at once, and each is run exactly once.
pub async fn work_that_arrives_while_it_is_claimed_is_run_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut tasks = Vec::new();
    for turn in 0..10 {
        let batches: Vec<Vec<_>> =
            (0..5).map(|_| (0..8).map(|_| world.event(&inbox).build()).collect()).collect();
        let node = world.node(turn);
        tasks.push(tokio::spawn(async move {
            for batch in batches {
                assert!(node.accept(batch).await.into_iter().all(|answer| answer.is_ok()));
            }
        }));
    }
    let mut ran = HashSet::new();
    let mut idle = 0;
    while idle < 3 {
        let all_in = tasks.iter().all(|task| task.is_finished());
        let claimed = world.claim(&inbox).on(world.node(ran.len())).up_to(30).take().await;
        idle = if claimed.is_empty() && all_in { idle + 1 } else { 0 };
        for item in claimed {
            assert!(ran.insert(item.ticket.work), "claimed twice");
            world.finish(&item.ticket, Ending::Succeeded).await;
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(ran.len(), 400);
    assert!(world.store.live_counts().await.unwrap().is_empty());
}

pub async fn a_lease_never_outlasts_the_run(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.accepted(&inbox).await;
    let claimed = world.claim(&inbox).leased_s(2 * RUN_S).one().await;
    let deadline = claimed.ticket.started_at.after(Duration::from_secs(RUN_S));
    assert_eq!(claimed.lease_expires_at, deadline);
}
