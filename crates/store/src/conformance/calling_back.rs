//! Calling back: whatever ends a job that somebody wants to hear of makes what tells its outcome, once.

use std::time::Duration;

use wakepost_domain::backoff::DELIVERY_ATTEMPTS;
use wakepost_domain::callback::OwnCallback;
use wakepost_domain::lane::{LaneId, LaneKey};
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, Priority, State, WorkKind};
use wakepost_domain::{EventId, TenantId, WorkId};

use super::Harness;
use super::drafts::{Inbox, LEASE_S, end};
use super::world::{ALL, World, failed, given_up};
use crate::moves::{
    Claimed, Guard, Replay, ReplayFrom, Settle, WorkFilter, WorkMeta, WorkRow, callback,
};

const PATIENCE: Duration = Duration::from_secs(30);

impl<H: Harness> World<'_, H> {
    pub(super) async fn callback_lane(&self, tenant: TenantId) -> LaneId {
        let key = LaneKey {
            tenant,
            kind: WorkKind::Callback,
            priority: Priority::Webhook,
            origin: None,
            name: "https://agent.example".to_owned(),
            executor: None,
        };
        self.store.lane(key).await.unwrap().id
    }

    /// A job whose outcome somebody wants to know, with its first claim.
    async fn awaited(&self, inbox: &Inbox, lane: LaneId) -> Claimed {
        let new = self.event(inbox).about("zd:ticket:7").calling_back(lane).build();
        self.accept(new).await;
        self.claim(inbox).one().await
    }

    async fn callbacks(&self, tenant: TenantId) -> Vec<WorkRow> {
        let filter = WorkFilter { kind: Some(WorkKind::Callback), ..WorkFilter::default() };
        self.other.work_list(tenant, filter, ALL).await.unwrap()
    }

    /// The one callback of a job that ended.
    pub(super) async fn callback_of(&self, tenant: TenantId, job: WorkId) -> WorkRow {
        let row = self.row(tenant, job).await;
        assert!(row.state.is_terminal());
        let parent = Some(job.text(WorkKind::Job));
        let mut found = self.callbacks(tenant).await;
        found.retain(|callback| callback.meta.parent_id == parent);
        assert_eq!(found.len(), 1, "{:?}", row.state);
        let ended_at = row.finished_at.expect("it ended");
        assert_eq!(found[0].id, callback::id(job, ended_at));
        found.remove(0)
    }
}

pub async fn every_end_of_a_run_makes_a_callback_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let lane = world.callback_lane(inbox.tenant).await;
    for (ending, state) in [
        (Ending::Succeeded, State::Succeeded),
        (given_up(), State::DeadLetter),
        (Ending::Cancelled, State::Cancelled),
    ] {
        let ticket = world.awaited(&inbox, lane).await.ticket;
        world.finish(&ticket, ending).await;
        let row = world.callback_of(inbox.tenant, ticket.work).await;
        assert_eq!((row.kind, row.lane, row.state), (WorkKind::Callback, lane, State::Scheduled));
        assert_eq!((row.attempts, row.max_attempts), (0, DELIVERY_ATTEMPTS as i32));
        assert_eq!(row.event, Some(EventId(ticket.work.0)));
        assert_eq!(row.subject.as_deref(), Some("zd:ticket:7"));
        assert_eq!(row.scope, row.id.0, "it has effects of its own");
        assert_eq!(world.row(inbox.tenant, ticket.work).await.state, state);
        // The answer got lost, and the worker says it again.
        assert!(world.settle(end(&ticket, ending)).await.unwrap().repeated);
        world.callback_of(inbox.tenant, ticket.work).await;
    }
    let (_, due) = world.store.due_lanes(Duration::from_secs(60)).await.unwrap();
    assert_eq!(due, [lane], "the timers find it");
    let of_lane = Inbox { lane, ..inbox };
    assert_eq!(world.claim(&of_lane).up_to(9).take().await.len(), 3);
}

pub async fn a_run_that_does_not_end_its_job_makes_none_yet(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let lane = world.callback_lane(inbox.tenant).await;
    let mut ticket = world.awaited(&inbox, lane).await.ticket;
    let job = ticket.work;
    for ending in [failed(), Ending::HandedBack, Ending::Held(HeldReason::Budget)] {
        world.finish(&ticket, ending).await;
        assert!(world.callbacks(inbox.tenant).await.is_empty(), "{ending:?}");
        if let Some(claimed) = world.claim(&inbox).take().await.pop() {
            ticket = claimed.ticket;
        }
    }
    let audit = world.audit(inbox.tenant, "job.cancel");
    world.store.cancel(inbox.tenant, job, audit).await.unwrap();
    world.callback_of(inbox.tenant, job).await;
}

pub async fn an_expiry_and_a_sweep_make_callbacks(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let lane = world.callback_lane(inbox.tenant).await;
    let meta = WorkMeta { callback_lane: Some(lane), ..WorkMeta::default() };
    let job = world.created(world.job(&inbox).tried_at_most(1).with_meta(meta)).await;
    world.claim(&inbox).one().await;
    world.advance_s(LEASE_S + 1).await;
    let run = world.store.expired(PATIENCE, 1).await.unwrap().remove(0);
    let guard = Guard::ExpiredAt(run.lease_expires_at);
    let expired = Settle { guard, ..end(&run.ticket, Ending::Expired) };
    // Two rescuers see it at once.
    let (a, b) =
        tokio::join!(world.store.settle(vec![expired.clone()]), world.other.settle(vec![expired]));
    assert_eq!(a.into_iter().chain(b).filter(Result::is_ok).count(), 1);
    assert_eq!(world.state(inbox.tenant, job).await, State::DeadLetter);
    world.callback_of(inbox.tenant, job).await;

    let stopped = world.awaited(&inbox, lane).await.ticket;
    let audit = world.audit(inbox.tenant, "job.cancel");
    world.store.cancel(inbox.tenant, stopped.work, audit).await.unwrap();
    assert_eq!(world.callbacks(inbox.tenant).await.len(), 1, "it is only asked to stop");
    world.advance(PATIENCE).await;
    let guard = Guard::CancelledBefore(world.now().await.before(PATIENCE));
    world.settle(Settle { guard, ..end(&stopped, Ending::Cancelled) }).await.unwrap();
    world.callback_of(inbox.tenant, stopped.work).await;
}

pub async fn giving_up_a_waiting_job_makes_its_callback(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let lane = world.callback_lane(inbox.tenant).await;
    let event = |value: &str| world.event(&inbox).calling_back(lane).instead_of(value).build();
    let (first, second) = (event("v"), event("v"));
    let superseded = WorkId::first_of(first.event.id);
    world.accept(first).await;
    world.accept(second.clone()).await;
    assert_eq!(world.state(inbox.tenant, superseded).await, State::Cancelled);
    world.callback_of(inbox.tenant, superseded).await;
    let audit = world.audit(inbox.tenant, "job.cancel");
    let waiting = WorkId::first_of(second.event.id);
    world.store.cancel(inbox.tenant, waiting, audit).await.unwrap();
    world.callback_of(inbox.tenant, waiting).await;
    // In order with others, and let go by the one before it.
    let ordered = || world.event(&inbox).calling_back(lane).in_order("k").build();
    for new in [ordered(), ordered()] {
        let id = WorkId::first_of(new.event.id);
        world.accept(new).await;
        world.run_to(&inbox, Ending::Succeeded).await;
        world.callback_of(inbox.tenant, id).await;
    }
    assert_eq!(world.callbacks(inbox.tenant).await.len(), 4);
}

pub async fn a_job_nobody_waits_for_makes_none(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for ending in [Ending::Succeeded, given_up(), Ending::Cancelled] {
        world.ended(&inbox, ending).await;
    }
    assert!(world.callbacks(inbox.tenant).await.is_empty());
}

pub async fn a_replay_calls_back_as_the_old_job_did(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let lane = world.callback_lane(inbox.tenant).await;
    let own = OwnCallback { url: "https://agent.example/done".to_owned(), trusted: true };
    let meta =
        WorkMeta { callback: Some(own.clone()), callback_lane: Some(lane), ..WorkMeta::default() };
    let job = world.created(world.job(&inbox).with_meta(meta.clone())).await;
    assert_eq!(world.row(inbox.tenant, job).await.meta, meta);
    world.run_to(&inbox, given_up()).await;
    let ignored = world.event(&inbox).ignored().build();
    let event = ignored.event.id;
    world.accept(ignored).await;
    for from in [ReplayFrom::Work(job), ReplayFrom::Event(event, inbox.lane)] {
        let id = WorkId(world.id());
        let replay = Replay {
            tenant: inbox.tenant,
            from,
            id,
            fresh_scope: false,
            input: None,
            max_attempts: 3,
            callback_lane: matches!(from, ReplayFrom::Event(..)).then_some(lane),
            audit: world.audit(inbox.tenant, "work.replay"),
        };
        world.store.replay(replay, None).await.unwrap();
        world.run_to(&inbox, Ending::Succeeded).await;
        world.callback_of(inbox.tenant, id).await;
    }
    assert_eq!(world.callbacks(inbox.tenant).await.len(), 3);
}

pub async fn many_ends_at_once_make_a_callback_each(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let lane = world.callback_lane(inbox.tenant).await;
    for _ in 0..20 {
        world.accept(world.event(&inbox).calling_back(lane).build()).await;
    }
    let claimed = world.claim(&inbox).up_to(20).take().await;
    let ends = || claimed.iter().map(|item| end(&item.ticket, Ending::Succeeded));
    // Each node gets them in its own order.
    let (ours, theirs): (Vec<Settle>, Vec<Settle>) = (ends().collect(), ends().rev().collect());
    let (a, b) = tokio::join!(world.store.settle(ours), world.other.settle(theirs));
    assert!(a.into_iter().chain(b).all(|settled| settled.is_ok()));
    for item in &claimed {
        world.callback_of(inbox.tenant, item.ticket.work).await;
    }
}
