//! Keeping up: which lanes have work, whose time has come, and how much stands where.

use std::time::Duration;

use wakepost_domain::lane::LaneId;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State};
use wakepost_domain::{TenantId, Timestamp, Ulid};

use super::Harness;
use super::world::{World, assert_near, failed_for_s, given_up};
use crate::moves::StatCount;

pub async fn a_store_that_works_answers(harness: &impl Harness) {
    let world = World::new(harness).await;
    world.store.ping().await.unwrap();
    world.other.ping().await.unwrap();
}

pub async fn both_nodes_go_by_one_clock(harness: &impl Harness) {
    let world = World::new(harness).await;
    let began = world.now().await;
    assert_near(world.other.now().await.unwrap(), began);
    world.advance_s(5000).await;
    assert_near(world.now().await, began.after(Duration::from_secs(5000)));
    assert_near(world.other.now().await.unwrap(), began.after(Duration::from_secs(5000)));
}

pub async fn the_newest_id_below_another_is_found(harness: &impl Harness) {
    let world = World::new(harness).await;
    let newest = async |below| world.other.newest_id(below).await.unwrap();
    assert_eq!(newest(Ulid::MAX).await, None);
    let inbox = world.inbox().await;
    let theirs = world.inbox_of(world.tenant("theirs").await).await;
    let event = world.accepted(&theirs).await;
    assert_eq!(newest(Ulid::MAX).await, Some(event.0));
    world.advance_s(5).await;
    let job = world.created(world.job(&inbox).with_input("{}")).await;
    assert_eq!(newest(Ulid::MAX).await, Some(job.0));
    assert_eq!(newest(job.0).await, Some(event.0), "of another tenant");
    assert_eq!(newest(event.0).await, None);
}

async fn waiting<H: Harness>(world: &World<'_, H>) -> Vec<(LaneId, Timestamp)> {
    let mut lanes: Vec<_> = world
        .store
        .waiting_lanes()
        .await
        .unwrap()
        .into_iter()
        .map(|due| (due.lane, due.run_at))
        .collect();
    lanes.sort();
    lanes
}

pub async fn every_lane_with_waiting_work_is_listed_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    assert!(waiting(&world).await.is_empty());
    let now = world.now().await;
    let in_s = |seconds| now.after(Duration::from_secs(seconds));
    let (busy, timed) = (world.inbox().await, world.inbox().await);
    let theirs = world.inbox_of(world.tenant("theirs").await).await;
    let (idle, taken, held) = (world.inbox().await, world.inbox().await, world.inbox().await);
    world.created(world.job(&busy).at(in_s(900))).await;
    world.accepted_many(&busy, 300).await;
    for seconds in [700, 500, 600] {
        world.created(world.job(&timed).at(in_s(seconds))).await;
    }
    world.ended(&theirs, failed_for_s(400)).await;
    world.ended(&idle, Ending::Succeeded).await;
    world.running(&taken).await;
    world.ended(&held, Ending::Held(HeldReason::Budget)).await;
    let lanes = waiting(&world).await;
    let ids: Vec<LaneId> = lanes.iter().map(|(lane, _)| *lane).collect();
    assert_eq!(ids, [busy.lane, timed.lane, theirs.lane]);
    assert_near(lanes[0].1, now);
    assert_eq!(lanes[1].1, in_s(500), "its earliest");
    assert_near(lanes[2].1, in_s(400));
    world.claim(&busy).up_to(300).take().await;
    assert_eq!(waiting(&world).await[0], (busy.lane, in_s(900)));
}

pub async fn many_waiting_lanes_are_all_listed(harness: &impl Harness) {
    let world = World::new(harness).await;
    let mut lanes = Vec::new();
    for _ in 0..120 {
        let inbox = world.inbox().await;
        world.accepted_many(&inbox, 2).await;
        lanes.push(inbox.lane);
    }
    let seen: Vec<LaneId> = waiting(&world).await.into_iter().map(|(lane, _)| lane).collect();
    assert_eq!(seen, lanes);
}

pub async fn lanes_whose_timers_just_fell_due_are_listed(harness: &impl Harness) {
    let world = World::new(harness).await;
    let now = world.now().await;
    let in_s = |seconds| now.after(Duration::from_secs(seconds));
    let (timed, retried) = (world.inbox().await, world.inbox().await);
    let (later, plain) = (world.inbox().await, world.inbox().await);
    world.created(world.job(&timed).at(in_s(100))).await;
    world.created(world.job(&timed).at(in_s(101))).await;
    world.ended(&retried, failed_for_s(100)).await;
    world.created(world.job(&later).at(in_s(500))).await;
    world.accepted(&plain).await;
    let minute = Duration::from_secs(60);
    assert!(world.store.due_lanes(minute).await.unwrap().1.is_empty());
    world.advance_s(120).await;
    let (until, mut due) = world.store.due_lanes(minute).await.unwrap();
    assert_near(until, world.now().await);
    due.sort();
    assert_eq!(due, [timed.lane, retried.lane]);
    world.advance_s(100).await;
    assert!(world.store.due_lanes(minute).await.unwrap().1.is_empty(), "that was before");
    let (_, mut due) = world.store.due_lanes(Duration::from_secs(300)).await.unwrap();
    due.sort();
    assert_eq!(due, [timed.lane, retried.lane]);
    world.claim(&timed).up_to(2).take().await;
    assert_eq!(world.store.due_lanes(Duration::from_secs(300)).await.unwrap().1, [retried.lane]);
}

pub async fn live_work_is_counted_by_tenant_and_state(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let theirs = world.inbox_of(world.tenant("theirs").await).await;
    assert!(world.store.live_counts().await.unwrap().is_empty());
    for ending in [Ending::Succeeded, given_up(), Ending::Cancelled] {
        world.ended(&inbox, ending).await;
    }
    world.ended(&inbox, Ending::Held(HeldReason::Budget)).await;
    for _ in 0..2 {
        world.ended(&inbox, failed_for_s(500)).await;
    }
    world.running(&inbox).await;
    world.accepted_many(&inbox, 3).await;
    let later = world.now().await.after(Duration::from_secs(500));
    world.created(world.job(&inbox).at(later)).await;
    world.accepted_many(&theirs, 4).await;
    let mut counts = world.store.live_counts().await.unwrap();
    counts.sort_by_key(|count| (count.tenant, count.state));
    let count = |tenant, state, count| StatCount { tenant, state, count };
    let expected = [
        count(TenantId::DEFAULT, State::Pending, 3),
        count(TenantId::DEFAULT, State::Scheduled, 1),
        count(TenantId::DEFAULT, State::Retrying, 2),
        count(TenantId::DEFAULT, State::Held, 1),
        count(TenantId::DEFAULT, State::Running, 1),
        count(theirs.tenant, State::Pending, 4),
    ];
    assert_eq!(counts, expected);
}
