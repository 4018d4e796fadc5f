//! `webhookctl event-types`

mod delete;
mod list;
mod put;
mod show;

use clap::Subcommand;

use crate::commands::paging::Paging;
use crate::session::Session;

#[derive(Subcommand)]
pub enum EventTypes {
    /// List the catalogue
    List(Paging),
    /// Show one type, with the schema and the example of its latest version
    Show(show::Show),
    /// Register a type, or change it: its description, or one version
    Put(Box<put::Put>),
    /// Take a type out of the catalogue; events of it stay
    Delete(delete::Delete),
}

impl EventTypes {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            EventTypes::List(page) => {
                session.list(session.client.list_event_types(&page.into())).await
            }
            EventTypes::Show(command) => command.run(session).await,
            EventTypes::Put(command) => command.run(session).await,
            EventTypes::Delete(command) => command.run(session).await,
        }
    }
}
