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
/// How many can be chosen by hand at once: a page of them.
const CHOSEN_MAX: usize = 500;

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

/// Replays or purges: those that were chosen, or all that the filter fits.
pub async fn act(desk: Desk, form: Form) -> Result<Response, Refused> {
    let chosen: Vec<&str> = form.all("id").take(CHOSEN_MAX).collect();
    let mut body = act::fields(&form, &["note"]);
    match form.get("what") {
        "replay" if chosen.is_empty() => Err(Refused::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "none was chosen: tick some, or take all that match",
        )),
        "replay" => {
            if let Some(scope) = Some(form.get("scope")).filter(|scope| !scope.is_empty()) {
                act::put(&mut body, "scope", json!(scope));
            }
            for id in &chosen {
                desk.api.post(&format!("/dead-letters/{}/replay", part(id)), &body).await?;
            }
            let many = words::many(chosen.len(), "dead letter", "dead letters");
            Ok(desk.done("/dead-letters", &format!("Replayed {many}.")))
        }
        "replay_all" | "purge_all" if form.get("sure").is_empty() => ask(desk, &form).await,
        what @ ("replay_all" | "purge_all") => {
            if what == "replay_all" {
                act::put(&mut body, "scope", json!(form.get("scope")));
            }
            act::put(&mut body, "filter", filter(&desk));
            let call = what.trim_end_matches("_all");
            let answer = desk.api.post(&format!("/dead-letters/{call}"), &body).await?;
            let operation = answer["operation_id"].as_str().unwrap_or_default().to_owned();
            let told = format!("Under way as {operation}.");
            Ok(desk.done(&format!("/operations/{}", part(&operation)), &told))
        }
        _ => Err(Refused::new(StatusCode::NOT_FOUND, "there is no such action")),
    }
}

#[derive(Template)]
#[template(path = "dead_letters_sure.html")]
struct Sure {
    frame: Frame,
    what: String,
    scope: String,
    note: String,
    many: String,
    is_none: bool,
    to: String,
    back: String,
}

/// Says how many there are before it is done to all of them.
async fn ask(desk: Desk, form: &Form) -> Result<Response, Refused> {
    let mut counting: Vec<(&str, &str)> = NAMED.map(|name| (name, desk.parameter(name))).into();
    counting.push(("limit", "500"));
    let (counted, frame) = tokio::try_join!(
        desk.api.get::<List<Value>>("/dead-letters", &counting),
        Frame::new(&desk, "Sure?", "dead")
    )?;
    let found = counted.data.len();
    let many = match counted.next_cursor {
        Some(_) => format!("more than {found} dead letters"),
        None => words::many(found, "dead letter", "dead letters"),
    };
    let asked: Vec<(&str, &str)> =
        FILTERS.iter().map(|name| (*name, desk.parameter(name))).collect();
    let to = address(&desk, &asked, "cursor", "");
    let page = Sure {
        what: form.get("what").to_owned(),
        scope: form.get("scope").to_owned(),
        note: form.get("note").to_owned(),
        many,
        is_none: found == 0,
        back: to.clone(),
        to,
        frame,
    };
    Ok(page.frame.answer(&page))
}

fn filter(desk: &Desk) -> Value {
    let named = NAMED.map(|name| (name, desk.parameter(name)));
    let filled = named.into_iter().filter(|(_, value)| !value.is_empty());
    Value::Object(filled.map(|(name, value)| (name.to_owned(), json!(value))).collect())
}

/// All that the filter fits, as JSON Lines.
pub async fn export(desk: Desk) -> Result<Response, Refused> {
    let asked: Vec<(&str, &str)> = NAMED.map(|name| (name, desk.parameter(name))).into();
    let mut answer = desk.api.open("/dead-letters/export", &asked).await?;
    as_file(&mut answer, "dead-letters.jsonl");
    Ok(answer)
}
