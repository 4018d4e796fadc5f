//! One delivery: each attempt on a time line, with what was sent, what came back, and how long each part took.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;

use super::act;
use super::desk::{Desk, Form};
use super::frame::Frame;
use super::payload::visible;
use super::pieces::{self, Act, Command, Id, Mark, Note, When};
use super::shapes::Delivery;
use super::timeline::{self, Timeline};
use super::words;
use crate::within::{Refused, part};

#[derive(Template)]
#[template(path = "delivery.html")]
struct Page {
    frame: Frame,
    event_type: String,
    mark: Mark,
    id: Id,
    when: When,
    colour: &'static str,
    verdict: String,
    acts: Vec<Act>,
    webhook: Id,
    event: Option<Id>,
    replayed_as: Option<Id>,
    tries: String,
    timeline: Timeline,
    commands: Vec<Command>,
}

/// The page of a delivery.
pub async fn page(desk: Desk, Path(id): Path<String>) -> Result<Response, Refused> {
    let path = format!("/deliveries/{}", part(&id));
    let (delivery, frame) = tokio::try_join!(
        desk.api.get::<Delivery>(&path, []),
        Frame::new(&desk, "Delivery", "webhooks")
    )?;
    let mut acts = Vec::new();
    if frame.may_subscribe && delivery.finished_at.is_some() && delivery.replayed_as.is_none() {
        let mut replay = frame.act(
            "Send again",
            &format!("{path}/replay"),
            "Sends the same event, with the same id and body, once more.",
        );
        replay.note = Note::Must;
        replay.style = "main";
        replay.key = "r";
        acts.push(replay);
    }
    let most = delivery.max_attempts.map_or(String::new(), |most| format!(" of {most}"));
    let link = |id: &str, list: &str| Id::link(id, frame.to(&format!("/{list}/{id}")));
    let page = Page {
        event_type: visible(&delivery.event_type),
        mark: Mark::of(&delivery.status),
        id: Id::of(&delivery.id),
        when: When::of(delivery.created_at, frame.now),
        colour: pieces::colour(&delivery.status),
        verdict: verdict(&delivery, &frame),
        acts,
        webhook: link(&delivery.webhook_id, "webhooks"),
        event: frame.visit.is_none().then(|| link(&delivery.event_id, "events")),
        replayed_as: delivery.replayed_as.as_deref().map(|id| link(id, "deliveries")),
        tries: format!("{}{most}", delivery.tries()),
        timeline: timeline::draw(timeline::delivery(&frame, &delivery), frame.now),
        commands: vec![
            frame.curl("GET", &path, ""),
            frame.ctl(&format!("deliveries show {}", delivery.id)),
        ],
        frame,
    };
    Ok(page.frame.answer(&page))
}

fn verdict(delivery: &Delivery, frame: &Frame) -> String {
    let tries = words::many(delivery.tries() as usize, "attempt", "attempts");
    match (delivery.status.as_str(), delivery.run_at) {
        ("succeeded", _) => format!("Taken after {tries}."),
        ("dead_letter", _) => {
            format!("Given up after {tries}. Send it again once the receiver is well.")
        }
        ("retrying", Some(at)) if at > frame.now => {
            format!("Tried {tries}; the next is {}.", words::ago(at, frame.now))
        }
        ("retrying", _) => format!(
            "Tried {tries}; the next is due, and waits for the webhook's circuit or its turn."
        ),
        ("running", _) => "Being sent now.".to_owned(),
        ("cancelled", _) => "Cancelled.".to_owned(),
        _ => "Waits for its turn.".to_owned(),
    }
}

/// Sends it again.
pub async fn replay(desk: Desk, Path(id): Path<String>, form: Form) -> Result<Response, Refused> {
    let path = format!("/deliveries/{}/replay", part(&id));
    let made = desk.api.post(&path, &act::fields(&form, &["note"])).await?;
    let made = made["delivery_id"].as_str().or(made["id"].as_str()).unwrap_or(&id).to_owned();
    Ok(desk.done(&format!("/deliveries/{}", part(&made)), "It is sent again."))
}
