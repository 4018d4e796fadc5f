//! Operating: bulk work is noted once, done by one node at a time, and goes on where it was left.

use std::time::Duration;

use wakepost_domain::{OperationId, TenantId};

use super::Harness;
use super::drafts::once;
use super::world::World;
use crate::moves::{Once, Operation, OperationKind, OperationStep};

const HOLD: Duration = Duration::from_secs(30);

impl<H: Harness> World<'_, H> {
    async fn asked(&self) -> Operation {
        let id = OperationId(self.id());
        let (tenant, kind) = (TenantId::DEFAULT, OperationKind::InboxReplay);
        let operation = Operation::new(id, tenant, kind, "{}".to_owned());
        let audit = self.audit(tenant, "inbox.replay");
        self.store.create_operation(operation.clone(), audit, None).await.unwrap();
        operation
    }

    async fn read(&self, operation: &Operation) -> Operation {
        self.other.operation(operation.tenant, operation.id).await.unwrap().unwrap()
    }
}

fn step(operation: &Operation, is_over: bool) -> OperationStep {
    let (position, matched, done, failed) = (Some(operation.id.0), 3, 2, 1);
    OperationStep {
        id: operation.id,
        turn: operation.turn,
        position,
        matched,
        done,
        failed,
        is_over,
    }
}

pub async fn an_operation_is_done_in_steps_and_then_over(harness: &impl Harness) {
    let world = World::new(harness).await;
    let asked = world.asked().await;
    assert_eq!(world.read(&asked).await, asked);
    for turn in 1..=2 {
        let taken = world.node(turn).take_operation(HOLD).await.unwrap().unwrap();
        assert_eq!((taken.id, taken.turn), (asked.id, turn as i32));
        assert!(world.store.advance_operation(step(&taken, turn == 2)).await.unwrap());
    }
    let over = world.read(&asked).await;
    assert_eq!((over.matched, over.done, over.failed), (6, 4, 2));
    assert!(over.finished_at.is_some());
    assert_eq!(over.position, Some(asked.id.0));
    assert_eq!(world.store.take_operation(HOLD).await.unwrap(), None);
    assert!(!world.store.advance_operation(step(&over, true)).await.unwrap(), "it is over");
    assert_eq!(world.read(&asked).await, over);
}

pub async fn one_node_has_it_until_its_time_is_over(harness: &impl Harness) {
    let world = World::new(harness).await;
    world.asked().await;
    let (ours, theirs) =
        tokio::join!(world.store.take_operation(HOLD), world.other.take_operation(HOLD));
    let taken: Vec<Operation> = [ours.unwrap(), theirs.unwrap()].into_iter().flatten().collect();
    assert_eq!(taken.len(), 1);
    world.advance(HOLD).await;
    let next = world.other.take_operation(HOLD).await.unwrap().expect("the first node died");
    assert!(!world.store.advance_operation(step(&taken[0], false)).await.unwrap(), "too late");
    assert!(world.other.advance_operation(step(&next, false)).await.unwrap());
    assert_eq!(world.read(&next).await.matched, 3, "one step was noted");
}

pub async fn an_operation_is_noted_once_under_an_idempotency_key(harness: &impl Harness) {
    let world = World::new(harness).await;
    let until = world.now().await.after(HOLD);
    for expected in [true, false] {
        let id = OperationId(world.id());
        let kind = OperationKind::InboxReplay;
        let operation = Operation::new(id, TenantId::DEFAULT, kind, "{}".to_owned());
        let audit = world.audit(TenantId::DEFAULT, "inbox.replay");
        let made = world.store.create_operation(operation, audit, Some(once(9, "made", until)));
        assert_eq!(made.await.unwrap() == Once::Now(()), expected);
    }
    assert!(world.store.take_operation(HOLD).await.unwrap().is_some());
    assert_eq!(world.store.take_operation(HOLD).await.unwrap(), None);
}

pub async fn another_tenants_operation_is_not_found(harness: &impl Harness) {
    let world = World::new(harness).await;
    let asked = world.asked().await;
    let other = world.tenant("acme").await;
    assert_eq!(world.store.operation(other, asked.id).await.unwrap(), None);
}
