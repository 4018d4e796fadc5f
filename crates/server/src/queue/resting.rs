//! Lanes that rest: a rate or a day's budget lets nothing of them start before a known moment.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use wakepost_domain::budget::Over;
use wakepost_domain::lane::{Lane, LaneId};
use wakepost_store::Result;
use wakepost_store::moves::{Bound, Cap, CapScope, Counts};

use super::{Queue, Way};
use crate::directory::Policy;

/// The shortest rest: a high rate gives several starts at a time, and costs a claim for all of them.
const REST_MIN: Duration = Duration::from_millis(10);
/// The longest: the net under settings that changed unheard, and under clocks that were set.
const REST_MAX: Duration = Duration::from_secs(60);
/// How far two looks at the database's clock may seem apart that are not.
const CLOCK_MARGIN: Duration = Duration::from_millis(20);
/// How many items are held at a time, once their budget is spent.
const HOLD_STEP: u32 = 500;

/// Which lanes rest, and until when.
#[derive(Default)]
pub struct Resting {
    until: HashMap<LaneId, Instant>,
    order: BTreeSet<(Instant, LaneId)>,
}

impl Resting {
    /// A lane rests until then, whatever was known of it before.
    pub fn rest(&mut self, lane: LaneId, until: Instant) {
        if let Some(before) = self.until.insert(lane, until) {
            self.order.remove(&(before, lane));
        }
        self.order.insert((until, lane));
    }

    /// Whether there is nothing to start in a lane yet.
    pub fn has(&self, lane: LaneId) -> bool {
        self.until.get(&lane).is_some_and(|until| *until > Instant::now())
    }

    /// When the first one wakes.
    fn next(&self) -> Option<Instant> {
        self.order.first().map(|(until, _)| *until)
    }

    /// Takes out whatever has rested long enough.
    fn wake(&mut self, now: Instant) -> Vec<LaneId> {
        let mut woken = Vec::new();
        while let Some((until, lane)) = self.order.first().copied()
            && until <= now
        {
            self.order.remove(&(until, lane));
            self.until.remove(&lane);
            woken.push(lane);
        }
        woken
    }

    fn lanes(&self) -> impl Iterator<Item = LaneId> {
        self.until.keys().copied()
    }
}

impl Queue {
    /// Hints lanes that have rested long enough; says when the next one has.
    pub async fn wake_rested(&self) -> Option<Instant> {
        let woken = self.rings.lock().resting.wake(Instant::now());
        if !woken.is_empty() && self.hint_lanes(&woken).await.is_err() {
            // The store is down.
            let later = Instant::now() + Duration::from_secs(1);
            let mut rings = self.rings.lock();
            woken.into_iter().for_each(|lane| rings.resting.rest(lane, later));
        }
        self.rings.lock().resting.next()
    }

    /// Waits until another lane rests, or shall rest no longer.
    pub async fn rest_changed(&self) {
        self.rested.notified().await;
    }

    /// Settings changed: whatever waits for a bound is looked at again.
    pub fn rules_changed(&self) {
        let mut rings = self.rings.lock();
        let now = Instant::now();
        let mut lanes: HashSet<LaneId> = rings.resting.lanes().collect();
        lanes.extend(rings.parked.drain().flat_map(|(_, lanes)| lanes));
        lanes.into_iter().for_each(|lane| rings.resting.rest(lane, now));
        drop(rings);
        self.rested.notify_one();
    }

    /// Lanes that were asked rest if a rate or a budget lets nothing more of them start for a while. `asked`: the
    /// moment before they were.
    pub(super) async fn rest_bound<'a>(
        &self,
        way: Way,
        asked: Instant,
        lanes: impl Iterator<Item = (&'a Lane, &'a Policy)>,
    ) -> Result<()> {
        let timed: Vec<_> = lanes.filter(|(_, policy)| policy.is_timed()).collect();
        if timed.is_empty() {
            return Ok(());
        }
        let counts = self.counts(timed.iter().flat_map(|(_, policy)| &policy.caps)).await?;
        for (lane, policy) in timed {
            let again_in = match self.refuse(lane, policy, &counts).await? {
                true => Some(REST_MIN),
                false => until_free(policy, &counts, asked),
            };
            if let Some(again_in) = again_in {
                self.rest(way, lane.id, again_in);
            }
        }
        Ok(())
    }

    /// What the counters of bounds say.
    pub(super) async fn counts<'a>(&self, caps: impl Iterator<Item = &'a Cap>) -> Result<Counts> {
        let scopes: HashSet<CapScope> = caps.map(|cap| cap.scope).collect();
        self.store.counts(scopes.into_iter().collect()).await
    }

    pub(super) fn rest(&self, way: Way, lane: LaneId, again_in: Duration) {
        let mut rings = self.rings.lock();
        rings.turns(way).remove(lane);
        rings.resting.rest(lane, Instant::now() + again_in.clamp(REST_MIN, REST_MAX));
        drop(rings);
        self.rested.notify_one();
    }

    /// Holds what is over a spent budget that says so, a part at a time; says whether there may be more.
    async fn refuse(&self, lane: &Lane, policy: &Policy, counts: &Counts) -> Result<bool> {
        let spent = policy
            .caps
            .iter()
            .find(|cap| is_refusing(cap) && cap.room(&counts.get(cap.scope), counts.now) == 0);
        let Some((source, budget)) = spent.and_then(Cap::budget) else {
            return Ok(false);
        };
        let held = self.store.hold_over_budget(lane.id, source, budget, HOLD_STEP).await?;
        Ok(held >= HOLD_STEP)
    }
}

fn is_refusing(cap: &Cap) -> bool {
    matches!(cap.bound, Bound::Budget(budget) if budget.over == Over::Refuse)
}

/// How long until the bounds of a lane that go by time let something start. None if they do: then the lane gave
/// what it had. A bound that became free after the lane was asked may have kept something back: it is asked again.
fn until_free(policy: &Policy, counts: &Counts, asked: Instant) -> Option<Duration> {
    let asked_at = counts.now.before(asked.elapsed() + CLOCK_MARGIN);
    let free_at = policy
        .caps
        .iter()
        // Nothing waits for the end of a budget that refuses.
        .filter(|cap| !is_refusing(cap))
        .filter_map(|cap| cap.free_at(&counts.get(cap.scope), counts.now))
        .max()?;
    (free_at > asked_at).then(|| free_at.since(counts.now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_wake_in_the_order_of_their_rests() {
        let mut resting = Resting::default();
        let now = Instant::now();
        let in_s = |seconds| now + Duration::from_secs(seconds);
        resting.rest(LaneId(1), in_s(30));
        resting.rest(LaneId(2), in_s(20));
        resting.rest(LaneId(1), in_s(10));
        assert!(resting.has(LaneId(1)));
        assert_eq!(resting.next(), Some(in_s(10)));
        assert_eq!(resting.wake(in_s(9)), []);
        assert_eq!(resting.wake(in_s(10)), [LaneId(1)]);
        assert!(!resting.has(LaneId(1)));
        assert_eq!(resting.wake(in_s(60)), [LaneId(2)]);
        assert_eq!(resting.next(), None);
    }
}
