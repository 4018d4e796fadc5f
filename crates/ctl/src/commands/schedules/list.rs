//! `webhookctl schedules list`

use jiff::Timestamp;
use wakepost_client::Schedule;

use super::show::status;
use crate::output::{Cell, Row};

impl Row for Schedule {
    const THINGS: &'static str = "schedules";
    const COLUMNS: &'static [&'static str] =
        &["SCHEDULE", "NAME", "STATUS", "CRON", "TIME ZONE", "NEXT", "LAST"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(&self.name),
            Cell::status(status(self)),
            Cell::new(&self.cron),
            Cell::new(&self.time_zone),
            Cell::ago(now, self.next_at.as_deref()),
            Cell::ago(now, self.last_at.as_deref()),
        ]
    }
}
