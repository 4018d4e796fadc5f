//! Reading events: newest first, page by page, filtered, and never another tenant's.

use std::time::Duration;

use wakepost_domain::event::status;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State};
use wakepost_domain::{EventId, SourceId, TenantId, WorkId};

use super::Harness;
use super::drafts::{EventDraft, Inbox};
use super::world::{ALL, World, failed_for_s, given_up};
use crate::moves::{Cursor, EventFilter, EventRow, Page, Replay, ReplayFrom};

impl<H: Harness> World<'_, H> {
    async fn keep(&self, draft: EventDraft) -> EventId {
        let new = draft.build();
        let id = new.event.id;
        self.accept(new).await;
        id
    }

    async fn found(&self, tenant: TenantId, filter: EventFilter) -> Vec<EventId> {
        let rows = self.store.events(tenant, filter, ALL).await.unwrap();
        rows.into_iter().map(|row| row.event.id).collect()
    }

    async fn with_status(&self, tenant: TenantId, status: &str) -> Vec<EventId> {
        let status = Some(status.to_owned());
        self.found(
            tenant,
            EventFilter {
                status,
                ..EventFilter::default()
            },
        )
        .await
    }

    /// Everything a filter finds, gathered in pages of this size.
    async fn leaf(&self, tenant: TenantId, filter: &EventFilter, limit: u32) -> Vec<EventId> {
        let mut seen = Vec::new();
        let mut page: Cursor = Page {
            before: None,
            limit,
        };
        loop {
            let rows = self
                .store
                .events(tenant, filter.clone(), page)
                .await
                .unwrap();
            assert!(rows.len() <= limit as usize);
            page.before = rows.last().map(|row| row.event.id.0);
            seen.extend(rows.iter().map(|row| row.event.id));
            if rows.len() < limit as usize {
                return seen;
            }
        }
    }
}

fn newest_first(mut ids: Vec<EventId>) -> Vec<EventId> {
    ids.sort();
    ids.reverse();
    ids
}

fn status_of(row: &EventRow) -> &'static str {
    status(row.event.route, row.work.iter().copied())
}

pub async fn events_are_listed_newest_first_with_their_work(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let done = EventId(world.ended(&inbox, Ending::Succeeded).await.0);
    world.advance_s(10).await;
    let ignored = world.keep(world.event(&inbox).ignored()).await;
    world.advance_s(10).await;
    let waiting = EventId(world.accepted(&inbox).await.0);
    let rows = world
        .store
        .events(inbox.tenant, EventFilter::default(), ALL)
        .await
        .unwrap();
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (row.event.id, row.work.clone()))
        .collect();
    let expected = [
        (waiting, vec![State::Pending]),
        (ignored, vec![]),
        (done, vec![State::Succeeded]),
    ];
    assert_eq!(seen, expected);
    assert_eq!(rows[1].event, world.stored(inbox.tenant, ignored).await);
}

pub async fn pages_neither_skip_nor_repeat(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let other = world.inbox_of(world.tenant("other").await).await;
    let mut kept = Vec::new();
    for turn in 0..23 {
        kept.push(world.keep(world.event(&inbox)).await);
        world.keep(world.event(&other)).await;
        if turn % 5 == 0 {
            world.advance_s(1).await;
        }
    }
    let kept = newest_first(kept);
    for limit in [1, 5, 23, 24] {
        assert_eq!(
            world
                .leaf(inbox.tenant, &EventFilter::default(), limit)
                .await,
            kept
        );
    }
}

pub async fn what_arrives_while_paging_does_not_disturb_it(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut kept = Vec::new();
    for _ in 0..6 {
        kept.push(world.keep(world.event(&inbox)).await);
    }
    let kept = newest_first(kept);
    let first = Page {
        before: None,
        limit: 3,
    };
    let rows = world
        .store
        .events(inbox.tenant, EventFilter::default(), first)
        .await
        .unwrap();
    world.advance_s(5).await;
    world.keep(world.event(&inbox)).await;
    let next = Page {
        before: rows.last().map(|row| row.event.id.0),
        limit: 10,
    };
    let rest = world
        .store
        .events(inbox.tenant, EventFilter::default(), next)
        .await
        .unwrap();
    let rest: Vec<EventId> = rest.into_iter().map(|row| row.event.id).collect();
    assert_eq!(rest, kept[3..]);
}

pub async fn events_are_found_by_source(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (a, b, c) = (
        world.inbox().await,
        world.inbox().await,
        world.inbox().await,
    );
    let mut kept = Vec::new();
    for inbox in [&a, &b, &c] {
        kept.push(world.keep(world.event(inbox)).await);
    }
    let of = |sources: Vec<SourceId>| EventFilter {
        sources: Some(sources),
        ..Default::default()
    };
    assert_eq!(world.found(a.tenant, of(vec![b.source])).await, [kept[1]]);
    assert_eq!(
        world.found(a.tenant, of(vec![c.source, a.source])).await,
        [kept[2], kept[0]]
    );
    assert!(world.found(a.tenant, of(vec![])).await.is_empty());
    assert!(
        world
            .found(a.tenant, of(vec![SourceId(world.id())]))
            .await
            .is_empty()
    );
}

pub async fn events_are_found_by_type_exactly_or_by_its_beginning(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let types = [
        "issues.opened",
        "issues.closed",
        "issues_x",
        "pull.issues.",
        "issues%",
        "É.x",
    ];
    let mut kept = Vec::new();
    for event_type in types {
        kept.push(world.keep(world.event(&inbox).of_type(event_type)).await);
    }
    let of = |text: &str| EventFilter {
        event_type: Some(text.to_owned()),
        ..Default::default()
    };
    assert_eq!(
        world.found(inbox.tenant, of("issues.opened")).await,
        [kept[0]]
    );
    assert!(world.found(inbox.tenant, of("issues")).await.is_empty());
    assert_eq!(
        world.found(inbox.tenant, of("issues.*")).await,
        [kept[1], kept[0]]
    );
    assert_eq!(
        world.found(inbox.tenant, of("issues%*")).await,
        [kept[4]],
        "no pattern inside"
    );
    assert_eq!(
        world.found(inbox.tenant, of("issues_*")).await,
        [kept[2]],
        "no pattern inside"
    );
    assert_eq!(world.found(inbox.tenant, of("É*")).await, [kept[5]]);
    assert_eq!(world.found(inbox.tenant, of("*")).await.len(), types.len());
}

pub async fn events_are_found_by_subject_key_and_time(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let a = world
        .keep(world.event(&inbox).with_key("k-1").about("zd:ticket:1"))
        .await;
    world.advance_s(100).await;
    let middle = world.id().time();
    let b = world
        .keep(world.event(&inbox).with_key("k-2").about("zd:ticket:10"))
        .await;
    world.advance_s(100).await;
    let c = world.keep(world.event(&inbox).with_key("k-3")).await;
    let filter = EventFilter::default;
    let subject = EventFilter {
        subject: Some("zd:ticket:1".to_owned()),
        ..filter()
    };
    assert_eq!(world.found(inbox.tenant, subject).await, [a]);
    let key = EventFilter {
        dedup_key: Some("k-2".to_owned()),
        ..filter()
    };
    assert_eq!(world.found(inbox.tenant, key).await, [b]);
    let since = EventFilter {
        since: Some(middle),
        ..filter()
    };
    assert_eq!(
        world.found(inbox.tenant, since).await,
        [c, b],
        "not before it"
    );
    let until = EventFilter {
        until: Some(middle),
        ..filter()
    };
    assert_eq!(world.found(inbox.tenant, until).await, [a], "before it");
    let second = Duration::from_secs(1);
    let both = EventFilter {
        since: Some(middle),
        until: Some(middle.after(second)),
        ..filter()
    };
    assert_eq!(world.found(inbox.tenant, both).await, [b]);
}

pub async fn events_are_found_by_the_beginning_of_what_they_show(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let a = world
        .keep(world.event(&inbox).with_key("same-1").of_type("t.one"))
        .await;
    let b = world
        .keep(world.event(&inbox).with_key("k").of_type("same.two"))
        .await;
    let c = world
        .keep(world.event(&inbox).with_key("l").about("same:x:3"))
        .await;
    let d = world
        .keep(world.event(&inbox).with_key("not same").about("x:same"))
        .await;
    let of = |text: &str| EventFilter {
        prefix: Some(text.to_owned()),
        ..Default::default()
    };
    assert_eq!(world.found(inbox.tenant, of("same")).await, [c, b, a]);
    assert_eq!(world.found(inbox.tenant, of("same:")).await, [c]);
    let id = d.to_string();
    for text in [id.as_str(), &id[..id.len() - 6]] {
        assert_eq!(world.found(inbox.tenant, of(text)).await, [d], "{text}");
    }
    assert_eq!(world.found(inbox.tenant, of("evt_")).await.len(), 4);
    assert!(
        world.found(inbox.tenant, of("sa_e")).await.is_empty(),
        "no pattern inside"
    );
    assert!(world.found(inbox.tenant, of("Same")).await.is_empty());
    assert_eq!(world.found(inbox.tenant, of("")).await.len(), 4);
}

/// One event for each status there is, by name.
async fn one_of_each<H: Harness>(
    world: &World<'_, H>,
    inbox: &Inbox,
) -> Vec<(&'static str, EventId)> {
    let later = world.now().await.after(Duration::from_secs(5000));
    let mut events = vec![
        (
            "retrying",
            EventId(world.ended(inbox, failed_for_s(500)).await.0),
        ),
        (
            "held",
            EventId(world.ended(inbox, Ending::Held(HeldReason::Budget)).await.0),
        ),
        (
            "dead_letter",
            EventId(world.ended(inbox, given_up()).await.0),
        ),
        (
            "cancelled",
            EventId(world.ended(inbox, Ending::Cancelled).await.0),
        ),
        (
            "succeeded",
            EventId(world.ended(inbox, Ending::Succeeded).await.0),
        ),
        ("running", EventId(world.running(inbox).await.ticket.work.0)),
        ("ignored", world.keep(world.event(inbox).ignored()).await),
        ("unmapped", world.keep(world.event(inbox).unmapped()).await),
    ];
    let scheduled = world.keep(world.event(inbox).ignored()).await;
    world
        .created(world.job(inbox).of_event(scheduled).at(later))
        .await;
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
        assert_eq!(
            world.with_status(inbox.tenant, status).await,
            [*event],
            "{status}"
        );
    }
    assert!(
        world
            .with_status(inbox.tenant, "awaiting_approval")
            .await
            .is_empty()
    );
    assert!(
        world
            .with_status(inbox.tenant, "no such word")
            .await
            .is_empty()
    );
    for row in world
        .store
        .events(inbox.tenant, EventFilter::default(), ALL)
        .await
        .unwrap()
    {
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
    let of_mixed = world
        .store
        .work_of_event(inbox.tenant, mixed)
        .await
        .unwrap();
    let states: Vec<State> = of_mixed.iter().map(|row| row.state).collect();
    assert_eq!(states, [State::Succeeded, State::Retrying], "oldest first");
    let rows = world
        .store
        .events(inbox.tenant, EventFilter::default(), ALL)
        .await
        .unwrap();
    assert_eq!(rows[0].work, [State::Succeeded, State::Retrying]);
}

pub async fn work_that_was_replayed_counts_no_more(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let work = world.ended(&inbox, given_up()).await;
    let event = EventId(work.0);
    assert_eq!(
        world.with_status(inbox.tenant, "dead_letter").await,
        [event]
    );
    let again = world.replayed(inbox.tenant, work, false).await;
    assert!(
        world
            .with_status(inbox.tenant, "dead_letter")
            .await
            .is_empty()
    );
    assert_eq!(world.with_status(inbox.tenant, "pending").await, [event]);
    world.run_to(&inbox, Ending::Succeeded).await;
    assert_eq!(world.with_status(inbox.tenant, "succeeded").await, [event]);
    let rows = world
        .store
        .events(inbox.tenant, EventFilter::default(), ALL)
        .await
        .unwrap();
    assert_eq!(rows[0].work, [State::Succeeded]);
    let all = world
        .store
        .work_of_event(inbox.tenant, event)
        .await
        .unwrap();
    assert_eq!(
        all.iter().map(|row| row.id).collect::<Vec<_>>(),
        [work, again]
    );
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
            let ending = if turn % 3 == 0 {
                Ending::Succeeded
            } else {
                given_up()
            };
            assert_eq!(world.run_to(&inbox, ending).await.ticket.work, again);
        }
        if turn % 3 != 0 {
            dead.push(EventId(work.0));
        }
    }
    let status = Some("dead_letter".to_owned());
    let filter = EventFilter {
        status,
        ..EventFilter::default()
    };
    for limit in [1, 3, 8, 100] {
        assert_eq!(
            world.leaf(inbox.tenant, &filter, limit).await,
            newest_first(dead.clone())
        );
    }
}
