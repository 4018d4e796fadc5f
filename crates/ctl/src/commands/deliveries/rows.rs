//! Deliveries in lists: of a webhook, and of an event. What all of a list share is not repeated in it.

use jiff::Timestamp;
use wakepost_client::Delivery;

use crate::output::{Cell, Row};

/// As much of an error as a table can show.
const ERROR_CHARS_MAX: usize = 60;

/// A delivery in a list of its webhook's.
pub struct ToWebhook(Delivery);

impl From<Delivery> for ToWebhook {
    fn from(delivery: Delivery) -> ToWebhook {
        ToWebhook(delivery)
    }
}

impl Row for ToWebhook {
    const THINGS: &'static str = "deliveries";
    const COLUMNS: &'static [&'static str] =
        &["DELIVERY", "EVENT", "TYPE", "STATUS", "ATTEMPTS", "CREATED", "LAST ERROR"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let ToWebhook(delivery) = self;
        let mut cells = vec![
            Cell::new(&delivery.id),
            Cell::maybe(delivery.event_id.as_deref()),
            Cell::maybe(delivery.event_type.as_deref()),
        ];
        cells.extend(how_it_goes(delivery, now));
        cells
    }
}

/// A delivery in a list of its event's.
pub struct OfEvent(Delivery);

impl From<Delivery> for OfEvent {
    fn from(delivery: Delivery) -> OfEvent {
        OfEvent(delivery)
    }
}

impl Row for OfEvent {
    const THINGS: &'static str = "deliveries";
    const COLUMNS: &'static [&'static str] =
        &["DELIVERY", "WEBHOOK", "STATUS", "ATTEMPTS", "CREATED", "LAST ERROR"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let OfEvent(delivery) = self;
        let mut cells = vec![Cell::new(&delivery.id), Cell::maybe(delivery.webhook_id.as_deref())];
        cells.extend(how_it_goes(delivery, now));
        cells
    }
}

fn how_it_goes(delivery: &Delivery, now: Timestamp) -> [Cell; 4] {
    [
        Cell::status(&delivery.status),
        Cell::new(&attempts(delivery)),
        Cell::ago(now, delivery.created_at.as_deref()),
        Cell::clipped(delivery.last_error.as_deref(), ERROR_CHARS_MAX),
    ]
}

/// `2/10`
pub fn attempts(delivery: &Delivery) -> String {
    match delivery.max_attempts {
        Some(max) => format!("{}/{max}", delivery.attempts),
        None => delivery.attempts.to_string(),
    }
}
