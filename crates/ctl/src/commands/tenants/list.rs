//! `webhookctl tenants list`

use jiff::Timestamp;
use wakepost_client::Tenant;

use crate::output::{Cell, Row};

impl Row for Tenant {
    const THINGS: &'static str = "tenants";
    const COLUMNS: &'static [&'static str] =
        &["TENANT", "NAME", "WEIGHT", "CONCURRENCY", "CREATED"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.slug),
            Cell::maybe(Some(&self.name)),
            Cell::number(self.weight),
            Cell::number(self.concurrency),
            Cell::ago(now, self.created_at.as_deref()),
        ]
    }
}
