//! `webhookctl sources list`

use jiff::Timestamp;
use wakepost_client::Source;
use wakepost_providers::{Need, registry};

use crate::output::{Cell, Row, Tone};

impl Row for Source {
    const THINGS: &'static str = "sources";
    const COLUMNS: &'static [&'static str] = &["SOURCE", "PROVIDER", "NAME", "STATE", "INGEST URL"];

    fn cells(&self, _now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(&self.provider),
            Cell::maybe(Some(&self.name)),
            state(self),
            Cell::maybe(self.ingest_url.as_deref()),
        ]
    }
}

/// Whether it works, and what stands in the way.
pub fn state(source: &Source) -> Cell {
    if source.enabled == Some(false) {
        Cell::toned(Tone::Dim, "disabled")
    } else if let missing = missing_to_receive(source)
        && !missing.is_empty()
    {
        Cell::toned(Tone::Warn, &format!("missing {}", missing.join(", ")))
    } else if source.unsigned {
        Cell::toned(Tone::Warn, "unsigned")
    } else {
        Cell::toned(Tone::Good, "ready")
    }
}

/// What it must be told before it can receive; what only replies need stands in nobody's way.
fn missing_to_receive(source: &Source) -> Vec<&str> {
    let provider = registry::find(&source.provider);
    let only_replies = |name: &str| {
        let mut settings = provider.into_iter().flat_map(|provider| provider.settings());
        settings.any(|setting| setting.name == name && setting.need == Need::Replying)
    };
    let missing = source.missing_settings.iter().map(String::as_str);
    missing.filter(|name| !only_replies(name)).collect()
}
