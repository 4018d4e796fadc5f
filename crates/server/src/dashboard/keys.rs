//! Keys: who may do what. A key is shown once.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use http::Method;
use serde_json::json;

use super::act;
use super::desk::{Desk, Form};
use super::frame::Frame;
use super::payload::visible;
use super::pieces::{Act, Command, Id, When};
use super::shapes::Key;
use crate::within::{List, Refused, part};

#[derive(Template)]
#[template(path = "keys.html")]
struct Page {
    frame: Frame,
    made: Option<Command>,
    rows: Vec<Row>,
    more: Option<String>,
    sees_all: bool,
}

struct Row {
    name: String,
    role: String,
    tenant: String,
    id: Id,
    used: Option<When>,
    expires: Option<When>,
    act: Act,
}

/// The list.
pub async fn list(desk: Desk) -> Result<Response, Refused> {
    show(desk, None).await
}

async fn show(desk: Desk, made: Option<Command>) -> Result<Response, Refused> {
    let cursor = desk.parameter("cursor");
    let (keys, frame) = tokio::try_join!(
        desk.api.get::<List<Key>>("/keys", [("cursor", cursor)]),
        Frame::new(&desk, "Keys", "keys")
    )?;
    let page = Page {
        made,
        more: keys.next_cursor.map(|cursor| frame.to(&format!("/keys?cursor={cursor}"))),
        rows: keys.data.into_iter().map(|key| row(&frame, key)).collect(),
        sees_all: desk.sees_all(),
        frame,
    };
    Ok(page.frame.answer(&page))
}

fn row(frame: &Frame, key: Key) -> Row {
    let mut act = frame.act(
        "Revoke",
        &format!("/keys/{}/revoke", key.id),
        "Whoever uses this key is refused from now on. It cannot be taken back.",
    );
    act.style = "danger";
    Row {
        name: visible(&key.name),
        role: key.role,
        tenant: if key.tenant == "*" { "all tenants".to_owned() } else { key.tenant },
        id: Id::of(&key.id),
        used: key.last_used_at.map(|at| When::of(at, frame.now)),
        expires: key.expires_at.map(|at| When::of(at, frame.now)),
        act,
    }
}

/// Makes one, and shows it, once.
pub async fn create(desk: Desk, form: Form) -> Result<Response, Refused> {
    let mut body = act::fields(&form, &["name", "role"]);
    if form.get("reach") == "all" {
        act::put(&mut body, "tenant", json!("*"));
    } else if desk.sees_all() {
        let slug = desk.api.tenant.clone().unwrap_or_else(|| "default".to_owned());
        act::put(&mut body, "tenant", json!(slug));
    }
    if let Ok(days) = form.get("days").trim().parse::<u64>() {
        let now = desk.dashboard.context.now();
        let end = now.after(std::time::Duration::from_secs(days.min(36_500) * 86_400));
        act::put(&mut body, "expires_at", json!(end));
    }
    let made = desk.api.create("/keys", &body, form.get("once")).await?;
    let key = made["key"].as_str().map(|key| Command::new("key", key));
    show(desk, key).await
}

/// Ends one.
pub async fn revoke(desk: Desk, Path(id): Path<String>, _form: Form) -> Result<Response, Refused> {
    let path = format!("/keys/{}", part(&id));
    desk.api.send(Method::DELETE, &path, &act::nothing(), None).await?;
    Ok(desk.done("/keys", "Revoked: it opens nothing any more."))
}
