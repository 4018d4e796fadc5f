//! `webhookctl tenants`

mod create;
mod list;

use clap::Subcommand;

use crate::session::Session;

#[derive(Subcommand)]
pub enum Tenants {
    /// Make a tenant
    Create(create::Create),
    /// List tenants
    List(list::List),
}

impl Tenants {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Tenants::Create(command) => command.run(session).await,
            Tenants::List(command) => command.run(session).await,
        }
    }
}
