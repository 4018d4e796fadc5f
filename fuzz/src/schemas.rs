//! Schemas of published events, which their publishers write: one that is taken is no larger than it may be with its
//! references written out, and says the same then.

use serde_json::{Map, Value};
use wakepost_server::directory::{misfit, schema};

use crate::input::{Input, lines};

/// The most parts of a schema whose references are written out.
const PARTS_MAX: usize = 20_000;
/// The longest complaint about a subject.
const WHY_BYTES_MAX: usize = 500;

/// A schema on a line, and a subject.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let said = serde_json::from_slice::<Value>(input.line());
    let subject = serde_json::from_slice::<Value>(input.rest());
    let (Ok(said @ (Value::Object(_) | Value::Bool(_))), Ok(subject)) = (said, subject) else {
        return;
    };
    let Ok(compiled) = schema(&said) else { return };
    let wrong = misfit(&compiled, &subject);
    assert!(wrong.as_ref().is_none_or(|(_, why)| why.len() <= WHY_BYTES_MAX), "{wrong:?}");
    let whole = Writer { root: &said, left: PARTS_MAX }.schema(&said);
    // In older versions of the language a reference stands for all that is beside it.
    if said.get("$schema").is_none()
        && let Ok(whole) = schema(&whole)
    {
        let same = misfit(&whole, &subject);
        assert_eq!(wrong.is_some(), same.is_some(), "{wrong:?}, and written out {same:?}");
    }
}

/// Writes references out.
struct Writer<'a> {
    root: &'a Value,
    left: usize,
}

impl<'a> Writer<'a> {
    fn schema(&mut self, value: &'a Value) -> Value {
        self.left = self.left.checked_sub(1).expect("a schema that may have so many parts");
        match value {
            Value::Object(words) => self.words(words),
            Value::Array(items) => items.iter().map(|item| self.schema(item)).collect(),
            value => value.clone(),
        }
    }

    fn words(&mut self, words: &'a Map<String, Value>) -> Value {
        let mut written = Map::new();
        let mut target = None;
        for (word, said) in words {
            let said = match (word.as_str(), said) {
                ("$ref", Value::String(place)) => {
                    let pointer = place.strip_prefix('#').expect("a part of itself");
                    let part = self.root.pointer(pointer).expect("a part that is there");
                    target = Some(self.schema(part));
                    continue;
                }
                ("const" | "default" | "enum" | "examples", said) => said.clone(),
                (
                    "$defs" | "definitions" | "dependencies" | "dependentSchemas"
                    | "patternProperties" | "properties",
                    Value::Object(named),
                ) => named.iter().map(|(name, said)| (name.clone(), self.schema(said))).collect(),
                (_, said) => self.schema(said),
            };
            written.insert(word.clone(), said);
        }
        if let Some(target) = target {
            let all = written.entry("allOf").or_insert_with(|| Value::Array(Vec::new()));
            all.as_array_mut().expect("a list, since it was taken").push(target);
        }
        Value::Object(written)
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let order = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://acme.example/order","type":"object","required":["id"],"properties":{"id":{"type":"string","pattern":"^[a-z]{2}_","maxLength":40},"lines":{"type":"array","items":{"$ref":"#/$defs/line"},"maxItems":9}},"$defs":{"line":{"properties":{"n":{"type":"integer","minimum":1}}}}}"##;
    let written = r##"{"$ref":"#/$defs/a","required":["b"],"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b~1c"}],"properties":{"b":{"$ref":"#/$defs/b~1c"}}},"b/c":{"type":["object","string"]}},"unevaluatedProperties":false}"##;
    let old = r##"{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://acme.example/","definitions":{"a":{"enum":["x",{"$ref":"#"}]}},"properties":{"default":{"$ref":"#/definitions/a"}},"dependencies":{"a":["b"]}}"##;
    vec![
        lines([order, r#"{"id":"or_1","lines":[{"n":0}]}"#]),
        lines([written, r#"{"b":"c"}"#]),
        lines([written, r#"{"b":7,"c":{}}"#]),
        lines([old, r#"{"default":"y","a":1}"#]),
        lines([
            r#"{"if":{"const":{"$id":1}},"then":{"not":{}},"else":{"uniqueItems":true}}"#,
            "[1,1.0]",
        ]),
        lines(["false", "null"]),
    ]
}
