//! `webhookctl event-types delete`

use clap::Args;

use crate::output::{self, Cell, Fields};
use crate::session::Session;

#[derive(Args)]
pub struct Delete {
    /// The type's name
    name: String,
}

impl Delete {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.delete_event_type(&self.name);
        if session.answer(call).await?.is_some() {
            let fields = Fields::default().line("deleted", Cell::new(&self.name));
            output::print(&fields.render(session.paint))?;
            output::hint("events of this type are no longer checked against a schema");
        }
        Ok(())
    }
}
