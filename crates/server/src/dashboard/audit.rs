//! The audit trail: who did what, when, and why.

use askama::Template;
use axum::response::Response;

use super::desk::Desk;
use super::frame::Frame;
use super::inbox::address;
use super::payload::visible;
use super::pieces::{Empty, Id, When};
use super::places::page_of;
use super::shapes::AuditEntry;
use crate::within::{List, Refused, part};

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
    to: Option<String>,
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
        actor: Id::of(&entry.actor),
        action: visible(&entry.action),
        to: page(&entry).map(|page| frame.to(&page)),
        target: visible(&entry.target),
        note: visible(entry.note.as_deref().unwrap_or_default()),
        when: When::of(entry.at, frame.now),
        id: entry.id,
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

/// The page of what an entry is about, unless that is gone by what was done.
fn page(entry: &AuditEntry) -> Option<String> {
    let (kind, what) = entry.action.split_once('.')?;
    match (kind, what) {
        (_, "delete") => None,
        ("event_type", _) => Some(format!("/event-types/{}", part(&entry.target))),
        // What was decided on stands behind the id.
        _ => page_of(entry.target.split(' ').next()?),
    }
}

#[cfg(test)]
mod tests {
    use wakepost_domain::Timestamp;

    use super::*;

    #[test]
    fn a_target_leads_to_its_page_while_it_has_one() {
        let entry = |action: &str, target: &str| AuditEntry {
            id: String::new(),
            at: Timestamp::from_secs(0),
            actor: String::new(),
            action: action.to_owned(),
            target: target.to_owned(),
            note: None,
        };
        let leads = |action, target| page(&entry(action, target));
        assert_eq!(leads("job.cancel", "job_1").as_deref(), Some("/jobs/job_1"));
        assert_eq!(leads("effect.approve", "job_1 mail:x sha").as_deref(), Some("/jobs/job_1"));
        assert_eq!(leads("event_type.create", "a/b").as_deref(), Some("/event-types/a%2Fb"));
        assert_eq!(leads("webhook.delete", "wh_1"), None);
        assert_eq!(leads("key.revoke", "key_1"), None);
        assert_eq!(leads("jobs.cancel", "github:issue:1"), None);
    }
}
