//! Leases: kept alive by heartbeats, bounded by the run, and worth nothing once lost.

use std::time::Duration;

use wakepost_domain::TenantId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::HeldReason;

use super::Harness;
use super::drafts::{LEASE_S, RUN_S, begin, end};
use super::world::{World, assert_lost, assert_near, failed, given_up, sealed};
use crate::error::Result;
use crate::moves::{Guard, Heartbeat, HeartbeatAnswer, Progress, Settle};

fn beat(ticket: &Ticket, seconds: u64) -> Heartbeat {
    Heartbeat { ticket: *ticket, extend: Duration::from_secs(seconds), cost: None }
}

impl<H: Harness> World<'_, H> {
    async fn heartbeat(&self, ticket: &Ticket, seconds: u64) -> Result<HeartbeatAnswer> {
        self.store.heartbeat(vec![beat(ticket, seconds)]).await.remove(0)
    }

    /// Lets a lease run out and ends it as the rescuer does.
    pub async fn rescue(&self, ticket: &Ticket) {
        self.advance_s(LEASE_S + 1).await;
        let seen = self.row(ticket.tenant, ticket.work).await.lease_expires_at.unwrap();
        let rescue = Settle { guard: Guard::ExpiredAt(seen), ..end(ticket, Ending::Expired) };
        self.settle(rescue).await.unwrap();
    }
}

pub async fn a_heartbeat_extends_the_lease(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    for _ in 0..5 {
        world.advance_s(LEASE_S - 20).await;
        let answer = world.heartbeat(&claimed.ticket, LEASE_S).await.unwrap();
        let now = world.now().await;
        assert_near(answer.lease_expires_at, now.after(Duration::from_secs(LEASE_S)));
        assert!(!answer.cancel_requested);
        let row = world.row(inbox.tenant, claimed.ticket.work).await;
        assert_eq!(row.lease_expires_at, Some(answer.lease_expires_at));
    }
    world.finish(&claimed.ticket, Ending::Succeeded).await;
}

pub async fn a_heartbeat_never_passes_the_end_of_the_run(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    let deadline = claimed.ticket.started_at.after(Duration::from_secs(RUN_S));
    let answer = world.heartbeat(&claimed.ticket, 10 * RUN_S).await.unwrap();
    assert_eq!(answer.lease_expires_at, deadline);
    world.advance_s(RUN_S - 100).await;
    let answer = world.heartbeat(&claimed.ticket, 500).await.unwrap();
    assert_eq!(answer.lease_expires_at, deadline);
    world.advance_s(101).await;
    assert_lost(world.heartbeat(&claimed.ticket, 500).await);
}

pub async fn a_heartbeat_never_shortens_a_lease(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    let answer = world.heartbeat(&claimed.ticket, 1).await.unwrap();
    assert_eq!(answer.lease_expires_at, claimed.lease_expires_at);
}

pub async fn a_heartbeat_cannot_revive_an_expired_lease(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    world.advance_s(LEASE_S).await;
    let before = world.picture(inbox.tenant, claimed.ticket.work).await;
    assert_lost(world.heartbeat(&claimed.ticket, LEASE_S).await);
    assert_eq!(world.picture(inbox.tenant, claimed.ticket.work).await, before);
}

pub async fn a_heartbeat_learns_that_a_stop_was_asked_for(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    assert!(!world.heartbeat(&claimed.ticket, LEASE_S).await.unwrap().cancel_requested);
    let audit = world.audit(inbox.tenant, "job.cancel");
    world.other.cancel(inbox.tenant, claimed.ticket.work, audit).await.unwrap();
    assert!(world.heartbeat(&claimed.ticket, LEASE_S).await.unwrap().cancel_requested);
}

pub async fn a_heartbeat_keeps_what_the_run_cost(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    for cost in [Some(0.25), Some(1.5), None] {
        let beat = Heartbeat { cost, ..beat(&claimed.ticket, LEASE_S) };
        world.store.heartbeat(vec![beat]).await.remove(0).unwrap();
    }
    assert_eq!(world.kept(claimed.ticket.work).await.cost, Some(1.5));
}

pub async fn heartbeats_are_answered_one_by_one(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (a, b) = (world.running(&inbox).await.ticket, world.running(&inbox).await.ticket);
    let stale = Ticket { fence: a.fence + 1, ..a };
    let foreign = Ticket { tenant: TenantId(77), ..b };
    let batch = [&a, &stale, &b, &foreign].map(|ticket| beat(ticket, LEASE_S)).into();
    let answers = world.store.heartbeat(batch).await;
    let live: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(live, [true, false, true, false]);
    assert!(world.store.heartbeat(vec![]).await.is_empty());
}

/// Every call a worker can make, none of which may work or change anything.
async fn assert_every_call_is_lost<H: Harness>(world: &World<'_, H>, ticket: &Ticket) {
    let owner = TenantId::DEFAULT;
    let before = world.picture(owner, ticket.work).await;
    for node in [&world.store, &world.other] {
        let beat = Heartbeat { cost: Some(9.0), ..beat(ticket, LEASE_S) };
        assert_lost(node.heartbeat(vec![beat]).await.remove(0));
        assert_lost(node.checkpoint(*ticket, sealed("zombie")).await);
        let progress = Progress { ticket: *ticket, content: sealed("zombie") };
        assert_lost(node.progress(progress).await);
        assert_lost(node.begin(begin(ticket, "fresh")).await);
        assert_lost(node.begin(begin(ticket, "mail")).await);
        assert_lost(node.commit(*ticket, "mail".to_owned(), Some(sealed("zombie"))).await);
        assert_lost(node.abort(*ticket, "mail".to_owned(), "zombie".to_owned()).await);
        let endings = [
            Ending::Succeeded,
            failed(),
            given_up(),
            Ending::HandedBack,
            Ending::Held(HeldReason::Budget),
            Ending::Cancelled,
        ];
        for ending in endings {
            assert_lost(node.settle(vec![end(ticket, ending)]).await.remove(0));
        }
    }
    assert_eq!(world.picture(owner, ticket.work).await, before);
}

/// A run that checkpointed, said something, and began an effect.
async fn busy_run<H: Harness>(world: &World<'_, H>) -> Ticket {
    let inbox = world.inbox().await;
    let ticket = world.running(&inbox).await.ticket;
    world.store.checkpoint(ticket, sealed("page 3")).await.unwrap();
    let progress = Progress { ticket, content: sealed("reading") };
    world.store.progress(progress).await.unwrap();
    world.store.begin(begin(&ticket, "mail")).await.unwrap();
    ticket
}

pub async fn an_expired_lease_is_worth_nothing(harness: &impl Harness) {
    let world = World::new(harness).await;
    let ticket = busy_run(&world).await;
    world.advance_s(LEASE_S).await;
    assert_every_call_is_lost(&world, &ticket).await;
}

pub async fn a_rescued_lease_is_worth_nothing(harness: &impl Harness) {
    let world = World::new(harness).await;
    let ticket = busy_run(&world).await;
    world.rescue(&ticket).await;
    assert_every_call_is_lost(&world, &ticket).await;
}

pub async fn a_lease_is_worth_nothing_after_the_next_claim(harness: &impl Harness) {
    let world = World::new(harness).await;
    let ticket = busy_run(&world).await;
    world.rescue(&ticket).await;
    let row = world.row(ticket.tenant, ticket.work).await;
    let inbox = super::drafts::Inbox { lane: row.lane, ..world.inbox().await };
    let next = world.claim(&inbox).one().await.ticket;
    assert_eq!((next.work, next.fence), (ticket.work, ticket.fence + 1));
    assert_every_call_is_lost(&world, &ticket).await;
    world.finish(&next, Ending::Succeeded).await;
    assert_every_call_is_lost(&world, &ticket).await;
}

pub async fn a_token_of_another_claim_or_tenant_is_worth_nothing(harness: &impl Harness) {
    let world = World::new(harness).await;
    let stranger = world.tenant("stranger").await;
    let ticket = busy_run(&world).await;
    for fence in [0, ticket.fence + 1, -1] {
        assert_every_call_is_lost(&world, &Ticket { fence, ..ticket }).await;
    }
    assert_every_call_is_lost(&world, &Ticket { tenant: stranger, ..ticket }).await;
    world.finish(&ticket, Ending::Succeeded).await;
}

pub async fn a_checkpoint_is_handed_to_the_next_run(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let work = world.created(world.job(&inbox).with_input("question")).await;
    let first = world.claim(&inbox).one().await.ticket;
    for state in ["page 1", "page 2"] {
        world.store.checkpoint(first, sealed(state)).await.unwrap();
    }
    world.finish(&first, failed()).await;
    let second = world.claim(&inbox).on(world.other.clone()).one().await.ticket;
    let kept = world.kept(second.work).await;
    assert_eq!(kept.checkpoint, Some(sealed("page 2")));
    assert_eq!(kept.input, Some(sealed("question")), "it replaced nothing else");
    world.store.checkpoint(second, sealed("page 9")).await.unwrap();
    assert_eq!(world.kept(work).await.checkpoint, Some(sealed("page 9")));
}

pub async fn a_checkpoint_is_replaced_whole(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.running(&inbox).await.ticket;
    let states = ["a", "b", "c"].map(|letter| sealed(&letter.repeat(300_000)));
    let mut writers = Vec::new();
    for turn in 0..9 {
        let (node, state) = (world.node(turn), states[turn % 3].clone());
        writers.push(tokio::spawn(async move { node.checkpoint(ticket, state).await.unwrap() }));
    }
    for writer in writers {
        writer.await.unwrap();
        let kept = world.kept(ticket.work).await.checkpoint.unwrap();
        assert!(states.contains(&kept), "two states were mixed");
    }
}
