//! Fetching what a webhook only announces.

use serde_json::Value;
use wakepost_domain::Timestamp;

use crate::request::Request;
use crate::settings::Settings;

/// What an event announces, where it has not got it with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announces {
    /// The rest of itself.
    Rest,
    /// Other events; it is none of an agent's business itself.
    Others,
}

/// An event whose announcement is to be followed up.
#[derive(Clone, Copy)]
pub struct Expanding<'a> {
    /// The request that announced it.
    pub request: Request<'a>,
    /// The source's settings, secret ones included.
    pub settings: &'a Settings,
    /// How far the provider's changes were read, where that is known.
    pub position: Option<&'a Value>,
    /// The time now.
    pub now: Timestamp,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Expansion {
    /// The rest of the event: its adapter reads it with the request from now on.
    Rest {
        /// As fetched.
        fetched: Vec<u8>,
        /// Why it is no work for an agent after all.
        ignored: Option<String>,
    },
    /// Other events.
    Others {
        /// Each as its adapter will read it, in place of a body.
        found: Vec<Vec<u8>>,
        /// How far was read now. It counts once the events are stored, not before.
        position: Value,
        /// Whether there is more to read from there.
        more: bool,
    },
}
