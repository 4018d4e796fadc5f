//! Two keys: either makes a duplicate, and a duplicate takes neither.

use std::collections::HashSet;

use wakepost_domain::{EventId, WorkId};

use super::Harness;
use super::deduplicating::{accept_at_once, new_ones};
use super::world::{ALL, World};
use crate::moves::{Accepted, NewEvent};

pub async fn either_of_two_keys_makes_a_duplicate(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.event(&inbox).with_key("a").with_key("b").build();
    world.accept(first.clone()).await;
    let of_first =
        Accepted::Duplicate { of: first.event.id, job: Some(WorkId::first_of(first.event.id)) };
    let repeats = [
        world.event(&inbox).with_key("a"),
        world.event(&inbox).with_key("b"),
        world.event(&inbox).with_key("b").with_key("c"),
        world.event(&inbox).with_key("c").with_key("a"),
    ];
    for repeat in repeats {
        assert_eq!(world.accept(repeat).await, of_first);
    }
    assert_eq!(world.accept(world.event(&inbox).with_key("c")).await, Accepted::New);
}

pub async fn a_duplicate_takes_none_of_its_keys(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.accept(world.event(&inbox).with_key("taken")).await;
    for pair in [["free", "taken"], ["taken", "free"]] {
        let repeat = world.event(&inbox).with_key(pair[0]).with_key(pair[1]);
        assert!(matches!(world.accept(repeat).await, Accepted::Duplicate { .. }));
    }
    assert_eq!(world.accept(world.event(&inbox).with_key("free")).await, Accepted::New);
}

pub async fn a_copy_of_a_duplicate_by_its_free_key_is_new(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.event(&inbox).with_key("taken").build();
    world.accept(first.clone()).await;
    let repeat = world.event(&inbox).with_key("free").with_key("taken").build();
    let own = world.event(&inbox).with_key("free").build();
    let copy = world.event(&inbox).with_key("free").build();
    let of = |event: &NewEvent| Accepted::Duplicate {
        of: event.event.id,
        job: Some(WorkId::first_of(event.event.id)),
    };
    let answers = world.store.accept(vec![repeat, own.clone(), copy]).await;
    let answers: Vec<Accepted> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers, [of(&first), Accepted::New, of(&own)]);
}

pub async fn many_that_share_only_a_second_key_leave_their_first_keys_free(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let draft = |own: usize| world.event(&inbox).with_key(&format!("own-{own}"));
    let events: Vec<NewEvent> = (0..100).map(|own| draft(own).with_key("shared").build()).collect();
    let answers = accept_at_once(&world, events).await;
    let new = new_ones(&answers);
    assert_eq!(new.len(), 1);
    assert_eq!(world.stored(inbox.tenant, new[0]).await.duplicates, 99);
    for (own, (_, answer)) in answers.into_iter().enumerate() {
        let free = world.accept(draft(own)).await == Accepted::New;
        assert_eq!(free, answer != Accepted::New, "own-{own}");
    }
}

/// Pairs of keys that overlap in a ring, in both orders: the hardest case for locks taken key by key.
pub async fn overlapping_keys_at_once_never_block_each_other(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut keys_of: Vec<(EventId, [usize; 2])> = Vec::new();
    let mut events = Vec::new();
    for turn in 0..120 {
        let pair = [turn % 8, (turn % 8 + 1) % 8];
        let order = if turn / 8 % 2 == 0 { pair } else { [pair[1], pair[0]] };
        let new = world.event(&inbox).with_key(&format!("k{}", order[0]));
        let new = new.with_key(&format!("k{}", order[1])).build();
        keys_of.push((new.event.id, pair));
        events.push(new);
    }
    let answers = accept_at_once(&world, events).await;
    let new: HashSet<EventId> = new_ones(&answers).into_iter().collect();
    assert!(!new.is_empty());
    let mut taken = HashSet::new();
    for (_, pair) in keys_of.iter().filter(|(id, _)| new.contains(id)) {
        assert!(pair.iter().all(|key| taken.insert(*key)), "a key has two events");
    }
    for (_, pair) in &keys_of {
        assert!(pair.iter().any(|key| taken.contains(key)), "a duplicate of nothing");
    }
    let events = world.store.events(inbox.tenant, Default::default(), ALL).await.unwrap();
    let repeats: i32 = events.iter().map(|row| row.event.duplicates).sum();
    assert_eq!((events.len(), repeats as usize), (new.len(), 120 - new.len()));
}
