//! CloudEvents over HTTP: checked as the generic adapter checks, in binary mode, structured mode and batches.
//!
//! Whatever the mode, an event's data are the whole event in the JSON format: its attributes and, in `data`, what
//! the sender attached. So an agent reads the same from every sender, any CloudEvents library can read it too, and
//! no attribute is lost.

use http::{HeaderMap, Method};
use serde_json::{Map, Value};
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Mapped, Subject};
use wakepost_domain::ports::Entropy;

use crate::freshness::Unit;
use crate::generic::Generic;
use crate::mapping::{self, MapError};
use crate::provider::{Answer, Facts, Keys, Provider, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{self, ConfigError, Setting, Settings};
use crate::signature::Encoding;
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{header, payload};

const STRUCTURED: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";

/// Any sender of CloudEvents.
pub(crate) struct CloudEvents;

impl Provider for CloudEvents {
    fn name(&self) -> &'static str {
        "cloudevents"
    }

    fn facts(&self) -> Facts {
        Facts { label: "CloudEvents", ..Generic.facts() }
    }

    fn steps(&self, webhook_url: &str) -> Vec<String> {
        vec![format!("Give the sender the address {webhook_url} and the source's secret.")]
    }

    /// In binary mode the id and the source are in headers that a signature over the body does not cover.
    fn facts_for(&self, settings: &Settings) -> Facts {
        Facts { label: "CloudEvents", id_is_signed: false, ..Generic.facts_for(settings) }
    }

    /// The generic adapter's, but for where the type is: CloudEvents says that itself. It says the id as well,
    /// but the generic check may need to know where a signed one is.
    fn settings(&self) -> &'static [Setting] {
        let (kept, _) = Generic.settings().split_at(Generic.settings().len() - TYPE_SETTINGS);
        kept
    }

    fn check_config(
        &self,
        secret: Option<&str>,
        settings: &Settings,
    ) -> Result<Vec<String>, ConfigError> {
        settings::missing(self.settings(), settings)?;
        Generic.check_config(secret, settings)
    }

    /// A sender asks whether it may send; anybody who knows the address may, and is then checked.
    fn handshake(&self, request: &Request<'_>, _: &Settings) -> Option<Answer> {
        if request.method != Method::OPTIONS {
            return None;
        }
        let origin = header::one(request.headers, "WebHook-Request-Origin").ok()?;
        let is_plain =
            origin.len() <= ORIGIN_BYTES_MAX && origin.bytes().all(|b| b.is_ascii_graphic());
        is_plain.then(|| Answer {
            headers: vec![
                ("webhook-allowed-origin", origin.to_owned()),
                ("webhook-allowed-rate", "*".to_owned()),
                ("allow", "POST, OPTIONS".to_owned()),
            ],
            ..Answer::ok("text/plain", "")
        })
    }

    fn signed_headers(&self, settings: &Settings) -> Vec<SignedHeader> {
        Generic.signed_headers(settings)
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        Generic.verify(request, check)
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let request_id = header::request_id(request.headers);
        let attributes = match Mode::of(request)? {
            Mode::Binary => vec![Attributes::in_headers(request)],
            Mode::Structured => vec![Attributes::in_json(request.body)],
            Mode::Batch => {
                let items = payload::items(request.body)?.into_iter();
                items.map(|item| Attributes::in_json(item.get().as_bytes())).collect()
            }
        };
        mapping::many(attributes.into_iter().map(|attributes| {
            Ok(Mapped { provider_request_id: request_id.clone(), ..attributes?.mapped()? })
        }))
    }

    fn data(&self, request: &Request<'_>, part: usize) -> Value {
        match Mode::of(request) {
            Ok(Mode::Binary) => as_json(request),
            Ok(Mode::Batch) => payload::item_data(request.body, part),
            Ok(Mode::Structured) | Err(_) => payload::data(request),
        }
    }

    fn generate_secret(&self, settings: &Settings, entropy: &dyn Entropy) -> Option<String> {
        Generic.generate_secret(settings, entropy)
    }

    fn is_public(&self, secret: &str, settings: &Settings) -> bool {
        Generic.is_public(secret, settings)
    }

    fn sample_keys(&self, settings: &Settings, entropy: &dyn Entropy) -> Keys {
        Generic.sample_keys(settings, entropy)
    }

    fn samples(&self) -> &'static [Sample] {
        SAMPLES
    }

    fn sign(
        &self,
        request: &mut SignedRequest,
        secret: &str,
        settings: &Settings,
        id: &str,
        now: Timestamp,
    ) -> Result<(), ConfigError> {
        Generic.sign(request, secret, settings, id, now)
    }
}

/// The last settings of the generic adapter: `type_header` and `type_pointer`.
const TYPE_SETTINGS: usize = 2;
/// The longest name of a sender that is repeated to it.
const ORIGIN_BYTES_MAX: usize = 255;

static SAMPLES: &[Sample] = &[
    Sample {
        content_type: STRUCTURED,
        ..Sample::json(
            "com.acme.order.shipped",
            include_str!("../fixtures/cloudevents/com.acme.order.shipped.json"),
        )
    },
    Sample::json(
        "com.acme.stock.low",
        include_str!("../fixtures/cloudevents/com.acme.stock.low.json"),
    )
    .with_headers(&[
        ("ce-specversion", "1.0"),
        ("ce-id", "$ID"),
        ("ce-source", "/warehouses/north"),
        ("ce-type", "com.acme.stock.low"),
        ("ce-subject", "lamp-40"),
        ("ce-time", "$TIME"),
    ]),
    Sample {
        content_type: BATCH,
        ..Sample::json(
            "com.acme.invoice.created",
            include_str!("../fixtures/cloudevents/com.acme.invoice.created.json"),
        )
    },
];

/// Where the attributes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Binary,
    Structured,
    Batch,
}

impl Mode {
    /// The media type decides first, as the specification has it. Senders that call a structured event plain JSON
    /// are understood too: without a `ce-` header it can be nothing else.
    fn of(request: &Request<'_>) -> Result<Mode, Why> {
        let media_type = header::media_type(request.headers).unwrap_or_default();
        match media_type.as_str() {
            BATCH => Ok(Mode::Batch),
            STRUCTURED => Ok(Mode::Structured),
            other if other.starts_with("application/cloudevents") => {
                Err(Why::malformed("content-type", "an event in the JSON format"))
            }
            _ if request.headers.contains_key("ce-id") => Ok(Mode::Binary),
            _ if header::says_json(request.headers) => Ok(Mode::Structured),
            // Its mapping then says which header is missing.
            _ => Ok(Mode::Binary),
        }
    }
}

/// The attributes that the envelope needs.
struct Attributes {
    id: String,
    source: String,
    event_type: String,
    time: Option<String>,
    subject: Option<String>,
}

impl Attributes {
    fn in_json(event: &[u8]) -> Result<Attributes, MapError> {
        let found = payload::pick(event, ["/id", "/source", "/type", "/time", "/subject"])?;
        let [id, source, event_type, time, subject] =
            found.map(|text| text.map(|text| text.into_owned()).filter(|text| !text.is_empty()));
        Ok(Attributes {
            id: id.ok_or(MapError::Missing("/id"))?,
            source: source.ok_or(MapError::Missing("/source"))?,
            event_type: event_type.ok_or(MapError::Missing("/type"))?,
            time,
            subject,
        })
    }

    fn in_headers(request: &Request<'_>) -> Result<Attributes, MapError> {
        // A body that claims to be JSON must be, or nobody could read it later; others are opaque.
        if !request.body.is_empty() && header::says_json(request.headers) {
            payload::pick(request.body, [])?;
        }
        let one = |name: &str| -> Result<String, MapError> {
            Ok(unescaped(name, header::one(request.headers, name)?)?)
        };
        let optional = |name: &str| -> Option<String> {
            unescaped(name, header::optional(request.headers, name).ok()??).ok()
        };
        Ok(Attributes {
            id: one("ce-id")?,
            source: one("ce-source")?,
            event_type: one("ce-type")?,
            time: optional("ce-time"),
            subject: optional("ce-subject"),
        })
    }

    fn mapped(self) -> Result<Mapped, MapError> {
        Ok(Mapped {
            // A source is a URI, which has no space in it; one that has is written as a URI would write it.
            dedup_key: Some(format!("{} {}", self.source.replace(' ', "%20"), self.id)),
            event_type: self.event_type,
            occurred_at: self.time.and_then(|time| Unit::Rfc3339.read(&time)),
            subject: self.subject.map(|id| Subject { kind: "subject".to_owned(), id, url: None }),
            ..Mapped::default()
        })
    }
}

/// A header's value, in which everything but plain ASCII is percent-encoded UTF-8.
fn unescaped(name: &str, value: &str) -> Result<String, Why> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = match (first, after) {
            (b'%', [high, low, ..]) => hex::decode([*high, *low]).ok(),
            _ => None,
        };
        rest = if escaped.is_some() { &after[2..] } else { after };
        bytes.push(escaped.map_or(*first, |byte| byte[0]));
    }
    String::from_utf8(bytes).map_err(|_| Why::malformed(name, "percent-encoded UTF-8"))
}

/// An event in binary mode, as it would be in the JSON format.
fn as_json(request: &Request<'_>) -> Value {
    let mut event = attributes(request.headers);
    if let Ok(Some(content_type)) = header::optional(request.headers, "content-type") {
        event.insert("datacontenttype".to_owned(), content_type.into());
    }
    if std::str::from_utf8(request.body).is_err() {
        event.insert("data_base64".to_owned(), Encoding::Base64.encode(request.body).into());
    } else if !request.body.is_empty() {
        event.insert("data".to_owned(), payload::data(request));
    }
    event.into()
}

/// Every attribute in the headers, the sender's own extensions too.
fn attributes(headers: &HeaderMap) -> Map<String, Value> {
    let names = headers.keys().filter_map(|name| name.as_str().strip_prefix("ce-"));
    let attribute = |name: &str| {
        let full_name = format!("ce-{name}");
        let value = header::optional(headers, &full_name).ok()??;
        Some((name.to_owned(), unescaped(&full_name, value).ok()?.into()))
    };
    names.filter_map(attribute).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::{NOW, map, settings, verify_with};

    fn structured(content_type: &str, body: &str) -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/in/src_1", body);
        request.set("content-type", content_type).unwrap();
        request
    }

    fn binary(headers: &[(&str, &str)], content_type: &str, body: &str) -> SignedRequest {
        let mut request = structured(content_type, body);
        for (name, value) in headers {
            request.set(name, value).unwrap();
        }
        request
    }

    const HEADERS: &[(&str, &str)] = &[
        ("ce-specversion", "1.0"),
        ("ce-id", "e 1"),
        ("ce-source", "/shop"),
        ("ce-type", "order.shipped"),
        ("ce-subject", "Caf%C3%A9%2042"),
        ("ce-time", "2023-11-14T22:13:20Z"),
        ("ce-tenantname", "acme"),
    ];
    const EVENT: &str = r#"{"specversion":"1.0","id":"e 1","source":"/shop","type":"order.shipped",
        "subject":"Café 42","time":"2023-11-14T22:13:20Z","tenantname":"acme",
        "datacontenttype":"application/json","data":{"parcels":2}}"#;

    #[test]
    fn an_event_reads_the_same_in_every_mode() {
        let one = structured(STRUCTURED, EVENT);
        let two = binary(HEADERS, "application/json", r#"{"parcels":2}"#);
        let three =
            structured("Application/CloudEvents-Batch+JSON; charset=utf-8", &format!("[{EVENT}]"));
        let four = structured("application/json", EVENT);
        for request in [&one, &two, &three, &four] {
            let mapped = map(&CloudEvents, request).unwrap();
            assert_eq!(mapped.event_type, "order.shipped");
            assert_eq!(mapped.dedup_key.as_deref(), Some("/shop e 1"));
            assert_eq!(mapped.occurred_at, Some(NOW));
            assert_eq!(mapped.subject.unwrap().id, "Café 42");
            let expected: Value = serde_json::from_str(EVENT).unwrap();
            assert_eq!(CloudEvents.data(&request.as_request(), 0), expected);
        }
    }

    #[test]
    fn a_source_and_an_id_cannot_be_taken_for_another_pair() {
        let key = |source: &str, id: &str| {
            let event = json!({"id": id, "source": source, "type": "t"}).to_string();
            map(&CloudEvents, &structured(STRUCTURED, &event)).unwrap().dedup_key.unwrap()
        };
        assert_ne!(key("a b", "c"), key("a", "b c"));
        assert_ne!(key("a", "bc"), key("ab", "c"));
    }

    #[test]
    fn every_event_of_a_batch_is_told_in_order() {
        let body =
            r#"[{"id":"1","source":"s","type":"a"},{"id":"2","source":"s","type":"b","data":7}]"#;
        let request = structured(BATCH, body);
        let mapped = CloudEvents.map(&request.as_request(), &Settings::new()).unwrap();
        let types: Vec<_> = mapped.iter().map(|event| event.event_type.as_str()).collect();
        assert_eq!(types, ["a", "b"]);
        assert_eq!(CloudEvents.data(&request.as_request(), 1)["data"], 7);
        let empty = structured(BATCH, "[]");
        let error = CloudEvents.map(&empty.as_request(), &Settings::new());
        assert_eq!(error, Err(MapError::NotAList));
    }

    #[test]
    fn what_was_attached_in_binary_mode_is_json_text_or_bytes() {
        let data = |content_type: &str, body: &[u8]| {
            let mut request = binary(HEADERS, content_type, "");
            request.body = body.to_vec();
            map(&CloudEvents, &request).unwrap();
            CloudEvents.data(&request.as_request(), 0)
        };
        assert_eq!(data("text/plain", b"hello")["data"], "hello");
        let bytes = data("image/png", b"\xff\xd8");
        assert_eq!((&bytes["data_base64"], bytes.get("data")), (&json!("/9g="), None));
        assert_eq!(data("application/json", b"").get("data"), None);
    }

    #[test]
    fn the_media_type_decides_before_the_headers_do() {
        let mut request = structured(STRUCTURED, EVENT);
        request.set("ce-id", "other").unwrap();
        assert_eq!(map(&CloudEvents, &request).unwrap().dedup_key.as_deref(), Some("/shop e 1"));
        let avro = binary(HEADERS, "application/cloudevents+avro", "x");
        assert!(matches!(map(&CloudEvents, &avro), Err(MapError::Header(_))));
    }

    #[test]
    fn an_event_without_what_names_it_is_unmapped() {
        for (body, missing) in [
            (r#"{"source":"s","type":"t"}"#, "/id"),
            (r#"{"id":"","source":"s","type":"t"}"#, "/id"),
            (r#"{"id":"1","type":"t"}"#, "/source"),
            (r#"{"id":"1","source":"s"}"#, "/type"),
        ] {
            let error = map(&CloudEvents, &structured(STRUCTURED, body));
            assert_eq!(error, Err(MapError::Missing(missing)));
        }
        for name in ["ce-id", "ce-source", "ce-type"] {
            let mut request = binary(HEADERS, "text/plain", "x");
            let value = request.headers.remove(name).unwrap();
            assert_eq!(map(&CloudEvents, &request), Err(Why::Missing(name.to_owned()).into()));
            request.headers.append(name, value.clone());
            request.headers.append(name, value);
            assert_eq!(map(&CloudEvents, &request), Err(Why::Doubled(name.to_owned()).into()));
            request.headers.insert(name, HeaderValue::from_static("%ff"));
            assert!(matches!(map(&CloudEvents, &request), Err(MapError::Header(_))));
        }
    }

    #[test]
    fn a_body_that_is_not_the_json_it_claims_to_be_is_unmapped() {
        let doubled = r#"{"id":"1","id":"2","source":"s","type":"t"}"#;
        for request in [
            structured(STRUCTURED, ""),
            structured(STRUCTURED, doubled),
            structured(BATCH, EVENT),
            binary(HEADERS, "application/json", "{"),
        ] {
            let error = CloudEvents.map(&request.as_request(), &Settings::new());
            assert!(matches!(error, Err(MapError::NotJson(_))), "{error:?}");
        }
    }

    #[test]
    fn a_description_that_cannot_be_read_is_left_out() {
        let mut request = binary(HEADERS, "text/plain", "x");
        request.set("ce-time", "yesterday").unwrap();
        request.set("ce-subject", "%ff").unwrap();
        let mapped = map(&CloudEvents, &request).unwrap();
        assert_eq!((mapped.occurred_at, mapped.subject), (None, None));
        let event = r#"{"id":"1","source":"s","type":"t","time":5,"subject":{}}"#;
        let mapped = map(&CloudEvents, &structured(STRUCTURED, event)).unwrap();
        assert_eq!((mapped.occurred_at, mapped.subject), (None, None));
    }

    #[test]
    fn a_sender_that_asks_whether_it_may_send_is_told_so() {
        let ask = |method: Method, origin: Option<&str>| {
            let mut request = SignedRequest::post("https://hooks.example/in/src_1", "");
            request.method = method;
            if let Some(origin) = origin {
                request.set("WebHook-Request-Origin", origin).unwrap();
            }
            CloudEvents.handshake(&request.as_request(), &Settings::new())
        };
        let answer = ask(Method::OPTIONS, Some("emitter.example.com")).unwrap();
        assert_eq!(answer.status, 200);
        let header =
            |name| answer.headers.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str());
        assert_eq!(header("webhook-allowed-origin"), Some("emitter.example.com"));
        assert_eq!(header("webhook-allowed-rate"), Some("*"));
        assert_eq!(ask(Method::GET, Some("emitter.example.com")), None);
        assert_eq!(ask(Method::OPTIONS, None), None);
        assert_eq!(ask(Method::OPTIONS, Some("")), None);
        assert_eq!(ask(Method::OPTIONS, Some("a b")), None);
        assert_eq!(ask(Method::OPTIONS, Some(&"a".repeat(256))), None);
    }

    #[test]
    fn the_check_is_the_generic_adapters() {
        let settings =
            settings(&[("header", "Authorization"), ("algorithm", "token"), ("prefix", "Bearer ")]);
        let mut request = structured(STRUCTURED, EVENT);
        request.set("authorization", "Bearer s3cret").unwrap();
        assert!(verify_with(&CloudEvents, &request, &["s3cret"], &settings, NOW).is_ok());
        assert!(verify_with(&CloudEvents, &request, &["other"], &settings, NOW).is_err());
        let facts = CloudEvents.facts_for(&settings);
        assert_eq!((facts.label, facts.signs_body), ("CloudEvents", false));
        assert!(CloudEvents.facts().signs_body && !CloudEvents.facts().id_is_signed);
    }

    #[test]
    fn where_the_type_is_cannot_be_set() {
        let names: Vec<_> = CloudEvents.settings().iter().map(|setting| setting.name).collect();
        assert!(names.contains(&"id_pointer") && names.contains(&"header"));
        for name in ["type_header", "type_pointer"] {
            assert!(!names.contains(&name));
            let given = settings(&[("header", "X-Sig"), (name, "/x")]);
            assert!(CloudEvents.check_config(Some("s"), &given).is_err());
        }
        let given = settings(&[("algorithm", "basic")]);
        assert_eq!(CloudEvents.check_config(Some("u:p"), &given), Ok(vec![]));
        let missing = vec!["secret".to_owned(), "header".to_owned()];
        assert_eq!(CloudEvents.check_config(None, &Settings::new()), Ok(missing));
    }

    #[test]
    fn escapes_are_undone_and_what_is_none_stays() {
        for (value, expected) in [
            ("plain", "plain"),
            ("Euro%20%E2%82%AC", "Euro €"),
            ("100%", "100%"),
            ("%2", "%2"),
            ("%zz", "%zz"),
            ("a+b", "a+b"),
            ("%25%32%30", "%20"),
        ] {
            assert_eq!(unescaped("ce-id", value).as_deref(), Ok(expected));
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_unescaping_panic(value in "[ -~]{0,40}") {
            let _ = unescaped("ce-id", &value);
        }
    }
}
