//! `webhookctl webhooks update`

use clap::Args;
use wakepost_client::WebhookFields;

use super::fields::FieldFlags;
use super::summary::summary;
use crate::commands::resetting::resets;
use crate::exit::Usage;
use crate::output;
use crate::session::Session;

/// What has a default to go back to, by the name of its flag.
const RESETTABLE: [&str; 9] = [
    "description",
    "header",
    "auth",
    "rate-per-s",
    "order",
    "timeout-s",
    "retry-s",
    "circuit",
    "metadata",
];

const NOTES: &str = "What is not named stays as it is. --event, --header and --metadata are given whole: those that \
                     are not named again are gone.";

#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Update {
    /// The webhook's id
    webhook: String,
    /// Where deliveries go from now on
    // Not `--url`: that is where the server is.
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    #[command(flatten)]
    fields: FieldFlags,
    /// Set this back to its default; may be repeated
    #[arg(long, value_name = "FLAG", value_parser = RESETTABLE)]
    reset: Vec<String>,
}

impl Update {
    pub async fn run(self: Box<Self>, session: &Session) -> anyhow::Result<()> {
        let mut change = self.fields.into_fields()?;
        change.url = self.to;
        let back = resets(&change, &self.reset, field_of)?;
        change.other.extend(back);
        if change == WebhookFields::default() {
            let nothing =
                "nothing to change: say what, as in --description TEXT; --help shows all flags";
            return Err(Usage(nothing.to_owned()).into());
        }
        let call = session.client.update_webhook(&self.webhook, &change);
        if let Some(webhook) = session.answer(call).await? {
            output::print(&summary(session.now, &webhook).render(session.paint))?;
        }
        Ok(())
    }
}

fn field_of(flag: &str) -> String {
    match flag {
        "header" => "headers".to_owned(),
        "circuit" => "circuit_settings".to_owned(),
        other => other.replace('-', "_"),
    }
}
