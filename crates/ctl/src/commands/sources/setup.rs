//! `webhookctl sources setup`

use clap::Args;
use wakepost_client::SourceSetup;

use crate::output::{self, Cell, Fields, Tone, escape};
use crate::session::Session;

#[derive(Args)]
pub struct Setup {
    /// The source's id
    source: String,
}

impl Setup {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.set_up_source(&self.source);
        let Some(setup) = session.answer(call).await? else {
            return Ok(());
        };
        output::print(&fields(&self.source, &setup).render(session.paint))?;
        let steps = numbered(setup.steps.iter().map(String::as_str));
        Ok(output::print(&steps.join("\n"))?)
    }
}

fn fields(source: &str, setup: &SourceSetup) -> Fields {
    let status = match setup.status.as_str() {
        "registered" => Cell::toned(Tone::Good, "registered at the provider"),
        "manual" => Cell::toned(Tone::Warn, "to be done by hand"),
        other => Cell::new(other),
    };
    Fields::default()
        .line("source", Cell::new(source))
        .line("set-up", status)
        .line_if("token", setup.verification_token.as_deref().map(Cell::shown_once))
}

/// Steps as people follow them.
pub fn numbered<'s>(steps: impl Iterator<Item = &'s str>) -> Vec<String> {
    steps.enumerate().map(|(at, step)| format!("  {}. {}", at + 1, escape(step))).collect()
}
