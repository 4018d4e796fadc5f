//! Fair turns: which lanes the next claim should ask, and for how many items.
//!
//! Plain code in memory, the same for both databases. It holds no items, only which lanes may have ready
//! work: hints put a lane in, a claim that came back short takes it out. Priorities share by weight;
//! within a priority tenants take turns, by weight; within a tenant its origins (sources) take turns, and
//! within an origin its lanes. It is work-conserving: a lone tenant gets everything. The cost of a plan
//! depends on how many items are asked for, not on the backlog or the number of tenants. Only a plan for
//! some lanes looks at tenants that have none of them, at each once.

use std::collections::{HashMap, VecDeque};

use crate::id::Ulid;
use crate::lane::{Lane, LaneId};
use crate::tenant::TenantId;
use crate::work::Priority;

/// One line of a plan: ask this lane for at most this many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Take {
    /// Which lane.
    pub lane: LaneId,
    /// How many.
    pub count: u32,
    /// The lane's hint count when the plan was made; see [`Turns::report`].
    generation: u64,
}

/// Which lanes a claim may ask.
#[derive(Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Only this tenant's.
    pub tenant: Option<TenantId>,
    /// Only lanes for which this holds. A lane for which it did is given the turn, so that whoever counts how often it
    /// held knows how many items it was given.
    pub lane: Option<&'a dyn Fn(&Lane) -> bool>,
}

/// The turns of all lanes that may have ready work.
#[derive(Debug, Default)]
pub struct Turns {
    lanes: HashMap<LaneId, Known>,
    classes: [Class; 3],
    weights: HashMap<TenantId, u32>,
}

#[derive(Debug)]
struct Known {
    lane: Lane,
    generation: u64,
}

#[derive(Debug, Default)]
struct Class {
    credit: i64,
    tenants: Ring<TenantId, Ring<Option<Ulid>, Ring<LaneId, ()>>>,
}

/// Tenants at work for each item that a turn is long: where hundreds of tenants have a backlog, one that
/// gets a few items at a time costs the database much less than one item each, since its rows lie together.
const TENANTS_PER_STEP: usize = 128;
/// The most items of a turn, for a tenant of weight 1.
pub const TURN_MAX: u32 = 16;
/// How many tenants a plan has turns for at least, if so many wait. Whoever asks for one item at a time is slow, and
/// long turns would let a tenant wait for as many slow items of each other one.
const TENANTS_PER_PLAN: u32 = 8;

/// Things that take turns: the front one is next, and may keep its turn for a while (its deficit).
#[derive(Debug)]
struct Ring<K, V> {
    /// Places, the next one first. The places of those that left stay until they would be next, or are too
    /// many: to find them would cost as much as the ring is long.
    order: VecDeque<Place<K>>,
    members: HashMap<K, (u64, V)>,
    entered: u64,
    deficit: u32,
}

/// A member's place, with the number of its entry: it may have left and come back since.
type Place<K> = (K, u64);

impl<K, V> Default for Ring<K, V> {
    fn default() -> Self {
        Ring { order: VecDeque::new(), members: HashMap::new(), entered: 0, deficit: 0 }
    }
}

impl<K: Copy + Eq + std::hash::Hash, V: Default> Ring<K, V> {
    fn enter(&mut self, key: K) -> &mut V {
        let (_, member) = self.members.entry(key).or_insert_with(|| {
            self.entered += 1;
            self.order.push_back((key, self.entered));
            (self.entered, V::default())
        });
        member
    }

    fn leave(&mut self, key: K) {
        self.members.remove(&key);
        if self.order.len() > 2 * self.members.len() + 8 {
            self.deficit = 0;
            self.order.retain(|(key, entry)| is_at(&self.members, key, *entry));
        }
    }

    fn get(&mut self, key: K) -> Option<&mut V> {
        self.members.get_mut(&key).map(|(_, member)| member)
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whose turn it is.
    fn front(&mut self) -> Option<K> {
        while let Some((key, entry)) = self.order.front() {
            if is_at(&self.members, key, *entry) {
                return Some(*key);
            }
            self.order.pop_front();
            self.deficit = 0;
        }
        None
    }

    /// Ends the front's turn.
    fn rotate(&mut self) {
        self.order.rotate_left(self.order.len().min(1));
        self.deficit = 0;
    }

    /// Passes the front over, and keeps its place.
    fn set_aside(&mut self, aside: &mut Vec<Place<K>>) {
        aside.extend(self.order.pop_front());
        self.deficit = 0;
    }

    /// Gives those that were passed over their places back.
    fn take_back(&mut self, aside: Vec<Place<K>>) {
        if !aside.is_empty() {
            self.deficit = 0;
        }
        for place in aside.into_iter().rev() {
            self.order.push_front(place);
        }
    }
}

fn is_at<K: Eq + std::hash::Hash, V>(members: &HashMap<K, (u64, V)>, key: &K, entry: u64) -> bool {
    members.get(key).is_some_and(|(current, _)| *current == entry)
}

impl Turns {
    /// A lane may have ready work. Answers whether it was not in the ring already.
    pub fn hint(&mut self, lane: &Lane) -> bool {
        let known = self.lanes.entry(lane.id);
        let is_new = matches!(known, std::collections::hash_map::Entry::Vacant(_));
        known.or_insert_with(|| Known { lane: lane.clone(), generation: 0 }).generation += 1;
        if is_new {
            self.classes[lane.key.priority as usize]
                .tenants
                .enter(lane.key.tenant)
                .enter(lane.key.origin)
                .enter(lane.id);
        }
        is_new
    }

    /// Sets a tenant's weight; the default is 1.
    pub fn set_weight(&mut self, tenant: TenantId, weight: u32) {
        if weight <= 1 {
            self.weights.remove(&tenant);
        } else {
            self.weights.insert(tenant, weight);
        }
    }

    /// How many lanes may have ready work.
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether no lane has ready work.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Plans a claim of at most `count` items.
    pub fn plan(&mut self, count: u32, wanted: Wanted<'_>) -> Vec<Take> {
        let mut plan: Vec<Take> = Vec::new();
        let mut place: HashMap<LaneId, usize> = HashMap::new();
        let mut open = [true; 3];
        let mut aside: [Vec<Place<TenantId>>; 3] = Default::default();
        for _ in 0..count {
            let Some(lane) = self.pick(count, wanted, &mut open, &mut aside) else {
                break;
            };
            let generation = self.lanes[&lane].generation;
            let index = *place.entry(lane).or_insert_with(|| {
                plan.push(Take { lane, count: 0, generation });
                plan.len() - 1
            });
            plan[index].count += 1;
        }
        for (class, aside) in self.classes.iter_mut().zip(aside) {
            class.tenants.take_back(aside);
        }
        plan
    }

    /// Tells what a claim brought. A lane that gave fewer than asked has no more ready work and leaves,
    /// unless a hint came after the plan was made.
    pub fn report(&mut self, take: Take, got: u32) {
        if got >= take.count {
            return;
        }
        let current = self.lanes.get(&take.lane);
        if current.is_some_and(|known| known.generation == take.generation) {
            self.remove(take.lane);
        }
    }

    /// The lane is not this node's to serve any more.
    pub fn remove(&mut self, lane: LaneId) {
        let Some(known) = self.lanes.remove(&lane) else {
            return;
        };
        let key = &known.lane.key;
        let tenants = &mut self.classes[key.priority as usize].tenants;
        let origins = tenants.enter(key.tenant);
        let lanes = origins.enter(key.origin);
        lanes.leave(lane);
        if lanes.is_empty() {
            origins.leave(key.origin);
        }
        if origins.is_empty() {
            tenants.leave(key.tenant);
        }
    }

    /// The next lane in turn: smooth weighted round robin over the priorities that have a wanted lane.
    fn pick(
        &mut self,
        count: u32,
        wanted: Wanted<'_>,
        open: &mut [bool; 3],
        aside: &mut [Vec<Place<TenantId>>; 3],
    ) -> Option<LaneId> {
        loop {
            let total: i64 = Priority::ALL
                .iter()
                .filter(|class| open[**class as usize])
                .map(|class| i64::from(class.weight()))
                .sum();
            let class = Priority::ALL
                .into_iter()
                .filter(|class| open[*class as usize])
                .max_by_key(|class| {
                    (
                        self.classes[*class as usize].credit + i64::from(class.weight()),
                        std::cmp::Reverse(*class),
                    )
                })?;
            match self.pick_in(class, count, wanted, &mut aside[class as usize]) {
                Some(lane) => {
                    for other in Priority::ALL.into_iter().filter(|other| open[*other as usize]) {
                        self.classes[other as usize].credit += i64::from(other.weight());
                    }
                    self.classes[class as usize].credit -= total;
                    return Some(lane);
                }
                None => {
                    open[class as usize] = false;
                    self.classes[class as usize].credit = 0;
                }
            }
        }
    }

    fn pick_in(
        &mut self,
        class: Priority,
        count: u32,
        wanted: Wanted<'_>,
        aside: &mut Vec<Place<TenantId>>,
    ) -> Option<LaneId> {
        let known = &self.lanes;
        let tenants = &mut self.classes[class as usize].tenants;
        if let Some(tenant) = wanted.tenant {
            return pick_lane(tenants.get(tenant)?, known, wanted);
        }
        while let Some(tenant) = tenants.front() {
            let weight = self.weights.get(&tenant).copied().unwrap_or(1);
            let turn = weight.saturating_mul(turn(tenants.members.len(), count));
            // A turn that a larger plan began goes on as one of this plan.
            tenants.deficit = match tenants.deficit {
                0 => turn,
                left => left.min(turn),
            };
            match pick_lane(tenants.get(tenant)?, known, wanted) {
                Some(lane) => {
                    tenants.deficit -= 1;
                    if tenants.deficit == 0 {
                        tenants.rotate();
                    }
                    return Some(lane);
                }
                None => tenants.set_aside(aside),
            }
        }
        None
    }
}

/// How many items a tenant of weight 1 may take before the next one's turn, in a plan for this many.
fn turn(tenants: usize, count: u32) -> u32 {
    let by_tenants = u32::try_from(tenants / TENANTS_PER_STEP).unwrap_or(TURN_MAX);
    by_tenants.min(count / TENANTS_PER_PLAN).clamp(1, TURN_MAX)
}

/// The next wanted lane of a tenant: its origins take turns, and their lanes.
fn pick_lane(
    origins: &mut Ring<Option<Ulid>, Ring<LaneId, ()>>,
    known: &HashMap<LaneId, Known>,
    wanted: Wanted<'_>,
) -> Option<LaneId> {
    for _ in 0..origins.members.len() {
        let origin = origins.front()?;
        let lanes = origins.get(origin)?;
        for _ in 0..lanes.members.len() {
            let lane = lanes.front()?;
            lanes.rotate();
            if wanted.lane.is_none_or(|holds| holds(&known[&lane].lane)) {
                origins.rotate();
                return Some(lane);
            }
        }
        origins.rotate();
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lane::LaneKey;
    use crate::work::WorkKind;

    fn lane(id: i64, tenant: i32, priority: Priority, origin: u8) -> Lane {
        Lane {
            id: LaneId(id),
            key: LaneKey {
                tenant: TenantId(tenant),
                kind: WorkKind::Job,
                priority,
                origin: Some(Ulid::from_bytes([origin; 16])),
                name: String::new(),
                executor: None,
            },
        }
    }

    /// Claims `count` items one batch after another from a made-up backlog, and counts them by lane.
    fn drain(
        turns: &mut Turns,
        backlog: &mut HashMap<LaneId, u32>,
        count: u32,
        batch: u32,
    ) -> HashMap<LaneId, u32> {
        let mut got = HashMap::new();
        let mut left = count;
        while left > 0 {
            let plan = turns.plan(batch.min(left), Wanted::default());
            if plan.is_empty() {
                break;
            }
            for take in plan {
                let ready = backlog.entry(take.lane).or_default();
                let given = take.count.min(*ready);
                *ready -= given;
                left -= given;
                *got.entry(take.lane).or_default() += given;
                turns.report(take, given);
            }
        }
        got
    }

    #[test]
    fn a_lone_job_beside_a_million_is_in_the_next_plan() {
        let mut turns = Turns::default();
        turns.hint(&lane(1, 1, Priority::Webhook, 1));
        assert_eq!(turns.plan(100, Wanted::default())[0].count, 100);
        turns.hint(&lane(2, 2, Priority::Webhook, 1));
        let plan = turns.plan(2, Wanted::default());
        assert!(plan.iter().any(|take| take.lane == LaneId(2)), "{plan:?}");
    }

    #[test]
    fn weighted_tenants_get_their_share_within_a_tenth_over_a_thousand_claims() {
        let mut turns = Turns::default();
        let mut backlog = HashMap::new();
        for tenant in 1..=10 {
            turns.set_weight(TenantId(tenant), tenant as u32);
            turns.hint(&lane(i64::from(tenant), tenant, Priority::Webhook, 1));
            backlog.insert(LaneId(i64::from(tenant)), 1_000_000);
        }
        let got = drain(&mut turns, &mut backlog, 1000, 7);
        for tenant in 1..=10 {
            let share = f64::from(got[&LaneId(tenant)]);
            let due = 1000.0 * tenant as f64 / 55.0;
            assert!((share - due).abs() <= due * 0.1 + 1.0, "tenant {tenant}: {share} of {due}");
        }
    }

    #[test]
    fn priorities_share_eight_to_three_to_one_and_batch_still_moves() {
        let mut turns = Turns::default();
        let mut backlog = HashMap::new();
        for (id, priority) in
            [(1, Priority::Interactive), (2, Priority::Webhook), (3, Priority::Batch)]
        {
            turns.hint(&lane(id, 1, priority, 1));
            backlog.insert(LaneId(id), 1_000_000);
        }
        let got = drain(&mut turns, &mut backlog, 1200, 50);
        assert_eq!([got[&LaneId(1)], got[&LaneId(2)], got[&LaneId(3)]], [800, 300, 100]);
    }

    #[test]
    fn sources_of_one_tenant_take_turns_however_many_lanes_they_have() {
        let mut turns = Turns::default();
        let mut backlog = HashMap::new();
        for id in 1..=4 {
            turns.hint(&lane(id, 1, Priority::Webhook, if id == 4 { 2 } else { 1 }));
            backlog.insert(LaneId(id), 1_000_000);
        }
        let got = drain(&mut turns, &mut backlog, 600, 60);
        assert_eq!(got[&LaneId(4)], 300);
        assert_eq!(got[&LaneId(1)], 100);
    }

    #[test]
    fn a_hint_that_comes_while_a_claim_is_under_way_is_not_lost() {
        let mut turns = Turns::default();
        let one = lane(1, 1, Priority::Webhook, 1);
        turns.hint(&one);
        let plan = turns.plan(5, Wanted::default());
        turns.hint(&one);
        turns.report(plan[0], 0);
        assert_eq!(turns.len(), 1, "the hint may be about work the claim did not see");
        let plan = turns.plan(5, Wanted::default());
        turns.report(plan[0], 0);
        assert!(turns.is_empty());
    }

    #[test]
    fn a_tenants_worker_gets_only_its_lanes() {
        let mut turns = Turns::default();
        for id in 1..=3 {
            turns.hint(&lane(id, id as i32, Priority::Webhook, 1));
        }
        let plan = turns.plan(10, Wanted { tenant: Some(TenantId(2)), lane: None });
        assert_eq!(plan.len(), 1);
        assert_eq!((plan[0].lane, plan[0].count), (LaneId(2), 10));
        let odd = |lane: &Lane| lane.id.0 % 2 == 1;
        let plan = turns.plan(10, Wanted { tenant: None, lane: Some(&odd) });
        assert_eq!(plan.iter().map(|take| take.count).sum::<u32>(), 10);
        assert!(plan.iter().all(|take| take.lane != LaneId(2)));
    }

    #[test]
    fn where_very_many_tenants_wait_each_takes_a_few_at_a_turn() {
        let mut turns = Turns::default();
        for id in 1..=1000 {
            turns.hint(&lane(id, id as i32, Priority::Webhook, 1));
        }
        let plan = turns.plan(700, Wanted::default());
        assert_eq!((plan.len(), plan[0].count), (100, 7));
        // Whoever comes waits for one turn of each other.
        turns.hint(&lane(1001, 1001, Priority::Webhook, 1));
        let plan = turns.plan(7001, Wanted::default());
        assert!(plan.iter().any(|take| take.lane == LaneId(1001)));
    }

    #[test]
    fn who_asks_for_one_at_a_time_gets_one_of_each_tenant_however_many_wait() {
        let mut turns = Turns::default();
        for id in 1..=10_000 {
            turns.hint(&lane(id, id as i32, Priority::Webhook, 1));
        }
        let next = |turns: &mut Turns| turns.plan(1, Wanted::default())[0].lane;
        assert_eq!([next(&mut turns), next(&mut turns)], [LaneId(1), LaneId(2)]);
        // A turn that a large plan left unfinished is not finished one by one.
        let plan = turns.plan(100, Wanted::default());
        assert_eq!((plan.len(), plan[0].count), (9, 12));
        assert_eq!([next(&mut turns), next(&mut turns)], [LaneId(11), LaneId(12)]);
    }

    #[test]
    fn a_plan_for_some_lanes_looks_at_each_other_tenant_once_and_leaves_it_its_turn() {
        let mut turns = Turns::default();
        for id in 1..=1000 {
            turns.hint(&lane(id, id as i32, Priority::Webhook, 1));
        }
        let asked = std::cell::Cell::new(0);
        let last = |lane: &Lane| {
            asked.set(asked.get() + 1);
            lane.id == LaneId(1000)
        };
        let plan = turns.plan(100, Wanted { tenant: None, lane: Some(&last) });
        assert_eq!((plan.len(), plan[0].count), (1, 100));
        assert_eq!(asked.get(), 999 + 100);
        assert_eq!(turns.plan(1, Wanted::default())[0].lane, LaneId(1));
    }

    #[test]
    fn places_of_those_that_left_do_not_pile_up() {
        let mut turns = Turns::default();
        let (one, two) = (lane(1, 1, Priority::Webhook, 1), lane(2, 2, Priority::Webhook, 1));
        turns.hint(&one);
        for _ in 0..1000 {
            turns.hint(&two);
            let plan = turns.plan(1, Wanted { tenant: Some(TenantId(2)), lane: None });
            turns.report(plan[0], 0);
        }
        assert_eq!(turns.len(), 1);
        assert!(turns.classes[Priority::Webhook as usize].tenants.order.len() < 20);
        assert_eq!(turns.plan(5, Wanted::default())[0].count, 5);
    }

    proptest! {
        #[test]
        fn everything_that_is_ready_is_claimed_and_nothing_else(
            lanes in prop::collection::vec((1i32..6, 0usize..3, 0u8..3, 0u32..50), 1..20),
            batch in 1u32..40,
        ) {
            let mut turns = Turns::default();
            let mut backlog = HashMap::new();
            let mut ready = 0;
            for (index, (tenant, priority, origin, count)) in lanes.into_iter().enumerate() {
                let lane = lane(index as i64, tenant, Priority::ALL[priority], origin);
                turns.hint(&lane);
                backlog.insert(lane.id, count);
                ready += count;
            }
            let got = drain(&mut turns, &mut backlog, u32::MAX, batch);
            prop_assert_eq!(got.values().sum::<u32>(), ready);
            prop_assert!(turns.is_empty());
        }
    }
}
