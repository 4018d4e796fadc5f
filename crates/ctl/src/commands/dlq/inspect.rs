//! `webhookctl dlq inspect`

use clap::Args;

use crate::commands::jobs::inspect::{effects, fields, runs};
use crate::output::{self, Cell, Fields};
use crate::session::Session;

#[derive(Args)]
pub struct Inspect {
    /// The dead letter's id
    id: String,
}

impl Inspect {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.get_dead_letter(&self.id);
        let Some(letter) = session.answer(call).await? else {
            return Ok(());
        };
        let mut text = fields(session.now, &letter.job, &[]).render(session.paint);
        for table in [runs(session.now, &letter.job), effects(&letter.job)].into_iter().flatten() {
            text.push('\n');
            text.push_str(&table.render(session.paint));
        }
        let payload = letter.envelope.map(|event| event.data).filter(|data| !data.is_null());
        let more = Fields::default()
            .line_if("payload", payload.map(|data| Cell::new(&data.to_string())))
            .line_if("next action", letter.next_action.as_deref().map(Cell::new));
        text.push('\n');
        text.push_str(&more.render(session.paint));
        output::print(&text)?;
        Ok(())
    }
}
