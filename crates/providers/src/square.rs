//! Square: `x-square-hmacsha256-signature` over the public address and the body; everything else is in the body.

use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Mapped, Subject};

use crate::freshness::Unit;
use crate::hmac_header::HmacHeader;
use crate::mapping::{self, MapError};
use crate::provider::{Facts, Provider, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Settings};
use crate::verdict::{Check, Refusal, Verified};
use crate::{header, payload};

const SIGNATURE_NAME: &str = "x-square-hmacsha256-signature";
const SIGNATURE: HmacHeader = HmacHeader::base64(SIGNATURE_NAME);

/// A webhook subscription of a Square application.
pub(crate) struct Square;

impl Provider for Square {
    fn name(&self) -> &'static str {
        "square"
    }

    fn facts(&self) -> Facts {
        Facts {
            signs_url: true,
            retry_header: Some("square-retry-number"),
            ..Facts::usual("Square")
        }
    }

    fn place(&self) -> Option<&'static str> {
        Some("Developer Console → your application → Webhooks → Subscriptions")
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SIGNATURE.declared()]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let parts = [request.url.as_bytes(), request.body];
        let secret_index = SIGNATURE.verify(request, check, &parts)?;
        Ok(Verified { secret_index, signed_at: None })
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let [id, event_type, created_at, object, object_id] = payload::pick(
            request.body,
            ["/event_id", "/type", "/created_at", "/data/type", "/data/id"],
        )?;
        let subject = object.zip(object_id).map(|(kind, id)| Subject {
            kind: kind.into_owned(),
            id: id.into_owned(),
            url: None,
        });
        mapping::one(Mapped {
            dedup_key: Some(id.ok_or(MapError::Missing("/event_id"))?.into_owned()),
            event_type: event_type.ok_or(MapError::Missing("/type"))?.into_owned(),
            occurred_at: created_at.and_then(|text| Unit::Rfc3339.read(&text)),
            // The merchant is whose account it is, not who acted, so there is no actor.
            subject,
            provider_request_id: header::request_id(request.headers),
            ..Mapped::default()
        })
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
        _: Timestamp,
    ) -> Result<(), ConfigError> {
        let value = SIGNATURE.value(secret, &[request.url.as_bytes(), &request.body]);
        request.set(SIGNATURE_NAME, &value)
    }
}

static SAMPLES: &[Sample] = &[
    Sample::json("payment.updated", include_str!("../fixtures/square/payment.updated.json"))
        .with_headers(&[("square-environment", "Sandbox")]),
    Sample::json("refund.created", include_str!("../fixtures/square/refund.created.json"))
        .with_headers(&[("square-environment", "Sandbox")]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Why;
    use crate::testing::{NOW, map, verify};

    const KEY: &str = "signature-key";

    #[test]
    fn a_signature_made_by_another_implementation_covers_address_and_body() {
        // printf 'https://hooks.example/in/src_1{"event_id":"e1"}' |
        //     openssl dgst -sha256 -hmac signature-key -binary | base64
        let url = "https://hooks.example/in/src_1";
        let mut request = SignedRequest::post(url, r#"{"event_id":"e1"}"#);
        request.set(SIGNATURE_NAME, "yRYZDU+A3b+ZiN0M3OBZKndSXyCLLec/eUTVk57AEPM=").unwrap();
        assert!(verify(&Square, &request, &[KEY]).is_ok());
        for other in [
            "https://hooks.example/in/src_2",
            "https://hooks.example/in/src_1/",
            "http://hooks.example/in/src_1",
            "https://hooks.example/in/src_1?a=b",
            "",
        ] {
            request.url = other.to_owned();
            let refused = verify(&Square, &request, &[KEY]);
            assert_eq!(refused, Err(Refusal::Signature(Why::Mismatch)), "{other}");
        }
    }

    #[test]
    fn an_event_says_what_happened_to_what_and_when() {
        let sample = Square.samples()[0].request("https://hooks.example/", "7001", NOW);
        let mapped = map(&Square, &sample).unwrap();
        assert_eq!(mapped.event_type, "payment.updated");
        assert_eq!(mapped.dedup_key.as_deref(), Some("13b867cf-db3d-4b1c-90b6-7001"));
        assert_eq!(mapped.occurred_at, Some(NOW));
        assert_eq!(mapped.actor, None);
        let subject = mapped.subject.unwrap();
        assert_eq!(subject.text("square"), "square:payment:hYy9pRFVxpDsO1FB05SunFWUe9JZY");
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        let body =
            r#"{"event_id":"e1","type":"t","created_at":"then","data":{"id":[],"type":"x"}}"#;
        let mapped = map(&Square, &SignedRequest::post("", body)).unwrap();
        assert_eq!((mapped.subject, mapped.occurred_at), (None, None));
    }

    #[test]
    fn an_event_without_id_or_type_is_unmapped() {
        for (body, missing) in [(r#"{"type":"t"}"#, "/event_id"), (r#"{"event_id":"e"}"#, "/type")]
        {
            assert_eq!(
                map(&Square, &SignedRequest::post("", body)),
                Err(MapError::Missing(missing))
            );
        }
        assert!(matches!(map(&Square, &SignedRequest::post("", "")), Err(MapError::NotJson(_))));
    }
}
