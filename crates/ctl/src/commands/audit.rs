//! `webhookctl audit`

use clap::Subcommand;
use jiff::Timestamp;
use wakepost_client::AuditEntry;

use crate::commands::paging::Paging;
use crate::output::when::absolute;
use crate::output::{Cell, Row};
use crate::session::Session;

#[derive(Subcommand)]
pub enum Audit {
    /// List what was done, newest first
    List(Paging),
}

impl Audit {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let Audit::List(page) = self;
        session.list(session.client.list_audit(&page.into())).await
    }
}

impl Row for AuditEntry {
    const THINGS: &'static str = "entries";
    const COLUMNS: &'static [&'static str] = &["AT", "ACTOR", "ACTION", "TARGET", "NOTE"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let at = self.at.as_deref().map(|at| absolute(now, at));
        vec![
            Cell::maybe(at.as_deref()),
            Cell::maybe(Some(&self.actor)),
            Cell::maybe(Some(&self.action)),
            Cell::maybe(Some(&self.target)),
            Cell::maybe(self.note.as_deref()),
        ]
    }
}
