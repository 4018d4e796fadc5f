//! `webhookctl portal-link`

use clap::Args;
use wakepost_client::NewPortalLink;

use crate::output::when::absolute;
use crate::output::{self, escape};
use crate::session::Session;

#[derive(Args)]
pub struct PortalLink {
    /// For how long it opens the portal
    #[arg(long, value_name = "SECONDS")]
    expires_s: Option<u64>,
}

impl PortalLink {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let new = NewPortalLink { tenant: session.tenant.clone(), expires_s: self.expires_s };
        let Some(link) = session.answer(session.client.create_portal_link(&new)).await? else {
            return Ok(());
        };
        // Alone, so that it can be piped to wherever it is sent from.
        output::print(&escape(&link.url))?;
        let until = link.expires_at.as_deref().map(|at| absolute(session.now, at));
        let until = until.map(|at| format!(" until {}", escape(&at))).unwrap_or_default();
        output::hint(&format!(
            "whoever has this link may use the portal{until}: send it to its owner"
        ));
        Ok(())
    }
}
