//! `webhookctl event-types list`

use jiff::Timestamp;
use wakepost_client::EventType;

use crate::output::{Cell, Row};

/// As much of a description as a table can show.
const DESCRIPTION_CHARS_MAX: usize = 60;

impl Row for EventType {
    const THINGS: &'static str = "event types";
    const COLUMNS: &'static [&'static str] = &["TYPE", "VERSIONS", "DESCRIPTION"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        let versions: Vec<&str> = self.versions.keys().rev().map(String::as_str).collect();
        vec![
            Cell::new(&self.name),
            Cell::maybe(Some(&versions.join(", "))),
            Cell::clipped(Some(&self.description), DESCRIPTION_CHARS_MAX),
        ]
    }
}
