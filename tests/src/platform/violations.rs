//! What a stand-in found wrong with what it was sent.

use serde_json::{Map, Value};

/// The most that is kept: enough to see what is wrong.
const KEPT_MAX: usize = 100;

/// What was found, in order.
#[derive(Debug, Default)]
pub struct Violations(Vec<String>);

impl Violations {
    /// Notes one.
    pub fn note(&mut self, violation: impl Into<String>) {
        if self.0.len() < KEPT_MAX {
            self.0.push(violation.into());
        }
    }

    /// Notes each field that the platform does not know.
    pub fn only(&mut self, call: &str, fields: &Map<String, Value>, known: &[&str]) {
        for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
            self.note(format!("{call} has no field {name}"));
        }
    }

    /// Notes a text with more characters than a message may have.
    pub fn at_most(&mut self, call: &str, text: &str, characters_max: usize) {
        let characters = text.chars().count();
        if characters > characters_max {
            self.note(format!("{call} has {characters} characters, more than {characters_max}"));
        }
    }

    pub(super) fn listed(&self) -> &[String] {
        &self.0
    }

    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0)
    }
}

/// Panics unless these, in this order, are what was found; each need only be named by a part of it.
#[track_caller]
pub(super) fn expect(found: &[String], expected: &[&str]) {
    let fits = |(found, expected): (&String, &&str)| found.contains(*expected);
    let all = found.len() == expected.len() && found.iter().zip(expected).all(fits);
    assert!(all, "expected {expected:?}, found {found:?}");
}
