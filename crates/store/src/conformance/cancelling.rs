//! Cancelling: an event ends the jobs that wait for it, in its own transaction; and all jobs of a subject can be given
//! up at once.

use wakepost_domain::limits::CANCEL_ON_PER_SUBJECT_MAX;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State, WorkKind};
use wakepost_domain::{EventId, TenantId, WorkId};

use super::Harness;
use super::drafts::{EventDraft, Inbox, WorkDraft};
use super::world::{World, failed, sealed};
use crate::error::StoreError;
use crate::moves::{
    Accepted, CancelOutcome, NewEvent, NewWork, Replay, ReplayFrom, SharedBody, WorkMeta,
};

const TICKET: &str = "zendesk:ticket:9";

impl<H: Harness> World<'_, H> {
    /// A job that such an event about the ticket cancels.
    fn follow_up(&self, inbox: &Inbox, pattern: &str) -> WorkDraft {
        let meta = WorkMeta { cancel_on: Some(pattern.to_owned()), ..WorkMeta::default() };
        self.job(inbox).about(TICKET).with_meta(meta)
    }

    fn replied(&self, inbox: &Inbox) -> EventDraft {
        self.event(inbox).of_type("ticket.replied").about(TICKET)
    }

    async fn is_cancelled_by(&self, tenant: TenantId, work: WorkId, event: EventId) {
        let row = self.row(tenant, work).await;
        assert_eq!(row.state, State::Cancelled);
        assert_eq!(row.last_error, Some(format!("cancelled by {event}")));
    }
}

pub async fn an_event_cancels_the_jobs_that_wait_for_it(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let later = world.now().await.after(std::time::Duration::from_secs(3600));
    let exact = world.created(world.follow_up(&inbox, "ticket.replied").at(later)).await;
    let prefix = world.created(world.follow_up(&inbox, "ticket.*")).await;
    let held = world.created(world.follow_up(&inbox, "*")).await;
    let other_type = world.created(world.follow_up(&inbox, "ticket.closed")).await;
    let other_subject = world.follow_up(&inbox, "*").about("zendesk:ticket:10");
    let other_subject = world.created(other_subject).await;
    let no_wish = world.created(world.job(&inbox).about(TICKET)).await;
    let acme = world.inbox_of(world.tenant("acme").await).await;
    let other_tenant = world.created(world.follow_up(&acme, "*")).await;
    let new = world.replied(&inbox).build();
    let event = new.event.id;
    assert_eq!(world.accept(new).await, Accepted::New);
    for work in [exact, prefix, held] {
        world.is_cancelled_by(inbox.tenant, work, event).await;
    }
    assert_eq!(world.state(inbox.tenant, WorkId::first_of(event)).await, State::Pending);
    for work in [other_type, other_subject, no_wish] {
        assert_eq!(world.state(inbox.tenant, work).await, State::Pending);
    }
    assert_eq!(world.state(acme.tenant, other_tenant).await, State::Pending);
}

pub async fn only_a_new_event_cancels_and_one_without_a_job_does_too(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.replied(&inbox).with_key("once").build();
    assert_eq!(world.accept(first.clone()).await, Accepted::New);
    let waiting = world.created(world.follow_up(&inbox, "ticket.*")).await;
    let copy = world.replied(&inbox).with_key("once");
    assert!(matches!(world.accept(copy).await, Accepted::Duplicate { .. }));
    let untold = world.event(&inbox).of_type("ticket.replied");
    assert_eq!(world.accept(untold).await, Accepted::New);
    assert_eq!(world.state(inbox.tenant, waiting).await, State::Pending);
    // A source's filter keeps events from making jobs; they happened all the same.
    let ignored = world.replied(&inbox).ignored().build();
    let event = ignored.event.id;
    assert_eq!(world.accept(ignored).await, Accepted::New);
    world.is_cancelled_by(inbox.tenant, waiting, event).await;
    assert_eq!(world.store.work(inbox.tenant, WorkId::first_of(event)).await.unwrap(), None);
}

pub async fn a_running_job_is_asked_to_stop_by_an_event(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let work = world.created(world.follow_up(&inbox, "ticket.*")).await;
    let run = world.claim(&inbox).one().await;
    assert_eq!(run.ticket.work, work);
    let new = world.replied(&inbox).build();
    let event = new.event.id;
    world.accept(new).await;
    let row = world.row(inbox.tenant, work).await;
    assert_eq!((row.state, row.cancel_requested), (State::Running, true));
    assert!(row.last_error.expect("the reason").contains(&event.to_string()));
    assert_eq!(world.finish(&run.ticket, failed()).await.state, State::Cancelled);
}

pub async fn what_stood_behind_a_cancelled_job_goes_on(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.created(world.follow_up(&inbox, "ticket.*").in_order("k")).await;
    let second = world.created(world.follow_up(&inbox, "ticket.*").in_order("k")).await;
    let third = world.created(world.job(&inbox).in_order("k")).await;
    let new = world.replied(&inbox).ignored().build();
    let event = new.event.id;
    assert_eq!(world.accept(new).await, Accepted::NewBefore(inbox.lane));
    for work in [first, second] {
        world.is_cancelled_by(inbox.tenant, work, event).await;
    }
    assert_eq!(world.claim(&inbox).one().await.ticket.work, third);
}

pub async fn an_event_whose_own_job_has_to_do_with_others_cancels_too(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let work = world.created(world.follow_up(&inbox, "ticket.*").in_order("theirs")).await;
    let new = world.replied(&inbox).in_order("own").build();
    let event = new.event.id;
    assert_eq!(world.accept(new).await, Accepted::New);
    world.is_cancelled_by(inbox.tenant, work, event).await;
    let own = WorkId::first_of(event);
    assert_eq!(world.claim(&inbox).one().await.ticket.work, own);
}

pub async fn events_of_one_request_cancel_too(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let work = world.created(world.follow_up(&inbox, "ticket.replied")).await;
    let body = EventId(world.id());
    let opened = world.event(&inbox).about(TICKET).part_of(body, 0).build();
    let reply = world.replied(&inbox).part_of(body, 1).build();
    let event = reply.event.id;
    let shared = SharedBody { id: body, tenant: inbox.tenant, content: sealed("[]") };
    let answers = world.store.accept_together(shared, vec![opened, reply]).await.unwrap();
    assert_eq!(answers, [Accepted::New, Accepted::New]);
    world.is_cancelled_by(inbox.tenant, work, event).await;
}

pub async fn events_that_come_at_once_cancel_a_job_once_and_all_are_stored(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for round in 0..5 {
        let work = world.created(world.follow_up(&inbox, "ticket.*").in_order("k")).await;
        let batch = |from: usize| -> Vec<NewEvent> {
            let event = |n: usize| match n % 3 {
                0 => world.replied(&inbox).with_key(&format!("{round} {n}")).build(),
                1 => world.replied(&inbox).in_order("k").with_key(&format!("{round} {n}")).build(),
                _ => world.event(&inbox).with_key(&format!("{round} {n}")).build(),
            };
            (from..from + 12).map(event).collect()
        };
        // Half of what either node is told is a copy.
        let (ours, theirs) =
            tokio::join!(world.store.accept(batch(0)), world.other.accept(batch(6)));
        let answers: Vec<Accepted> =
            ours.into_iter().chain(theirs).map(|answer| answer.unwrap()).collect();
        assert_eq!(answers.iter().filter(|answer| answer.is_new()).count(), 18);
        assert_eq!(world.state(inbox.tenant, work).await, State::Cancelled);
        for _ in 0..18 {
            world.run_to_end(&inbox).await;
        }
        assert!(world.claim(&inbox).take().await.is_empty());
    }
}

pub async fn a_subject_has_a_bounded_number_of_jobs_that_wait_for_an_event(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let most = CANCEL_ON_PER_SUBJECT_MAX as usize;
    let many: Vec<NewWork> =
        (0..most).map(|_| world.follow_up(&inbox, "ticket.*").build()).collect();
    let ids: Vec<WorkId> = many.iter().map(|item| item.id).collect();
    world.store.create_work(many, None).await.unwrap();
    let one = world.follow_up(&inbox, "ticket.*").build();
    let refused = world.store.create_work(vec![one.clone()], None).await;
    assert!(matches!(refused, Err(StoreError::Limit(_))), "{refused:?}");
    assert_eq!(world.store.work(inbox.tenant, one.id).await.unwrap(), None);
    world.created(world.follow_up(&inbox, "*").about("another")).await;
    world.accept(world.replied(&inbox)).await;
    for work in [ids[0], ids[most - 1]] {
        assert_eq!(world.state(inbox.tenant, work).await, State::Cancelled);
    }
    world.created(one).await;
}

pub async fn a_replay_waits_for_the_event_as_its_first_did(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let work = world.created(world.follow_up(&inbox, "ticket.*").with_input("1")).await;
    world.accept(world.replied(&inbox).ignored()).await;
    let replay = Replay {
        tenant: inbox.tenant,
        from: ReplayFrom::Work(work),
        id: WorkId(world.id()),
        fresh_scope: false,
        input: Some(sealed("1")),
        max_attempts: 3,
        callback_lane: None,
        audit: world.audit(inbox.tenant, "work.replay"),
    };
    let again = replay.id;
    world.store.replay(replay, None).await.unwrap();
    assert_eq!(world.state(inbox.tenant, again).await, State::Pending);
    world.accept(world.replied(&inbox).ignored()).await;
    assert_eq!(world.state(inbox.tenant, again).await, State::Cancelled);
}

pub async fn all_live_jobs_of_a_subject_are_found_step_by_step(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let acme = world.inbox_of(world.tenant("acme").await).await;
    world.created(world.job(&acme).about(TICKET)).await;
    let mut expected = Vec::new();
    for n in 0..7 {
        let subject = if n % 3 == 0 { TICKET } else { "zendesk:ticket:10" };
        let work = world.created(world.job(&inbox).about(subject)).await;
        expected.extend((n % 3 == 0).then_some(work));
    }
    world.created(world.job(&inbox).about(TICKET).of_kind(WorkKind::Callback)).await;
    let (mut found, mut after, mut steps) = (Vec::new(), None, 0);
    loop {
        let subject = TICKET.to_owned();
        let step = world.store.live_of_subject(inbox.tenant, subject, after, 3).await.unwrap();
        found.extend(step.found);
        after = step.next;
        steps += 1;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((found, steps), (expected, 3));
}

pub async fn many_jobs_are_given_up_as_each_would_be_alone(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let running = world.running(&inbox).await;
    let held = world.running(&inbox).await;
    world.finish(&held.ticket, Ending::Held(HeldReason::Budget)).await;
    let done = world.ended(&inbox, Ending::Succeeded).await;
    let ordered = [
        world.created(world.job(&inbox).in_order("k")).await,
        world.created(world.job(&inbox).in_order("k")).await,
    ];
    let behind = world.created(world.job(&inbox).in_order("k")).await;
    let mut works = vec![running.ticket.work, held.ticket.work, done];
    works.extend(ordered);
    let audit = world.audit(inbox.tenant, "jobs.cancel");
    let outcomes = world.store.cancel_many(inbox.tenant, works.clone(), Some(audit)).await.unwrap();
    let requested = outcomes.iter().filter(|one| **one == CancelOutcome::Requested).count();
    assert_eq!((outcomes.len(), requested), (4, 1), "what has ended is left alone");
    assert!(outcomes.iter().any(|one| one.next_in_order() == Some(inbox.lane)));
    assert!(world.row(inbox.tenant, running.ticket.work).await.cancel_requested);
    for work in [held.ticket.work, ordered[0], ordered[1]] {
        assert_eq!(world.state(inbox.tenant, work).await, State::Cancelled);
    }
    assert_eq!(world.state(inbox.tenant, done).await, State::Succeeded);
    assert_eq!(world.claim(&inbox).one().await.ticket.work, behind);
    let other = world.tenant("acme").await;
    assert_eq!(world.store.cancel_many(other, vec![behind], None).await.unwrap(), []);
    let trail = world.actions(inbox.tenant).await;
    assert_eq!(trail.iter().filter(|action| *action == "jobs.cancel").count(), 1);
}
