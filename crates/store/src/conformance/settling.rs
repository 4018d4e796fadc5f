//! Settling: each end of a run moves its item once, and leaves one record of the run.

use std::time::Duration;

use wakepost_domain::lease::Ticket;
use wakepost_domain::run::RunOutcome;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State};
use wakepost_domain::{EventId, WorkId};

use super::Harness;
use super::drafts::end;
use super::world::{World, assert_lost, assert_near, failed, failed_for_s, given_up, sealed};
use crate::error::StoreError;
use crate::moves::{CancelOutcome, Evidence, Expanded, Settle, Settled};

const ENDINGS: [Ending; 5] = [
    Ending::Succeeded,
    Ending::Failed { retryable: true, retry_after: Some(Duration::from_secs(50)) },
    Ending::Failed { retryable: false, retry_after: None },
    Ending::HandedBack,
    Ending::Held(HeldReason::UnknownKind),
];

pub async fn success_ends_an_item_and_keeps_its_result(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    let (ticket, work) = (claimed.ticket, claimed.ticket.work);
    world.advance_s(30).await;
    let evidence = Evidence {
        result: Some(sealed("42")),
        reply: Some(sealed("It is 42.")),
        cost: Some(0.75),
        detail: None,
    };
    let settled = world.settle(Settle { evidence, ..end(&ticket, Ending::Succeeded) }).await;
    let now = world.now().await;
    let expected = Settled {
        state: State::Succeeded,
        lane: inbox.lane,
        next_in_order: None,
        freed_cap: false,
        repeated: false,
    };
    assert_eq!(settled.unwrap(), expected);
    let row = world.row(inbox.tenant, work).await;
    assert_eq!((row.state, row.attempts, row.fence), (State::Succeeded, 1, 1));
    assert_eq!((row.lease_expires_at, row.last_error, row.replayed_as), (None, None, None));
    assert_eq!(row.worker.as_deref(), Some("ada"));
    assert_near(row.finished_at.unwrap(), now);
    let kept = world.kept(work).await;
    assert_eq!((kept.result, kept.reply), (Some(sealed("42")), Some(sealed("It is 42."))));
    assert_eq!(kept.cost, Some(0.75));
    let runs = world.store.runs(inbox.tenant, work).await.unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].id, runs[0].attempt), (ticket.run_id(), 1));
    assert_eq!((runs[0].outcome, &runs[0].error), (RunOutcome::Succeeded, &None));
    assert_eq!((runs[0].worker.as_str(), runs[0].started_at), ("ada", ticket.started_at));
    assert_near(runs[0].ended_at, now);
}

pub async fn a_failed_run_waits_for_its_delay(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.running(&inbox).await.ticket;
    let settled = world.finish(&ticket, failed_for_s(500)).await;
    assert_eq!(settled.state, State::Retrying);
    let row = world.row(inbox.tenant, ticket.work).await;
    assert_eq!((row.state, row.attempts, row.fence), (State::Retrying, 1, 1));
    assert_near(row.run_at, world.now().await.after(Duration::from_secs(500)));
    assert_eq!(row.last_error, end(&ticket, failed_for_s(500)).error);
    assert_eq!((row.lease_expires_at, row.finished_at), (None, None));
    world.advance_s(450).await;
    assert!(world.claim(&inbox).take().await.is_empty());
    world.advance_s(51).await;
    let again = world.claim(&inbox).one().await.ticket;
    assert_eq!((again.work, again.attempt, again.fence), (ticket.work, 2, 2));
}

pub async fn the_last_failure_makes_a_dead_letter(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let work = world.created(world.job(&inbox).tried_at_most(3)).await;
    for _ in 0..3 {
        world.run_to(&inbox, failed()).await;
    }
    let row = world.row(inbox.tenant, work).await;
    assert_eq!((row.state, row.attempts, row.max_attempts), (State::DeadLetter, 3, 3));
    assert!(row.last_error.is_some() && row.finished_at.is_some());
    let runs = world.store.runs(inbox.tenant, work).await.unwrap();
    let attempts: Vec<_> = runs.iter().map(|run| (run.attempt, run.outcome)).collect();
    assert_eq!(attempts, [1, 2, 3].map(|attempt| (attempt, RunOutcome::Failed)));
    assert!(world.claim(&inbox).take().await.is_empty());
}

pub async fn a_hand_back_gives_the_attempt_back(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.running(&inbox).await.ticket;
    assert_eq!(world.finish(&ticket, Ending::HandedBack).await.state, State::Pending);
    let row = world.row(inbox.tenant, ticket.work).await;
    assert_eq!((row.state, row.attempts, row.fence), (State::Pending, 0, 1));
    let again = world.claim(&inbox).one().await.ticket;
    assert_eq!((again.work, again.attempt, again.fence), (ticket.work, 1, 2));
    let runs = world.store.runs(inbox.tenant, ticket.work).await.unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].attempt, runs[0].outcome), (1, RunOutcome::HandedBack));
}

pub async fn a_held_item_waits_for_an_operator(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let reasons =
        [HeldReason::InDoubt, HeldReason::HopLimit, HeldReason::Budget, HeldReason::UnknownKind];
    for reason in reasons {
        let work = world.ended(&inbox, Ending::Held(reason)).await;
        let row = world.row(inbox.tenant, work).await;
        assert_eq!((row.state, row.held), (State::Held, Some(reason)));
        assert_eq!((row.attempts, row.fence, row.lease_expires_at), (0, 1, None));
        assert!(world.claim(&inbox).take().await.is_empty());
    }
}

pub async fn the_same_end_told_again_changes_nothing(harness: &impl Harness) {
    let world = World::new(harness).await;
    for ending in ENDINGS {
        let inbox = world.inbox().await;
        let ticket = world.running(&inbox).await.ticket;
        let first = world.settle(end(&ticket, ending)).await.unwrap();
        let before = world.picture(inbox.tenant, ticket.work).await;
        assert_eq!(before.runs.len(), 1);
        world.advance_s(1).await;
        for node in [&world.store, &world.other] {
            let again = node.settle(vec![end(&ticket, ending)]).await.remove(0).unwrap();
            assert_eq!(again, Settled { repeated: true, ..first }, "{ending:?}");
        }
        assert_eq!(world.picture(inbox.tenant, ticket.work).await, before, "{ending:?}");
    }
}

/// The answer got lost, and the lease would have run out meanwhile.
pub async fn the_same_end_told_again_much_later_changes_nothing(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.running(&inbox).await.ticket;
    world.finish(&ticket, Ending::Succeeded).await;
    world.advance_s(100_000).await;
    let again = world.settle(end(&ticket, Ending::Succeeded)).await.unwrap();
    assert_eq!((again.state, again.repeated), (State::Succeeded, true));
}

pub async fn another_end_with_the_same_lease_is_lost(harness: &impl Harness) {
    let world = World::new(harness).await;
    for first in ENDINGS {
        let inbox = world.inbox().await;
        let ticket = world.running(&inbox).await.ticket;
        world.finish(&ticket, first).await;
        let before = world.picture(inbox.tenant, ticket.work).await;
        for other in ENDINGS.into_iter().filter(|other| *other != first) {
            assert_lost(world.settle(end(&ticket, other)).await);
        }
        assert_eq!(world.picture(inbox.tenant, ticket.work).await, before, "{first:?}");
    }
}

pub async fn ends_are_answered_one_by_one(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut tickets = Vec::new();
    for _ in 0..4 {
        tickets.push(world.running(&inbox).await.ticket);
    }
    let stale = Ticket { fence: 9, ..tickets[1] };
    let batch = vec![
        end(&tickets[0], Ending::Succeeded),
        end(&stale, Ending::Succeeded),
        end(&tickets[2], given_up()),
        end(&tickets[0], Ending::Succeeded),
        end(&tickets[2], Ending::Succeeded),
        end(&tickets[3], failed()),
    ];
    let answers = world.store.settle(batch).await;
    let seen: Vec<Option<(State, bool)>> = answers
        .into_iter()
        .map(|answer| match answer {
            Ok(settled) => Some((settled.state, settled.repeated)),
            Err(StoreError::LeaseLost) => None,
            Err(error) => panic!("{error}"),
        })
        .collect();
    let expected = [
        Some((State::Succeeded, false)),
        None,
        Some((State::DeadLetter, false)),
        Some((State::Succeeded, true)),
        None,
        Some((State::Retrying, false)),
    ];
    assert_eq!(seen, expected);
    assert_eq!(world.state(inbox.tenant, tickets[1].work).await, State::Running);
    assert!(world.store.settle(vec![]).await.is_empty());
}

pub async fn plain_successes_and_others_end_together_each_in_its_way(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let lane = world.callback_lane(inbox.tenant).await;
    let cap = inbox.source_cap(2);
    for with_cost in [false, true] {
        let before = world.running(&inbox).await.ticket;
        let told = with_result(&before);
        world.settle(told.clone()).await.unwrap();
        let plain = [world.running(&inbox).await.ticket, world.running(&inbox).await.ticket];
        world.accept(world.event(&inbox).calling_back(lane).build()).await;
        let called = world.claim(&inbox).one().await.ticket;
        world.accepted(&inbox).await;
        let capped = world.claim(&inbox).capped(cap).one().await.ticket;
        let asked = world.running(&inbox).await.ticket;
        let audit = world.audit(inbox.tenant, "job.cancel");
        let outcome = world.store.cancel(inbox.tenant, asked.work, audit).await.unwrap();
        assert_eq!(outcome, CancelOutcome::Requested);
        let lost = world.running(&inbox).await.ticket;
        let stale = Ticket { fence: lost.fence + 1, ..lost };
        let costly = world.running(&inbox).await.ticket;

        let succeeded = [plain[0], called, capped, asked, plain[1]];
        let mut ends: Vec<Settle> = succeeded.iter().map(with_result).collect();
        ends.insert(2, with_result(&stale));
        ends.insert(1, told);
        if with_cost {
            let mut end = with_result(&costly);
            end.evidence.cost = Some(0.5);
            ends.push(end);
        }
        let settled = world.store.settle(ends).await;
        let of = |index: usize| {
            settled[index]
                .as_ref()
                .map(|settled| (settled.state, settled.freed_cap, settled.repeated))
                .ok()
        };
        let ended = Some((State::Succeeded, false, false));
        assert_eq!((of(0), of(2), of(5), of(6)), (ended, ended, ended, ended));
        assert_eq!(of(1), Some((State::Succeeded, false, true)), "told again");
        assert_lost(settled[3].clone());
        assert_eq!(of(4), Some((State::Succeeded, true, false)), "the capped one");
        for ticket in succeeded {
            let row = world.row(inbox.tenant, ticket.work).await;
            assert_eq!((row.state, row.fence), (State::Succeeded, ticket.fence));
            assert_near(row.finished_at.unwrap(), world.now().await);
            assert_eq!(world.kept(ticket.work).await.result, Some(sealed("42")));
        }
        world.callback_of(inbox.tenant, called.work).await;
        let row = world.row(inbox.tenant, lost.work).await;
        assert_eq!((row.state, row.fence), (State::Running, lost.fence), "it runs on");
        let of_costly =
            (world.state(inbox.tenant, costly.work).await, world.kept(costly.work).await.cost);
        let expected = match with_cost {
            true => (State::Succeeded, Some(0.5)),
            false => (State::Running, None),
        };
        assert_eq!(of_costly, expected);
        // The place under the cap is free again, and only once.
        world.accepted_many(&inbox, 3).await;
        let next = world.claim(&inbox).capped(cap).up_to(3).take().await;
        assert_eq!(next.len(), 2);
        for claimed in next {
            world.finish(&claimed.ticket, Ending::Succeeded).await;
        }
        world.run_to_end(&inbox).await;
    }
}

fn with_result(ticket: &Ticket) -> Settle {
    let evidence = Evidence { result: Some(sealed("42")), ..Evidence::default() };
    Settle { evidence, ..end(ticket, Ending::Succeeded) }
}

pub async fn one_end_told_many_times_at_once_happens_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.running(&inbox).await.ticket;
    let mut calls = Vec::new();
    for turn in 0..30 {
        let node = world.node(turn);
        calls.push(tokio::spawn(async move {
            node.settle(vec![end(&ticket, failed_for_s(50))]).await.remove(0).unwrap()
        }));
    }
    let mut firsts = 0;
    for call in calls {
        let settled = call.await.unwrap();
        assert_eq!(settled.state, State::Retrying);
        firsts += usize::from(!settled.repeated);
    }
    assert_eq!(firsts, 1);
    assert_eq!(world.store.runs(inbox.tenant, ticket.work).await.unwrap().len(), 1);
    assert_eq!(world.row(inbox.tenant, ticket.work).await.attempts, 1);
}

pub async fn of_different_ends_at_once_one_happens(harness: &impl Harness) {
    let world = World::new(harness).await;
    for _ in 0..5 {
        let inbox = world.inbox().await;
        let ticket = world.running(&inbox).await.ticket;
        let mut calls = Vec::new();
        for turn in 0..20 {
            let (node, ending) = (world.node(turn), ENDINGS[turn % ENDINGS.len()]);
            calls.push(tokio::spawn(async move {
                node.settle(vec![end(&ticket, ending)]).await.remove(0)
            }));
        }
        let mut won = Vec::new();
        for call in calls {
            match call.await.unwrap() {
                Ok(settled) => won.push(settled),
                Err(StoreError::LeaseLost) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let state = world.state(inbox.tenant, ticket.work).await;
        assert_eq!(won.iter().filter(|settled| !settled.repeated).count(), 1);
        assert!(won.iter().all(|settled| settled.state == state));
        assert_eq!(world.store.runs(inbox.tenant, ticket.work).await.unwrap().len(), 1);
    }
}

pub async fn many_items_end_at_once_each_with_its_own_record(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.accepted_many(&inbox, 200).await;
    let claimed = world.claim(&inbox).up_to(200).take().await;
    let works: Vec<WorkId> = claimed.iter().map(|item| item.ticket.work).collect();
    let mut calls = Vec::new();
    for (turn, part) in claimed.chunks(9).enumerate() {
        let batch: Vec<Settle> =
            part.iter().map(|item| end(&item.ticket, Ending::Succeeded)).collect();
        let node = world.node(turn);
        calls.push(tokio::spawn(async move { node.settle(batch).await }));
    }
    for call in calls {
        assert!(call.await.unwrap().into_iter().all(|answer| !answer.unwrap().repeated));
    }
    for work in works {
        assert_eq!(world.state(inbox.tenant, work).await, State::Succeeded);
        assert_eq!(world.store.runs(inbox.tenant, work).await.unwrap().len(), 1);
    }
}

pub async fn an_expanded_event_goes_on_in_its_new_lane_with_all_its_attempts(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let (before, after) = (world.inbox().await, world.inbox().await);
    let work = world.accepted(&before).await;
    world.run_to(&before, failed()).await;
    let ticket = world.claim(&before).one().await.ticket;
    assert_eq!((ticket.work, ticket.attempt), (work, 2));
    let expanded = Expanded {
        event: EventId(work.0),
        content: sealed("whole"),
        thread: Some("ada::root".to_owned()),
        lane: after.lane,
    };
    let told = Settle { expanded: Some(expanded), ..end(&ticket, Ending::HandedBack) };
    let settled = world.settle(told.clone()).await.unwrap();
    assert_eq!((settled.state, settled.lane), (State::Pending, after.lane));
    let again = world.settle(told).await.unwrap();
    assert_eq!(again, Settled { repeated: true, ..settled });
    let row = world.row(before.tenant, work).await;
    assert_eq!((row.lane, row.attempts, row.fence), (after.lane, 0, 2));
    assert!(world.claim(&before).take().await.is_empty());
    let next = world.claim(&after).one().await.ticket;
    assert_eq!((next.work, next.attempt, next.fence), (work, 1, 3));
    let bodies = world.other.contents(vec![EventId(work.0)]).await.unwrap();
    assert_eq!(bodies, [(EventId(work.0), sealed("whole"))]);
    let thread = world.stored(before.tenant, EventId(work.0)).await.thread;
    assert_eq!(thread.as_deref(), Some("ada::root"));
}

pub async fn what_was_fetched_is_kept_with_the_end_of_its_run_and_not_without(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let (before, after) = (world.inbox().await, world.inbox().await);
    let body = async |work: WorkId| {
        let mut bodies = world.store.contents(vec![EventId(work.0)]).await.unwrap();
        bodies.pop().map(|(_, content)| content)
    };
    let stale = world.running(&before).await.ticket;
    let event = EventId(stale.work.0);
    world.advance_s(100_000).await;
    let expanded = Expanded { event, content: sealed("late"), thread: None, lane: after.lane };
    let told = Settle { expanded: Some(expanded), ..end(&stale, Ending::HandedBack) };
    assert_lost(world.settle(told).await);
    assert_ne!(body(stale.work).await, Some(sealed("late")));

    let other = world.inbox().await;
    let ticket = world.running(&other).await.ticket;
    let expanded = Expanded {
        event: EventId(ticket.work.0),
        content: sealed("bulk"),
        thread: None,
        lane: after.lane,
    };
    let told = Settle { expanded: Some(expanded), ..end(&ticket, Ending::Cancelled) };
    let settled = world.settle(told).await.unwrap();
    assert_eq!((settled.state, settled.lane), (State::Cancelled, other.lane));
    assert_eq!(body(ticket.work).await, Some(sealed("bulk")));
    assert!(world.claim(&after).take().await.is_empty());
}
