//! `webhookctl inbox`

mod inspect;
mod list;
mod replay;
mod story;

use clap::Subcommand;

use crate::session::Session;

#[derive(Subcommand)]
pub enum Inbox {
    /// List events, newest first
    List(Box<list::List>),
    /// Show what became of an event, and what to do about it
    Inspect(inspect::Inspect),
    /// Do an event's work again
    Replay(replay::Replay),
}

impl Inbox {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Inbox::List(command) => command.run(session).await,
            Inbox::Inspect(command) => command.run(session).await,
            Inbox::Replay(command) => command.run(session).await,
        }
    }
}
