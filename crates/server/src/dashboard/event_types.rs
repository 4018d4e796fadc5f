//! The catalogue: which events can be published, with their schemas and examples.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::act;
use super::desk::{Desk, Form};
use super::frame::Frame;
use super::payload::{Payload, visible};
use super::pieces::{Act, Empty};
use super::shapes::EventType;
use crate::within::{List, Refused, part};

#[derive(Template)]
#[template(path = "event_types.html")]
struct ListPage {
    frame: Frame,
    rows: Vec<(String, String, String, String)>,
    more: Option<String>,
    today: String,
    empty: Empty,
}

/// The list.
pub async fn list(desk: Desk) -> Result<Response, Refused> {
    let cursor = desk.parameter("cursor");
    let (types, frame) = tokio::try_join!(
        desk.api.get::<List<EventType>>("/event-types", [("cursor", cursor)]),
        Frame::new(&desk, "Event types", "types")
    )?;
    let row = |known: EventType| {
        let versions: Vec<&str> = known.versions.keys().map(String::as_str).collect();
        let to = frame.to(&format!("/event-types/{}", part(&known.name)));
        let description = visible(known.description.as_deref().unwrap_or_default());
        (to, visible(&known.name), description, versions.join(", "))
    };
    let page = ListPage {
        rows: types.data.into_iter().map(row).collect(),
        more: types.next_cursor.map(|cursor| frame.to(&format!("/event-types?cursor={cursor}"))),
        today: frame.now.to_string().chars().take(10).collect(),
        empty: Empty::new(
            "No event types yet",
            "The catalogue tells subscribers which events there are, and checks what is published against its schema.",
            frame.for_operators(&[
                "event-types put order.created --schema @schema.json --example '{\"id\": \"ord_1\"}'",
            ]),
        ),
        frame,
    };
    Ok(page.frame.answer(&page))
}

#[derive(Template)]
#[template(path = "event_type.html")]
struct OnePage {
    frame: Frame,
    name: String,
    description: String,
    shared: bool,
    versions: Vec<Version>,
    acts: Vec<Act>,
    published: String,
}

struct Version {
    name: String,
    change: String,
    schema: Option<Payload>,
    example: Option<Payload>,
}

/// The page of a type.
pub async fn page(desk: Desk, Path(name): Path<String>) -> Result<Response, Refused> {
    let path = format!("/event-types/{}", part(&name));
    let (known, frame) = tokio::try_join!(
        desk.api.get::<EventType>(&path, []),
        Frame::new(&desk, "Event type", "types")
    )?;
    let shown = |value: &Value| (!value.is_null()).then(|| Payload::json(value));
    let versions = known.versions.iter().rev().map(|(name, version)| Version {
        name: name.clone(),
        change: visible(version.change.as_deref().unwrap_or_default()),
        schema: shown(&version.schema),
        example: shown(&version.example),
    });
    let mut acts = Vec::new();
    if frame.may_operate {
        let mut delete = frame.act(
            "Delete",
            &format!("{path}/delete"),
            "Takes it out of the catalogue. Events that were published stay.",
        );
        delete.style = "danger";
        acts.push(delete);
    }
    let page = OnePage {
        name: visible(&known.name),
        description: visible(known.description.as_deref().unwrap_or_default()),
        shared: known.shared,
        versions: versions.collect(),
        acts,
        published: frame.to(&format!("/events?type={}", part(&known.name))),
        frame,
    };
    Ok(page.frame.answer(&page))
}

/// Adds a type, with its first version.
pub async fn create(desk: Desk, form: Form) -> Result<Response, Refused> {
    let mut body = act::fields(&form, &["name", "description"]);
    let mut version = act::fields(&form, &["change"]);
    for name in ["schema", "example"] {
        let text = form.get(name).trim();
        if !text.is_empty() {
            let value: Value = serde_json::from_str(text).map_err(|error| {
                Refused::new(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    format!("{name} is not JSON: {error}"),
                )
            })?;
            act::put(&mut version, name, value);
        }
    }
    act::put(&mut body, "versions", json!({ form.get("version"): version }));
    desk.api.create("/event-types", &body, form.get("once")).await?;
    Ok(desk.done(
        &format!("/event-types/{}", part(form.get("name").trim())),
        "Added to the catalogue.",
    ))
}

/// Takes a type out of the catalogue.
pub async fn remove(
    desk: Desk,
    Path(name): Path<String>,
    _form: Form,
) -> Result<Response, Refused> {
    let path = format!("/event-types/{}", part(&name));
    desk.api.send(Method::DELETE, &path, &act::nothing(), None).await?;
    Ok(desk.done("/event-types", "Deleted."))
}
