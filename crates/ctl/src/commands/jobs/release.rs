//! `webhookctl jobs release`

use clap::Args;

use super::decide::print_moved;
use crate::session::Session;

#[derive(Args)]
pub struct Release {
    /// The job's id
    job: String,
    /// Who wants it, and why: it stays in the audit trail
    #[arg(long)]
    note: String,
}

impl Release {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.release_job(&self.job, &self.note);
        print_moved(session, &self.job, session.answer(call).await?)
    }
}
