//! Counting: how a tenant's queue stands.

use std::time::Duration;

use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State};

use super::Harness;
use super::world::World;
use crate::moves::LiveCount;

pub async fn live_work_is_counted_by_lane_and_state(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (a, b) = (world.inbox().await, world.inbox().await);
    let theirs = world.inbox_of(world.tenant("theirs").await).await;
    world.accepted_many(&theirs, 3).await;
    let works = world.accepted_many(&a, 4).await;
    world.advance(Duration::from_secs(5)).await;
    let later = world.now().await.after(Duration::from_secs(3600));
    let scheduled = world.created(world.job(&b).at(later)).await;
    let running = world.claim(&a).by("ada").up_to(2).take().await;
    world.finish(&running[0].ticket, Ending::Held(HeldReason::InDoubt)).await;
    let counts = world.other.live_work(a.tenant, 100).await.unwrap();
    let mut lanes = counts.lanes;
    lanes.sort_by_key(|count| (count.lane, count.state));
    let told = |live: &LiveCount| (live.lane, live.state, live.ready, live.count, live.oldest);
    assert_eq!(
        lanes.iter().map(told).collect::<Vec<_>>(),
        [
            (a.lane, State::Pending, true, 2, works[2].0.time()),
            (a.lane, State::Held, false, 1, works[0].0.time()),
            (a.lane, State::Running, false, 1, works[1].0.time()),
            (b.lane, State::Scheduled, false, 1, scheduled.0.time()),
        ]
    );
    let ran: Vec<_> = lanes.iter().map(|live| live.worker.as_deref()).collect();
    assert_eq!(ran, [None, None, Some("ada"), None], "only who runs something now");
    assert_eq!(lanes[2].started_at, Some(running[1].ticket.started_at));
    assert!(!counts.cut_off);
}

pub async fn counting_stops_at_its_bound_and_says_so(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.accepted_many(&inbox, 20).await;
    let counts = world.store.live_work(inbox.tenant, 10).await.unwrap();
    assert!(counts.cut_off);
    assert_eq!(counts.lanes.iter().map(|lane| lane.count).sum::<i64>(), 10);
}
