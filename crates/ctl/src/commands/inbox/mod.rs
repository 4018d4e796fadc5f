//! `webhookctl inbox`

mod export;
pub mod filter;
mod inspect;
mod list;
mod replay;
mod story;
mod tail;

use clap::Subcommand;

use crate::session::Session;

#[derive(Subcommand)]
pub enum Inbox {
    /// List events, newest first
    List(Box<list::List>),
    /// Show what became of an event, and what to do about it
    Inspect(inspect::Inspect),
    /// Do an event's work again, or that of all that fit
    Replay(Box<replay::Replay>),
    /// Show the latest events, and further ones as they arrive
    Tail(Box<tail::Tail>),
    /// Write all that fit to standard output, one JSON object a line, newest first
    Export(Box<export::Export>),
}

impl Inbox {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Inbox::List(command) => command.run(session).await,
            Inbox::Inspect(command) => command.run(session).await,
            Inbox::Replay(command) => command.run(session).await,
            Inbox::Tail(command) => command.run(session).await,
            Inbox::Export(command) => command.run(session).await,
        }
    }
}
