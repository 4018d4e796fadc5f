//! The audit trail: who did what, when, and why.

use askama::Template;
use axum::response::Response;

use super::calls::{List, Trouble};
use super::desk::Desk;
use super::frame::Frame;
use super::payload::visible;
use super::pieces::{Id, When};
use super::shapes::AuditEntry;

#[derive(Template)]
#[template(path = "audit.html")]
struct Page {
    frame: Frame,
    rows: Vec<Row>,
    more: Option<String>,
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
pub async fn list(desk: Desk) -> Result<Response, Trouble> {
    let cursor = desk.parameter("cursor");
    let (entries, frame) = tokio::try_join!(
        desk.api.get::<List<AuditEntry>>("/audit", [("cursor", cursor)]),
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
        rows: entries.data.into_iter().map(row).collect(),
        more: entries.next_cursor.map(|cursor| frame.to(&format!("/audit?cursor={cursor}"))),
        frame,
    };
    Ok(page.frame.answer(&page))
}
