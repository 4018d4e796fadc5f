//! Threads: what a message does that arrives while its conversation is busy.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::time::Timestamp;
use crate::work::State;

/// How long a thread must be quiet before its job runs, unless the source says otherwise.
pub const QUIET: Duration = Duration::from_millis(1500);
/// How long a job waits for quiet at most, unless the source says otherwise.
pub const QUIET_CAP: Duration = Duration::from_secs(10);
/// How long the agent counts as taking part in a thread after the last job of it.
pub const KNOWN_FOR: Duration = Duration::from_secs(90 * 24 * 3600);

/// A thread's id as far as events are found by it.
pub fn searched(thread_id: &str) -> String {
    limits::truncate(thread_id, limits::THREAD_BYTES_MAX).to_owned()
}

/// What a message does that arrives while its thread is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadPolicy {
    /// It makes a job that knows nothing of the others.
    Off,
    /// It makes a job that runs after the others.
    Queue,
    /// It joins the job that waits for its first run; while one runs, it makes the next.
    Merge,
    /// It joins the live job, whose run ends at once.
    Interrupt,
}

impl ThreadPolicy {
    /// All of them.
    pub const ALL: [ThreadPolicy; 4] =
        [ThreadPolicy::Off, ThreadPolicy::Queue, ThreadPolicy::Merge, ThreadPolicy::Interrupt];

    /// Whether messages are gathered, and so a job waits until its thread is quiet.
    pub fn gathers(self) -> bool {
        matches!(self, ThreadPolicy::Merge | ThreadPolicy::Interrupt)
    }

    /// What a new message does, given the last item of its thread that still lives.
    pub fn way(self, last: Option<Last>) -> Way {
        let joinable = |last: &Last| {
            !last.is_replay && !last.is_stopping && last.joined < limits::EVENTS_JOINED_MAX
        };
        let Some(last) = last.filter(joinable) else {
            return Way::Own;
        };
        let waits = matches!(last.state, State::Pending | State::Scheduled);
        match self {
            ThreadPolicy::Merge if waits && !last.was_claimed => Way::Join,
            ThreadPolicy::Interrupt if waits => Way::Join,
            ThreadPolicy::Interrupt if last.state == State::Running => Way::Interrupt,
            _ => Way::Own,
        }
    }
}

/// The last item of a thread that still lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Last {
    /// Where it stands.
    pub state: State,
    /// Whether a worker ever had it: what it did then would be skipped for a message that joins.
    pub was_claimed: bool,
    /// Whether it shares an earlier item's effects, which would be skipped for a message that joins.
    pub is_replay: bool,
    /// Whether it was asked to stop.
    pub is_stopping: bool,
    /// How many events joined it.
    pub joined: i32,
}

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It makes a job of its own.
    Own,
    /// It joins the last item.
    Join,
    /// It ends the last item's run, and joins it.
    Interrupt,
}

/// How long a job waits for its thread to be quiet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quiet {
    /// Without a new message.
    pub for_: Duration,
    /// At most, from the first message on.
    pub cap: Duration,
}

impl Quiet {
    /// No wait.
    pub const NONE: Quiet = Quiet { for_: Duration::ZERO, cap: Duration::ZERO };

    /// When a job that gathers until a moment may start, after a message that came now. Never in the past.
    pub fn run_at(self, now: Timestamp, until: Timestamp) -> Timestamp {
        now.after(self.for_).min(until).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(state: State) -> Last {
        Last { state, was_claimed: false, is_replay: false, is_stopping: false, joined: 0 }
    }

    #[test]
    fn only_a_job_that_waits_for_its_first_run_is_merged_into() {
        let merge = |last| ThreadPolicy::Merge.way(Some(last));
        assert_eq!(ThreadPolicy::Merge.way(None), Way::Own);
        for state in State::ALL {
            let waits = matches!(state, State::Pending | State::Scheduled);
            assert_eq!(merge(last(state)) == Way::Join, waits, "{state:?}");
            assert_eq!(merge(Last { was_claimed: true, ..last(state) }), Way::Own, "{state:?}");
        }
    }

    #[test]
    fn a_live_run_is_interrupted_and_what_waits_is_joined() {
        let way = |last| ThreadPolicy::Interrupt.way(Some(last));
        assert_eq!(way(Last { was_claimed: true, ..last(State::Running) }), Way::Interrupt);
        assert_eq!(way(Last { was_claimed: true, ..last(State::Scheduled) }), Way::Join);
        assert_eq!(way(last(State::Held)), Way::Own);
        assert_eq!(way(Last { is_stopping: true, ..last(State::Running) }), Way::Own);
    }

    #[test]
    fn nothing_joins_a_queue_a_replay_or_a_full_job() {
        for policy in ThreadPolicy::ALL {
            let way = |last| policy.way(Some(last));
            assert_eq!(way(Last { is_replay: true, ..last(State::Pending) }), Way::Own);
            let full = limits::EVENTS_JOINED_MAX;
            assert_eq!(way(Last { joined: full, ..last(State::Pending) }), Way::Own);
        }
        assert_eq!(ThreadPolicy::Queue.way(Some(last(State::Pending))), Way::Own);
    }

    #[test]
    fn a_job_waits_for_quiet_but_not_for_ever() {
        let quiet = Quiet { for_: Duration::from_millis(10), cap: Duration::from_millis(25) };
        let at = Timestamp::from_millis;
        assert_eq!(quiet.run_at(at(100), at(125)), at(110));
        assert_eq!(quiet.run_at(at(120), at(125)), at(125));
        assert_eq!(quiet.run_at(at(140), at(125)), at(140));
    }
}
