//! Keeping less: a tenant's history goes by ages of its own, nobody else's does, and nothing that a promise still needs.

use std::time::Duration;

use wakepost_domain::retention::Ages;
use wakepost_domain::tenant::TenantSettings;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::State;
use wakepost_domain::{EventId, TenantId, Timestamp, Ulid, WorkId};

use super::Harness;
use super::drafts::Inbox;
use super::pruning::eventful;
use super::world::{ALL, World, given_up, sealed};
use crate::moves::{Accepted, CheckScope, NewEvent, OWN_STEP, OwnWalk, SharedBody};

const DAY: Duration = Duration::from_secs(24 * 3600);

impl<H: Harness> World<'_, H> {
    /// Walks to the end; answers how many rows went.
    async fn walk(&self, walk: OwnWalk) -> u64 {
        let (mut rows, mut after) = (0, Ulid::MIN);
        for _ in 0..200 {
            let walked = self.store.prune_own(walk.clone(), after).await.unwrap();
            rows += walked.rows;
            match walked.next {
                Some(next) => after = next,
                None => return rows,
            }
        }
        panic!("the walk does not end");
    }

    /// All bodies of a tenant go that nothing needs, and nothing else does.
    pub async fn forget_bodies(&self, tenant: TenantId) {
        self.advance_s(1).await;
        self.walk(OwnWalk::Bodies(tenant, self.now().await)).await;
    }

    /// Every kind of a tenant's history from before a moment goes.
    async fn keep_since(&self, tenant: TenantId, before: Timestamp) -> u64 {
        let mut rows = 0;
        for walk in walks(tenant, before) {
            rows += self.walk(walk).await;
        }
        rows
    }

    async fn acme(&self) -> Inbox {
        self.inbox_of(self.tenant("acme").await).await
    }
}

/// Dead letters first: they keep their events.
fn walks(tenant: TenantId, before: Timestamp) -> [OwnWalk; 5] {
    [
        OwnWalk::DeadLetters(tenant, before),
        OwnWalk::Runs(tenant, before),
        OwnWalk::Bodies(tenant, before),
        OwnWalk::Events(tenant, before),
        OwnWalk::Receipts([(tenant, before)].into()),
    ]
}

pub async fn what_a_tenant_keeps_for_less_long_goes_and_no_one_elses(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (ours, theirs) = (world.acme().await, world.inbox().await);
    let old = eventful(&world, &ours, "old").await;
    let same_age = eventful(&world, &theirs, "old").await;
    world.advance(2 * DAY).await;
    let young = eventful(&world, &ours, "young").await;
    let before = (
        world.picture(theirs.tenant, same_age).await,
        world.picture(ours.tenant, young).await,
        world.stored(ours.tenant, EventId(young.0)).await,
    );
    assert_eq!(world.keep_since(ours.tenant, world.now().await.before(DAY)).await, 8);
    let event = EventId(old.0);
    assert_eq!(world.store.event(ours.tenant, event).await.unwrap(), None);
    assert!(!world.has_body(event).await);
    assert_eq!(world.store.work(ours.tenant, old).await.unwrap(), None);
    assert!(world.store.runs(ours.tenant, old).await.unwrap().is_empty());
    assert!(world.store.effects(ours.tenant, old.0).await.unwrap().is_empty());
    assert!(world.store.progress_after(ours.tenant, old, 0).await.unwrap().is_empty());
    assert!(world.store.job_states(vec![old]).await.unwrap().is_empty());
    let kept = world.store.source_receipts(ours.tenant, ours.source, ALL).await.unwrap();
    assert_eq!(kept.len(), 2, "the young event's repeat, and one rejection");
    let after = (
        world.picture(theirs.tenant, same_age).await,
        world.picture(ours.tenant, young).await,
        world.stored(ours.tenant, EventId(young.0)).await,
    );
    assert_eq!(after, before);
    for work in [same_age, young] {
        assert!(world.has_body(EventId(work.0)).await);
    }
    let kept = world.store.source_receipts(theirs.tenant, theirs.source, ALL).await.unwrap();
    assert_eq!(kept.len(), 2);
    assert_eq!(world.keep_since(ours.tenant, world.now().await.before(DAY)).await, 0);
}

pub async fn a_repeat_of_what_went_early_is_still_a_repeat(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.acme().await;
    let until = world.now().await.after(10 * DAY);
    let new = |key: &str| world.event(&inbox).with_key(key).blocking_until(until).build();
    let first = new("once");
    let of = first.event.id;
    world.accept(first).await;
    world.run_to(&inbox, Ending::Succeeded).await;
    world.advance(2 * DAY).await;
    world.keep_since(inbox.tenant, world.now().await.before(DAY)).await;
    assert_eq!(world.store.event(inbox.tenant, of).await.unwrap(), None);
    // The server's own retention, which removes keys, leaves it as well.
    world.prune(super::pruning::all_before(world.now().await.before(30 * DAY))).await;
    let job = Some(WorkId::first_of(of));
    assert_eq!(world.accept(new("once")).await, Accepted::Duplicate { of, job });
    assert!(world.claim(&inbox).take().await.is_empty(), "nothing runs twice");
    assert_eq!(world.accept(new("another")).await, Accepted::New);
}

pub async fn each_kind_that_a_tenant_keeps_has_its_own_age(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.acme().await;
    let tenant = inbox.tenant;
    let work = eventful(&world, &inbox, "a").await;
    let dead = world.ended(&inbox, given_up()).await;
    let event = EventId(work.0);
    world.advance(2 * DAY).await;
    let cut = world.now().await.before(DAY);
    let picture = world.picture(tenant, work).await;
    assert_eq!(world.walk(OwnWalk::Bodies(tenant, cut)).await, 1);
    assert!(!world.has_body(event).await);
    assert!(world.has_body(EventId(dead.0)).await, "a dead letter can be replayed");
    assert_eq!(world.picture(tenant, work).await, picture);
    assert_eq!(world.store.receipts(tenant, event).await.unwrap().len(), 1);
    assert_eq!(world.walk(OwnWalk::Receipts([(tenant, cut)].into())).await, 2);
    assert!(world.store.receipts(tenant, event).await.unwrap().is_empty());
    world.walk(OwnWalk::Runs(tenant, cut)).await;
    assert_eq!(world.store.work(tenant, work).await.unwrap(), None);
    assert_eq!(world.state(tenant, dead).await, State::DeadLetter);
    world.stored(tenant, event).await;
    assert_eq!(world.walk(OwnWalk::Events(tenant, cut)).await, 1);
    assert_eq!(world.store.event(tenant, event).await.unwrap(), None);
    world.stored(tenant, EventId(dead.0)).await;
    assert!(world.walk(OwnWalk::DeadLetters(tenant, cut)).await > 0);
    assert_eq!(world.store.work(tenant, dead).await.unwrap(), None);
    assert!(world.store.runs(tenant, dead).await.unwrap().is_empty());
    // An event takes its body with it: nobody would find that any more.
    assert_eq!(world.walk(OwnWalk::Events(tenant, cut)).await, 2);
    assert!(!world.has_body(EventId(dead.0)).await);
}

pub async fn what_is_needed_stays_however_little_its_tenant_keeps(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.acme().await;
    let tenant = inbox.tenant;
    let dead = world.ended(&inbox, given_up()).await;
    let body = EventId(world.id());
    let part = |index: u16| world.event(&inbox).part_of(body, index);
    let parts = vec![part(0).ignored().build(), part(1).build()];
    let (ignored, shared) = (parts[0].event.id, parts[1].event.id);
    let content = SharedBody { id: body, tenant, content: sealed("[1,2]") };
    world.store.accept_together(content, parts).await.unwrap();
    let held = world.claim(&inbox).one().await.ticket;
    world.begin(&held, "mail").await;
    world.commit(&held, "mail", "sent").await.unwrap();
    world.finish(&held, Ending::Succeeded).await;
    let again = world.replayed(tenant, WorkId::first_of(shared), false).await;
    let live = world.accepted(&inbox).await;
    world.advance(2 * DAY).await;
    let cut = world.now().await.before(DAY);
    for walk in &walks(tenant, cut)[1..] {
        world.walk(walk.clone()).await;
    }
    for event in [EventId(dead.0), shared, EventId(live.0)] {
        world.stored(tenant, event).await;
    }
    for body in [EventId(dead.0), body, EventId(live.0)] {
        assert!(world.has_body(body).await);
    }
    assert_eq!(world.store.event(tenant, ignored).await.unwrap(), None, "nothing needs that one");
    assert_eq!(world.store.work(tenant, held.work).await.unwrap(), None);
    let effects = world.store.effects(tenant, held.work.0).await.unwrap();
    assert_eq!(effects.len(), 1, "the replay must not send it again");
    let claimed = world.claim(&inbox).up_to(2).take().await;
    assert_eq!(claimed.len(), 2);
    for claimed in claimed {
        world.finish(&claimed.ticket, Ending::Succeeded).await;
    }
    // From their end on they are young.
    assert_eq!(world.state(tenant, again).await, State::Succeeded);
    world.keep_since(tenant, cut).await;
    assert_eq!(world.state(tenant, again).await, State::Succeeded);
    assert!(!world.has_body(body).await && !world.has_body(EventId(live.0)).await);
    world.advance(2 * DAY).await;
    world.keep_since(tenant, world.now().await.before(DAY)).await;
    assert_eq!(world.store.work(tenant, again).await.unwrap(), None);
    assert!(world.store.effects(tenant, held.work.0).await.unwrap().is_empty());
}

pub async fn a_walk_goes_on_in_small_steps_and_past_what_stays(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (inbox, theirs) = (world.acme().await, world.inbox().await);
    let pass = async |count: usize| {
        let batch: Vec<NewEvent> =
            (0..count).map(|_| world.event(&inbox).ignored().build()).collect();
        assert!(world.store.accept(batch).await.into_iter().all(|answer| answer.is_ok()));
    };
    pass(OWN_STEP + 3).await;
    let live = world.accepted_many(&inbox, OWN_STEP + 100).await;
    pass(OWN_STEP + 4).await;
    world.accepted_many(&theirs, 3).await;
    world.advance(2 * DAY).await;
    let cut = world.now().await.before(DAY);
    let bodies = OwnWalk::Bodies(inbox.tenant, cut);
    let first = world.store.prune_own(bodies.clone(), Ulid::MIN).await.unwrap();
    assert_eq!(first.rows, OWN_STEP as u64);
    assert!(first.next.is_some());
    assert_eq!(world.walk(bodies.clone()).await, OWN_STEP as u64 + 7);
    assert_eq!(world.walk(bodies).await, 0);
    assert_eq!(world.walk(OwnWalk::Events(inbox.tenant, cut)).await, 2 * OWN_STEP as u64 + 7);
    let left = world.store.events(inbox.tenant, Default::default(), ALL).await.unwrap();
    assert_eq!(left.len(), live.len());
    let left = world.store.events(theirs.tenant, Default::default(), ALL).await.unwrap();
    assert_eq!(left.len(), 3);
}

pub async fn the_checks_know_what_a_tenant_keeps(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.acme().await;
    let (tenant, until) = (inbox.tenant, world.now().await.after(10 * DAY));
    world.accept(world.event(&inbox).with_key("a").blocking_until(until)).await;
    world.run_to(&inbox, Ending::Succeeded).await;
    world.advance(2 * DAY).await;
    let now = world.now().await;
    let epoch = Timestamp::from_millis(0);
    let scope = CheckScope { since: epoch, runs_since: epoch, rows_max: 1000 };
    let mut settings = TenantSettings::default();
    let change = async |seen: &TenantSettings, settings: &TenantSettings| {
        let audit = world.audit(tenant, "tenant.update");
        world.store.update_tenant(tenant, seen.clone(), settings.clone(), audit).await.unwrap();
    };
    world.keep_since(tenant, now.before(DAY)).await;
    let amiss = ["a live dedup key names an event or a job that is there"];
    assert_eq!(world.complaints(scope).await, amiss, "nothing says that it may be gone");
    let seen = settings.clone();
    settings.keep_for(Ages { runs_days: Some(1), events_days: Some(1), ..Ages::default() }, now);
    change(&seen, &settings).await;
    assert!(world.complaints(scope).await.is_empty());
    let seen = settings.clone();
    settings.keep_for(Ages::default(), now);
    change(&seen, &settings).await;
    assert!(world.complaints(scope).await.is_empty(), "what went does not come back");
}

pub async fn work_goes_on_while_a_tenants_history_goes(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.acme().await;
    for turn in 0..20 {
        eventful(&world, &inbox, &format!("old-{turn}")).await;
    }
    world.advance(2 * DAY).await;
    let (tenant, cut) = (inbox.tenant, world.now().await.before(DAY));
    let mut pruners = Vec::new();
    for turn in 0..4 {
        let node = world.node(turn);
        pruners.push(tokio::spawn(async move {
            for walk in walks(tenant, cut) {
                let mut after = Some(Ulid::MIN);
                while let Some(place) = after {
                    after = node.prune_own(walk.clone(), place).await.unwrap().next;
                }
            }
        }));
    }
    let mut works = Vec::new();
    for turn in 0..20 {
        works.push(eventful(&world, &inbox, &format!("new-{turn}")).await);
    }
    for pruner in pruners {
        pruner.await.unwrap();
    }
    for work in works {
        assert_eq!(world.state(tenant, work).await, State::Succeeded);
        assert!(world.has_body(EventId(work.0)).await);
    }
    assert_eq!(world.keep_since(tenant, cut).await, 0);
    let rows = world.store.events(tenant, Default::default(), ALL).await.unwrap();
    assert_eq!(rows.len(), 20);
}
