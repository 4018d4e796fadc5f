//! `webhookctl dlq`

mod list;
mod replay;

use clap::Subcommand;

use crate::session::Session;

#[derive(Subcommand)]
pub enum Dlq {
    /// List dead letters, newest first
    List(list::List),
    /// Try one again
    Replay(replay::Replay),
}

impl Dlq {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Dlq::List(command) => command.run(session).await,
            Dlq::Replay(command) => command.run(session).await,
        }
    }
}
