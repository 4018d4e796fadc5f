//! `--reset`: fields that go back to their defaults.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::exit::Usage;

/// The fields that go back, as the API takes them; one cannot be set as well. `field` gives a flag's field.
pub fn resets(
    set: &impl Serialize,
    flags: &[String],
    field: impl Fn(&str) -> String,
) -> anyhow::Result<Map<String, Value>> {
    let set = serde_json::to_value(set)?;
    let mut back = Map::new();
    for flag in flags {
        let field = field(flag);
        if set.get(&field).is_some() {
            return Err(Usage(format!("--{flag} and --reset {flag} contradict each other")).into());
        }
        back.insert(field, Value::Null);
    }
    Ok(back)
}
