//! Work from outside a run: made through the API, given up, let go on.

use std::time::Duration;

use wakepost_domain::approval::Mode;
use wakepost_domain::callback::OwnCallback;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State, WorkKind};
use wakepost_domain::{EventId, ScheduleId, Timestamp, WorkId};

use super::Harness;
use super::drafts::ATTEMPTS;
use super::world::{
    ALL, World, assert_invalid, assert_near, assert_not_found, failed_for_s, given_up, sealed,
};
use crate::moves::{CancelOutcome, NewWork, Once, WorkMeta};

pub async fn an_item_is_made_as_it_was_asked_for(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let scope = world.id();
    let event = EventId(world.id());
    let meta = WorkMeta {
        schedule_id: Some(ScheduleId(world.id())),
        scheduled_for: Some(Timestamp::from_secs(1_800_000_000)),
        cancel_on: Some("issues.*".to_owned()),
        owner: Some("ops@acme.example".to_owned()),
        parent_id: Some("job_1".to_owned()),
        hops: 3,
        trace: Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned()),
        order_key: Some("order 7".to_owned()),
        superseded_by: Some("job_2".to_owned()),
        mode: Some(Mode::Draft),
        flags: vec!["late".to_owned()],
        name: Some("triage".to_owned()),
        callback: Some(OwnCallback { url: "https://a.example/x".to_owned(), trusted: true }),
        callback_lane: Some(inbox.lane),
    };
    let draft = world.job(&inbox).of_kind(WorkKind::Callback).of_event(event).about("zd:ticket:9");
    let mut new = draft.with_meta(meta.clone()).with_input("{\"n\":1}").tried_at_most(7).build();
    new.scope = Some(scope);
    let work = world.created(new).await;
    let row = world.row(inbox.tenant, work).await;
    assert_eq!((row.id, row.tenant, row.kind), (work, inbox.tenant, WorkKind::Callback));
    assert_eq!((row.lane, row.state), (inbox.lane, State::Pending));
    assert_near(row.run_at, world.now().await);
    assert_eq!((row.attempts, row.max_attempts, row.fence), (0, 7, 0));
    assert_eq!((row.event, row.scope), (Some(event), scope));
    assert_eq!((row.subject.as_deref(), row.meta), (Some("zd:ticket:9"), meta));
    assert_eq!(world.kept(work).await.input, Some(sealed("{\"n\":1}")));
}

pub async fn an_item_has_its_own_scope_unless_told_otherwise(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let work = world.created(world.job(&inbox)).await;
    let row = world.row(inbox.tenant, work).await;
    assert_eq!((row.scope, row.event, row.max_attempts), (work.0, None, ATTEMPTS));
    assert_eq!(row.meta, WorkMeta::default());
    assert!(world.store.job_states(vec![work]).await.unwrap().is_empty());
}

pub async fn an_item_for_later_is_scheduled(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let now = world.now().await;
    let later = now.after(Duration::from_secs(3600));
    let work = world.created(world.job(&inbox).at(later)).await;
    let row = world.row(inbox.tenant, work).await;
    assert_eq!((row.state, row.run_at), (State::Scheduled, later));
    let past = world.created(world.job(&inbox).at(now.before(Duration::from_secs(3600)))).await;
    let row = world.row(inbox.tenant, past).await;
    assert_eq!(row.state, State::Pending);
    assert_eq!(world.claim(&inbox).one().await.ticket.work, past);
}

pub async fn items_are_made_all_or_none(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let taken = world.created(world.job(&inbox)).await;
    let until = world.now().await.after(Duration::from_secs(3600));
    let keyed = world.job(&inbox).with_key("a", until).with_input("x").build();
    let impossible = world.job(&inbox).with_id(taken).build();
    let last = world.job(&inbox).build();
    let ids = [keyed.id, last.id];
    let refused = world.store.create_work(vec![keyed, impossible, last], None).await;
    assert!(refused.is_err(), "{refused:?}");
    for id in ids {
        assert_eq!(world.store.work(inbox.tenant, id).await.unwrap(), None);
    }
    assert!(world.store.job_states(ids.to_vec()).await.unwrap().is_empty());
    let retry = world.job(&inbox).with_key("a", until).build();
    let own = retry.id;
    assert_eq!(world.created(retry).await, own, "its key is free");
}

pub async fn a_repeat_of_a_key_is_answered_with_the_first_item(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let theirs = world.inbox_of(world.tenant("theirs").await).await;
    let until = world.now().await.after(Duration::from_secs(1000));
    let draft = || world.job(&inbox).with_key("a", until);
    let first = world.created(draft()).await;
    let fresh = world.job(&inbox).with_key("b", until).build();
    let copy = world.job(&inbox).with_key("b", until).build();
    let own = fresh.id;
    let batch = vec![draft().build(), fresh, copy, draft().build()];
    let ids: Vec<WorkId> = batch.iter().map(|new| new.id).collect();
    let answer = world.store.create_work(batch, None).await.unwrap();
    assert_eq!(answer, Once::Now(vec![first, own, own, first]));
    for id in [ids[0], ids[2], ids[3]] {
        assert_eq!(world.store.work(inbox.tenant, id).await.unwrap(), None);
    }
    world.created(world.job(&theirs).with_key("a", until)).await;
    world.run_to(&inbox, Ending::Succeeded).await;
    let again = world.store.create_work(vec![draft().build()], None).await.unwrap();
    assert_eq!(again, Once::Now(vec![first]), "also after it ended");
    world.advance_s(1001).await;
    let next = world.job(&inbox).with_key("a", until.after(Duration::from_secs(5000)));
    assert_ne!(world.created(next).await, first);
}

pub async fn many_repeats_of_a_key_at_once_make_one_item(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let until = world.now().await.after(Duration::from_secs(1000));
    let mut calls = Vec::new();
    for turn in 0..40 {
        // Two keys in both orders, so that two calls meet each other from both ends.
        let keys = if turn % 4 < 2 { ["a", "b"] } else { ["b", "a"] };
        let batch: Vec<NewWork> =
            keys.map(|key| world.job(&inbox).with_key(key, until).build()).into();
        let node = world.node(turn);
        calls.push(tokio::spawn(async move {
            match node.create_work(batch, None).await.unwrap() {
                Once::Now(ids) if keys[0] == "a" => (ids[0], ids[1]),
                Once::Now(ids) => (ids[1], ids[0]),
                Once::Before(_) => unreachable!("no idempotency key was given"),
            }
        }));
    }
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let rows = world.store.work_list(inbox.tenant, Default::default(), ALL).await.unwrap();
    assert_eq!(rows.len(), 2);
}

pub async fn a_waiting_item_is_cancelled_at_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let later = world.now().await.after(Duration::from_secs(3600));
    let held = world.ended(&inbox, Ending::Held(HeldReason::Budget)).await;
    let retrying = world.ended(&inbox, failed_for_s(500)).await;
    let pending = world.accepted(&inbox).await;
    let scheduled = world.created(world.job(&inbox).at(later)).await;
    for work in [held, retrying, pending, scheduled] {
        let runs = world.store.runs(inbox.tenant, work).await.unwrap();
        let audit = world.audit(inbox.tenant, "job.cancel");
        let outcome = world.store.cancel(inbox.tenant, work, audit).await.unwrap();
        assert_eq!(outcome, CancelOutcome::Cancelled { next_in_order: None });
        let row = world.row(inbox.tenant, work).await;
        assert_eq!((row.state, row.lease_expires_at), (State::Cancelled, None));
        assert_near(row.finished_at.unwrap(), world.now().await);
        assert_eq!(world.store.runs(inbox.tenant, work).await.unwrap(), runs, "no run ended");
    }
    world.advance_s(4000).await;
    assert!(world.claim(&inbox).up_to(10).take().await.is_empty());
    assert_eq!(world.actions(inbox.tenant).await, ["job.cancel"; 4]);
}

pub async fn a_finished_item_cannot_be_cancelled(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for ending in [Ending::Succeeded, given_up(), Ending::Cancelled] {
        let work = world.ended(&inbox, ending).await;
        let before = world.picture(inbox.tenant, work).await;
        let audit = world.audit(inbox.tenant, "job.cancel");
        assert_invalid(world.store.cancel(inbox.tenant, work, audit).await);
        assert_eq!(world.picture(inbox.tenant, work).await, before);
    }
    assert!(world.actions(inbox.tenant).await.is_empty(), "what did not happen is not on record");
}

pub async fn only_a_held_item_is_released(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let held = world.ended(&inbox, Ending::Held(HeldReason::HopLimit)).await;
    let retrying = world.ended(&inbox, failed_for_s(500)).await;
    let done = world.ended(&inbox, Ending::Succeeded).await;
    let running = world.running(&inbox).await.ticket.work;
    let pending = world.accepted(&inbox).await;
    for work in [retrying, done, running, pending] {
        let before = world.picture(inbox.tenant, work).await;
        let audit = world.audit(inbox.tenant, "job.release");
        assert_invalid(world.store.release(inbox.tenant, work, audit).await);
        assert_eq!(world.picture(inbox.tenant, work).await, before);
    }
    world.advance_s(77).await;
    let audit = world.audit(inbox.tenant, "job.release");
    let lane = world.store.release(inbox.tenant, held, audit).await.unwrap();
    assert_eq!(lane, inbox.lane);
    let row = world.row(inbox.tenant, held).await;
    assert_eq!((row.state, row.held, row.attempts), (State::Pending, None, 0));
    assert_near(row.run_at, world.now().await);
    assert_eq!(world.actions(inbox.tenant).await, ["job.release"]);
    let audit = world.audit(inbox.tenant, "job.release");
    assert_invalid(world.store.release(inbox.tenant, held, audit).await);
}

pub async fn of_a_claim_and_a_cancel_at_once_both_can_be_true(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for _ in 0..10 {
        let work = world.accepted(&inbox).await;
        let claim = tokio::spawn(world.claim(&inbox).on(world.other.clone()).take());
        let audit = world.audit(inbox.tenant, "job.cancel");
        let outcome = world.store.cancel(inbox.tenant, work, audit).await.unwrap();
        let claimed = claim.await.unwrap();
        let row = world.row(inbox.tenant, work).await;
        match outcome {
            CancelOutcome::Cancelled { .. } => {
                assert_eq!((row.state, claimed.len()), (State::Cancelled, 0));
            }
            CancelOutcome::Requested => {
                assert_eq!((row.state, row.cancel_requested), (State::Running, true));
                world.finish(&claimed[0].ticket, Ending::Cancelled).await;
            }
        }
    }
}

pub async fn nobody_moves_work_of_another_tenant(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let stranger = world.tenant("stranger").await;
    let held = world.ended(&inbox, Ending::Held(HeldReason::Budget)).await;
    let before = world.picture(inbox.tenant, held).await;
    let audit = world.audit(stranger, "job.cancel");
    assert_not_found(world.store.cancel(stranger, held, audit).await);
    let audit = world.audit(stranger, "job.release");
    assert_not_found(world.store.release(stranger, held, audit).await);
    assert_not_found(
        world.store.cancel(stranger, WorkId(world.id()), world.audit(stranger, "x")).await,
    );
    assert_eq!(world.picture(inbox.tenant, held).await, before);
    assert_eq!(world.actions(stranger).await, ["tenant.create"]);
}
