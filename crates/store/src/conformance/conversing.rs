//! Conversing: the messages of a thread are one job while it waits, and one run at a time.

use wakepost_domain::event::Route;
use wakepost_domain::run::RunOutcome;
use wakepost_domain::thread::ThreadPolicy::{self, Interrupt, Merge, Off, Queue};
use wakepost_domain::transition::Ending;
use wakepost_domain::work::State;
use wakepost_domain::{EventId, WorkId, limits};

use super::Harness;
use super::drafts::{EventDraft, Inbox};
use super::world::{ALL, World, assert_lost, assert_near, failed_for_s, given_up};
use crate::moves::{Accepted, EventFilter, Heartbeat, NewEvent, WorkFilter};

const THREAD: &str = "T1:C1:100.1";

impl<H: Harness> World<'_, H> {
    fn message(&self, inbox: &Inbox, policy: ThreadPolicy) -> EventDraft {
        self.event(inbox).in_thread(THREAD, policy)
    }

    /// A message that makes a job of its own.
    async fn said(&self, draft: EventDraft) -> WorkId {
        let new = draft.build();
        assert_eq!(self.accept(new.clone()).await, Accepted::New);
        WorkId::first_of(new.event.id)
    }

    /// A message that joins this job.
    async fn joins(&self, draft: EventDraft, job: WorkId) -> EventId {
        let new = draft.build();
        let answer = self.accept(new.clone()).await;
        let Accepted::Joined { work, .. } = answer else { panic!("it joined nothing: {answer:?}") };
        assert_eq!(work, job);
        new.event.id
    }

    async fn events_of(&self, inbox: &Inbox, work: WorkId) -> Vec<EventId> {
        self.store.events_of_work(inbox.tenant, work).await.unwrap()
    }

    async fn jobs(&self, inbox: &Inbox) -> usize {
        let of_thread = WorkFilter { thread: Some(THREAD.to_owned()), ..WorkFilter::default() };
        self.store.work_list(inbox.tenant, of_thread, ALL).await.unwrap().len()
    }
}

fn first(work: WorkId) -> EventId {
    EventId(work.0)
}

pub async fn a_reply_makes_a_job_only_in_a_thread_the_agent_is_in(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for policy in [Off, Merge] {
        let thread = format!("{policy:?}");
        let reply = || world.event(&inbox).in_thread(&thread, policy).if_known();
        let early = reply().with_key(&format!("early {thread}")).build();
        assert_eq!(world.accept(early.clone()).await, Accepted::Ignored);
        assert_eq!(world.stored(inbox.tenant, early.event.id).await.route, Route::Ignored);
        assert!(world.store.work_of_event(inbox.tenant, early.event.id).await.unwrap().is_empty());
        let again = world.accept(reply().with_key(&format!("early {thread}"))).await;
        assert_eq!(again, Accepted::Duplicate { of: early.event.id, job: None });
        // What was ignored does not make the thread known; a mention does.
        assert_eq!(world.accept(reply()).await, Accepted::Ignored);
        world.said(world.event(&inbox).in_thread(&thread, policy)).await;
        world.run_to(&inbox, Ending::Succeeded).await;
        world.said(reply()).await;
        world.run_to(&inbox, Ending::Succeeded).await;
    }
    // The same thread of another source is another thread.
    let other = world.inbox().await;
    let elsewhere = world.event(&other).in_thread("Off", Off).if_known();
    assert_eq!(world.accept(elsewhere).await, Accepted::Ignored);
}

pub async fn a_thread_is_forgotten_after_a_long_silence(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let day = 24 * 3600;
    world.said(world.message(&inbox, Off)).await;
    world.advance_s(60 * day).await;
    world.said(world.message(&inbox, Off).if_known()).await;
    world.advance_s(60 * day).await;
    world.said(world.message(&inbox, Off).if_known()).await;
    world.advance_s(91 * day).await;
    assert_eq!(world.accept(world.message(&inbox, Off).if_known()).await, Accepted::Ignored);
}

pub async fn messages_are_merged_into_the_job_that_waits(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let job = world.said(world.message(&inbox, Merge)).await;
    let second = world.joins(world.message(&inbox, Merge), job).await;
    let third = world.joins(world.message(&inbox, Merge), job).await;
    assert_eq!(world.jobs(&inbox).await, 1);
    let all = [first(job), second, third];
    assert_eq!(world.events_of(&inbox, job).await, all);
    let joined = world.store.joined(vec![WorkId(world.id()), job]).await.unwrap();
    assert_eq!(joined, [(job, second), (job, third)]);
    assert_eq!(world.stored(inbox.tenant, third).await.route, Route::Joined);
    for event in all {
        let work = world.store.work_of_event(inbox.tenant, event).await.unwrap();
        assert_eq!(work.iter().map(|row| row.id).collect::<Vec<_>>(), [job]);
    }
    let claimed = world.claim(&inbox).one().await;
    assert_eq!((claimed.ticket.work, claimed.event), (job, Some(first(job))));
    assert!(claimed.ticket.ordered);
}

pub async fn a_job_is_scheduled_only_while_its_thread_may_get_quieter(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for policy in [Merge, Interrupt] {
        let message =
            |thread: &str| world.event(&inbox).in_thread(&format!("{thread} {policy:?}"), policy);
        let at_once = world.said(message("loud")).await;
        assert_eq!(world.state(inbox.tenant, at_once).await, State::Pending);
        let later = world.said(message("quiet").after_quiet_s(50, 500)).await;
        assert_eq!(world.state(inbox.tenant, later).await, State::Scheduled);
    }
}

pub async fn while_a_job_runs_the_next_one_gathers_behind_it(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let running = world.said(world.message(&inbox, Merge)).await;
    let claimed = world.claim(&inbox).one().await;
    let next = world.said(world.message(&inbox, Merge)).await;
    let joined = world.joins(world.message(&inbox, Merge), next).await;
    assert!(world.row(inbox.tenant, next).await.behind);
    assert!(world.claim(&inbox).up_to(9).take().await.is_empty(), "one at a time");
    assert_eq!(world.events_of(&inbox, running).await, [first(running)]);
    let settled = world.finish(&claimed.ticket, Ending::Succeeded).await;
    assert_eq!(settled.next_in_order, Some(inbox.lane));
    assert_eq!(world.claim(&inbox).one().await.ticket.work, next);
    assert_eq!(world.events_of(&inbox, next).await, [first(next), joined]);
}

pub async fn a_job_that_failed_is_not_merged_into(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for ending in [failed_for_s(100), Ending::HandedBack] {
        let tried = world.said(world.message(&inbox, Merge)).await;
        world.run_to(&inbox, ending).await;
        let next = world.said(world.message(&inbox, Merge)).await;
        assert!(world.row(inbox.tenant, next).await.behind);
        world.advance_s(101).await;
        for work in [tried, next] {
            assert_eq!(world.run_to(&inbox, Ending::Succeeded).await.ticket.work, work);
        }
    }
}

pub async fn a_job_waits_until_its_thread_is_quiet_but_not_for_ever(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let message = || world.message(&inbox, Merge).after_quiet_s(60, 150);
    let job = world.said(message()).await;
    let began = world.now().await;
    let at_s = |seconds| began.after(std::time::Duration::from_secs(seconds));
    let row = world.row(inbox.tenant, job).await;
    assert_eq!(row.state, State::Scheduled);
    assert_near(row.run_at, at_s(60));
    for (said_s, run_s) in [(50, 110), (100, 150), (140, 150)] {
        world.advance(at_s(said_s).distance(world.now().await)).await;
        world.joins(message(), job).await;
        assert_near(world.row(inbox.tenant, job).await.run_at, at_s(run_s));
        assert!(world.claim(&inbox).take().await.is_empty(), "not before {run_s} s");
    }
    world.advance_s(21).await;
    let late = world.joins(message(), job).await;
    assert_eq!(world.row(inbox.tenant, job).await.state, State::Pending);
    assert_eq!(world.claim(&inbox).one().await.ticket.work, job);
    assert_eq!(world.events_of(&inbox, job).await.last(), Some(&late));
}

pub async fn queued_messages_run_one_by_one(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(world.said(world.message(&inbox, Queue)).await);
    }
    for job in jobs {
        let claimed = world.claim(&inbox).up_to(9).take().await;
        assert_eq!(claimed.iter().map(|item| item.ticket.work).collect::<Vec<_>>(), [job]);
        world.finish(&claimed[0].ticket, Ending::Succeeded).await;
    }
}

pub async fn messages_without_a_policy_have_nothing_to_do_with_each_other(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let jobs = [
        world.said(world.message(&inbox, Off)).await,
        world.said(world.message(&inbox, Off)).await,
    ];
    let claimed = world.claim(&inbox).up_to(9).take().await;
    assert_eq!(claimed.iter().map(|item| item.ticket.work).collect::<Vec<_>>(), jobs);
    assert_eq!(world.jobs(&inbox).await, 2, "and are still found by their thread");
}

pub async fn an_interrupting_message_ends_the_live_run_and_joins_its_job(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let job = world.said(world.message(&inbox, Interrupt)).await;
    let capped = world.claim(&inbox).capped(inbox.source_cap(1)).one().await;
    let new = world.message(&inbox, Interrupt).after_quiet_s(60, 100).build();
    let second = new.event.id;
    let answer = world.accept(new).await;
    assert_eq!(answer, Accepted::Joined { work: job, lane: inbox.lane, freed_cap: true });
    let row = world.row(inbox.tenant, job).await;
    assert_eq!((row.state, row.attempts), (State::Scheduled, 0), "no attempt is counted");
    let runs = world.store.runs(inbox.tenant, job).await.unwrap();
    assert_eq!((runs.len(), runs[0].outcome), (1, RunOutcome::Interrupted));

    // Whatever the worker says now, its lease is lost and nothing changes.
    let beat =
        Heartbeat { ticket: capped.ticket, extend: std::time::Duration::from_secs(60), cost: None };
    assert_lost(world.store.heartbeat(vec![beat]).await.remove(0));
    for ending in [Ending::Succeeded, given_up(), Ending::HandedBack] {
        assert_lost(world.settle(super::drafts::end(&capped.ticket, ending)).await);
    }
    let third = world.joins(world.message(&inbox, Interrupt).after_quiet_s(60, 100), job).await;
    world.advance_s(61).await;
    let again = world.claim(&inbox).capped(inbox.source_cap(1)).one().await;
    assert_eq!((again.ticket.work, again.ticket.attempt), (job, 1));
    assert!(again.ticket.fence > capped.ticket.fence);
    assert_eq!(world.events_of(&inbox, job).await, [first(job), second, third]);
    world.finish(&again.ticket, Ending::Succeeded).await;
}

pub async fn a_run_whose_lease_ended_is_not_interrupted(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let job = world.said(world.message(&inbox, Interrupt)).await;
    let claimed = world.claim(&inbox).leased_s(10).one().await;
    world.advance_s(11).await;
    let next = world.said(world.message(&inbox, Interrupt)).await;
    world.rescue(&claimed.ticket).await;
    assert_eq!(world.row(inbox.tenant, job).await.attempts, 1, "it counts");
    assert_eq!(world.run_to(&inbox, Ending::Succeeded).await.ticket.work, job);
    assert_eq!(world.run_to(&inbox, Ending::Succeeded).await.ticket.work, next);
}

pub async fn a_job_that_was_asked_to_stop_takes_no_more_messages(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let job = world.said(world.message(&inbox, Interrupt)).await;
    let claimed = world.claim(&inbox).one().await;
    let audit = world.audit(inbox.tenant, "job.cancel");
    world.store.cancel(inbox.tenant, job, audit).await.unwrap();
    let next = world.said(world.message(&inbox, Interrupt)).await;
    world.finish(&claimed.ticket, Ending::Cancelled).await;
    assert_eq!(world.claim(&inbox).one().await.ticket.work, next);
}

pub async fn a_duplicate_of_a_joined_message_is_told_the_job_it_joined(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let job = world.said(world.message(&inbox, Merge)).await;
    let joined = world.joins(world.message(&inbox, Merge).with_key("a"), job).await;
    for _ in 0..2 {
        let again = world.accept(world.message(&inbox, Merge).with_key("a")).await;
        assert_eq!(again, Accepted::Duplicate { of: joined, job: Some(job) });
        world.run_to_end(&inbox).await;
    }
    assert_eq!(world.events_of(&inbox, job).await, [first(job), joined]);
}

pub async fn messages_of_one_request_are_merged_too(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let body = EventId(world.id());
    let draft = |nth: u16| {
        let key = format!("key {}", nth % 3);
        world.message(&inbox, Merge).with_key(&key).part_of(body, nth).build()
    };
    let events: Vec<NewEvent> = (0..4).map(draft).collect();
    let ids: Vec<EventId> = events.iter().map(|new| new.event.id).collect();
    let shared = crate::moves::SharedBody {
        id: body,
        tenant: inbox.tenant,
        content: super::world::sealed("[]"),
    };
    let answers = world.store.accept_together(shared, events).await.unwrap();
    let work = WorkId::first_of(ids[0]);
    let joined = Accepted::Joined { work, lane: inbox.lane, freed_cap: false };
    let copy = Accepted::Duplicate { of: ids[0], job: Some(work) };
    assert_eq!(answers, [Accepted::New, joined, joined, copy]);
    assert_eq!(world.events_of(&inbox, work).await, ids[..3]);
}

pub async fn a_full_job_is_followed_by_another(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let job = world.said(world.message(&inbox, Merge)).await;
    for _ in 0..limits::EVENTS_JOINED_MAX {
        world.joins(world.message(&inbox, Merge), job).await;
    }
    let next = world.said(world.message(&inbox, Merge)).await;
    world.joins(world.message(&inbox, Merge), next).await;
}

pub async fn a_replay_is_about_all_that_the_job_was_about(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let job = world.said(world.message(&inbox, Merge)).await;
    let joined = world.joins(world.message(&inbox, Merge).with_key("a"), job).await;
    world.run_to(&inbox, given_up()).await;
    let replayed = world.replayed(inbox.tenant, job, false).await;
    assert_eq!(world.events_of(&inbox, replayed).await, [first(job), joined]);
    let work = world.store.work_of_event(inbox.tenant, joined).await.unwrap();
    assert_eq!(work.iter().map(|row| row.id).collect::<Vec<_>>(), [job, replayed]);
    // The replay skips what was done, so a new message is not its business.
    let next = world.said(world.message(&inbox, Merge)).await;
    assert!(world.row(inbox.tenant, next).await.behind);
    let again = world.accept(world.message(&inbox, Merge).with_key("a")).await;
    assert_eq!(again, Accepted::Duplicate { of: joined, job: Some(job) });
}

pub async fn a_joined_event_has_the_status_of_its_job(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let job = world.said(world.message(&inbox, Merge)).await;
    let joined = world.joins(world.message(&inbox, Merge), job).await;
    let with = async |status: &str| {
        let filter = EventFilter { status: Some(status.to_owned()), ..EventFilter::default() };
        let rows = world.store.events(inbox.tenant, filter, ALL).await.unwrap();
        rows.into_iter().map(|row| row.event.id).collect::<Vec<_>>()
    };
    let both = [joined, first(job)];
    assert_eq!(with("pending").await, both);
    let claimed = world.claim(&inbox).one().await;
    assert_eq!(with("running").await, both);
    world.finish(&claimed.ticket, given_up()).await;
    assert_eq!(with("dead_letter").await, both);
    assert!(with("pending").await.is_empty());
    let replayed = world.replayed(inbox.tenant, job, false).await;
    assert!(with("dead_letter").await.is_empty(), "what was replayed counts no more");
    assert_eq!(world.run_to(&inbox, Ending::Succeeded).await.ticket.work, replayed);
    assert_eq!(with("succeeded").await, both);
}

pub async fn events_are_found_by_their_thread(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let job = world.said(world.message(&inbox, Merge)).await;
    let joined = world.joins(world.message(&inbox, Merge), job).await;
    world.accepted(&inbox).await;
    world.said(world.event(&inbox).in_thread("another", Merge)).await;
    let filter = EventFilter { thread: Some(THREAD.to_owned()), ..EventFilter::default() };
    let rows = world.store.events(inbox.tenant, filter.clone(), ALL).await.unwrap();
    let ids: Vec<EventId> = rows.iter().map(|row| row.event.id).collect();
    assert_eq!(ids, [joined, first(job)]);
    assert_eq!(rows[0].event.thread.as_deref(), Some(THREAD));
    let theirs = world.tenant("theirs").await;
    assert!(world.store.events(theirs, filter, ALL).await.unwrap().is_empty());
    assert_eq!(world.jobs(&inbox).await, 1);
}

pub async fn joined_events_stay_as_long_as_their_job_needs_them(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let job = world.said(world.message(&inbox, Merge)).await;
    let joined = world.joins(world.message(&inbox, Merge), job).await;
    world.much_later().await;
    assert!(world.has_body(joined).await, "its job lives");
    assert_eq!(world.stored(inbox.tenant, joined).await.route, Route::Joined);
    assert_eq!(world.events_of(&inbox, job).await, [first(job), joined]);
    world.run_to(&inbox, Ending::Succeeded).await;
    world.much_later().await;
    assert!(!world.has_body(joined).await);
    assert!(world.store.event(inbox.tenant, joined).await.unwrap().is_none());
    assert!(world.store.joined(vec![job]).await.unwrap().is_empty());
}

pub async fn messages_from_two_nodes_at_once_are_one_job(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    const MESSAGES: usize = 30;
    let mut calls = Vec::new();
    for turn in 0..MESSAGES {
        let new = world.message(&inbox, Merge).after_quiet_s(60, 600).build();
        let node = world.node(turn);
        calls.push(tokio::spawn(async move { node.accept(vec![new]).await.remove(0) }));
    }
    let (mut made, mut joined) = (0, 0);
    for call in calls {
        match call.await.unwrap().unwrap() {
            Accepted::New => made += 1,
            Accepted::Joined { .. } => joined += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((made, joined), (1, MESSAGES - 1));
    world.advance_s(601).await;
    let claimed = world.claim(&inbox).one().await;
    let mut events = world.events_of(&inbox, claimed.ticket.work).await;
    events.sort_unstable();
    events.dedup();
    assert_eq!(events.len(), MESSAGES, "and each is in it once");
}

pub async fn messages_and_claims_at_once_lose_no_message(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    const MESSAGES: usize = 40;
    for policy in [Merge, Interrupt] {
        let thread = format!("{policy:?}");
        let mut said = Vec::new();
        for turn in 0..MESSAGES {
            let new = world.event(&inbox).in_thread(&thread, policy).build();
            let node = world.node(turn);
            said.push(tokio::spawn(async move { node.accept(vec![new]).await.remove(0) }));
        }
        let (mut seen, mut idle) = (0, 0);
        while seen < MESSAGES {
            let Some(item) = world.claim(&inbox).on(world.node(seen)).take().await.pop() else {
                idle += 1;
                assert!(idle < 2000, "{} of {MESSAGES} are stuck", MESSAGES - seen);
                continue;
            };
            idle = 0;
            let end = super::drafts::end(&item.ticket, Ending::Succeeded);
            // A run that was interrupted has done nothing: its messages come again.
            if world.settle(end).await.is_ok() {
                seen += world.events_of(&inbox, item.ticket.work).await.len();
            }
        }
        for call in said {
            assert!(call.await.unwrap().unwrap().is_new());
        }
        assert_eq!(seen, MESSAGES, "{policy:?}");
    }
}
