//! `webhookctl webhooks delete`

use clap::Args;

use crate::output::{self, Cell, Fields};
use crate::session::Session;

#[derive(Args)]
pub struct Delete {
    /// The webhook's id
    webhook: String,
}

impl Delete {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.delete_webhook(&self.webhook);
        if session.answer(call).await?.is_some() {
            let fields = Fields::default().line("deleted", Cell::new(&self.webhook));
            output::print(&fields.render(session.paint))?;
        }
        Ok(())
    }
}
