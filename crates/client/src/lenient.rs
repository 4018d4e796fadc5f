//! Reading answers of servers that are newer or older: a field in another shape is as good as absent.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads a field, or its default when it is null or has another shape.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Reads a list of names, each a string or an object with a `name`.
pub(crate) fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let values = Option::<Vec<Value>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(values
        .iter()
        .filter_map(|value| value.as_str().or_else(|| value.get("name")?.as_str()))
        .map(str::to_owned)
        .collect())
}

/// Reads sentences: one, or a list of them, each a string or an object with a `message` and perhaps a `field`.
pub(crate) fn sentences<'de, D>(deserializer: D) -> Result<Vec<String>, D::Error>
where
    D: Deserializer<'de>,
{
    let said = match Value::deserialize(deserializer)? {
        Value::Array(each) => each,
        Value::Null => Vec::new(),
        one => vec![one],
    };
    let sentence = |value: &Value| {
        let message = value.as_str().or_else(|| value.get("message")?.as_str());
        match (value.get("field").and_then(Value::as_str), message) {
            (Some(field), Some(message)) => format!("{field}: {message}"),
            (None, Some(message)) => message.to_owned(),
            (_, None) => value.to_string(),
        }
    };
    Ok(said.iter().map(sentence).collect())
}

/// Reads text; anything else becomes its JSON.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    })
}

/// Reads a value that may be null, keeping the difference between null and absent out of the type.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
