//! `webhookctl schedules create`

use clap::Args;
use serde_json::Value;
use wakepost_client::{Executor, ScheduleFields};

use super::show::fields;
use crate::commands::sources::flags::executor;
use crate::output;
use crate::session::Session;

#[derive(Args)]
pub struct Create {
    /// A name for people
    name: String,
    /// Minute, hour, day of the month, month, day of the week ("30 9 * * MON-FRI"), or a word such as @daily
    cron: String,
    /// Where these are the wall times: Europe/Berlin (UTC unless told otherwise)
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// What its jobs get, as JSON
    #[arg(long, value_parser = json, default_value = "{}", value_name = "JSON")]
    input: Value,
    /// The kind of its jobs
    #[arg(long)]
    kind: Option<String>,
    /// Which queue they wait in
    #[arg(long, value_parser = ["interactive", "webhook", "batch"])]
    priority: Option<String>,
    /// How they run: pull, exec:NAME, http:URL, or one of the last two behind self:
    #[arg(long, value_parser = executor)]
    executor: Option<Executor>,
    /// What they run in order with: one that has not ended keeps the next waiting
    #[arg(long, value_name = "KEY")]
    order_key: Option<String>,
    /// What they are about: provider:kind:id
    #[arg(long)]
    subject: Option<String>,
    /// Who asks for them
    #[arg(long)]
    owner: Option<String>,
    /// How often each may be tried
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Do not let it fire yet
    #[arg(long)]
    disabled: bool,
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}

impl Create {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let new = ScheduleFields {
            name: Some(self.name),
            cron: Some(self.cron),
            time_zone: self.time_zone,
            kind: self.kind,
            input: Some(self.input),
            priority: self.priority,
            executor: self.executor,
            order_key: self.order_key,
            subject: self.subject,
            owner: self.owner,
            max_attempts: self.max_attempts,
            enabled: self.disabled.then_some(false),
        };
        let call = session.client.create_schedule(&new);
        let Some(schedule) = session.answer(call).await? else {
            return Ok(());
        };
        output::print(&fields(session.now, &schedule).render(session.paint))?;
        if schedule.executor_secret.is_some() {
            output::hint("the executor secret is shown once: keep it now");
        }
        Ok(())
    }
}
