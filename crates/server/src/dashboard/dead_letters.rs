//! Dead letters: what was given up. Chosen ones, or all that a filter fits, are replayed, exported or purged.

use askama::Template;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::act;
use super::desk::{Desk, Form};
use super::event::as_file;
use super::frame::Frame;
use super::inbox::address;
use super::payload::visible;
use super::pieces::{Chip, Empty, Id, When};
use super::places::page_of;
use super::shapes::{Job, Source};
use super::words;
use crate::within::{List, Refused, part};

const KINDS: [&str; 4] = ["job", "delivery", "reply", "callback"];
const FILTERS: [&str; 5] = ["kind", "source", "since", "q", "cursor"];
/// Those of them that bulk work knows too.
const NAMED: [&str; 4] = ["kind", "source", "since", "q"];

#[derive(Template)]
#[template(path = "dead_letters.html")]
struct Page {
    frame: Frame,
    chips: Vec<Chip>,
    sources: Vec<Source>,
    kind: String,
    source: String,
    since: String,
    q: String,
    rows: Vec<Row>,
    more: Option<String>,
    is_first: bool,
    export: String,
    to_act: String,
    empty: Empty,
}

struct Row {
    id: String,
    to: String,
    kind: String,
    sub: String,
    error: String,
    attempts: u32,
    short: Id,
    when: When,
}

/// The list.
pub async fn list(desk: Desk) -> Result<Response, Refused> {
    let asked: Vec<(&str, &str)> =
        FILTERS.iter().map(|name| (*name, desk.parameter(name))).collect();
    let (dead, sources, frame) = tokio::try_join!(
        desk.api.get::<List<Job>>("/dead-letters", &asked),
        desk.api.get::<List<Source>>("/sources", [("limit", "200")]),
        Frame::new(&desk, "Dead letters", "dead")
    )?;
    let kind = desk.parameter("kind").to_owned();
    let with = |name: &str, value: &str| address(&desk, &asked, name, value);
    let mut chips =
        vec![Chip { label: "all".to_owned(), to: with("kind", ""), on: kind.is_empty() }];
    let plural = |kind: &str| match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    };
    chips.extend(KINDS.iter().map(|each| Chip {
        label: plural(each),
        to: with("kind", each),
        on: kind == *each,
    }));
    let filtered = asked.iter().any(|(_, value)| !value.is_empty());
    let export = with("cursor", "").replacen("/dead-letters", "/dead-letters/export", 1);
    let page = Page {
        chips,
        source: desk.parameter("source").to_owned(),
        since: desk.parameter("since").to_owned(),
        q: desk.parameter("q").to_owned(),
        is_first: desk.parameter("cursor").is_empty(),
        more: dead.next_cursor.as_deref().map(|cursor| with("cursor", cursor)),
        rows: dead.data.into_iter().map(|job| row(&frame, job)).collect(),
        to_act: with("cursor", ""),
        export,
        empty: match filtered {
            true => Empty::new(
                "No dead letter is like that",
                "Nothing that was given up fits this filter.",
                [],
            ),
            false => Empty::new(
                "No dead letters",
                "Work that failed for good would be here, with its reason, to be replayed once the cause is mended.",
                [frame.ctl("dlq list")],
            ),
        },
        sources: sources.data,
        kind,
        frame,
    };
    Ok(page.frame.answer(&page))
}

fn row(frame: &Frame, job: Job) -> Row {
    let page = page_of(&job.id);
    Row {
        to: frame.to(page.as_deref().unwrap_or("/dead-letters")),
        kind: visible(&job.kind),
        sub: visible(&job.subject.unwrap_or_default()),
        error: visible(&job.last_error.unwrap_or_default()),
        attempts: job.attempts,
        short: Id::of(&job.id),
        when: When::of(job.finished_at.unwrap_or(job.created_at), frame.now),
        id: job.id,
    }
}

/// What a button does, and to which dead letters: those that were chosen, or all that the page's filter fits.
struct Order<'a> {
    /// `replay`, `purge` or `export`.
    call: &'a str,
    chosen: Vec<&'a str>,
    filter: Vec<(&'static str, String)>,
}

impl<'a> Order<'a> {
    fn read(desk: &Desk, form: &'a Form) -> Result<Order<'a>, Refused> {
        let fitting = || NAMED.map(|name| (name, desk.parameter(name).to_owned())).into();
        match form.get("what") {
            "replay_all" => Ok(Order { call: "replay", chosen: Vec::new(), filter: fitting() }),
            "purge_all" => Ok(Order { call: "purge", chosen: Vec::new(), filter: fitting() }),
            call @ ("replay" | "purge" | "export") => {
                let chosen: Vec<&str> = form.all("id").collect();
                if chosen.is_empty() {
                    let detail = "none was chosen: tick some, or take all that match";
                    return Err(Refused::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
                }
                let filter = vec![("ids", chosen.join(","))];
                Ok(Order { call, chosen, filter })
            }
            _ => Err(Refused::new(StatusCode::NOT_FOUND, "there is no such action")),
        }
    }

    /// The filter as a list is asked for.
    fn query(&self) -> Vec<(&str, &str)> {
        self.filter.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    /// The same filter as bulk work is asked for.
    fn body(&self) -> Value {
        if !self.chosen.is_empty() {
            return json!({"ids": self.chosen});
        }
        let filled = self.filter.iter().filter(|(_, value)| !value.is_empty());
        Value::Object(filled.map(|(name, value)| ((*name).to_owned(), json!(value))).collect())
    }
}

/// Replays, purges or exports, and says first how many that are if it changes anything.
pub async fn act(desk: Desk, form: Form) -> Result<Response, Refused> {
    let order = Order::read(&desk, &form)?;
    if order.call == "export" {
        return exported(&desk, &order.query()).await;
    }
    if form.get("sure").is_empty() {
        return ask(&desk, &form, &order).await;
    }
    let names: &[&str] = if order.call == "replay" { &["note", "scope"] } else { &["note"] };
    let mut body = act::fields(&form, names);
    act::put(&mut body, "filter", order.body());
    let answer = desk.api.post(&format!("/dead-letters/{}", order.call), &body).await?;
    let operation = answer["operation_id"].as_str().unwrap_or_default().to_owned();
    let told = format!("Under way as {operation}.");
    Ok(desk.done(&format!("/operations/{}", part(&operation)), &told))
}

#[derive(Template)]
#[template(path = "dead_letters_sure.html")]
struct Sure<'a> {
    frame: Frame,
    what: &'a str,
    is_purge: bool,
    scope: &'a str,
    note: &'a str,
    chosen: &'a [&'a str],
    many: String,
    /// How many of those chosen are not dead letters any more.
    gone: usize,
    is_none: bool,
    to: String,
}

/// Says how many there are before it is done to all of them.
async fn ask(desk: &Desk, form: &Form, order: &Order<'_>) -> Result<Response, Refused> {
    let mut counting = order.query();
    counting.push(("limit", "500"));
    let (counted, frame) = tokio::try_join!(
        desk.api.get::<List<Value>>("/dead-letters", &counting),
        Frame::new(desk, "Sure?", "dead")
    )?;
    let found = counted.data.len();
    let many = match counted.next_cursor {
        Some(_) if order.chosen.is_empty() => format!("more than {found} dead letters"),
        _ => words::many(found, "dead letter", "dead letters"),
    };
    let asked: Vec<(&str, &str)> =
        FILTERS.iter().map(|name| (*name, desk.parameter(name))).collect();
    let page = Sure {
        what: form.get("what"),
        is_purge: order.call == "purge",
        scope: form.get("scope"),
        note: form.get("note"),
        chosen: &order.chosen,
        many,
        gone: order.chosen.len().saturating_sub(found),
        is_none: found == 0,
        to: address(desk, &asked, "cursor", ""),
        frame,
    };
    Ok(page.frame.answer(&page))
}

/// All that the page's filter fits, as JSON Lines.
pub async fn export(desk: Desk) -> Result<Response, Refused> {
    exported(&desk, &NAMED.map(|name| (name, desk.parameter(name)))).await
}

async fn exported(desk: &Desk, filter: &[(&str, &str)]) -> Result<Response, Refused> {
    let mut answer = desk.api.open("/dead-letters/export", filter).await?;
    as_file(&mut answer, "dead-letters.jsonl");
    Ok(answer)
}
