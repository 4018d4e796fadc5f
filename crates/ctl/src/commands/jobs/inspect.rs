//! `webhookctl jobs inspect`

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;
use wakepost_client::{Job, Work};

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
        let replies = replies(session, &job).await;
        let mut text = fields(session.now, &job, &replies).render(session.paint);
        for table in [runs(session.now, &job), effects(&job)].into_iter().flatten() {
            text.push('\n');
            text.push_str(&table.render(session.paint));
        }
        output::print(&text)?;
        Ok(())
    }
}

/// The replies of a job, where they can be read: they are work of their own, about its event.
async fn replies(session: &Session, job: &Job) -> Vec<String> {
    let Some(event) = &job.event_id else {
        return Vec::new();
    };
    let work = session.client.get_event(event).await.map(|event| event.work).unwrap_or_default();
    let of_job = |work: &Work| work.kind == "reply" && work.parent_id.as_ref() == Some(&job.id);
    work.into_iter().filter(of_job).map(|reply| reply.id).collect()
}

/// From the event to what was said, with ids whole, so that they can be copied.
fn trace(job: &Job, replies: &[String]) -> String {
    let last_run = job.runs.iter().max_by_key(|run| run.attempt);
    let effects = match job.effects.len() {
        0 => None,
        1 => Some("1 effect".to_owned()),
        count => Some(format!("{count} effects")),
    };
    let steps = job.event_id.iter().cloned().chain([job.id.clone()]);
    let steps = steps.chain(last_run.map(|run| run.id.clone())).chain(effects);
    steps.chain(replies.iter().cloned()).collect::<Vec<_>>().join(" → ")
}

/// `job_2 ← job_1`, the nearest first.
fn chain(job: &Job) -> Option<Cell> {
    let ids: Vec<&str> = job.chain.iter().map(|link| link.id.as_str()).collect();
    let hops = job.hops.unwrap_or_default();
    (!ids.is_empty()).then(|| Cell::new(&format!("{} (hop {hops})", ids.join(" ← "))))
}

pub fn fields(now: Timestamp, job: &Job, replies: &[String]) -> Fields {
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
        .line_if("cancel on", job.cancel_on.as_ref().map(|event| Cell::new(&event.event_type)))
        .line_if("schedule", text(&job.schedule_id))
        .line_if("scheduled for", time(&job.scheduled_for))
        .line_if("flags", flags)
        .line_if("created", time(&job.created_at))
        .line_if("run at", time(&job.run_at))
        .line_if("waits for", job.waiting_on.as_ref().and_then(Value::as_str).map(Cell::new))
        .line_if("cost", value(&job.cost))
        .line_if("finished", time(&job.finished_at))
        .line("lease", facts::lease(now, job))
        .line("last error", Cell::maybe(job.last_error.as_deref()))
        .line("effects", Cell::new(&facts::effects(job)))
        .line_if("input", value(&job.input))
        .line_if("checkpoint", value(&job.checkpoint))
        .line_if("result", value(&job.result))
        .line_if("reply", text(&job.reply))
        .line_if("replayed as", text(&job.replayed_as))
        .line_if("superseded by", text(&job.superseded_by))
        .line_if("led to by", chain(job))
        .line("trace", Cell::new(&trace(job, replies)))
        .line_if("trace id", text(&job.trace_id))
}

fn value(value: &Value) -> Option<Cell> {
    (!value.is_null()).then(|| Cell::new(&value.to_string()))
}

pub fn runs(now: Timestamp, job: &Job) -> Option<Table> {
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

pub fn effects(job: &Job) -> Option<Table> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trace_leads_from_the_event_to_the_reply() {
        let job = json!({"id": "job_1", "event_id": "evt_1", "hops": 2,
            "runs": [{"id": "run_1", "attempt": 1}, {"id": "run_2", "attempt": 2}],
            "effects": [{"key": "a", "state": "committed"}, {"key": "b", "state": "begun"}],
            "chain": [{"id": "job_0", "kind": "k", "status": "succeeded", "hops": 1}]});
        let job: Job = serde_json::from_value(job).expect("a job");
        let said = trace(&job, &["rpl_1".to_owned()]);
        assert_eq!(said, "evt_1 → job_1 → run_2 → 2 effects → rpl_1");
        let shown = chain(&job).expect("a chain").render(output::Paint(false));
        assert_eq!(shown, "job_0 (hop 2)");
        let plain: Job = serde_json::from_value(json!({"id": "job_1"})).expect("a job");
        assert_eq!((trace(&plain, &[]), chain(&plain)), ("job_1".to_owned(), None));
    }
}
