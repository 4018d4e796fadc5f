//! `webhookctl jobs cancel`

use clap::Args;

use crate::output::{self, Cell, Fields};
use crate::session::Session;

#[derive(Args)]
pub struct Cancel {
    /// The job's id
    #[arg(required_unless_present = "subject", conflicts_with = "subject")]
    job: Option<String>,
    /// Stop all jobs about this instead: provider:kind:id
    #[arg(long)]
    subject: Option<String>,
    /// Who wants it, and why: it stays in the audit trail
    #[arg(long)]
    note: Option<String>,
}

impl Cancel {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let note = self.note.as_deref();
        match (&self.job, &self.subject) {
            (Some(job), _) => one(session, job, note).await,
            (None, Some(subject)) => all(session, subject, note).await,
            (None, None) => Ok(()),
        }
    }
}

async fn one(session: &Session, job: &str, note: Option<&str>) -> anyhow::Result<()> {
    let Some(moved) = session.answer(session.client.cancel_job(job, note)).await? else {
        return Ok(());
    };
    let status = moved.status.as_deref().unwrap_or("cancelled");
    let fields = Fields::default().line("job", Cell::new(job)).line("status", Cell::status(status));
    output::print(&fields.render(session.paint))?;
    if status == "running" {
        output::hint("it was asked to stop, and learns of it on its next heartbeat");
    }
    Ok(())
}

async fn all(session: &Session, subject: &str, note: Option<&str>) -> anyhow::Result<()> {
    let Some(done) = session.answer(session.client.cancel_subject(subject, note)).await? else {
        return Ok(());
    };
    let fields = Fields::default()
        .line("subject", Cell::new(subject))
        .line("cancelled", Cell::new(&done.cancelled.to_string()))
        .line("asked to stop", Cell::new(&done.requested.to_string()));
    output::print(&fields.render(session.paint))?;
    Ok(())
}
