//! `webhookctl sources create`

use clap::Args;
use wakepost_client::NewSource;

use super::fields::FieldFlags;
use super::next_step::next_step;
use super::summary::summary;
use crate::output;
use crate::session::Session;

#[derive(Args)]
pub struct Create {
    /// Who sends: github, stripe, slack, generic, …
    provider: String,
    #[command(flatten)]
    fields: FieldFlags,
    /// Make it, but do not accept requests yet
    #[arg(long)]
    disabled: bool,
}

impl Create {
    pub async fn run(self: Box<Self>, session: &Session) -> anyhow::Result<()> {
        let mut fields = self.fields.into_fields()?;
        fields.enabled = self.disabled.then_some(false);
        let new = NewSource { provider: self.provider, fields };
        let call = session.client.create_source(&new);
        let Some(source) = session.answer(call).await? else {
            return Ok(());
        };
        output::print(&summary(session.now, &source).render(session.paint))?;
        for line in next_step(&source) {
            output::hint(&line);
        }
        Ok(())
    }
}
