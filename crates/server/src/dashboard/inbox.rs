//! The inbox: what came in, newest first, as it comes.

use askama::Template;
use axum::response::Response;
use url::form_urlencoded;

use super::desk::Desk;
use super::frame::Frame;
use super::payload::visible;
use super::pieces::{Chip, Empty, Id, Mark, When};
use super::shapes::{EventRow, Source};
use crate::within::{List, Refused};

/// The states that the chips offer.
const STATES: [&str; 9] = [
    "running",
    "retrying",
    "pending",
    "awaiting_approval",
    "held",
    "dead_letter",
    "succeeded",
    "ignored",
    "unmapped",
];
const FILTERS: [&str; 8] = ["source", "type", "status", "since", "until", "q", "subject", "cursor"];

#[derive(Template)]
#[template(path = "inbox.html")]
struct Page {
    frame: Frame,
    chips: Vec<Chip>,
    sources: Vec<Source>,
    source: String,
    event_type: String,
    since: String,
    status: String,
    q: String,
    subject: String,
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
    when: When,
    short: Id,
    source: String,
    provider: String,
    subject: String,
    duplicates: u64,
    verified: bool,
}

/// The list.
pub async fn list(desk: Desk) -> Result<Response, Refused> {
    let asked: Vec<(&str, &str)> =
        FILTERS.iter().map(|name| (*name, desk.parameter(name))).collect();
    let since = moment(&desk, desk.parameter("since"));
    let query: Vec<(&str, &str)> = asked
        .iter()
        .map(
            |(name, value)| {
                if *name == "since" { (*name, since.as_str()) } else { (*name, *value) }
            },
        )
        .collect();
    let (events, sources, mut frame) = tokio::try_join!(
        desk.api.get::<List<EventRow>>("/inbox", &query),
        desk.api.get::<List<Source>>("/sources", [("limit", "200")]),
        Frame::new(&desk, "Inbox", "inbox")
    )?;
    let with = |name: &str, value: &str| address(&desk, &asked, name, value);
    let status = desk.parameter("status").to_owned();
    let chips = Chip::choice(&STATES, &status, |state| with("status", state));
    frame.live = stream(&desk, &asked);
    let filtered = asked.iter().any(|(_, value)| !value.is_empty());
    let page = Page {
        chips,
        source: desk.parameter("source").to_owned(),
        event_type: desk.parameter("type").to_owned(),
        since: desk.parameter("since").to_owned(),
        q: desk.parameter("q").to_owned(),
        subject: desk.parameter("subject").to_owned(),
        is_first: desk.parameter("cursor").is_empty(),
        more: events.next_cursor.as_deref().map(|cursor| with("cursor", cursor)),
        rows: events.data.into_iter().map(|event| row(&frame, event)).collect(),
        empty: match filtered {
            true => {
                Empty::new("No event is like that", "Nothing in the inbox fits this filter.", [])
            }
            false => Empty::new(
                "No events yet",
                "Every webhook that a source takes in is listed here, with what became of it. Make a source, then send it one:",
                ["sources create github --name shop", "trigger github issues.opened"]
                    .map(|command| frame.ctl(command)),
            ),
        },
        sources: sources.data,
        status,
        frame,
    };
    Ok(page.frame.answer(&page))
}

fn row(frame: &Frame, event: EventRow) -> Row {
    Row {
        to: frame.to(&format!("/inbox/{}", event.id)),
        event_type: visible(&event.event_type),
        mark: Mark::of(&event.status),
        when: When::of(event.received_at, frame.now),
        short: Id::of(&event.id),
        source: visible(&event.source_name.or(event.source).unwrap_or_default()),
        provider: event.provider.unwrap_or_default(),
        subject: visible(&event.subject.unwrap_or_default()),
        duplicates: event.duplicates,
        verified: event.verified,
        id: event.id,
    }
}

/// How far back: a word such as `1h`, or a moment as it is.
fn moment(desk: &Desk, text: &str) -> String {
    let seconds = match text {
        "15m" => 900,
        "1h" => 3_600,
        "24h" => 86_400,
        "7d" => 604_800,
        other => return other.to_owned(),
    };
    let now = desk.dashboard.context.now();
    now.before(std::time::Duration::from_secs(seconds)).to_string()
}

/// The page with one filter changed. Another filter begins at the first page.
pub fn address(desk: &Desk, asked: &[(&str, &str)], name: &str, value: &str) -> String {
    let kept = asked.iter().filter(|(known, _)| *known != name && *known != "cursor");
    let pairs = kept.copied().chain([(name, value)]).filter(|(_, value)| !value.is_empty());
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    match query.is_empty() {
        true => desk.to(&desk.path),
        false => desk.to(&format!("{}?{query}", desk.path)),
    }
}

fn stream(desk: &Desk, asked: &[(&str, &str)]) -> String {
    let kept = asked.iter().filter(|(name, value)| {
        !value.is_empty() && !matches!(*name, "cursor" | "since" | "until")
    });
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(kept).finish();
    desk.to(&format!("/live/inbox?{query}"))
}
