//! Giving up: dead letters are found by what is known of them, and purged once.

use wakepost_domain::lane::LaneKey;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{Priority, State, WorkKind};
use wakepost_domain::{OperationId, TenantId, WorkId};

use super::Harness;
use super::drafts::{Inbox, end};
use super::world::{ALL, World, assert_invalid, given_up, sealed};
use crate::moves::{DeadFilter, Page, Progress, Replay, ReplayFrom, Settle};

impl<H: Harness> World<'_, H> {
    async fn dead(&self, tenant: TenantId, filter: DeadFilter) -> Vec<WorkId> {
        let rows = self.other.dead_letters(tenant, filter, ALL).await.unwrap();
        assert!(rows.iter().all(|row| row.state == State::DeadLetter));
        rows.into_iter().map(|row| row.id).collect()
    }

    async fn with_text(&self, tenant: TenantId, text: &str) -> Vec<WorkId> {
        self.dead(tenant, DeadFilter { text: Some(text.to_owned()), ..DeadFilter::default() }).await
    }

    /// Gives up the lane's next item for this reason.
    async fn give_up(&self, inbox: &Inbox, error: &str) -> WorkId {
        let ticket = self.claim(inbox).one().await.ticket;
        let error = Some(error.to_owned());
        self.settle(Settle { error, ..end(&ticket, given_up()) }).await.unwrap();
        ticket.work
    }

    fn replay_of(&self, tenant: TenantId, work: WorkId) -> Replay {
        Replay {
            tenant,
            from: ReplayFrom::Work(work),
            id: WorkId(self.id()),
            fresh_scope: false,
            input: None,
            max_attempts: 3,
            callback_lane: None,
            audit: self.audit(tenant, "work.replay"),
        }
    }
}

pub async fn dead_letters_are_found_by_what_is_known_of_them(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let key = LaneKey {
        tenant: inbox.tenant,
        kind: WorkKind::Reply,
        priority: Priority::Interactive,
        origin: None,
        name: "triage.urgent".to_owned(),
        executor: None,
    };
    let other = Inbox { lane: world.store.lane(key).await.unwrap().id, ..inbox };
    let tenant = inbox.tenant;
    world.accept(world.event(&inbox).about("zd:ticket:1").build()).await;
    let first = world.give_up(&inbox, "the model said 50% of nothing").await;
    world.advance_s(60).await;
    let middle = world.now().await;
    world.created(world.job(&other).of_kind(WorkKind::Reply)).await;
    let second = world.give_up(&other, "timeout").await;
    world.ended(&inbox, Ending::Succeeded).await;

    assert_eq!(world.dead(tenant, DeadFilter::default()).await, [second, first], "newest first");
    let all = DeadFilter::default;
    let kind = DeadFilter { kind: Some(WorkKind::Reply), ..all() };
    assert_eq!(world.dead(tenant, kind.clone()).await, [second]);
    let both = vec![(WorkKind::Job, first), (WorkKind::Reply, second), (WorkKind::Job, second)];
    for (chosen, found) in [
        (both.clone(), vec![second, first]),
        // As what it is not, it is not there.
        (vec![(WorkKind::Job, second), (WorkKind::Job, WorkId(world.id()))], vec![]),
        (vec![], vec![]),
    ] {
        let these = DeadFilter { chosen: Some(chosen.clone()), ..all() };
        assert_eq!(world.dead(tenant, these).await, found, "{chosen:?}");
    }
    let these = DeadFilter { chosen: Some(both.clone()), ..kind };
    assert_eq!(world.dead(tenant, these).await, [second], "and of this kind");
    let source = DeadFilter { source: Some(inbox.source), ..all() };
    assert_eq!(world.dead(tenant, source).await, [first]);
    let since = DeadFilter { since: Some(middle), ..all() };
    assert_eq!(world.dead(tenant, since).await, [second], "by when it was given up");
    let until = DeadFilter { until: Some(middle), ..all() };
    assert_eq!(world.dead(tenant, until).await, [first]);
    for (text, found) in [
        (first.text(WorkKind::Job), vec![first]),
        (first.text(WorkKind::Job)[..20].to_owned(), vec![first]),
        (first.text(WorkKind::Reply), vec![]),
        (first.text(WorkKind::Job).replace("job_", "evt_"), vec![first]),
        ("zd:ticket:".to_owned(), vec![first]),
        ("ticket".to_owned(), vec![]),
        ("50% of".to_owned(), vec![first]),
        ("triage.".to_owned(), vec![second]),
        ("urgent".to_owned(), vec![]),
        ("timeout".to_owned(), vec![second]),
        ("'; --%_".to_owned(), vec![]),
    ] {
        assert_eq!(world.with_text(tenant, &text).await, found, "{text}");
    }
    let page = Page { before: Some(second.0), limit: 1 };
    let next = world.store.dead_letters(tenant, all(), page).await.unwrap();
    assert_eq!(next.iter().map(|row| row.id).collect::<Vec<_>>(), [first]);
    let these = DeadFilter { chosen: Some(both), ..all() };
    let next = world.store.dead_letters(tenant, these.clone(), page).await.unwrap();
    assert_eq!(next.iter().map(|row| row.id).collect::<Vec<_>>(), [first]);
    let stranger = world.tenant("acme").await;
    for filter in [all(), these] {
        assert!(world.dead(stranger, filter).await.is_empty());
    }
}

pub async fn what_was_replayed_or_purged_leaves_the_list(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let tenant = inbox.tenant;
    let mut dead = Vec::new();
    for _ in 0..3 {
        dead.push(world.ended(&inbox, given_up()).await);
    }
    let replay = world.replay_of(tenant, dead[0]);
    world.store.replay(replay.clone(), None).await.unwrap();
    let by = OperationId(world.id());
    assert_eq!(world.store.purge(tenant, vec![dead[1]], by).await.unwrap(), 1);
    assert_eq!(world.dead(tenant, DeadFilter::default()).await, [dead[2]]);
    let all = DeadFilter { dealt_with: true, ..DeadFilter::default() };
    let rows = world.store.dead_letters(tenant, all, ALL).await.unwrap();
    let marks: Vec<_> = rows.iter().rev().map(|row| (row.replayed_as, row.purged_by)).collect();
    assert_eq!(marks, [(Some(replay.id), None), (None, Some(by)), (None, None)]);
}

pub async fn a_purge_leaves_nothing_but_the_row(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let tenant = inbox.tenant;
    let job = world.created(world.job(&inbox).with_input("\"private\"")).await;
    let ticket = world.claim(&inbox).one().await.ticket;
    let progress = Progress { ticket, content: sealed("half") };
    world.store.progress(progress).await.unwrap();
    let error = Some("private too".to_owned());
    world.settle(Settle { error, ..end(&ticket, given_up()) }).await.unwrap();
    let (live, done) = (world.accepted(&inbox).await, world.id());
    let by = OperationId(done);
    assert_eq!(
        world.store.purge(tenant, vec![job, live, WorkId(world.id())], by).await.unwrap(),
        1
    );
    assert_eq!(world.store.purge(tenant, vec![job], OperationId(world.id())).await.unwrap(), 0);
    let left = world.picture(tenant, job).await;
    assert_eq!((left.row.state, left.row.purged_by), (State::DeadLetter, Some(by)));
    assert_eq!(left.row.last_error, None);
    assert!(left.runs.is_empty() && left.progress.is_empty());
    assert_eq!(left.kept, Default::default());
    assert_invalid(world.store.replay(world.replay_of(tenant, job), None).await);
    assert_eq!(world.state(tenant, live).await, State::Pending, "nothing else was touched");
    let stranger = world.tenant("acme").await;
    let dead = world.run_to(&inbox, given_up()).await.ticket.work;
    assert_eq!(world.store.purge(stranger, vec![dead], by).await.unwrap(), 0);
}

pub async fn a_purge_and_a_replay_at_once_do_one_of_the_two(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for _ in 0..10 {
        let dead = world.ended(&inbox, given_up()).await;
        let (replay, by) = (world.replay_of(inbox.tenant, dead), OperationId(world.id()));
        let (purged, replayed) = tokio::join!(
            world.store.purge(inbox.tenant, vec![dead], by),
            world.other.replay(replay, None)
        );
        assert_ne!(purged.unwrap() == 1, replayed.is_ok());
        world.run_to_end(&inbox).await;
    }
}
