//! Types of published events: their names, and what is known of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::source::matches;

/// The first words of types that only the gateway publishes.
const OURS: [&str; 4] = ["webhook", "delivery", "job", "alert"];
/// The longest name.
pub const NAME_BYTES_MAX: usize = 128;
/// How many versions a type may have.
pub const VERSIONS_MAX: usize = 50;
/// How many types a tenant may register.
pub const PER_TENANT_MAX: i64 = 1000;
/// The largest description of one type, with its schemas and examples.
pub const TYPE_BYTES_MAX: usize = 256 * 1024;

/// A registered type.
#[derive(Debug, Clone, PartialEq)]
pub struct EventType {
    /// Its name: `order.created`.
    pub name: String,
    /// What is known of it.
    pub spec: EventTypeSpec,
}

/// What is known of a type.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventTypeSpec {
    /// A text for people.
    pub description: String,
    /// Its versions, by `api_version`.
    pub versions: BTreeMap<String, Version>,
}

/// One version of a type.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Version {
    /// What its subject looks like, as JSON Schema; none: anything goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// An example of its subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// What changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

impl EventTypeSpec {
    /// How much it is, as it is stored.
    pub fn bytes(&self) -> usize {
        serde_json::to_string(self).map_or(usize::MAX, |text| text.len())
    }

    /// The newest version: versions are dates, or sort like them.
    pub fn newest(&self) -> Option<(&str, &Version)> {
        self.versions.iter().next_back().map(|(name, version)| (name.as_str(), version))
    }
}

/// Whether a text may be a type's name: lower-case words joined by dots.
pub fn is_name(text: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    text.len() <= NAME_BYTES_MAX && text.contains('.') && text.split('.').all(is_word)
}

/// Whether a text may be a pattern: a name, the beginning of one and `.*`, or `*`.
pub fn is_pattern(text: &str) -> bool {
    match text.strip_suffix(".*") {
        Some(stem) => is_name(&format!("{stem}.x")),
        None => text == "*" || is_name(text),
    }
}

/// Whether only the gateway publishes events of this type.
pub fn is_ours(name: &str) -> bool {
    OURS.contains(&name.split('.').next().unwrap_or_default())
}

/// Whether a type fits a pattern. Our own types must be named.
pub fn fits(pattern: &str, name: &str) -> bool {
    matches(pattern, name) && !(pattern == "*" && is_ours(name))
}

/// Whether a text may be an `api_version`.
pub fn is_version(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
}

/// What should make whoever registers a schema think twice: amounts that are not integers, and fields that look like
/// secrets or personal data. Bounded, since schemas may be large.
pub fn doubts(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    look(schema, "", 0, &mut found);
    found
}

const DOUBTS_MAX: usize = 20;
const DEPTH_MAX: usize = 32;
const AMOUNTS: [&str; 6] = ["amount", "price", "total", "cost", "fee", "balance"];
const SECRETS: [&str; 8] =
    ["password", "secret", "token", "api_key", "apikey", "private_key", "credential", "cvc"];
const PERSONAL: [&str; 7] =
    ["email", "phone", "ssn", "birth", "address", "passport", "card_number"];

fn look(schema: &Value, path: &str, depth: usize, found: &mut Vec<String>) {
    if depth > DEPTH_MAX || found.len() >= DOUBTS_MAX {
        return;
    }
    if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
        for (name, field) in fields {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            if let Some(doubt) = doubt(name, field) {
                found.push(format!("{path} {doubt}"));
            }
            look(field, &path, depth + 1, found);
        }
    }
    for inner in ["items", "allOf", "anyOf", "oneOf", "$defs", "definitions"] {
        match schema.get(inner) {
            Some(Value::Array(all)) => all.iter().for_each(|one| look(one, path, depth + 1, found)),
            Some(Value::Object(all)) if inner.ends_with("efs") || inner == "definitions" => {
                all.values().for_each(|one| look(one, path, depth + 1, found));
            }
            Some(one @ Value::Object(_)) => look(one, path, depth + 1, found),
            _ => {}
        }
    }
    found.truncate(DOUBTS_MAX);
}

fn doubt(name: &str, field: &Value) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let kind = field.get("type").and_then(Value::as_str);
    if has(&SECRETS) {
        Some("looks like a secret")
    } else if has(&PERSONAL) {
        Some("looks like personal data")
    } else if has(&AMOUNTS) && kind == Some("number") {
        Some("is an amount and not an integer: fractions of money get lost in floating point")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_words_joined_by_dots() {
        for name in ["order.created", "a.b.c", "user_account.deleted", "v2.order.paid"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "order",
            "Order.created",
            "order.",
            ".x",
            "order..x",
            "order created",
            "o.é",
            "1.a",
            "*",
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn patterns_are_names_beginnings_or_all() {
        for pattern in ["*", "order.*", "order.created", "a.b.*"] {
            assert!(is_pattern(pattern), "{pattern}");
        }
        for pattern in ["", "**", "order*", "*.created", ".*", "Order.*", "order.*.*"] {
            assert!(!is_pattern(pattern), "{pattern}");
        }
    }

    #[test]
    fn all_does_not_mean_ours() {
        assert!(fits("*", "order.created") && fits("order.*", "order.created"));
        for ours in ["webhook.disabled", "delivery.dead_lettered", "job.succeeded", "alert.fired"] {
            assert!(is_ours(ours) && !fits("*", ours) && fits(ours, ours));
        }
        assert!(fits("webhook.*", "webhook.disabled"));
        assert!(!is_ours("webhooks.created") && !is_ours("jobs.x"));
    }

    #[test]
    fn doubtful_fields_are_found_wherever_they_are() {
        let schema = json!({"properties": {
            "amount": {"type": "number"},
            "total": {"type": "integer"},
            "customer": {"properties": {"email": {"type": "string"}}},
            "lines": {"items": {"properties": {"unit_price": {"type": "number"}}}},
            "api_key": {"type": "string"}}});
        let found = doubts(&schema).join("; ");
        for part in [
            "amount is",
            "customer.email looks",
            "lines.unit_price is",
            "api_key looks like a secret",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
        assert!(!found.contains("total"));
    }

    proptest! {
        #[test]
        fn a_name_fits_itself_its_beginning_and_nothing_longer(name in "[a-z]{1,5}(\\.[a-z]{1,5}){1,3}") {
            prop_assert!(is_name(&name) && fits(&name, &name));
            let stem = name.rsplit_once('.').unwrap().0;
            let pattern = format!("{stem}.*");
            prop_assert!(is_pattern(&pattern) && fits(&pattern, &name));
            let longer = format!("{name}x");
            prop_assert!(!fits(&name, &longer));
        }
    }
}
