//! Reading work: live and finished in one list, with its runs, its progress and what it keeps.

use std::time::Duration;

use wakepost_domain::lane::LaneKey;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, Priority, State, WorkKind};
use wakepost_domain::{TenantId, WorkId};

use super::Harness;
use super::drafts::Inbox;
use super::world::{ALL, World, failed_for_s, given_up};
use crate::moves::{Page, WorkFilter};

impl<H: Harness> World<'_, H> {
    async fn listed(&self, tenant: TenantId, filter: WorkFilter) -> Vec<WorkId> {
        let rows = self.store.work_list(tenant, filter, ALL).await.unwrap();
        rows.into_iter().map(|row| row.id).collect()
    }
}

pub async fn live_and_finished_work_is_one_list_newest_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let other = world.inbox_of(world.tenant("other").await).await;
    let mut works = Vec::new();
    for turn in 0..12 {
        world.ended(&other, Ending::Succeeded).await;
        works.insert(
            0,
            match turn % 4 {
                0 => world.ended(&inbox, Ending::Succeeded).await,
                1 => world.ended(&inbox, Ending::Held(HeldReason::Budget)).await,
                2 => world.ended(&inbox, given_up()).await,
                _ => world.running(&inbox).await.ticket.work,
            },
        );
    }
    assert_eq!(world.listed(inbox.tenant, WorkFilter::default()).await, works);
    for limit in [1, 5, 12] {
        let mut seen = Vec::new();
        let mut page = Page { before: None, limit };
        loop {
            let rows =
                world.store.work_list(inbox.tenant, WorkFilter::default(), page).await.unwrap();
            assert!(rows.len() <= limit as usize);
            let Some(last) = rows.last() else { break };
            page.before = Some(last.id.0);
            seen.extend(rows.iter().map(|row| row.id));
        }
        assert_eq!(seen, works);
    }
    let rows = world.store.work_list(inbox.tenant, WorkFilter::default(), ALL).await.unwrap();
    for row in rows {
        assert_eq!(world.row(inbox.tenant, row.id).await, row, "one item and the list agree");
    }
}

pub async fn work_is_found_by_state(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let later = world.now().await.after(Duration::from_secs(5000));
    let items = [
        (State::Retrying, world.ended(&inbox, failed_for_s(500)).await),
        (State::Held, world.ended(&inbox, Ending::Held(HeldReason::Budget)).await),
        (State::Succeeded, world.ended(&inbox, Ending::Succeeded).await),
        (State::Cancelled, world.ended(&inbox, Ending::Cancelled).await),
        (State::DeadLetter, world.ended(&inbox, given_up()).await),
        (State::Running, world.running(&inbox).await.ticket.work),
        (State::Scheduled, world.created(world.job(&inbox).at(later)).await),
        (State::Pending, world.accepted(&inbox).await),
    ];
    for (state, work) in items {
        let filter = WorkFilter { state: Some(state), ..WorkFilter::default() };
        assert_eq!(world.listed(inbox.tenant, filter).await, [work], "{state:?}");
        assert_eq!(world.state(inbox.tenant, work).await, state);
    }
}

pub async fn work_is_found_by_kind_subject_and_time(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let job = world.created(world.job(&inbox).about("zd:ticket:1")).await;
    world.run_to(&inbox, Ending::Succeeded).await;
    world.advance_s(100).await;
    let middle = world.id().time();
    let reply =
        world.created(world.job(&inbox).of_kind(WorkKind::Reply).about("zd:ticket:1")).await;
    let other = world.created(world.job(&inbox).about("zd:ticket:11")).await;
    let kind = WorkFilter { kind: Some(WorkKind::Reply), ..WorkFilter::default() };
    assert_eq!(world.listed(inbox.tenant, kind).await, [reply]);
    let subject = WorkFilter { subject: Some("zd:ticket:1".to_owned()), ..WorkFilter::default() };
    assert_eq!(world.listed(inbox.tenant, subject).await, [reply, job]);
    let since = WorkFilter { since: Some(middle), ..WorkFilter::default() };
    assert_eq!(world.listed(inbox.tenant, since).await, [other, reply]);
}

pub async fn work_is_found_by_source_and_name(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (inbox, second) = (world.inbox().await, world.inbox().await);
    let key = LaneKey {
        tenant: inbox.tenant,
        kind: WorkKind::Job,
        priority: Priority::Webhook,
        origin: None,
        name: "triage".to_owned(),
        executor: None,
    };
    let named = Inbox { lane: world.store.lane(key).await.unwrap().id, ..inbox };
    let of_first = world.ended(&inbox, Ending::Succeeded).await;
    let of_second = world.accepted(&second).await;
    let triage = world.created(world.job(&named)).await;
    for (place, work) in [(&inbox, of_first), (&second, of_second)] {
        let filter = WorkFilter { source: Some(place.source), ..WorkFilter::default() };
        assert_eq!(world.listed(inbox.tenant, filter).await, [work]);
    }
    let filter = WorkFilter { name: Some("triage".to_owned()), ..WorkFilter::default() };
    assert_eq!(world.listed(inbox.tenant, filter).await, [triage]);
}
