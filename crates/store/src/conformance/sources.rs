//! Sources: made, found by their public id, changed by one at a time, and bound to their tenant.

use std::time::Duration;

use wakepost_domain::source::SourceConfig;
use wakepost_domain::work::Priority;
use wakepost_domain::{SourceId, TenantId};

use super::Harness;
use super::drafts::once;
use super::world::{World, assert_invalid, assert_not_found, sealed};
use crate::error::StoreError;
use crate::moves::{Once, Page, SourceRecord};

impl<H: Harness> World<'_, H> {
    async fn source_draft(&self, tenant: TenantId) -> SourceRecord {
        let now = self.now().await;
        let config = SourceConfig {
            name: "Issues \"of\" the repository".to_owned(),
            filter: vec!["issues.*".to_owned()],
            priority: Some(Priority::Batch),
            concurrency: Some(2),
            ..SourceConfig::default()
        };
        SourceRecord {
            id: SourceId(self.id()),
            tenant,
            provider: "github".to_owned(),
            config,
            secrets: sealed("\0\u{1}secret"),
            secret_made_at: now,
            created_at: now,
            updated_at: now,
        }
    }

    pub(super) async fn made(&self, tenant: TenantId) -> SourceRecord {
        let record = self.source_draft(tenant).await;
        let audit = self.audit(tenant, "source.create");
        let made = self.store.create_source(record.clone(), audit, None).await.unwrap();
        assert_eq!(made, Once::Now(()));
        record
    }
}

pub async fn a_source_is_found_by_its_id_as_it_was_made(harness: &impl Harness) {
    let world = World::new(harness).await;
    let acme = world.tenant("acme").await;
    let record = world.made(acme).await;
    assert_eq!(world.other.source(record.id).await.unwrap(), Some(record));
    assert_eq!(world.store.source(SourceId(world.id())).await.unwrap(), None);
    assert_eq!(world.actions(acme).await, ["source.create", "tenant.create"]);
}

pub async fn a_source_is_made_once_under_an_idempotency_key(harness: &impl Harness) {
    let world = World::new(harness).await;
    let until = world.now().await.after(Duration::from_secs(1000));
    let mut outcomes = Vec::new();
    for _ in 0..2 {
        let record = world.source_draft(TenantId::DEFAULT).await;
        let audit = world.audit(TenantId::DEFAULT, "source.create");
        let key = Some(once(1, "made", until));
        outcomes.push(world.store.create_source(record, audit, key).await.unwrap());
    }
    assert_eq!(outcomes[0], Once::Now(()));
    assert!(matches!(&outcomes[1], Once::Before(before) if before.answer == sealed("made")));
    let page = Page { before: None, limit: 10 };
    assert_eq!(world.store.sources(TenantId::DEFAULT, page).await.unwrap().len(), 1);
}

pub async fn a_change_is_refused_if_somebody_else_was_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let record = world.made(TenantId::DEFAULT).await;
    world.advance_s(5).await;
    let seen = record.updated_at;
    let mut first = SourceRecord { updated_at: world.now().await, ..record.clone() };
    first.config.enabled = false;
    first.secrets = sealed("rotated");
    first.secret_made_at = first.updated_at;
    let audit = world.audit(TenantId::DEFAULT, "source.update");
    world.store.update_source(first.clone(), seen, audit).await.unwrap();
    assert_eq!(world.store.source(record.id).await.unwrap(), Some(first.clone()));
    let mut second = SourceRecord { updated_at: world.now().await, ..record };
    second.config.name = "mine".to_owned();
    let audit = world.audit(TenantId::DEFAULT, "source.update");
    assert_invalid(world.other.update_source(second, seen, audit).await);
    assert_eq!(world.store.source(first.id).await.unwrap(), Some(first));
    assert_eq!(world.actions(TenantId::DEFAULT).await, ["source.update", "source.create"]);
}

pub async fn of_many_changes_at_once_one_happens(harness: &impl Harness) {
    let world = World::new(harness).await;
    let record = world.made(TenantId::DEFAULT).await;
    let seen = record.updated_at;
    let mut calls = Vec::new();
    for turn in 0..10 {
        let later = seen.after(Duration::from_secs(turn as u64 + 1));
        let change = SourceRecord { updated_at: later, ..record.clone() };
        let audit = world.audit(TenantId::DEFAULT, "source.update");
        let node = world.node(turn);
        calls.push(tokio::spawn(async move { node.update_source(change, seen, audit).await }));
    }
    let mut changed = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(()) => changed += 1,
            Err(StoreError::InvalidState(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(changed, 1);
    assert_eq!(world.actions(TenantId::DEFAULT).await.len(), 2);
}

pub async fn sources_with_old_secrets_are_found_the_oldest_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let stranger = world.tenant("stranger").await;
    let mut made = Vec::new();
    for _ in 0..4 {
        made.push(world.made(TenantId::DEFAULT).await);
        world.made(stranger).await;
        world.advance_s(10).await;
    }
    // The first has a new secret; so it is the youngest now.
    let mut rotated = made.remove(0);
    let seen = rotated.updated_at;
    (rotated.updated_at, rotated.secret_made_at) = (world.now().await, world.now().await);
    let audit = world.audit(TenantId::DEFAULT, "source.rotate");
    world.store.update_source(rotated.clone(), seen, audit).await.unwrap();
    let found = async |before, limit| {
        let other = &world.other;
        other.sources_with_secrets_before(TenantId::DEFAULT, before, limit).await.unwrap()
    };
    assert_eq!(found(made[2].secret_made_at, 10).await, made[..2]);
    assert_eq!(found(made[2].secret_made_at, 1).await, made[..1]);
    assert_eq!(found(rotated.secret_made_at, 10).await, made);
    made.push(rotated.clone());
    assert_eq!(found(rotated.secret_made_at.after(Duration::from_millis(1)), 10).await, made);
}

pub async fn another_tenants_source_is_not_found(harness: &impl Harness) {
    let world = World::new(harness).await;
    let stranger = world.tenant("stranger").await;
    let record = world.made(TenantId::DEFAULT).await;
    let stolen = SourceRecord { tenant: stranger, ..record.clone() };
    let audit = world.audit(stranger, "source.update");
    assert_not_found(world.store.update_source(stolen, record.updated_at, audit).await);
    let audit = world.audit(stranger, "source.delete");
    assert_not_found(world.store.delete_source(stranger, record.id, audit).await);
    assert_eq!(world.store.source(record.id).await.unwrap(), Some(record));
    assert_eq!(world.actions(stranger).await, ["tenant.create"]);
}

pub async fn a_deleted_source_is_gone_and_its_events_stay(harness: &impl Harness) {
    let world = World::new(harness).await;
    let record = world.made(TenantId::DEFAULT).await;
    let mut inbox = world.inbox().await;
    inbox.source = record.id;
    let new = world.event(&inbox).build();
    world.accept(new.clone()).await;
    let audit = world.audit(TenantId::DEFAULT, "source.delete");
    world.store.delete_source(TenantId::DEFAULT, record.id, audit).await.unwrap();
    assert_eq!(world.other.source(record.id).await.unwrap(), None);
    assert_eq!(world.stored(TenantId::DEFAULT, new.event.id).await, new.event);
    assert_eq!(world.claim(&inbox).take().await.len(), 1);
    let audit = world.audit(TenantId::DEFAULT, "source.delete");
    assert_not_found(world.store.delete_source(TenantId::DEFAULT, record.id, audit).await);
    let audit = world.audit(TenantId::DEFAULT, "source.update");
    let seen = record.updated_at;
    assert_not_found(world.store.update_source(record, seen, audit).await);
}

pub async fn sources_come_in_pages_newest_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let other = world.tenant("other").await;
    let mut made = Vec::new();
    for turn in 0..9 {
        made.insert(0, world.made(TenantId::DEFAULT).await);
        world.made(other).await;
        // Some share their moment: the id then decides.
        if turn % 3 == 0 {
            world.advance_s(1).await;
        }
    }
    let mut seen = Vec::new();
    let mut page = Page { before: None, limit: 2 };
    loop {
        let records = world.store.sources(TenantId::DEFAULT, page).await.unwrap();
        assert!(records.len() <= 2);
        let Some(last) = records.last() else { break };
        page.before = Some(last.id);
        seen.extend(records);
    }
    assert_eq!(seen, made);
}
