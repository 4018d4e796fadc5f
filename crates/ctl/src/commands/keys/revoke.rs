//! `webhookctl keys revoke`

use clap::Args;

use crate::output::{self, Cell, Fields};
use crate::session::Session;

#[derive(Args)]
pub struct Revoke {
    /// The key's id (not the key itself)
    key_id: String,
}

impl Revoke {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.delete_key(&self.key_id);
        if session.answer(call).await?.is_some() {
            let fields = Fields::default().line("revoked", Cell::new(&self.key_id));
            output::print(&fields.render(session.paint))?;
        }
        Ok(())
    }
}
