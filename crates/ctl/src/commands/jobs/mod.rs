//! `webhookctl jobs`

mod cancel;
pub mod facts;
mod inspect;
mod list;

use clap::Subcommand;

use crate::session::Session;

#[derive(Subcommand)]
pub enum Jobs {
    /// List jobs, newest first
    List(list::List),
    /// Show one job: its runs, its effects, its outcome
    Inspect(inspect::Inspect),
    /// Stop a job; a running one learns of it on its next heartbeat
    Cancel(cancel::Cancel),
}

impl Jobs {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Jobs::List(command) => command.run(session).await,
            Jobs::Inspect(command) => command.run(session).await,
            Jobs::Cancel(command) => command.run(session).await,
        }
    }
}
