//! One event: the whole story on one time line, and what makes sense to do now.

use std::mem;

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use futures_util::future::join_all;
use http::{HeaderValue, header};
use serde_json::Value;

use super::act;
use super::desk::{Desk, Form};
use super::frame::Frame;
use super::payload::{Payload, visible};
use super::pieces::{self, Act, Command, Field, Id, Mark, Note, When};
use super::shapes::{Event, EventRow, Job, Work};
use super::timeline::{self, Step, Timeline};
use super::waiting::Waiting;
use super::words;
use crate::within::{Refused, part};

/// How many things of one event are told in full; of more, each still has its line.
const TOLD_MAX: usize = 20;

#[derive(Template)]
#[template(path = "event.html")]
struct Page {
    frame: Frame,
    event: Event,
    event_type: String,
    mark: Mark,
    id: Id,
    when: When,
    kind: &'static str,
    verdict: String,
    acts: Vec<Act>,
    waiting: Vec<Waiting>,
    facts: Vec<(&'static str, String)>,
    source_to: Option<String>,
    source_name: String,
    timeline: Timeline,
    tabs: Vec<(&'static str, String, bool)>,
    payload: Payload,
    commands: Vec<Command>,
}

/// The page of an event.
pub async fn page(desk: Desk, Path(id): Path<String>) -> Result<Response, Refused> {
    let path = format!("/inbox/{}", part(&id));
    let (event, mut frame) =
        tokio::try_join!(desk.api.get::<Event>(&path, []), Frame::new(&desk, "Event", "inbox"))?;
    let lives = |work: &&Work| work.kind != "delivery" && work.finished_at.is_none();
    if let Some(work) = event.work.iter().find(lives) {
        frame.listen_to(&work.id);
    }
    let (payload, tab) = payload(&desk, &path, &event).await?;
    let timeline = story(&desk, &frame, &event).await;
    let mut waiting = waiting(&desk, &frame, &event).await;
    let tabs = ["pretty", "raw", "headers", "envelope"];
    let tabs = tabs.map(|name| {
        (name, desk.to(&format!("/inbox/{}?show={name}#payload", part(&id))), name == tab)
    });
    let row = &event.row;
    let page = Page {
        event_type: visible(&row.event_type),
        mark: Mark::of(&row.status),
        id: Id::of(&row.id),
        when: When::of(row.received_at, frame.now),
        kind: pieces::colour(&row.status),
        verdict: verdict(&event, &frame),
        acts: acts(&frame, &event, &mut waiting),
        waiting,
        facts: facts(&event),
        source_to: row.source.as_ref().map(|source| frame.to(&format!("/sources/{source}"))),
        source_name: source_name(row),
        commands: vec![
            frame.curl("GET", &path, ""),
            frame.ctl(&format!("inbox inspect {}", row.id)),
        ],
        tabs: tabs.into(),
        timeline,
        payload,
        event,
        frame,
    };
    Ok(page.frame.answer(&page))
}

/// The tab that is shown, and what is on it.
async fn payload(
    desk: &Desk,
    path: &str,
    event: &Event,
) -> Result<(Payload, &'static str), Refused> {
    Ok(match desk.parameter("show") {
        "raw" => (text_of(desk.api.text(&format!("{path}/raw"), &[]).await), "raw"),
        "headers" => {
            let headers = desk.api.get::<Value>(&format!("{path}/headers"), []).await;
            let lines = headers.map(|headers| {
                let headers = headers["headers"].as_array().cloned().unwrap_or_default();
                let text = |header: &Value, part: &str| {
                    header[part].as_str().unwrap_or_default().to_owned()
                };
                let line = |header: &Value| {
                    format!("{}: {}\n", text(header, "name"), text(header, "value"))
                };
                headers.iter().map(line).collect::<String>()
            });
            (text_of(lines), "headers")
        }
        "envelope" => (Payload::json(&event.envelope), "envelope"),
        _ => (Payload::json(&event.envelope["data"]), "pretty"),
    })
}

/// What cannot be shown says why in its place: the rest of the page stands.
fn text_of(text: Result<String, Refused>) -> Payload {
    match text {
        Ok(text) => Payload::text(&text),
        Err(trouble) => Payload::text(&format!("({})", trouble.detail)),
    }
}

async fn story(desk: &Desk, frame: &Frame, event: &Event) -> Timeline {
    let mut steps = timeline::receipts(&event.receipts);
    // Deliveries are told with the jobs whose events they carry.
    let work: Vec<&Work> = event.work.iter().filter(|work| work.kind != "delivery").collect();
    let told = join_all(work.iter().take(TOLD_MAX).map(|work| tell(desk, frame, work))).await;
    steps.extend(told.into_iter().flatten());
    steps.extend(work.into_iter().skip(TOLD_MAX).map(brief));
    timeline::draw(steps, frame.now)
}

async fn tell(desk: &Desk, frame: &Frame, work: &Work) -> Vec<Step> {
    // Replies and callbacks are answered where jobs are.
    match desk.api.get::<Job>(&format!("/jobs/{}", part(&work.id)), []).await {
        Ok(job) => timeline::job(&desk.api, frame, &job).await,
        Err(_) => vec![brief(work)],
    }
}

fn brief(work: &Work) -> Step {
    let kind = work.kind.replace('_', " ");
    let name = work.name.as_deref().map(visible).unwrap_or_default();
    let at = work.finished_at.unwrap_or(work.created_at);
    let attempts = match work.max_attempts {
        Some(most) => format!("attempt {} of {most}", work.attempts),
        None => words::many(work.attempts as usize, "attempt", "attempts"),
    };
    let first = kind.chars().next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let title = format!("{first}{} {name}", kind.chars().skip(1).collect::<String>());
    Step::new(at, title.trim(), &work.status).with(attempts, work.last_error.as_deref())
}

/// What of an event's work waits for a person.
async fn waiting(desk: &Desk, frame: &Frame, event: &Event) -> Vec<Waiting> {
    let these = event.work.iter().filter(|work| work.kind != "delivery" && waits(&work.status));
    let paths = these.take(TOLD_MAX).map(|work| format!("/jobs/{}", part(&work.id)));
    let asked = paths.map(|path| async move { desk.api.get::<Job>(&path, []).await });
    let jobs = join_all(asked).await.into_iter().flatten();
    jobs.map(|job| Waiting::on(frame, event, job)).collect()
}

fn waits(status: &str) -> bool {
    matches!(status, "held" | "awaiting_approval")
}

/// The one sentence that a tired person needs.
pub fn verdict(event: &Event, frame: &Frame) -> String {
    let live = event.work.iter().filter(|it| it.replayed_as.is_none() && it.kind != "delivery");
    let next = event.next_action.as_deref().unwrap_or_default();
    let (word, rest) = next.split_once(": ").unwrap_or((next, ""));
    let safety = match word {
        "retry-safe" => format!(" Safe to retry: {rest}."),
        _ if next.is_empty() || word == "none" => String::new(),
        _ => format!(" {}.", sentence(next)),
    };
    let due = live.filter(|work| work.status == "retrying").filter_map(|work| work.run_at).min();
    let status = match event.row.status.as_str() {
        "retrying" => match due {
            Some(at) if at > frame.now => format!("Retrying {}.", words::ago(at, frame.now)),
            _ => "Retrying now.".to_owned(),
        },
        "running" => "Running now.".to_owned(),
        "pending" => "Waiting for a worker.".to_owned(),
        "scheduled" => "Waiting for its time.".to_owned(),
        "awaiting_approval" => "Waiting for a person to approve.".to_owned(),
        "held" => "Held until somebody decides.".to_owned(),
        "dead_letter" => "Given up.".to_owned(),
        "cancelled" => "Cancelled.".to_owned(),
        "succeeded" => "Done.".to_owned(),
        "ignored" => "Stored, and ignored by its source's filter.".to_owned(),
        "unmapped" => "Stored, but its payload could not be understood.".to_owned(),
        other => format!("{}.", sentence(&other.replace('_', " "))),
    };
    format!("{status}{safety}")
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}", visible(letters.as_str()))
}

/// The buttons that make sense now, and only those.
fn acts(frame: &Frame, event: &Event, waiting: &mut [Waiting]) -> Vec<Act> {
    if !frame.may_operate {
        return Vec::new();
    }
    // Where nothing can go on but what waits, the event's buttons are those of the first that does.
    if waits(&event.row.status) {
        return waiting.first_mut().map(|first| mem::take(&mut first.acts)).unwrap_or_default();
    }
    let mut acts = Vec::new();
    let ends = matches!(
        event.row.status.as_str(),
        "dead_letter" | "cancelled" | "succeeded" | "ignored" | "unmapped"
    );
    if ends {
        let mut replay = frame.act(
            "Replay",
            &format!("/inbox/{}/replay", event.row.id),
            "Makes a new job from this event. With scope \u{201c}same\u{201d}, side effects that were committed are not done again; with \u{201c}fresh\u{201d} they are.",
        );
        replay.note = Note::Must;
        replay.fields.push(Field::choice("scope", "Scope", &["same", "fresh"]));
        replay.style = if event.row.status == "succeeded" { "plain" } else { "main" };
        replay.key = "r";
        acts.push(replay);
    }
    let lives = |work: &&Work| {
        let has_ended = work.replayed_as.is_some() || work.finished_at.is_some();
        work.kind == "job" && !has_ended && !waits(&work.status)
    };
    if let Some(job) = event.work.iter().find(lives) {
        let mut cancel = frame.act(
            "Cancel",
            &format!("/jobs/{}/cancel", job.id),
            "Stops the job of this event. A run that is under way is asked to stop; what it has done stays done.",
        );
        cancel.note = Note::May;
        cancel.style = "danger";
        acts.push(cancel);
    }
    acts
}

/// What to call its source: many have no name.
fn source_name(row: &EventRow) -> String {
    let name = row.source_name.as_deref().filter(|name| !name.is_empty());
    visible(name.or(row.provider.as_deref()).unwrap_or("its source"))
}

fn facts(event: &Event) -> Vec<(&'static str, String)> {
    let row = &event.row;
    let duplicates = event.receipts.iter().filter(|receipt| receipt.verdict == "duplicate").count();
    let receipts = match duplicates {
        0 => "1 receipt".to_owned(),
        more => format!(
            "{} receipts: accepted, {}",
            more + 1,
            words::many(more, "duplicate", "duplicates")
        ),
    };
    let facts = [
        ("Provider", row.provider.clone()),
        ("Subject", row.subject.as_deref().map(visible)),
        ("Dedup key", row.dedup_key.as_deref().map(visible)),
        ("Signature", Some(if row.verified { "verified" } else { "unsigned source" }.to_owned())),
        ("Receipts", Some(receipts)),
        ("Trace", event.trace_id.clone()),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The exact bytes, as a file: a browser must not try to show them.
pub async fn raw(desk: Desk, Path(id): Path<String>) -> Result<Response, Refused> {
    let mut answer = desk.api.open(&format!("/inbox/{}/raw", part(&id)), &[]).await?;
    as_file(&mut answer, &format!("{id}.bin"));
    Ok(answer)
}

/// Has a browser save an answer instead of showing it.
pub fn as_file(answer: &mut Response, name: &str) {
    let name: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).collect();
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
}

/// Runs it again.
pub async fn replay(desk: Desk, Path(id): Path<String>, form: Form) -> Result<Response, Refused> {
    let path = format!("/inbox/{}", part(&id));
    let body = act::fields(&form, &["note", "scope"]);
    desk.api.post(&format!("{path}/replay"), &body).await?;
    Ok(desk.done(&path, "Replayed: a new job runs."))
}
