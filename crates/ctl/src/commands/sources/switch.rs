//! `webhookctl sources enable` and `webhookctl sources disable`

use clap::Args;

use crate::output::{self, Cell, Fields};
use crate::session::Session;

#[derive(Args)]
pub struct Switch {
    /// The source's id
    source: String,
}

impl Switch {
    pub async fn run(self, session: &Session, on: bool) -> anyhow::Result<()> {
        let (call, usual) = match on {
            true => (session.client.enable_source(&self.source), "enabled"),
            false => (session.client.disable_source(&self.source), "disabled"),
        };
        let Some(moved) = session.answer(call).await? else {
            return Ok(());
        };
        let fields = Fields::default()
            .line("source", Cell::new(&self.source))
            .line("status", Cell::status(moved.status.as_deref().unwrap_or(usual)));
        output::print(&fields.render(session.paint))?;
        if !on {
            output::hint(
                "requests to it get 404 and are not stored; jobs that were made already go on",
            );
        }
        Ok(())
    }
}
