//! `webhookctl keys`

mod create;
mod list;
mod revoke;

use clap::Subcommand;

use crate::commands::paging::Paging;
use crate::session::Session;

#[derive(Subcommand)]
pub enum Keys {
    /// Make a key; it is shown once
    Create(create::Create),
    /// List keys
    List(Paging),
    /// End a key at once
    Revoke(revoke::Revoke),
}

impl Keys {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Keys::Create(command) => command.run(session).await,
            Keys::List(page) => session.list(session.client.list_keys(&page.into())).await,
            Keys::Revoke(command) => command.run(session).await,
        }
    }
}

/// Whose data a key reaches, in words.
fn reach(tenant: Option<&str>) -> &str {
    match tenant {
        Some("*") => "all tenants",
        Some(tenant) => tenant,
        None => "-",
    }
}
