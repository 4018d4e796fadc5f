//! The form of a webhook: to make one, and to change it.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use http::Method;
use serde_json::{Value, json};

use super::act;
use super::desk::{Desk, Form};
use super::frame::Frame;
use super::payload::visible;
use super::pieces::Outcome;
use super::shapes::{EventType, Webhook};
use super::webhooks::show;
use crate::within::{List, Refused, part};

#[derive(Template)]
#[template(path = "webhook_form.html")]
struct Page {
    frame: Frame,
    title: &'static str,
    to: String,
    is_new: bool,
    has_url: bool,
    url: String,
    description: String,
    /// Known types, and whether each is chosen.
    types: Vec<(String, bool)>,
    /// Chosen types and patterns that are not among them.
    others: String,
    order: bool,
}

/// How many types can be ticked; any other can be typed.
const TYPES_MAX: &str = "200";

/// The form for a new one.
pub async fn new(desk: Desk) -> Result<Response, Refused> {
    let (types, frame) = tokio::try_join!(
        desk.api.get::<List<EventType>>("/event-types", [("limit", TYPES_MAX)]),
        Frame::new(&desk, "New webhook", "webhooks")
    )?;
    let page = Page {
        title: "New webhook",
        to: frame.to("/webhooks"),
        is_new: true,
        has_url: true,
        url: String::new(),
        description: String::new(),
        types: types.data.into_iter().map(|known| (known.name, false)).collect(),
        others: String::new(),
        order: false,
        frame,
    };
    Ok(page.frame.answer(&page))
}

/// The form to change one.
pub async fn edit(desk: Desk, Path(id): Path<String>) -> Result<Response, Refused> {
    let path = format!("/webhooks/{}", part(&id));
    let (webhook, types, frame) = tokio::try_join!(
        desk.api.get::<Webhook>(&path, []),
        desk.api.get::<List<EventType>>("/event-types", [("limit", TYPES_MAX)]),
        Frame::new(&desk, "Change a webhook", "webhooks")
    )?;
    let is_chosen = |name: &String| webhook.events.contains(name);
    let types: Vec<(String, bool)> =
        types.data.into_iter().map(|known| (known.name.clone(), is_chosen(&known.name))).collect();
    let is_known = |name: &String| types.iter().any(|(known, _)| known == name);
    let others: Vec<&str> =
        webhook.events.iter().filter(|name| !is_known(name)).map(String::as_str).collect();
    let page = Page {
        title: "Change a webhook",
        to: frame.to(&format!("{path}/save")),
        is_new: false,
        has_url: webhook.mode == "push",
        url: webhook.url.clone().unwrap_or_default(),
        description: webhook.description.clone().unwrap_or_default(),
        others: others.join(", "),
        order: webhook.order,
        types,
        frame,
    };
    Ok(page.frame.answer(&page))
}

/// What was filled in, as the API takes it.
fn body(form: &Form, names: &[&str]) -> Value {
    let mut body = act::fields(form, names);
    let mut events = act::names(form.get("events"));
    events.extend(form.all("event"));
    act::put(&mut body, "events", json!(events));
    act::put(&mut body, "description", json!(form.get("description").trim()));
    act::put(&mut body, "order", json!(!form.get("order").is_empty()));
    body
}

/// Makes one, and shows its secret, once.
pub async fn create(desk: Desk, form: Form) -> Result<Response, Refused> {
    let body = body(&form, &["url", "signature"]);
    let made = desk.api.create("/webhooks", &body, form.get("once")).await?;
    let id = made["id"].as_str().unwrap_or_default().to_owned();
    let told = match made["warning"].as_str() {
        Some(warning) => format!("Made, but {}.", visible(warning)),
        None => "Made, and it took a test event.".to_owned(),
    };
    show(desk, &id, Outcome::made(told, &made)).await
}

/// Changes one.
pub async fn save(desk: Desk, id: &str, form: Form) -> Result<Response, Refused> {
    let path = format!("/webhooks/{}", part(id));
    desk.api.send(Method::PATCH, &path, &body(&form, &["url"]), None).await?;
    Ok(desk.done(&path, "Changed."))
}
