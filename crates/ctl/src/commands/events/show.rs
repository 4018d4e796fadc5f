//! `webhookctl events show`

use clap::Args;
use jiff::Timestamp;
use wakepost_client::PublishedEvent;

use crate::output::when::absolute;
use crate::output::{self, Cell, Fields, Tone};
use crate::session::Session;

#[derive(Args)]
pub struct Show {
    /// The event's id
    event: String,
}

impl Show {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let Some(event) = session.answer(session.client.get_published(&self.event)).await? else {
            return Ok(());
        };
        let mut text = fields(session.now, &event).render(session.paint);
        if !event.data.is_null() {
            text.push('\n');
            text.push_str(&output::json::pretty(&event.data.to_string())?);
        }
        output::print(&text)?;
        Ok(())
    }
}

/// All about an event but its data.
pub fn fields(now: Timestamp, event: &PublishedEvent) -> Fields {
    let time = |at: &Option<String>| at.as_deref().map(|at| Cell::new(&absolute(now, at)));
    let repeats = (event.duplicates > 0).then(|| format!("{} times", event.duplicates));
    Fields::default()
        .line("event", Cell::new(&event.id))
        .line("type", Cell::toned(Tone::Bold, &event.event_type))
        .line_if(
            "status",
            Some(&event.status).filter(|text| !text.is_empty()).map(|text| Cell::status(text)),
        )
        .line_if("version", event.api_version.as_deref().map(Cell::new))
        .line_if("mode", event.livemode.map(mode))
        .line_if("published", time(&event.created_at))
        .line_if("delivered from", time(&event.deliver_at))
        .line_if("dedup key", event.dedup_key.as_deref().map(Cell::new))
        .line_if("repeated", repeats.map(|text| Cell::new(&text)))
        .line_if("job", event.parent_id.as_deref().map(Cell::new))
}

/// Whether it is meant.
fn mode(livemode: bool) -> Cell {
    match livemode {
        true => Cell::new("live"),
        false => Cell::toned(Tone::Dim, "test"),
    }
}
