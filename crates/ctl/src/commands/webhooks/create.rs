//! `webhookctl webhooks create`

use clap::Args;
use wakepost_client::Webhook;

use super::fields::FieldFlags;
use super::summary::summary;
use crate::exit::Usage;
use crate::output::{self, escape};
use crate::session::Session;

#[derive(Args)]
pub struct Create {
    /// Where deliveries go: an https URL
    // Not `url`: that is where the server is.
    #[arg(value_name = "URL", required_unless_present = "pull", conflicts_with = "pull")]
    to: Option<String>,
    /// Deliveries are fetched and not sent, for receivers that nobody can reach
    #[arg(long)]
    pull: bool,
    #[command(flatten)]
    fields: FieldFlags,
    /// Make it, but send nothing yet
    #[arg(long)]
    disabled: bool,
}

impl Create {
    pub async fn run(self: Box<Self>, session: &Session) -> anyhow::Result<()> {
        let mut fields = self.fields.into_fields()?;
        if fields.events.is_empty() {
            let which = "say which events: --event order.created, --event 'order.*' or --event '*'";
            return Err(Usage(which.to_owned()).into());
        }
        fields.url = self.to;
        fields.mode = self.pull.then(|| "pull".to_owned());
        fields.enabled = self.disabled.then_some(false);
        let Some(made) = session.answer(session.client.create_webhook(&fields)).await? else {
            return Ok(());
        };
        output::print(&summary(session.now, &made).render(session.paint))?;
        for line in next_steps(session, &made) {
            output::hint(&line);
        }
        Ok(())
    }
}

fn next_steps(session: &Session, made: &Webhook) -> Vec<String> {
    let id = escape(&made.id);
    let mut steps = Vec::new();
    if made.signature.as_deref() == Some("ed25519") {
        let keys = format!("{}/.well-known/wakepost-keys", session.client.url());
        steps.push(format!("its receiver checks signatures with its public key, in {keys}"));
    } else if made.secret.is_some() {
        steps.push("its receiver checks signatures with the secret above".to_owned());
    }
    if made.mode.as_deref() != Some("pull") {
        steps.push(format!("next: webhookctl webhooks test {id}"));
    }
    steps
}
