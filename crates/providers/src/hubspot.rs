//! HubSpot: `X-HubSpot-Signature-v3` over method, address, body and a time; the body is a list of events.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Actor, Mapped, Subject};

use crate::freshness::Unit;
use crate::hmac_header::HmacHeader;
use crate::mapping::{self, MapError};
use crate::provider::{Facts, Provider, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Settings};
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{header, payload};

const SIGNATURE_NAME: &str = "X-HubSpot-Signature-v3";
const SIGNATURE: HmacHeader = HmacHeader::base64(SIGNATURE_NAME);
const TIME: &str = "X-HubSpot-Request-Timestamp";

/// The accounts that have installed an app.
pub(crate) struct HubSpot;

impl Provider for HubSpot {
    fn name(&self) -> &'static str {
        "hubspot"
    }

    fn facts(&self) -> Facts {
        Facts { patience: Duration::from_secs(5), signs_url: true, ..Facts::usual("HubSpot") }
    }

    fn place(&self) -> Option<&'static str> {
        Some("Settings → Integrations → Private Apps → your app → Webhooks")
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SIGNATURE.declared(), SignedHeader::exact("x-hubspot-request-timestamp")]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let time_text = header::one(request.headers, TIME)?;
        let time = Unit::Millis
            .read(time_text)
            .ok_or_else(|| Why::malformed(TIME, Unit::Millis.expected()))?;
        let secret_index = verify_either_url(request, check, time_text)?;
        check.fresh(time)?;
        Ok(Verified { secret_index, signed_at: Some(time) })
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let request_id = header::request_id(request.headers);
        mapping::many(payload::items(request.body)?.into_iter().map(|item| {
            let mapped = map_item(item)?;
            Ok(Mapped { provider_request_id: request_id.clone(), ..mapped })
        }))
    }

    fn data(&self, request: &Request<'_>, part: usize) -> Value {
        payload::item_data(request.body, part)
    }

    fn samples(&self) -> &'static [Sample] {
        SAMPLES
    }

    fn sign(
        &self,
        request: &mut SignedRequest,
        secret: &str,
        _: &Settings,
        _: &str,
        now: Timestamp,
    ) -> Result<(), ConfigError> {
        let time = Unit::Millis.write(now);
        let sent = request.as_request();
        let value = SIGNATURE.value(secret, &content(&sent, &documented_url(sent.url), &time));
        request.set(SIGNATURE_NAME, &value)?;
        request.set(TIME, &time)
    }
}

static SAMPLES: &[Sample] = &[
    Sample::json("contact.creation", include_str!("../fixtures/hubspot/contact.creation.json")),
    Sample::json(
        "deal.propertyChange",
        include_str!("../fixtures/hubspot/deal.propertyChange.json"),
    ),
];

/// What is signed.
fn content<'a>(request: &Request<'a>, url: &'a str, time: &'a str) -> [&'a [u8]; 4] {
    [request.method.as_str().as_bytes(), url.as_bytes(), request.body, time.as_bytes()]
}

/// HubSpot's documentation says to decode some characters of the address before signing it; its own libraries
/// sign the address as it is. Both are over the same request, so either will do.
fn verify_either_url(
    request: &Request<'_>,
    check: &Check<'_>,
    time: &str,
) -> Result<usize, Refusal> {
    let verdict = SIGNATURE.verify(request, check, &content(request, request.url, time));
    match (verdict, documented_url(request.url)) {
        (Err(Refusal::Signature(Why::Mismatch)), Cow::Owned(url)) => {
            SIGNATURE.verify(request, check, &content(request, &url, time))
        }
        (verdict, _) => verdict,
    }
}

/// The address with the characters decoded that HubSpot documents, and no others.
fn documented_url(url: &str) -> Cow<'_, str> {
    const DECODED: &[u8] = b":/?@!$'()*,;";
    let mut pieces = url.split('%');
    let first = pieces.next().unwrap_or_default();
    let mut decoded = first.to_owned();
    for piece in pieces {
        let byte = piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|byte| DECODED.contains(byte)) {
            Some(byte) => {
                decoded.push(char::from(byte));
                decoded.push_str(&piece[2..]);
            }
            None => {
                decoded.push('%');
                decoded.push_str(piece);
            }
        }
    }
    if decoded == url { Cow::Borrowed(url) } else { Cow::Owned(decoded) }
}

fn map_item(item: &RawValue) -> Result<Mapped, MapError> {
    let [event, subscription, kind, occurred_at, object, object_type, source] = payload::pick(
        item.get().as_bytes(),
        [
            "/eventId",
            "/subscriptionId",
            "/subscriptionType",
            "/occurredAt",
            "/objectId",
            "/objectTypeId",
            "/sourceId",
        ],
    )?;
    // HubSpot does not promise that an event's id is its own; with the subscription's it is.
    let event = event.ok_or(MapError::Missing("/eventId"))?;
    let subscription = subscription.ok_or(MapError::Missing("/subscriptionId"))?;
    let kind = kind.ok_or(MapError::Missing("/subscriptionType"))?;
    Ok(Mapped {
        dedup_key: Some(format!("{event}:{subscription}")),
        occurred_at: occurred_at.and_then(|text| Unit::Millis.read(&text)),
        actor: source.as_deref().and_then(actor),
        subject: object.and_then(|id| subject(&kind, object_type.as_deref(), &id)),
        event_type: kind.into_owned(),
        ..Mapped::default()
    })
}

/// A source `userId:…` is somebody who was logged in, so HubSpot vouches for them; others are not people.
fn actor(source: &str) -> Option<Actor> {
    let id = source.strip_prefix("userId:")?;
    Some(Actor { id: Some(id.to_owned()), verified: true, ..Actor::default() })
}

/// The kind stands before the dot (`contact.creation`), but in `object.creation` only as the type's number.
fn subject(subscription: &str, object_type: Option<&str>, id: &str) -> Option<Subject> {
    let kind = match subscription.split_once('.')? {
        ("object", _) => object_type?,
        (kind, _) => kind,
    };
    Some(Subject { kind: kind.to_owned(), id: id.to_owned(), url: None })
}

#[cfg(test)]
mod tests {
    use http::Method;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{NOW, map, verify, verify_at};

    const SECRET: &str = "yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy";

    /// The vector of HubSpot's own library.
    fn vector() -> SignedRequest {
        let body = "{'example_field':'example_value'}";
        let mut request = SignedRequest::post("https://www.example.com/webhook_uri", body);
        request.set(SIGNATURE_NAME, "K36dawei4A+QBNolUOqo7s91KQDWQ5MXZ/QufNYuk/Y=").unwrap();
        request.set(TIME, "1693657560000").unwrap();
        request
    }

    fn verdict(request: &SignedRequest) -> Result<Verified, Refusal> {
        verify_at(&HubSpot, request, &[SECRET], Timestamp::from_millis(1_693_657_560_000))
    }

    fn events(body: &str) -> Result<Vec<Mapped>, MapError> {
        HubSpot.map(&SignedRequest::post("", body).as_request(), &Settings::new())
    }

    #[test]
    fn the_published_vector_is_accepted() {
        let signed_at = Some(Timestamp::from_millis(1_693_657_560_000));
        assert_eq!(verdict(&vector()), Ok(Verified { secret_index: 0, signed_at }));
    }

    #[test]
    fn the_signature_covers_method_address_and_time() {
        let mut request = vector();
        request.method = Method::PUT;
        assert_eq!(verdict(&request), Err(Refusal::Signature(Why::Mismatch)));
        for url in ["https://www.example.com/webhook_uri?", "https://other.example/webhook_uri", ""]
        {
            let request = SignedRequest { url: url.to_owned(), ..vector() };
            assert_eq!(verdict(&request), Err(Refusal::Signature(Why::Mismatch)), "{url}");
        }
        let mut request = vector();
        request.set(TIME, "1693657560001").unwrap();
        assert_eq!(verdict(&request), Err(Refusal::Signature(Why::Mismatch)));
    }

    #[test]
    fn a_malformed_time_is_a_bad_signature_and_never_a_stale_one() {
        for bad in ["1693657560000x", "-1", "1693657560000.5", "1693657560000000", "2023-09-02"] {
            let mut request = vector();
            request.set(TIME, bad).unwrap();
            let refused = verdict(&request);
            let why = matches!(refused, Err(Refusal::Signature(Why::Malformed { .. })));
            assert!(why, "{bad}: {refused:?}");
        }
    }

    #[test]
    fn the_address_may_be_signed_as_it_is_or_as_documented() {
        let url = "https://hooks.example/in/src_1?to=a%40example.com%2Cb&x=%20%26%3d%3D";
        let documented = "https://hooks.example/in/src_1?to=a@example.com,b&x=%20%26%3d%3D";
        let neither = "https://hooks.example/in/src_1?to=a@example.com,b&x= &==";
        for (signed, is_good) in [(url, true), (documented, true), (neither, false)] {
            let mut request = SignedRequest::post(url, "[]");
            let time = Unit::Millis.write(NOW);
            let value = SIGNATURE.value(SECRET, &content(&request.as_request(), signed, &time));
            request.set(SIGNATURE_NAME, &value).unwrap();
            request.set(TIME, &time).unwrap();
            assert_eq!(verify(&HubSpot, &request, &[SECRET]).is_ok(), is_good, "{signed}");
        }
    }

    #[test]
    fn only_the_documented_characters_are_decoded() {
        let all = "%3A%2F%3F%40%21%24%27%28%29%2A%2C%3B";
        assert_eq!(documented_url(all), ":/?@!$'()*,;");
        assert_eq!(documented_url(&all.to_lowercase()), ":/?@!$'()*,;");
        for same in ["", "%", "%2", "%zz", "%+f", "%20%25%23", "100%é", "a?b=c&d"] {
            assert!(matches!(documented_url(same), Cow::Borrowed(_)), "{same}");
        }
        assert_eq!(documented_url("%252F"), "%252F", "once, not twice");
    }

    #[test]
    fn each_item_is_an_event_of_its_own() {
        let sample = HubSpot.samples()[0].request("https://hooks.example/", "7001", NOW);
        let events = HubSpot.map(&sample.as_request(), &Settings::new()).unwrap();
        let keys: Vec<_> = events.iter().map(|event| event.dedup_key.as_deref().unwrap()).collect();
        assert_eq!(keys, ["7001:5100001", "7001:5100002"]);
        assert_eq!(events[0].event_type, "contact.creation");
        assert_eq!(events[0].occurred_at, Some(NOW));
        assert_eq!(events[0].subject.as_ref().unwrap().text("hubspot"), "hubspot:contact:901");
        let actor = events[0].actor.as_ref().unwrap();
        assert_eq!((actor.id.as_deref(), actor.verified), (Some("1234567"), true));
        assert_eq!((events[1].event_type.as_str(), &events[1].actor), ("company.creation", &None));
        let data = HubSpot.data(&sample.as_request(), 1);
        assert_eq!(data["subscriptionType"], "company.creation");
    }

    #[test]
    fn a_generic_object_is_known_by_its_type() {
        let body = r#"[{"eventId":1,"subscriptionId":2,"subscriptionType":"object.creation",
            "objectTypeId":"0-1","objectId":3}]"#;
        let mapped = map(&HubSpot, &SignedRequest::post("", body)).unwrap();
        assert_eq!(mapped.subject.unwrap().text("hubspot"), "hubspot:0-1:3");
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        let body = r#"[{"eventId":1,"subscriptionId":2,"subscriptionType":"object",
            "objectId":3,"occurredAt":"then","sourceId":{"userId":1}}]"#;
        let mapped = map(&HubSpot, &SignedRequest::post("", body)).unwrap();
        assert_eq!((mapped.actor, mapped.subject, mapped.occurred_at), (None, None, None));
    }

    #[test]
    fn a_body_that_is_no_list_of_whole_events_is_unmapped() {
        assert_eq!(events("[]"), Err(MapError::NotAList));
        for bad in ["", "{}", "[", "[1"] {
            assert!(matches!(events(bad), Err(MapError::NotJson(_))), "{bad}");
        }
        let good = r#"{"eventId":1,"subscriptionId":2,"subscriptionType":"t"}"#;
        assert_eq!(events(&format!("[{good}]")).map(|events| events.len()), Ok(1));
        for (bad, missing) in [
            ("1", "/eventId"),
            (r#"{"subscriptionId":2,"subscriptionType":"t"}"#, "/eventId"),
            (r#"{"eventId":1,"subscriptionType":"t"}"#, "/subscriptionId"),
            (r#"{"eventId":1,"subscriptionId":2}"#, "/subscriptionType"),
        ] {
            assert_eq!(events(&format!("[{good},{bad}]")), Err(MapError::Missing(missing)));
        }
    }

    proptest! {
        #[test]
        fn no_address_makes_the_decoding_panic(url in "\\PC*") {
            let _ = documented_url(&url);
        }
    }
}
