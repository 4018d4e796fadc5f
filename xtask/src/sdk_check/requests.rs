//! The requests that are signed: every sample of a provider, and bodies that are easily mangled.

use wakepost_domain::Timestamp;
use wakepost_providers::{Provider, SignedRequest};

/// A request that nobody has signed yet.
pub struct Unsigned {
    /// What is special about it.
    pub name: String,
    /// The id of its event.
    pub id: &'static str,
    /// The request.
    pub request: SignedRequest,
}

/// Ids of events.
pub const IDS: [&str; 3] = ["7001", "evt_1-aB", "msg_2Lh9KRb0pzN4LePd3XiA4v12Axj"];

const URL: &str = "https://hooks.example.com/in/src_1";

/// Addresses that a library may be tempted to tidy up.
const URLS: [&str; 6] = [
    "https://hooks.example.com/in/src_1?a=b&c=d%20e+f",
    "https://hooks.example.com/in/src_1?empty=&flag",
    "https://hooks.example.com:8443/in/src_1",
    "http://hooks.example.com/in/src_1/",
    "https://hooks.example.com/in/Gr%C3%BC%C3%9Fe?q=it's",
    "https://hooks.example.com/in/src_1?b=2&a=1&b=1",
];

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// Bodies that do not survive being parsed, decoded or trimmed on the way to the check. All are UTF-8: most SDKs
/// take bodies for text and cannot be right about other bytes.
const BODIES: &[(&str, &str, &str)] = &[
    ("empty", JSON, ""),
    ("unicode", JSON, r#"{"text":"Grüße aus 東京 🚀 e\u0301 é \u2028 ﬁ"}"#),
    ("separators of lines", JSON, "{\"text\":\"a\u{2028}b\u{2029}c\u{85}d\"}"),
    ("CRLF", JSON, "{\r\n  \"a\": 1,\r\n  \"b\": [\r\n  ]\r\n}\r\n"),
    ("spaces around", JSON, "\n\t { \"a\" : 1 } \n\n"),
    ("numbers", JSON, r#"{"a":1.0,"b":1e2,"c":12345678901234567890,"d":-0,"a":2}"#),
    ("escapes", JSON, r#"{"a":"\/\u003c\u0000","b":"\\\"","c":"<&>'"}"#),
    ("not JSON", JSON, "hello, it's 100% plain + text"),
    ("a NUL byte", JSON, "{\"a\":\"\0\"}"),
    ("a form", FORM, "b=2&a=1&c=&B=3&_=4"),
    ("a form with unicode", FORM, "Body=Gr%C3%BC%C3%9Fe+%F0%9F%9A%80&From=%2B49&Na%C3%AFve=%C3%A9"),
    ("a form with raw unicode", FORM, "Body=Grüße 東京&From=+49"),
    ("a form with CRLF", FORM, "Body=one%0D%0Atwo%0Athree&From=%2B15550001234"),
    ("a form with repeats", FORM, "a=2&a=1&b=x&a=2&a=10"),
    ("a form with odd fields", FORM, "flag&=nameless&a=b=c&d=%zz&e=%&&f=1;g=2"),
    ("a form with spaces", FORM, "a=+x+&b=%20y%20&c+d=e%20f"),
];

const LARGE_BYTES: usize = 100 * 1024;

/// All requests to try a provider with.
pub fn all(provider: &dyn Provider, now: Timestamp) -> Vec<Unsigned> {
    let samples = provider.samples();
    let mut all = Vec::new();
    for sample in samples {
        all.extend(IDS.map(|id| Unsigned {
            name: format!("the sample {}, id {id}", sample.event_type),
            id,
            request: sample.request(URL, id, now),
        }));
    }
    // What is awkward comes with the headers of a real request: some SDKs look at them too.
    let real = |url: &str| samples[0].request(url, IDS[0], now);
    all.extend(URLS.map(|url| Unsigned {
        name: format!("the address {url}"),
        id: IDS[0],
        request: real(url),
    }));
    let large = [("large", JSON, format!("{{\"text\":\"{}\"}}", "Größe".repeat(LARGE_BYTES / 7)))];
    let large_form = [("a large form", FORM, format!("b=1&a={}", "x%20".repeat(LARGE_BYTES / 4)))];
    let bodies = BODIES.iter().map(|(name, kind, body)| (*name, *kind, (*body).to_owned()));
    for (name, content_type, body) in bodies.chain(large).chain(large_form) {
        let mut request = real(URL);
        request.set("content-type", content_type).expect("a media type is plain");
        request.body = body.into_bytes();
        all.push(Unsigned { name: format!("a body: {name}"), id: IDS[0], request });
    }
    all
}
