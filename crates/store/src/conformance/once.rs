//! Idempotency keys: a repeat under the same key gets the first answer, and nothing happens again.

use std::time::Duration;

use wakepost_domain::TenantId;
use wakepost_domain::tenant::TenantSettings;

use super::Harness;
use super::drafts::once;
use super::world::{ALL, World, sealed};
use crate::error::StoreError;
use crate::moves::{Idempotency, Once, Replayed};

const HOUR: Duration = Duration::from_secs(3600);

pub async fn a_repeat_gets_the_first_answer_and_makes_nothing(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let until = world.now().await.after(HOUR);
    let first = world.job(&inbox).build();
    let id = first.id;
    let made = world.store.create_work(vec![first], Some(once(1, "first", until))).await.unwrap();
    assert_eq!(made, Once::Now(vec![id]));
    let other_body = Idempotency { body_hash: [9; 32], ..once(1, "second", until) };
    for repeat in [once(1, "second", until), other_body] {
        let again = world.job(&inbox).build();
        let answer = world.other.create_work(vec![again], Some(repeat)).await.unwrap();
        let before = Replayed { body_hash: [1; 32], answer: sealed("first") };
        assert_eq!(answer, Once::Before(before));
    }
    let rows = world.store.work_list(inbox.tenant, Default::default(), ALL).await.unwrap();
    assert_eq!(rows.len(), 1);
    let other_key = world.job(&inbox).build();
    let answer = world.store.create_work(vec![other_key], Some(once(2, "x", until))).await.unwrap();
    assert!(matches!(answer, Once::Now(_)), "another key is another request");
}

pub async fn a_key_that_made_nothing_new_leaves_the_answer_to_the_dedup_key(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let until = world.now().await.after(HOUR);
    let first = world.job(&inbox).with_key("same", until).build();
    let id = first.id;
    world.store.create_work(vec![first], None).await.unwrap();
    for _ in 0..2 {
        let again = world.job(&inbox).with_key("same", until).build();
        let answer = world.store.create_work(vec![again], Some(once(1, "x", until))).await.unwrap();
        assert_eq!(answer, Once::Now(vec![id]));
    }
}

pub async fn an_expired_key_is_forgotten(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let create = async |answer: &str| {
        let until = world.now().await.after(HOUR);
        let item = vec![world.job(&inbox).build()];
        world.store.create_work(item, Some(once(1, answer, until))).await.unwrap()
    };
    assert!(matches!(create("first").await, Once::Now(_)));
    world.advance_s(3500).await;
    assert!(matches!(create("second").await, Once::Before(_)));
    world.advance_s(101).await;
    assert!(matches!(create("third").await, Once::Now(_)));
    let Once::Before(before) = create("fourth").await else { panic!("it happened again") };
    assert_eq!(before.answer, sealed("third"));
}

pub async fn of_many_at_once_one_happens_and_all_get_its_answer(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let until = world.now().await.after(HOUR);
    let mut calls = Vec::new();
    for turn in 0..40 {
        let items = vec![world.job(&inbox).build(), world.job(&inbox).build()];
        let key = once(1, &format!("answer {turn}"), until);
        let node = world.node(turn);
        calls.push(tokio::spawn(async move {
            let own = key.answer.clone();
            match node.create_work(items, Some(key)).await.unwrap() {
                Once::Now(_) => (true, own),
                Once::Before(before) => (false, before.answer),
            }
        }));
    }
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    assert_eq!(answers.iter().filter(|(now, _)| *now).count(), 1);
    assert!(answers.iter().all(|(_, answer)| *answer == answers[0].1));
    let rows = world.store.work_list(inbox.tenant, Default::default(), ALL).await.unwrap();
    assert_eq!(rows.len(), 2);
}

pub async fn what_failed_does_not_take_its_key(harness: &impl Harness) {
    let world = World::new(harness).await;
    let until = world.now().await.after(HOUR);
    let create = async |slug: &str| {
        let audit = world.audit(TenantId::DEFAULT, "tenant.create");
        let settings = TenantSettings::default();
        let key = Some(once(1, slug, until));
        world.store.create_tenant(slug.to_owned(), settings, audit, key).await
    };
    assert!(matches!(create("default").await, Err(StoreError::Exists(_))));
    assert!(matches!(create("acme").await.unwrap(), Once::Now(_)));
    let Once::Before(before) = create("other").await.unwrap() else { panic!("it happened again") };
    assert_eq!(before.answer, sealed("acme"));
    let slugs: Vec<String> =
        world.store.tenants().await.unwrap().into_iter().map(|tenant| tenant.slug).collect();
    assert_eq!(slugs, ["acme", "default"]);
}
