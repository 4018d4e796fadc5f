//! `webhookctl schedules show`

use clap::Args;
use jiff::Timestamp;
use wakepost_client::Schedule;

use crate::output::when::absolute;
use crate::output::{self, Cell, Fields, Tone};
use crate::session::Session;

#[derive(Args)]
pub struct Show {
    /// The schedule's id
    schedule: String,
}

impl Show {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.get_schedule(&self.schedule);
        let Some(schedule) = session.answer(call).await? else {
            return Ok(());
        };
        output::print(&fields(session.now, &schedule).render(session.paint))?;
        Ok(())
    }
}

/// All about a schedule.
pub fn fields(now: Timestamp, schedule: &Schedule) -> Fields {
    let time = |at: &Option<String>| at.as_deref().map(|at| Cell::new(&absolute(now, at)));
    let text = |text: &Option<String>| text.as_deref().map(Cell::new);
    let secret = schedule.executor_secret.as_deref().map(|key| Cell::toned(Tone::Bold, key));
    let input = (!schedule.input.is_null()).then(|| Cell::new(&schedule.input.to_string()));
    Fields::default()
        .line("schedule", Cell::new(&schedule.id))
        .line("name", Cell::toned(Tone::Bold, &schedule.name))
        .line("status", Cell::status(status(schedule)))
        .line("cron", Cell::new(&schedule.cron))
        .line("time zone", Cell::new(&schedule.time_zone))
        .line("next", time(&schedule.next_at).unwrap_or_else(|| Cell::new("never")))
        .line_if("last", time(&schedule.last_at))
        .line_if("last job", text(&schedule.last_job_id))
        .line_if("kind", text(&schedule.kind))
        .line_if("input", input)
        .line_if("priority", text(&schedule.priority))
        .line_if("order key", text(&schedule.order_key))
        .line_if("subject", text(&schedule.subject))
        .line_if("owner", text(&schedule.owner))
        .line_if("created", time(&schedule.created_at))
        .line_if("executor secret", secret)
}

/// Whether it fires, in a word.
pub fn status(schedule: &Schedule) -> &'static str {
    if schedule.enabled { "enabled" } else { "disabled" }
}
