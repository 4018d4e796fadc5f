//! Approving: in draft nothing happens that a person did not agree to, exactly so, for this job, in time.

use std::time::Duration;

use wakepost_domain::Ulid;
use wakepost_domain::effect::{EffectState, OnDoubt};
use wakepost_domain::lease::Ticket;
use wakepost_domain::run::RunOutcome;
use wakepost_domain::work::State;

use super::Harness;
use super::drafts::{Inbox, begin};
use super::effects::{execute, skip};
use super::world::{
    ALL, World, assert_invalid, assert_lost, assert_near, assert_not_found, given_up,
};
use crate::error::{Result, StoreError};
use crate::moves::{
    ApprovalRow, Ask, AuditFilter, Begin, BeginOutcome, Decide, Decided, Draft, Item, Overdue,
    SeenProposal, proposal_hash,
};

const DAY_S: u64 = 24 * 3600;
const MAIL: (&str, &str) = ("mail", "to Ada");
const APPROVED: &str = "effect.approve";
const REJECTED: &str = "effect.reject";

fn item(ticket: &Ticket) -> Item {
    Item { tenant: ticket.tenant, work: ticket.work }
}

#[track_caller]
fn changed<T: std::fmt::Debug>(answer: Result<T>) {
    assert!(matches!(answer, Err(StoreError::ProposalChanged)), "not ProposalChanged: {answer:?}");
}

fn draft(key: &str, description: &str) -> Draft {
    let hash = proposal_hash(key, Some(description));
    Draft { hash, expires: Duration::from_secs(DAY_S) }
}

/// A request to do this, where a person must agree.
fn wish(ticket: &Ticket, key: &str, description: &str) -> Begin {
    let draft = Some(draft(key, description));
    Begin { description: Some(description.to_owned()), draft, ..begin(ticket, key) }
}

fn needs(scope: Ulid) -> BeginOutcome {
    BeginOutcome::NeedsApproval { scope }
}

fn ask(ticket: &Ticket, text: &str) -> Ask {
    Ask { ticket: *ticket, key: "reply".to_owned(), draft: draft("reply", text) }
}

impl<H: Harness> World<'_, H> {
    async fn wish(&self, ticket: &Ticket, key: &str, description: &str) -> BeginOutcome {
        self.store.begin(wish(ticket, key, description)).await.unwrap()
    }

    fn decision(&self, item: Item, seen: &[(&str, &str)], approved: bool) -> Decide {
        let action = if approved { APPROVED } else { REJECTED };
        let seen = seen.iter().map(|(key, description)| SeenProposal {
            key: (*key).to_owned(),
            hash: proposal_hash(key, Some(description)),
        });
        let proposals: Vec<SeenProposal> = seen.collect();
        Decide {
            tenant: item.tenant,
            work: item.work,
            audit: proposals.iter().map(|_| self.audit(item.tenant, action)).collect(),
            proposals,
            approved,
            by: "grace".to_owned(),
            reason: "rejected by grace: not so".to_owned(),
        }
    }

    async fn approve(&self, item: Item, seen: &[(&str, &str)]) -> Result<Decided> {
        self.store.decide(self.decision(item, seen, true)).await
    }

    async fn reject(&self, item: Item, seen: &[(&str, &str)]) -> Result<Decided> {
        self.store.decide(self.decision(item, seen, false)).await
    }

    /// A fresh job that waits because it would send a mail to Ada.
    async fn waiting(&self, inbox: &Inbox) -> (Ticket, Ulid) {
        let claimed = self.running(inbox).await;
        let outcome = self.wish(&claimed.ticket, MAIL.0, MAIL.1).await;
        assert_eq!(outcome, needs(claimed.scope));
        (claimed.ticket, claimed.scope)
    }

    /// A fresh job whose mail to Ada was approved, in its next run.
    async fn approved(&self, inbox: &Inbox) -> (Ticket, Ulid) {
        let (ticket, scope) = self.waiting(inbox).await;
        self.approve(item(&ticket), &[MAIL]).await.unwrap();
        (self.claim(inbox).one().await.ticket, scope)
    }

    async fn overdue(&self) -> Vec<Overdue> {
        self.store.overdue(100).await.unwrap()
    }
}

pub async fn what_is_proposed_ends_the_run_and_waits(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = world.waiting(&inbox).await;
    let row = world.row(inbox.tenant, ticket.work).await;
    assert_eq!((row.state, row.held, row.last_error), (State::AwaitingApproval, None, None));
    assert_eq!((row.attempts, row.fence), (0, 1), "the attempt is given back");
    assert_eq!(row.lease_expires_at, None);
    let runs = world.store.runs(inbox.tenant, ticket.work).await.unwrap();
    assert_eq!(runs[0].outcome, RunOutcome::AwaitingApproval);
    let effect = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!((effect.state, effect.alive), (EffectState::Proposed, false));
    assert_eq!(effect.description.as_deref(), Some("to Ada"));
    let approval = effect.approval.unwrap();
    assert_near(approval.expires_at, world.now().await.after(Duration::from_secs(DAY_S)));
    let hash = proposal_hash("mail", Some("to Ada"));
    assert_eq!(
        approval,
        ApprovalRow { hash, decided_by: None, decided_at: None, ..approval.clone() }
    );
    assert!(world.claim(&inbox).take().await.is_empty());
}

pub async fn the_call_that_proposed_may_be_repeated_and_no_other(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = world.waiting(&inbox).await;
    let before = world.picture(inbox.tenant, ticket.work).await;
    assert_eq!(world.wish(&ticket, "mail", "to Ada").await, needs(scope));
    assert_lost(world.store.begin(wish(&ticket, "mail", "to Grace")).await);
    assert_lost(world.store.begin(wish(&ticket, "call", "to Ada")).await);
    assert_lost(world.store.begin(begin(&ticket, "mail")).await);
    assert_eq!(world.picture(inbox.tenant, ticket.work).await, before);
    world.approve(item(&ticket), &[MAIL]).await.unwrap();
    assert_lost(world.store.begin(wish(&ticket, "mail", "to Ada")).await);
}

pub async fn an_approved_effect_is_executed_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = world.waiting(&inbox).await;
    let decided = world.approve(item(&ticket), &[MAIL]).await.unwrap();
    assert_eq!(decided, Decided::GoesOn(inbox.lane));
    let row = world.row(inbox.tenant, ticket.work).await;
    assert_eq!(row.state, State::Pending);
    assert_near(row.run_at, world.now().await);
    let effect = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!(effect.state, EffectState::Approved);
    let approval = effect.approval.unwrap();
    assert_eq!(approval.decided_by.as_deref(), Some("grace"));
    assert_near(approval.decided_at.unwrap(), world.now().await);

    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!((ticket.attempt, ticket.fence), (1, 2));
    for _ in 0..2 {
        assert_eq!(world.wish(&ticket, "mail", "to Ada").await, execute(scope));
    }
    let effect = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!((effect.state, effect.alive), (EffectState::Begun, true));
    assert_eq!(effect.approval.unwrap().decided_by.as_deref(), Some("grace"), "who said so stays");
    world.commit(&ticket, "mail", "sent").await.unwrap();
    assert_eq!(world.wish(&ticket, "mail", "to Ada").await, skip(scope, "sent"));
    assert_eq!(world.wish(&ticket, "mail", "to Grace").await, skip(scope, "sent"));
}

pub async fn another_proposal_under_an_approved_key_asks_again(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = world.approved(&inbox).await;
    assert_eq!(world.wish(&ticket, "mail", "to Grace").await, needs(scope));
    let effect = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!(effect.state, EffectState::Proposed);
    assert_eq!(effect.description.as_deref(), Some("to Grace"));
    assert_eq!(effect.approval.unwrap().decided_by, None, "nobody agreed to that");
    changed(world.approve(item(&ticket), &[MAIL]).await);
    world.approve(item(&ticket), &[("mail", "to Grace")]).await.unwrap();
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!(world.wish(&ticket, "mail", "to Grace").await, execute(scope));
}

pub async fn an_approval_is_used_up_by_its_execution(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = world.approved(&inbox).await;
    world.wish(&ticket, "mail", "to Ada").await;
    world.abort(&ticket, "mail").await.unwrap();
    assert_eq!(world.wish(&ticket, "mail", "to Ada").await, needs(scope));
    world.approve(item(&ticket), &[MAIL]).await.unwrap();
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!(world.wish(&ticket, "mail", "to Ada").await, execute(scope));
}

pub async fn an_approved_effect_lost_in_a_crash_is_in_doubt(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = world.approved(&inbox).await;
    world.wish(&ticket, "mail", "to Ada").await;
    world.rescue(&ticket).await;
    let ticket = world.claim(&inbox).one().await.ticket;
    let doubt = BeginOutcome::InDoubt { scope };
    assert_eq!(world.wish(&ticket, "mail", "to Ada").await, doubt);
    let not_done = world.not_done(inbox.tenant, ticket.work, "mail");
    world.store.resolve(not_done).await.unwrap();
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!(world.wish(&ticket, "mail", "to Ada").await, needs(scope), "it asks again");
}

pub async fn what_is_safe_to_repeat_is_repeated_only_as_it_was_approved(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = world.approved(&inbox).await;
    world.wish(&ticket, "mail", "to Ada").await;
    world.rescue(&ticket).await;
    let ticket = world.claim(&inbox).one().await.ticket;
    let safe = |ticket: &Ticket, description: &str| Begin {
        on_doubt: OnDoubt::Execute,
        ..wish(ticket, "mail", description)
    };
    assert_eq!(world.store.begin(safe(&ticket, "to Ada")).await.unwrap(), execute(scope));
    world.rescue(&ticket).await;
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!(world.store.begin(safe(&ticket, "to Grace")).await.unwrap(), needs(scope));
}

pub async fn a_stale_lease_cannot_use_an_approval(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (zombie, scope) = world.approved(&inbox).await;
    world.rescue(&zombie).await;
    let before = world.picture(inbox.tenant, zombie.work).await;
    assert_lost(world.store.begin(wish(&zombie, "mail", "to Ada")).await);
    assert_eq!(world.picture(inbox.tenant, zombie.work).await, before);
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_lost(world.store.begin(wish(&zombie, "mail", "to Ada")).await);
    assert_eq!(world.wish(&ticket, "mail", "to Ada").await, execute(scope));
    assert_lost(world.commit(&zombie, "mail", "sent").await);
}

pub async fn a_job_goes_on_only_when_nothing_is_undecided(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, _) = world.approved(&inbox).await;
    // It leaves what was approved, and would do something else first.
    world.wish(&ticket, "call", "Grace").await;
    changed(world.approve(item(&ticket), &[MAIL, ("call", "Grace")]).await);
    assert_eq!(world.state(inbox.tenant, ticket.work).await, State::AwaitingApproval);
    world.approve(item(&ticket), &[("call", "Grace")]).await.unwrap();
    let ticket = world.claim(&inbox).one().await.ticket;
    let scope = ticket.work.0;
    assert_eq!(world.wish(&ticket, "call", "Grace").await, execute(scope));
    assert_eq!(world.wish(&ticket, "mail", "to Ada").await, execute(scope), "both are good");
}

pub async fn a_rejected_job_is_cancelled_and_says_why(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = world.waiting(&inbox).await;
    let decided = world.reject(item(&ticket), &[MAIL]).await.unwrap();
    assert_eq!(decided, Decided::Cancelled { next_in_order: None });
    let row = world.row(inbox.tenant, ticket.work).await;
    assert_eq!(row.state, State::Cancelled);
    assert_eq!(row.last_error.as_deref(), Some("rejected by grace: not so"));
    let effect = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!(effect.state, EffectState::Rejected);
    assert_eq!(effect.approval.unwrap().decided_by.as_deref(), Some("grace"));
    assert_eq!(world.actions(inbox.tenant).await, [REJECTED]);
    assert_invalid(world.approve(item(&ticket), &[MAIL]).await);
}

pub async fn what_waits_for_a_person_blocks_its_order_key(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.created(world.job(&inbox).in_order("a")).await;
    let second = world.created(world.job(&inbox).in_order("a")).await;
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!(ticket.work, first);
    world.wish(&ticket, "mail", "to Ada").await;
    assert!(world.claim(&inbox).take().await.is_empty());
    let decided = world.reject(item(&ticket), &[MAIL]).await.unwrap();
    assert_eq!(decided, Decided::Cancelled { next_in_order: Some(inbox.lane) });
    assert_eq!(world.claim(&inbox).one().await.ticket.work, second);
}

pub async fn only_what_was_seen_is_decided_on(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, _) = world.waiting(&inbox).await;
    let before = world.picture(inbox.tenant, ticket.work).await;
    for seen in [("mail", "to Grace"), ("call", "to Ada")] {
        for seen in [vec![seen], vec![MAIL, seen]] {
            changed(world.approve(item(&ticket), &seen).await);
            changed(world.reject(item(&ticket), &seen).await);
        }
    }
    assert_eq!(world.picture(inbox.tenant, ticket.work).await, before);
    assert!(world.actions(inbox.tenant).await.is_empty());
}

pub async fn only_a_job_that_waits_is_decided_on(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    assert_invalid(world.approve(item(&claimed.ticket), &[MAIL]).await);
    world.finish(&claimed.ticket, given_up()).await;
    assert_invalid(world.reject(item(&claimed.ticket), &[MAIL]).await);
    let (ticket, _) = world.waiting(&inbox).await;
    let stranger = world.tenant("stranger").await;
    let theirs = Item { tenant: stranger, ..item(&ticket) };
    assert_not_found(world.approve(theirs, &[MAIL]).await);
    assert_eq!(world.state(inbox.tenant, ticket.work).await, State::AwaitingApproval);
}

pub async fn of_many_who_decide_at_once_one_has_the_word(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = world.waiting(&inbox).await;
    let mut calls = Vec::new();
    for turn in 0..10 {
        let approved = turn % 2 == 0;
        let (node, word) = (world.node(turn / 2), world.decision(item(&ticket), &[MAIL], approved));
        calls.push(tokio::spawn(async move { (approved, node.decide(word).await) }));
    }
    let mut words = Vec::new();
    for call in calls {
        match call.await.unwrap() {
            (approved, Ok(_)) => words.push(approved),
            (_, Err(StoreError::InvalidState(_))) => {}
            (_, Err(error)) => panic!("{error}"),
        }
    }
    assert_eq!(words.len(), 1);
    let state = world.effect(inbox.tenant, scope, "mail").await.state;
    assert_eq!(state == EffectState::Approved, words[0]);
    let state = world.state(inbox.tenant, ticket.work).await;
    assert_eq!(state == State::Pending, words[0]);
    assert_eq!(world.actions(inbox.tenant).await.len(), 1);
}

pub async fn what_nobody_decides_on_is_cancelled_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = world.waiting(&inbox).await;
    world.advance_s(DAY_S - 60).await;
    assert_eq!(world.overdue().await, []);
    world.advance_s(61).await;
    changed(world.approve(item(&ticket), &[MAIL]).await);
    let overdue = world.overdue().await;
    assert_eq!(overdue.len(), 1);
    assert_eq!((overdue[0].work, overdue[0].key.as_str()), (ticket.work, "mail"));
    let mut calls = Vec::new();
    for turn in 0..6 {
        let (node, seen) = (world.node(turn), overdue[0].clone());
        let audit = world.audit(inbox.tenant, "effect.expire");
        calls.push(tokio::spawn(async move { node.expire(seen, audit).await.unwrap() }));
    }
    let mut ended = 0;
    for call in calls {
        ended += usize::from(call.await.unwrap().is_some());
    }
    assert_eq!(ended, 1);
    let row = world.row(inbox.tenant, ticket.work).await;
    assert_eq!(row.state, State::Cancelled);
    assert!(row.last_error.is_some_and(|error| error.contains("nobody decided in time")));
    let effect = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!(effect.state, EffectState::Rejected);
    assert_eq!(world.actions(inbox.tenant).await, ["effect.expire"]);
    assert_eq!(world.overdue().await, []);
}

pub async fn what_was_decided_in_time_does_not_expire(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, _) = world.waiting(&inbox).await;
    world.advance_s(DAY_S + 1).await;
    let seen = world.overdue().await.remove(0);
    let audit = world.audit(inbox.tenant, "effect.expire");
    // Another proposal of the same job: what was seen is no longer so.
    world.store.expire(seen.clone(), audit.clone()).await.unwrap().expect("it was overdue");
    let again = world.replayed(inbox.tenant, ticket.work, false).await;
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!(ticket.work, again);
    world.wish(&ticket, "mail", "to Ada").await;
    let audit = world.audit(inbox.tenant, "effect.expire");
    assert_eq!(world.store.expire(seen, audit).await.unwrap(), None);
    assert_eq!(world.state(inbox.tenant, again).await, State::AwaitingApproval);
    assert_eq!(world.overdue().await, []);
}

pub async fn an_approval_is_good_for_a_time(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = world.waiting(&inbox).await;
    world.approve(item(&ticket), &[MAIL]).await.unwrap();
    world.advance_s(DAY_S + 1).await;
    assert_eq!(world.overdue().await, [], "it was decided on");
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!(world.wish(&ticket, "mail", "to Ada").await, needs(scope));
}

pub async fn a_proposal_of_a_job_that_was_given_up_is_cleared_away(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = world.waiting(&inbox).await;
    let audit = world.audit(inbox.tenant, "job.cancel");
    world.store.cancel(inbox.tenant, ticket.work, audit).await.unwrap();
    world.advance_s(DAY_S + 1).await;
    let seen = world.overdue().await.remove(0);
    assert_eq!(seen.kind, None);
    let audit = world.audit(inbox.tenant, "effect.expire");
    assert_eq!(world.store.expire(seen, audit).await.unwrap(), None);
    assert_eq!(world.overdue().await, []);
    let effect = world.effect(inbox.tenant, scope, "mail").await;
    assert_eq!(effect.state, EffectState::Rejected);
    assert_eq!(world.actions(inbox.tenant).await, ["job.cancel"]);
}

pub async fn a_replay_asks_for_itself(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, scope) = world.approved(&inbox).await;
    world.finish(&ticket, given_up()).await;
    let again = world.replayed(inbox.tenant, ticket.work, false).await;
    let next = world.claim(&inbox).one().await.ticket;
    assert_eq!(next.work, again);
    assert_eq!(world.wish(&next, "mail", "to Ada").await, needs(scope));
    assert_invalid(world.approve(item(&ticket), &[MAIL]).await);
    world.approve(item(&next), &[MAIL]).await.unwrap();
    let next = world.claim(&inbox).one().await.ticket;
    assert_eq!(world.wish(&next, "mail", "to Ada").await, execute(scope));
}

pub async fn a_source_that_is_switched_protects_what_runs(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    let (ticket, scope) = (claimed.ticket, claimed.scope);
    assert_eq!(world.begin(&ticket, "first").await, execute(scope));
    let again = Begin { draft: Some(draft("first", "x")), ..begin(&ticket, "first") };
    assert_eq!(world.store.begin(again).await.unwrap(), execute(scope), "it was told to go ahead");
    assert_eq!(world.wish(&ticket, "mail", "to Ada").await, needs(scope));
    world.approve(item(&ticket), &[MAIL]).await.unwrap();
    // Switched back, nobody need have agreed, and nobody is said to have.
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!(world.begin(&ticket, "mail").await, execute(scope));
    assert_eq!(world.effect(inbox.tenant, scope, "mail").await.approval, None);
}

pub async fn what_is_asked_for_whole_stays_approved_through_retries(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.running(&inbox).await.ticket;
    assert!(!world.store.ask(ask(&ticket, "Done.")).await.unwrap());
    assert!(!world.store.ask(ask(&ticket, "Done.")).await.unwrap(), "a repeat");
    assert_lost(world.store.ask(ask(&ticket, "Else.")).await);
    assert_eq!(world.state(inbox.tenant, ticket.work).await, State::AwaitingApproval);
    world.approve(item(&ticket), &[("reply", "Done.")]).await.unwrap();
    let mut ticket = world.claim(&inbox).one().await.ticket;
    for _ in 0..2 {
        assert!(world.store.ask(ask(&ticket, "Done.")).await.unwrap());
        ticket = world.next_run(&inbox, &ticket).await;
    }
    assert!(!world.store.ask(ask(&ticket, "Else.")).await.unwrap(), "that is something else");
}

pub async fn a_job_asked_to_stop_proposes_nothing(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.running(&inbox).await.ticket;
    let audit = world.audit(inbox.tenant, "job.cancel");
    world.store.cancel(inbox.tenant, ticket.work, audit).await.unwrap();
    let refused = world.store.begin(wish(&ticket, "mail", "to Ada")).await;
    assert!(matches!(refused, Err(StoreError::CancelRequested)), "{refused:?}");
    let refused = world.store.ask(ask(&ticket, "Done.")).await;
    assert!(matches!(refused, Err(StoreError::CancelRequested)), "{refused:?}");
}

pub async fn each_decision_is_in_the_audit_trail(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let (ticket, _) = world.waiting(&inbox).await;
    let word = world.decision(item(&ticket), &[MAIL], true);
    world.store.decide(word.clone()).await.unwrap();
    assert_eq!(world.store.audit(AuditFilter::of(inbox.tenant), ALL).await.unwrap(), word.audit);
}
