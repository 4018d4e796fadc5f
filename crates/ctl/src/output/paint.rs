//! Colour, where it is wanted.

use std::env;
use std::io::{self, IsTerminal};

/// Whether to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint(pub bool);

/// What a text means, and so how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Dim,
    Bold,
    Good,
    Busy,
    Warn,
    Bad,
}

impl Paint {
    /// On a terminal, unless `NO_COLOR` is set or the terminal is dumb.
    pub fn for_stdout() -> Paint {
        let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
        Paint(io::stdout().is_terminal() && !no_color && !dumb)
    }

    /// The text in its tone.
    pub fn text(self, tone: Tone, text: &str) -> String {
        match tone.code() {
            Some(code) if self.0 && !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }
}

impl Tone {
    /// How a status of an event or of work looks.
    pub fn of_status(status: &str) -> Tone {
        match status {
            "succeeded" | "active" => Tone::Good,
            "running" => Tone::Busy,
            "retrying" | "held" | "awaiting_approval" | "paused" => Tone::Warn,
            "dead_letter" => Tone::Bad,
            "cancelled" | "ignored" | "unmapped" | "disabled" => Tone::Dim,
            _ => Tone::Plain,
        }
    }

    fn code(self) -> Option<u8> {
        match self {
            Tone::Plain => None,
            Tone::Dim => Some(2),
            Tone::Bold => Some(1),
            Tone::Good => Some(32),
            Tone::Busy => Some(36),
            Tone::Warn => Some(33),
            Tone::Bad => Some(31),
        }
    }
}
