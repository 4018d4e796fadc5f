//! What buttons of pages send to the API.

use serde_json::{Map, Value, json};

use super::desk::Form;

/// Fields of a form as a JSON object: empty ones are left out.
pub fn fields(form: &Form, names: &[&str]) -> Value {
    let filled = names.iter().map(|name| (*name, form.get(name).trim()));
    let filled = filled.filter(|(_, value)| !value.is_empty());
    Value::Object(filled.map(|(name, value)| (name.to_owned(), json!(value))).collect())
}

/// Puts a value in an object.
pub fn put(body: &mut Value, name: &str, value: Value) {
    if let Value::Object(fields) = body {
        fields.insert(name.to_owned(), value);
    }
}

/// An object without fields.
pub fn nothing() -> Value {
    Value::Object(Map::new())
}

/// Names that were typed in one field, apart by commas or blanks.
pub fn names(text: &str) -> Vec<&str> {
    text.split([',', ' ', '\n', '\r']).map(str::trim).filter(|name| !name.is_empty()).collect()
}
