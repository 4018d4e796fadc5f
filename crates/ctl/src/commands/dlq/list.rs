//! `webhookctl dlq list`

use clap::Args;
use wakepost_client::{DeadLetter, DeadLetterQuery};

use super::filter::Filter;
use crate::commands::paging::Paging;
use crate::output::when::relative;
use crate::output::{Cell, Table};
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
        let call = session.client.list_dead_letters(&query);
        session.list(call, "dead letters", |letters| table(session, letters)).await
    }
}

fn table(session: &Session, letters: &[DeadLetter]) -> Table {
    let columns = ["ID", "KIND", "EVENT", "ATTEMPTS", "GIVEN UP", "LAST ERROR"];
    let mut table = Table::new(&columns);
    for letter in letters {
        let attempts = letter.attempts.map(|attempts| attempts.to_string());
        let at = letter.finished_at.as_deref();
        let at = at.map(|at| relative(session.now, at));
        table.row([
            Cell::new(&letter.id),
            Cell::maybe(Some(&letter.kind)),
            Cell::maybe(letter.event_id.as_deref()),
            Cell::maybe(attempts.as_deref()),
            Cell::maybe(at.as_deref()),
            Cell::clipped(letter.last_error.as_deref(), ERROR_CHARS_MAX),
        ]);
    }
    table
}
