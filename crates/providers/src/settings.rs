//! A source's settings: what a provider declares, and how what was given is read.

use serde_json::{Map, Value};

/// A source's settings, the secret ones merged in.
pub type Settings = Map<String, Value>;

/// One setting that a provider understands, so that the CLI and the dashboard can ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its name in the API.
    pub name: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// What cannot be done without it.
    pub need: Need,
    /// Whether it must never be shown.
    pub secret: bool,
    /// Whether it decides where the source's secrets are sent, or how well they are hidden on their way.
    pub destination: bool,
    /// What it is for, in a sentence or two.
    pub help: &'static str,
    /// What it may look like.
    pub example: &'static str,
}

/// What cannot be done without a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing can be received.
    Receiving,
    /// Nothing can be answered; receiving goes on.
    Replying,
    /// Nothing: it may be left out.
    Nothing,
}

impl Setting {
    /// One that may be left out.
    pub const fn optional(name: &'static str, label: &'static str, help: &'static str) -> Setting {
        Setting {
            name,
            label,
            need: Need::Nothing,
            secret: false,
            destination: false,
            help,
            example: "",
        }
    }

    /// One without which nothing can be received.
    pub const fn required(name: &'static str, label: &'static str, help: &'static str) -> Setting {
        Setting { need: Need::Receiving, ..Setting::optional(name, label, help) }
    }

    /// One without which nothing can be answered.
    pub const fn for_replies(
        name: &'static str,
        label: &'static str,
        help: &'static str,
    ) -> Setting {
        Setting { need: Need::Replying, ..Setting::optional(name, label, help) }
    }

    /// The same, never to be shown.
    pub const fn secret(self) -> Setting {
        Setting { secret: true, ..self }
    }

    /// The same, deciding where the source's secrets are sent: who changes it has to know them.
    pub const fn destination(self) -> Setting {
        Setting { destination: true, ..self }
    }

    /// The same, with what it may look like.
    pub const fn example(self, example: &'static str) -> Setting {
        Setting { example, ..self }
    }
}

/// A setting or secret is malformed; the message never repeats its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {message}")]
pub struct ConfigError {
    /// Which one, by its name in the API.
    pub field: String,
    /// What is wrong with it, as the rest of a sentence that begins with the name.
    pub message: String,
}

impl ConfigError {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> ConfigError {
        ConfigError { field: field.into(), message: message.into() }
    }
}

/// One text setting; empty is the same as absent.
pub(crate) fn text<'s>(settings: &'s Settings, name: &str) -> Result<Option<&'s str>, ConfigError> {
    match settings.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(_) => Err(ConfigError::new(name, "must be a text")),
    }
}

/// A text setting that holds a list, with commas between.
pub(crate) fn list<'s>(settings: &'s Settings, name: &str) -> Result<Vec<&'s str>, ConfigError> {
    let items = text(settings, name)?.unwrap_or_default().split(',').map(str::trim);
    Ok(items.filter(|item| !item.is_empty()).collect())
}

/// The needed settings that are not there. Refuses one that the provider does not declare, most likely
/// misspelt, and one that is not a text.
pub(crate) fn missing(
    declared: &[Setting],
    settings: &Settings,
) -> Result<Vec<String>, ConfigError> {
    for name in settings.keys() {
        if declared.iter().all(|setting| setting.name != *name) {
            return Err(ConfigError::new(name, "is not a setting of this provider"));
        }
    }
    let mut missing = Vec::new();
    for setting in declared {
        let given = text(settings, setting.name)?;
        if given.is_none() && setting.need != Need::Nothing {
            missing.push(setting.name.to_owned());
        }
    }
    Ok(missing)
}

/// The examples of the settings without which nothing can be received.
pub fn examples(declared: &[Setting]) -> Settings {
    let needed = declared.iter().filter(|setting| setting.need == Need::Receiving);
    needed.map(|setting| (setting.name.to_owned(), setting.example.into())).collect()
}
