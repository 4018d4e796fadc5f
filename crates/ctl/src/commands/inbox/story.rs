//! An event's story, as `inbox inspect` tells it.

use jiff::Timestamp;
use wakepost_client::{Event, Job, Receipt};

use crate::commands::jobs::facts;
use crate::output::when::absolute;
use crate::output::{Cell, Fields, Tone};

/// What became of an event, and what to do about it.
pub fn story(now: Timestamp, event: &Event, job: Option<&Job>) -> Fields {
    let envelope = &event.envelope;
    let received = envelope.received_at.as_deref().map(|at| absolute(now, at));
    let mut fields = Fields::default()
        .pair(
            "provider",
            Cell::new(&envelope.provider),
            "tenant",
            Cell::maybe(envelope.tenant_id.as_deref()),
        )
        .pair(
            "event",
            Cell::toned(Tone::Bold, &envelope.event_type),
            "received",
            Cell::maybe(received.as_deref()),
        )
        .line_if("subject", event.subject.as_deref().map(Cell::new))
        .line("status", status(now, event, job))
        .pair(
            "dedup key",
            Cell::maybe(envelope.dedup_key.as_deref()),
            "receipts",
            Cell::new(&receipts(&event.receipts)),
        );
    if let Some(job) = job {
        fields = fields.line("lease", facts::lease(now, job));
    }
    let last_error = job.and_then(|job| job.last_error.as_deref()).or_else(|| {
        let mut errors = event.work.iter().filter_map(|w| w.last_error.as_deref());
        errors.next_back()
    });
    fields = fields.line("last error", Cell::maybe(last_error));
    if let Some(job) = job {
        fields = fields.line("effects", Cell::new(&facts::effects(job)));
    }
    for work in event.work.iter().filter(|work| work.kind != "job") {
        let line =
            Cell::status(&work.status).then(Tone::Plain, &format!(" {}: {}", work.kind, work.id));
        fields = fields.line("also", line);
    }
    fields
        .line("next action", Cell::maybe(event.next_action.as_deref()))
        .line("trace", Cell::new(&trace(event, job)))
}

fn status(now: Timestamp, event: &Event, job: Option<&Job>) -> Cell {
    let cell = Cell::status(&event.status);
    match job.and_then(|job| facts::progress(now, job)) {
        Some(more) => cell.then(Tone::Plain, &format!(" ({more})")),
        None => cell,
    }
}

/// `3: accepted, duplicate ×2 (provider_retry)`
fn receipts(receipts: &[Receipt]) -> String {
    let mut groups: Vec<(String, usize)> = Vec::new();
    for receipt in receipts {
        let verdict = match &receipt.class {
            Some(class) => format!("{} ({class})", receipt.verdict),
            None => receipt.verdict.clone(),
        };
        match groups.iter_mut().find(|(known, _)| *known == verdict) {
            Some((_, count)) => *count += 1,
            None => groups.push((verdict, 1)),
        }
    }
    // Lists are newest first, but a story begins with what was accepted.
    groups.sort_by_key(|(verdict, _)| verdict.starts_with("duplicate"));
    let said: Vec<String> = groups.into_iter().map(|(v, n)| times(&v, n)).collect();
    match receipts.len() {
        0 => "none".to_owned(),
        count => format!("{count}: {}", said.join(", ")),
    }
}

fn times(verdict: &str, count: usize) -> String {
    match (count, verdict.split_once(' ')) {
        (1, _) => verdict.to_owned(),
        (_, Some((verdict, class))) => format!("{verdict} ×{count} {class}"),
        (_, None) => format!("{verdict} ×{count}"),
    }
}

/// The ids from the event to its last run, whole, so that they can be copied.
fn trace(event: &Event, job: Option<&Job>) -> String {
    let mut ids = vec![event.envelope.event_id.as_str()];
    if let Some(job) = job {
        ids.push(&job.id);
        ids.extend(job.runs.iter().max_by_key(|run| run.attempt).map(|run| run.id.as_str()));
    }
    ids.join(" → ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::Paint;

    #[test]
    fn the_specs_sample_reads_as_in_the_spec() {
        let now = "2026-11-15T09:17:22Z".parse().expect("a time");
        let event = json!({"envelope": {"event_id": "evt_1", "provider": "github", "tenant_id": "acme",
                "event_type": "issues.opened", "received_at": "2026-11-15T09:14:22.000Z",
                "dedup_key": "72d3162e-cc78-11e3-81ab-4c9367dc0958"},
            "status": "retrying",
            "work": [{"kind": "job", "id": "job_1", "status": "retrying", "attempts": 2}],
            "receipts": [{"verdict": "duplicate", "class": "provider_retry"},
                {"verdict": "duplicate", "class": "provider_retry"}, {"verdict": "accepted"}],
            "next_action": "retry-safe: no side effect committed"});
        let job = json!({"id": "job_1", "status": "retrying", "attempts": 2, "max_attempts": 3,
            "run_at": "2026-11-15T09:18:00.000Z", "lease": null,
            "last_error": "GitHub API 502 during issue creation", "effects": [],
            "runs": [{"id": "run_1", "attempt": 1, "worker": "worker-3", "ended_at": "2026-11-15T09:15:00Z"},
                {"id": "run_2", "attempt": 2, "worker": "worker-7", "ended_at": "2026-11-15T09:17:00Z"}]});
        let event = serde_json::from_value(event).expect("an event");
        let job = serde_json::from_value(job).expect("a job");
        assert_eq!(
            story(now, &event, Some(&job)).render(Paint(false)),
            "\
provider        github                       tenant   acme
event           issues.opened                received 2026-11-15 09:14:22Z (3 min ago)
status          retrying (attempt 2 of 3, next in 38 s)
dedup key       72d3162e-cc78-11e3-81ab-4c9367dc0958      receipts 3: accepted, duplicate ×2 (provider_retry)
lease           none (last worker-7, 22 s ago)
last error      GitHub API 502 during issue creation
effects         none committed
next action     retry-safe: no side effect committed
trace           evt_1 → job_1 → run_2
"
        );
    }
}
