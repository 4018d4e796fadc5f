//! Registering: what the server keeps of a source is kept for that source, moves on once, and is renewed by one.

use std::time::Duration;

use wakepost_domain::{SourceId, TenantId};

use super::Harness;
use super::world::{World, assert_not_found, sealed};
use crate::moves::{Renewal, SourceState};

const PATIENCE: Duration = Duration::from_secs(60);

pub async fn what_set_up_made_is_read_back_and_goes_with_its_source(harness: &impl Harness) {
    let world = World::new(harness).await;
    let acme = world.tenant("acme").await;
    let source = world.made(acme).await.id;
    let (store, other) = (&world.store, &world.other);
    assert_eq!(store.source_state(acme, source).await.unwrap(), SourceState::default());
    let ends = world.now().await.after(Duration::from_secs(1000));
    let keep = |text, ends| store.keep_registration(acme, source, sealed(text), ends);
    keep("opening", None).await.unwrap();
    keep("open", Some((ends, ends))).await.unwrap();
    assert!(store.move_position(acme, source, sealed("4711"), 0).await.unwrap());
    // One more step of a set-up changes neither when it ends nor how far it was read.
    keep("more", None).await.unwrap();
    let expected = SourceState {
        registration: Some(sealed("more")),
        expires_at: Some(ends),
        position: Some(sealed("4711")),
        version: 1,
    };
    assert_eq!(other.source_state(acme, source).await.unwrap(), expected);
    let strangers = other.source_state(TenantId::DEFAULT, source).await.unwrap();
    assert_eq!(strangers, SourceState::default());

    let audit = world.audit(acme, "source.delete");
    store.delete_source(acme, source, audit).await.unwrap();
    assert_eq!(store.source_state(acme, source).await.unwrap(), SourceState::default());
    assert_not_found(keep("late", None).await);
    assert!(!store.move_position(acme, source, sealed("4712"), 1).await.unwrap());
    world.advance_s(2000).await;
    assert!(store.due_renewals(10).await.unwrap().is_empty());
}

pub async fn of_nodes_that_move_a_position_at_once_one_does(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (tenant, source) = (TenantId::DEFAULT, world.made(TenantId::DEFAULT).await.id);
    for seen in 0..3 {
        let mut calls = Vec::new();
        for turn in 0..6 {
            let (node, position) = (world.node(turn), sealed(&format!("{seen}:{turn}")));
            calls.push(tokio::spawn(async move {
                (turn, node.move_position(tenant, source, position, seen).await.unwrap())
            }));
        }
        let mut moved = Vec::new();
        for call in calls {
            let (turn, did) = call.await.unwrap();
            moved.extend(did.then_some(turn));
        }
        assert_eq!(moved.len(), 1, "{moved:?}");
        let state = world.store.source_state(tenant, source).await.unwrap();
        assert_eq!(state.position, Some(sealed(&format!("{seen}:{}", moved[0]))));
        assert_eq!(state.version, seen + 1);
    }
    // Who read from an older place does not move it back.
    assert!(!world.store.move_position(tenant, source, sealed("back"), 1).await.unwrap());
}

pub async fn a_renewal_is_due_at_its_time_and_one_node_takes_it_on(harness: &impl Harness) {
    let world = World::new(harness).await;
    let tenant = TenantId::DEFAULT;
    let mut sources: Vec<SourceId> = Vec::new();
    for seconds in [200u64, 100, 900] {
        let source = world.made(tenant).await.id;
        let renew_at = world.now().await.after(Duration::from_secs(seconds));
        let ends = Some((renew_at.after(PATIENCE), renew_at));
        world.store.keep_registration(tenant, source, sealed("r"), ends).await.unwrap();
        sources.push(source);
    }
    assert!(world.store.due_renewals(10).await.unwrap().is_empty());
    world.advance_s(300).await;
    let due = world.other.due_renewals(10).await.unwrap();
    let order: Vec<SourceId> = due.iter().map(|renewal| renewal.source).collect();
    assert_eq!(order, [sources[1], sources[0]], "the longest due first");
    assert_eq!(world.store.due_renewals(1).await.unwrap(), due[..1]);

    let renewal: Renewal = due[0];
    let mut taken = 0;
    let calls: Vec<_> = (0..6)
        .map(|turn| {
            let node = world.node(turn);
            tokio::spawn(async move { node.claim_renewal(renewal, PATIENCE).await.unwrap() })
        })
        .collect();
    for call in calls {
        taken += usize::from(call.await.unwrap());
    }
    assert_eq!(taken, 1);
    assert_eq!(world.store.due_renewals(10).await.unwrap(), due[1..]);
    // Whoever took it on was lost: it comes again.
    world.advance(PATIENCE + Duration::from_secs(1)).await;
    let again = world.store.due_renewals(10).await.unwrap();
    assert!(again.iter().any(|again| again.source == renewal.source && again.due > renewal.due));
}
