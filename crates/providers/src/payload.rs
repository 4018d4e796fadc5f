//! Reading a few fields of a JSON body in one pass, without building the rest.
//!
//! The pass looks at every byte, so that a body which maps here can also be parsed whole later: nesting,
//! numbers, escapes and encoding are all checked, and a doubled key on the way to a wanted field is refused,
//! since two readers could take different values from it.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;
use serde_json::value::RawValue;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::form::{self, Form};
use crate::mapping::MapError;
use crate::request::Request;

/// What stands at one pointer.
pub(crate) type Found<'de> = Option<Cow<'de, str>>;

/// The texts and whole numbers at these JSON pointers; `None` where there is nothing, or something else.
pub(crate) fn pick<'de, const N: usize>(
    body: &'de [u8],
    pointers: [&str; N],
) -> Result<[Found<'de>; N], MapError> {
    pick_wanted(body, pointers.map(Some))
}

/// The same, where some pointers may not be wanted at all.
pub(crate) fn pick_wanted<'de, const N: usize>(
    body: &'de [u8],
    pointers: [Option<&str>; N],
) -> Result<[Found<'de>; N], MapError> {
    const { assert!(N < 32, "the pointers must fit a mask") };
    let text = std::str::from_utf8(body)
        .map_err(|error| MapError::NotJson(format!("not UTF-8 at byte {}", error.valid_up_to())))?;
    let mut found = [const { None }; N];
    let mask = pointers.iter().enumerate().filter(|(_, p)| p.is_some()).map(|(i, _)| 1 << i).sum();
    let place = Place { pointers: &pointers, mask, bytes: 0 };
    let mut json = serde_json::Deserializer::from_str(text);
    Walk { place, found: &mut found }
        .deserialize(&mut json)
        .and_then(|()| json.end())
        .map_err(|error| MapError::NotJson(error.to_string()))?;
    Ok(found)
}

/// The elements of a body that is a list, each as it stands there.
pub(crate) fn items(body: &[u8]) -> Result<Vec<&RawValue>, MapError> {
    let text = std::str::from_utf8(body)
        .map_err(|error| MapError::NotJson(format!("not UTF-8 at byte {}", error.valid_up_to())))?;
    serde_json::from_str(text).map_err(|error| MapError::NotJson(error.to_string()))
}

/// The whole body, where the shape needs it; a doubled key anywhere is refused.
pub(crate) fn whole(body: &[u8]) -> Result<Value, MapError> {
    let text = std::str::from_utf8(body)
        .map_err(|error| MapError::NotJson(format!("not UTF-8 at byte {}", error.valid_up_to())))?;
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Whole.deserialize(&mut json);
    value
        .and_then(|value| json.end().map(|()| value))
        .map_err(|error| MapError::NotJson(error.to_string()))
}

/// The text at a JSON pointer, unless it is empty.
pub(crate) fn text_at<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

/// The text or whole number at a JSON pointer: how vendors write ids.
pub(crate) fn id_at(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) if !number.is_f64() => Some(number.to_string()),
        _ => None,
    }
}

/// The list at a JSON pointer; empty where there is none.
pub(crate) fn list_at<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The payload for those who read an envelope: JSON as it is, a form as an object, other text as text,
/// anything else not at all.
pub fn data(request: &Request<'_>) -> Value {
    if form::says_form(request.headers) {
        return Form::read(request).map_or(Value::Null, |form| form.to_json());
    }
    match std::str::from_utf8(request.body) {
        Err(_) => Value::Null,
        Ok("") => Value::Null,
        Ok(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    }
}

/// The payload of one element of a list.
pub(crate) fn item_data(body: &[u8], part: usize) -> Value {
    let items = items(body).unwrap_or_default();
    let item = items.get(part).and_then(|item| serde_json::from_str(item.get()).ok());
    item.unwrap_or_default()
}

/// Whether the text is a JSON pointer (RFC 6901).
pub(crate) fn is_pointer(text: &str) -> bool {
    let escapes_are_known = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && escapes_are_known
}

/// Where the walk stands: which pointers lead here or further (one bit each), and how many bytes of each of
/// them lead here. That is one number for all, since a pointer has only one way to write a path.
#[derive(Clone, Copy)]
struct Place<'p> {
    pointers: &'p [Option<&'p str>],
    mask: u32,
    bytes: usize,
}

impl<'p> Place<'p> {
    /// What is left of the pointers that lead here.
    fn rests(self) -> impl Iterator<Item = (usize, &'p str)> {
        let here = self.pointers.iter().enumerate();
        let here = here.filter(move |(index, _)| self.mask & 1 << index != 0);
        here.filter_map(move |(index, pointer)| Some((index, pointer.as_ref()?.get(self.bytes..)?)))
    }

    /// The pointers that end here.
    fn ends(self) -> impl Iterator<Item = usize> + 'p {
        self.rests().filter(|(_, rest)| rest.is_empty()).map(|(index, _)| index)
    }

    /// The place one step on, at this key or index.
    fn step(self, key: &str) -> Place<'p> {
        let mut next = Place { mask: 0, ..self };
        for (index, rest) in self.rests() {
            let step = rest.strip_prefix('/').and_then(|rest| rest.split('/').next());
            if let Some(step) = step.filter(|step| names(step, key)) {
                next.mask |= 1 << index;
                next.bytes = self.bytes + 1 + step.len();
            }
        }
        next
    }
}

/// Whether one step of a pointer, with its escapes, means this key.
fn names(step: &str, key: &str) -> bool {
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~") == key } else { step == key }
}

struct Walk<'w, 'de> {
    place: Place<'w>,
    found: &'w mut [Found<'de>],
}

impl<'de> Walk<'_, 'de> {
    fn keep(self, value: impl FnOnce() -> Cow<'de, str>) {
        let mut ends = self.place.ends();
        let Some(first) = ends.next() else { return };
        let value = value();
        for index in ends {
            self.found[index] = Some(value.clone());
        }
        self.found[first] = Some(value);
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_, 'de> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<(), E> {
        self.keep(|| Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.keep(|| Cow::Owned(text.to_owned()));
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.keep(|| Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.keep(|| Cow::Owned(number.to_string()));
        Ok(())
    }

    // Fractions, and numbers beyond 64 bits, lose digits on the way: two ids could become one. Not kept.
    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = 0;
        while let Some(place) = map.next_key_seed(Step(self.place))? {
            if seen & place.mask != 0 {
                return Err(Error::custom("doubled key"));
            }
            seen |= place.mask;
            map.next_value_seed(Walk { place, found: self.found })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        for index in 0usize.. {
            // Only where a pointer leads into this array is its index worth writing out.
            let place = match self.place.mask {
                0 => self.place,
                _ => self.place.step(&index.to_string()),
            };
            if seq.next_element_seed(Walk { place, found: self.found })?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

/// Builds a value, and refuses what would silently lose one of two values.
struct Whole;

impl<'de> DeserializeSeed<'de> for Whole {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Whole {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Value, E> {
        Ok(truth.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = serde_json::Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if object.insert(key, map.next_value_seed(Whole)?).is_some() {
                return Err(Error::custom("doubled key"));
            }
        }
        Ok(object.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element_seed(Whole)? {
            list.push(item);
        }
        Ok(list.into())
    }
}

/// Reads a key only to say where it leads.
struct Step<'p>(Place<'p>);

impl<'de, 'p> DeserializeSeed<'de> for Step<'p> {
    type Value = Place<'p>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Place<'p>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'p> Visitor<'_> for Step<'p> {
    type Value = Place<'p>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Place<'p>, E> {
        Ok(if self.0.mask == 0 { self.0 } else { self.0.step(key) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn pick_one<'b>(body: &'b [u8], pointer: &str) -> Result<Found<'b>, MapError> {
        pick(body, [pointer]).map(|[found]| found)
    }

    #[test]
    fn fields_are_found_by_pointer_whatever_stands_around_them() {
        let body = br#" {"a":[{"x":1},{"x":"two"}],"b":{"c/d":{"e~f":-3}},"n":null,"z":"\u00e9"} "#;
        let found = pick(body, ["/a/1/x", "/a/0/x", "/b/c~1d/e~0f", "/z", "/n", "/a", "/none"]);
        let texts = found.unwrap().map(|found| found.map(Cow::into_owned));
        let texts = texts.each_ref().map(Option::as_deref);
        assert_eq!(texts, [Some("two"), Some("1"), Some("-3"), Some("é"), None, None, None]);
    }

    #[test]
    fn one_field_may_be_wanted_twice_and_others_not_at_all() {
        let [a, none, b] = pick_wanted(br#"{"k":"v"}"#, [Some("/k"), None, Some("/k")]).unwrap();
        assert_eq!((a.as_deref(), none, b.as_deref()), (Some("v"), None, Some("v")));
    }

    #[test]
    fn a_number_that_would_lose_digits_is_not_an_id() {
        assert_eq!(pick_one(br#"{"id":18446744073709551616}"#, "/id"), Ok(None));
        assert_eq!(pick_one(br#"{"id":1.0}"#, "/id"), Ok(None));
        let found = pick_one(br#"{"id":18446744073709551615}"#, "/id").unwrap();
        assert_eq!(found.as_deref(), Some("18446744073709551615"));
    }

    #[test]
    fn a_doubled_key_on_the_way_to_a_wanted_field_is_refused() {
        assert!(pick_one(br#"{"id":"a","id":"b"}"#, "/id").is_err());
        assert!(pick_one(br#"{"d":{"id":"a"},"d":{}}"#, "/d/id").is_err());
        assert!(pick_one(br#"{"\u0069d":"a","id":"b"}"#, "/id").is_err());
        assert!(pick_one(br#"{"x":1,"x":2,"id":"b"}"#, "/id").is_ok());
    }

    #[test]
    fn a_doubled_key_anywhere_is_refused_where_the_whole_is_read() {
        assert!(whole(br#"{"x":[{"k":1,"\u006b":2}]}"#).is_err());
        assert!(whole(br#"{"x":[{"k":1},{"k":2}]}"#).is_ok());
    }

    #[test]
    fn an_id_is_a_text_or_a_whole_number_and_never_empty() {
        let value = serde_json::json!({"a": "x", "b": -7, "c": 1.5, "d": "", "e": null, "f": [1]});
        let found = ["/a", "/b", "/c", "/d", "/e", "/f", "/g"].map(|at| id_at(&value, at));
        let found = found.each_ref().map(Option::as_deref);
        assert_eq!(found, [Some("x"), Some("-7"), None, None, None, None, None]);
        assert_eq!(["/a", "/b", "/d"].map(|at| text_at(&value, at)), [Some("x"), None, None]);
        assert_eq!((list_at(&value, "/f").len(), list_at(&value, "/a").len()), (1, 0));
    }

    #[test]
    fn hostile_bodies_give_a_typed_error_soon() {
        let deep = |open: &str, close: &str| {
            format!(r#"{{"id":"a","x":{}1{}}}"#, open.repeat(100_000), close.repeat(100_000))
        };
        let bodies: Vec<Vec<u8>> = vec![
            deep("[", "]").into(),
            deep("{\"x\":", "}").into(),
            "[".repeat(1_000_000).into(),
            br#"{"id":"a","x":1e400}"#.to_vec(),
            br#"{"id":"a","x":"\ud800"}"#.to_vec(),
            br#"{"id":"a","x":"\udc00\ud800"}"#.to_vec(),
            "\u{feff}{\"id\":\"a\"}".into(),
            b"{\"id\":\"a\",\"x\":\"\xff\"}".to_vec(),
            b"{\"id\":\"a\"".to_vec(),
            b"{\"id\":\"a\"} {}".to_vec(),
            b"{\"id\":\"a\nb\"}".to_vec(),
            b"".to_vec(),
        ];
        for body in bodies {
            let start = Instant::now();
            let found = pick_one(&body, "/id");
            assert!(matches!(found, Err(MapError::NotJson(_))), "{found:?}");
            assert!(matches!(whole(&body), Err(MapError::NotJson(_))));
            assert!(
                start.elapsed() < Duration::from_millis(500),
                "far above the 50 ms of a release build"
            );
        }
    }

    #[test]
    fn a_pointer_is_known_by_its_form() {
        for good in ["", "/", "/a/0/b", "/a~1b/~0"] {
            assert!(is_pointer(good), "{good:?}");
        }
        for bad in ["a", "a/b", "$.a", "/a~", "/a~2"] {
            assert!(!is_pointer(bad), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_can_be_picked_from_can_be_parsed_whole(body in "[\\[\\]{}\",:0-9eE.\\\\u-]{0,40}") {
            if pick_one(body.as_bytes(), "/a").is_ok() {
                prop_assert!(serde_json::from_str::<Value>(&body).is_ok());
            }
        }

        #[test]
        fn the_whole_is_what_any_reader_makes_of_it(body in "[\\[\\]{}\",:0-9eE.\\\\u-]{0,40}") {
            if let Ok(value) = whole(body.as_bytes()) {
                prop_assert_eq!(serde_json::from_str::<Value>(&body).ok(), Some(value));
            }
        }

        #[test]
        fn picking_agrees_with_parsing_the_whole(key in "[a-c~/]{0,3}", value in "\\PC{0,20}", number: i64) {
            let document = serde_json::json!({"o": {&key: &value}, "l": [null, {&key: number}]});
            let escaped = key.replace('~', "~0").replace('/', "~1");
            let (text_at, number_at) = (format!("/o/{escaped}"), format!("/l/1/{escaped}"));
            let body = document.to_string();
            let [text, digits] = pick(body.as_bytes(), [&text_at, &number_at]).unwrap();
            prop_assert_eq!(text.as_deref(), document.pointer(&text_at).and_then(Value::as_str));
            prop_assert_eq!(digits.map(Cow::into_owned), Some(number.to_string()));
        }

        #[test]
        fn no_bytes_make_it_panic(body: Vec<u8>) {
            let _ = pick_one(&body, "/a/0");
        }
    }
}
