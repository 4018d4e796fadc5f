//! `webhookctl schedules`

mod create;
mod delete;
mod list;
mod show;
mod switch;

use clap::Subcommand;

use crate::commands::paging::Paging;
use crate::session::Session;

#[derive(Subcommand)]
pub enum Schedules {
    /// List them
    List(Paging),
    /// Make a job again and again, by the wall clock
    Create(Box<create::Create>),
    /// Show one
    Show(show::Show),
    /// Let one fire again, from its next tick on
    Enable(switch::Switch),
    /// Let one fire no more
    Disable(switch::Switch),
    /// Delete one; its jobs stay
    Delete(delete::Delete),
}

impl Schedules {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Schedules::List(page) => {
                session.list(session.client.list_schedules(&page.into())).await
            }
            Schedules::Create(command) => command.run(session).await,
            Schedules::Show(command) => command.run(session).await,
            Schedules::Enable(command) => command.run(session, true).await,
            Schedules::Disable(command) => command.run(session, false).await,
            Schedules::Delete(command) => command.run(session).await,
        }
    }
}
