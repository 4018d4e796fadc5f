//! An event's status: that of its work, the most telling first.

use std::time::Duration;

use wakepost_domain::event::status;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State};
use wakepost_domain::{EventId, WorkId};

use super::Harness;
use super::drafts::Inbox;
use super::reading_events::newest_first;
use super::world::{ALL, World, failed_for_s, given_up};
use crate::moves::{EventFilter, EventRow, Replay, ReplayFrom};

fn status_of(row: &EventRow) -> &'static str {
    status(row.event.route, row.work.iter().copied())
}

/// One event for each status there is, by name.
async fn one_of_each<H: Harness>(
    world: &World<'_, H>,
    inbox: &Inbox,
) -> Vec<(&'static str, EventId)> {
    let later = world.now().await.after(Duration::from_secs(5000));
    let mut events = vec![
        ("retrying", EventId(world.ended(inbox, failed_for_s(500)).await.0)),
        ("held", EventId(world.ended(inbox, Ending::Held(HeldReason::Budget)).await.0)),
        ("dead_letter", EventId(world.ended(inbox, given_up()).await.0)),
        ("cancelled", EventId(world.ended(inbox, Ending::Cancelled).await.0)),
        ("succeeded", EventId(world.ended(inbox, Ending::Succeeded).await.0)),
        ("running", EventId(world.running(inbox).await.ticket.work.0)),
        ("ignored", world.keep(world.event(inbox).ignored()).await),
        ("unmapped", world.keep(world.event(inbox).unmapped()).await),
    ];
    let scheduled = world.keep(world.event(inbox).ignored()).await;
    world.created(world.job(inbox).of_event(scheduled).at(later)).await;
    events.push(("scheduled", scheduled));
    events.push(("pending", EventId(world.accepted(inbox).await.0)));
    events
}

pub async fn events_are_found_by_status(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let other = world.inbox_of(world.tenant("other").await).await;
    let events = one_of_each(&world, &inbox).await;
    one_of_each(&world, &other).await;
    for (status, event) in &events {
        assert_eq!(world.with_status(inbox.tenant, status).await, [*event], "{status}");
    }
    assert!(world.with_status(inbox.tenant, "awaiting_approval").await.is_empty());
    assert!(world.with_status(inbox.tenant, "no such word").await.is_empty());
    for row in world.store.events(inbox.tenant, EventFilter::default(), ALL).await.unwrap() {
        let (expected, _) = events.iter().find(|(_, id)| *id == row.event.id).unwrap();
        assert_eq!(status_of(&row), *expected);
    }
}

pub async fn the_most_telling_work_gives_an_event_its_status(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let done = EventId(world.ended(&inbox, Ending::Succeeded).await.0);
    let mixed = EventId(world.ended(&inbox, Ending::Succeeded).await.0);
    world.created(world.job(&inbox).of_event(mixed)).await;
    assert_eq!(world.with_status(inbox.tenant, "pending").await, [mixed]);
    assert_eq!(world.with_status(inbox.tenant, "succeeded").await, [done]);
    world.run_to(&inbox, failed_for_s(500)).await;
    assert_eq!(world.with_status(inbox.tenant, "retrying").await, [mixed]);
    assert!(world.with_status(inbox.tenant, "pending").await.is_empty());
    let of_mixed = world.store.work_of_event(inbox.tenant, mixed).await.unwrap();
    let states: Vec<State> = of_mixed.iter().map(|row| row.state).collect();
    assert_eq!(states, [State::Succeeded, State::Retrying], "oldest first");
    let rows = world.store.events(inbox.tenant, EventFilter::default(), ALL).await.unwrap();
    assert_eq!(rows[0].work, [State::Succeeded, State::Retrying]);
}

pub async fn work_that_was_replayed_counts_no_more(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let work = world.ended(&inbox, given_up()).await;
    let event = EventId(work.0);
    assert_eq!(world.with_status(inbox.tenant, "dead_letter").await, [event]);
    let again = world.replayed(inbox.tenant, work, false).await;
    assert!(world.with_status(inbox.tenant, "dead_letter").await.is_empty());
    assert_eq!(world.with_status(inbox.tenant, "pending").await, [event]);
    world.run_to(&inbox, Ending::Succeeded).await;
    assert_eq!(world.with_status(inbox.tenant, "succeeded").await, [event]);
    let rows = world.store.events(inbox.tenant, EventFilter::default(), ALL).await.unwrap();
    assert_eq!(rows[0].work, [State::Succeeded]);
    let all = world.store.work_of_event(inbox.tenant, event).await.unwrap();
    assert_eq!(all.iter().map(|row| row.id).collect::<Vec<_>>(), [work, again]);
}

pub async fn an_event_whose_first_work_is_a_replay_has_its_status(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let event = world.keep(world.event(&inbox).unmapped()).await;
    let replay = Replay {
        tenant: inbox.tenant,
        from: ReplayFrom::Event(event, inbox.lane),
        id: WorkId(world.id()),
        fresh_scope: false,
        input: None,
        callback_lane: None,
        max_attempts: 3,
        audit: world.audit(inbox.tenant, "event.replay"),
    };
    world.store.replay(replay, None).await.unwrap();
    assert!(world.with_status(inbox.tenant, "unmapped").await.is_empty());
    assert_eq!(world.with_status(inbox.tenant, "pending").await, [event]);
    world.run_to(&inbox, Ending::Succeeded).await;
    assert_eq!(world.with_status(inbox.tenant, "succeeded").await, [event]);
}

/// The status is decided after the rows were narrowed: a page must still be full, or the last.
pub async fn pages_of_a_status_are_full_until_the_last(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut dead = Vec::new();
    for turn in 0..12 {
        let work = world.ended(&inbox, given_up()).await;
        if turn % 3 != 1 {
            let again = world.replayed(inbox.tenant, work, false).await;
            let ending = if turn % 3 == 0 { Ending::Succeeded } else { given_up() };
            assert_eq!(world.run_to(&inbox, ending).await.ticket.work, again);
        }
        if turn % 3 != 0 {
            dead.push(EventId(work.0));
        }
    }
    let status = Some("dead_letter".to_owned());
    let filter = EventFilter { status, ..EventFilter::default() };
    for limit in [1, 3, 8, 100] {
        assert_eq!(world.leaf(inbox.tenant, &filter, limit).await, newest_first(dead.clone()));
    }
}
