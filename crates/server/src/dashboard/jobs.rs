//! Jobs, newest first.

use askama::Template;
use axum::response::Response;

use super::desk::Desk;
use super::frame::Frame;
use super::inbox::address;
use super::payload::visible;
use super::pieces::{Chip, Empty, Id, Mark, When};
use super::shapes::Job;
use crate::within::{List, Refused};

const STATES: [&str; 9] = [
    "running",
    "retrying",
    "pending",
    "scheduled",
    "awaiting_approval",
    "held",
    "dead_letter",
    "cancelled",
    "succeeded",
];
const FILTERS: [&str; 6] = ["status", "source", "kind", "subject", "thread", "cursor"];

#[derive(Template)]
#[template(path = "jobs.html")]
struct Page {
    frame: Frame,
    chips: Vec<Chip>,
    kind: String,
    subject: String,
    status: String,
    rows: Vec<Row>,
    more: Option<String>,
    is_first: bool,
    empty: Empty,
}

struct Row {
    id: String,
    to: String,
    kind: String,
    subject: String,
    mark: Mark,
    attempts: String,
    error: String,
    worker: String,
    short: Id,
    when: When,
}

/// The list.
pub async fn list(desk: Desk) -> Result<Response, Refused> {
    let asked: Vec<(&str, &str)> =
        FILTERS.iter().map(|name| (*name, desk.parameter(name))).collect();
    let (jobs, frame) = tokio::try_join!(
        desk.api.get::<List<Job>>("/jobs", &asked),
        Frame::new(&desk, "Jobs", "jobs")
    )?;
    let status = desk.parameter("status").to_owned();
    let with = |name: &str, value: &str| address(&desk, &asked, name, value);
    let chips = Chip::choice(&STATES, &status, |state| with("status", state));
    let filtered = asked.iter().any(|(_, value)| !value.is_empty());
    let page = Page {
        chips,
        kind: desk.parameter("kind").to_owned(),
        subject: desk.parameter("subject").to_owned(),
        more: jobs.next_cursor.as_deref().map(|cursor| with("cursor", cursor)),
        rows: jobs.data.into_iter().map(|job| row(&frame, job)).collect(),
        is_first: desk.parameter("cursor").is_empty(),
        empty: match filtered {
            true => Empty::new("No job is like that", "No job fits this filter.", []),
            false => Empty::new(
                "No jobs yet",
                "Each event that is meant for an agent makes one job. A job can also be made by hand:",
                [frame.curl("POST", "/jobs", r#"{"kind":"hello","input":{}}"#)],
            ),
        },
        status,
        frame,
    };
    Ok(page.frame.answer(&page))
}

fn row(frame: &Frame, job: Job) -> Row {
    let most = job.max_attempts.map_or(String::new(), |most| format!(" of {most}"));
    let worker = job.lease.and_then(|lease| lease.worker).or(job.last_worker);
    Row {
        to: frame.to(&format!("/jobs/{}", job.id)),
        kind: visible(&job.kind),
        subject: visible(&job.subject.unwrap_or_default()),
        mark: Mark::of(&job.status),
        attempts: format!("{}{most}", job.attempts),
        error: match job.status.as_str() {
            "succeeded" => String::new(),
            _ => visible(&job.held_reason.or(job.last_error).unwrap_or_default()),
        },
        worker: visible(&worker.unwrap_or_default()),
        short: Id::of(&job.id),
        when: When::of(job.created_at, frame.now),
        id: job.id,
    }
}
