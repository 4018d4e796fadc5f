//! `webhookctl jobs list`

use clap::Args;
use wakepost_client::{Job, JobQuery};

use crate::commands::paging::Paging;
use crate::output::when::relative;
use crate::output::{Cell, Table};
use crate::session::Session;

/// As much of an error as a table can show.
const ERROR_CHARS_MAX: usize = 60;

#[derive(Args)]
pub struct List {
    /// In this status
    #[arg(long)]
    status: Option<String>,
    /// Of this source
    #[arg(long, value_name = "SRC")]
    source: Option<String>,
    /// Of this kind (a webhook's job has the event type)
    #[arg(long, visible_alias = "type")]
    kind: Option<String>,
    /// About this subject (provider:kind:id)
    #[arg(long)]
    subject: Option<String>,
    /// Of this conversation
    #[arg(long)]
    thread: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let query = JobQuery {
            status: self.status,
            source: self.source,
            kind: self.kind,
            subject: self.subject,
            thread: self.thread,
            limit: self.paging.limit,
            cursor: self.paging.cursor,
        };
        let call = session.client.list_jobs(&query);
        session.list(call, "jobs", |jobs| table(session, jobs)).await
    }
}

fn table(session: &Session, jobs: &[Job]) -> Table {
    let mut table = Table::new(&["JOB", "KIND", "STATUS", "ATTEMPTS", "CREATED", "LAST ERROR"]);
    for job in jobs {
        let created = job.created_at.as_deref();
        let created = created.map(|at| relative(session.now, at));
        let attempts = match job.max_attempts {
            Some(max) => format!("{}/{max}", job.attempts),
            None => job.attempts.to_string(),
        };
        table.row([
            Cell::new(&job.id),
            Cell::maybe(Some(&job.kind)),
            Cell::status(&job.status),
            Cell::new(&attempts),
            Cell::maybe(created.as_deref()),
            Cell::clipped(job.last_error.as_deref(), ERROR_CHARS_MAX),
        ]);
    }
    table
}
