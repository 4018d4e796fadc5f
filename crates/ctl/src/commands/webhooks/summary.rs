//! A webhook in short, after it was made or changed.

use jiff::Timestamp;
use wakepost_client::Webhook;

use super::list::{place, state};
use crate::output::{Cell, Fields, Tone};

/// What matters at once: where it leads, whether it works, and the secret, which is not shown again.
pub fn summary(now: Timestamp, webhook: &Webhook) -> Fields {
    let warning = webhook.warning.as_deref().map(|text| Cell::toned(Tone::Warn, text));
    Fields::default()
        .line("webhook", Cell::new(&webhook.id))
        .line("url", place(webhook))
        .line("events", Cell::maybe(Some(&webhook.events.join(", "))))
        .line("state", state(now, webhook))
        .line_if("warning", warning)
        .line_if("secret", webhook.secret.as_deref().map(Cell::shown_once))
        .line_if("public key", webhook.public_key.as_deref().map(Cell::new))
}
