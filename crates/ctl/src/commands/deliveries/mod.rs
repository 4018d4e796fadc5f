//! `webhookctl deliveries`

mod replay;
pub mod rows;
mod show;
mod timings;

use clap::Subcommand;

pub use timings::timings;

use crate::session::Session;

#[derive(Subcommand)]
pub enum Deliveries {
    /// Show one, with every try
    Show(show::Show),
    /// Deliver one again, under the same id
    Replay(replay::Replay),
}

impl Deliveries {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Deliveries::Show(command) => command.run(session).await,
            Deliveries::Replay(command) => command.run(session).await,
        }
    }
}
