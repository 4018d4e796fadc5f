//! The audit trail: who did what, when, and why.

use askama::Template;
use axum::response::Response;

use super::desk::Desk;
use super::frame::Frame;
use super::inbox::address;
use super::payload::visible;
use super::pieces::{Empty, Id, When};
use super::shapes::AuditEntry;
use crate::within::{List, Refused};

const FILTERS: [&str; 4] = ["action", "actor", "target", "cursor"];

#[derive(Template)]
#[template(path = "audit.html")]
struct Page {
    frame: Frame,
    action: String,
    actor: String,
    target: String,
    rows: Vec<Row>,
    more: Option<String>,
    empty: Empty,
}

struct Row {
    id: String,
    actor: Id,
    action: String,
    target: String,
    note: String,
    when: When,
}

/// The list.
pub async fn list(desk: Desk) -> Result<Response, Refused> {
    let asked = FILTERS.map(|name| (name, desk.parameter(name)));
    let (entries, frame) = tokio::try_join!(
        desk.api.get::<List<AuditEntry>>("/audit", &asked),
        Frame::new(&desk, "Audit", "audit")
    )?;
    let row = |entry: AuditEntry| Row {
        id: entry.id,
        actor: Id::of(&entry.actor),
        action: visible(&entry.action),
        target: visible(&entry.target),
        note: visible(entry.note.as_deref().unwrap_or_default()),
        when: When::of(entry.at, frame.now),
    };
    let page = Page {
        action: desk.parameter("action").to_owned(),
        actor: desk.parameter("actor").to_owned(),
        target: desk.parameter("target").to_owned(),
        rows: entries.data.into_iter().map(row).collect(),
        more: entries.next_cursor.as_deref().map(|cursor| address(&desk, &asked, "cursor", cursor)),
        empty: Empty::new(
            "No entry is like that",
            "Nobody did anything that fits this filter.",
            [],
        ),
        frame,
    };
    Ok(page.frame.answer(&page))
}
