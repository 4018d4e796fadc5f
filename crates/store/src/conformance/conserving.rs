//! Conserving: whatever is done to deliveries, each that was made stands somewhere, and comes to one end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wakepost_domain::transition::Ending;
use wakepost_domain::work::State;
use wakepost_domain::{EventId, TenantId, WorkId};

use super::Harness;
use super::drafts::{ATTEMPTS, end};
use super::subscribers::Hook;
use super::world::{ALL, World, failed_for_s, given_up};
use crate::error::StoreError;
use crate::moves::{Claimed, Guard, NewDelivery, OrderKey, Settle};

const TENANT: TenantId = TenantId::DEFAULT;
const HOOKS: usize = 3;
const STEPS: usize = 150;

/// Chance that is the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        (!from.is_empty()).then(|| &from[self.roll(from.len())])
    }
}

/// What was done so far.
struct Walk<'w, 'h, H> {
    world: &'w World<'h, H>,
    dice: Dice,
    hooks: Vec<Hook>,
    events: Vec<EventId>,
    /// All deliveries that were ever made, by webhook.
    made: Vec<BTreeSet<WorkId>>,
    running: Vec<Claimed>,
}

impl<H: Harness> Walk<'_, '_, H> {
    async fn step(&mut self) {
        match self.dice.roll(20) {
            0..=4 => self.publish().await,
            5..=8 => self.claim().await,
            9..=12 => self.end().await,
            13 => self.cancel().await,
            14 => self.end_waiting().await,
            15 => self.shut().await,
            16 => self.replay().await,
            17 => self.backfill().await,
            18 => self.rescue().await,
            _ => self.world.advance_s(self.dice.roll(40) as u64).await,
        }
    }

    async fn publish(&mut self) {
        let mut hooks: Vec<usize> = (0..HOOKS).filter(|_| self.dice.roll(3) > 0).collect();
        let order = self.dice.roll(3);
        hooks.dedup();
        let to: Vec<&Hook> = hooks.iter().map(|nth| &self.hooks[*nth]).collect();
        let draft = self.world.publication(TENANT).to(&to).tried_at_most(3);
        let draft = if order > 0 { draft.in_order(&format!("k{order}")) } else { draft };
        let event = self.world.published(draft).await;
        for nth in hooks {
            assert!(self.made[nth].insert(self.hooks[nth].delivery(event)));
        }
        self.events.push(event);
    }

    async fn claim(&mut self) {
        let hook = self.hooks[self.dice.roll(HOOKS)];
        let count = 1 + self.dice.roll(4) as u32;
        let node = self.world.node(self.dice.roll(2));
        self.running.extend(self.world.claim(&hook).up_to(count).on(node).take().await);
    }

    async fn end(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let claimed = self.running.swap_remove(self.dice.roll(self.running.len()));
        let endings = [
            Ending::Succeeded,
            Ending::ProbeFailed,
            Ending::HandedBack,
            failed_for_s(self.dice.roll(60) as u64),
            given_up(),
        ];
        let ending = *self.dice.pick(&endings).unwrap();
        match self.world.settle(end(&claimed.ticket, ending)).await {
            Ok(_) | Err(StoreError::LeaseLost) => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn cancel(&mut self) {
        let hook = self.hooks[self.dice.roll(HOOKS)];
        let rows = self.world.store.deliveries(TENANT, hook.lane, None, ALL).await.unwrap();
        let live: Vec<WorkId> =
            rows.iter().filter(|row| !row.state.is_terminal()).map(|row| row.id).collect();
        if let Some(work) = self.dice.pick(&live) {
            let audit = self.world.audit(TENANT, "delivery.cancel");
            self.world.store.cancel(TENANT, *work, audit).await.unwrap();
        }
    }

    async fn end_waiting(&mut self) {
        let hook = self.hooks[self.dice.roll(HOOKS)];
        let state = [State::DeadLetter, State::Cancelled][self.dice.roll(2)];
        let limit = self.dice.roll(4) as u32;
        let ended = self.world.other.end_waiting(hook.lane, state, "gone".to_owned(), limit).await;
        assert!(ended.unwrap() <= u64::from(limit));
    }

    async fn shut(&mut self) {
        let hook = self.hooks[self.dice.roll(HOOKS)];
        let rest = Duration::from_secs(self.dice.roll(90) as u64);
        let until = (self.dice.roll(2) == 0).then_some(self.world.now().await.after(rest));
        self.world.shut(&hook, until).await;
    }

    async fn replay(&mut self) {
        let nth = self.dice.roll(HOOKS);
        let rows = self.world.store.deliveries(TENANT, self.hooks[nth].lane, None, ALL).await;
        let done: Vec<WorkId> = rows
            .unwrap()
            .iter()
            .filter(|row| row.state.is_terminal() && row.replayed_as.is_none())
            .map(|row| row.id)
            .collect();
        if let Some(work) = self.dice.pick(&done) {
            let new = self.world.replayed(TENANT, *work, false).await;
            assert!(self.made[nth].insert(new));
        }
    }

    async fn backfill(&mut self) {
        let nth = self.dice.roll(HOOKS);
        let hook = self.hooks[nth];
        let from = self.dice.roll(self.events.len().max(1));
        let order = Some((OrderKey::of_webhook(TENANT, hook.id, b"k1"), "k1".to_owned()));
        let items: Vec<(EventId, NewDelivery)> = self
            .events
            .iter()
            .skip(from)
            .take(3)
            .map(|event| {
                let delivery = NewDelivery {
                    id: hook.delivery(*event),
                    lane: hook.lane,
                    run_at: None,
                    max_attempts: ATTEMPTS,
                    order: order.clone(),
                    parent_id: None,
                };
                (*event, delivery)
            })
            .collect();
        for delivery in self.world.other.add_deliveries(TENANT, items).await.unwrap() {
            assert!(self.made[nth].insert(delivery.id), "it was made before");
        }
    }

    async fn rescue(&mut self) {
        let patience = Duration::from_secs(30);
        for run in self.world.store.expired(patience, 100).await.unwrap() {
            let (guard, ending) = if run.cancel_requested {
                (Guard::CancelledBefore(self.world.now().await), Ending::Cancelled)
            } else {
                (Guard::ExpiredAt(run.lease_expires_at), Ending::Expired)
            };
            let settle = Settle { guard, ..end(&run.ticket, ending) };
            self.world.settle(settle).await.unwrap();
        }
    }

    /// What was made is what there is, and what is counted.
    async fn check(&self) {
        for (hook, made) in self.hooks.iter().zip(&self.made) {
            let rows = self.world.store.deliveries(TENANT, hook.lane, None, ALL).await.unwrap();
            let there: BTreeSet<WorkId> = rows.iter().map(|row| row.id).collect();
            assert_eq!(&there, made);
            assert_eq!(there.len(), rows.len(), "one is live and finished at once");
            let mut standing: BTreeMap<State, i64> = BTreeMap::new();
            for row in &rows {
                *standing.entry(row.state).or_default() += 1;
            }
            assert_eq!(self.world.standing(hook).await, standing);
            // Of each order key one item is not behind another, as long as there is one.
            let mut heads: BTreeMap<OrderKey, usize> = BTreeMap::new();
            for row in rows.iter().filter(|row| !row.state.is_terminal()) {
                let Some(order) = row.order else { continue };
                *heads.entry(order).or_default() += usize::from(!row.behind);
            }
            assert!(heads.values().all(|heads| *heads == 1), "{heads:?}");
        }
    }

    /// Everything that lives is run to its end.
    async fn drain(&mut self) {
        for hook in &self.hooks {
            self.world.shut(hook, None).await;
        }
        for _ in 0..1000 {
            self.world.advance_s(1000).await;
            self.rescue().await;
            let mut idle = true;
            for hook in &self.hooks {
                for item in self.world.claim(hook).up_to(50).take().await {
                    self.world.finish(&item.ticket, Ending::Succeeded).await;
                    idle = false;
                }
            }
            if idle {
                return;
            }
        }
        panic!("there is always more to do");
    }
}

pub async fn no_delivery_is_lost_or_made_twice_whatever_is_done(harness: &impl Harness) {
    let world = World::new(harness).await;
    for seed in 0..2 {
        let mut hooks = Vec::new();
        for _ in 0..HOOKS {
            hooks.push(world.subscriber().await.0);
        }
        let mut walk = Walk {
            world: &world,
            dice: Dice(seed),
            hooks,
            events: Vec::new(),
            made: vec![BTreeSet::new(); HOOKS],
            running: Vec::new(),
        };
        for _ in 0..STEPS {
            walk.step().await;
            walk.check().await;
        }
        walk.drain().await;
        walk.check().await;
        for hook in &walk.hooks {
            let standing = world.standing(hook).await;
            assert!(standing.keys().all(|state| state.is_terminal()), "{standing:?}");
        }
        assert!(walk.made.iter().map(BTreeSet::len).sum::<usize>() > STEPS / 4);
    }
}
