//! How many runs this node may have under way, in all and of each command.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wakepost_domain::executor::Executor;

use crate::config::Config;

/// The places for runs on this node.
#[derive(Debug)]
pub struct Places {
    all: Bound,
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
            by_command: commands.map(bound).collect(),
        }
    }

    /// How many are free.
    pub fn free(&self) -> usize {
        self.all.free()
    }

    /// How many more runs of an executor there may be. Of a command that this node does not have: none.
    pub fn free_for(&self, executor: &Executor) -> usize {
        match executor {
            Executor::Http { .. } | Executor::Gateway => self.free(),
            Executor::Exec { name } => {
                self.by_command.get(name).map_or(0, |bound| bound.free().min(self.free()))
            }
            Executor::Pull | Executor::SelfWebhook { .. } => 0,
        }
    }

    /// Takes a place for a run, if there is one.
    pub fn take(self: &Arc<Places>, executor: &Executor) -> Option<Place> {
        let command = match executor {
            Executor::Exec { name } => {
                self.by_command.get(name)?.take().then_some(())?;
                Some(name.clone())
            }
            Executor::Http { .. } | Executor::Gateway => None,
            Executor::Pull | Executor::SelfWebhook { .. } => return None,
        };
        if !self.all.take() {
            if let Some(name) = command {
                self.by_command[&name].give_back();
            }
            return None;
        }
        Some(Place { places: self.clone(), command })
    }
}

/// A run's place; free again when it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    command: Option<String>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(bound) = self.command.as_ref().and_then(|name| self.places.by_command.get(name))
        {
            bound.give_back();
        }
        self.places.all.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_once_and_free_again_when_it_is_dropped() {
        let places = Arc::new(Places {
            all: Bound::new(2),
            by_command: HashMap::from([("agent".to_owned(), Bound::new(1))]),
        });
        let exec = Executor::Exec { name: "agent".to_owned() };
        let http = Executor::Http { url: "https://agent.example".to_owned() };
        let first = places.take(&exec).unwrap();
        assert!(places.take(&exec).is_none(), "one of the command at a time");
        assert_eq!((places.free(), places.free_for(&exec), places.free_for(&http)), (1, 0, 1));
        let second = places.take(&http).unwrap();
        assert!(places.take(&http).is_none(), "two in all");
        drop(first);
        assert_eq!((places.free(), places.free_for(&exec)), (1, 1));
        drop(second);
        assert!(places.take(&Executor::Exec { name: "unknown".to_owned() }).is_none());
        assert!(places.take(&Executor::Pull).is_none());
        assert_eq!(places.free(), 2);
    }
}
