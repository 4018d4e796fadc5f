//! What a job's fields say, in a few words.

use jiff::Timestamp;
use wakepost_client::Job;

use crate::output::when::{absolute, relative};
use crate::output::{Cell, Tone};

/// `attempt 2 of 3, next in 38 s`; `None` if there is nothing to add to the status.
pub fn progress(now: Timestamp, job: &Job) -> Option<String> {
    let mut parts = Vec::new();
    if job.attempts > 0 {
        parts.push(match job.max_attempts {
            Some(max) => format!("attempt {} of {max}", job.attempts),
            None => format!("attempt {}", job.attempts),
        });
    }
    if let (true, Some(at)) = (is_waiting(&job.status), &job.run_at) {
        let due = at.parse::<Timestamp>().is_ok_and(|at| at <= now);
        parts.push(match due {
            true => "due now".to_owned(),
            false => format!("next {}", relative(now, at)),
        });
    }
    parts.extend(job.held_reason.clone());
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn is_waiting(status: &str) -> bool {
    matches!(status, "retrying" | "scheduled")
}

/// Who has it, or had it last.
pub fn lease(now: Timestamp, job: &Job) -> Cell {
    if let Some(lease) = &job.lease {
        let until = lease.expires_at.as_deref().map(|at| absolute(now, at));
        let until = until.map(|until| format!(", until {until}"));
        return Cell::toned(Tone::Busy, &lease.worker)
            .then(Tone::Plain, &until.unwrap_or_default());
    }
    let last = job.runs.iter().max_by_key(|run| run.attempt);
    let last = last.and_then(|run| Some((run.worker.as_deref()?, run.ended_at.as_deref()?)));
    match last {
        Some((worker, ended_at)) => {
            Cell::new(&format!("none (last {worker}, {})", relative(now, ended_at)))
        }
        None => Cell::new("none"),
    }
}

/// `none committed`, or how many are in which state.
pub fn effects(job: &Job) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for effect in &job.effects {
        match counts.iter_mut().find(|(state, _)| *state == effect.state) {
            Some((_, count)) => *count += 1,
            None => counts.push((&effect.state, 1)),
        }
    }
    if counts.is_empty() {
        return "none committed".to_owned();
    }
    let said: Vec<String> = counts.iter().map(|(s, n)| format!("{n} {s}")).collect();
    said.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::Paint;

    fn job(fields: serde_json::Value) -> Job {
        serde_json::from_value(fields).expect("a job")
    }

    fn now() -> Timestamp {
        "2026-11-15T09:17:22Z".parse().expect("a time")
    }

    #[test]
    fn a_status_says_when_it_goes_on_and_why_it_does_not() {
        let said = |fields| progress(now(), &job(fields));
        let due = json!({"status": "retrying", "attempts": 1, "run_at": "2026-11-15T09:17:00Z"});
        assert_eq!(said(due).as_deref(), Some("attempt 1, due now"));
        let held = json!({"status": "held", "attempts": 0, "held_reason": "in_doubt"});
        assert_eq!(said(held).as_deref(), Some("in_doubt"));
        assert_eq!(said(json!({"status": "pending", "attempts": 0})), None);
    }

    #[test]
    fn a_live_lease_says_who_has_it_and_until_when() {
        let job = job(json!({"lease": {"worker": "w", "expires_at": "2026-11-15T09:19:22Z"}}));
        assert_eq!(
            lease(now(), &job).render(Paint(false)),
            "w, until 2026-11-15 09:19:22Z (in 2 min)"
        );
    }

    #[test]
    fn effects_are_counted_by_state() {
        let job = job(json!({"effects": [{"key": "a", "state": "committed"},
            {"key": "b", "state": "begun"}, {"key": "c", "state": "committed"}]}));
        assert_eq!(effects(&job), "2 committed, 1 begun");
    }
}
