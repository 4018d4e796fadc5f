//! `webhookctl dlq list`

use clap::Args;
use wakepost_client::{DeadLetter, DeadLetterQuery};

use crate::commands::paging::Paging;
use crate::output::when::{When, relative};
use crate::output::{Cell, Table};
use crate::session::Session;

/// As much of an error as a table can show.
const ERROR_CHARS_MAX: usize = 80;

#[derive(Args)]
pub struct List {
    /// Of this kind of work
    #[arg(long, value_parser = ["job", "delivery", "reply", "callback"])]
    kind: Option<String>,
    /// Of this source
    #[arg(long, value_name = "SRC")]
    source: Option<String>,
    /// Given up since: 30m, 2h, 7d ago, or a date or time
    #[arg(long, value_name = "WHEN")]
    since: Option<When>,
    /// Whose id, type, subject or dedup key begins so
    #[arg(long, value_name = "TEXT")]
    q: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let query = DeadLetterQuery {
            kind: self.kind,
            source: self.source,
            since: self.since.map(|when| when.ago(session.now)),
            q: self.q,
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
