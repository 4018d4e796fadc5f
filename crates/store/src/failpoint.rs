//! Failpoints: named places where a test can make the program die, fail or wait. Release builds have none.
//!
//! `WAKEPOST_FAILPOINTS="claim.after_commit=kill"` sets one for a process; several are separated by `;`.
//! The actions are `kill` (the process ends at once, as by SIGKILL), `error` and `delay:MS`. With `@N` the
//! action waits for the Nth time the place is reached, with `xK` after that it happens K times and no more.
//! `skip` leaves out what a place is there for, where that place asks ([`skips`]): it breaks a promise, to
//! show that the tests of it notice. A place that acts says so in the log.
//!
//! A simulation has all of a server on one thread, and chooses what happens there by itself ([`choose`]).

use crate::error::Result;

/// Every place there is. `docs/crash-testing.md` says what each stands for.
pub const PLACES: &[&str] = &[
    "edge.after_verify",
    "edge.before_answer",
    "edge.while_answering",
    "accept.on_conflict",
    "store.busy",
    "store.before_commit",
    "store.commit_error",
    "store.commit_unknown",
    "store.after_commit",
    "claim.before_commit",
    "claim.after_commit",
    "lease.heartbeat",
    "settle.before_commit",
    "settle.after_commit",
    "fail.before_commit",
    "rescue.after_select",
    "rescue.mid_batch",
    "scheduler.after_select",
    "cron.after_select",
    "cron.after_enqueue",
    "checkpoint.before_commit",
    "effect.after_begin",
    "effect.before_commit",
    "effect.after_commit",
    "replay.before_commit",
    "wake.lost",
    "expand.before_position",
    "operation.before_position",
    "replay.mid_batch",
    "publish.mid_fan_out",
    "delivery.before_send",
    "delivery.after_send",
    "webhook.before_write",
    "backfill.before_page",
    "retention.mid_batch",
    "rotation.mid_batch",
    "migration.mid_step",
    "shutdown.mid_drain",
    "sqlite.checkpoint",
    "sqlite.reopen",
    "sqlite.sync",
    "sqlite.sync_error",
];

/// Passes a failpoint: does what a test asked for here, which in a release build is nothing.
#[inline]
pub fn pass(place: &'static str) -> Result<()> {
    #[cfg(debug_assertions)]
    return match active::reach(place, Passing::AtOnce) {
        Some(action) => action.block(place),
        None => Ok(()),
    };
    #[cfg(not(debug_assertions))]
    {
        let _ = place;
        Ok(())
    }
}

/// As [`pass`], where a thread must not be kept waiting.
#[inline]
pub async fn pass_async(place: &'static str) -> Result<()> {
    #[cfg(debug_assertions)]
    return match active::reach(place, Passing::Patiently) {
        Some(action) => action.wait(place).await,
        None => Ok(()),
    };
    #[cfg(not(debug_assertions))]
    {
        let _ = place;
        Ok(())
    }
}

/// How a place is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    /// On a thread that does nothing else meanwhile. In a simulation that is its only one, so nothing can wait here.
    AtOnce,
    /// Where waiting keeps no thread.
    Patiently,
}

/// What a simulation wants to happen at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whim {
    /// The server is gone from here on: whoever asks asynchronously is never answered, and nothing more is written.
    Crash,
    /// It fails.
    Fail,
    /// It waits. Only where it is passed patiently: elsewhere no time could go by.
    Wait(std::time::Duration),
}

/// Asks this from now on, on this thread and whenever a place is reached, in place of what the process was told.
/// A release build asks nobody.
pub fn choose(chooser: impl FnMut(&'static str, Passing) -> Option<Whim> + 'static) {
    #[cfg(debug_assertions)]
    active::choose(Box::new(chooser));
    #[cfg(not(debug_assertions))]
    let _ = chooser;
}

/// Whether a test asked for anything at this place, or a simulation might. Never in a release build.
#[inline]
pub fn is_set(place: &'static str) -> bool {
    #[cfg(debug_assertions)]
    return active::is_set(place);
    #[cfg(not(debug_assertions))]
    {
        let _ = place;
        false
    }
}

/// Whether a test asked to leave out what this place is there for. Never in a release build.
#[inline]
pub fn skips(place: &'static str) -> bool {
    #[cfg(debug_assertions)]
    return active::skips(place);
    #[cfg(not(debug_assertions))]
    {
        let _ = place;
        false
    }
}

/// Says what is wrong with `WAKEPOST_FAILPOINTS`: a misspelt place would test nothing. A release build does
/// not look.
pub fn check() -> std::result::Result<(), String> {
    #[cfg(debug_assertions)]
    return active::check();
    #[cfg(not(debug_assertions))]
    Ok(())
}

#[cfg(debug_assertions)]
mod active {
    use std::cell::RefCell;
    use std::collections::HashMap;
    use std::sync::LazyLock;
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::{PLACES, Passing, Whim};
    use crate::error::{Result, StoreError};

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Action {
        Kill,
        Error,
        Delay(Duration),
        Skip,
        Chosen(Whim),
    }

    type Chooser = Box<dyn FnMut(&'static str, Passing) -> Option<Whim>>;

    thread_local! {
        static CHOOSER: RefCell<Option<Chooser>> = const { RefCell::new(None) };
    }

    pub fn choose(chooser: Chooser) {
        CHOOSER.set(Some(chooser));
    }

    #[derive(Debug)]
    struct Point {
        action: Action,
        /// How often the place is still passed before the action.
        before: u32,
        /// How often the action still happens.
        times: u32,
    }

    type Points = HashMap<&'static str, Point>;

    static POINTS: LazyLock<Mutex<Points>> =
        LazyLock::new(|| Mutex::new(read(&text()).unwrap_or_default()));

    fn text() -> String {
        std::env::var("WAKEPOST_FAILPOINTS").unwrap_or_default()
    }

    pub fn check() -> std::result::Result<(), String> {
        read(&text()).map(|_| ())
    }

    fn read(text: &str) -> std::result::Result<Points, String> {
        text.split(';').map(str::trim).filter(|part| !part.is_empty()).map(parse).collect()
    }

    fn parse(text: &str) -> std::result::Result<(&'static str, Point), String> {
        let problem = || format!("{text:?} is not PLACE=ACTION, with @N and xK after it");
        let (name, rest) = text.split_once('=').ok_or_else(problem)?;
        let place = PLACES.iter().find(|place| **place == name).ok_or_else(|| {
            format!("there is no failpoint {name}; there are {}", PLACES.join(", "))
        })?;
        let (rest, times) = match rest.split_once('x') {
            Some((rest, times)) => (rest, times.parse().map_err(|_| problem())?),
            None => (rest, u32::MAX),
        };
        let (action, nth) = rest.split_once('@').unwrap_or((rest, "1"));
        let nth: u32 = nth.parse().map_err(|_| problem())?;
        let action = match action.split_once(':') {
            Some(("delay", ms)) => {
                Action::Delay(Duration::from_millis(ms.parse().map_err(|_| problem())?))
            }
            None if action == "kill" => Action::Kill,
            None if action == "error" => Action::Error,
            None if action == "skip" => Action::Skip,
            _ => return Err(problem()),
        };
        Ok((place, Point { action, before: nth.saturating_sub(1), times }))
    }

    /// What to do at a place that was reached now.
    pub fn reach(place: &'static str, passing: Passing) -> Option<Action> {
        debug_assert!(PLACES.contains(&place), "{place} is not in the list");
        let chosen = |chooser: &RefCell<Option<Chooser>>| {
            chooser.borrow_mut().as_mut().map(|chooser| chooser(place, passing))
        };
        if let Some(chosen) = CHOOSER.with(chosen) {
            let waits = matches!(chosen, Some(Whim::Wait(_)));
            debug_assert!(!waits || passing == Passing::Patiently, "{place} cannot wait");
            return chosen.map(Action::Chosen);
        }
        let mut points = POINTS.lock();
        let point = points.get_mut(place)?;
        if point.before > 0 {
            point.before -= 1;
            return None;
        }
        if point.times == 0 || point.action == Action::Skip {
            return None;
        }
        point.times -= 1;
        Some(point.action)
    }

    impl Action {
        pub fn block(self, place: &str) -> Result<()> {
            if let Action::Delay(time) = self {
                std::thread::sleep(time);
            }
            self.act(place)
        }

        pub async fn wait(self, place: &str) -> Result<()> {
            match self {
                Action::Delay(time) | Action::Chosen(Whim::Wait(time)) => {
                    tokio::time::sleep(time).await
                }
                Action::Chosen(Whim::Crash) => std::future::pending().await,
                _ => {}
            }
            self.act(place)
        }

        fn act(self, place: &str) -> Result<()> {
            tracing::warn!("failpoint {place} acts");
            match self {
                Action::Kill => std::process::abort(),
                Action::Error | Action::Chosen(Whim::Fail | Whim::Crash) => {
                    Err(StoreError::Unavailable(format!("failpoint {place}")))
                }
                Action::Delay(_) | Action::Skip | Action::Chosen(Whim::Wait(_)) => Ok(()),
            }
        }
    }

    pub fn is_set(place: &'static str) -> bool {
        CHOOSER.with_borrow(Option::is_some) || POINTS.lock().contains_key(place)
    }

    pub fn skips(place: &'static str) -> bool {
        POINTS.lock().get(place).is_some_and(|point| point.action == Action::Skip)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn what_a_simulation_chooses_happens_on_its_thread_only() {
            std::thread::spawn(|| {
                choose(Box::new(|place, _| (place == "store.busy").then_some(Whim::Fail)));
                assert!(super::super::pass("store.busy").is_err());
                assert!(super::super::pass("store.after_commit").is_ok());
                assert!(super::super::is_set("edge.while_answering"), "it might");
            })
            .join()
            .unwrap();
            assert!(super::super::pass("store.busy").is_ok());
            assert!(!super::super::is_set("edge.while_answering"));
        }

        #[test]
        fn a_simulation_hears_where_waiting_would_keep_its_thread() {
            std::thread::spawn(|| {
                let heard = std::rc::Rc::<RefCell<Vec<Passing>>>::default();
                let hears = heard.clone();
                choose(Box::new(move |_, passing| {
                    hears.borrow_mut().push(passing);
                    None
                }));
                super::super::pass("store.busy").unwrap();
                let passing = super::super::pass_async("store.busy");
                futures_util::FutureExt::now_or_never(passing).unwrap().unwrap();
                assert_eq!(*heard.borrow(), [Passing::AtOnce, Passing::Patiently]);
            })
            .join()
            .unwrap();
        }

        #[test]
        fn the_documentation_lists_every_place_and_no_other() {
            let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(file.join("../../docs/crash-testing.md")).unwrap();
            let table = text.split("\n| place |").nth(1).unwrap().split("\n\n").next().unwrap();
            let cells =
                table.lines().filter_map(|row| row.strip_prefix("| `")?.split(" | ").next());
            let mut listed: Vec<&str> =
                cells.flat_map(|cell| cell.trim_end_matches('`').split("`, `")).collect();
            let mut places = PLACES.to_vec();
            listed.sort_unstable();
            places.sort_unstable();
            assert_eq!(listed, places);
        }

        fn reach(place: &'static str) -> Option<Action> {
            super::reach(place, Passing::AtOnce)
        }

        fn set(text: &str) {
            POINTS.lock().extend(read(text).unwrap());
        }

        // Places that no other test of this crate passes.

        #[test]
        fn only_what_is_asked_for_is_skipped() {
            set("migration.mid_step=skip");
            assert!(skips("migration.mid_step"));
            assert_eq!(reach("migration.mid_step"), None);
            assert!(!skips("sqlite.sync"));
        }

        #[test]
        fn a_failpoint_acts_from_the_nth_time_on() {
            set("wake.lost=error@2");
            assert_eq!(reach("wake.lost"), None);
            assert_eq!(reach("wake.lost"), Some(Action::Error));
            assert_eq!(reach("wake.lost"), Some(Action::Error));
            assert_eq!(reach("edge.before_answer"), None);
        }

        #[test]
        fn a_failpoint_acts_as_often_as_it_is_told() {
            set("edge.after_verify=delay:20@3x2");
            let seen: Vec<_> = (0..6).map(|_| reach("edge.after_verify").is_some()).collect();
            assert_eq!(seen, [false, false, true, true, false, false]);
        }

        #[test]
        fn what_cannot_be_read_is_an_error() {
            for wrong in
                ["wake.list=kill", "wake.lost", "wake.lost=die", "wake.lost=error@x", "=kill"]
            {
                assert!(read(wrong).is_err(), "{wrong}");
            }
            assert!(read("").unwrap().is_empty());
            assert_eq!(read("wake.lost=kill; sqlite.sync=skip;").unwrap().len(), 2);
        }
    }
}
