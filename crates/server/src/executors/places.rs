//! How many runs this node may have under way, in all and of each command.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
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
    /// How many were given back since the start.
    given_back: AtomicUsize,
    freed: Notify,
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
            given_back: AtomicUsize::new(0),
            freed: Notify::new(),
        }
    }

    /// How many are in use, of either sort.
    pub fn taken(&self) -> usize {
        self.all.taken.load(Ordering::Acquire) + self.gateway.taken.load(Ordering::Acquire)
    }

    /// How many were given back since the start.
    pub fn given_back(&self) -> usize {
        self.given_back.load(Ordering::Acquire)
    }

    /// Waits until one is given back.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    /// What is free now, for a plan.
    pub fn room(&self) -> Room<'_> {
        Room {
            places: self,
            all: self.all.free(),
            gateway: self.gateway.free(),
            by_lane: HashMap::new(),
            by_command: HashMap::new(),
        }
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

/// The places that were free at one moment, while a plan takes of them.
#[derive(Debug)]
pub struct Room<'a> {
    places: &'a Places,
    all: usize,
    gateway: usize,
    /// How many the lanes that were looked at have by now, with those of the plan.
    by_lane: HashMap<LaneId, usize>,
    /// How many more the commands may have that were looked at.
    by_command: HashMap<String, usize>,
}

impl Room<'_> {
    /// How many there are in all.
    pub fn size(&self) -> usize {
        self.all + self.gateway
    }

    /// Takes one for a run of a lane, if there is one. For a command that this node does not have there is none.
    pub fn take(&mut self, lane: LaneId, rule: &Rule) -> bool {
        let Room { places, all, gateway, by_lane, by_command } = self;
        let (free, of_command) = match &rule.executor {
            Executor::Http { .. } => (all, None),
            Executor::Gateway => (gateway, None),
            Executor::Exec { name } => {
                let Some(bound) = places.by_command.get(name) else { return false };
                (all, Some(by_command.entry(name.clone()).or_insert_with(|| bound.free())))
            }
            Executor::Pull | Executor::SelfWebhook { .. } => return false,
        };
        if *free == 0 || of_command.as_ref().is_some_and(|free| **free == 0) {
            return false;
        }
        if let Some(most) = rule.at_once {
            let most = match &rule.executor {
                Executor::Gateway => most.min((*free / LANE_SHARE).max(1)),
                _ => most,
            };
            let taken = || places.by_lane.lock().get(&lane).copied().unwrap_or(0);
            let in_lane = by_lane.entry(lane).or_insert_with(taken);
            if *in_lane >= most {
                return false;
            }
            *in_lane += 1;
        }
        *free -= 1;
        if let Some(free) = of_command {
            *free -= 1;
        }
        true
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
        self.places.given_back.fetch_add(1, Ordering::AcqRel);
        self.places.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(all: usize, gateway: usize, commands: &[(&str, usize)]) -> Arc<Places> {
        let bound = |(name, max): &(&str, usize)| ((*name).to_owned(), Bound::new(*max));
        Arc::new(Places {
            all: Bound::new(all),
            gateway: Bound::new(gateway),
            by_lane: Mutex::default(),
            by_command: commands.iter().map(bound).collect(),
            given_back: AtomicUsize::new(0),
            freed: Notify::new(),
        })
    }

    fn exec(name: &str) -> Executor {
        Executor::Exec { name: name.to_owned() }
    }

    fn http(host: &str) -> Executor {
        Executor::Http { url: format!("https://{host}.example") }
    }

    fn unbounded(executor: &Executor) -> Rule {
        Rule { executor: executor.clone(), at_once: None }
    }

    /// How many runs of a lane a plan of it alone has.
    fn free(places: &Places, lane: i64, rule: &Rule) -> usize {
        let mut room = places.room();
        std::iter::repeat_with(|| room.take(LaneId(lane), rule)).take_while(|took| *took).count()
    }

    #[test]
    fn a_place_is_taken_once_and_free_again_when_it_is_dropped() {
        let places = places(2, 3, &[("agent", 1)]);
        let (exec, http) = (exec("agent"), http("agent"));
        let first = places.take(&exec, None).unwrap();
        assert!(places.take(&exec, None).is_none(), "one of the command at a time");
        let left = |executor| free(&places, 1, &unbounded(executor));
        assert_eq!((places.all.free(), left(&exec), left(&http)), (1, 0, 1));
        let second = places.take(&http, None).unwrap();
        assert!(places.take(&http, None).is_none(), "two in all");
        assert_eq!(left(&Executor::Gateway), 3, "places of its own");
        assert_eq!((places.taken(), places.given_back()), (2, 0));
        drop(first);
        assert_eq!((places.taken(), places.given_back()), (1, 1));
        assert_eq!((places.all.free(), left(&exec)), (1, 1));
        drop(second);
        assert!(places.take(&Executor::Exec { name: "unknown".to_owned() }, None).is_none());
        assert!(places.take(&Executor::Pull, None).is_none());
        assert_eq!((left(&self::exec("unknown")), left(&Executor::Pull)), (0, 0));
        assert_eq!(places.all.free(), 2);
    }

    #[test]
    fn a_plan_for_several_agents_has_no_more_places_than_there_are() {
        let places = places(5, 3, &[("one", 2), ("other", 9)]);
        let mut room = places.room();
        let mut took = |executor: &Executor, tries: usize| {
            (0..tries).filter(|_| room.take(LaneId(1), &unbounded(executor))).count()
        };
        assert_eq!(took(&exec("one"), 4), 2);
        assert_eq!(took(&http("a"), 1), 1);
        assert_eq!(took(&exec("other"), 1), 1);
        assert_eq!(took(&http("b"), 4), 1, "five in all");
        assert_eq!(took(&Executor::Gateway, 4), 3);
        assert_eq!(room.size(), 0);
        assert_eq!(places.taken(), 0, "a plan is only a plan");
    }

    #[test]
    fn a_lane_with_a_bound_takes_no_more_places_than_that() {
        let places = places(2, 100, &[]);
        let rule = Rule { executor: Executor::Gateway, at_once: Some(2) };
        let held: Vec<_> =
            (0..2).map(|_| places.take(&rule.executor, Some(LaneId(1))).unwrap()).collect();
        assert_eq!(free(&places, 1, &rule), 0);
        assert_eq!(free(&places, 2, &rule), 2);
        drop(held);
        assert_eq!(free(&places, 1, &rule), 2);
        assert!(places.by_lane.lock().is_empty());
    }

    #[test]
    fn lanes_of_one_plan_take_nothing_of_each_others_bound() {
        let places = places(2, GATEWAY_PLACES, &[]);
        let rule = Rule { executor: Executor::Gateway, at_once: Some(16) };
        let mut room = places.room();
        for lane in (0..10).map(LaneId) {
            let took = (0..20).filter(|_| room.take(lane, &rule)).count();
            assert_eq!(took, 16, "{lane:?}");
        }
    }

    #[test]
    fn however_many_lanes_take_all_they_may_the_next_one_finds_some() {
        let places = places(2, GATEWAY_PLACES, &[]);
        let rule = Rule { executor: Executor::Gateway, at_once: Some(64) };
        let mut held = Vec::new();
        for lane in (0..40).map(LaneId) {
            assert!(free(&places, lane.0, &rule) > 0, "{lane:?}");
            while free(&places, lane.0, &rule) > 0 {
                held.push(places.take(&rule.executor, Some(lane)).unwrap());
            }
        }
        assert_eq!(places.by_lane.lock()[&LaneId(0)], 64, "one alone has all that it may");
        assert!(places.gateway.free() > 0);
    }
}
