//! `webhookctl webhooks test`

use clap::Args;
use wakepost_client::WebhookTried;

use crate::commands::deliveries::timings;
use crate::output::{self, Cell, Fields, Tone};
use crate::session::Session;

#[derive(Args)]
pub struct Test {
    /// The webhook's id
    webhook: String,
    /// A sample of this event type; a ping unless told otherwise
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
}

impl Test {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.test_webhook(&self.webhook, self.event_type.as_deref());
        let Some(tried) = session.answer(call).await? else {
            return Ok(());
        };
        output::print(&fields(&tried).render(session.paint))?;
        match tried.status_code {
            Some(200..300) => Ok(()),
            Some(_) => anyhow::bail!("the receiver did not take it"),
            None => anyhow::bail!("the receiver did not answer"),
        }
    }
}

fn fields(tried: &WebhookTried) -> Fields {
    let answer = tried.status_code.map(|code| {
        let tone = if (200..300).contains(&code) { Tone::Good } else { Tone::Bad };
        Cell::toned(tone, &code.to_string())
    });
    let took = timings(&tried.timings);
    Fields::default()
        .line("answer", answer.unwrap_or_else(|| Cell::toned(Tone::Bad, "none")))
        .line_if("body", (!tried.body.is_empty()).then(|| Cell::new(&tried.body)))
        .line_if("took", took.as_deref().map(Cell::new))
        .line_if("error", tried.error.as_deref().map(|text| Cell::toned(Tone::Bad, text)))
}
