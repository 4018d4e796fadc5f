//! The catalogue as an OpenAPI 3.1 document: each type is one of its `webhooks`.
//!
//! A receiver's tools make code and tests of it. Each version of a type is a schema of its own in `components`, with
//! an `$id`, so that references inside it stay what they were.

use serde_json::{Map, Value, json};
use wakepost_domain::event_type::{EventType, Version};
use wakepost_domain::tenant::Tenant;

/// The largest catalogue that is put into one document.
pub const BYTES_MAX: usize = 16 * 1024 * 1024;

/// What examples have in common.
const EXAMPLE_ID: &str = "evt_01KA3J5Q2ZC8W1T7V9X4N6R0SD";
const EXAMPLE_TIME: &str = "2026-11-15T10:00:00.000Z";

/// The whole catalogue.
pub fn document<'a>(tenant: &Tenant, types: impl Iterator<Item = &'a EventType>) -> Value {
    let (mut webhooks, mut schemas) = (Map::new(), Map::new());
    let mut newest: Option<&str> = None;
    for of_type in types {
        newest = newest.max(of_type.spec.newest().map(|(name, _)| name));
        webhooks.insert(of_type.name.clone(), webhook(of_type, &mut schemas));
    }
    let name = match tenant.settings.name.is_empty() {
        true => &tenant.slug,
        false => &tenant.settings.name,
    };
    schemas.insert("envelope".to_owned(), envelope());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": format!("Events of {name}"),
            "version": newest.unwrap_or("1"),
            "description": "Each is sent as a POST, signed as Standard Webhooks says. A body over 64 KB has \
                `data: {\"truncated\": true, \"url\": …}` in place of its data; the URL answers the whole event.",
        },
        "webhooks": webhooks,
        "components": {"schemas": schemas, "parameters": parameters()},
    })
}

/// What every event has.
fn envelope() -> Value {
    json!({
        "type": "object",
        "required": ["id", "type", "api_version", "created_at", "livemode", "data"],
        "properties": {
            "id": {"type": "string", "pattern": "^evt_[0-7][0-9A-HJKMNP-TV-Z]{25}$",
                "description": "The same on every retry and replay."},
            "type": {"type": "string"},
            "api_version": {"type": ["string", "null"]},
            "created_at": {"type": "string", "format": "date-time"},
            "livemode": {"type": "boolean"},
            "data": {"type": "object"},
        },
    })
}

fn parameters() -> Value {
    let header = |name: &str, about: &str| {
        json!({"name": name, "in": "header", "required": true, "description": about,
            "schema": {"type": "string"}})
    };
    json!({
        "webhook-id": header("webhook-id", "The event's id."),
        "webhook-timestamp": header("webhook-timestamp", "When it was sent, in seconds since 1970."),
        "webhook-signature": header("webhook-signature", "One or more signatures, with spaces between them."),
    })
}

fn webhook(of_type: &EventType, schemas: &mut Map<String, Value>) -> Value {
    let name = &of_type.name;
    let mut versions = Vec::new();
    let mut examples = Map::new();
    for (version, said) in of_type.spec.versions.iter().rev() {
        // Names of types have no dash: no two of these are alike.
        let key = format!("{name}-{version}");
        if let Some(example) = &said.example {
            let value = json!({"id": EXAMPLE_ID, "type": name, "api_version": version,
                "created_at": EXAMPLE_TIME, "livemode": true, "data": {"object": example}});
            examples.insert(version.clone(), json!({"value": value}));
        }
        versions.push(body(name, Some((version, said)), &key));
        if let Some(schema) = &said.schema {
            schemas.insert(key, subject(schema, name, version));
        }
    }
    let schema = match versions.len() {
        0 => body(name, None, ""),
        1 => versions.remove(0),
        _ => json!({"oneOf": versions}),
    };
    let mut content = json!({"schema": schema});
    if !examples.is_empty() {
        content["examples"] = Value::Object(examples);
    }
    let headers = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    json!({"post": {
        "operationId": name,
        "summary": of_type.spec.description.lines().next().filter(|line| !line.is_empty()).unwrap_or(name),
        "description": of_type.spec.description,
        "tags": [name.split('.').next().unwrap_or(name)],
        "parameters": headers.map(|name| json!({"$ref": format!("#/components/parameters/{name}")})),
        "requestBody": {"required": true, "content": {"application/json": content}},
        "responses": {
            "2XX": {"description": "It was received."},
            "410": {"description": "Nobody wants these any more: the webhook is disabled."},
            "4XX": {"description": "It was refused, and is not sent again; but for 408, 425 and 429."},
            "5XX": {"description": "It is sent again later."},
        },
    }})
}

/// An event of one version of a type.
fn body(name: &str, version: Option<(&String, &Version)>, key: &str) -> Value {
    let mut fields = json!({"type": {"const": name}});
    let mut object = json!({});
    let mut about = None;
    if let Some((version, said)) = version {
        fields["api_version"] = json!({"const": version});
        about = said.change.as_ref();
        if said.schema.is_some() {
            object = json!({"$ref": format!("#/components/schemas/{key}")});
        }
    }
    fields["data"] = json!({"properties": {
        "object": object,
        "previous_attributes": {"description": "What was other before."},
    }});
    let mut body =
        json!({"allOf": [{"$ref": "#/components/schemas/envelope"}], "properties": fields});
    if let Some(change) = about {
        body["description"] = json!(change);
    }
    body
}

/// A registered schema under a name of its own.
fn subject(schema: &Value, name: &str, version: &str) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(fields) = &mut schema
        && !fields.contains_key("$id")
    {
        fields.insert("$id".to_owned(), json!(format!("urn:wakepost:event-type:{name}:{version}")));
    }
    schema
}

#[cfg(test)]
mod tests {
    use wakepost_domain::tenant::TenantSettings;
    use wakepost_domain::{TenantId, Timestamp};

    use super::*;

    fn tenant() -> Tenant {
        Tenant {
            id: TenantId::DEFAULT,
            slug: "acme".to_owned(),
            settings: TenantSettings::default(),
            created_at: Timestamp::from_millis(0),
        }
    }

    fn of(name: &str, spec: Value) -> EventType {
        EventType { name: name.to_owned(), spec: serde_json::from_value(spec).unwrap() }
    }

    #[test]
    fn each_type_is_a_webhook_whose_body_fits_its_own_examples() {
        let schema = json!({"$ref": "#/$defs/order",
            "$defs": {"order": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}}});
        let types = [
            of(
                "order.paid",
                json!({"description": "An order was paid.\nAt last.", "versions": {
                "2025-01-01": {"schema": schema, "example": {"n": 1}},
                "2026-01-01": {"schema": schema, "example": {"n": 2}, "change": "Nothing."}}}),
            ),
            of("order.seen", json!({})),
            of("order.sent", json!({"versions": {"1": {"example": "by post"}}})),
        ];
        let document = document(&tenant(), types.iter());
        assert_eq!(document["info"]["version"], "2026-01-01");
        assert_eq!(document["info"]["title"], "Events of acme");
        let told = &document["webhooks"]["order.paid"]["post"];
        assert_eq!(told["summary"], "An order was paid.");
        let content = &told["requestBody"]["content"]["application/json"];
        assert_eq!(content["examples"].as_object().unwrap().len(), 2);
        let validator = |name: &str| {
            // As one schema: what OpenAPI keeps among its components, a schema keeps among its definitions.
            let as_schema = |part: &Value| -> Value {
                let text = part.to_string().replace("#/components/schemas/", "#/$defs/");
                serde_json::from_str(&text).unwrap()
            };
            let body = &document["webhooks"][name]["post"]["requestBody"]["content"];
            let mut whole = as_schema(&body["application/json"]["schema"]);
            whole["$defs"] = as_schema(&document["components"]["schemas"]);
            jsonschema::validator_for(&whole).unwrap()
        };
        let paid = validator("order.paid");
        for example in content["examples"].as_object().unwrap().values() {
            assert!(paid.is_valid(&example["value"]), "{example}");
            let mut wrong = example["value"].clone();
            wrong["data"]["object"]["n"] = json!("x");
            assert!(!paid.is_valid(&wrong), "{wrong}");
            wrong = example["value"].clone();
            wrong["api_version"] = json!("1999-01-01");
            assert!(!paid.is_valid(&wrong), "{wrong}");
        }
        let sent = &document["webhooks"]["order.sent"]["post"]["requestBody"]["content"];
        let example = &sent["application/json"]["examples"]["1"]["value"];
        assert!(validator("order.sent").is_valid(example));
        assert!(!validator("order.seen").is_valid(example), "another type");
    }

    #[test]
    fn every_reference_of_ours_leads_somewhere() {
        let types = [of("a.b", json!({"versions": {"1": {"schema": true}}}))];
        let document = document(&tenant(), types.iter());
        let text = document.to_string();
        for part in text.split("\"$ref\":\"#").skip(1) {
            let place = part.split('"').next().unwrap();
            assert!(document.pointer(place).is_some(), "{place}");
        }
    }
}
