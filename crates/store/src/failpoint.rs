//! Failpoints: named places where a test can make the program die, fail or wait. Release builds have none.
//!
//! `WAKEPOST_FAILPOINTS="accept.after_commit=kill"` sets one for a process; several are separated by `;`.
//! The actions are `kill` (the process ends at once, as by SIGKILL), `error` and `delay:MS`. With `@N` the
//! action waits for the Nth time the place is reached. `skip` leaves out what a place is there for, where
//! that place asks ([`skips`]): it breaks a promise, to show that the tests of it notice.

use crate::error::Result;

/// Passes a failpoint: does what a test asked for here, which in a release build is nothing.
#[inline]
pub fn pass(name: &str) -> Result<()> {
    #[cfg(debug_assertions)]
    return active::pass(name);
    #[cfg(not(debug_assertions))]
    {
        let _ = name;
        Ok(())
    }
}

/// Whether a test asked to leave out what this place is there for. Never in a release build.
#[inline]
pub fn skips(name: &str) -> bool {
    #[cfg(debug_assertions)]
    return active::skips(name);
    #[cfg(not(debug_assertions))]
    {
        let _ = name;
        false
    }
}

#[cfg(debug_assertions)]
mod active {
    use std::collections::HashMap;
    use std::sync::LazyLock;
    use std::time::Duration;

    use parking_lot::Mutex;

    use crate::error::{Result, StoreError};

    #[derive(Debug, Clone)]
    struct Point {
        action: String,
        wait: u32,
    }

    static POINTS: LazyLock<Mutex<HashMap<String, Point>>> = LazyLock::new(|| {
        let text = std::env::var("WAKEPOST_FAILPOINTS").unwrap_or_default();
        Mutex::new(text.split(';').filter_map(parse).collect())
    });

    fn parse(text: &str) -> Option<(String, Point)> {
        let (name, action) = text.trim().split_once('=')?;
        let (action, nth) = action.split_once('@').unwrap_or((action, "1"));
        Some((name.to_owned(), Point { action: action.to_owned(), wait: nth.parse().ok()? }))
    }

    pub fn pass(name: &str) -> Result<()> {
        let action = {
            let mut points = POINTS.lock();
            let Some(point) = points.get_mut(name) else {
                return Ok(());
            };
            point.wait = point.wait.saturating_sub(1);
            if point.wait > 0 {
                return Ok(());
            }
            point.action.clone()
        };
        match action.split_once(':') {
            Some(("delay", ms)) => {
                std::thread::sleep(Duration::from_millis(ms.parse().unwrap_or(0)));
                Ok(())
            }
            _ if action == "kill" => std::process::abort(),
            _ => Err(StoreError::Unavailable(format!("failpoint {name}"))),
        }
    }

    pub fn skips(name: &str) -> bool {
        POINTS.lock().get(name).is_some_and(|point| point.action == "skip")
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_what_is_asked_for_is_skipped() {
            let (name, point) = parse("test.skipped=skip").unwrap();
            POINTS.lock().insert(name, point);
            assert!(skips("test.skipped"));
            assert!(!skips("test.not_skipped"));
        }

        #[test]
        fn a_failpoint_acts_from_the_nth_time_on() {
            let (name, point) = parse("test.nth=error@2").unwrap();
            POINTS.lock().insert(name, point);
            assert!(pass("test.nth").is_ok());
            assert!(pass("test.nth").is_err());
            assert!(pass("test.other").is_ok());
        }
    }
}
