//! Rotating the master key: every key is wrapped anew, and no record notices.

use std::sync::Arc;

use wakepost_domain::ports::Entropy;
use wakepost_domain::{EventId, TenantId, Ulid};

use super::Harness;
use super::settings::Dice;
use super::world::World;
use crate::error::StoreError;
use crate::moves::{Rewrap, Store};
use crate::vault::{MasterKey, MasterKeys, Sealed, Slot, Vault, rotate, sample};

/// More than one step of a rotation.
const TENANTS: i32 = 45;

fn key(filled: u8) -> MasterKey {
    MasterKey::new([filled; 32])
}

fn vault(store: &Arc<dyn Store>, current: u8, previous: &[u8]) -> Vault {
    let previous = previous.iter().copied().map(key).collect();
    Vault::new(Arc::new(MasterKeys::new(key(current), previous)), store.clone(), Arc::new(Dice))
}

fn slot(tenant: i32) -> Slot<'static> {
    Slot::Content(EventId(Ulid::from_bytes([tenant as u8; 16])))
}

/// A record of every tenant, sealed under this master key.
async fn records(store: &Arc<dyn Store>, master: u8) -> Vec<Sealed> {
    let vault = vault(store, master, &[]);
    let mut records = Vec::new();
    for tenant in 1..=TENANTS {
        let key = vault.key(TenantId(tenant)).await.unwrap();
        records.push(key.seal(slot(tenant), format!("body {tenant}").as_bytes()));
    }
    records
}

async fn assert_all_open(vault: &Vault, records: &[Sealed]) {
    for (tenant, record) in (1..).zip(records) {
        let plain = vault.key(TenantId(tenant)).await.unwrap().open(slot(tenant), record).unwrap();
        assert_eq!(plain, format!("body {tenant}").into_bytes());
    }
}

pub async fn a_rotation_wraps_every_key_anew_and_every_record_still_opens(harness: &impl Harness) {
    let world = World::new(harness).await;
    let records = records(&world.store, 1).await;
    let keys = MasterKeys::new(key(2), vec![key(1)]);
    let mut steps = Vec::new();
    let rotated = rotate(world.store.as_ref(), &keys, &Dice, |done| steps.push(done)).await;
    let rotated = rotated.unwrap();
    assert_eq!((rotated.rewrapped, rotated.unopened), (TENANTS as u64, vec![]));
    assert!(steps.len() > 2 && steps.is_sorted(), "{steps:?}");
    let counts = world.other.data_keys_by_master().await.unwrap();
    assert_eq!(counts, [(key(2).id(), i64::from(TENANTS))]);
    assert_all_open(&vault(&world.other, 2, &[]), &records).await;
    let late = vault(&world.store, 1, &[]).key(TenantId(3)).await;
    assert!(matches!(late, Err(StoreError::Corrupt(_))), "{late:?}");
    let again = rotate(world.store.as_ref(), &keys, &Dice, |_| ()).await.unwrap();
    assert_eq!(again.rewrapped, 0);
}

pub async fn what_a_rotation_could_not_do_is_named_and_the_next_goes_on(harness: &impl Harness) {
    let world = World::new(harness).await;
    for tenant in 1..=20 {
        vault(&world.store, 3, &[]).key(TenantId(tenant)).await.unwrap();
    }
    let vault_of_both = vault(&world.store, 1, &[3]);
    let mut records = Vec::new();
    for tenant in 1..=TENANTS {
        let key = vault_of_both.key(TenantId(tenant)).await.unwrap();
        records.push(key.seal(slot(tenant), format!("body {tenant}").as_bytes()));
    }
    let some = MasterKeys::new(key(2), vec![key(1)]);
    let some = rotate(world.store.as_ref(), &some, &Dice, |_| ()).await.unwrap();
    assert_eq!(some.rewrapped, 25);
    assert_eq!(some.unopened, (1..=20).map(TenantId).collect::<Vec<_>>());
    assert_all_open(&vault(&world.other, 2, &[3]), &records).await;
    let rest = MasterKeys::new(key(2), vec![key(1), key(3)]);
    let rest = rotate(world.store.as_ref(), &rest, &Dice, |_| ()).await.unwrap();
    assert_eq!((rest.rewrapped, rest.unopened), (20, vec![]));
    assert_all_open(&vault(&world.other, 2, &[]), &records).await;
}

pub async fn a_key_that_is_no_longer_as_it_was_seen_stays_as_it_is(harness: &impl Harness) {
    let world = World::new(harness).await;
    let records = records(&world.store, 1).await;
    let rows = world.store.wrapped_by_others(key(2).id(), i32::MIN, 2).await.unwrap();
    let stale = Rewrap {
        number: rows[0].number,
        seen: rows[1].wrapped.clone(),
        wrapped: rows[1].wrapped.clone(),
    };
    assert_eq!(world.store.rewrap(vec![stale]).await.unwrap(), 0);
    assert_all_open(&vault(&world.store, 1, &[]), &records).await;
}

pub async fn two_rotations_at_once_do_what_one_does(harness: &impl Harness) {
    let world = World::new(harness).await;
    let records = records(&world.store, 1).await;
    let mut turns = Vec::new();
    for turn in 0..4 {
        let node = world.node(turn);
        turns.push(tokio::spawn(async move {
            let keys = MasterKeys::new(key(2), vec![key(1)]);
            rotate(node.as_ref(), &keys, &Dice, |_| ()).await.unwrap().rewrapped
        }));
    }
    // A node that has both meets every tenant meanwhile.
    assert_all_open(&vault(&world.other, 2, &[1]), &records).await;
    let mut rewrapped = 0;
    for turn in turns {
        rewrapped += turn.await.unwrap();
    }
    assert_eq!(rewrapped, TENANTS as u64);
    assert_all_open(&vault(&world.store, 2, &[]), &records).await;
}

pub async fn the_servers_own_secret_is_the_same_before_and_after_a_rotation(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let root = async |current, previous: &[u8]| {
        let root = vault(&world.other, current, previous).root().await;
        root.map(|root| root.derive("tokens"))
    };
    let before = root(1, &[]).await.unwrap();
    assert_eq!(root(1, &[]).await.unwrap(), before);
    assert_eq!(root(2, &[1]).await.unwrap(), before);
    let keys = MasterKeys::new(key(2), vec![key(1)]);
    rotate(world.store.as_ref(), &keys, &Dice, |_| ()).await.unwrap();
    assert_eq!(root(2, &[]).await.unwrap(), before);
    assert!(root(1, &[]).await.is_err());
}

pub async fn a_check_names_the_master_key_that_is_missing(harness: &impl Harness) {
    let world = World::new(harness).await;
    vault(&world.store, 1, &[]).check().await.unwrap();
    records(&world.store, 1).await;
    vault(&world.other, 2, &[1]).check().await.unwrap();
    let refused = vault(&world.other, 2, &[3]).check().await.unwrap_err().to_string();
    for word in [key(1).id(), key(2).id(), key(3).id()] {
        assert!(refused.contains(&word.to_string()), "{word} in {refused}");
    }
    assert!(refused.contains("45 data key(s)"), "{refused}");
}

pub async fn the_newest_records_of_a_tenant_are_found_and_opened(harness: &impl Harness) {
    let world = World::new(harness).await;
    let vault = vault(&world.store, 1, &[]);
    let theirs = world.tenant("theirs").await;
    let inboxes = [world.inbox().await, world.inbox_of(theirs).await];
    for inbox in &inboxes {
        let key = vault.key(inbox.tenant).await.unwrap();
        for body in ["an older one", "the newest"] {
            let mut new = world.event(inbox).build();
            new.content = Some(key.seal(Slot::Content(new.event.id), body.as_bytes()));
            world.accept(new).await;
            world.advance_s(1).await;
        }
    }
    let tenants = inboxes.iter().map(|inbox| inbox.tenant).collect();
    let found = world.other.sealed_by(tenants).await.unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    for row in &found {
        let opened = vault.key(row.tenant).await.unwrap().open(row.slot, &row.record).unwrap();
        assert_eq!(opened, b"the newest");
    }
    let (keys, dice) = (MasterKeys::new(key(1), Vec::new()), Arc::new(Dice) as Arc<dyn Entropy>);
    let sampled = sample(world.store.as_ref(), &keys, &dice, 9).await.unwrap();
    assert_eq!((sampled.records, sampled.closed.len()), (2, 0), "{sampled:?}");
    assert_eq!(sample(world.store.as_ref(), &keys, &dice, 0).await.unwrap().records, 0);
    // A body that was sealed for another row, and a webhook whose secrets nobody sealed.
    let mut moved = world.event(&inboxes[0]).build();
    moved.content = Some(found[0].record.clone());
    let (id, (hook, _)) = (moved.event.id, world.subscriber().await);
    world.accept(moved).await;
    let sampled = sample(world.store.as_ref(), &keys, &dice, 9).await.unwrap();
    assert_eq!(sampled.records, 3);
    let closed: Vec<String> = sampled.closed.iter().map(|(_, slot)| slot.to_string()).collect();
    assert_eq!(closed, [format!("the body of {id}"), format!("the secrets of {}", hook.id)]);
}
