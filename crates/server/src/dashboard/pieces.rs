//! The pieces that pages are made of, each one template, used everywhere.

use askama::Template;
use askama::filters::HtmlSafe;
use serde_json::Value;
use wakepost_domain::Timestamp;

use super::payload::{Payload, visible};
use super::words;

/// Where something stands: a word and a shape as well as a colour.
#[derive(Template)]
#[template(
    source = r#"<span class="mark {{ kind }}"><svg viewBox="0 0 12 12" aria-hidden="true"><path d="{{ shape }}"/></svg>{{ word }}</span>"#,
    ext = "html"
)]
pub struct Mark {
    kind: &'static str,
    shape: &'static str,
    word: String,
}

// Drawn, because not every system's fonts have them.
const DISC: &str = "M6 2.5a3.5 3.5 0 100 7 3.5 3.5 0 000-7z";
const HALF: &str = "M6 2.5a3.5 3.5 0 100 7zM6 2.5a3.5 3.5 0 010 7M6 2.5a3.5 3.5 0 010 7";
const RING: &str = "M6 2.8a3.2 3.2 0 100 6.4 3.2 3.2 0 000-6.4z";
const AGAIN: &str = "M9.2 6A3.2 3.2 0 112.8 6 3.2 3.2 0 018 3.5M8.2 1.2v2.6H5.6";
const BARS: &str = "M4 3v6M8 3v6";
const CROSS: &str = "M3.2 3.2l5.6 5.6M8.8 3.2L3.2 8.8";
const DASH: &str = "M3 6h6";

impl Mark {
    /// The mark of a status.
    pub fn of(status: &str) -> Mark {
        let (kind, shape) = look(status);
        Mark { kind, shape, word: status.replace('_', " ") }
    }
}

/// How a status looks: its colour and its shape.
fn look(status: &str) -> (&'static str, &'static str) {
    match status {
        "succeeded" | "committed" | "accepted" | "active" | "closed" | "enabled" | "completed"
        | "done" | "resolved" | "ok" | "ready" => ("done", DISC),
        "running" | "half_open" | "begun" => ("running", HALF),
        "retrying" | "failed" | "lease_expired" | "expired" | "aborted" | "warning" => {
            ("retrying", AGAIN)
        }
        "held" | "awaiting_approval" | "proposed" | "paused" | "in_doubt" | "unknown"
        | "firing" => ("held", BARS),
        "dead_letter" | "disabled" | "open" | "critical" | "bad_signature" | "bad_timestamp"
        | "rejected" => ("dead", CROSS),
        "cancelled" | "ignored" | "unmapped" | "duplicate" => ("gone", DASH),
        _ => ("waiting", RING),
    }
}

/// The colour of a status.
pub fn colour(status: &str) -> &'static str {
    look(status).0
}

/// An id, shortened, with a button that copies it.
#[derive(Template)]
#[template(
    source = r#"<span class="id">{% if let Some(to) = to %}<a href="{{ to }}" title="{{ id }}">{{ short }}</a>{% else %}<span title="{{ id }}">{{ short }}</span>{% endif %}<button type="button" class="copy" data-copy="{{ id }}" aria-label="Copy {{ id }}" hidden><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M5.5 5.5h7v8h-7zM3.5 10.5v-8h7"/></svg></button></span>"#,
    ext = "html"
)]
pub struct Id {
    id: String,
    short: String,
    to: Option<String>,
}

impl Id {
    /// An id that leads nowhere.
    pub fn of(id: &str) -> Id {
        Id { id: id.to_owned(), short: words::short(id), to: None }
    }

    /// An id that leads to a page.
    pub fn link(id: &str, to: String) -> Id {
        Id { to: Some(to), ..Id::of(id) }
    }
}

/// A moment: how long ago, and exactly on hover.
#[derive(Template)]
#[template(source = r#"<time datetime="{{ at }}" title="{{ at }}">{{ ago }}</time>"#, ext = "html")]
pub struct When {
    at: Timestamp,
    ago: String,
}

impl When {
    /// A moment, seen from now.
    pub fn of(at: Timestamp, now: Timestamp) -> When {
        When { at, ago: words::ago(at, now) }
    }
}

/// Text to copy: what it is, and the text itself, which is there without script too.
#[derive(Template)]
#[template(path = "pieces/command.html")]
pub struct Command {
    label: &'static str,
    text: String,
}

impl Command {
    /// A command, or an address, ready to copy.
    pub fn new(label: &'static str, text: impl Into<String>) -> Command {
        Command { label, text: text.into() }
    }

    /// The same under another name.
    pub fn named(self, label: &'static str) -> Command {
        Command { label, ..self }
    }
}

/// What would be here, and the exact commands that put something here.
#[derive(Template)]
#[template(path = "pieces/empty.html")]
pub struct Empty {
    title: String,
    text: &'static str,
    commands: Vec<Command>,
}

impl Empty {
    /// Nothing is here yet. The commands are the frame's own, so that they are about the tenant that is looked at.
    pub fn new(
        title: &str,
        text: &'static str,
        commands: impl IntoIterator<Item = Command>,
    ) -> Empty {
        let commands = commands.into_iter().map(|command| command.named("")).collect();
        Empty { title: title.to_owned(), text, commands }
    }
}

/// What was just done, on the page of what it was done to: in words, with what is shown once, and what was answered.
#[derive(Template, Default)]
#[template(path = "pieces/outcome.html")]
pub struct Outcome {
    told: Option<String>,
    secret: Option<Command>,
    steps: Vec<String>,
    answer: Option<Payload>,
}

impl Outcome {
    /// Whether nothing was done: the page can then be read anew, and shows nothing that would be lost.
    pub fn is_none(&self) -> bool {
        self.told.is_none()
    }

    /// Something was made or changed; `made` may have a secret that is shown this once.
    pub fn made(told: impl Into<String>, made: &Value) -> Outcome {
        let secret = made["secret"].as_str().map(|secret| Command::new("secret", secret));
        Outcome { told: Some(told.into()), secret, ..Outcome::default() }
    }

    /// A source was set up at its provider, or its operator must do so.
    pub fn set_up(answer: &Value) -> Outcome {
        let steps = answer["steps"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let token = answer["verification_token"].as_str();
        let told = match answer["status"].as_str() {
            Some("registered") => "Registered at the provider.",
            _ => "This provider is set up by hand:",
        };
        Outcome {
            told: Some(told.to_owned()),
            secret: token.map(|token| Command::new("token", token)),
            steps: steps.map(visible).collect(),
            answer: None,
        }
    }

    /// Something was asked, and answered.
    pub fn answered(told: impl Into<String>, answer: &Value) -> Outcome {
        let answer = Some(Payload::json(answer));
        Outcome { told: Some(told.into()), answer, ..Outcome::default() }
    }
}

/// A filter chip: what it chooses, and whether it is chosen.
pub struct Chip {
    /// What it says.
    pub label: String,
    /// Where it leads.
    pub to: String,
    /// Whether it is on.
    pub on: bool,
}

impl Chip {
    /// A chip for all, and one for each word, by where it leads.
    pub fn choice(words: &[&str], chosen: &str, to: impl Fn(&str) -> String) -> Vec<Chip> {
        let chip = |word: &&str| Chip {
            label: if word.is_empty() { "all".to_owned() } else { word.replace('_', " ") },
            to: to(word),
            on: *word == chosen,
        };
        std::iter::once(&"").chain(words).map(chip).collect()
    }
}

/// Something that a button does, behind a fold that says what will happen, so that nothing is done by one click.
#[derive(Template)]
#[template(path = "pieces/act.html")]
pub struct Act {
    /// What the button says.
    pub label: &'static str,
    /// What will happen.
    pub text: String,
    /// Where the form goes.
    pub to: String,
    /// What proves that the form is ours.
    pub csrf: String,
    /// Whether a note is asked for.
    pub note: Note,
    /// Fields that are sent along.
    pub hidden: Vec<(&'static str, String)>,
    /// Fields that can be filled in.
    pub fields: Vec<Field>,
    /// How it looks: `plain`, `main` or `danger`.
    pub style: &'static str,
    /// The key that opens it.
    pub key: &'static str,
}

/// A field of an [`Act`].
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub label: &'static str,
    /// What it begins with.
    pub value: String,
    /// What to choose from; none: any text.
    pub choices: Vec<String>,
}

impl Field {
    /// A field to choose from a few words; the first is chosen.
    pub fn choice(name: &'static str, label: &'static str, choices: &[&str]) -> Field {
        let choices: Vec<String> = choices.iter().map(|choice| (*choice).to_owned()).collect();
        Field { name, label, value: choices.first().cloned().unwrap_or_default(), choices }
    }
}

/// Whether an act asks for a note.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// It has none.
    None,
    /// It may have one.
    May,
    /// It must have one.
    Must,
}

macro_rules! markup {
    ($($piece:ty),*) => { $(impl HtmlSafe for $piece {})* };
}

// Each is rendered by its own template, which escapes what it is given.
markup!(Mark, Id, When, Command, Empty, Outcome, Act);
