//! Chains: what led to an item stays with it, and too long a chain waits for a person.

use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State};
use wakepost_domain::{TenantId, WorkId};

use super::Harness;
use super::world::World;
use crate::moves::{Accepted, HOP_LIMIT, Lineage, Replay, ReplayFrom, WorkMeta};

fn led_to(hops: u32, over: bool) -> Lineage {
    Lineage {
        parent_id: Some("job_1".to_owned()),
        hops,
        trace: Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned()),
        over,
    }
}

fn meta(hops: u32, over: bool) -> WorkMeta {
    WorkMeta::default().led_to_by(Some(led_to(hops, over)))
}

impl<H: Harness> World<'_, H> {
    async fn let_go(&self, tenant: TenantId, work: WorkId) {
        let audit = self.audit(tenant, "job.release");
        self.store.release(tenant, work, audit).await.unwrap();
    }
}

pub async fn what_led_to_an_item_comes_with_its_claim(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let work = world.created(world.job(&inbox).with_meta(meta(2, false))).await;
    let claimed = world.claim(&inbox).one().await;
    assert_eq!((claimed.ticket.work, &claimed.meta), (work, &meta(2, false)));
    world.finish(&claimed.ticket, Ending::Succeeded).await;
    assert_eq!(world.row(inbox.tenant, work).await.meta, meta(2, false));
    world.created(world.job(&inbox)).await;
    assert_eq!(world.claim(&inbox).one().await.meta, WorkMeta::default());
}

pub async fn what_led_to_a_received_event_comes_with_its_job(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let new = world.event(&inbox).led_to_by(led_to(1, false)).build();
    let work = WorkId::first_of(new.event.id);
    assert_eq!(world.accept(new.clone()).await, Accepted::New);
    assert_eq!(world.row(inbox.tenant, work).await.meta, meta(1, false));
    assert!(!world.accept(world.event(&inbox).with_key(&new.event.dedup_key)).await.is_new());
    let claimed = world.claim(&inbox).one().await;
    assert_eq!((claimed.ticket.work, claimed.event), (work, Some(new.event.id)));
    assert_eq!(claimed.meta.hops, 1);
}

pub async fn an_item_that_too_many_agents_led_to_is_held_until_somebody_lets_it_go(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let made = world.created(world.job(&inbox).with_meta(meta(11, true))).await;
    let new = world.event(&inbox).led_to_by(led_to(11, true)).build();
    let received = WorkId::first_of(new.event.id);
    assert_eq!(world.accept(new).await, Accepted::New);
    for work in [made, received] {
        let row = world.row(inbox.tenant, work).await;
        assert_eq!((row.state, row.held), (State::Held, Some(HeldReason::HopLimit)));
        assert_eq!(row.meta.flags, [HOP_LIMIT]);
    }
    assert!(world.claim(&inbox).take().await.is_empty());
    for work in [made, received] {
        world.let_go(inbox.tenant, work).await;
        assert_eq!(world.claim(&inbox).one().await.ticket.work, work);
    }
}

pub async fn a_replay_keeps_how_many_agents_led_to_it_and_is_not_held_again(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let old = world.created(world.job(&inbox).with_meta(meta(11, true))).await;
    world.let_go(inbox.tenant, old).await;
    world.run_to(&inbox, Ending::Succeeded).await;
    let replay = Replay {
        tenant: inbox.tenant,
        from: ReplayFrom::Work(old),
        id: WorkId(world.id()),
        fresh_scope: false,
        input: None,
        max_attempts: 3,
        callback_lane: None,
        audit: world.audit(inbox.tenant, "work.replay"),
    };
    let id = replay.id;
    world.store.replay(replay, None).await.unwrap();
    let row = world.row(inbox.tenant, id).await;
    assert_eq!((row.state, row.meta.hops), (State::Pending, 11));
}

pub async fn changes_of_a_scopes_effects_are_numbered_as_they_come(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    let (ticket, scope) = (claimed.ticket, claimed.scope);
    world.begin(&ticket, "b").await;
    world.begin(&ticket, "a").await;
    world.commit(&ticket, "b", "{}").await.unwrap();
    world.abort(&ticket, "a").await.unwrap();
    world.begin(&ticket, "a").await;
    let nth = async |key: &str| {
        let effect = world.effect(inbox.tenant, scope, key).await;
        (effect.begun_nth, effect.resolved_nth)
    };
    assert_eq!(nth("b").await, (1, Some(3)));
    assert_eq!(nth("a").await, (5, None), "the latest begin counts");
}
