//! `webhookctl schedules delete`

use clap::Args;

use crate::output::{self, Cell, Fields};
use crate::session::Session;

#[derive(Args)]
pub struct Delete {
    /// The schedule's id
    schedule: String,
}

impl Delete {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.delete_schedule(&self.schedule);
        if session.answer(call).await?.is_some() {
            let fields = Fields::default().line("deleted", Cell::new(&self.schedule));
            output::print(&fields.render(session.paint))?;
        }
        Ok(())
    }
}
