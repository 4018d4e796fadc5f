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
    /// Whether nothing can be received without it.
    pub required: bool,
    /// Whether it must never be shown.
    pub secret: bool,
    /// What it is for, in a sentence or two.
    pub help: &'static str,
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

/// Refuses a setting that the provider does not declare: most likely it is misspelt.
pub(crate) fn only_declared(declared: &[Setting], settings: &Settings) -> Result<(), ConfigError> {
    match settings.keys().find(|name| declared.iter().all(|setting| setting.name != **name)) {
        Some(name) => Err(ConfigError::new(name, "is not a setting of this provider")),
        None => Ok(()),
    }
}

/// `secret`, if there is none.
pub(crate) fn missing_secret(secret: Option<&str>) -> Vec<String> {
    match secret {
        None | Some("") => vec!["secret".to_owned()],
        Some(_) => Vec::new(),
    }
}
