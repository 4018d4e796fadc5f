//! What may be said of a type of event: its name, its versions, and schemas that their examples fit.

use serde_json::Value;
use wakepost_domain::event_type::{
    EventTypeSpec, TYPE_BYTES_MAX, VERSIONS_MAX, Version, doubts, is_name, is_ours, is_version,
};
use wakepost_domain::limits::truncate;

use super::super::error::ApiError;
use crate::directory::{misfit, schema};

/// The most doubts that are told of one type.
const WARNINGS_MAX: usize = 50;
/// How much of a name that cannot be is quoted.
const QUOTED_BYTES_MAX: usize = 100;
/// The longest complaint about a schema, which may quote it.
const COMPLAINT_BYTES_MAX: usize = 500;

/// A name has the form of one, and is nobody else's.
pub fn name(name: &str) -> Result<(), ApiError> {
    if !is_name(name) {
        let text = "must be lower-case words joined by dots, such as order.created: a resource, then what happened";
        return Err(ApiError::field("name", text));
    }
    match is_ours(name) {
        false => Ok(()),
        true => Err(ApiError::field("name", "begins with a word of Wakepost's own types")),
    }
}

/// Checks all that is said of a type. Answers what should make one think twice, the newest version's first.
pub fn spec(spec: &EventTypeSpec) -> Result<Vec<String>, ApiError> {
    if spec.versions.len() > VERSIONS_MAX {
        return Err(ApiError::field("versions", format!("may be at most {VERSIONS_MAX}")));
    }
    if let Some(odd) = spec.versions.keys().find(|name| !is_version(name)) {
        let field = format!("versions.{}", truncate(odd, QUOTED_BYTES_MAX));
        let text = "must be named with 1 to 64 letters, digits, dots, dashes and underscores";
        return Err(ApiError::field(field, text));
    }
    if spec.bytes() > TYPE_BYTES_MAX {
        let text = format!("a type may have at most {TYPE_BYTES_MAX} bytes with all its versions");
        return Err(ApiError::field("versions", text));
    }
    let mut warnings: Vec<String> = Vec::new();
    let mut seen = Vec::new();
    for (name, version) in spec.versions.iter().rev() {
        let place = format!("versions.{name}");
        self::version(&place, version)?;
        for doubt in version.schema.iter().flat_map(doubts) {
            if !seen.contains(&doubt) && warnings.len() < WARNINGS_MAX {
                warnings.push(format!("{place}.schema: {doubt}"));
                seen.push(doubt);
            }
        }
    }
    Ok(warnings)
}

fn version(place: &str, version: &Version) -> Result<(), ApiError> {
    let Some(said) = &version.schema else { return Ok(()) };
    let field = format!("{place}.schema");
    if !matches!(said, Value::Object(_) | Value::Bool(_)) {
        return Err(ApiError::field(field, "must be a JSON Schema: an object, or true or false"));
    }
    let compiled = schema(said).map_err(|why| {
        let why = truncate(&why, COMPLAINT_BYTES_MAX);
        ApiError::field(&field, format!("cannot be used as a JSON Schema: {why}"))
    })?;
    let Some((path, why)) = version.example.as_ref().and_then(|one| misfit(&compiled, one)) else {
        return Ok(());
    };
    let field = match path.is_empty() {
        true => format!("{place}.example"),
        false => format!("{place}.example.{path}"),
    };
    Err(ApiError::field(field, format!("does not fit the schema: {why}")))
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use http_body_util::BodyExt;
    use serde_json::json;

    use super::*;

    fn of(versions: Value) -> EventTypeSpec {
        serde_json::from_value(json!({"description": "", "versions": versions})).unwrap()
    }

    async fn field(refusal: ApiError) -> String {
        let body = refusal.into_response().into_body().collect().await.unwrap().to_bytes();
        let problem: Value = serde_json::from_slice(&body).unwrap();
        problem["errors"][0]["field"].as_str().unwrap().to_owned()
    }

    #[test]
    fn names_have_a_form_and_some_are_ours() {
        for good in ["order.created", "webhooks.made", "a.b.c_2"] {
            assert!(name(good).is_ok(), "{good}");
        }
        for bad in ["order", "Order.created", "order.*", "*", "", "webhook.made", "job.x"] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn what_is_wrong_is_told_by_its_place() {
        let whole = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let many: serde_json::Map<String, Value> =
            (0..=VERSIONS_MAX).map(|n| (n.to_string(), json!({}))).collect();
        for (versions, place) in [
            (json!({"1": {"schema": whole, "example": {"n": "x"}}}), "versions.1.example.n"),
            (json!({"1": {"schema": whole, "example": 7}}), "versions.1.example"),
            (json!({"1": {"schema": {"type": "nonsense"}}}), "versions.1.schema"),
            (json!({"1": {"schema": 7}}), "versions.1.schema"),
            (json!({"1": {"schema": {"$ref": "https://x.example/s"}}}), "versions.1.schema"),
            (json!({"1": {"schema": {"pattern": "("}}}), "versions.1.schema"),
            (json!({"a b": {}}), "versions.a b"),
            (json!({"1": {"change": "x".repeat(TYPE_BYTES_MAX)}}), "versions"),
            (Value::Object(many), "versions"),
        ] {
            let refusal = spec(&of(versions)).unwrap_err();
            assert_eq!(field(refusal).await, place);
        }
    }

    #[test]
    fn doubts_are_told_once_and_the_newest_versions_first() {
        let with = |fields: Value| json!({"schema": {"properties": fields}});
        let old = with(json!({"email": {"type": "string"}, "pin_secret": {"type": "string"}}));
        let new = with(json!({"email": {"type": "string"}, "amount": {"type": "number"}}));
        let told = spec(&of(json!({"2025-01-01": old, "2026-01-01": new}))).unwrap();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].starts_with("versions.2026-01-01.schema: "), "{told:?}");
        assert!(told[2].contains("2025-01-01") && told[2].contains("pin_secret"), "{told:?}");
        assert!(spec(&of(json!({"1": {"schema": true}, "2": {}}))).unwrap().is_empty());
    }
}
