//! Sources: made, found by their public id, changed by one at a time, and bound to their tenant.

use std::time::Duration;

use wakepost_domain::source::SourceConfig;
use wakepost_domain::webhook::Disabled;
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

pub async fn enabled_sources_with_old_secrets_are_found_page_by_page(harness: &impl Harness) {
    let world = World::new(harness).await;
    let stranger = world.tenant("stranger").await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(world.made(TenantId::DEFAULT).await);
        world.made(stranger).await;
        world.advance_s(10).await;
    }
    let change = async |record: &mut SourceRecord| {
        let seen = record.updated_at;
        record.updated_at = world.now().await;
        let audit = world.audit(TenantId::DEFAULT, "source.update");
        world.store.update_source(record.clone(), seen, audit).await.unwrap();
        world.advance_s(1).await;
    };
    // One has a new secret, and nobody calls another.
    made[0].secret_made_at = world.now().await;
    change(&mut made[0]).await;
    made[1].config.enabled = false;
    change(&mut made[1]).await;
    let found = async |before, limit| {
        let mut all: Vec<SourceRecord> = Vec::new();
        loop {
            let after = all.last().map(|record| record.id);
            let other = &world.other;
            let page =
                other.sources_with_secrets_before(TenantId::DEFAULT, before, after, limit).await;
            let page = page.unwrap();
            let is_last = page.len() < limit as usize;
            all.extend(page);
            if is_last {
                return all;
            }
        }
    };
    let by_id = |mut records: Vec<SourceRecord>| {
        records.sort_by_key(|record| record.id);
        records
    };
    let old = by_id(made[2..4].to_vec());
    assert_eq!(found(made[4].secret_made_at, 10).await, old);
    assert_eq!(found(made[4].secret_made_at, 1).await, old);
    let rotated = made[0].secret_made_at.after(Duration::from_millis(1));
    made.remove(1);
    assert_eq!(found(rotated, 2).await, by_id(made));
}

pub async fn tenants_with_old_secrets_are_found_page_by_page(harness: &impl Harness) {
    let world = World::new(harness).await;
    let mut tenants = Vec::new();
    for slug in ["called", "disabled", "subscribed", "unsubscribed", "without", "young"] {
        tenants.push(world.tenant(slug).await);
    }
    let [called, disabled, subscribed, unsubscribed, _, young] = tenants[..] else {
        unreachable!("six were made")
    };
    world.made(called).await;
    let mut off = world.source_draft(disabled).await;
    off.config.enabled = false;
    let audit = world.audit(disabled, "source.create");
    world.store.create_source(off, audit, None).await.unwrap();
    for tenant in [subscribed, unsubscribed] {
        let mut record = world.record(&world.hook_of(tenant).await);
        let since = world.now().await;
        record.config.disabled =
            (tenant == unsubscribed).then(|| Disabled { since, reason: "gone".to_owned() });
        world.subscribe(record).await;
    }
    world.advance_s(1000).await;
    // As ids tell the time.
    let before = world.id().time();
    world.made(young).await;
    world.subscribe(world.record(&world.hook_of(young).await)).await;
    let mut expected = vec![called, subscribed];
    expected.sort();
    let page = async |after, limit| {
        world.other.tenants_with_secrets_before(before, after, limit).await.unwrap()
    };
    assert_eq!(page(None, 10).await, expected);
    assert_eq!(page(None, 1).await, expected[..1]);
    assert_eq!(page(Some(expected[0]), 1).await, expected[1..]);
    assert_eq!(page(Some(expected[1]), 1).await, []);
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
