//! `webhookctl keys list`

use jiff::Timestamp;
use wakepost_client::Key;

use super::reach;
use crate::output::{Cell, Row};

impl Row for Key {
    const THINGS: &'static str = "keys";
    const COLUMNS: &'static [&'static str] =
        &["KEY", "NAME", "ROLE", "TENANT", "LAST USED", "EXPIRES"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let expires = match &self.revoked_at {
            Some(_) => Cell::new("revoked"),
            None => Cell::ago(now, self.expires_at.as_deref()),
        };
        vec![
            Cell::new(&self.id),
            Cell::maybe(Some(&self.name)),
            Cell::new(&self.role),
            Cell::new(reach(self.tenant.as_deref())),
            Cell::ago(now, self.last_used_at.as_deref()),
            expires,
        ]
    }
}
