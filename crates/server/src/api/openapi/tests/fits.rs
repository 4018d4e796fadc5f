//! Whether a value is what a schema says: as much of JSON Schema as the description uses.

use std::collections::BTreeSet;

use serde_json::Value;

/// Checks a value, and that it has no property that the schema does not name.
pub fn check(api: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    shape(api, schema, value)?;
    let mut known = BTreeSet::new();
    let named = properties(api, schema, &mut known);
    match value.as_object().filter(|_| named) {
        Some(map) => match map.keys().find(|name| !known.contains(name.as_str())) {
            Some(name) => Err(format!("{name} is not described")),
            None => Ok(()),
        },
        None => Ok(()),
    }
}

fn resolved<'a>(api: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(place) => api.pointer(&place[1..]).expect("every reference resolves"),
        None => schema,
    }
}

/// Gathers the names of properties; whether there is anything to hold a value against.
fn properties<'a>(api: &'a Value, schema: &'a Value, known: &mut BTreeSet<&'a str>) -> bool {
    let schema = resolved(api, schema);
    let own = schema["properties"].as_object();
    known.extend(own.into_iter().flatten().map(|(name, _)| name.as_str()));
    let parts = ["allOf", "oneOf"].iter().filter_map(|word| schema[word].as_array());
    parts.flatten().fold(own.is_some(), |any, part| properties(api, part, known) || any)
}

fn shape(api: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = resolved(api, schema);
    let wrong = |why: &str| Err(format!("{value} {why} {schema}"));
    if !schema["type"].is_null() && !kinds(&schema["type"]).any(|kind| is(value, kind)) {
        return wrong("has not the type of");
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return wrong("is not a word of");
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && !text.starts_with(prefix(pattern))
    {
        return wrong("does not begin as");
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        shape(api, part, value)?;
    }
    if let Some(parts) = schema["oneOf"].as_array()
        && parts.iter().filter(|part| shape(api, part, value).is_ok()).count() != 1
    {
        return wrong("is not just one of");
    }
    if let Some(map) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            if !map.contains_key(name.as_str().unwrap()) {
                return Err(format!("{name} is missing in {value}"));
            }
        }
        for (name, value) in map {
            match schema["properties"].get(name) {
                Some(property) => {
                    check(api, property, value).map_err(|why| format!("{name}: {why}"))?;
                }
                None if schema["additionalProperties"] == false => {
                    return Err(format!("{name} is refused"));
                }
                None => {}
            }
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        if !schema["items"].is_null() {
            check(api, &schema["items"], item).map_err(|why| format!("{index}: {why}"))?;
        }
    }
    Ok(())
}

fn kinds(kind: &Value) -> impl Iterator<Item = &str> {
    let one = kind.as_str();
    one.into_iter().chain(kind.as_array().into_iter().flatten().filter_map(Value::as_str))
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// What a text must begin with, where a pattern says it plainly: `^evt_[0-7]…`.
fn prefix(pattern: &str) -> &str {
    let plain = pattern.strip_prefix('^').unwrap_or_default();
    let special = |c: char| !(c.is_ascii_alphanumeric() || "_:-".contains(c));
    &plain[..plain.find(special).unwrap_or(0)]
}
