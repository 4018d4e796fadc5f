//! `webhookctl webhooks list`

use jiff::Timestamp;
use wakepost_client::Webhook;

use crate::output::when::relative;
use crate::output::{Cell, Row, Tone};

/// As many event types as a table can show, in characters.
const EVENTS_CHARS_MAX: usize = 40;

impl Row for Webhook {
    const THINGS: &'static str = "webhooks";
    const COLUMNS: &'static [&'static str] = &["WEBHOOK", "STATE", "EVENTS", "URL", "DESCRIPTION"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            state(now, self),
            Cell::clipped(Some(&self.events.join(", ")), EVENTS_CHARS_MAX),
            place(self),
            Cell::maybe(self.description.as_deref()),
        ]
    }
}

/// Whether it gets its events, and what stands in the way.
pub fn state(now: Timestamp, webhook: &Webhook) -> Cell {
    let since = webhook.circuit.opened_at.as_deref().map(|at| relative(now, at));
    let since = since.map(|since| format!(", opened {since}")).unwrap_or_default();
    match (webhook.status.as_str(), webhook.circuit.state.as_str()) {
        ("disabled", _) => match webhook.disabled_reason.as_deref() {
            Some(reason) => Cell::toned(Tone::Bad, &format!("disabled: {reason}")),
            None => Cell::status("disabled"),
        },
        ("active", "open") => Cell::toned(Tone::Bad, &format!("circuit open{since}")),
        ("active", "half_open") => Cell::toned(Tone::Warn, &format!("circuit half open{since}")),
        (status, _) => Cell::status(status),
    }
}

/// Where its deliveries go.
pub fn place(webhook: &Webhook) -> Cell {
    match webhook.mode.as_deref() {
        Some("pull") => Cell::toned(Tone::Dim, "(pull)"),
        _ => Cell::maybe(webhook.url.as_deref()),
    }
}
