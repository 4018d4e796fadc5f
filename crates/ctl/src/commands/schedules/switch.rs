//! `webhookctl schedules enable` and `webhookctl schedules disable`

use clap::Args;
use wakepost_client::ScheduleFields;

use super::show::fields;
use crate::output;
use crate::session::Session;

#[derive(Args)]
pub struct Switch {
    /// The schedule's id
    schedule: String,
}

impl Switch {
    pub async fn run(self, session: &Session, on: bool) -> anyhow::Result<()> {
        let change = ScheduleFields { enabled: Some(on), ..ScheduleFields::default() };
        let call = session.client.update_schedule(&self.schedule, &change);
        let Some(schedule) = session.answer(call).await? else {
            return Ok(());
        };
        output::print(&fields(session.now, &schedule).render(session.paint))?;
        Ok(())
    }
}
