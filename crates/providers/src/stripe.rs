//! Stripe: `Stripe-Signature` with a time and one or more HMACs over `{t}.{body}`; everything else is in the body.

use aws_lc_rs::hmac::HMAC_SHA256;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Mapped, Subject};

use crate::freshness::Unit;
use crate::mapping::{self, MapError};
use crate::provider::{Facts, Provider, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Settings};
use crate::signature::{self, CANDIDATES_MAX, Encoding};
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{header, payload};

const SIGNATURE: &str = "Stripe-Signature";

/// A Stripe account's webhook endpoint.
pub(crate) struct Stripe;

impl Provider for Stripe {
    fn name(&self) -> &'static str {
        "stripe"
    }

    fn facts(&self) -> Facts {
        Facts::usual("Stripe")
    }

    fn place(&self) -> Option<&'static str> {
        Some("Workbench (or Developers) → Webhooks → Add destination")
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SignedHeader::hex("stripe-signature")]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let given = Given::read(header::one(request.headers, SIGNATURE)?)?;
        let parts = [given.time_text.as_bytes(), b".", request.body];
        // The secret is used as it is written, `whsec_` included: Stripe's own libraries do.
        let secret_index = check.secret_that(|secret| {
            let key = secret.as_bytes();
            Ok(signature::hmac_fits(HMAC_SHA256, key, &parts, &given.signatures))
        })?;
        check.fresh(given.time)?;
        Ok(Verified { secret_index, signed_at: Some(given.time) })
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let [id, event_type, created, request_id, object, object_id] = payload::pick(
            request.body,
            ["/id", "/type", "/created", "/request/id", "/data/object/object", "/data/object/id"],
        )?;
        let subject = object.zip(object_id).map(|(kind, id)| Subject {
            kind: kind.into_owned(),
            id: id.into_owned(),
            url: None,
        });
        mapping::one(Mapped {
            dedup_key: Some(id.ok_or(MapError::Missing("/id"))?.into_owned()),
            event_type: event_type.ok_or(MapError::Missing("/type"))?.into_owned(),
            occurred_at: created.and_then(|created| Unit::Seconds.read(&created)),
            subject,
            provider_request_id: request_id
                .map(|id| id.into_owned())
                .or_else(|| header::request_id(request.headers)),
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
        now: Timestamp,
    ) -> Result<(), ConfigError> {
        let time = Unit::Seconds.write(now);
        let parts = [time.as_bytes(), b".", &request.body];
        let tag = hex::encode(signature::hmac(HMAC_SHA256, secret.as_bytes(), &parts));
        request.set(SIGNATURE, &format!("t={time},v1={tag}"))
    }
}

static SAMPLES: &[Sample] = &[
    Sample::json(
        "payment_intent.succeeded",
        include_str!("../fixtures/stripe/payment_intent.succeeded.json"),
    ),
    Sample::json("invoice.paid", include_str!("../fixtures/stripe/invoice.paid.json")),
    Sample::json(
        "customer.subscription.deleted",
        include_str!("../fixtures/stripe/customer.subscription.deleted.json"),
    ),
];

/// What the signature header holds.
struct Given<'h> {
    time_text: &'h str,
    time: Timestamp,
    signatures: Vec<Vec<u8>>,
}

impl<'h> Given<'h> {
    /// Reads `t=…,v1=…[,v1=…]`; other schemes, such as the test scheme v0, are passed over.
    fn read(text: &'h str) -> Result<Given<'h>, Why> {
        let malformed = |expected| Why::malformed(SIGNATURE, expected);
        let items = || text.split(',').filter_map(|item| item.trim().split_once('='));
        let mut times = items().filter(|(scheme, _)| *scheme == "t").map(|(_, value)| value);
        let time_text = match (times.next(), times.next()) {
            (Some(time), None) => time,
            (None, _) => return Err(malformed("complete: it has no time (t=)")),
            (Some(_), Some(_)) => return Err(malformed("clear: it has two times (t=)")),
        };
        let time = Unit::Seconds
            .read(time_text)
            .ok_or_else(|| malformed("well-formed: its time (t=) is not in digits alone"))?;
        let signatures: Vec<_> = items()
            .filter(|(scheme, _)| *scheme == "v1")
            .filter_map(|(_, value)| Encoding::Hex.decode(value))
            .take(CANDIDATES_MAX + 1)
            .collect();
        if signatures.is_empty() || signatures.len() > CANDIDATES_MAX {
            return Err(malformed("complete: it needs one to 16 hex signatures (v1=)"));
        }
        Ok(Given { time_text, time, signatures })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, map, verify, verify_at};

    const SECRET: &str = "whsec_test_secret";
    const BODY: &str = r#"{"id":"evt_1","object":"event","type":"charge.succeeded","created":1614265330,
        "request":{"id":"req_9"},"data":{"object":{"id":"ch_3","object":"charge"}}}"#;

    fn event() -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/in/src_1", BODY);
        Stripe.sign(&mut request, SECRET, &Settings::new(), "", NOW).unwrap();
        request
    }

    /// The same request with its signature header rewritten.
    fn with(rewrite: impl Fn(&str, &str) -> String) -> SignedRequest {
        let mut request = event();
        let header = request.headers[SIGNATURE].to_str().unwrap().to_owned();
        let (time, tag) = header.split_once(',').unwrap();
        request.set(SIGNATURE, &rewrite(time, tag)).unwrap();
        request
    }

    #[test]
    fn a_signature_made_by_another_implementation_is_accepted() {
        // printf '1614265330.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_test_secret
        let mut request = SignedRequest::post("https://hooks.example/", r#"{"id":"evt_1"}"#);
        let tag = "e135cdbed3dda004bf8a2fb350f2541d299393c770e0b9e6e319dc595e9072aa";
        request.set(SIGNATURE, &format!("t=1614265330,v1={tag}")).unwrap();
        let at = Timestamp::from_secs(1_614_265_330);
        let verified = verify_at(&Stripe, &request, &[SECRET], at);
        assert_eq!(verified, Ok(Verified { secret_index: 0, signed_at: Some(at) }));
    }

    #[test]
    fn one_good_signature_among_several_is_enough() {
        let zeros = "0".repeat(64);
        for good in [
            with(|t, v1| format!("{t},v1={zeros},{v1}")),
            with(|t, v1| format!("{t},v1=zz,v1=,{v1},v0={zeros}")),
            with(|t, v1| format!("{v1}, {t}")),
        ] {
            assert!(verify(&Stripe, &good, &[SECRET]).is_ok());
        }
    }

    #[test]
    fn a_malformed_header_is_a_bad_signature_and_never_a_stale_one() {
        let zeros = "0".repeat(64);
        for bad in [
            with(|t, _| t.to_owned()),
            with(|_, v1| v1.to_owned()),
            with(|t, v1| format!("{t},{t},{v1}")),
            with(|t, v1| format!("{t},{}", v1.replace("v1=", "v0="))),
            with(|t, v1| format!("{t},{}", v1.replace("v1=", "="))),
            with(|t, v1| format!("{t},{}", &v1[..v1.len() - 2])),
            with(|t, v1| format!("{t},{v1}00")),
            with(|t, v1| format!("{t}x,{v1}")),
            with(|_, v1| format!("t=-5,{v1}")),
            with(|_, v1| format!("t=,{v1}")),
            with(|t, v1| format!("{t}000,{v1}")),
            with(|t, v1| format!("{t},{}{v1}", format!("v1={zeros},").repeat(16))),
            with(|_, _| ",,=,==".to_owned()),
        ] {
            let refused = verify(&Stripe, &bad, &[SECRET]);
            assert!(matches!(refused, Err(Refusal::Signature(_))), "{refused:?}");
        }
    }

    #[test]
    fn an_event_says_what_happened_to_what_and_when() {
        let mapped = map(&Stripe, &event()).unwrap();
        assert_eq!(mapped.event_type, "charge.succeeded");
        assert_eq!(mapped.dedup_key.as_deref(), Some("evt_1"));
        assert_eq!(mapped.occurred_at, Some(Timestamp::from_secs(1_614_265_330)));
        assert_eq!(mapped.subject.unwrap().text("stripe"), "stripe:charge:ch_3");
        assert_eq!(mapped.provider_request_id.as_deref(), Some("req_9"));
    }

    #[test]
    fn an_event_without_id_or_type_is_unmapped() {
        for (body, missing) in [(r#"{"type":"t"}"#, "/id"), (r#"{"id":"evt_1"}"#, "/type")] {
            let request = SignedRequest::post("https://hooks.example/", body);
            assert_eq!(map(&Stripe, &request), Err(MapError::Missing(missing)));
        }
        let doubled = r#"{"id":"evt_1","id":"evt_2","type":"t"}"#;
        let request = SignedRequest::post("https://hooks.example/", doubled);
        assert!(matches!(map(&Stripe, &request), Err(MapError::NotJson(_))));
    }
}
