//! Sources: where webhooks come from, what is missing, what was refused, and the address to paste at the provider.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::desk::{Desk, Form};
use super::frame::Frame;
use super::payload::visible;
use super::pieces::{Act, Command, Empty, Field, Id, Mark, Outcome, When};
use super::shapes::{Provider, Receipt, Source};
use super::{act, source_form, words};
use crate::within::{List, Refused, part};

#[derive(Template)]
#[template(path = "sources.html")]
struct ListPage {
    frame: Frame,
    rows: Vec<Row>,
    more: Option<String>,
    empty: Empty,
}

struct Row {
    to: String,
    name: String,
    provider: String,
    mark: Mark,
    missing: String,
    short: Id,
    unsigned: bool,
    when: When,
}

/// The list.
pub async fn list(desk: Desk) -> Result<Response, Refused> {
    let cursor = desk.parameter("cursor");
    let (sources, frame) = tokio::try_join!(
        desk.api.get::<List<Source>>("/sources", [("cursor", cursor)]),
        Frame::new(&desk, "Sources", "sources")
    )?;
    let row = |source: Source| Row {
        to: frame.to(&format!("/sources/{}", source.id)),
        name: source.label(),
        provider: source.provider,
        mark: Mark::of(&source.status),
        missing: source.missing_settings.join(", "),
        short: Id::of(&source.id),
        unsigned: source.unsigned,
        when: When::of(source.created_at, frame.now),
    };
    let page = ListPage {
        rows: sources.data.into_iter().map(row).collect(),
        more: sources.next_cursor.map(|cursor| frame.to(&format!("/sources?cursor={cursor}"))),
        empty: Empty::new(
            "No sources yet",
            "A source is one webhook at one provider: it has an address of its own, and a secret that signs what comes.",
            [frame.ctl("sources create github --name shop")],
        ),
        frame,
    };
    Ok(page.frame.answer(&page))
}

#[derive(Template)]
#[template(path = "source.html")]
struct OnePage {
    frame: Frame,
    source: Source,
    name: String,
    mark: Mark,
    id: Id,
    when: When,
    address: Command,
    completing: Command,
    is_live: bool,
    outcome: Outcome,
    acts: Vec<Act>,
    error: Option<String>,
    receipts: Vec<ReceiptRow>,
    secret: String,
    facts: Vec<(String, String)>,
    inbox: String,
    edit: Option<String>,
    commands: Vec<Command>,
}

struct ReceiptRow {
    mark: Mark,
    detail: String,
    address: String,
    event: Option<Id>,
    when: When,
}

/// The page of a source.
pub async fn page(desk: Desk, Path(id): Path<String>) -> Result<Response, Refused> {
    show(desk, &id, Outcome::default()).await
}

/// The page of a source, and what was just done to it.
pub async fn show(desk: Desk, id: &str, outcome: Outcome) -> Result<Response, Refused> {
    let path = format!("/sources/{}", part(id));
    let (receipts_path, status_path) = (format!("{path}/receipts"), format!("{path}/status"));
    let (source, receipts, status, providers, frame) = tokio::try_join!(
        desk.api.get::<Source>(&path, []),
        desk.api.get::<List<Receipt>>(&receipts_path, [("limit", "20")]),
        desk.api.get::<Value>(&status_path, []),
        desk.api.get::<List<Provider>>("/providers", []),
        Frame::new(&desk, "Source", "sources")
    )?;
    let provider = providers.data.into_iter().find(|provider| provider.name == source.provider);
    let samples = provider.map(|provider| provider.samples).unwrap_or_default();
    let sample = samples.first().cloned().unwrap_or_default();
    let page = OnePage {
        name: source.label(),
        mark: Mark::of(&source.status),
        id: Id::of(&source.id),
        when: When::of(source.created_at, frame.now),
        address: Command::new("address", source.ingest_url.clone()),
        completing: frame.ctl(&completing(&source)),
        is_live: outcome.is_none(),
        outcome,
        acts: acts(&frame, &source, &samples),
        error: status["error"].as_str().map(visible),
        receipts: receipts.data.into_iter().map(|receipt| receipt_row(&frame, receipt)).collect(),
        secret: secret(&source),
        facts: facts(&source),
        inbox: frame.to(&format!("/inbox?source={}", source.id)),
        edit: frame.may_operate.then(|| frame.to(&format!("{path}/edit"))),
        commands: vec![
            frame.curl("GET", &path, ""),
            frame.ctl(&format!("sources show {}", source.id)),
            frame.ctl(&format!("trigger {} {sample} --source {}", source.provider, source.id)),
        ],
        source,
        frame,
    };
    Ok(page.frame.answer(&page))
}

/// The command that sets what is missing.
fn completing(source: &Source) -> String {
    let flags = source.missing_settings.iter().map(|name| match name.as_str() {
        "secret" => " --secret …".to_owned(),
        name => format!(" --setting {name}=…"),
    });
    format!("sources update {}{}", source.id, flags.collect::<String>())
}

fn receipt_row(frame: &Frame, receipt: Receipt) -> ReceiptRow {
    ReceiptRow {
        mark: Mark::of(&receipt.verdict),
        detail: visible(&receipt.class.or(receipt.detail).unwrap_or_default()),
        address: receipt.address.unwrap_or_default(),
        event: receipt.event_id.map(|id| Id::link(&id, frame.to(&format!("/inbox/{id}")))),
        when: When::of(receipt.received_at, frame.now),
    }
}

fn acts(frame: &Frame, source: &Source, samples: &[String]) -> Vec<Act> {
    if !frame.may_operate {
        return Vec::new();
    }
    let to = |what: &str| format!("/sources/{}/{what}", source.id);
    let mut test = frame.act(
        "Send a test event",
        &to("test"),
        "Sends a realistic event, really signed, to this source. It makes a job like any other.",
    );
    test.style = "main";
    if !samples.is_empty() {
        let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
        test.fields.push(Field::choice("event_type", "Event", &samples));
    }
    let set_up = frame.act("Set up", &to("setup"), "Registers the address at the provider, where it has an API for that and the settings allow it; else says what to do there.");
    let mut acts = vec![test, set_up];
    if source.has_secret {
        let mut rotate = frame.act("Rotate secret", &to("rotate"), "Makes a new secret, shown once. The old one is good for another day, so that the provider can be changed in between.");
        rotate.hidden.push(("grace_s", "86400".to_owned()));
        acts.push(rotate);
    }
    acts.push(match source.enabled {
        true => frame.act(
            "Disable",
            &to("disable"),
            "The source answers 404 to everything until it is enabled again.",
        ),
        false => frame.act("Enable", &to("enable"), "The source takes events again."),
    });
    let mut delete = frame.act(
        "Delete",
        &to("delete"),
        "The source is gone for good, and its address with it. Events that it took stay.",
    );
    delete.style = "danger";
    acts.push(delete);
    acts
}

fn secret(source: &Source) -> String {
    match source.secret_age_days {
        Some(days) => format!("set, {} old", words::many(days as usize, "day", "days")),
        None if source.has_secret => "set".to_owned(),
        None => "none".to_owned(),
    }
}

/// What is set, in the API's own words.
fn facts(source: &Source) -> Vec<(String, String)> {
    let skip = ["updated_at", "tenant"];
    let told = source.rest.iter().filter(|(name, value)| {
        let is_empty = value.is_null()
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(Map::is_empty);
        !is_empty && !skip.contains(&name.as_str())
    });
    let text = |value: &Value| match value {
        Value::String(text) => visible(text),
        other => visible(&other.to_string()),
    };
    let mut facts: Vec<(String, String)> = vec![
        ("mode".to_owned(), source.mode.clone()),
        ("priority".to_owned(), source.priority.clone()),
    ];
    if let Some(executor) = &source.executor {
        facts.push(("executor".to_owned(), visible(&executor.to_string())));
    }
    if let Some(until) = source.previous_expires_at {
        facts.push(("old secret good until".to_owned(), until.to_string()));
    }
    facts.push((
        "filter".to_owned(),
        match source.filter.is_empty() {
            true => "all events".to_owned(),
            false => visible(&source.filter.join(", ")),
        },
    ));
    facts.extend(source.settings.iter().map(|(name, value)| (name.replace('_', " "), text(value))));
    facts.extend(told.map(|(name, value)| (name.replace('_', " "), text(value))));
    facts
}

/// Does something to a source.
pub async fn act(
    desk: Desk,
    Path((id, what)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Refused> {
    let path = format!("/sources/{}", part(&id));
    match what.as_str() {
        "enable" | "disable" => {
            desk.api.post(&format!("{path}/{what}"), &act::nothing()).await?;
            let told = if what == "enable" { "Enabled." } else { "Disabled." };
            Ok(desk.done(&path, told))
        }
        "delete" => {
            desk.api.send(Method::DELETE, &path, &act::nothing(), None).await?;
            Ok(desk.done("/sources", "Deleted."))
        }
        "rotate" => {
            let body = json!({"grace_s": form.get("grace_s").parse::<u64>().unwrap_or(86_400)});
            let made = desk.api.post(&format!("{path}/rotate"), &body).await?;
            let told = "Rotated. Paste the new secret at the provider; the old one is good for another day.";
            show(desk, &id, Outcome::made(told, &made)).await
        }
        "save" => source_form::save(desk, &id, form).await,
        "setup" => {
            let answer = desk.api.post(&format!("{path}/setup"), &act::nothing()).await?;
            show(desk, &id, Outcome::set_up(&answer)).await
        }
        "test" => {
            let body = act::fields(&form, &["event_type"]);
            let answer = desk.api.post(&format!("{path}/test"), &body).await?;
            let told = "Sent. This is what the provider would have been answered:".to_owned();
            show(desk, &id, Outcome::answered(told, &answer)).await
        }
        _ => Err(Refused::new(StatusCode::NOT_FOUND, "there is no such action")),
    }
}
