//! Bulk work: what was asked for, and how far it is.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;

use super::desk::Desk;
use super::frame::Frame;
use super::pieces::{self, Command, Id, Mark, When};
use super::shapes::Operation;
use super::words;
use crate::within::{Refused, part};

#[derive(Template)]
#[template(path = "operation.html")]
struct Page {
    frame: Frame,
    title: &'static str,
    mark: Mark,
    colour: &'static str,
    id: Id,
    when: When,
    verdict: String,
    figures: [(&'static str, String); 3],
    commands: Vec<Command>,
}

/// The page of an operation.
pub async fn page(desk: Desk, Path(id): Path<String>) -> Result<Response, Refused> {
    let path = format!("/operations/{}", part(&id));
    let (operation, frame) = tokio::try_join!(
        desk.api.get::<Operation>(&path, []),
        Frame::new(&desk, "Operation", "dead")
    )?;
    let page = Page {
        title: title(&operation.kind),
        mark: Mark::of(&operation.status),
        colour: pieces::colour(&operation.status),
        id: Id::of(&operation.id),
        when: When::of(operation.created_at, frame.now),
        verdict: verdict(&operation),
        figures: [
            ("Fitted so far", words::count(operation.matched)),
            ("Done", words::count(operation.done)),
            ("Could not be done", words::count(operation.failed)),
        ],
        commands: vec![frame.curl("GET", &path, "")],
        frame,
    };
    Ok(page.frame.answer(&page))
}

fn title(kind: &str) -> &'static str {
    match kind {
        "inbox_replay" => "Replay of events",
        "dead_letter_replay" => "Replay of dead letters",
        "dead_letter_purge" => "Purge of dead letters",
        "webhook_recover" => "Recovery of a webhook",
        "webhook_backfill" => "Backfill of a webhook",
        _ => "Bulk work",
    }
}

fn verdict(operation: &Operation) -> String {
    match operation.finished_at {
        None => "Under way. It goes on also if this server restarts.".to_owned(),
        Some(_) if operation.failed > 0 => format!(
            "Through, but for {} that were changed meanwhile or cannot be done.",
            words::count(operation.failed)
        ),
        Some(_) => "Through.".to_owned(),
    }
}
