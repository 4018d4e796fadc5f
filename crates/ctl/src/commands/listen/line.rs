//! What became of an event, on one line.

use std::time::Duration;

use serde_json::{Value, json};

use super::body;
use super::deal::{Dealt, Passed};
use crate::commands::following::clock;
use crate::output::{Cell, Paint, Tone};

/// As wide as most providers' names, as most types, and as a shortened id.
const PROVIDER_WIDTH: usize = 10;
const TYPE_WIDTH: usize = 28;
/// How much of an id's end is shown: its beginning is the time, which stands beside it.
const ID_CHARS: usize = 8;

/// The event on a line, and its body below it.
pub fn text(dealt: &Dealt, paint: Paint) -> String {
    let envelope = &dealt.arrived.event.envelope;
    let mut cell = Cell::toned(Tone::Dim, &clock(envelope.received_at.as_deref()))
        .then(Tone::Plain, "  ")
        .then_padded(Tone::Plain, &envelope.provider, PROVIDER_WIDTH)
        .then_padded(Tone::Bold, &envelope.event_type, TYPE_WIDTH)
        .then(Tone::Plain, &short(&dealt.arrived.id));
    if let Some(passed) = &dealt.passed {
        cell = outcome(cell.then(Tone::Plain, "  "), passed);
    }
    if let Some(missing) = &dealt.missing {
        cell = cell.then(Tone::Warn, &format!("  {missing}"));
    }
    let mut text = cell.render(paint);
    if let Some(body) = &dealt.body {
        text.push('\n');
        text.push_str(body::shown(body).trim_end());
    }
    text
}

fn outcome(cell: Cell, passed: &Passed) -> Cell {
    match &passed.status {
        Ok(status) => {
            let tone = if (200..300).contains(status) { Tone::Good } else { Tone::Bad };
            cell.then(tone, &status.to_string())
                .then(Tone::Dim, &format!("  {}", amount(passed.took)))
        }
        Err(why) => cell.then(Tone::Bad, &format!("failed: {why}")),
    }
}

/// One line of JSON, with the whole id.
pub fn as_json(dealt: &Dealt) -> Value {
    let mut line = json!({"event": dealt.arrived.data});
    if let Some(passed) = &dealt.passed {
        let ms = passed.took.as_millis() as u64;
        line["local"] = match &passed.status {
            Ok(status) => json!({"status": status, "ms": ms}),
            Err(error) => json!({"error": error, "ms": ms}),
        };
    }
    if let Some(body) = &dealt.body {
        line["content"] = body::as_json(body);
    }
    if let Some(missing) = &dealt.missing {
        line["missing"] = json!(missing);
    }
    line
}

/// `evt_…7S7ABCDE`
fn short(id: &str) -> String {
    let chars = id.chars().count();
    match id.split_once('_') {
        Some((prefix, _)) if chars > prefix.len() + ID_CHARS + 2 => {
            let end: String = id.chars().skip(chars - ID_CHARS).collect();
            format!("{prefix}_…{end}")
        }
        _ => id.to_owned(),
    }
}

fn amount(took: Duration) -> String {
    match took.as_millis() {
        ms @ ..10_000 => format!("{ms} ms"),
        ms => format!("{} s", ms / 1000),
    }
}

#[cfg(test)]
mod tests {
    use wakepost_client::Arrived;

    use super::*;

    fn dealt(status: Result<u16, String>) -> Dealt {
        let id = "evt_01JX9M9M7S7ABCDEFGHJKMNPQR".to_owned();
        let data = json!({"id": id, "provider": "github", "type": "issues\u{1b}[2J.opened",
            "status": "pending", "received_at": "2026-11-15T09:14:22.000Z"});
        let event = serde_json::from_value(data.clone()).expect("an event");
        let passed = Some(Passed { status, took: Duration::from_millis(12) });
        Dealt { arrived: Arrived { id, event, data }, body: None, passed, missing: None }
    }

    #[test]
    fn an_event_is_one_line_and_cannot_steer_the_terminal() {
        assert_eq!(
            text(&dealt(Ok(200)), Paint(false)),
            "09:14:22Z  github    issues\\u{1b}[2J.opened      evt_…HJKMNPQR  200  12 ms"
        );
        let down = text(&dealt(Err("Connection refused\r\n".to_owned())), Paint(false));
        assert!(down.ends_with("failed: Connection refused\\r\\n"), "{down}");
        assert!(!text(&dealt(Ok(500)), Paint(true)).contains("\u{1b}[2J"));
    }

    #[test]
    fn json_has_the_whole_id_and_the_outcome() {
        let line = as_json(&dealt(Ok(204)));
        assert_eq!(line["event"]["id"], "evt_01JX9M9M7S7ABCDEFGHJKMNPQR");
        assert_eq!(line["local"], json!({"status": 204, "ms": 12}));
        assert_eq!(as_json(&dealt(Err("no".to_owned())))["local"]["error"], "no");
    }
}
