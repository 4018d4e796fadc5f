//! Keys: found by their hash alone, bound to whose they are, and gone when revoked or expired.

use std::time::Duration;

use wakepost_domain::access::{Key, Reach, Role};
use wakepost_domain::{KeyId, TenantId};

use super::Harness;
use super::world::{World, assert_not_found};
use crate::error::StoreError;
use crate::moves::{KeyRecord, Once};

impl<H: Harness> World<'_, H> {
    /// A key for the first byte of its hash.
    async fn key(&self, hash: u8, reach: Reach, role: Role) -> Key {
        let key = Key {
            id: KeyId(self.id()),
            name: format!("key {hash}"),
            role,
            reach,
            created_at: self.now().await,
            expires_at: None,
            last_used_at: None,
            rate_per_s: (hash % 2 == 1).then_some(2.5),
        };
        self.keep_key(hash, &key).await;
        key
    }

    async fn keep_key(&self, hash: u8, key: &Key) {
        let record = KeyRecord { hash: [hash; 32], key: key.clone() };
        let audit = self.audit(TenantId::DEFAULT, "key.create");
        assert_eq!(self.store.create_key(record, audit, None).await.unwrap(), Once::Now(()));
    }
}

pub async fn a_key_is_found_by_its_hash_alone(harness: &impl Harness) {
    let world = World::new(harness).await;
    let acme = Reach::Tenant(world.tenant("acme").await);
    let mine = world.key(1, acme, Role::Worker).await;
    let all = world.key(2, Reach::All, Role::Admin).await;
    assert_eq!(world.store.key_by_hash([1; 32]).await.unwrap(), Some(mine.clone()));
    assert_eq!(world.other.key_by_hash([2; 32]).await.unwrap(), Some(all));
    assert_eq!(world.store.key_by_hash([3; 32]).await.unwrap(), None);
    let record = KeyRecord { hash: [1; 32], key: Key { id: KeyId(world.id()), ..mine } };
    let audit = world.audit(TenantId::DEFAULT, "key.create");
    let twice = world.store.create_key(record, audit, None).await;
    assert!(matches!(twice, Err(StoreError::Exists(_))), "{twice:?}");
}

pub async fn a_revoked_key_is_gone_at_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let key = world.key(1, Reach::Tenant(acme), Role::Operator).await;
    for reach in [Reach::Tenant(other), Reach::All] {
        let audit = world.audit(other, "key.revoke");
        assert_not_found(world.store.revoke_key(key.id, Some(reach), audit).await);
    }
    assert_eq!(world.store.key_by_hash([1; 32]).await.unwrap(), Some(key.clone()));
    let audit = world.audit(acme, "key.revoke");
    world.store.revoke_key(key.id, Some(Reach::Tenant(acme)), audit).await.unwrap();
    assert_eq!(world.other.key_by_hash([1; 32]).await.unwrap(), None);
    assert!(world.store.keys(None).await.unwrap().is_empty());
    assert_eq!(world.store.count_keys(Role::Operator).await.unwrap(), 0);
    let audit = world.audit(acme, "key.revoke");
    assert_not_found(world.store.revoke_key(key.id, None, audit).await);
    assert_eq!(world.actions(acme).await, ["key.revoke", "tenant.create"]);
}

pub async fn an_expired_key_is_gone_by_itself(harness: &impl Harness) {
    let world = World::new(harness).await;
    let mut key = world.key(9, Reach::All, Role::Viewer).await;
    key.id = KeyId(world.id());
    key.expires_at = Some(world.now().await.after(Duration::from_secs(100)));
    world.keep_key(1, &key).await;
    world.advance_s(50).await;
    assert_eq!(world.store.key_by_hash([1; 32]).await.unwrap(), Some(key));
    assert_eq!(world.store.count_keys(Role::Viewer).await.unwrap(), 2);
    world.advance_s(50).await;
    assert_eq!(world.store.key_by_hash([1; 32]).await.unwrap(), None);
    assert_eq!(world.store.count_keys(Role::Viewer).await.unwrap(), 1);
}

pub async fn keys_are_listed_by_whose_they_are_newest_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (acme, other) =
        (Reach::Tenant(world.tenant("acme").await), Reach::Tenant(world.tenant("other").await));
    let a = world.key(1, acme, Role::Worker).await;
    let b = world.key(2, Reach::All, Role::Admin).await;
    let c = world.key(3, acme, Role::Viewer).await;
    assert_eq!(world.store.keys(None).await.unwrap(), [c.clone(), b.clone(), a.clone()]);
    assert_eq!(world.store.keys(Some(acme)).await.unwrap(), [c, a]);
    assert_eq!(world.store.keys(Some(Reach::All)).await.unwrap(), [b]);
    assert!(world.store.keys(Some(other)).await.unwrap().is_empty());
    assert_eq!(world.store.count_keys(Role::Admin).await.unwrap(), 1);
    assert_eq!(world.store.count_keys(Role::Publisher).await.unwrap(), 0);
}

pub async fn a_keys_last_use_never_goes_back(harness: &impl Harness) {
    let world = World::new(harness).await;
    let key = world.key(1, Reach::All, Role::Admin).await;
    let now = world.now().await;
    let (later, earlier) =
        (now.after(Duration::from_secs(60)), now.before(Duration::from_secs(60)));
    for at in [now, later, earlier] {
        let unknown = (KeyId(world.id()), at);
        world.store.touch_keys(vec![(key.id, at), unknown]).await.unwrap();
    }
    let touched = world.store.key_by_hash([1; 32]).await.unwrap().unwrap();
    assert_eq!(touched, Key { last_used_at: Some(later), ..key });
}
