//! How often each kind of call was answered how: what a run of sequences has looked at.

use std::collections::BTreeMap;
use std::fmt;

use crate::call::{Answer, Call};

#[derive(Debug, Default)]
pub struct Tally(BTreeMap<(String, String), u64>);

impl Tally {
    pub fn count(&mut self, call: &Call, answer: &Answer) {
        let said = match answer {
            Ok(text) => word(text),
            Err(refused) => format!("{refused:?}"),
        };
        *self.0.entry((word(&format!("{call:?}")), said)).or_default() += 1;
    }
}

/// What is before the first thing that differs each time; of a list, whether it is empty.
fn word(text: &str) -> String {
    let list = if text.starts_with("[]") { "none" } else { "some" };
    let word = text.split(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default();
    if word.is_empty() { list.to_owned() } else { word.to_owned() }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((call, said), count) in &self.0 {
            writeln!(f, "{count:7}  {call} → {said}")?;
        }
        Ok(())
    }
}
