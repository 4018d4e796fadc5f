//! `webhookctl jobs cancel`

use clap::Args;

use crate::output::{self, Cell, Fields};
use crate::session::Session;

#[derive(Args)]
pub struct Cancel {
    /// The job's id
    job: String,
    /// Who wants it, and why: it stays in the audit trail
    #[arg(long)]
    note: Option<String>,
}

impl Cancel {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.cancel_job(&self.job, self.note.as_deref());
        let Some(moved) = session.answer(call).await? else {
            return Ok(());
        };
        let status = moved.status.as_deref().unwrap_or("cancelled");
        let fields = Fields::default()
            .line("job", Cell::new(&self.job))
            .line("status", Cell::status(status));
        output::print(&fields.render(session.paint))?;
        if status == "running" {
            output::hint("it was asked to stop, and learns of it on its next heartbeat");
        }
        Ok(())
    }
}
