//! Deduplicating: of any number of copies, on any number of nodes, one is new.

use std::collections::HashSet;
use std::time::Duration;

use wakepost_domain::receipt::Verdict;
use wakepost_domain::{EventId, WorkId, limits};

use super::Harness;
use super::drafts::Inbox;
use super::world::{ALL, World};
use crate::moves::{Accepted, NewEvent, ReceiptRow};

/// All at once, over both nodes, each in a call of its own.
async fn accept_at_once<H: Harness>(
    world: &World<'_, H>,
    events: Vec<NewEvent>,
) -> Vec<(EventId, Accepted)> {
    let mut calls = Vec::new();
    for (turn, new) in events.into_iter().enumerate() {
        let node = world.node(turn);
        calls.push(tokio::spawn(async move {
            let id = new.event.id;
            (id, node.accept(vec![new]).await.remove(0).unwrap())
        }));
    }
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    answers
}

fn new_ones(answers: &[(EventId, Accepted)]) -> Vec<EventId> {
    answers
        .iter()
        .filter(|(_, answer)| *answer == Accepted::New)
        .map(|(id, _)| *id)
        .collect()
}

pub async fn a_repeat_is_a_duplicate_of_the_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.event(&inbox).with_key("a").build();
    let again = world
        .event(&inbox)
        .with_key("a")
        .with_body(b"other".to_vec())
        .build();
    world.accept(first.clone()).await;
    let of_first = Accepted::Duplicate {
        of: first.event.id,
        has_job: true,
    };
    assert_eq!(world.accept(again.clone()).await, of_first);
    assert_eq!(
        world.stored(inbox.tenant, first.event.id).await.duplicates,
        1
    );
    assert_eq!(
        world
            .store
            .event(inbox.tenant, again.event.id)
            .await
            .unwrap(),
        None
    );
    assert!(
        world
            .store
            .contents(vec![again.event.id])
            .await
            .unwrap()
            .is_empty()
    );
    let work = WorkId::first_of(again.event.id);
    assert_eq!(world.store.work(inbox.tenant, work).await.unwrap(), None);
    let receipt = ReceiptRow {
        id: again.receipt.id,
        event: Some(first.event.id),
        remote_addr: again.receipt.remote_addr,
        verdict: Verdict::Duplicate,
        latency_us: again.receipt.latency_us,
        detail: again.receipt.detail,
    };
    assert_eq!(
        world
            .store
            .receipts(inbox.tenant, first.event.id)
            .await
            .unwrap(),
        [receipt]
    );
}

pub async fn a_repeat_of_an_event_without_a_job_says_so(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.event(&inbox).with_key("a").unmapped().build();
    world.accept(first.clone()).await;
    let again = world.accept(world.event(&inbox).with_key("a")).await;
    assert_eq!(
        again,
        Accepted::Duplicate {
            of: first.event.id,
            has_job: false
        }
    );
}

/// A caller that never learned of the commit tries the very same event again.
pub async fn the_very_same_event_again_is_new_and_stored_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let new = world.event(&inbox).with_key("a").with_key("b").build();
    for _ in 0..3 {
        assert_eq!(world.accept(new.clone()).await, Accepted::New);
    }
    assert_eq!(world.stored(inbox.tenant, new.event.id).await.duplicates, 0);
    assert_eq!(world.claim(&inbox).up_to(10).take().await.len(), 1);
}

pub async fn of_two_hundred_copies_at_once_one_is_new(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let copies: Vec<NewEvent> = (0..200)
        .map(|_| world.event(&inbox).with_key("a").build())
        .collect();
    let answers = accept_at_once(&world, copies).await;
    let new = new_ones(&answers);
    assert_eq!(new.len(), 1);
    let of_first = Accepted::Duplicate {
        of: new[0],
        has_job: true,
    };
    assert_eq!(
        answers
            .iter()
            .filter(|(_, answer)| *answer == of_first)
            .count(),
        199
    );
    let events = world
        .store
        .events(inbox.tenant, Default::default(), ALL)
        .await
        .unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(
        (events[0].event.id, events[0].event.duplicates),
        (new[0], 199)
    );
    assert_eq!(world.claim(&inbox).up_to(10).take().await.len(), 1);
    let kept = world
        .store
        .receipts(inbox.tenant, new[0])
        .await
        .unwrap()
        .len();
    assert_eq!(kept, limits::DUPLICATE_RECEIPTS_KEPT as usize);
}

pub async fn copies_in_one_batch_are_duplicates_of_its_first(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let batch: Vec<NewEvent> = ["a", "b", "a", "a", "b"]
        .map(|key| world.event(&inbox).with_key(key).build())
        .into();
    let ids: Vec<EventId> = batch.iter().map(|new| new.event.id).collect();
    let answers: Vec<Accepted> = world
        .store
        .accept(batch)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let of = |index: usize| Accepted::Duplicate {
        of: ids[index],
        has_job: true,
    };
    assert_eq!(answers, [Accepted::New, Accepted::New, of(0), of(0), of(1)]);
    assert_eq!(world.stored(inbox.tenant, ids[0]).await.duplicates, 2);
    assert_eq!(world.stored(inbox.tenant, ids[1]).await.duplicates, 1);
}

pub async fn batches_of_the_same_copies_at_once_make_each_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut calls = Vec::new();
    for turn in 0..12 {
        // Each in another order, so that two batches meet the same keys from both ends.
        let keys = (0..30).map(|key| (key * 7 + turn * 11) % 30);
        let batch: Vec<NewEvent> = keys
            .map(|key| world.event(&inbox).with_key(&format!("k{key}")).build())
            .collect();
        let node = world.node(turn);
        calls.push(tokio::spawn(async move { node.accept(batch).await }));
    }
    let mut new = 0;
    for call in calls {
        new += call
            .await
            .unwrap()
            .into_iter()
            .filter(|a| *a.as_ref().unwrap() == Accepted::New)
            .count();
    }
    assert_eq!(new, 30);
    let events = world
        .store
        .events(inbox.tenant, Default::default(), ALL)
        .await
        .unwrap();
    assert_eq!(events.len(), 30);
    assert!(
        events.iter().all(|row| row.event.duplicates == 11),
        "every repeat is counted"
    );
}

pub async fn either_of_two_keys_makes_a_duplicate(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.event(&inbox).with_key("a").with_key("b").build();
    world.accept(first.clone()).await;
    let of_first = Accepted::Duplicate {
        of: first.event.id,
        has_job: true,
    };
    let repeats = [
        world.event(&inbox).with_key("a"),
        world.event(&inbox).with_key("b"),
        world.event(&inbox).with_key("b").with_key("c"),
        world.event(&inbox).with_key("c").with_key("a"),
    ];
    for repeat in repeats {
        assert_eq!(world.accept(repeat).await, of_first);
    }
    assert_eq!(
        world.accept(world.event(&inbox).with_key("c")).await,
        Accepted::New
    );
}

pub async fn a_duplicate_takes_none_of_its_keys(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.accept(world.event(&inbox).with_key("taken")).await;
    for pair in [["free", "taken"], ["taken", "free"]] {
        let repeat = world.event(&inbox).with_key(pair[0]).with_key(pair[1]);
        assert!(matches!(
            world.accept(repeat).await,
            Accepted::Duplicate { .. }
        ));
    }
    assert_eq!(
        world.accept(world.event(&inbox).with_key("free")).await,
        Accepted::New
    );
}

pub async fn a_copy_of_a_duplicate_by_its_free_key_is_new(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.event(&inbox).with_key("taken").build();
    world.accept(first.clone()).await;
    let repeat = world
        .event(&inbox)
        .with_key("free")
        .with_key("taken")
        .build();
    let own = world.event(&inbox).with_key("free").build();
    let copy = world.event(&inbox).with_key("free").build();
    let of = |event: &NewEvent| Accepted::Duplicate {
        of: event.event.id,
        has_job: true,
    };
    let answers = world.store.accept(vec![repeat, own.clone(), copy]).await;
    let answers: Vec<Accepted> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers, [of(&first), Accepted::New, of(&own)]);
}

pub async fn many_that_share_only_a_second_key_leave_their_first_keys_free(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let draft = |own: usize| world.event(&inbox).with_key(&format!("own-{own}"));
    let events: Vec<NewEvent> = (0..100)
        .map(|own| draft(own).with_key("shared").build())
        .collect();
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
        let order = if turn / 8 % 2 == 0 {
            pair
        } else {
            [pair[1], pair[0]]
        };
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
        assert!(
            pair.iter().all(|key| taken.insert(*key)),
            "a key has two events"
        );
    }
    for (_, pair) in &keys_of {
        assert!(
            pair.iter().any(|key| taken.contains(key)),
            "a duplicate of nothing"
        );
    }
    let events = world
        .store
        .events(inbox.tenant, Default::default(), ALL)
        .await
        .unwrap();
    let repeats: i32 = events.iter().map(|row| row.event.duplicates).sum();
    assert_eq!(
        (events.len(), repeats as usize),
        (new.len(), 120 - new.len())
    );
}

pub async fn the_same_key_of_two_tenants_or_sources_never_mixes(harness: &impl Harness) {
    let world = World::new(harness).await;
    let mine = world.inbox().await;
    let second = world.inbox().await;
    let theirs = world.inbox_of(world.tenant("theirs").await).await;
    // Even a source of the same id, which chance does not make, stays with its tenant.
    let twin = Inbox {
        source: mine.source,
        ..theirs
    };
    for inbox in [&mine, &second, &theirs, &twin] {
        assert_eq!(
            world.accept(world.event(inbox).with_key("a")).await,
            Accepted::New
        );
    }
    for inbox in [&mine, &second, &theirs, &twin] {
        let again = world.event(inbox).with_key("a").build();
        let Accepted::Duplicate { of, .. } = world.accept(again).await else {
            panic!("not a copy")
        };
        let first = world.stored(inbox.tenant, of).await;
        assert_eq!((first.source, first.tenant), (inbox.source, inbox.tenant));
        assert_eq!(first.duplicates, 1);
    }
}

pub async fn a_key_blocks_for_its_whole_window_and_no_longer(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let until = world.now().await.after(Duration::from_secs(1000));
    let first = world
        .event(&inbox)
        .with_key("a")
        .blocking_until(until)
        .build();
    world.accept(first.clone()).await;
    world.advance_s(900).await;
    let again = world.accept(world.event(&inbox).with_key("a")).await;
    assert_eq!(
        again,
        Accepted::Duplicate {
            of: first.event.id,
            has_job: true
        }
    );
    world.advance_s(101).await;
    let next = world.event(&inbox).with_key("a").build();
    assert_eq!(world.accept(next.clone()).await, Accepted::New);
    let again = world.accept(world.event(&inbox).with_key("a")).await;
    assert_eq!(
        again,
        Accepted::Duplicate {
            of: next.event.id,
            has_job: true
        }
    );
    assert_eq!(
        world.stored(inbox.tenant, first.event.id).await.duplicates,
        1
    );
}

pub async fn an_expired_key_is_taken_over_by_exactly_one_of_many(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let until = world.now().await.after(Duration::from_secs(10));
    let first = world
        .event(&inbox)
        .with_key("a")
        .blocking_until(until)
        .build();
    world.accept(first.clone()).await;
    world.advance_s(11).await;
    let copies: Vec<NewEvent> = (0..60)
        .map(|_| world.event(&inbox).with_key("a").build())
        .collect();
    let answers = accept_at_once(&world, copies).await;
    let new = new_ones(&answers);
    assert_eq!(new.len(), 1);
    let of_new = Accepted::Duplicate {
        of: new[0],
        has_job: true,
    };
    assert_eq!(
        answers
            .iter()
            .filter(|(_, answer)| *answer == of_new)
            .count(),
        59
    );
    assert_eq!(
        world.stored(inbox.tenant, first.event.id).await.duplicates,
        0
    );
}

pub async fn at_most_twenty_duplicate_receipts_are_kept_and_all_are_counted(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let first = world.event(&inbox).with_key("a").build();
    world.accept(first.clone()).await;
    let mut sent = Vec::new();
    for size in [3, 1, 30, 1] {
        let batch: Vec<NewEvent> = (0..size)
            .map(|_| world.event(&inbox).with_key("a").build())
            .collect();
        sent.extend(batch.iter().map(|new| new.receipt.id));
        world.store.accept(batch).await;
    }
    assert_eq!(
        world.stored(inbox.tenant, first.event.id).await.duplicates,
        35
    );
    let kept = world
        .store
        .receipts(inbox.tenant, first.event.id)
        .await
        .unwrap();
    assert_eq!(kept.len(), limits::DUPLICATE_RECEIPTS_KEPT as usize);
    let ids: Vec<_> = kept.iter().map(|row| row.id).collect();
    assert_eq!(ids, sent[..20], "the first twenty, oldest first");
}
