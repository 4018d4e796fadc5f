//! `webhookctl tenants`

mod create;
mod keeping;
mod list;
mod show;
mod update;

use clap::Subcommand;

use crate::commands::paging::Paging;
use crate::session::Session;

#[derive(Subcommand)]
pub enum Tenants {
    /// Make a tenant
    Create(create::Create),
    /// List tenants
    List(Paging),
    /// Show one tenant
    Show(show::Show),
    /// Change a tenant
    Update(update::Update),
}

impl Tenants {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Tenants::Create(command) => command.run(session).await,
            Tenants::Show(command) => command.run(session).await,
            Tenants::Update(command) => command.run(session).await,
            Tenants::List(page) => session.list(session.client.list_tenants(&page.into())).await,
        }
    }
}
