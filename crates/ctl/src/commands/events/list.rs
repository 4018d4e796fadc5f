//! `webhookctl events list`

use jiff::Timestamp;
use wakepost_client::PublishedEvent;

use crate::output::{Cell, Row, Tone};

impl Row for PublishedEvent {
    const THINGS: &'static str = "published events";
    const COLUMNS: &'static [&'static str] = &["EVENT", "TYPE", "VERSION", "PUBLISHED", "MODE"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(&self.event_type),
            Cell::maybe(self.api_version.as_deref()),
            Cell::ago(now, self.created_at.as_deref()),
            mode(self.livemode),
        ]
    }
}

/// Whether it is meant.
pub fn mode(livemode: Option<bool>) -> Cell {
    match livemode {
        Some(true) => Cell::new("live"),
        Some(false) => Cell::toned(Tone::Dim, "test"),
        None => Cell::maybe(None),
    }
}
