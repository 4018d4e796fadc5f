//! Settings: tenants, keys, lanes, data keys, and the audit trail.

use std::sync::Arc;

use wakepost_domain::lane::{Lane, LaneId, LaneKey};
use wakepost_domain::ports::Entropy;
use wakepost_domain::tenant::TenantSettings;
use wakepost_domain::work::{Priority, WorkKind};
use wakepost_domain::{AuditId, EventId, TenantId, Ulid};

use super::Harness;
use super::world::{ALL, World, assert_invalid, assert_near, assert_not_found};
use crate::error::StoreError;
use crate::moves::{AuditEntry, AuditFilter, Once, Page, Store, WrappedKey};
use crate::vault::{MasterKey, Slot, Vault};

fn generous() -> TenantSettings {
    TenantSettings {
        name: "Acme & Söhne".to_owned(),
        weight: Some(3),
        concurrency: Some(8),
        ..TenantSettings::default()
    }
}

pub async fn the_default_tenant_is_always_there(harness: &impl Harness) {
    let world = World::new(harness).await;
    let tenants = world.store.tenants().await.unwrap();
    assert_eq!(tenants.len(), 1);
    assert_eq!((tenants[0].id, tenants[0].slug.as_str()), (TenantId::DEFAULT, "default"));
}

pub async fn tenants_are_made_changed_and_listed_by_slug(harness: &impl Harness) {
    let world = World::new(harness).await;
    world.tenant("zeta").await;
    let audit = world.audit(TenantId::DEFAULT, "tenant.create");
    let made = world.store.create_tenant("acme".to_owned(), generous(), audit, None).await.unwrap();
    let Once::Now(acme) = made else { panic!("no idempotency key was given") };
    assert_eq!((acme.slug.as_str(), &acme.settings), ("acme", &generous()));
    assert_near(acme.created_at, world.now().await);
    let tenants = world.store.tenants().await.unwrap();
    let slugs: Vec<&str> = tenants.iter().map(|tenant| tenant.slug.as_str()).collect();
    assert_eq!(slugs, ["acme", "default", "zeta"]);
    assert_eq!(tenants[0], acme);
    let changed = TenantSettings { weight: None, ..generous() };
    let audit = world.audit(acme.id, "tenant.update");
    world.store.update_tenant(acme.id, generous(), changed.clone(), audit).await.unwrap();
    assert_eq!(world.store.tenants().await.unwrap()[0].settings, changed);
    assert_eq!(world.actions(acme.id).await, ["tenant.update", "tenant.create"]);
}

pub async fn of_two_changes_to_what_was_seen_of_a_tenant_one_is_made(harness: &impl Harness) {
    let world = World::new(harness).await;
    let audit = world.audit(TenantId::DEFAULT, "tenant.create");
    let made = world.store.create_tenant("acme".to_owned(), generous(), audit, None).await.unwrap();
    let Once::Now(acme) = made else { panic!("no idempotency key was given") };
    let changed = TenantSettings { weight: None, ..generous() };
    let audit = world.audit(acme.id, "tenant.update");
    world.store.update_tenant(acme.id, generous(), changed.clone(), audit.clone()).await.unwrap();
    let late = TenantSettings { concurrency: None, ..generous() };
    assert_invalid(world.other.update_tenant(acme.id, generous(), late, audit).await);
    assert_eq!(world.store.tenants().await.unwrap()[0].settings, changed);
}

pub async fn a_slug_is_taken_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let mut calls = Vec::new();
    for turn in 0..10 {
        let audit = world.audit(TenantId::DEFAULT, "tenant.create");
        let node = world.node(turn);
        calls.push(tokio::spawn(async move {
            node.create_tenant("acme".to_owned(), generous(), audit, None).await
        }));
    }
    let mut made = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => made += 1,
            Err(StoreError::Exists(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(made, 1);
    assert_eq!(world.store.tenants().await.unwrap().len(), 2);
    assert_eq!(world.store.audit(AuditFilter::default(), ALL).await.unwrap().len(), 1);
}

pub async fn a_tenant_that_is_not_there_cannot_be_changed(harness: &impl Harness) {
    let world = World::new(harness).await;
    let audit = world.audit(TenantId(99), "tenant.update");
    assert_not_found(world.store.update_tenant(TenantId(99), generous(), generous(), audit).await);
    assert!(world.store.audit(AuditFilter::default(), ALL).await.unwrap().is_empty());
}

fn lane_key(tenant: TenantId, origin: Option<Ulid>, name: &str) -> LaneKey {
    LaneKey {
        tenant,
        kind: WorkKind::Job,
        priority: Priority::Batch,
        origin,
        name: name.to_owned(),
        executor: Some("{\"kind\":\"pull\"}".to_owned()),
    }
}

pub async fn the_same_key_is_the_same_lane_for_everybody(harness: &impl Harness) {
    let world = World::new(harness).await;
    let key = lane_key(TenantId::DEFAULT, Some(world.id()), "triage");
    let mut calls = Vec::new();
    for turn in 0..20 {
        let (node, key) = (world.node(turn), key.clone());
        calls.push(tokio::spawn(async move { node.lane(key).await.unwrap() }));
    }
    let lane = world.store.lane(key.clone()).await.unwrap();
    assert_eq!(lane.key, key);
    for call in calls {
        assert_eq!(call.await.unwrap(), lane);
    }
    assert_eq!(world.store.count_lanes(TenantId::DEFAULT).await.unwrap(), 1);
}

pub async fn a_difference_in_any_part_makes_another_lane(harness: &impl Harness) {
    let world = World::new(harness).await;
    let acme = world.tenant("acme").await;
    let key = lane_key(TenantId::DEFAULT, Some(world.id()), "triage");
    let keys = [
        key.clone(),
        LaneKey { tenant: acme, ..key.clone() },
        LaneKey { kind: WorkKind::Reply, ..key.clone() },
        LaneKey { priority: Priority::Interactive, ..key.clone() },
        LaneKey { origin: None, ..key.clone() },
        LaneKey { origin: Some(world.id()), ..key.clone() },
        LaneKey { name: String::new(), ..key.clone() },
        LaneKey { executor: None, ..key },
    ];
    let mut lanes: Vec<Lane> = Vec::new();
    for key in &keys {
        let lane = world.store.lane(key.clone()).await.unwrap();
        assert!(lanes.iter().all(|known| known.id != lane.id), "{key:?}");
        lanes.push(lane);
    }
    let mut ids: Vec<LaneId> = lanes.iter().map(|lane| lane.id).collect();
    ids.push(LaneId(4_000_000));
    let mut found = world.other.lanes(ids).await.unwrap();
    found.sort_by_key(|lane| lane.id);
    lanes.sort_by_key(|lane| lane.id);
    assert_eq!(found, lanes);
    assert_eq!(world.store.count_lanes(TenantId::DEFAULT).await.unwrap(), 7);
    assert_eq!(world.store.count_lanes(acme).await.unwrap(), 1);
}

pub async fn a_tenant_has_one_data_key_whoever_asks_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let acme = world.tenant("acme").await;
    let mut calls = Vec::new();
    for turn in 0..20u8 {
        let node = world.node(usize::from(turn));
        calls.push(tokio::spawn(
            async move { node.data_key(acme, wrapped_key(turn)).await.unwrap() },
        ));
    }
    let (number, wrapped) = world.store.data_key(acme, wrapped_key(99)).await.unwrap();
    for call in calls {
        assert_eq!(call.await.unwrap(), (number, wrapped.clone()));
    }
    let (other, own) = world.store.data_key(TenantId::DEFAULT, wrapped_key(7)).await.unwrap();
    assert_ne!(other, number);
    assert_eq!(own, wrapped_key(7), "each tenant has its own");
}

fn wrapped_key(filled: u8) -> WrappedKey {
    WrappedKey { master: MasterKey::new([1; 32]).id(), bytes: vec![filled; 40] }
}

/// Real chance.
pub(super) struct Dice;

impl Entropy for Dice {
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).unwrap();
    }
}

pub async fn one_node_opens_what_the_other_sealed(harness: &impl Harness) {
    let world = World::new(harness).await;
    let acme = world.tenant("acme").await;
    let vault = |node: &Arc<dyn Store>, filled| {
        Vault::new(Arc::new(MasterKey::new([filled; 32])), node.clone(), Arc::new(Dice))
    };
    let vaults = [&world.store, &world.other].map(|node| vault(node, 7));
    let slot = Slot::Content(EventId(world.id()));
    let [here, there] = &vaults;
    let sealed = here.key(acme).await.unwrap().seal(slot, b"body");
    assert_eq!(there.key(acme).await.unwrap().open(slot, &sealed).unwrap(), b"body");
    let other = there.key(TenantId::DEFAULT).await.unwrap().open(slot, &sealed);
    assert!(matches!(other, Err(StoreError::Corrupt(_))));
    let stranger = vault(&world.store, 8);
    assert!(matches!(stranger.key(acme).await, Err(StoreError::Corrupt(_))));
}

pub async fn the_audit_trail_comes_in_pages_bound_to_a_tenant(harness: &impl Harness) {
    let world = World::new(harness).await;
    let acme = world.tenant("acme").await;
    let mut written = Vec::new();
    for turn in 0..7 {
        let audit = world.audit(acme, &format!("tenant.update {turn}"));
        written.insert(0, audit.clone());
        let seen = if turn == 0 { TenantSettings::default() } else { generous() };
        world.store.update_tenant(acme, seen, generous(), audit).await.unwrap();
    }
    world.tenant("other").await;
    let mut seen = Vec::new();
    let mut page = Page { before: None, limit: 3 };
    loop {
        let entries = world.store.audit(AuditFilter::of(acme), page).await.unwrap();
        let Some(last) = entries.last() else { break };
        page.before = Some(last.id.0);
        seen.extend(entries);
    }
    assert_eq!(seen.pop().unwrap().action, "tenant.create");
    assert_eq!(seen, written);
    assert_eq!(world.store.audit(AuditFilter::default(), ALL).await.unwrap().len(), 9);
}

pub async fn the_audit_trail_is_found_by_who_what_and_when(harness: &impl Harness) {
    let world = World::new(harness).await;
    let acme = world.tenant("acme").await;
    let mut kept = Vec::new();
    for (actor, action, target) in [
        ("key_1", "webhook.create", "wh_1"),
        ("key_2", "webhook.delete", "wh_1"),
        ("key_1", "webhooks", "wh_2"),
        ("key_1", "job.cancel", "job_1"),
    ] {
        world.advance_s(10).await;
        let entry = AuditEntry {
            actor: actor.to_owned(),
            target: target.to_owned(),
            id: AuditId(Ulid::floor(world.now().await)),
            ..world.audit(acme, action)
        };
        world.store.note(entry.clone(), None).await.unwrap();
        kept.insert(0, entry);
    }
    let all = AuditFilter::of(acme);
    let text = |text: &str| Some(text.to_owned());
    let time = |index: usize| Some(kept[index].id.0.time());
    for (filter, expected) in [
        (AuditFilter { actor: text("key_1"), ..all.clone() }, vec![0, 1, 3]),
        (AuditFilter { action: text("webhook."), ..all.clone() }, vec![2, 3]),
        (AuditFilter { action: text("webhook"), ..all.clone() }, vec![1, 2, 3]),
        (AuditFilter { action: text("job.cancel"), ..all.clone() }, vec![0]),
        (AuditFilter { target: text("wh_1"), actor: text("key_2"), ..all.clone() }, vec![2]),
        (AuditFilter { since: time(2), until: time(0), ..all.clone() }, vec![1, 2]),
        (AuditFilter { actor: text("key_3"), ..all.clone() }, vec![]),
        (AuditFilter { action: text("%"), ..all.clone() }, vec![]),
    ] {
        let expected: Vec<_> = expected.into_iter().map(|index| kept[index].clone()).collect();
        assert_eq!(world.other.audit(filter.clone(), ALL).await.unwrap(), expected, "{filter:?}");
    }
    let page = Page { before: Some(kept[0].id.0), limit: 1 };
    let filter = AuditFilter { actor: text("key_1"), ..all };
    assert_eq!(world.store.audit(filter, page).await.unwrap(), [kept[1].clone()]);
}
