//! Tenants: who is kept apart from whom, and what each may use.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::act;
use super::calls::{List, Trouble, part};
use super::desk::{Desk, Form};
use super::frame::Frame;
use super::payload::visible;
use super::pieces::{Act, Empty, Field, When};
use super::shapes::Tenant;

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
    when: When,
    act: Act,
}

/// The list.
pub async fn list(desk: Desk) -> Result<Response, Trouble> {
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
            "webhookctl tenants create acme",
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
        "A bound that is left empty is taken away.",
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
    Row {
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
pub async fn create(desk: Desk, form: Form) -> Result<Response, Trouble> {
    let body = act::fields(&form, &["slug", "name"]);
    desk.api.create("/tenants", &body, form.get("once")).await?;
    Ok(desk.done("/tenants", "Made."))
}

/// Changes one.
pub async fn update(desk: Desk, Path(slug): Path<String>, form: Form) -> Result<Response, Trouble> {
    let mut body = act::fields(&form, &["name"]);
    for name in ["weight", "concurrency", "rate_per_s"] {
        act::put(&mut body, name, number(name, form.get(name).trim())?);
    }
    desk.api.send(Method::PATCH, &format!("/tenants/{}", part(&slug)), &body, None).await?;
    Ok(desk.done("/tenants", "Changed."))
}

fn number(name: &str, text: &str) -> Result<Value, Trouble> {
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let whole = text.parse::<u64>().map(|number| json!(number));
    let value = whole.or_else(|_| text.parse::<f64>().map(|number| json!(number)));
    value.map_err(|_| {
        Trouble::new(StatusCode::UNPROCESSABLE_ENTITY, format!("{name} is not a number"))
    })
}
