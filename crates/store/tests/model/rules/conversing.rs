//! Conversations: a message joins its thread's last job, interrupts it, or makes the next.

use std::time::Duration;

use wakepost_domain::event::{Event, Route};
use wakepost_domain::thread::ThreadPolicy;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::State;
use wakepost_domain::{Timestamp, WorkId};
use wakepost_store::moves::{Accepted, NewThread};

use super::{Item, Model};

/// How long the agent takes part in a thread after the last job of it.
const KNOWN_FOR: Duration = Duration::from_secs(90 * 24 * 3600);

/// Whether a policy puts several messages together.
pub fn gathers(policy: ThreadPolicy) -> bool {
    matches!(policy, ThreadPolicy::Merge | ThreadPolicy::Interrupt)
}

impl Model {
    /// When a job may start after a message that came now: once it is quiet, or it gathered long enough.
    pub(super) fn quiet_at(&self, thread: &NewThread, until: Timestamp) -> Timestamp {
        self.now.after(thread.quiet.for_).min(until).max(self.now)
    }

    /// What its thread makes of a message; none if it makes a job of its own.
    pub(super) fn talk(&mut self, event: &Event, thread: &NewThread) -> Option<Accepted> {
        let known = self.threads.get(&thread.key).is_some_and(|until| *until > self.now);
        if thread.only_if_known && !known {
            self.route(event, Route::Ignored);
            return Some(Accepted::Ignored);
        }
        self.threads.insert(thread.key, self.now.after(KNOWN_FOR));
        let last = self.last_of(thread)?;
        let item = &self.items[&last];
        let (lane, freed_cap) = (item.row.lane, item.is_running() && !item.caps.is_empty());
        if item.is_running() {
            let quiet = thread.quiet.for_;
            self.end_for_person(last, Ending::Interrupted { quiet }, None);
            self.item(last).gathers_until = None;
        }
        let until = self.items[&last].gathers_until;
        let until = until.unwrap_or(self.now.after(thread.quiet.cap));
        let (run_at, now) = (self.quiet_at(thread, until), self.now);
        let item = self.item(last);
        item.joined.push(event.id);
        item.gathers_until = Some(until);
        item.row.run_at = run_at;
        item.row.state = if run_at > now { State::Scheduled } else { State::Pending };
        self.route(event, Route::Joined);
        Some(Accepted::Joined { work: last, lane, freed_cap })
    }

    fn route(&mut self, event: &Event, route: Route) {
        self.events.get_mut(&event.id).expect("it was just stored").route = route;
    }

    /// The last live item of a thread, if a message of this policy can join it.
    fn last_of(&self, thread: &NewThread) -> Option<WorkId> {
        let mut items: Vec<&Item> = self.in_order(thread.key).collect();
        items.sort_by_key(|item| (item.row.behind, item.row.id));
        let item = items.pop()?;
        let row = &item.row;
        let is_replay = row.scope != row.id.0;
        let lives = row.lease_expires_at.is_some_and(|end| end > self.now);
        let waits = matches!(row.state, State::Pending | State::Scheduled);
        let joins = match thread.policy {
            ThreadPolicy::Off | ThreadPolicy::Queue => false,
            ThreadPolicy::Merge => waits && row.fence == 0,
            ThreadPolicy::Interrupt => waits || (item.is_running() && lives),
        };
        (joins && !is_replay && item.cancel_at.is_none()).then_some(row.id)
    }
}
