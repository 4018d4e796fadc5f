//! `webhookctl inbox list`

use clap::Args;
use jiff::Timestamp;
use wakepost_client::{Event, InboxQuery};

use crate::commands::paging::Paging;
use crate::output::when::When;
use crate::output::{Cell, Row};
use crate::session::Session;

#[derive(Args)]
pub struct List {
    /// Of this source
    #[arg(long, value_name = "SRC")]
    source: Option<String>,
    /// Of this provider
    #[arg(long)]
    provider: Option<String>,
    /// Of this event type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// In this status
    #[arg(long)]
    status: Option<String>,
    /// Of this conversation
    #[arg(long)]
    thread: Option<String>,
    /// About this subject (provider:kind:id)
    #[arg(long)]
    subject: Option<String>,
    /// With this dedup key
    #[arg(long, value_name = "KEY")]
    dedup_key: Option<String>,
    /// Received since: 30m, 2h, 7d ago, or a date or time
    #[arg(long, value_name = "WHEN")]
    since: Option<When>,
    /// Received before: 30m, 2h, 7d ago, or a date or time
    #[arg(long, value_name = "WHEN")]
    until: Option<When>,
    /// Whose id, type, subject or dedup key begins so
    #[arg(long, value_name = "TEXT")]
    q: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let query = InboxQuery {
            source: self.source,
            provider: self.provider,
            event_type: self.event_type,
            status: self.status,
            thread: self.thread,
            subject: self.subject,
            dedup_key: self.dedup_key,
            since: self.since.map(|when| when.ago(session.now)),
            until: self.until.map(|when| when.ago(session.now)),
            q: self.q,
            limit: self.paging.limit,
            cursor: self.paging.cursor,
        };
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
