//! Replaying: a new item in the place of a finished one, once, on record.

use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State, WorkKind};
use wakepost_domain::{EventId, TenantId, WorkId};

use super::Harness;
use super::drafts::{Inbox, once};
use super::effects::{execute, skip};
use super::world::{World, assert_invalid, assert_not_found, failed_for_s, given_up, sealed};
use crate::error::{Result, StoreError};
use crate::moves::{AuditFilter, BeginOutcome, Once, Replay, ReplayFrom, WorkMeta};

impl<H: Harness> World<'_, H> {
    fn again(&self, tenant: TenantId, from: ReplayFrom) -> Replay {
        Replay {
            tenant,
            from,
            id: WorkId(self.id()),
            fresh_scope: false,
            input: None,
            callback_lane: None,
            max_attempts: 4,
            audit: self.audit(tenant, "job.replay"),
        }
    }

    /// Replays an item and answers the new one's id.
    pub async fn replayed(&self, tenant: TenantId, work: WorkId, fresh_scope: bool) -> WorkId {
        let replay = Replay { fresh_scope, ..self.again(tenant, ReplayFrom::Work(work)) };
        let id = replay.id;
        match self.store.replay(replay, None).await.unwrap() {
            Once::Now((new, _)) => assert_eq!(new, id),
            Once::Before(_) => unreachable!("no idempotency key was given"),
        }
        id
    }

    async fn replay(
        &self,
        replay: Replay,
    ) -> Result<Once<(WorkId, wakepost_domain::lane::LaneId)>> {
        self.store.replay(replay, None).await
    }

    async fn unmapped_event(&self, inbox: &Inbox) -> EventId {
        let new = self.event(inbox).unmapped().about("gh:issue:3").in_trace("4bf9").build();
        let id = new.event.id;
        self.accept(new).await;
        id
    }
}

pub async fn a_replay_makes_a_new_item_that_names_the_old(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let event = world.event(&inbox).about("gh:issue:3").build();
    world.accept(event.clone()).await;
    let old = world.run_to(&inbox, given_up()).await.ticket.work;
    let before = world.picture(inbox.tenant, old).await;
    let mut replay = world.again(inbox.tenant, ReplayFrom::Work(old));
    replay.input = Some(sealed("asked anew"));
    let (new, audit) = (replay.id, replay.audit.clone());
    assert_eq!(world.replay(replay).await.unwrap(), Once::Now((new, inbox.lane)));
    let row = world.row(inbox.tenant, new).await;
    assert_eq!((row.state, row.kind, row.lane), (State::Pending, WorkKind::Job, inbox.lane));
    assert_eq!((row.attempts, row.max_attempts, row.fence), (0, 4, 0));
    assert_eq!((row.event, row.scope), (Some(event.event.id), before.row.scope));
    assert_eq!(row.subject.as_deref(), Some("gh:issue:3"));
    assert_eq!(row.meta.parent_id, Some(old.text(WorkKind::Job)));
    assert_eq!(world.kept(new).await.input, Some(sealed("asked anew")));
    let mut after = world.picture(inbox.tenant, old).await;
    assert_eq!(after.row.replayed_as.take(), Some(new));
    assert_eq!(after, before, "the old item is history");
    let trail = world.store.audit(AuditFilter::of(inbox.tenant), super::world::ALL).await.unwrap();
    assert_eq!(trail, [audit]);
    assert_eq!(world.claim(&inbox).one().await.ticket.work, new);
}

pub async fn a_replay_keeps_what_its_owner_said(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let meta = WorkMeta { owner: Some("ops".to_owned()), ..WorkMeta::default() };
    let old = world.created(world.job(&inbox).with_meta(meta)).await;
    world.run_to(&inbox, Ending::Succeeded).await;
    let new = world.replayed(inbox.tenant, old, false).await;
    assert_eq!(world.row(inbox.tenant, new).await.meta.owner.as_deref(), Some("ops"));
}

pub async fn every_finished_state_can_be_replayed(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for ending in [Ending::Succeeded, given_up(), Ending::Cancelled] {
        let old = world.ended(&inbox, ending).await;
        let new = world.replayed(inbox.tenant, old, false).await;
        assert_eq!(world.run_to(&inbox, Ending::Succeeded).await.ticket.work, new);
    }
}

pub async fn an_item_that_has_not_ended_cannot_be_replayed(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let held = world.ended(&inbox, Ending::Held(HeldReason::Budget)).await;
    let retrying = world.ended(&inbox, failed_for_s(500)).await;
    let running = world.running(&inbox).await.ticket.work;
    let pending = world.accepted(&inbox).await;
    for work in [held, retrying, running, pending] {
        let replay = world.again(inbox.tenant, ReplayFrom::Work(work));
        let new = replay.id;
        assert_invalid(world.replay(replay).await);
        assert_eq!(world.store.work(inbox.tenant, new).await.unwrap(), None);
    }
    assert!(world.actions(inbox.tenant).await.is_empty());
}

pub async fn an_item_is_replayed_once_and_then_its_replay(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.ended(&inbox, given_up()).await;
    let second = world.replayed(inbox.tenant, first, false).await;
    assert_invalid(world.replay(world.again(inbox.tenant, ReplayFrom::Work(first))).await);
    world.run_to(&inbox, given_up()).await;
    assert_invalid(world.replay(world.again(inbox.tenant, ReplayFrom::Work(first))).await);
    let third = world.replayed(inbox.tenant, second, false).await;
    assert_eq!(world.row(inbox.tenant, third).await.scope, first.0, "one scope all along");
    assert_eq!(world.actions(inbox.tenant).await.len(), 2);
}

pub async fn of_many_replays_at_once_one_happens(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let old = world.ended(&inbox, given_up()).await;
    let mut calls = Vec::new();
    for turn in 0..12 {
        let replay = world.again(inbox.tenant, ReplayFrom::Work(old));
        let node = world.node(turn);
        calls.push(tokio::spawn(async move { node.replay(replay, None).await }));
    }
    let mut made = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => made += 1,
            Err(StoreError::InvalidState(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(made, 1);
    assert_eq!(world.claim(&inbox).up_to(10).take().await.len(), 1);
    assert_eq!(world.actions(inbox.tenant).await.len(), 1);
}

pub async fn nobody_replays_work_of_another_tenant(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let stranger = world.tenant("stranger").await;
    let theirs = world.inbox_of(stranger).await;
    let old = world.ended(&inbox, given_up()).await;
    let event = world.unmapped_event(&inbox).await;
    assert_not_found(world.replay(world.again(stranger, ReplayFrom::Work(old))).await);
    let from = ReplayFrom::Event(event, theirs.lane);
    assert_not_found(world.replay(world.again(stranger, from)).await);
    let nothing = ReplayFrom::Work(WorkId(world.id()));
    assert_not_found(world.replay(world.again(inbox.tenant, nothing)).await);
    assert_eq!(world.row(inbox.tenant, old).await.replayed_as, None);
    assert!(world.claim(&theirs).take().await.is_empty());
    assert_eq!(world.actions(stranger).await, ["tenant.create"]);
}

pub async fn a_replay_of_the_same_scope_skips_what_was_committed(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    world.begin(&claimed.ticket, "mail").await;
    world.commit(&claimed.ticket, "mail", "sent").await.unwrap();
    world.begin(&claimed.ticket, "call").await;
    world.finish(&claimed.ticket, given_up()).await;
    let new = world.replayed(inbox.tenant, claimed.ticket.work, false).await;
    let again = world.claim(&inbox).one().await;
    assert_eq!((again.ticket.work, again.scope), (new, claimed.scope));
    assert_eq!(world.begin(&again.ticket, "mail").await, skip(claimed.scope, "sent"));
    let doubt = world.begin(&again.ticket, "call").await;
    assert_eq!(doubt, BeginOutcome::InDoubt { scope: claimed.scope });
    assert_eq!(world.state(inbox.tenant, new).await, State::Held);
}

pub async fn a_replay_of_a_fresh_scope_does_everything_again(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    world.begin(&claimed.ticket, "mail").await;
    world.commit(&claimed.ticket, "mail", "sent").await.unwrap();
    world.finish(&claimed.ticket, given_up()).await;
    let new = world.replayed(inbox.tenant, claimed.ticket.work, true).await;
    let again = world.claim(&inbox).one().await;
    assert_eq!((again.ticket.work, again.scope), (new, new.0));
    assert_eq!(world.begin(&again.ticket, "mail").await, execute(new.0));
    world.commit(&again.ticket, "mail", "sent again").await.unwrap();
    let old = world.effect(inbox.tenant, claimed.scope, "mail").await;
    assert_eq!(old.result, Some(sealed("sent")), "the old scope keeps its own");
}

pub async fn an_event_without_work_gets_its_first_item(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let event = world.unmapped_event(&inbox).await;
    let replay = world.again(inbox.tenant, ReplayFrom::Event(event, inbox.lane));
    let new = replay.id;
    assert_eq!(world.replay(replay).await.unwrap(), Once::Now((new, inbox.lane)));
    let work = world.store.work_of_event(inbox.tenant, event).await.unwrap();
    assert_eq!(work.len(), 1);
    assert_eq!((work[0].id, work[0].event, work[0].state), (new, Some(event), State::Pending));
    assert_eq!((work[0].lane, work[0].max_attempts), (inbox.lane, 4));
    let handed_down = (work[0].subject.as_deref(), work[0].meta.trace.as_deref());
    assert_eq!(handed_down, (Some("gh:issue:3"), Some("4bf9")), "as if it had made it itself");
    assert_eq!(world.actions(inbox.tenant).await, ["job.replay"]);
    let claimed = world.claim(&inbox).one().await;
    assert_eq!((claimed.ticket.work, claimed.event), (new, Some(event)));
}

/// Two jobs of one event would share its effects, which must have one live owner.
pub async fn an_event_that_has_work_gets_no_second_first_item(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let with_job = EventId(world.accepted(&inbox).await.0);
    let event = world.unmapped_event(&inbox).await;
    let mut calls = Vec::new();
    for turn in 0..8 {
        let replay = world.again(inbox.tenant, ReplayFrom::Event(event, inbox.lane));
        let node = world.node(turn);
        calls.push(tokio::spawn(async move { node.replay(replay, None).await }));
    }
    let mut made = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => made += 1,
            Err(StoreError::InvalidState(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(made, 1);
    assert_eq!(world.store.work_of_event(inbox.tenant, event).await.unwrap().len(), 1);
    let from = ReplayFrom::Event(with_job, inbox.lane);
    assert_invalid(world.replay(world.again(inbox.tenant, from)).await);
    let unknown = ReplayFrom::Event(EventId(world.id()), inbox.lane);
    assert_not_found(world.replay(world.again(inbox.tenant, unknown)).await);
}

pub async fn a_replay_under_an_idempotency_key_happens_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let old = world.ended(&inbox, given_up()).await;
    let until = world.now().await.after(std::time::Duration::from_secs(1000));
    let first = world.again(inbox.tenant, ReplayFrom::Work(old));
    let id = first.id;
    let made = world.store.replay(first, Some(once(1, "made", until))).await.unwrap();
    assert_eq!(made, Once::Now((id, inbox.lane)));
    let again = world.again(inbox.tenant, ReplayFrom::Work(old));
    let Once::Before(before) =
        world.store.replay(again, Some(once(1, "other", until))).await.unwrap()
    else {
        panic!("it happened again")
    };
    assert_eq!(before.answer, sealed("made"));
    assert_eq!(world.actions(inbox.tenant).await.len(), 1);
}
