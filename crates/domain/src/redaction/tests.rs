//! What redaction promises.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn rules(rules: &[&str]) -> Redaction {
    let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
    Redaction::read(&rules).unwrap()
}

fn redacted(rule: &str, mut payload: Value) -> Value {
    rules(&[rule]).apply(&mut payload);
    payload
}

#[test]
fn a_rule_hides_what_it_points_at_and_nothing_else() {
    let payload =
        || json!({"a": {"b": 1, "c": "x"}, "list": [{"n": "1"}, {"n": "2"}, 3], "a/~": 5});
    let hidden = json!("[redacted]");
    assert_eq!(redacted("/a/b", payload()).pointer("/a"), Some(&json!({"b": hidden, "c": "x"})));
    assert_eq!(redacted("/a", payload())["a"], hidden);
    assert_eq!(redacted("/list/1/n", payload())["list"], json!([{"n": "1"}, {"n": hidden}, 3]));
    assert_eq!(redacted("/list/*/n", payload())["list"], json!([{"n": hidden}, {"n": hidden}, 3]));
    assert_eq!(redacted("/*/b", payload())["a"], json!({"b": hidden, "c": "x"}));
    assert_eq!(redacted("/a~1~0", payload())["a/~"], hidden);
    assert_eq!(redacted("", payload()), hidden);
    for nothing in ["/b", "/a/b/c", "/list/01", "/list/3", "/list/+1", "/list/-"] {
        assert_eq!(redacted(nothing, payload()), payload(), "{nothing}");
    }
}

#[test]
fn a_payload_without_members_is_hidden_whole() {
    assert_eq!(redacted("/a", json!("{\"a\": cut off")), json!("[redacted]"));
    assert_eq!(redacted("/a", Value::Null), Value::Null);
    let mut untouched = json!("text");
    assert!(rules(&[]).apply(&mut untouched).is_empty());
    assert_eq!(untouched, json!("text"));
}

#[test]
fn texts_made_from_hidden_values_are_hidden_too() {
    let mut payload = json!({"mail": "a@b.example", "card": {"no": 4242, "x": "no", "ok": true}});
    let hidden = rules(&["/mail", "/card"]).apply(&mut payload);
    assert!(hidden.is_in("From: a@b.example") && hidden.is_in("card:4242") && hidden.is_in("no"));
    assert!(!hidden.is_in("nothing") && !hidden.is_in("true") && !hidden.is_in(""));
    let [mut derived, mut other] = ["mail:a@b.example".to_owned(), "Ann".to_owned()];
    hidden.hide(&mut derived);
    hidden.hide(&mut other);
    assert_eq!([derived, other], ["[redacted]", "Ann"]);
}

#[test]
fn beyond_what_can_be_looked_for_every_text_is_hidden() {
    let many: Vec<String> = (0..=VALUES_MAX).map(|n| format!("value {n}")).collect();
    let hidden = rules(&["/many"]).apply(&mut json!({ "many": many }));
    assert!(hidden.is_in("anything"));
}

#[test]
fn a_rule_that_is_none_is_refused_with_its_place() {
    let read = |rule: &str| Redaction::read(&["/fine".to_owned(), rule.to_owned()]);
    for wrong in ["a", "a/b", "/a~2", "/a~", "$.a", "/a\nb", &format!("/{}", "x".repeat(500))] {
        assert_eq!(read(wrong).unwrap_err().0, 1, "{wrong}");
    }
    for right in ["", "/", "/a//b", "/~0~1", "/*", "/a b", "/ü"] {
        assert!(read(right).is_ok(), "{right}");
    }
}

#[test]
fn a_rule_covers_what_lies_on_its_way_and_under_it() {
    let redaction = rules(&["/a/*/b"]);
    assert!(["/a", "/a/0/b", "/a/0", "/a/x/b/c", ""].iter().all(|path| redaction.covers(path)));
    assert!(!["/b", "/a/0/c", "/ab"].iter().any(|path| redaction.covers(path)));
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z~/*]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map("[a-c~/]{1,2}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Every place in a document.
fn places(value: &Value, at: String, all: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            places(member, format!("{at}/{name}"), all);
        }),
        Value::Array(elements) => elements
            .iter()
            .enumerate()
            .for_each(|(place, element)| places(element, format!("{at}/{place}"), all)),
        _ => {}
    }
    all.push(at);
}

proptest! {
    #[test]
    fn whatever_is_pointed_at_is_gone_and_the_rest_stays(
        payload in document(),
        chosen in any::<prop::sample::Index>(),
    ) {
        let mut all = Vec::new();
        places(&payload, String::new(), &mut all);
        let rule = chosen.get(&all).clone();
        let mut shown = payload.clone();
        let hidden = rules(&[&rule]).apply(&mut shown);
        if payload.is_null() {
            return Ok(());
        }
        prop_assert_eq!(shown.pointer(&rule), Some(&json!(REDACTED)));
        // All places that are neither above nor under it are as they were.
        for place in &all {
            let under = place.starts_with(&format!("{rule}/")) || *place == rule;
            if !under && !rule.starts_with(&format!("{place}/")) {
                prop_assert_eq!(shown.pointer(place), payload.pointer(place));
            }
        }
        if let Some(Value::String(text)) = payload.pointer(&rule).filter(|text| *text != "") {
            prop_assert!(hidden.is_in(text));
        }
    }

    #[test]
    fn hiding_twice_is_hiding_once(payload in document(), list in prop::collection::vec("(/[a-c*0-2]){0,3}", 0..5)) {
        let redaction = Redaction::read(&list).unwrap();
        let mut once = payload.clone();
        redaction.apply(&mut once);
        let mut twice = once.clone();
        prop_assert!(redaction.apply(&mut twice).is_empty());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn any_text_is_read_or_refused(rule: String) {
        let _ = Redaction::read(&[rule]);
    }
}
