//! `webhookctl sources delete`

use clap::Args;

use crate::output::{self, Cell, Fields};
use crate::session::Session;

#[derive(Args)]
pub struct Delete {
    /// The source's id
    source: String,
}

impl Delete {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.delete_source(&self.source);
        if session.answer(call).await?.is_some() {
            let fields = Fields::default().line("deleted", Cell::new(&self.source));
            output::print(&fields.render(session.paint))?;
            output::hint("its events and jobs stay; requests to its URL get 404");
        }
        Ok(())
    }
}
