//! `webhookctl inbox list`

use clap::Args;
use jiff::Timestamp;
use wakepost_client::{Event, InboxQuery};

use super::filter::Filter;
use crate::commands::paging::Paging;
use crate::output::{Cell, Row};
use crate::session::Session;

#[derive(Args)]
pub struct List {
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let Paging { limit, cursor } = self.paging;
        let query = InboxQuery { limit, cursor, ..self.filter.resolve(session) };
        session.list(session.client.list_inbox(&query)).await
    }
}

impl Row for Event {
    const THINGS: &'static str = "events";
    const COLUMNS: &'static [&'static str] =
        &["EVENT", "PROVIDER", "TYPE", "STATUS", "RECEIVED", "SUBJECT"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let envelope = &self.envelope;
        vec![
            Cell::new(&envelope.event_id),
            Cell::new(&envelope.provider),
            Cell::new(&envelope.event_type),
            Cell::status(&self.status),
            Cell::ago(now, envelope.received_at.as_deref()),
            Cell::maybe(self.subject.as_deref()),
        ]
    }
}
