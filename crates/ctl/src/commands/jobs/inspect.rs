//! `webhookctl jobs inspect`

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;
use wakepost_client::Job;

use super::facts;
use crate::output::when::absolute;
use crate::output::{self, Cell, Fields, Table, Tone};
use crate::session::Session;

#[derive(Args)]
pub struct Inspect {
    /// The job's id
    job: String,
}

impl Inspect {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.get_job(&self.job);
        let Some(job) = session.answer(call).await? else {
            return Ok(());
        };
        let mut text = fields(session.now, &job).render(session.paint);
        for table in [runs(session.now, &job), effects(&job)].into_iter().flatten() {
            text.push('\n');
            text.push_str(&table.render(session.paint));
        }
        output::print(&text)?;
        Ok(())
    }
}

fn fields(now: Timestamp, job: &Job) -> Fields {
    let time = |at: &Option<String>| at.as_deref().map(|at| Cell::new(&absolute(now, at)));
    let text = |text: &Option<String>| text.as_deref().map(Cell::new);
    let mut status = Cell::status(&job.status);
    if let Some(more) = facts::progress(now, job) {
        status = status.then(Tone::Plain, &format!(" ({more})"));
    }
    let flags = (!job.flags.is_empty()).then(|| Cell::new(&job.flags.join(", ")));
    Fields::default()
        .pair(
            "kind",
            Cell::toned(Tone::Bold, &job.kind),
            "tenant",
            Cell::maybe(job.tenant.as_deref()),
        )
        .line("status", status)
        .line_if("event", text(&job.event_id))
        .line_if("source", text(&job.source))
        .line_if("subject", text(&job.subject))
        .line_if("priority", text(&job.priority))
        .line_if("order key", text(&job.order_key))
        .line_if("flags", flags)
        .line_if("created", time(&job.created_at))
        .line_if("run at", time(&job.run_at))
        .line_if("finished", time(&job.finished_at))
        .line("lease", facts::lease(now, job))
        .line("last error", Cell::maybe(job.last_error.as_deref()))
        .line("effects", Cell::new(&facts::effects(job)))
        .line_if("checkpoint", value(&job.checkpoint))
        .line_if("result", value(&job.result))
        .line_if("reply", text(&job.reply))
        .line_if("replayed as", text(&job.replayed_as))
        .line_if("superseded by", text(&job.superseded_by))
        .line_if("trace", text(&job.trace_id))
}

fn value(value: &Value) -> Option<Cell> {
    (!value.is_null()).then(|| Cell::new(&value.to_string()))
}

fn runs(now: Timestamp, job: &Job) -> Option<Table> {
    let mut table = Table::new(&["RUN", "ATTEMPT", "WORKER", "OUTCOME", "STARTED", "ERROR"]);
    for run in &job.runs {
        let attempt = run.attempt.map(|attempt| attempt.to_string());
        let started = run.started_at.as_deref().map(|at| absolute(now, at));
        table.row([
            Cell::new(&run.id),
            Cell::maybe(attempt.as_deref()),
            Cell::maybe(run.worker.as_deref()),
            Cell::maybe(run.outcome.as_deref()),
            Cell::maybe(started.as_deref()),
            Cell::maybe(run.error.as_deref()),
        ]);
    }
    (!job.runs.is_empty()).then_some(table)
}

fn effects(job: &Job) -> Option<Table> {
    let mut table = Table::new(&["EFFECT", "STATE", "DESCRIPTION"]);
    for effect in &job.effects {
        table.row([
            Cell::new(&effect.key),
            Cell::new(&effect.state),
            Cell::maybe(effect.description.as_deref()),
        ]);
    }
    (!job.effects.is_empty()).then_some(table)
}
