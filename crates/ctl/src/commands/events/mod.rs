//! `webhookctl events`

mod deliveries;
mod list;
mod publish;
mod show;

use clap::Subcommand;

use crate::session::Session;

#[derive(Subcommand)]
pub enum Events {
    /// Publish an event to whoever subscribed
    Publish(Box<publish::Publish>),
    /// List what was published, newest first
    List(list::List),
    /// Show one event, as subscribers get it
    Show(show::Show),
    /// List where an event went, and how that went
    Deliveries(deliveries::Deliveries),
}

impl Events {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Events::Publish(command) => command.run(session).await,
            Events::List(command) => command.run(session).await,
            Events::Show(command) => command.run(session).await,
            Events::Deliveries(command) => command.run(session).await,
        }
    }
}
