//! Reading events: newest first, page by page, filtered, and never another tenant's.

use std::time::Duration;

use wakepost_domain::transition::Ending;
use wakepost_domain::work::State;
use wakepost_domain::{EventId, SourceId, TenantId};

use super::Harness;
use super::drafts::EventDraft;
use super::world::{ALL, World};
use crate::moves::{Cursor, EventFilter, Page};

impl<H: Harness> World<'_, H> {
    pub async fn keep(&self, draft: EventDraft) -> EventId {
        let new = draft.build();
        let id = new.event.id;
        self.accept(new).await;
        id
    }

    pub async fn found(&self, tenant: TenantId, filter: EventFilter) -> Vec<EventId> {
        let rows = self.store.events(tenant, filter, ALL).await.unwrap();
        rows.into_iter().map(|row| row.event.id).collect()
    }

    pub async fn with_status(&self, tenant: TenantId, status: &str) -> Vec<EventId> {
        let status = Some(status.to_owned());
        self.found(tenant, EventFilter { status, ..EventFilter::default() }).await
    }

    /// Everything a filter finds, gathered in pages of this size.
    pub async fn leaf(&self, tenant: TenantId, filter: &EventFilter, limit: u32) -> Vec<EventId> {
        let mut seen = Vec::new();
        let mut page: Cursor = Page { before: None, limit };
        loop {
            let rows = self.store.events(tenant, filter.clone(), page).await.unwrap();
            assert!(rows.len() <= limit as usize);
            page.before = rows.last().map(|row| row.event.id.0);
            seen.extend(rows.iter().map(|row| row.event.id));
            if rows.len() < limit as usize {
                return seen;
            }
        }
    }
}

pub(super) fn newest_first(mut ids: Vec<EventId>) -> Vec<EventId> {
    ids.sort();
    ids.reverse();
    ids
}

pub async fn events_are_listed_newest_first_with_their_work(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let done = EventId(world.ended(&inbox, Ending::Succeeded).await.0);
    world.advance_s(10).await;
    let ignored = world.keep(world.event(&inbox).ignored()).await;
    world.advance_s(10).await;
    let waiting = EventId(world.accepted(&inbox).await.0);
    let rows = world.store.events(inbox.tenant, EventFilter::default(), ALL).await.unwrap();
    let seen: Vec<_> = rows.iter().map(|row| (row.event.id, row.work.clone())).collect();
    let expected =
        [(waiting, vec![State::Pending]), (ignored, vec![]), (done, vec![State::Succeeded])];
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
        assert_eq!(world.leaf(inbox.tenant, &EventFilter::default(), limit).await, kept);
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
    let first = Page { before: None, limit: 3 };
    let rows = world.store.events(inbox.tenant, EventFilter::default(), first).await.unwrap();
    world.advance_s(5).await;
    world.keep(world.event(&inbox)).await;
    let next = Page { before: rows.last().map(|row| row.event.id.0), limit: 10 };
    let rest = world.store.events(inbox.tenant, EventFilter::default(), next).await.unwrap();
    let rest: Vec<EventId> = rest.into_iter().map(|row| row.event.id).collect();
    assert_eq!(rest, kept[3..]);
}

pub async fn events_are_found_by_source(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (a, b, c) = (world.inbox().await, world.inbox().await, world.inbox().await);
    let mut kept = Vec::new();
    for inbox in [&a, &b, &c] {
        kept.push(world.keep(world.event(inbox)).await);
    }
    let of = |sources: Vec<SourceId>| EventFilter { sources: Some(sources), ..Default::default() };
    assert_eq!(world.found(a.tenant, of(vec![b.source])).await, [kept[1]]);
    assert_eq!(world.found(a.tenant, of(vec![c.source, a.source])).await, [kept[2], kept[0]]);
    assert!(world.found(a.tenant, of(vec![])).await.is_empty());
    assert!(world.found(a.tenant, of(vec![SourceId(world.id())])).await.is_empty());
}

pub async fn events_are_found_by_type_exactly_or_by_its_beginning(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let types = ["issues.opened", "issues.closed", "issues_x", "pull.issues.", "issues%", "É.x"];
    let mut kept = Vec::new();
    for event_type in types {
        kept.push(world.keep(world.event(&inbox).of_type(event_type)).await);
    }
    let of = |text: &str| EventFilter { event_type: Some(text.to_owned()), ..Default::default() };
    assert_eq!(world.found(inbox.tenant, of("issues.opened")).await, [kept[0]]);
    assert!(world.found(inbox.tenant, of("issues")).await.is_empty());
    assert_eq!(world.found(inbox.tenant, of("issues.*")).await, [kept[1], kept[0]]);
    assert_eq!(world.found(inbox.tenant, of("issues%*")).await, [kept[4]], "no pattern inside");
    assert_eq!(world.found(inbox.tenant, of("issues_*")).await, [kept[2]], "no pattern inside");
    assert_eq!(world.found(inbox.tenant, of("É*")).await, [kept[5]]);
    assert_eq!(world.found(inbox.tenant, of("*")).await.len(), types.len());
}

pub async fn events_are_found_by_subject_key_and_time(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let a = world.keep(world.event(&inbox).with_key("k-1").about("zd:ticket:1")).await;
    world.advance_s(100).await;
    let middle = world.id().time();
    let b = world.keep(world.event(&inbox).with_key("k-2").about("zd:ticket:10")).await;
    world.advance_s(100).await;
    let c = world.keep(world.event(&inbox).with_key("k-3")).await;
    let filter = EventFilter::default;
    let subject = EventFilter { subject: Some("zd:ticket:1".to_owned()), ..filter() };
    assert_eq!(world.found(inbox.tenant, subject).await, [a]);
    let key = EventFilter { dedup_key: Some("k-2".to_owned()), ..filter() };
    assert_eq!(world.found(inbox.tenant, key).await, [b]);
    let since = EventFilter { since: Some(middle), ..filter() };
    assert_eq!(world.found(inbox.tenant, since).await, [c, b], "not before it");
    let until = EventFilter { until: Some(middle), ..filter() };
    assert_eq!(world.found(inbox.tenant, until).await, [a], "before it");
    let second = Duration::from_secs(1);
    let both = EventFilter { since: Some(middle), until: Some(middle.after(second)), ..filter() };
    assert_eq!(world.found(inbox.tenant, both).await, [b]);
}

pub async fn events_are_found_by_the_beginning_of_what_they_show(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let a = world.keep(world.event(&inbox).with_key("same-1").of_type("t.one")).await;
    let b = world.keep(world.event(&inbox).with_key("k").of_type("same.two")).await;
    let c = world.keep(world.event(&inbox).with_key("l").about("same:x:3")).await;
    let d = world.keep(world.event(&inbox).with_key("not same").about("x:same")).await;
    let of = |text: &str| EventFilter { prefix: Some(text.to_owned()), ..Default::default() };
    assert_eq!(world.found(inbox.tenant, of("same")).await, [c, b, a]);
    assert_eq!(world.found(inbox.tenant, of("same:")).await, [c]);
    let id = d.to_string();
    for text in [id.as_str(), &id[..id.len() - 6]] {
        assert_eq!(world.found(inbox.tenant, of(text)).await, [d], "{text}");
    }
    assert_eq!(world.found(inbox.tenant, of("evt_")).await.len(), 4);
    assert!(world.found(inbox.tenant, of("sa_e")).await.is_empty(), "no pattern inside");
    assert!(world.found(inbox.tenant, of("Same")).await.is_empty());
    assert_eq!(world.found(inbox.tenant, of("")).await.len(), 4);
}
