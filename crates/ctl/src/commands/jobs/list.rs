//! `webhookctl jobs list`

use clap::Args;
use jiff::Timestamp;
use wakepost_client::{Job, JobQuery};

use crate::commands::paging::Paging;
use crate::output::{Cell, Row};
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
        session.list(session.client.list_jobs(&query)).await
    }
}

impl Row for Job {
    const THINGS: &'static str = "jobs";
    const COLUMNS: &'static [&'static str] =
        &["JOB", "KIND", "STATUS", "ATTEMPTS", "CREATED", "LAST ERROR"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let attempts = match self.max_attempts {
            Some(max) => format!("{}/{max}", self.attempts),
            None => self.attempts.to_string(),
        };
        vec![
            Cell::new(&self.id),
            Cell::maybe(Some(&self.kind)),
            Cell::status(&self.status),
            Cell::new(&attempts),
            Cell::ago(now, self.created_at.as_deref()),
            Cell::clipped(self.last_error.as_deref(), ERROR_CHARS_MAX),
        ]
    }
}
