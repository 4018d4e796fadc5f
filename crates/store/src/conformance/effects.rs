//! Effects: what was committed never happens again, and only the run that began an effect resolves it.

use wakepost_domain::effect::{EffectState, OnDoubt, Runner};
use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::State;
use wakepost_domain::{TenantId, Ulid};

use super::Harness;
use super::drafts::{Inbox, LEASE_S, begin};
use super::world::{World, assert_invalid, assert_near, assert_not_found, failed, sealed};
use crate::error::{Result, StoreError};
use crate::moves::{Begin, BeginOutcome, EffectRow};
use crate::vault::Sealed;

impl<H: Harness> World<'_, H> {
    pub async fn begin(&self, ticket: &Ticket, key: &str) -> BeginOutcome {
        self.store.begin(begin(ticket, key)).await.unwrap()
    }

    pub async fn commit(&self, ticket: &Ticket, key: &str, result: &str) -> Result<()> {
        self.store.commit(*ticket, key.to_owned(), Some(sealed(result))).await
    }

    pub async fn abort(&self, ticket: &Ticket, key: &str) -> Result<()> {
        self.store.abort(*ticket, key.to_owned(), "the door was shut".to_owned()).await
    }

    pub async fn effect(&self, tenant: TenantId, scope: Ulid, key: &str) -> EffectRow {
        let effects = self.store.effects(tenant, scope).await.unwrap();
        effects.into_iter().find(|row| row.key == key).expect("the effect is there")
    }

    /// Ends the run as failed and claims the item again.
    pub async fn next_run(&self, inbox: &Inbox, ticket: &Ticket) -> Ticket {
        self.finish(ticket, failed()).await;
        let next = self.claim(inbox).one().await.ticket;
        assert_eq!((next.work, next.fence), (ticket.work, ticket.fence + 1));
        next
    }
}

pub fn execute(scope: Ulid) -> BeginOutcome {
    BeginOutcome::Execute { scope }
}

pub fn skip(scope: Ulid, result: &str) -> BeginOutcome {
    let result: Option<Sealed> = Some(sealed(result));
    BeginOutcome::Skip { scope, result }
}

pub async fn a_new_effect_may_go_ahead(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    let (ticket, scope) = (claimed.ticket, claimed.scope);
    assert_eq!(world.begin(&ticket, "mail").await, execute(scope));
    let row = world.effect(inbox.tenant, scope, "mail").await;
    assert_near(row.begun_at, world.now().await);
    let expected = EffectRow {
        key: "mail".to_owned(),
        state: EffectState::Begun,
        runner: Runner { work: ticket.work, fence: 1 },
        alive: true,
        begun_nth: 1,
        resolved_nth: None,
        description: Some("would do mail".to_owned()),
        result: None,
        error: None,
        begun_at: row.begun_at,
        resolved_at: None,
        approval: None,
    };
    assert_eq!(row, expected);
}

pub async fn asking_again_in_the_same_run_gets_the_same_answer(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    for _ in 0..3 {
        assert_eq!(world.begin(&claimed.ticket, "mail").await, execute(claimed.scope));
    }
    assert_eq!(world.store.effects(inbox.tenant, claimed.scope).await.unwrap().len(), 1);
}

pub async fn asking_many_times_at_once_makes_one_effect(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    let mut calls = Vec::new();
    for turn in 0..20 {
        let (node, request) =
            (world.node(turn), begin(&claimed.ticket, &format!("k{}", turn / 10)));
        calls.push(tokio::spawn(async move { node.begin(request).await.unwrap() }));
    }
    for call in calls {
        assert_eq!(call.await.unwrap(), execute(claimed.scope));
    }
    assert_eq!(world.store.effects(inbox.tenant, claimed.scope).await.unwrap().len(), 2);
}

pub async fn a_committed_effect_is_skipped_with_its_result(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    let (mut ticket, scope) = (claimed.ticket, claimed.scope);
    world.begin(&ticket, "mail").await;
    world.commit(&ticket, "mail", "sent as 7").await.unwrap();
    let row = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!(
        (row.state, row.result.clone()),
        (EffectState::Committed, Some(sealed("sent as 7")))
    );
    assert_near(row.resolved_at.unwrap(), world.now().await);
    assert_eq!(world.begin(&ticket, "mail").await, skip(scope, "sent as 7"));
    for on_doubt in [OnDoubt::Hold, OnDoubt::Execute] {
        ticket = world.next_run(&inbox, &ticket).await;
        let again = world.store.begin(Begin { on_doubt, ..begin(&ticket, "mail") }).await;
        assert_eq!(again.unwrap(), skip(scope, "sent as 7"));
    }
    world.rescue(&ticket).await;
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!(world.begin(&ticket, "mail").await, skip(scope, "sent as 7"));
    let after = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!(after, EffectRow { alive: false, ..row }, "skipping changes nothing");
}

pub async fn an_effect_may_be_committed_without_a_result(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    world.begin(&claimed.ticket, "mail").await;
    world.store.commit(claimed.ticket, "mail".to_owned(), None).await.unwrap();
    let again = world.begin(&claimed.ticket, "mail").await;
    assert_eq!(again, BeginOutcome::Skip { scope: claimed.scope, result: None });
}

pub async fn a_commit_told_twice_keeps_the_first_result(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    world.begin(&claimed.ticket, "mail").await;
    world.commit(&claimed.ticket, "mail", "first").await.unwrap();
    let before = world.effect(inbox.tenant, claimed.scope, "mail").await;
    world.advance_s(5).await;
    world.commit(&claimed.ticket, "mail", "second").await.unwrap();
    assert_eq!(world.effect(inbox.tenant, claimed.scope, "mail").await, before);
    assert_eq!(before.result, Some(sealed("first")));
}

pub async fn an_aborted_effect_may_be_tried_again(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    let (ticket, scope) = (claimed.ticket, claimed.scope);
    world.begin(&ticket, "mail").await;
    world.abort(&ticket, "mail").await.unwrap();
    world.abort(&ticket, "mail").await.unwrap();
    let row = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!(
        (row.state, row.error.as_deref()),
        (EffectState::Aborted, Some("the door was shut"))
    );
    assert_eq!(world.begin(&ticket, "mail").await, execute(scope));
    let row = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!((row.state, row.error, row.resolved_at), (EffectState::Begun, None, None));
    world.abort(&ticket, "mail").await.unwrap();
    let ticket = world.next_run(&inbox, &ticket).await;
    assert_eq!(world.begin(&ticket, "mail").await, execute(scope));
    world.commit(&ticket, "mail", "sent").await.unwrap();
    let row = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!((row.state, row.runner.fence), (EffectState::Committed, 2));
}

pub async fn a_resolved_effect_is_not_resolved_otherwise(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    let ticket = claimed.ticket;
    for key in ["done", "undone"] {
        world.begin(&ticket, key).await;
    }
    world.commit(&ticket, "done", "sent").await.unwrap();
    world.abort(&ticket, "undone").await.unwrap();
    let before = world.picture(inbox.tenant, ticket.work).await;
    assert_invalid(world.abort(&ticket, "done").await);
    assert_invalid(world.commit(&ticket, "undone", "sent").await);
    assert_eq!(world.picture(inbox.tenant, ticket.work).await, before);
}

pub async fn an_effect_that_was_never_begun_cannot_be_resolved(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    assert_not_found(world.commit(&claimed.ticket, "mail", "sent").await);
    assert_not_found(world.abort(&claimed.ticket, "mail").await);
    assert!(world.store.effects(inbox.tenant, claimed.scope).await.unwrap().is_empty());
}

pub async fn a_run_cannot_resolve_what_an_earlier_run_began(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    world.begin(&claimed.ticket, "begun").await;
    world.begin(&claimed.ticket, "done").await;
    world.commit(&claimed.ticket, "done", "sent").await.unwrap();
    let ticket = world.next_run(&inbox, &claimed.ticket).await;
    let before = world.picture(inbox.tenant, ticket.work).await;
    for key in ["begun", "done"] {
        assert_invalid(world.commit(&ticket, key, "mine").await);
        assert_invalid(world.abort(&ticket, key).await);
    }
    assert_eq!(world.picture(inbox.tenant, ticket.work).await, before);
}

pub async fn a_job_asked_to_stop_begins_nothing_but_may_say_what_happened(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    let ticket = claimed.ticket;
    world.begin(&ticket, "mail").await;
    world.begin(&ticket, "call").await;
    let audit = world.audit(inbox.tenant, "job.cancel");
    world.store.cancel(inbox.tenant, ticket.work, audit).await.unwrap();
    for key in ["fresh", "mail"] {
        let refused = world.store.begin(begin(&ticket, key)).await;
        assert!(matches!(refused, Err(StoreError::CancelRequested)), "{refused:?}");
    }
    world.commit(&ticket, "mail", "sent").await.unwrap();
    world.abort(&ticket, "call").await.unwrap();
    let effects = world.store.effects(inbox.tenant, claimed.scope).await.unwrap();
    assert_eq!(effects.len(), 2);
    assert_eq!(world.state(inbox.tenant, ticket.work).await, State::Running);
}

pub async fn effects_are_listed_in_the_order_they_were_begun(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    for key in ["c", "a", "b"] {
        world.begin(&claimed.ticket, key).await;
        world.advance_s(1).await;
    }
    world.commit(&claimed.ticket, "a", "done").await.unwrap();
    let effects = world.store.effects(inbox.tenant, claimed.scope).await.unwrap();
    let keys: Vec<&str> = effects.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(keys, ["c", "a", "b"]);
}

pub async fn an_effect_is_alive_as_long_as_its_run(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    world.begin(&claimed.ticket, "mail").await;
    assert!(world.effect(inbox.tenant, claimed.scope, "mail").await.alive);
    world.advance_s(LEASE_S + 1).await;
    assert!(!world.effect(inbox.tenant, claimed.scope, "mail").await.alive);
    let again = world.running(&inbox).await;
    world.begin(&again.ticket, "mail").await;
    world.finish(&again.ticket, Ending::Succeeded).await;
    assert!(!world.effect(inbox.tenant, again.scope, "mail").await.alive);
}

pub async fn the_same_effect_of_two_jobs_is_two_effects(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let theirs = world.inbox_of(world.tenant("theirs").await).await;
    for place in [&inbox, &inbox, &theirs] {
        let claimed = world.running(place).await;
        assert_eq!(world.begin(&claimed.ticket, "mail").await, execute(claimed.scope));
        world.commit(&claimed.ticket, "mail", "sent").await.unwrap();
    }
}

pub async fn another_tenant_sees_no_effects(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let stranger = world.tenant("stranger").await;
    let claimed = world.running(&inbox).await;
    world.begin(&claimed.ticket, "mail").await;
    assert!(world.store.effects(stranger, claimed.scope).await.unwrap().is_empty());
}
