//! A piece of output: escaped when it is made, coloured when it is printed.

use std::fmt::Display;

use jiff::Timestamp;

use super::when::relative;
use super::{Paint, Tone, escape};

/// Text for a table or a field list. Whatever goes in is escaped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    spans: Vec<(Tone, String)>,
}

impl Cell {
    /// Plain text.
    pub fn new(text: &str) -> Cell {
        Cell::toned(Tone::Plain, text)
    }

    /// Text in a tone.
    pub fn toned(tone: Tone, text: &str) -> Cell {
        Cell::default().then(tone, text)
    }

    /// A status, in its colour.
    pub fn status(status: &str) -> Cell {
        Cell::toned(Tone::of_status(status), status)
    }

    /// Text, or a dash if there is none.
    pub fn maybe(text: Option<&str>) -> Cell {
        match text {
            Some(text) if !text.is_empty() => Cell::new(text),
            _ => Cell::toned(Tone::Dim, "-"),
        }
    }

    /// A secret, and that it is not shown again.
    pub fn shown_once(secret: &str) -> Cell {
        Cell::toned(Tone::Bold, secret).then(Tone::Dim, "  (shown once: keep it now)")
    }

    /// A number, or a dash if there is none.
    pub fn number(number: Option<impl Display>) -> Cell {
        Cell::maybe(number.map(|number| number.to_string()).as_deref())
    }

    /// How long ago, or in how long; a dash if there is no time.
    pub fn ago(now: Timestamp, at: Option<&str>) -> Cell {
        Cell::maybe(at.map(|at| relative(now, at)).as_deref())
    }

    /// Text for people, cut at its end so that a table stays readable. Not for ids.
    pub fn clipped(text: Option<&str>, chars_max: usize) -> Cell {
        match text {
            Some(text) if text.chars().count() > chars_max => {
                let kept: String = text.chars().take(chars_max.saturating_sub(1)).collect();
                Cell::new(&format!("{}…", kept.trim_end()))
            }
            other => Cell::maybe(other),
        }
    }

    /// More text after it.
    pub fn then(mut self, tone: Tone, text: &str) -> Cell {
        self.spans.push((tone, escape(text).into_owned()));
        self
    }

    /// More text after it, filled up with spaces, and always with one at its end.
    pub fn then_padded(self, tone: Tone, text: &str, width: usize) -> Cell {
        let before = self.width();
        let cell = self.then(tone, text);
        let fill = (before + width).saturating_sub(cell.width()).max(1);
        cell.then(Tone::Plain, &" ".repeat(fill))
    }

    /// How wide it is.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// As it is printed.
    pub fn render(&self, paint: Paint) -> String {
        let spans = self.spans.iter();
        spans.map(|(tone, text)| paint.text(*tone, text)).collect()
    }

    /// As it is printed, filled up with spaces.
    pub fn padded(&self, paint: Paint, width: usize) -> String {
        let fill = " ".repeat(width.saturating_sub(self.width()));
        self.render(paint) + &fill
    }
}
