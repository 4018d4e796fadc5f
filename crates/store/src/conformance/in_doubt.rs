//! In doubt: an effect that a dead run began is not repeated until somebody says it may be.

use wakepost_domain::effect::{EffectState, OnDoubt};
use wakepost_domain::lease::Ticket;
use wakepost_domain::run::RunOutcome;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State};
use wakepost_domain::{TenantId, Ulid, WorkId};

use super::Harness;
use super::drafts::{Inbox, begin};
use super::effects::{execute, skip};
use super::world::{
    World, assert_invalid, assert_lost, assert_near, assert_not_found, given_up, sealed,
};
use crate::error::{Result, StoreError};
use crate::moves::{AuditFilter, Begin, BeginOutcome, Resolve};

const RESOLVED: &str = "effect.resolve";

/// A job whose first run began these effects and died, in its second run.
async fn second_run<H: Harness>(
    world: &World<'_, H>,
    inbox: &Inbox,
    keys: &[&str],
) -> (Ticket, Ulid) {
    let claimed = world.running(inbox).await;
    for key in keys {
        world.begin(&claimed.ticket, key).await;
    }
    world.rescue(&claimed.ticket).await;
    let next = world.claim(inbox).one().await;
    assert_eq!(next.ticket.work, claimed.ticket.work);
    (next.ticket, next.scope)
}

/// A job that is held because of the effect `mail`.
async fn held_for_mail<H: Harness>(world: &World<'_, H>, inbox: &Inbox) -> (WorkId, Ulid) {
    let (ticket, scope) = second_run(world, inbox, &["mail"]).await;
    assert_eq!(world.begin(&ticket, "mail").await, BeginOutcome::InDoubt { scope });
    (ticket.work, scope)
}

impl<H: Harness> World<'_, H> {
    fn word(&self, tenant: TenantId, work: WorkId, key: &str, committed: bool) -> Resolve {
        let result = committed.then(|| sealed("the customer has it"));
        let audit = self.audit(tenant, RESOLVED);
        Resolve { tenant, work, key: key.to_owned(), committed, result, audit }
    }

    /// An operator's word that it did not happen.
    pub fn not_done(&self, tenant: TenantId, work: WorkId, key: &str) -> Resolve {
        self.word(tenant, work, key, false)
    }

    async fn resolve(&self, tenant: TenantId, work: WorkId, key: &str, yes: bool) -> Result<()> {
        self.store.resolve(self.word(tenant, work, key, yes)).await
    }
}

pub async fn an_effect_begun_by_a_dead_run_holds_the_job(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = second_run(&world, &inbox, &["mail"]).await;
    assert_eq!(world.begin(&ticket, "mail").await, BeginOutcome::InDoubt { scope });
    let row = world.row(inbox.tenant, ticket.work).await;
    assert_eq!((row.state, row.held), (State::Held, Some(HeldReason::InDoubt)));
    assert_eq!((row.attempts, row.fence), (1, 2), "the second attempt is given back");
    assert_eq!(row.lease_expires_at, None);
    assert!(row.last_error.is_some_and(|error| error.contains("mail")));
    let runs = world.store.runs(inbox.tenant, ticket.work).await.unwrap();
    let outcomes: Vec<RunOutcome> = runs.iter().map(|run| run.outcome).collect();
    assert_eq!(outcomes, [RunOutcome::LeaseExpired, RunOutcome::Held]);
    let effect = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!((effect.state, effect.alive), (EffectState::Begun, false));
    assert_eq!(effect.runner.fence, 1, "nobody has begun it anew");
    assert_lost(world.store.begin(begin(&ticket, "mail")).await);
    assert!(world.claim(&inbox).take().await.is_empty());
}

pub async fn a_failed_run_leaves_its_begun_effect_in_doubt(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    world.begin(&claimed.ticket, "mail").await;
    let ticket = world.next_run(&inbox, &claimed.ticket).await;
    let scope = claimed.scope;
    assert_eq!(world.begin(&ticket, "other").await, execute(scope), "only what it asks for");
    assert_eq!(world.begin(&ticket, "mail").await, BeginOutcome::InDoubt { scope });
}

pub async fn an_effect_that_is_safe_to_repeat_is_repeated(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = second_run(&world, &inbox, &["mail"]).await;
    let first = world.effect(inbox.tenant, scope, "mail").await.begun_at;
    let safe = Begin { on_doubt: OnDoubt::Execute, ..begin(&ticket, "mail") };
    assert_eq!(world.store.begin(safe).await.unwrap(), execute(scope));
    let effect = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!((effect.state, effect.alive, effect.runner.fence), (EffectState::Begun, true, 2));
    assert_eq!(effect.begun_at, first, "it says when it was begun first");
    world.commit(&ticket, "mail", "sent").await.unwrap();
    assert_eq!(world.begin(&ticket, "mail").await, skip(scope, "sent"));
}

pub async fn an_operator_says_that_it_happened(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (work, scope) = held_for_mail(&world, &inbox).await;
    world.resolve(inbox.tenant, work, "mail", true).await.unwrap();
    let row = world.row(inbox.tenant, work).await;
    assert_eq!((row.state, row.held), (State::Pending, None));
    assert_near(row.run_at, world.now().await);
    let effect = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!(effect.state, EffectState::Committed);
    assert_near(effect.resolved_at.unwrap(), world.now().await);
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!((ticket.attempt, ticket.fence), (2, 3));
    assert_eq!(world.begin(&ticket, "mail").await, skip(scope, "the customer has it"));
}

pub async fn an_operator_says_that_it_did_not_happen(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (work, scope) = held_for_mail(&world, &inbox).await;
    world.resolve(inbox.tenant, work, "mail", false).await.unwrap();
    assert_eq!(world.state(inbox.tenant, work).await, State::Pending);
    let effect = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!(effect.state, EffectState::Aborted);
    assert!(effect.error.is_some());
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!(world.begin(&ticket, "mail").await, execute(scope));
}

pub async fn a_word_about_the_old_job_frees_its_replay(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    world.begin(&claimed.ticket, "mail").await;
    world.finish(&claimed.ticket, given_up()).await;
    let old = claimed.ticket.work;
    let new = world.replayed(inbox.tenant, old, false).await;
    let ticket = world.claim(&inbox).one().await.ticket;
    let scope = claimed.scope;
    assert_eq!(world.begin(&ticket, "mail").await, BeginOutcome::InDoubt { scope });
    world.resolve(inbox.tenant, old, "mail", true).await.unwrap();
    assert_eq!(world.state(inbox.tenant, new).await, State::Pending);
}

pub async fn an_operators_word_is_in_the_audit_trail(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (work, _) = held_for_mail(&world, &inbox).await;
    let word = world.word(inbox.tenant, work, "mail", true);
    world.store.resolve(word.clone()).await.unwrap();
    let trail = world.store.audit(AuditFilter::of(inbox.tenant), super::world::ALL).await.unwrap();
    assert_eq!(trail, [word.audit]);
}

pub async fn a_job_goes_on_only_when_nothing_is_in_doubt(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, _) = second_run(&world, &inbox, &["mail", "call"]).await;
    world.begin(&ticket, "mail").await;
    world.resolve(inbox.tenant, ticket.work, "mail", true).await.unwrap();
    let row = world.row(inbox.tenant, ticket.work).await;
    assert_eq!((row.state, row.held), (State::Held, Some(HeldReason::InDoubt)));
    world.resolve(inbox.tenant, ticket.work, "call", false).await.unwrap();
    assert_eq!(world.state(inbox.tenant, ticket.work).await, State::Pending);
    assert_eq!(world.actions(inbox.tenant).await, [RESOLVED, RESOLVED]);
}

pub async fn a_word_on_an_effect_does_not_release_a_job_held_for_else(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, _) = second_run(&world, &inbox, &["mail"]).await;
    world.finish(&ticket, Ending::Held(HeldReason::Budget)).await;
    world.resolve(inbox.tenant, ticket.work, "mail", true).await.unwrap();
    let row = world.row(inbox.tenant, ticket.work).await;
    assert_eq!((row.state, row.held), (State::Held, Some(HeldReason::Budget)));
}

pub async fn only_an_effect_in_doubt_can_be_resolved(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = second_run(&world, &inbox, &["mail"]).await;
    world.begin(&ticket, "alive").await;
    world.begin(&ticket, "done").await;
    world.commit(&ticket, "done", "sent").await.unwrap();
    world.begin(&ticket, "undone").await;
    world.abort(&ticket, "undone").await.unwrap();
    let before = world.store.effects(inbox.tenant, scope).await.unwrap();
    for key in ["alive", "done", "undone"] {
        for committed in [true, false] {
            assert_invalid(world.resolve(inbox.tenant, ticket.work, key, committed).await);
        }
    }
    assert_not_found(world.resolve(inbox.tenant, ticket.work, "unheard of", true).await);
    assert_eq!(world.store.effects(inbox.tenant, scope).await.unwrap(), before);
    assert!(world.actions(inbox.tenant).await.is_empty());
}

pub async fn a_doubt_can_be_resolved_before_the_job_asks(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = second_run(&world, &inbox, &["mail"]).await;
    world.resolve(inbox.tenant, ticket.work, "mail", true).await.unwrap();
    assert_eq!(world.state(inbox.tenant, ticket.work).await, State::Running);
    assert_eq!(world.begin(&ticket, "mail").await, skip(scope, "the customer has it"));
}

pub async fn a_doubt_of_a_finished_job_can_be_resolved(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    world.begin(&claimed.ticket, "mail").await;
    world.finish(&claimed.ticket, given_up()).await;
    world.resolve(inbox.tenant, claimed.ticket.work, "mail", true).await.unwrap();
    assert_eq!(world.state(inbox.tenant, claimed.ticket.work).await, State::DeadLetter);
    let effect = world.effect(inbox.tenant, claimed.scope, "mail").await;
    assert_eq!(effect.state, EffectState::Committed);
}

pub async fn of_many_operators_at_once_one_has_the_word(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (work, scope) = held_for_mail(&world, &inbox).await;
    let mut calls = Vec::new();
    for turn in 0..10 {
        let word = world.word(inbox.tenant, work, "mail", turn % 2 == 0);
        let node = world.node(turn / 2);
        calls.push(tokio::spawn(async move { (turn % 2 == 0, node.resolve(word).await) }));
    }
    let mut words = Vec::new();
    for call in calls {
        match call.await.unwrap() {
            (committed, Ok(())) => words.push(committed),
            (_, Err(StoreError::InvalidState(_))) => {}
            (_, Err(error)) => panic!("{error}"),
        }
    }
    assert_eq!(words.len(), 1);
    let state = world.effect(inbox.tenant, scope, "mail").await.state;
    assert_eq!(state == EffectState::Committed, words[0]);
    assert_eq!(world.actions(inbox.tenant).await.len(), 1);
}

pub async fn another_tenant_has_no_word_on_an_effect(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let stranger = world.tenant("stranger").await;
    let (work, scope) = held_for_mail(&world, &inbox).await;
    assert_not_found(world.resolve(stranger, work, "mail", true).await);
    assert_eq!(world.state(inbox.tenant, work).await, State::Held);
    let effect = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!(effect.state, EffectState::Begun);
    assert!(!world.actions(stranger).await.contains(&RESOLVED.to_owned()));
}

/// A claim that follows a release must ask again: the doubt was not resolved.
pub async fn a_released_job_is_held_again_by_the_same_doubt(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (work, scope) = held_for_mail(&world, &inbox).await;
    let audit = world.audit(inbox.tenant, "job.release");
    world.store.release(inbox.tenant, work, audit).await.unwrap();
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!(world.begin(&ticket, "mail").await, BeginOutcome::InDoubt { scope });
    assert_eq!(world.state(inbox.tenant, work).await, State::Held);
}
