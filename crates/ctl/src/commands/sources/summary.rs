//! A source in short, after it was made or changed.

use jiff::Timestamp;
use wakepost_client::Source;

use super::list::state;
use crate::output::when::absolute;
use crate::output::{Cell, Fields, Tone};

/// What matters at once: where it is, whether it works, and secrets that are not shown again.
pub fn summary(now: Timestamp, source: &Source) -> Fields {
    let warning = source.warning.as_deref().map(|text| Cell::toned(Tone::Warn, text));
    let old_secret = source.previous_expires_at.as_deref();
    let old_secret =
        old_secret.map(|at| Cell::new(&format!("accepted until {}", absolute(now, at))));
    Fields::default()
        .line("source", Cell::new(&source.id))
        .line("provider", Cell::new(&source.provider))
        .line("state", state(source))
        .line("ingest URL", Cell::maybe(source.ingest_url.as_deref()))
        .line_if("warning", warning)
        .line_if("secret", source.secret.as_deref().map(Cell::shown_once))
        .line_if("old secret", old_secret)
        .line_if("executor secret", source.executor_secret.as_deref().map(Cell::shown_once))
        .line_if("callback secret", source.callback_secret.as_deref().map(Cell::shown_once))
}
