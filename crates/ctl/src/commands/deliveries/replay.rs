//! `webhookctl deliveries replay`

use clap::Args;

use crate::output::{self, Cell, Fields, escape};
use crate::session::Session;

#[derive(Args)]
pub struct Replay {
    /// The delivery's id
    delivery: String,
    /// Who wants it, and why: it stays in the audit trail
    #[arg(long)]
    note: Option<String>,
}

impl Replay {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.replay_delivery(&self.delivery, self.note.as_deref());
        let Some(replayed) = session.answer(call).await? else {
            return Ok(());
        };
        let made = replayed.id();
        let fields = Fields::default()
            .line("replayed", Cell::new(&self.delivery))
            .line_if("as", made.map(Cell::new));
        output::print(&fields.render(session.paint))?;
        let follow = escape(made.unwrap_or(&self.delivery)).into_owned();
        output::hint(&format!("next: webhookctl deliveries show {follow}"));
        Ok(())
    }
}
