//! Google's `fields` parameter: an answer holds what was asked for, and nothing else.

use serde_json::{Map, Value};

/// The parts of a value that an expression such as `replies(id,author/me),nextPageToken` names.
pub(super) fn select(value: &Value, expression: &str) -> Value {
    if expression == "*" {
        return value.clone();
    }
    match value {
        Value::Array(items) => items.iter().map(|item| select(item, expression)).collect(),
        Value::Object(fields) => {
            let mut selected = Map::new();
            for item in items(expression) {
                let (name, inner) = split(item);
                if let Some(field) = fields.get(name) {
                    merge(selected.entry(name), select(field, inner));
                }
            }
            Value::Object(selected)
        }
        other => other.clone(),
    }
}

/// The items of a list, with no cut inside brackets.
fn items(expression: &str) -> Vec<&str> {
    let (mut depth, mut start, mut items) = (0, 0, Vec::new());
    for (place, character) in expression.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                items.push(expression[start..place].trim());
                start = place + 1;
            }
            _ => {}
        }
    }
    items.push(expression[start..].trim());
    items
}

/// A field's name, and what of it is wanted.
fn split(item: &str) -> (&str, &str) {
    match item.find(['(', '/']) {
        None => (item, "*"),
        Some(place) if item[place..].starts_with('/') => (&item[..place], &item[place + 1..]),
        Some(place) => {
            let inner = &item[place + 1..];
            (&item[..place], inner.strip_suffix(')').unwrap_or(inner))
        }
    }
}

fn merge(entry: serde_json::map::Entry<'_>, new: Value) {
    match (entry.or_insert(Value::Null), new) {
        (Value::Object(old), Value::Object(new)) => old.extend(new),
        (place, new) => *place = new,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_asked_for_is_there() {
        let author = json!({"me": true, "name": "A"});
        let value = json!({"replies": [{"id": 1, "content": "x", "author": author}], "kind": "k"});
        let selected = |expression| select(&value, expression);
        assert_eq!(selected("*"), value);
        assert_eq!(selected("kind, nothing"), json!({"kind": "k"}));
        assert_eq!(
            selected("replies(id,author/me)"),
            json!({"replies": [{"id": 1, "author": {"me": true}}]})
        );
        assert_eq!(
            selected("replies/author(me,name)"),
            json!({"replies": [{"author": {"me": true, "name": "A"}}]})
        );
    }
}
