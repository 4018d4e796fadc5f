//! Subscribing: webhooks and types are kept as they were made, within their bounds, and versions decide races.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use wakepost_domain::circuit::{Circuit, Outcome};
use wakepost_domain::event_type::{EventType, EventTypeSpec, PER_TENANT_MAX, Version};
use wakepost_domain::webhook::{Disabled, Notice, NoticeKind, Paused, WebhookConfig};
use wakepost_domain::{TenantId, Timestamp, WebhookId};

use super::Harness;
use super::drafts::once;
use super::world::{World, assert_invalid, assert_not_found, sealed};
use crate::error::{Result, StoreError};
use crate::moves::{Idempotency, Once, Replayed, WebhookRecord};

const TENANT: TenantId = TenantId::DEFAULT;
const MINUTE: Duration = Duration::from_secs(60);

#[track_caller]
fn assert_limit<T: std::fmt::Debug>(answer: Result<T>) {
    assert!(matches!(answer, Err(StoreError::Limit(_))), "not Limit: {answer:?}");
}

/// A webhook of which everything is set.
fn rich(record: WebhookRecord, now: Timestamp) -> WebhookRecord {
    let mut circuit = Circuit::default();
    let settings = record.config.circuit;
    for _ in 0..5 {
        circuit.note(&settings, Outcome { started_at: now, ok: false, ok_before: 3 }, now);
    }
    let notice = |kind| Notice { kind, at: now, reason: "5 \"failures\" in a row".to_owned() };
    let config = WebhookConfig {
        description: "ünïcode \u{1F980}".to_owned(),
        paused: Some(Paused { since: now, keep: true }),
        disabled: Some(Disabled { since: now, reason: "gone".to_owned() }),
        rate_per_s: Some(0.1),
        retry_s: Some(vec![0, 5, 60]),
        metadata: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
        secret_made_at: now,
        ..record.config
    };
    WebhookRecord {
        config,
        circuit,
        notices: vec![notice(NoticeKind::CircuitOpened), notice(NoticeKind::Disabled)],
        shut_until: Some(now.after(MINUTE)),
        due_at: Some(now.after(2 * MINUTE)),
        ..record
    }
}

impl<H: Harness> World<'_, H> {
    async fn read_webhook(&self, id: WebhookId) -> WebhookRecord {
        self.other.webhook(id).await.unwrap().expect("it is there")
    }

    async fn put_type(&self, tenant: TenantId, new: &EventType, only_new: bool) -> Result<()> {
        let audit = self.audit(tenant, "event_type.put");
        let put = self.store.put_event_type(tenant, new.clone(), only_new, audit, None).await?;
        assert_eq!(put, Once::Now(()));
        Ok(())
    }
}

pub async fn a_webhook_is_kept_as_it_was_made(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (_, plain) = world.subscriber().await;
    let rich = rich(world.record(&world.hook().await), world.now().await);
    world.subscribe(rich.clone()).await;
    assert_eq!(world.read_webhook(plain.id).await, plain);
    assert_eq!(world.read_webhook(rich.id).await, rich);
    assert_eq!(world.other.webhooks(TENANT).await.unwrap(), [rich.clone(), plain]);
    let other = world.tenant("acme").await;
    assert_eq!(world.store.webhooks(other).await.unwrap(), []);
    assert_eq!(world.store.webhook(WebhookId(world.id())).await.unwrap(), None);
    assert_eq!(world.actions(TENANT).await, ["webhook.create", "webhook.create"]);
}

pub async fn a_webhook_is_made_once_under_an_idempotency_key(harness: &impl Harness) {
    let world = World::new(harness).await;
    let until = world.now().await.after(MINUTE);
    for expected in [true, false] {
        let record = world.record(&world.hook().await);
        let audit = world.audit(TENANT, "webhook.create");
        let key = Some(once(3, "made", until));
        // The second would be one too many, but it is none.
        let made = world.store.create_webhook(record, 1, audit, key).await.unwrap();
        assert_eq!(made == Once::Now(()), expected);
    }
    assert_eq!(world.store.webhooks(TENANT).await.unwrap().len(), 1);
    // Whoever does something before it is stored can ask first.
    let Idempotency { key, body_hash, answer, .. } = once(3, "made", until);
    let before = world.other.remembered(key).await.unwrap();
    assert_eq!(before, Some(Replayed { body_hash, answer }));
    assert_eq!(world.store.remembered([4; 16]).await.unwrap(), None);
    world.advance(MINUTE).await;
    assert_eq!(world.store.remembered(key).await.unwrap(), None);
}

pub async fn a_tenant_has_so_many_webhooks_and_no_more(harness: &impl Harness) {
    let world = World::new(harness).await;
    const MOST: u32 = 3;
    let mut calls = Vec::new();
    for turn in 0..12 {
        let record = world.record(&world.hook().await);
        let audit = world.audit(TENANT, "webhook.create");
        let node = world.node(turn);
        calls.push(tokio::spawn(
            async move { node.create_webhook(record, MOST, audit, None).await },
        ));
    }
    let mut made = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => made += 1,
            refused => assert_limit(refused),
        }
    }
    let there = world.store.webhooks(TENANT).await.unwrap();
    assert_eq!((made, there.len()), (3, 3));
    assert_eq!(world.actions(TENANT).await.len(), 3, "what was refused left no trace");
    // Another tenant has its own, and what is deleted makes room.
    let theirs = world.record(&world.hook_of(world.tenant("theirs").await).await);
    let audit = world.audit(theirs.tenant, "webhook.create");
    world.store.create_webhook(theirs, 1, audit, None).await.unwrap();
    let audit = world.audit(TENANT, "webhook.delete");
    world.store.delete_webhook(TENANT, there[0].id, audit).await.unwrap();
    let record = world.record(&world.hook().await);
    let audit = world.audit(TENANT, "webhook.create");
    world.store.create_webhook(record, MOST, audit, None).await.unwrap();
}

pub async fn a_webhook_changes_only_from_what_was_seen(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (_, seen) = world.subscriber().await;
    let changed = WebhookRecord { secrets: sealed("new"), ..rich(seen.clone(), world.now().await) };
    let audit = world.audit(TENANT, "webhook.update");
    world.store.update_webhook(changed.clone(), Some(audit)).await.unwrap();
    let now = WebhookRecord { version: 1, ..changed };
    assert_eq!(world.read_webhook(seen.id).await, now);
    // Seen before the change; and nothing of it is written, the lane and the trail included.
    let late = WebhookRecord { shut_until: None, ..seen.clone() };
    let audit = world.audit(TENANT, "webhook.update");
    assert_invalid(world.other.update_webhook(late, Some(audit)).await);
    assert_eq!(world.read_webhook(seen.id).await, now);
    // What the gateway changes by itself is not in the trail.
    let plain = WebhookRecord { version: 1, ..seen.clone() };
    world.other.update_webhook(plain, None).await.unwrap();
    assert_eq!(world.read_webhook(seen.id).await, WebhookRecord { version: 2, ..seen.clone() });
    assert_eq!(world.actions(TENANT).await, ["webhook.update", "webhook.create"]);
    let gone = WebhookRecord { id: WebhookId(world.id()), ..seen.clone() };
    assert_not_found(world.store.update_webhook(gone, None).await);
    let theirs = world.tenant("theirs").await;
    let stolen = WebhookRecord { tenant: theirs, version: 2, ..seen };
    assert_not_found(world.store.update_webhook(stolen, None).await);
}

pub async fn of_many_changes_of_a_webhook_at_once_one_happens(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (hook, mut seen) = world.subscriber().await;
    let now = world.now().await;
    for round in 0..3 {
        let mut calls = Vec::new();
        for turn in 0..10 {
            let until = now.after(MINUTE * (1 + round * 10 + turn));
            let record = WebhookRecord {
                shut_until: Some(until),
                due_at: Some(until),
                config: WebhookConfig { description: turn.to_string(), ..seen.config.clone() },
                ..seen.clone()
            };
            let node = world.node(turn as usize);
            calls.push(tokio::spawn(async move {
                (record.clone(), node.update_webhook(record, None).await)
            }));
        }
        let mut won = Vec::new();
        for call in calls {
            match call.await.unwrap() {
                (record, Ok(())) => won.push(record),
                (_, refused) => assert_invalid(refused),
            }
        }
        assert_eq!(won.len(), 1);
        let won = won.remove(0);
        seen = world.read_webhook(hook.id).await;
        // The lane is shut for as long as the winner says.
        assert_eq!(seen, WebhookRecord { version: won.version + 1, ..won });
    }
}

pub async fn a_deleted_webhook_is_gone_and_its_deliveries_stay(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (hook, record) = world.subscriber().await;
    world.published_many(&hook, 2).await;
    world.shut(&hook, Some(Timestamp::from_millis(i64::MAX))).await;
    let theirs = world.tenant("theirs").await;
    let audit = || world.audit(TENANT, "webhook.delete");
    assert_not_found(world.store.delete_webhook(theirs, record.id, audit()).await);
    world.store.delete_webhook(TENANT, record.id, audit()).await.unwrap();
    assert_not_found(world.store.delete_webhook(TENANT, record.id, audit()).await);
    assert_eq!(world.other.webhook(record.id).await.unwrap(), None);
    assert_eq!(world.other.webhooks(TENANT).await.unwrap(), []);
    assert_eq!(world.actions(TENANT).await, ["webhook.delete", "webhook.create"]);
    // Its lane is open: whoever claims what is left finds out.
    assert_eq!(world.claim(&hook).up_to(9).take().await.len(), 2);
}

pub async fn a_webhook_is_due_from_its_moment_on(harness: &impl Harness) {
    let world = World::new(harness).await;
    let now = world.now().await;
    let mut made = Vec::new();
    for due_at in [Some(now.after(20 * MINUTE)), None, Some(now.after(10 * MINUTE))] {
        let record = WebhookRecord { due_at, ..world.record(&world.hook().await) };
        world.subscribe(record.clone()).await;
        made.push(record);
    }
    assert_eq!(world.store.due_webhooks(9).await.unwrap(), []);
    world.advance(11 * MINUTE).await;
    assert_eq!(world.other.due_webhooks(9).await.unwrap(), [made[2].clone()]);
    world.advance(10 * MINUTE).await;
    let both = [made[2].clone(), made[0].clone()];
    assert_eq!(world.other.due_webhooks(9).await.unwrap(), both);
    assert_eq!(world.store.due_webhooks(1).await.unwrap(), both[..1]);
    let seen = WebhookRecord { due_at: None, ..made[2].clone() };
    world.store.update_webhook(seen, None).await.unwrap();
    assert_eq!(world.store.due_webhooks(9).await.unwrap(), both[1..]);
}

fn event_type(name: &str, description: &str) -> EventType {
    let version = Version {
        schema: Some(json!({"type": "object", "required": ["id"], "minProperties": 1.5})),
        example: Some(json!({"id": 12_345_678_901_i64, "text": "\u{1F980} \"quoted\""})),
        change: Some("first".to_owned()),
    };
    let versions = BTreeMap::from([("2026-11-15".to_owned(), version)]);
    let spec = EventTypeSpec { description: description.to_owned(), versions };
    EventType { name: name.to_owned(), spec }
}

pub async fn types_are_kept_as_they_were_registered(harness: &impl Harness) {
    let world = World::new(harness).await;
    let theirs = world.tenant("theirs").await;
    let [b, a, b_again] = [("b.made", "1"), ("a.made", "2"), ("b.made", "3")]
        .map(|(name, description)| event_type(name, description));
    world.put_type(TENANT, &b, true).await.unwrap();
    world.put_type(TENANT, &a, false).await.unwrap();
    world.put_type(theirs, &b_again, true).await.unwrap();
    assert_eq!(world.other.event_types(TENANT).await.unwrap(), [a.clone(), b.clone()]);
    let refused = world.put_type(TENANT, &b_again, true).await;
    assert!(matches!(refused, Err(StoreError::Exists(_))), "{refused:?}");
    assert_eq!(world.other.event_types(TENANT).await.unwrap(), [a.clone(), b]);
    world.put_type(TENANT, &b_again, false).await.unwrap();
    assert_eq!(world.other.event_types(TENANT).await.unwrap(), [a.clone(), b_again.clone()]);
    let audit = || world.audit(TENANT, "event_type.delete");
    world.store.delete_event_type(TENANT, a.name.clone(), audit()).await.unwrap();
    assert_not_found(world.store.delete_event_type(TENANT, a.name, audit()).await);
    assert_eq!(world.other.event_types(TENANT).await.unwrap(), std::slice::from_ref(&b_again));
    assert_eq!(world.other.event_types(theirs).await.unwrap(), [b_again]);
    let trail = world.actions(TENANT).await;
    assert_eq!(trail.len(), 4, "three puts and a delete: {trail:?}");
}

pub async fn a_type_is_registered_once_under_an_idempotency_key(harness: &impl Harness) {
    let world = World::new(harness).await;
    let until = world.now().await.after(MINUTE);
    for expected in [true, false] {
        let audit = world.audit(TENANT, "event_type.put");
        let key = Some(once(4, "made", until));
        let new = event_type("a.made", "new");
        let put = world.store.put_event_type(TENANT, new, true, audit, key).await.unwrap();
        assert_eq!(put == Once::Now(()), expected);
    }
}

pub async fn a_tenant_has_so_many_types_and_no_more(harness: &impl Harness) {
    let world = World::new(harness).await;
    let new =
        |nth: i64| EventType { name: format!("thing{nth}.made"), spec: EventTypeSpec::default() };
    for nth in 0..PER_TENANT_MAX {
        world.put_type(TENANT, &new(nth), true).await.unwrap();
    }
    assert_limit(world.put_type(TENANT, &new(PER_TENANT_MAX), false).await);
    // One that is there can be changed, another tenant has its own, and what is deleted makes room.
    world
        .put_type(TENANT, &EventType { name: new(7).name, ..event_type("", "more") }, false)
        .await
        .unwrap();
    let theirs = world.tenant("theirs").await;
    world.put_type(theirs, &new(0), true).await.unwrap();
    let audit = world.audit(TENANT, "event_type.delete");
    world.store.delete_event_type(TENANT, new(0).name, audit).await.unwrap();
    world.put_type(TENANT, &new(PER_TENANT_MAX), true).await.unwrap();
    assert_eq!(world.store.event_types(TENANT).await.unwrap().len() as i64, PER_TENANT_MAX);
}
