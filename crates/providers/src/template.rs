//! Keys made from a request: `ticket:{/ticket/id}:rev:{header:X-Revision}`.

use serde_json::Value;
use wakepost_domain::limits::KEY_CHARS_MAX;

use crate::header;
use crate::payload;
use crate::provider::Provider;
use crate::request::Request;
use crate::settings::ConfigError;

/// More places than this in one template help nobody.
const PLACES_MAX: usize = 16;

/// A text with places in it that a request fills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Pointer(String),
    Header(String),
}

impl Template {
    /// Reads a template: JSON pointers and `header:Name` in braces, anything else as it stands.
    pub fn read(field: &str, text: &str) -> Result<Template, ConfigError> {
        let malformed = |message: &str| ConfigError::new(field, message);
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find(['{', '}']) {
            let inside = rest[open..].strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let (inside, after) =
                inside.ok_or_else(|| malformed("has a brace that opens or closes nothing"))?;
            if open > 0 {
                pieces.push(Piece::Literal(rest[..open].to_owned()));
            }
            pieces.push(Piece::read(inside).ok_or_else(|| {
                malformed(
                    "may have JSON pointers such as {/ticket/id} and {header:X-Name} in braces",
                )
            })?);
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_owned()));
        }
        let places = pieces.iter().filter(|piece| !matches!(piece, Piece::Literal(_))).count();
        match places {
            0 => Err(malformed("has no place in braces, so that all events would be one")),
            1..=PLACES_MAX => Ok(Template(pieces)),
            _ => Err(malformed("has more than 16 places in braces")),
        }
    }

    /// A template that is one JSON pointer.
    pub fn pointer(field: &str, pointer: &str) -> Result<Template, ConfigError> {
        match !pointer.is_empty() && payload::is_pointer(pointer) {
            true => Ok(Template(vec![Piece::Pointer(pointer.to_owned())])),
            false => Err(ConfigError::new(field, "must be a JSON pointer, such as /ticket/id")),
        }
    }

    /// The JSON pointers in it.
    pub fn pointers(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Pointer(pointer) => Some(pointer.as_str()),
            Piece::Literal(_) | Piece::Header(_) => None,
        })
    }

    /// The text for one event of a request; `None` where a place cannot be filled, or it gets too long.
    pub fn fill(
        &self,
        provider: &dyn Provider,
        request: &Request<'_>,
        part: usize,
    ) -> Option<String> {
        let needs_data = self.0.iter().any(|piece| matches!(piece, Piece::Pointer(_)));
        let data = if needs_data { provider.data(request, part) } else { Value::Null };
        let mut filled = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Literal(text) => filled.push_str(text),
                Piece::Pointer(pointer) => filled.push_str(&scalar(data.pointer(pointer)?)?),
                Piece::Header(name) => {
                    filled.push_str(header::optional(request.headers, name).ok()??);
                }
            }
        }
        let fits = !filled.is_empty()
            && filled.chars().nth(KEY_CHARS_MAX).is_none()
            && !filled.chars().any(char::is_control);
        fits.then_some(filled)
    }
}

impl Piece {
    fn read(inside: &str) -> Option<Piece> {
        if let Some(name) = inside.strip_prefix("header:") {
            let name = http::HeaderName::try_from(name).ok()?;
            return Some(Piece::Header(name.as_str().to_owned()));
        }
        let is_pointer = !inside.is_empty() && payload::is_pointer(inside);
        is_pointer.then(|| Piece::Pointer(inside.to_owned()))
    }
}

/// Texts, whole numbers and truth values name things; a fraction, a list or an object does not.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if !number.is_f64() => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;
    use crate::request::SignedRequest;

    fn fill(template: &str, body: &str) -> Option<String> {
        let mut request = SignedRequest::post("https://hooks.example/", body);
        request.set("X-Rev", "7").unwrap();
        let provider = registry::find("generic").unwrap();
        Template::read("dedup_key", template).unwrap().fill(provider, &request.as_request(), 0)
    }

    #[test]
    fn places_are_filled_from_the_payload_and_the_headers() {
        let body = r#"{"ticket":{"id":99,"rev":"b","open":true},"list":["x"]}"#;
        let filled = |template| fill(template, body);
        assert_eq!(
            filled("ticket:{/ticket/id}:rev:{/ticket/rev}").as_deref(),
            Some("ticket:99:rev:b")
        );
        assert_eq!(filled("{header:X-Rev}/{/list/0}").as_deref(), Some("7/x"));
        assert_eq!(filled("{/ticket/open}").as_deref(), Some("true"));
    }

    #[test]
    fn a_place_that_cannot_be_filled_leaves_no_key() {
        for (template, body) in [
            ("{/a}", r#"{}"#),
            ("{/a}", r#"{"a":{}}"#),
            ("{/a}", r#"{"a":1.5}"#),
            ("{/a}", r#"{"a":null}"#),
            ("{/a}", r#"{"a":""}"#),
            ("{/a}", r#"{"a":"x\u0000"}"#),
            ("{/a}", "not json"),
            ("{header:X-None}", "{}"),
        ] {
            assert_eq!(fill(template, body), None, "{template} {body}");
        }
        assert_eq!(fill("{/a}", &format!(r#"{{"a":"{}"}}"#, "x".repeat(501))), None);
    }

    #[test]
    fn a_malformed_template_is_named() {
        for bad in
            ["", "plain", "{", "}", "{a}", "{}", "{header:}", "{header: x}", "a{/b", "{/a~2}"]
        {
            let error = Template::read("dedup_key", bad).unwrap_err();
            assert_eq!(error.field, "dedup_key", "{bad}");
        }
        assert!(Template::read("dedup_key", &"{/a}".repeat(17)).is_err());
        assert!(Template::pointer("order_by", "/a/b").is_ok());
        for bad in ["", "a", "a/b", "/a~"] {
            assert!(Template::pointer("order_by", bad).is_err(), "{bad}");
        }
    }
}
