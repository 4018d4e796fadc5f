//! `webhookctl events`

mod deliveries;
mod list;
mod publish;
mod show;

use clap::Subcommand;

use crate::commands::paging::Paging;
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
    /// List the catalogue of what is published; `event-types` changes it
    Types(Paging),
}

impl Events {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Events::Publish(command) => command.run(session).await,
            Events::List(command) => command.run(session).await,
            Events::Show(command) => command.run(session).await,
            Events::Deliveries(command) => command.run(session).await,
            Events::Types(page) => {
                session.list(session.client.list_event_types(&page.into())).await
            }
        }
    }
}
