//! `webhookctl dlq`

mod export;
mod filter;
mod inspect;
mod list;
mod purge;
mod replay;

use clap::Subcommand;

use crate::session::Session;

#[derive(Subcommand)]
pub enum Dlq {
    /// List dead letters, newest first
    List(list::List),
    /// Show one whole: its error, runs, effects and what to do next
    Inspect(inspect::Inspect),
    /// Try one again, or all that fit
    Replay(replay::Replay),
    /// Write all that fit to standard output, one JSON object a line
    Export(export::Export),
    /// Delete all that fit, for good
    Purge(purge::Purge),
}

impl Dlq {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Dlq::List(command) => command.run(session).await,
            Dlq::Inspect(command) => command.run(session).await,
            Dlq::Replay(command) => command.run(session).await,
            Dlq::Export(command) => command.run(session).await,
            Dlq::Purge(command) => command.run(session).await,
        }
    }
}
