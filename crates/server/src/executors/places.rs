//! How many runs this node may have under way, in all and of each command.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use wakepost_domain::executor::Executor;
use wakepost_domain::lane::LaneId;

use crate::config::Config;
use crate::queue::Rule;

/// How much the gateway itself has under way at once: deliveries, replies, callbacks.
const GATEWAY_PLACES: usize = 1024;
/// What part of the free places one lane may have of those: however many receivers hang, the next one finds some.
const LANE_SHARE: usize = 8;

/// The places for runs on this node.
#[derive(Debug)]
pub struct Places {
    all: Bound,
    /// What the gateway does itself has places of its own: many slow receivers must not keep agents from their work.
    gateway: Bound,
    by_lane: Mutex<HashMap<LaneId, usize>>,
    by_command: HashMap<String, Bound>,
}

#[derive(Debug)]
struct Bound {
    taken: AtomicUsize,
    max: usize,
}

impl Bound {
    fn new(max: usize) -> Bound {
        Bound { taken: AtomicUsize::new(0), max }
    }

    fn free(&self) -> usize {
        self.max.saturating_sub(self.taken.load(Ordering::Acquire))
    }

    fn take(&self) -> bool {
        let take = |taken: usize| (taken < self.max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }

    fn give_back(&self) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Places {
    /// All of them free.
    pub fn new(config: &Config) -> Places {
        let commands = config.exec.iter();
        let bound = |(name, command): (&String, &crate::config::ExecCommand)| {
            (name.clone(), Bound::new(command.concurrency))
        };
        Places {
            all: Bound::new(config.push_concurrency),
            gateway: Bound::new(GATEWAY_PLACES),
            by_lane: Mutex::default(),
            by_command: commands.map(bound).collect(),
        }
    }

    /// How many are free, of either sort.
    pub fn free(&self) -> usize {
        self.all.free() + self.gateway.free()
    }

    /// How many more runs of a lane there may be. Of a command that this node does not have: none.
    pub fn free_for(&self, lane: LaneId, rule: &Rule) -> usize {
        let free = match &rule.executor {
            Executor::Http { .. } => self.all.free(),
            Executor::Gateway => self.gateway.free(),
            Executor::Exec { name } => {
                self.by_command.get(name).map_or(0, |bound| bound.free().min(self.all.free()))
            }
            Executor::Pull | Executor::SelfWebhook { .. } => 0,
        };
        let Some(most) = rule.at_once else { return free };
        let share = match &rule.executor {
            Executor::Gateway => most.min((free / LANE_SHARE).max(1)),
            _ => most,
        };
        let in_lane = self.by_lane.lock().get(&lane).copied().unwrap_or(0);
        free.min(share.saturating_sub(in_lane))
    }

    /// Takes a place for a run, if there is one. `lane`: the one it counts for, if that has a bound.
    pub fn take(self: &Arc<Places>, executor: &Executor, lane: Option<LaneId>) -> Option<Place> {
        let sort = match executor {
            Executor::Gateway => Sort::Gateway,
            Executor::Http { .. } => Sort::Agent(None),
            Executor::Exec { name } => {
                self.by_command.get(name)?.take().then_some(())?;
                Sort::Agent(Some(name.clone()))
            }
            Executor::Pull | Executor::SelfWebhook { .. } => return None,
        };
        let bound = if sort == Sort::Gateway { &self.gateway } else { &self.all };
        if !bound.take() {
            if let Sort::Agent(Some(name)) = sort {
                self.by_command[&name].give_back();
            }
            return None;
        }
        if let Some(lane) = lane {
            *self.by_lane.lock().entry(lane).or_default() += 1;
        }
        Some(Place { places: self.clone(), sort, lane })
    }
}

/// Which places a run takes one of.
#[derive(Debug, PartialEq, Eq)]
enum Sort {
    Gateway,
    /// An agent's, and if it is a command, which.
    Agent(Option<String>),
}

/// A run's place; free again when it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    sort: Sort,
    lane: Option<LaneId>,
}

impl Drop for Place {
    fn drop(&mut self) {
        match &self.sort {
            Sort::Gateway => self.places.gateway.give_back(),
            Sort::Agent(command) => {
                if let Some(bound) =
                    command.as_ref().and_then(|name| self.places.by_command.get(name))
                {
                    bound.give_back();
                }
                self.places.all.give_back();
            }
        }
        if let Some(lane) = self.lane {
            let mut by_lane = self.places.by_lane.lock();
            if let Some(count) = by_lane.get_mut(&lane) {
                *count -= 1;
                if *count == 0 {
                    by_lane.remove(&lane);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_once_and_free_again_when_it_is_dropped() {
        let places = Arc::new(Places {
            all: Bound::new(2),
            gateway: Bound::new(3),
            by_lane: Mutex::default(),
            by_command: HashMap::from([("agent".to_owned(), Bound::new(1))]),
        });
        let exec = Executor::Exec { name: "agent".to_owned() };
        let http = Executor::Http { url: "https://agent.example".to_owned() };
        let free = |executor: &Executor| {
            places.free_for(LaneId(1), &Rule { executor: executor.clone(), at_once: None })
        };
        let first = places.take(&exec, None).unwrap();
        assert!(places.take(&exec, None).is_none(), "one of the command at a time");
        assert_eq!((places.all.free(), free(&exec), free(&http)), (1, 0, 1));
        let second = places.take(&http, None).unwrap();
        assert!(places.take(&http, None).is_none(), "two in all");
        assert_eq!(free(&Executor::Gateway), 3, "places of its own");
        drop(first);
        assert_eq!((places.all.free(), free(&exec)), (1, 1));
        drop(second);
        assert!(places.take(&Executor::Exec { name: "unknown".to_owned() }, None).is_none());
        assert!(places.take(&Executor::Pull, None).is_none());
        assert_eq!(places.all.free(), 2);
    }

    #[test]
    fn a_lane_with_a_bound_takes_no_more_places_than_that() {
        let places = Arc::new(Places {
            all: Bound::new(2),
            gateway: Bound::new(100),
            by_lane: Mutex::default(),
            by_command: HashMap::new(),
        });
        let rule = Rule { executor: Executor::Gateway, at_once: Some(2) };
        let held: Vec<_> =
            (0..2).map(|_| places.take(&rule.executor, Some(LaneId(1))).unwrap()).collect();
        assert_eq!(places.free_for(LaneId(1), &rule), 0);
        assert_eq!(places.free_for(LaneId(2), &rule), 2);
        drop(held);
        assert_eq!(places.free_for(LaneId(1), &rule), 2);
        assert!(places.by_lane.lock().is_empty());
    }

    #[test]
    fn however_many_lanes_take_all_they_may_the_next_one_finds_some() {
        let places = Arc::new(Places {
            all: Bound::new(2),
            gateway: Bound::new(GATEWAY_PLACES),
            by_lane: Mutex::default(),
            by_command: HashMap::new(),
        });
        let rule = Rule { executor: Executor::Gateway, at_once: Some(64) };
        let mut held = Vec::new();
        for lane in (0..40).map(LaneId) {
            assert!(places.free_for(lane, &rule) > 0, "{lane:?}");
            while places.free_for(lane, &rule) > 0 {
                held.push(places.take(&rule.executor, Some(lane)).unwrap());
            }
        }
        assert_eq!(places.by_lane.lock()[&LaneId(0)], 64, "one alone has all that it may");
        assert!(places.gateway.free() > 0);
    }
}
