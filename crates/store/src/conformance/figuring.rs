//! Figuring: what nodes counted is added up, once each, and goes when its time is over.

use std::time::Duration;

use wakepost_domain::figures::{Figure, Figures, Sample, begins};
use wakepost_domain::transition::Ending;
use wakepost_domain::work::Priority;
use wakepost_domain::{TenantId, Timestamp};

use super::Harness;
use super::pruning::all_before;
use super::world::{World, given_up};
use crate::moves::{InMinute, Standing};

const TENANT: TenantId = TenantId::DEFAULT;
const HOLD: Duration = Duration::from_secs(30);

fn counted(accepted: u64, ms: u64) -> Figures {
    let mut figures = Figures::default();
    figures.count(Figure::Accepted, accepted);
    figures.ack.observe(Duration::from_millis(ms));
    figures
}

fn waiting(count: u64) -> Sample {
    let mut sample = Sample { dead_letters: 3, ..Sample::default() };
    sample.waiting(Priority::Batch, count, 7);
    sample
}

fn of<T>(tenant: TenantId, minute: i64, what: T) -> InMinute<T> {
    InMinute { tenant, minute, what }
}

pub async fn figures_of_all_nodes_are_added_up_by_minute(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (ours, theirs) = (counted(1, 3), counted(10, 700));
    let minutes = |figures| vec![of(TENANT, 100, figures), of(TENANT, 101, figures)];
    world.store.keep_figures(-7, minutes(ours)).await.unwrap();
    world.other.keep_figures(i64::MAX, minutes(theirs)).await.unwrap();
    world.other.keep_figures(i64::MAX, Vec::new()).await.unwrap();
    let mut sum = ours;
    sum.add(&theirs);
    let read = world.other.figures(TENANT, 100, 102).await.unwrap();
    assert_eq!(read, [(100, sum), (101, sum)]);
}

pub async fn a_node_that_tells_again_counts_nothing_twice(harness: &impl Harness) {
    let world = World::new(harness).await;
    for accepted in [1, 2, 2] {
        let told = vec![of(TENANT, 100, counted(accepted, 1))];
        world.store.keep_figures(1, told).await.unwrap();
    }
    assert_eq!(world.store.figures(TENANT, 0, 200).await.unwrap(), [(100, counted(2, 1))]);
}

pub async fn a_sample_takes_the_place_of_the_one_before(harness: &impl Harness) {
    let world = World::new(harness).await;
    for count in [5, 4] {
        let told = vec![of(TENANT, 100, waiting(count)), of(TENANT, 101, waiting(1))];
        world.node(count as usize).keep_samples(told).await.unwrap();
    }
    let read = world.other.samples(TENANT, 100, 102).await.unwrap();
    assert_eq!(read, [(100, waiting(4)), (101, waiting(1))]);
    let theirs = world.tenant("theirs").await;
    world.store.keep_samples(vec![of(theirs, 101, waiting(1))]).await.unwrap();
    assert_eq!(world.other.latest_samples(90).await.unwrap(), [waiting(1), waiting(1)]);
    assert_eq!(world.other.latest_samples(102).await.unwrap(), []);
}

pub async fn figures_of_other_tenants_and_times_are_left_out(harness: &impl Harness) {
    let world = World::new(harness).await;
    let theirs = world.tenant("theirs").await;
    let figures = (98..103).map(|minute| of(TENANT, minute, counted(1, 1)));
    let others = [of(theirs, 100, counted(50, 1))];
    world.store.keep_figures(1, figures.chain(others).collect()).await.unwrap();
    let samples = (98..103).map(|minute| of(TENANT, minute, waiting(1)));
    let others = [of(theirs, 100, waiting(50))];
    world.store.keep_samples(samples.chain(others).collect()).await.unwrap();
    let minutes: Vec<i64> =
        world.store.figures(TENANT, 99, 101).await.unwrap().iter().map(|(at, _)| *at).collect();
    assert_eq!(minutes, [99, 100]);
    let read = world.store.samples(TENANT, 99, 101).await.unwrap();
    assert_eq!(read, [(99, waiting(1)), (100, waiting(1))]);
}

pub async fn tenants_with_something_to_look_at_are_found(harness: &impl Harness) {
    let world = World::new(harness).await;
    let mut tenants = Vec::new();
    for slug in ["idle", "works", "dead", "counted", "long-ago"] {
        tenants.push(world.tenant(slug).await);
    }
    let [_, works, dead, lately, long_ago] = tenants[..] else { unreachable!("five were made") };
    world.accepted_many(&world.inbox_of(works).await, 3).await;
    world.ended(&world.inbox_of(dead).await, given_up()).await;
    world.ended(&world.inbox_of(tenants[0]).await, Ending::Succeeded).await;
    let told = vec![of(lately, 100, counted(1, 1)), of(long_ago, 99, counted(1, 1))];
    world.store.keep_figures(1, told).await.unwrap();
    // Those that could not be told apart are nobody.
    world.store.keep_figures(1, vec![of(TenantId(0), 100, counted(1, 1))]).await.unwrap();
    let mut expected = vec![works, dead, lately];
    expected.sort();
    assert_eq!(world.other.busy_tenants(100, None, 10).await.unwrap(), expected);
    let mut paged = Vec::new();
    loop {
        let page = world.store.busy_tenants(100, paged.last().copied(), 2).await.unwrap();
        paged.extend(&page);
        if page.len() < 2 {
            break;
        }
    }
    assert_eq!(paged, expected, "page by page");
    assert_eq!(world.store.busy_tenants(100, expected.last().copied(), 2).await.unwrap(), []);
}

pub async fn dead_letters_and_open_circuits_are_counted(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    assert_eq!(world.store.standing(TENANT, 10).await.unwrap(), Standing::default());
    for _ in 0..3 {
        world.ended(&inbox, given_up()).await;
    }
    let theirs = world.inbox_of(world.tenant("theirs").await).await;
    world.ended(&theirs, given_up()).await;
    let (_, mut record) = world.subscriber().await;
    world.subscriber().await;
    let (settings, now) = (record.config.circuit, world.now().await);
    for _ in 0..5 {
        let failed = wakepost_domain::circuit::Outcome { started_at: now, ok: false, ok_before: 0 };
        record.circuit.note(&settings, failed, now);
    }
    world.store.update_webhook(record, None).await.unwrap();
    let standing = Standing { dead_letters: 3, open_circuits: 1 };
    assert_eq!(world.other.standing(TENANT, 10).await.unwrap(), standing);
    assert_eq!(world.store.standing(TENANT, 2).await.unwrap().dead_letters, 2, "up to a bound");
}

pub async fn one_node_has_the_turn(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (ours, theirs) =
        tokio::join!(world.store.take_turn("look", HOLD), world.other.take_turn("look", HOLD));
    assert_eq!([ours.unwrap(), theirs.unwrap()].into_iter().filter(|taken| *taken).count(), 1);
    assert!(world.store.take_turn("another", HOLD).await.unwrap());
    assert!(!world.other.take_turn("look", HOLD).await.unwrap());
    world.advance(HOLD).await;
    assert!(world.other.take_turn("look", HOLD).await.unwrap());
}

pub async fn old_minutes_go_and_young_ones_stay(harness: &impl Harness) {
    let world = World::new(harness).await;
    let figures = (0..1200).map(|minute| of(TENANT, minute, counted(1, 1))).collect();
    world.store.keep_figures(1, figures).await.unwrap();
    let samples = (0..1200).map(|minute| of(TENANT, minute, waiting(1))).collect();
    world.store.keep_samples(samples).await.unwrap();
    let never = Timestamp::default();
    let before = crate::moves::PruneBefore { figures: begins(1100), ..all_before(never) };
    assert_eq!(world.prune(before).await, 2200);
    let left = world.store.figures(TENANT, 0, 2000).await.unwrap();
    assert_eq!((left.len(), left[0].0), (100, 1100));
    assert_eq!(world.store.samples(TENANT, 0, 2000).await.unwrap().len(), 100);
}
