//! `webhookctl dlq list`

use clap::Args;
use jiff::Timestamp;
use wakepost_client::{DeadLetter, DeadLetterQuery};

use super::filter::Filter;
use crate::commands::paging::Paging;
use crate::output::{Cell, Row};
use crate::session::Session;

/// As much of an error as a table can show.
const ERROR_CHARS_MAX: usize = 80;

#[derive(Args)]
pub struct List {
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let query = DeadLetterQuery {
            filter: self.filter.resolve(session),
            limit: self.paging.limit,
            cursor: self.paging.cursor,
        };
        session.list(session.client.list_dead_letters(&query)).await
    }
}

impl Row for DeadLetter {
    const THINGS: &'static str = "dead letters";
    const COLUMNS: &'static [&'static str] =
        &["ID", "KIND", "EVENT", "ATTEMPTS", "GIVEN UP", "LAST ERROR"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::maybe(Some(&self.kind)),
            Cell::maybe(self.event_id.as_deref()),
            Cell::number(self.attempts),
            Cell::ago(now, self.finished_at.as_deref()),
            Cell::clipped(self.last_error.as_deref(), ERROR_CHARS_MAX),
        ]
    }
}
