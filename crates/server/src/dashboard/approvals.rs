//! What waits for a person to say yes or no.

use askama::Template;
use axum::response::Response;
use futures_util::future::try_join_all;

use super::desk::Desk;
use super::frame::Frame;
use super::payload::visible;
use super::pieces::{Empty, Id, When};
use super::shapes::Job;
use super::waiting::{Proposal, proposals};
use crate::within::{List, Refused};

/// How many are shown at once: each is asked for whole.
const SHOWN: &str = "25";

#[derive(Template)]
#[template(path = "approvals.html")]
struct Page {
    frame: Frame,
    waiting: Vec<Row>,
    more: Option<String>,
    is_first: bool,
    empty: Empty,
}

struct Row {
    job: Job,
    kind: String,
    subject: String,
    id: Id,
    when: When,
    proposals: Vec<Proposal>,
}

/// The list.
pub async fn list(desk: Desk) -> Result<Response, Refused> {
    let cursor = desk.parameter("cursor");
    let asked = [("status", "awaiting_approval"), ("limit", SHOWN), ("cursor", cursor)];
    let (jobs, frame) = tokio::try_join!(
        desk.api.get::<List<Job>>("/jobs", &asked),
        Frame::new(&desk, "Approvals", "approvals")
    )?;
    let whole = jobs.data.iter().map(|job| {
        let path = format!("/jobs/{}", job.id);
        let api = desk.api.clone();
        async move { api.get::<Job>(&path, []).await }
    });
    let whole = try_join_all(whole).await?;
    let waiting = whole.into_iter().map(|job| Row {
        kind: visible(&job.kind),
        subject: visible(job.subject.as_deref().unwrap_or_default()),
        id: Id::link(&job.id, frame.to(&format!("/jobs/{}", job.id))),
        when: When::of(job.created_at, frame.now),
        proposals: proposals(&frame, &job),
        job,
    });
    let page = Page {
        waiting: waiting.collect(),
        more: jobs.next_cursor.map(|cursor| frame.to(&format!("/approvals?cursor={cursor}"))),
        is_first: cursor.is_empty(),
        empty: Empty::new(
            "Nothing waits for you",
            "Effects of sources in draft mode are proposed here before they happen. To have a source ask first:",
            [frame.ctl("sources create stripe --mode draft")],
        ),
        frame,
    };
    Ok(page.frame.answer(&page))
}
