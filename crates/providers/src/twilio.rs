//! Twilio: HMAC-SHA1 over the public address and the decoded form; other bodies by their hash in the address.
//!
//! Twilio has no names for its events, so they are made of what it is about and the status it has: `sms.received`,
//! `sms.delivered`, `call.ringing`, `recording.completed`. Where there is no status, its `EventType` is the type.

use std::borrow::Cow;
use std::time::Duration;

use aws_lc_rs::digest;
use aws_lc_rs::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY;
use serde_json::Value;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Actor, Mapped, Subject};

use crate::form::Form;
use crate::header;
use crate::mapping::{self, MapError};
use crate::payload::{self, text_at};
use crate::provider::{Answer, Facts, Provider, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Settings};
use crate::signature::{self, Encoding};
use crate::verdict::{Check, Refusal, Verified, Why};

const SIGNATURE: &str = "X-Twilio-Signature";
const TOKEN: &str = "I-Twilio-Idempotency-Token";
const BODY_HASH: &str = "bodySHA256";
const FORM: &str = "application/x-www-form-urlencoded";

/// Messages and calls of a Twilio account.
pub(crate) struct Twilio;

impl Provider for Twilio {
    fn name(&self) -> &'static str {
        "twilio"
    }

    fn facts(&self) -> Facts {
        Facts {
            patience: Duration::from_secs(15),
            id_is_signed: false,
            signs_url: true,
            accepted_status: 200,
            ..Facts::usual("Twilio")
        }
    }

    fn place(&self) -> Option<&'static str> {
        Some("Phone Numbers → Manage → Active numbers → your number → Configure")
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SignedHeader::exact("x-twilio-signature")]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let given = Encoding::Base64
            .decode(header::one(request.headers, SIGNATURE)?)
            .ok_or_else(|| Why::malformed(SIGNATURE, "base64"))?;
        let fields = signed_fields(request)?;
        let urls = [Some(Cow::Borrowed(request.url)), other_port(request.url).map(Cow::Owned)];
        let given = [given];
        let secret_index = check.secret_that(|secret| {
            Ok(urls.iter().flatten().any(|url| {
                let parts = [url.as_bytes(), fields.as_bytes()];
                let key = secret.as_bytes();
                signature::hmac_fits(HMAC_SHA1_FOR_LEGACY_USE_ONLY, key, &parts, &given)
            }))
        })?;
        Ok(Verified { secret_index, signed_at: None })
    }

    /// The form is signed as it is decoded: `+` and `%20` are one to the signature, and order is nothing.
    fn says_the_same(&self, one: &Request<'_>, other: &Request<'_>) -> bool {
        match (is_form(one) && is_form(other), Form::read(one), Form::read(other)) {
            (true, Ok(a), Ok(b)) => sorted(&a) == sorted(&b),
            _ => one.body == other.body,
        }
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let said = Said::read(request)?;
        let token = header::optional(request.headers, TOKEN)?;
        mapping::one(Mapped {
            dedup_key: token.map(str::to_owned).or_else(|| said.key()),
            event_type: said.event_type(),
            occurred_at: said.occurred_at(),
            actor: said.actor(),
            subject: said.subject(),
            provider_request_id: header::request_id(request.headers),
            ..Mapped::default()
        })
    }

    /// Nothing to say or do: what the agent wants said, it sends itself.
    fn prescribed(&self, _: &Request<'_>, _: &Settings) -> Option<Answer> {
        Some(Answer::ok("text/xml", r#"<?xml version="1.0" encoding="UTF-8"?><Response/>"#))
    }

    fn samples(&self) -> &'static [Sample] {
        SAMPLES
    }

    fn sign(
        &self,
        request: &mut SignedRequest,
        secret: &str,
        _: &Settings,
        id: &str,
        _: Timestamp,
    ) -> Result<(), ConfigError> {
        if !is_form(&request.as_request()) {
            request.url = with_hash(&request.url, &request.body);
        }
        let fields = signed_fields(&request.as_request())
            .map_err(|why| ConfigError::new("body", format!("cannot be signed: {why}")))?;
        let parts = [request.url.as_bytes(), fields.as_bytes()];
        let tag = signature::hmac(HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes(), &parts);
        request.set(SIGNATURE, &Encoding::Base64.encode(tag.as_ref()))?;
        request.set(TOKEN, id)
    }
}

static SAMPLES: &[Sample] = &[
    form("sms.received", include_str!("../fixtures/twilio/sms.received.form")),
    form("sms.undelivered", include_str!("../fixtures/twilio/sms.undelivered.form")),
    form("call.ringing", include_str!("../fixtures/twilio/call.ringing.form")),
];

const fn form(event_type: &'static str, body: &'static str) -> Sample {
    Sample { content_type: FORM, ..Sample::json(event_type, body) }
}

/// What is signed after the address: the fields of a form; nothing where the address holds the body's hash, which
/// then must be the hash of this very body. A body with neither is signed by nobody.
fn signed_fields(request: &Request<'_>) -> Result<String, Why> {
    let hashes = body_hashes(request.url);
    match hashes.as_slice() {
        [] if is_form(request) => match Form::read(request) {
            Ok(form) => Ok(joined(&sorted(&form))),
            Err(_) => Err(Why::malformed("the body", "a form, and the signature needs it")),
        },
        [] => Err(Why::malformed("the address", "complete: it needs bodySHA256 for such a body")),
        [hash] => {
            let given = Encoding::Hex.decode(hash).unwrap_or_default();
            let actual = digest::digest(&digest::SHA256, request.body);
            match signature::equal(&given, actual.as_ref()) {
                true => Ok(String::new()),
                false => Err(Why::malformed(BODY_HASH, "the hash of this body")),
            }
        }
        _ => Err(Why::malformed("the address", "clear: it has bodySHA256 twice")),
    }
}

/// An empty body is a form without fields, whatever it says it is.
fn is_form(request: &Request<'_>) -> bool {
    request.body.is_empty() || header::media_type(request.headers).as_deref() == Some(FORM)
}

/// The fields in the order that Twilio signs them in; the same field with the same value counts once.
fn sorted<'f>(form: &'f Form<'_>) -> Vec<(&'f str, &'f str)> {
    let mut fields: Vec<_> = form.fields().collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}

fn joined(fields: &[(&str, &str)]) -> String {
    fields.iter().flat_map(|(name, value)| [*name, *value]).collect()
}

fn body_hashes(url: &str) -> Vec<Cow<'_, str>> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let values = form_urlencoded::parse(query.as_bytes());
    values.filter(|(name, _)| name == BODY_HASH).map(|(_, value)| value).collect()
}

/// The address with the hash of this body, in place of any other.
fn with_hash(url: &str, body: &[u8]) -> String {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let hash = hex::encode(digest::digest(&digest::SHA256, body));
    let kept = query.split('&').filter(|item| !item.is_empty() && !item.starts_with(BODY_HASH));
    let query: Vec<_> = kept.map(str::to_owned).chain([format!("{BODY_HASH}={hash}")]).collect();
    format!("{base}?{}", query.join("&"))
}

/// The address without its port, or with the usual one: Twilio signs now one, now the other, and its own
/// libraries try both.
fn other_port(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    Some(match (port, scheme) {
        (Some((name, _)), _) => format!("{scheme}://{name}{path}"),
        (None, "https") => format!("{scheme}://{host}:443{path}"),
        (None, _) => format!("{scheme}://{host}:80{path}"),
    })
}

/// One kind of thing that Twilio tells of, and where its id and its status are.
struct Kind {
    prefix: &'static str,
    thing: &'static str,
    ids: &'static [&'static str],
    statuses: &'static [&'static str],
}

/// A recording and a conference also name a call, so they come before it.
static KINDS: [Kind; 4] = [
    Kind {
        prefix: "sms",
        thing: "message",
        ids: &["/MessageSid", "/SmsSid"],
        statuses: &["/MessageStatus", "/SmsStatus"],
    },
    Kind {
        prefix: "recording",
        thing: "recording",
        ids: &["/RecordingSid"],
        statuses: &["/RecordingStatus"],
    },
    Kind {
        prefix: "conference",
        thing: "conference",
        ids: &["/ConferenceSid"],
        statuses: &["/StatusCallbackEvent"],
    },
    Kind { prefix: "call", thing: "call", ids: &["/CallSid"], statuses: &["/CallStatus"] },
];

/// What a request says, be it a form or JSON. A field that is there twice says nothing.
struct Said(Value);

impl Said {
    fn read(request: &Request<'_>) -> Result<Said, MapError> {
        Ok(Said(match is_form(request) {
            true => Form::read(request)?.to_json(),
            false => payload::whole(request.body)?,
        }))
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        text_at(&self.0, pointer)
    }

    /// What it is about: the kind, the id and the status.
    fn about(&self) -> Option<(&'static Kind, &str, &str)> {
        let any = |places: &[&str]| places.iter().find_map(|at| self.text(at));
        KINDS.iter().find_map(|kind| Some((kind, any(kind.ids)?, any(kind.statuses)?)))
    }

    fn key(&self) -> Option<String> {
        self.about().map(|(_, id, status)| format!("{id}:{status}"))
    }

    fn event_type(&self) -> String {
        match self.about() {
            Some((kind, _, status)) => format!("{}.{status}", kind.prefix),
            None => self.text("/EventType").unwrap_or("event").to_owned(),
        }
    }

    fn subject(&self) -> Option<Subject> {
        let (kind, id, _) = self.about()?;
        Some(Subject { kind: kind.thing.to_owned(), id: id.to_owned(), url: None })
    }

    /// Who wrote or called, where it came in; of what goes out, `From` is the account's own number. Anybody can
    /// make another number be shown, so nobody vouches for it.
    fn actor(&self) -> Option<Actor> {
        let (_, _, status) = self.about()?;
        let calls_in = self.text("/Direction") == Some("inbound");
        let from = self.text("/From").filter(|_| status == "received" || calls_in)?;
        let name = self.text("/ProfileName").map(str::to_owned);
        Some(Actor { id: Some(from.to_owned()), name, email: None, verified: false })
    }

    /// Only what tells of a call's progress has a time, written as in mails.
    fn occurred_at(&self) -> Option<Timestamp> {
        let text = self.text("/Timestamp").filter(|text| text.len() <= 40)?;
        let time = jiff::fmt::rfc2822::parse(text).ok()?;
        Some(Timestamp::from_millis(time.timestamp().as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, map, verify};

    // The example in Twilio's documentation of its libraries; `openssl dgst -sha1 -hmac` agrees.
    const SECRET: &str = "12345";
    const URL: &str = "https://mycompany.com/myapp.php?foo=1&bar=2";
    const BODY: &str = "To=%2B18005551212&From=%2B14158675310&Digits=1234&Caller=%2B14158675310\
        &CallSid=CA1234567890ABCDE";
    const GOOD: &str = "GvWf1cFY/Q7PnoempGyD5oXAezc=";

    fn post(url: &str, content_type: &str, body: &str) -> SignedRequest {
        let mut request = SignedRequest::post(url, body);
        request.set("content-type", content_type).unwrap();
        request
    }

    fn vector(url: &str, body: &str) -> SignedRequest {
        let mut request = post(url, FORM, body);
        request.set(SIGNATURE, GOOD).unwrap();
        request
    }

    fn is_refused(request: &SignedRequest) -> bool {
        matches!(verify(&Twilio, request, &[SECRET]), Err(Refusal::Signature(_)))
    }

    fn said(body: &str) -> Mapped {
        map(&Twilio, &post("https://hooks.example/", FORM, body)).unwrap()
    }

    #[test]
    fn the_published_vector_is_accepted_for_its_address_and_form_only() {
        assert!(verify(&Twilio, &vector(URL, BODY), &[SECRET]).is_ok());
        assert!(verify(&Twilio, &vector(URL, &BODY.replace("%2B", "%2b")), &[SECRET]).is_ok());
        for changed in [
            vector(&URL.replace("bar=2", "bar=3"), BODY),
            vector(&URL.replace("https", "http"), BODY),
            vector(&URL.replace("mycompany", "other"), BODY),
            vector(URL, &BODY.replace("1234&", "1235&")),
            vector(URL, &BODY.replace("%2B", "+")),
            vector(URL, &format!("{BODY}&Extra=1")),
            vector(URL, ""),
        ] {
            assert!(is_refused(&changed), "{}", changed.url);
        }
    }

    #[test]
    fn the_address_may_be_signed_with_the_usual_port_or_without() {
        let with_port = URL.replace(".com/", ".com:443/");
        assert!(verify(&Twilio, &vector(&with_port, BODY), &[SECRET]).is_ok());
        let mut signed = post(&with_port, FORM, BODY);
        Twilio.sign(&mut signed, SECRET, &Settings::new(), "t1", NOW).unwrap();
        signed.url = URL.to_owned();
        assert!(verify(&Twilio, &signed, &[SECRET]).is_ok());
        signed.url = URL.replace(".com/", ".com:8443/");
        assert!(is_refused(&signed));
    }

    #[test]
    fn the_other_address_differs_in_its_port_alone() {
        for (url, other) in [
            ("https://a.example", "https://a.example:443"),
            ("http://a.example/x?y=:1", "http://a.example:80/x?y=:1"),
            ("https://a.example:8443?x", "https://a.example?x"),
            ("https://[::1]/", "https://[::1]:443/"),
            ("https://[::1]:8443/", "https://[::1]/"),
        ] {
            assert_eq!(other_port(url).as_deref(), Some(other));
        }
        assert_eq!(other_port("not an address"), None);
    }

    #[test]
    fn fields_are_signed_in_order_and_a_doubled_one_by_its_different_values() {
        // What Twilio's own library for Node makes of the list ["b", "a", "b"].
        let fields = |body| signed_fields(&post("https://a.example/", FORM, body).as_request());
        assert_eq!(fields("z=1&k=b&k=a&k=b&B=2").as_deref(), Ok("B2kakbz1"));
        assert_eq!(fields("k=").as_deref(), Ok("k"));
        assert_eq!(fields("").as_deref(), Ok(""));
    }

    // printf '%s' "$url" | openssl dgst -sha1 -hmac 12345 -binary | base64
    const JSON: &str = r#"{"property": "value", "boolean": true}"#;
    const JSON_URL: &str = "https://hooks.example/in/src_1?bodySHA256=\
        0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620";
    const JSON_GOOD: &str = "eIb4rv0yqg5OQSbVVfw8Qr2yUYk=";

    fn json(url: &str, body: &str) -> SignedRequest {
        let mut request = post(url, "application/json", body);
        request.set(SIGNATURE, JSON_GOOD).unwrap();
        request
    }

    #[test]
    fn another_body_is_signed_by_its_hash_in_the_address() {
        assert!(verify(&Twilio, &json(JSON_URL, JSON), &[SECRET]).is_ok());
        assert!(is_refused(&json(JSON_URL, &JSON.replace("true", "null"))));
        assert!(is_refused(&json(JSON_URL, "")));
        assert!(is_refused(&json(&JSON_URL.replace("0a1f", "0a1e"), JSON)));
    }

    #[test]
    fn a_body_cannot_pass_as_a_form_to_escape_its_hash() {
        for body in ["", "Body=pay"] {
            let mut request = json(JSON_URL, body);
            request.set("content-type", FORM).unwrap();
            assert!(is_refused(&request), "{body}");
        }
    }

    #[test]
    fn another_body_without_its_hash_or_with_two_is_refused() {
        let mut request = post("https://hooks.example/in/src_1", "application/json", "");
        Twilio.sign(&mut request, SECRET, &Settings::new(), "t1", NOW).unwrap();
        assert!(verify(&Twilio, &request, &[SECRET]).is_ok(), "the address alone, and no body");
        request.body = b"{}".to_vec();
        assert!(is_refused(&request));
        let hash = JSON_URL.split_once('?').unwrap().1;
        assert!(is_refused(&json(&format!("{JSON_URL}&{hash}"), JSON)));
    }

    #[test]
    fn what_we_sign_is_accepted_for_any_body() {
        for (content_type, body) in
            [("application/json", "{}"), ("text/plain", "x"), (FORM, "a=1&&b"), (FORM, "")]
        {
            let mut request = post("https://hooks.example/?x=1&bodySHA256=00", content_type, body);
            if content_type == FORM {
                request.url = "https://hooks.example/?x=1".to_owned();
            }
            Twilio.sign(&mut request, SECRET, &Settings::new(), "t1", NOW).unwrap();
            assert!(verify(&Twilio, &request, &[SECRET]).is_ok(), "{content_type} {body}");
            assert!(request.url.contains("?x=1"));
        }
    }

    #[test]
    fn a_form_with_too_many_fields_is_refused() {
        assert!(is_refused(&vector(URL, &"a=1&".repeat(1001))));
    }

    #[test]
    fn a_message_that_came_in_says_from_whom() {
        let mapped =
            said("MessageSid=SM1&SmsSid=SM1&SmsStatus=received&From=%2B1555&ProfileName=Ida");
        assert_eq!(mapped.event_type, "sms.received");
        assert_eq!(mapped.dedup_key.as_deref(), Some("SM1:received"));
        assert_eq!(mapped.subject.unwrap().text("twilio"), "twilio:message:SM1");
        let actor = mapped.actor.unwrap();
        assert_eq!((actor.id.as_deref(), actor.name.as_deref()), (Some("+1555"), Some("Ida")));
        assert!(!actor.verified, "a number can be made up");
    }

    #[test]
    fn the_token_that_a_retry_keeps_is_the_id() {
        let mut request = post("https://hooks.example/", FORM, "CallSid=CA1&CallStatus=ringing");
        request.set(TOKEN, "8a1f").unwrap();
        assert_eq!(map(&Twilio, &request).unwrap().dedup_key.as_deref(), Some("8a1f"));
        request.headers.append("i-twilio-idempotency-token", "other".parse().unwrap());
        assert!(matches!(map(&Twilio, &request), Err(MapError::Header(Why::Doubled(_)))));
    }

    #[test]
    fn a_status_says_what_it_is_of() {
        for (body, event_type, subject) in [
            (
                "MessageSid=SM1&MessageStatus=delivered&SmsStatus=sent",
                "sms.delivered",
                "message:SM1",
            ),
            ("CallSid=CA1&CallStatus=completed", "call.completed", "call:CA1"),
            (
                "CallSid=CA1&RecordingSid=RE1&RecordingStatus=completed",
                "recording.completed",
                "recording:RE1",
            ),
            (
                "CallSid=CA1&ConferenceSid=CF1&StatusCallbackEvent=participant-join",
                "conference.participant-join",
                "conference:CF1",
            ),
        ] {
            let mapped = said(body);
            assert_eq!(mapped.event_type, event_type);
            assert_eq!(mapped.subject.unwrap().text("twilio"), format!("twilio:{subject}"));
            assert_eq!(mapped.actor, None);
        }
        let timed =
            "CallSid=CA1&CallStatus=ringing&Timestamp=Tue%2C+14+Nov+2023+22%3A13%3A20+%2B0000";
        assert_eq!(said(timed).occurred_at, Some(NOW));
    }

    #[test]
    fn other_events_are_known_by_their_type_and_their_body() {
        let mapped = said("EventType=onMessageAdded&ConversationSid=CH1");
        assert_eq!((mapped.event_type.as_str(), mapped.dedup_key), ("onMessageAdded", None));
        let json =
            post("https://hooks.example/", "application/json", r#"{"EventType":"task.created"}"#);
        assert_eq!(map(&Twilio, &json).unwrap().event_type, "task.created");
        for body in ["", "x", "MessageSid=SM1", "CallSid=CA1&CallStatus=a&CallStatus=b"] {
            let mapped = said(body);
            assert_eq!((mapped.event_type.as_str(), mapped.subject), ("event", None), "{body}");
        }
    }

    #[test]
    fn a_body_that_is_neither_form_nor_json_is_unmapped() {
        let text = post("https://hooks.example/", "text/plain", "hello");
        assert!(matches!(map(&Twilio, &text), Err(MapError::NotJson(_))));
        let many = post("https://hooks.example/", FORM, &"a=1&".repeat(1001));
        assert!(matches!(map(&Twilio, &many), Err(MapError::NotAForm(_))));
    }

    #[test]
    fn the_answer_is_an_empty_twiml_document() {
        let answer = Twilio.prescribed(&vector(URL, BODY).as_request(), &Settings::new()).unwrap();
        assert_eq!((answer.status, answer.content_type), (200, "text/xml"));
        assert!(answer.body.ends_with("<Response/>"));
    }
}
