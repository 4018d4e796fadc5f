//! Events that were published, and who got them.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::act;
use super::desk::{Desk, Form};
use super::frame::Frame;
use super::inbox::address;
use super::payload::{Payload, visible};
use super::pieces::{Command, Empty, Id, Mark, When};
use super::places::linked;
use super::shapes::{Delivery, Published};
use super::webhooks::{DeliveryRow, delivery_row};
use crate::within::{List, Refused, part};

#[derive(Template)]
#[template(path = "published.html")]
struct ListPage {
    frame: Frame,
    event_type: String,
    asked_parent: String,
    parent: Option<(Id, String)>,
    rows: Vec<Row>,
    more: Option<String>,
    is_first: bool,
    empty: Empty,
}

struct Row {
    id: String,
    to: String,
    event_type: String,
    mark: Mark,
    short: Id,
    when: When,
}

/// The list.
pub async fn list(desk: Desk) -> Result<Response, Refused> {
    let asked = ["type", "parent", "cursor"].map(|name| (name, desk.parameter(name)));
    let (events, frame) = tokio::try_join!(
        desk.api.get::<List<Published>>("/events", &asked),
        Frame::new(&desk, "Published events", "types")
    )?;
    let row = |event: Published| Row {
        to: frame.to(&format!("/events/{}", event.id)),
        event_type: visible(&event.event_type),
        mark: Mark::of(&event.status),
        short: Id::of(&event.id),
        when: When::of(event.created_at, frame.now),
        id: event.id,
    };
    let parent = desk.parameter("parent");
    let all = || address(&desk, &asked, "parent", "");
    let page = ListPage {
        event_type: desk.parameter("type").to_owned(),
        asked_parent: parent.to_owned(),
        parent: (!parent.is_empty()).then(|| (linked(&frame, parent), all())),
        more: events.next_cursor.as_deref().map(|cursor| address(&desk, &asked, "cursor", cursor)),
        rows: events.data.into_iter().map(row).collect(),
        is_first: desk.parameter("cursor").is_empty(),
        empty: Empty::new(
            "Nothing was published like that",
            "What your product publishes is listed here, with its deliveries.",
            [frame.ctl("events publish order.created --data '{\"id\": \"ord_1\"}'")],
        ),
        frame,
    };
    Ok(page.frame.answer(&page))
}

#[derive(Template)]
#[template(path = "published_one.html")]
struct OnePage {
    frame: Frame,
    event_type: String,
    mark: Mark,
    id: Id,
    when: When,
    parent: Option<Id>,
    dedup_key: String,
    duplicates: u64,
    deliveries: Vec<DeliveryRow>,
    empty: Empty,
    payload: Payload,
    commands: Vec<Command>,
}

/// The page of a published event.
pub async fn page(desk: Desk, Path(id): Path<String>) -> Result<Response, Refused> {
    let path = format!("/events/{}", part(&id));
    let list_path = format!("{path}/deliveries");
    let (event, deliveries, frame) = tokio::try_join!(
        desk.api.get::<Published>(&path, []),
        desk.api.get::<List<Delivery>>(&list_path, [("limit", "100")]),
        Frame::new(&desk, "Published event", "types")
    )?;
    let content = Value::Object(event.rest.clone().into_iter().collect());
    let page = OnePage {
        event_type: visible(&event.event_type),
        mark: Mark::of(&event.status),
        id: Id::of(&event.id),
        when: When::of(event.created_at, frame.now),
        parent: event.parent_id.as_deref().map(|id| linked(&frame, id)),
        dedup_key: visible(event.dedup_key.as_deref().unwrap_or_default()),
        duplicates: event.duplicates,
        deliveries: deliveries.data.into_iter().map(|each| delivery_row(&frame, each)).collect(),
        empty: Empty::new(
            "Nobody subscribed to it",
            "No webhook wanted this type when it was published. One that is made now gets those to come:",
            [frame.ctl(&format!(
                "webhooks create https://hooks.customer.example/in --event {}",
                event.event_type
            ))],
        ),
        payload: Payload::json(&content),
        commands: vec![
            frame.curl("GET", &path, ""),
            frame.ctl(&format!("events deliveries {}", event.id)),
        ],
        frame,
    };
    Ok(page.frame.answer(&page))
}

/// Publishes one by hand.
pub async fn publish(desk: Desk, form: Form) -> Result<Response, Refused> {
    let mut body = act::fields(&form, &["type"]);
    let data: Value = serde_json::from_str(form.get("data")).map_err(|error| {
        Refused::new(StatusCode::UNPROCESSABLE_ENTITY, format!("data is not JSON: {error}"))
    })?;
    act::put(&mut body, "data", json!(data));
    let made = desk.api.create("/events", &body, form.get("once")).await?;
    let id = made["id"].as_str().unwrap_or_default();
    Ok(desk.done(&format!("/events/{}", part(id)), "Published."))
}
