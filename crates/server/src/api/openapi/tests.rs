//! The description is whole, and what the server answers is what it says.

mod fits;
mod keeping;
mod refusing;
mod sending;
mod story;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use http::{HeaderMap, Method};
use serde_json::{Value, json};

use world::{Operation, World, operations};

fn described() -> Value {
    serde_json::to_value(super::document()).unwrap()
}

/// All values of a key, anywhere.
fn all<'v>(value: &'v Value, key: &str, found: &mut Vec<&'v Value>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get(key));
            map.values().for_each(|value| all(value, key, found));
        }
        Value::Array(list) => list.iter().for_each(|value| all(value, key, found)),
        _ => {}
    }
}

#[test]
fn it_is_openapi_3_1_and_every_reference_resolves() {
    let api = described();
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1."));
    assert_eq!(api["info"]["title"], "Wakepost");
    let mut found = Vec::new();
    all(&api, "$ref", &mut found);
    assert!(found.len() > 500);
    for place in found {
        let pointer = place.as_str().unwrap().strip_prefix('#').unwrap();
        assert!(api.pointer(pointer).is_some(), "{place} leads nowhere");
    }
}

#[test]
fn nothing_is_described_that_no_route_uses() {
    let api = described();
    let mut found = Vec::new();
    all(&api, "$ref", &mut found);
    let used: BTreeSet<&str> = found.iter().filter_map(|place| place.as_str()).collect();
    for kind in ["schemas", "responses"] {
        for name in api["components"][kind].as_object().unwrap().keys() {
            let place = format!("#/components/{kind}/{name}");
            assert!(used.contains(place.as_str()), "{place}");
        }
    }
}

#[test]
fn every_operation_says_what_it_takes_and_what_it_answers() {
    let api = described();
    let tags: BTreeSet<&str> =
        api["tags"].as_array().unwrap().iter().filter_map(|tag| tag["name"].as_str()).collect();
    let mut names = BTreeSet::new();
    for Operation { method, path, about } in operations(&api) {
        let place = format!("{method} {path}");
        assert!(names.insert(about["operationId"].as_str().unwrap()), "{place}: a second name");
        assert!(about["summary"].as_str().is_some_and(|text| !text.is_empty()), "{place}");
        assert!(
            about["tags"]
                .as_array()
                .unwrap()
                .iter()
                .all(|tag| { tags.contains(tag.as_str().unwrap()) })
        );
        let answers = about["responses"].as_object().unwrap();
        assert!(answers.keys().any(|status| status.starts_with('2')), "{place}");
        let open = about["security"] == json!([{}]);
        let keyed = path.starts_with("/api/")
            || ["/metrics", "/mcp"].contains(&path)
            || path.starts_with("/integrations/")
                && !path.ends_with("/webhook")
                && path != "/integrations/_process-task";
        assert_eq!(open, !keyed, "{place}");
        if keyed {
            assert!(
                ["401", "403", "422", "503"].iter().all(|status| answers.contains_key(*status))
            );
        }
        let parameters = about["parameters"].as_array().cloned().unwrap_or_default();
        let in_path: BTreeSet<_> = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        let named: BTreeSet<_> = path.split(['{', '}']).skip(1).step_by(2).collect();
        assert_eq!(in_path, named, "{place}");
    }
}

#[test]
fn a_body_that_is_described_is_refused_if_it_has_other_fields() {
    let api = described();
    for Operation { method, path, about } in operations(&api) {
        let body = &about["requestBody"]["content"]["application/json"]["schema"];
        if !body.is_null() {
            let nonsense = json!({"no_such_field": 1});
            assert!(fits::check(&api, body, &nonsense).is_err(), "{method} {path}");
        }
    }
}

/// A method that no route has is answered with those that it does have.
#[tokio::test]
async fn every_described_route_exists_with_just_the_described_methods() {
    let mut world = World::start().await;
    let source = world.source().await;
    let api = described();
    let mut methods: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for Operation { method, path, .. } in operations(&api) {
        methods.entry(path).or_default().insert(method.to_string());
    }
    for (path, mut described) in methods {
        let real = path.replace("{source_id}", &source).replace("{platform}", "github");
        let answer = world.send(Method::TRACE, &real, HeaderMap::new(), None).await;
        assert_eq!(answer.status, 405, "{path}");
        let allowed = answer.headers["allow"].to_str().unwrap();
        let allowed: BTreeSet<String> = allowed.split(',').map(|m| m.trim().to_owned()).collect();
        // A GET is also a HEAD, but for the front door.
        let is_door = path.starts_with("/in/") || path.ends_with("/webhook");
        if described.contains("GET") && !is_door {
            described.insert("HEAD".to_owned());
        }
        assert_eq!(allowed, described, "{path}");
    }
}

/// The list takes only what is described; this holds the door shut for a route that goes round it.
#[test]
fn no_route_is_registered_without_a_description() {
    let lists = [include_str!("../mod.rs"), include_str!("../../edge/mod.rs")];
    for list in lists {
        assert!(!list.contains(".route(") && !list.contains("route_service("));
    }
}
