//! Examples, made of what the description says.

use serde_json::{Map, Value, json};

use super::shape::{fields, less_null};

/// How deep an example goes.
const DEPTH_MAX: usize = 4;

/// What follows a prefix in an id.
const ULID: &str = "01JX9M9M7S7Q4Z8K2V6T3R5W1Y";

/// What a call may send: just what it must.
pub fn asked(api: &Value, schema: &Value) -> Value {
    value(api, schema, "", true, 0)
}

/// What it may be answered.
pub fn answered(api: &Value, schema: &Value) -> Value {
    value(api, schema, "", false, 0)
}

/// One value of a field.
pub fn of_field(api: &Value, schema: &Value, name: &str) -> String {
    match value(api, schema, name, true, 0) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn value(api: &Value, schema: &Value, name: &str, least: bool, depth: usize) -> Value {
    let plain = less_null(api, schema);
    let told = [&plain["example"], &plain["examples"][0], &plain["default"], &plain["enum"][0]];
    if let Some(told) = told.into_iter().find(|told| !told.is_null()) {
        return told.clone();
    }
    if let Some(choice) = plain["oneOf"].as_array().and_then(|all| all.first()) {
        return value(api, choice, name, least, depth);
    }
    let kinds = plain["type"].as_array().into_iter().flatten().chain([&plain["type"]]);
    let kind = kinds.filter_map(Value::as_str).find(|kind| *kind != "null");
    let (own, required) = fields(api, plain);
    match kind {
        _ if !own.is_empty() && depth >= DEPTH_MAX => json!({}),
        _ if !own.is_empty() => {
            let wanted = own.into_iter().filter(|(name, _)| !least || required.contains(name));
            let all = wanted
                .map(|(name, field)| (name.to_owned(), value(api, field, name, least, depth + 1)));
            Value::Object(all.collect::<Map<_, _>>())
        }
        Some("array") if depth >= DEPTH_MAX => json!([]),
        Some("array") => json!([value(api, &plain["items"], name, least, depth + 1)]),
        Some("boolean") => json!(true),
        Some("integer") => json!(plain["minimum"].as_u64().unwrap_or(0).max(1)),
        Some("number") => json!(0.5),
        Some("string") => json!(text(plain, name)),
        Some("object") => json!({}),
        _ => json!({"any": "JSON"}),
    }
}

fn text(schema: &Value, name: &str) -> String {
    if let Some(prefix) = schema["pattern"].as_str().and_then(id_prefix) {
        return format!("{prefix}{ULID}");
    }
    let digest = schema["pattern"] == "^[0-9a-f]{64}$";
    match name {
        _ if digest => "9f86d081884c7d65…".to_owned(),
        "slug" | "tenant" => "acme".to_owned(),
        "cron" => "0 9 * * 1".to_owned(),
        "time_zone" => "Europe/Berlin".to_owned(),
        "provider" | "platform" => "github".to_owned(),
        "worker" => "worker-1".to_owned(),
        "note" => "Ada: fixed the cause".to_owned(),
        "lease_token" => "lt_…".to_owned(),
        "type" | "event_type" => "order.created".to_owned(),
        "key" => "email:welcome".to_owned(),
        "subject" => "github:issue:acme/shop#7".to_owned(),
        name if name.ends_with("url") => "https://agent.example.com/hook".to_owned(),
        "" => "…".to_owned(),
        name => name.replace('_', " "),
    }
}

/// `evt_` of `^evt_[0-7]…`; of several, the first.
pub fn id_prefix(pattern: &str) -> Option<String> {
    let rest = pattern.strip_prefix('^')?;
    let (prefix, _) = rest.split_once("_[0-7]")?;
    let first = prefix.trim_matches(['(', ')']).split('|').next()?;
    Some(format!("{first}_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_has_what_is_required_and_ids_look_like_ids() {
        let id = json!({"type": "string", "pattern": "^(job|dlv)_[0-7][0-9A-HJKMNP-TV-Z]{25}$"});
        let schema = json!({"type": "object", "required": ["id", "max"], "properties": {
            "id": id, "max": {"type": "integer", "minimum": 3}, "other": {"type": "string"}}});
        assert_eq!(asked(&json!({}), &schema), json!({"id": format!("job_{ULID}"), "max": 3}));
        assert_eq!(answered(&json!({}), &schema)["other"], "other");
    }
}
