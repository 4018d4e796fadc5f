//! Events: one thing that happened, stored once.

use serde::{Deserialize, Serialize};

use crate::id::{EventId, SourceId};
use crate::tenant::TenantId;
use crate::time::Timestamp;
use crate::work::State;

/// What an accepted event led to. It commits together with the event: no event is without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// A job.
    Job = 0,
    /// Nothing: a filter, or the provider's rules.
    Ignored = 1,
    /// Nothing: it could not be understood.
    Unmapped = 2,
    /// An earlier event's job, which it joined.
    Joined = 3,
    /// Deliveries, one for each webhook that wants it: it was published, not received.
    Published = 4,
}

impl Route {
    /// From storage.
    pub fn from_code(code: i16) -> Option<Route> {
        [Route::Job, Route::Ignored, Route::Unmapped, Route::Joined, Route::Published]
            .into_iter()
            .find(|route| *route as i16 == code)
    }
}

/// The columns of an event that can be searched and listed without opening its body.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Where it came from.
    pub source: SourceId,
    /// What happened.
    pub event_type: String,
    /// What makes a repeat of it a duplicate, for people.
    pub dedup_key: String,
    /// What it led to.
    pub route: Route,
    /// Whether its signature was checked.
    pub verified: bool,
    /// What it is about: `provider:kind:id`.
    pub subject: Option<String>,
    /// The conversation it belongs to, cut to what can be searched; of what a job's agent published, that job.
    pub thread: Option<String>,
    /// When it happened, by the provider's word.
    pub occurred_at: Option<Timestamp>,
    /// When it arrived.
    pub received_at: Timestamp,
    /// SHA-256 of the body.
    pub payload_hash: [u8; 32],
    /// How many repeats of it arrived.
    pub duplicates: i32,
    /// Who sent it.
    pub remote_addr: Option<String>,
    /// From the first byte to the hand-over to the store.
    pub latency_us: i32,
    /// A hash of its signature, where that covers a time: a second one like it was captured, not signed.
    pub signature: Option<i64>,
    /// Which part of a request it is, where the request told of several events.
    pub part: Option<Part>,
    /// The trace it goes on with; none: it begins one of its own.
    pub trace: Option<String>,
}

/// One of several events that a single request told of. The request is stored once for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Under which id the request is stored.
    pub body: EventId,
    /// Which of its events this is, from 0 on.
    pub index: u16,
}

impl Event {
    /// Under which id its request is stored.
    pub fn body(&self) -> EventId {
        self.part.map_or(self.id, |part| part.body)
    }
}

/// An event's status: its route, or the most telling state of its work.
pub fn status(route: Route, work: impl IntoIterator<Item = State>) -> &'static str {
    const ORDER: [State; 9] = [
        State::Running,
        State::Retrying,
        State::Pending,
        State::Scheduled,
        State::AwaitingApproval,
        State::Held,
        State::DeadLetter,
        State::Cancelled,
        State::Succeeded,
    ];
    let rank = |state: State| ORDER.iter().position(|known| *known == state);
    match (work.into_iter().min_by_key(|state| rank(*state)), route) {
        (Some(state), _) => state.as_str(),
        (None, Route::Unmapped) => "unmapped",
        (None, Route::Ignored) => "ignored",
        // The work's history is kept for less long than the event.
        (None, Route::Job | Route::Joined) => State::Succeeded.as_str(),
        // Nobody subscribed to it, or all of it is done.
        (None, Route::Published) => State::Succeeded.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_telling_state_of_its_work_is_the_events_status() {
        assert_eq!(status(Route::Job, [State::Succeeded, State::Running]), "running");
        assert_eq!(status(Route::Job, [State::Succeeded, State::DeadLetter]), "dead_letter");
        assert_eq!(status(Route::Ignored, []), "ignored");
        assert_eq!(status(Route::Unmapped, [State::Pending]), "pending");
    }
}
