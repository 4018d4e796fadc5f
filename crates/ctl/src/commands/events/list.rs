//! `webhookctl events list`

use clap::Args;
use jiff::Timestamp;
use wakepost_client::{PublishedEvent, PublishedQuery};

use crate::commands::paging::Paging;
use crate::output::when::When;
use crate::output::{Cell, Row};
use crate::session::Session;

#[derive(Args)]
pub struct List {
    /// Of this type, or with this beginning (order.*)
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// With this dedup key
    #[arg(long, value_name = "KEY")]
    dedup_key: Option<String>,
    /// That this job's agent published
    #[arg(long, value_name = "JOB")]
    parent: Option<String>,
    /// Published since: 30m, 2h, 7d ago, or a date or time
    #[arg(long, value_name = "WHEN")]
    since: Option<When>,
    /// Published before: 30m, 2h, 7d ago, or a date or time
    #[arg(long, value_name = "WHEN")]
    until: Option<When>,
    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let query = PublishedQuery {
            event_type: self.event_type,
            dedup_key: self.dedup_key,
            parent: self.parent,
            since: self.since.map(|when| when.ago(session.now)),
            until: self.until.map(|when| when.ago(session.now)),
            limit: self.paging.limit,
            cursor: self.paging.cursor,
        };
        session.list(session.client.list_published(&query)).await
    }
}

impl Row for PublishedEvent {
    const THINGS: &'static str = "published events";
    const COLUMNS: &'static [&'static str] = &["EVENT", "TYPE", "STATUS", "PUBLISHED", "DEDUP KEY"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(&self.event_type),
            Cell::status(&self.status),
            Cell::ago(now, self.created_at.as_deref()),
            Cell::maybe(self.dedup_key.as_deref()),
        ]
    }
}
