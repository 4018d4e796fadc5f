//! Tenants: who is kept apart from whom, and what each may use.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use wakepost_domain::retention::History;

use super::act;
use super::desk::{Desk, Form};
use super::frame::Frame;
use super::payload::visible;
use super::pieces::{Act, Command, Empty, Field, When};
use super::shapes::Tenant;
use crate::within::{List, Refused, part};

#[derive(Template)]
#[template(path = "tenants.html")]
struct Page {
    frame: Frame,
    rows: Vec<Row>,
    more: Option<String>,
    empty: Empty,
}

struct Row {
    to: String,
    slug: String,
    name: String,
    weight: u32,
    concurrency: String,
    rate: String,
    kept: String,
    when: When,
    act: Act,
}

/// What has an age of its own, as the list and the form call it.
const KEPT: [(History, &str, &str); 5] = [
    (History::Bodies, "bodies", "Days bodies are kept"),
    (History::Events, "events", "Days events are kept"),
    (History::Runs, "runs", "Days finished work is kept"),
    (History::DeadLetters, "dead letters", "Days dead letters are kept"),
    (History::Receipts, "receipts", "Days receipts are kept"),
];

/// The list.
pub async fn list(desk: Desk) -> Result<Response, Refused> {
    let cursor = desk.parameter("cursor");
    let (tenants, frame) = tokio::try_join!(
        desk.api.get::<List<Tenant>>("/tenants", [("cursor", cursor)]),
        Frame::new(&desk, "Tenants", "tenants")
    )?;
    let page = Page {
        more: tenants.next_cursor.map(|cursor| frame.to(&format!("/tenants?cursor={cursor}"))),
        rows: tenants.data.into_iter().map(|tenant| row(&frame, tenant)).collect(),
        empty: Empty::new(
            "No tenants",
            "There is always the default one.",
            [Command::new("", "webhookctl tenants create acme")],
        ),
        frame,
    };
    Ok(page.frame.answer(&page))
}

fn row(frame: &Frame, tenant: Tenant) -> Row {
    let some = |bound: Option<String>| bound.unwrap_or_else(|| "–".to_owned());
    let mut act = frame.act(
        "Change",
        &format!("/tenants/{}", part(&tenant.slug)),
        "A bound that is left empty is taken away. What is kept can be at most what the server keeps.",
    );
    let field = |name, label, value: String| Field { name, label, value, choices: Vec::new() };
    act.fields = vec![
        field("name", "Name", tenant.name.clone()),
        field("weight", "Weight", tenant.weight.to_string()),
        field(
            "concurrency",
            "Runs at once",
            tenant.concurrency.map(|most| most.to_string()).unwrap_or_default(),
        ),
        field(
            "rate_per_s",
            "Starts per second",
            tenant.rate_per_s.map(|rate| rate.to_string()).unwrap_or_default(),
        ),
    ];
    let ages = tenant.retention.unwrap_or_default();
    let mut kept = Vec::new();
    for (kind, name, label) in KEPT {
        let days = ages.days(kind).map(|days| days.to_string());
        kept.extend(days.iter().map(|days| format!("{name} {days} d")));
        act.fields.push(field(kind.setting(), label, days.unwrap_or_default()));
    }
    Row {
        kept: some(Some(kept.join(", ")).filter(|kept| !kept.is_empty())),
        to: format!("/?tenant={}", part(&tenant.slug)),
        name: visible(&tenant.name),
        weight: tenant.weight,
        concurrency: some(tenant.concurrency.map(|most| most.to_string())),
        rate: some(tenant.rate_per_s.map(|rate| rate.to_string())),
        when: When::of(tenant.created_at, frame.now),
        act,
        slug: tenant.slug,
    }
}

/// Makes one.
pub async fn create(desk: Desk, form: Form) -> Result<Response, Refused> {
    let body = act::fields(&form, &["slug", "name"]);
    desk.api.create("/tenants", &body, form.get("once")).await?;
    Ok(desk.done("/tenants", "Made."))
}

/// Changes one.
pub async fn update(desk: Desk, Path(slug): Path<String>, form: Form) -> Result<Response, Refused> {
    let mut body = act::fields(&form, &["name"]);
    for name in ["weight", "concurrency", "rate_per_s"] {
        act::put(&mut body, name, number(name, form.get(name).trim())?);
    }
    let mut kept = act::nothing();
    for name in History::ALL.map(History::setting) {
        act::put(&mut kept, name, number(name, form.get(name).trim())?);
    }
    act::put(&mut body, "retention", kept);
    desk.api.send(Method::PATCH, &format!("/tenants/{}", part(&slug)), &body, None).await?;
    Ok(desk.done("/tenants", "Changed."))
}

fn number(name: &str, text: &str) -> Result<Value, Refused> {
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let whole = text.parse::<u64>().map(|number| json!(number));
    let value = whole.or_else(|_| text.parse::<f64>().map(|number| json!(number)));
    value.map_err(|_| {
        Refused::new(StatusCode::UNPROCESSABLE_ENTITY, format!("{name} is not a number"))
    })
}
