//! Shapes as a page shows them: one row for each field, fields of fields below it.

use serde_json::Value;

use super::example::id_prefix;
use super::text::{Line, line};

/// How deep fields are shown.
const DEPTH_MAX: usize = 3;
/// How many rows one shape may have.
const ROWS_MAX: usize = 160;

/// One field.
pub struct Row {
    /// Its name; of one of several shapes, which.
    pub name: String,
    /// How deep it lies.
    pub depth: usize,
    /// Its type.
    pub kind: String,
    /// Whether it must be there.
    pub required: bool,
    /// Whether it only says which of several shapes follows.
    pub is_choice: bool,
    /// What it is.
    pub about: Line,
    /// Between what it must be.
    pub bounds: Vec<String>,
}

/// The rows of a shape.
pub fn rows(api: &Value, schema: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    below(api, schema, 0, &mut rows);
    rows
}

/// What a reference leads to.
pub fn resolved<'a>(api: &'a Value, schema: &'a Value) -> &'a Value {
    let place = schema["$ref"].as_str().and_then(|place| place.strip_prefix('#'));
    place.and_then(|place| api.pointer(place)).unwrap_or(schema)
}

/// The one shape beside `null`, if there is just one.
pub fn less_null<'a>(api: &'a Value, schema: &'a Value) -> &'a Value {
    let plain = resolved(api, schema);
    let mut parts = plain["oneOf"].as_array().into_iter().flatten().filter(|p| p["type"] != "null");
    match (parts.next(), parts.next()) {
        (Some(only), None) => less_null(api, only),
        _ => plain,
    }
}

/// All of the shape's own fields, those of its parts too, and which are required.
pub fn fields<'a>(api: &'a Value, schema: &'a Value) -> (Vec<(&'a str, &'a Value)>, Vec<&'a str>) {
    let plain = less_null(api, schema);
    let own = plain["properties"].as_object().into_iter().flatten();
    let mut fields: Vec<_> = own.map(|(name, field)| (name.as_str(), field)).collect();
    let needed = plain["required"].as_array().into_iter().flatten();
    let mut required: Vec<_> = needed.filter_map(Value::as_str).collect();
    for part in plain["allOf"].as_array().into_iter().flatten() {
        let (more, needed) = self::fields(api, part);
        fields.extend(more);
        required.extend(needed);
    }
    // What must be there comes first.
    fields.sort_by_key(|(name, _)| !required.contains(name));
    (fields, required)
}

/// What a shape is called.
pub fn kind(api: &Value, schema: &Value) -> String {
    let plain = less_null(api, schema);
    let or_null = is_nullable(api, schema);
    let word = if let Some(words) = plain["enum"].as_array() {
        let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
        if words.len() == 1 { format!("\"{}\"", words[0]) } else { "word".to_owned() }
    } else if plain["oneOf"].is_array() {
        "one of".to_owned()
    } else if plain["allOf"].is_array() || plain["properties"].is_object() {
        "object".to_owned()
    } else {
        let kinds = plain["type"].as_array().into_iter().flatten().chain([&plain["type"]]);
        match kinds.filter_map(Value::as_str).find(|kind| *kind != "null") {
            Some("array") => format!("list of {}", plural(&kind(api, &plain["items"]))),
            Some("object") => "map".to_owned(),
            Some("string") if plain["format"] == "date-time" => "time".to_owned(),
            Some(kind) => kind.to_owned(),
            None => "any JSON".to_owned(),
        }
    };
    if or_null { format!("{word} or null") } else { word }
}

fn plural(kind: &str) -> String {
    match kind {
        "any JSON" | "one of" => "any".to_owned(),
        kind if kind.ends_with(" or null") => kind.to_owned(),
        kind => format!("{kind}s"),
    }
}

fn is_nullable(api: &Value, schema: &Value) -> bool {
    let plain = resolved(api, schema);
    let among = |word: &str| {
        let parts = plain[word].as_array().into_iter().flatten();
        parts.into_iter().any(|part| part == "null" || part["type"] == "null")
    };
    among("oneOf") || among("type")
}

/// The words for what a value may be.
pub fn bounds(api: &Value, schema: &Value) -> Vec<String> {
    let plain = less_null(api, schema);
    let mut told = Vec::new();
    let number = |name: &str| plain[name].as_f64().map(shown);
    let pair = |low: Option<String>, high: Option<String>, of: &str| match (low, high) {
        (Some(low), Some(high)) => Some(format!("{low} to {high}{of}")),
        (Some(low), None) => Some(format!("at least {low}{of}")),
        (None, Some(high)) => Some(format!("at most {high}{of}")),
        (None, None) => None,
    };
    told.extend(pair(number("minimum"), number("maximum"), ""));
    told.extend(number("exclusiveMinimum").map(|low| format!("more than {low}")));
    let floor = |name: &str| number(name).filter(|low| low != "0" && low != "1");
    told.extend(pair(floor("minLength"), number("maxLength"), " characters"));
    told.extend(pair(floor("minItems"), number("maxItems"), " items"));
    if let Some(words) = plain["enum"].as_array().filter(|words| words.len() > 1) {
        let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
        told.push(words.join(" · "));
    }
    if let Some(pattern) = plain["pattern"].as_str() {
        told.push(id_prefix(pattern).map_or(pattern.to_owned(), |prefix| format!("{prefix}…")));
    }
    if !plain["default"].is_null() {
        told.push(format!("default {}", plain["default"]));
    }
    told
}

fn shown(number: f64) -> String {
    if number.fract() == 0.0 { format!("{number:.0}") } else { number.to_string() }
}

/// What is said of a shape: where it is used, or where it is described.
fn about<'a>(api: &'a Value, schema: &'a Value) -> &'a str {
    let here = schema["description"].as_str();
    let parts = schema["oneOf"].as_array().into_iter().flatten();
    let in_part = || parts.into_iter().find_map(|part| part["description"].as_str());
    here.or_else(in_part).or_else(|| less_null(api, schema)["description"].as_str()).unwrap_or("")
}

fn below(api: &Value, schema: &Value, depth: usize, rows: &mut Vec<Row>) {
    if depth >= DEPTH_MAX || rows.len() >= ROWS_MAX {
        return;
    }
    let plain = less_null(api, schema);
    if !plain["items"].is_null() {
        return below(api, &plain["items"], depth, rows);
    }
    let (fields, required) = fields(api, schema);
    for (name, field) in fields {
        if rows.len() >= ROWS_MAX {
            return;
        }
        rows.push(Row {
            name: name.to_owned(),
            depth,
            kind: kind(api, field),
            required: required.contains(&name),
            is_choice: false,
            about: line(about(api, field)),
            bounds: bounds(api, field),
        });
        below(api, field, depth + 1, rows);
    }
    let choices = plain["oneOf"].as_array().into_iter().flatten();
    for (index, choice) in choices.filter(|choice| choice["type"] != "null").enumerate() {
        let (own, _) = self::fields(api, choice);
        let named = own.iter().find_map(|(name, field)| match name {
            &"kind" | &"type" => less_null(api, field)["enum"][0].as_str(),
            _ => None,
        });
        let referred = choice["$ref"].as_str().and_then(|place| place.rsplit('/').next());
        let name = named.or(referred);
        rows.push(Row {
            name: name.map_or_else(|| format!("shape {}", index + 1), str::to_owned),
            depth,
            kind: kind(api, choice),
            required: false,
            is_choice: true,
            about: line(about(api, choice)),
            bounds: Vec::new(),
        });
        below(api, choice, depth + 1, rows);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_shape_is_told_field_by_field_with_its_bounds() {
        let api = json!({"components": {"schemas": {"Count": {"type": "integer", "minimum": 1, "maximum": 500}}}});
        let schema = json!({"type": "object", "required": ["worker"], "properties": {
            "max": {"oneOf": [{"$ref": "#/components/schemas/Count", "description": "How many."}, {"type": "null"}]},
            "worker": {"type": "string", "maxLength": 100},
            "jobs": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string"}}}},
        }});
        let rows = rows(&api, &schema);
        let names: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.depth)).collect();
        assert_eq!(names, [("worker", 0), ("jobs", 0), ("id", 1), ("max", 0)]);
        assert!(rows[0].required && !rows[3].required);
        assert_eq!(rows[3].kind, "integer or null");
        assert_eq!(rows[3].bounds, ["1 to 500"]);
        assert_eq!(rows[1].kind, "list of objects");
    }
}
