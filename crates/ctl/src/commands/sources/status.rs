//! `webhookctl sources status`

use clap::Args;
use wakepost_client::SourceStatus;

use super::next_step::still_missing;
use crate::output::{self, Cell, Fields, Tone};
use crate::session::Session;

#[derive(Args)]
pub struct Status {
    /// The source's id
    source: String,
}

impl Status {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.source_status(&self.source);
        let Some(status) = session.answer(call).await? else {
            return Ok(());
        };
        output::print(&fields(&status).render(session.paint))?;
        for line in still_missing(&status.id, &status.provider, &status.missing_settings) {
            output::hint(&line);
        }
        Ok(())
    }
}

fn fields(status: &SourceStatus) -> Fields {
    let warn = |text: &str| Cell::toned(Tone::Warn, text);
    let missing = status.missing_settings.join(", ");
    Fields::default()
        .line("source", Cell::new(&status.id))
        .line("provider", Cell::new(status.label.as_deref().unwrap_or(&status.provider)))
        .line("state", state(status))
        .line("ingest URL", Cell::maybe(status.webhook_url.as_deref()))
        .line_if("missing", (!missing.is_empty()).then(|| warn(&missing)))
        .line_if("registered until", status.expires_at.as_deref().map(Cell::new))
        .line_if("problem", status.error.as_deref().map(warn))
}

/// What a request meets.
fn state(status: &SourceStatus) -> Cell {
    match (status.enabled, status.configured) {
        (Some(false), _) => Cell::toned(Tone::Dim, "disabled: requests get 404"),
        (_, Some(false)) => Cell::toned(Tone::Bad, "cannot verify yet: requests get 503"),
        _ => Cell::toned(Tone::Good, "ready to receive"),
    }
}
