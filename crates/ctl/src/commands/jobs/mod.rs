//! `webhookctl jobs`

mod cancel;
mod decide;
pub mod facts;
pub mod inspect;
mod list;
mod logs;
mod release;
mod replay;
mod resolve;

use clap::Subcommand;

use crate::session::Session;

#[derive(Subcommand)]
pub enum Jobs {
    /// List jobs, newest first
    List(list::List),
    /// Show one job: its runs, its effects, its outcome
    Inspect(inspect::Inspect),
    /// Show what happened to a job, line by line
    Logs(logs::Logs),
    /// Stop a job, or all jobs about a subject; a running one learns of it on its next heartbeat
    Cancel(cancel::Cancel),
    /// Agree to what a job would do; it shows that, and asks
    Approve(decide::Decide),
    /// Refuse what a job would do, and so cancel it
    Reject(decide::Decide),
    /// Run a job once more, as a new one
    Replay(replay::Replay),
    /// Let a held job go on
    Release(release::Release),
    /// Say whether an effect in doubt happened; a job held for it alone goes on
    Resolve(resolve::Resolve),
}

impl Jobs {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Jobs::List(command) => command.run(session).await,
            Jobs::Inspect(command) => command.run(session).await,
            Jobs::Logs(command) => command.run(session).await,
            Jobs::Cancel(command) => command.run(session).await,
            Jobs::Approve(command) => command.run(session, true).await,
            Jobs::Reject(command) => command.run(session, false).await,
            Jobs::Replay(command) => command.run(session).await,
            Jobs::Release(command) => command.run(session).await,
            Jobs::Resolve(command) => command.run(session).await,
        }
    }
}
