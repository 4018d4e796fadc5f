//! SendGrid's event webhook: ECDSA over the time and the body, which is a list of what became of sent mails.

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair, ParsedPublicKey,
};
use serde_json::Value;
use serde_json::value::RawValue;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Actor, Mapped, Subject};
use wakepost_domain::ports::Entropy;

use crate::freshness::Unit;
use crate::mapping::{self, MapError};
use crate::provider::{Facts, Keys, Provider, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Settings};
use crate::signature::{self, Encoding};
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{header, payload};

const SIGNATURE: &str = "X-Twilio-Email-Event-Webhook-Signature";
const TIME: &str = "X-Twilio-Email-Event-Webhook-Timestamp";

/// What became of the mails that a SendGrid account sent.
pub(crate) struct SendGridEvents;

impl Provider for SendGridEvents {
    fn name(&self) -> &'static str {
        "sendgrid-events"
    }

    fn facts(&self) -> Facts {
        Facts::usual("SendGrid events")
    }

    fn place(&self) -> Option<&'static str> {
        Some("Settings → Mail Settings → Event Webhooks → Create new webhook")
    }

    fn check_secret(&self, secret: &str, _: &Settings) -> Result<(), ConfigError> {
        public_key(secret).map(|_| ())
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![
            SignedHeader::exact("x-twilio-email-event-webhook-signature"),
            SignedHeader::exact("x-twilio-email-event-webhook-timestamp"),
        ]
    }

    /// Whoever sees an ECDSA signature can write a second one for the same bytes. That is harmless: repeats
    /// are told by the events' ids, which are signed.
    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let given = Encoding::Base64
            .decode(header::one(request.headers, SIGNATURE)?)
            .ok_or_else(|| Why::malformed(SIGNATURE, "base64"))?;
        let time_text = header::one(request.headers, TIME)?;
        let time = Unit::Seconds
            .read(time_text)
            .ok_or_else(|| Why::malformed(TIME, Unit::Seconds.expected()))?;
        let content = [time_text.as_bytes(), request.body].concat();
        let secret_index = check
            .secret_that(|secret| Ok(public_key(secret)?.verify_sig(&content, &given).is_ok()))?;
        check.fresh(time)?;
        Ok(Verified { secret_index, signed_at: Some(time) })
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let request_id = header::request_id(request.headers);
        mapping::many(
            payload::items(request.body)?.into_iter().map(|item| {
                Ok(Mapped { provider_request_id: request_id.clone(), ..map_item(item)? })
            }),
        )
    }

    fn data(&self, request: &Request<'_>, part: usize) -> Value {
        payload::item_data(request.body, part)
    }

    fn is_public(&self, _: &str, _: &Settings) -> bool {
        true
    }

    /// The pair is the library's own chance: it has no door for ours.
    fn sample_keys(&self, _: &Settings, _: &dyn Entropy) -> Keys {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING);
        let pair = pair.expect("the library can make a key");
        let private = pair.to_pkcs8v1().expect("a key just made can be written");
        let public = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key());
        let public = public.expect("a key just made can be written");
        Keys {
            signs: Encoding::Base64.encode(private.as_ref()),
            verifies: Encoding::Base64.encode(public.as_ref()),
        }
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
        let cannot =
            || ConfigError::new("secret", "must be a P-256 private key, PKCS#8 in base64, to sign");
        let private = signature::decode_key(secret).ok_or_else(cannot)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &private)
            .map_err(|_| cannot())?;
        let time = Unit::Seconds.write(now);
        let content = [time.as_bytes(), &request.body].concat();
        let tag = pair.sign(&SystemRandom::new(), &content).map_err(|_| cannot())?;
        request.set(TIME, &time)?;
        request.set(SIGNATURE, &Encoding::Base64.encode(tag.as_ref()))
    }
}

static SAMPLES: &[Sample] = &[
    Sample::json("delivered", include_str!("../fixtures/sendgrid-events/delivered.json")),
    Sample::json("bounce", include_str!("../fixtures/sendgrid-events/bounce.json")),
    Sample::json("click", include_str!("../fixtures/sendgrid-events/click.json")),
];

fn public_key(secret: &str) -> Result<ParsedPublicKey, ConfigError> {
    let key = signature::decode_key(secret)
        .and_then(|bytes| ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, bytes).ok());
    key.ok_or_else(|| {
        ConfigError::new("secret", "must be the verification key that SendGrid shows, in base64")
    })
}

fn map_item(item: &RawValue) -> Result<Mapped, MapError> {
    let [id, event, time, email, message] = payload::pick(
        item.get().as_bytes(),
        ["/sg_event_id", "/event", "/timestamp", "/email", "/sg_message_id"],
    )?;
    let event = event.ok_or(MapError::Missing("/event"))?;
    let email = email.filter(|_| is_of_recipient(&event)).map(|email| email.into_owned());
    Ok(Mapped {
        dedup_key: Some(id.ok_or(MapError::Missing("/sg_event_id"))?.into_owned()),
        occurred_at: time.and_then(|time| Unit::Seconds.read(&time)),
        // A link opened from a forwarded mail counts as its recipient's: nobody vouches for who it was.
        actor: email.map(|email| Actor { email: Some(email), ..Actor::default() }),
        subject: message.map(|id| Subject {
            kind: "message".to_owned(),
            id: id.into_owned(),
            url: None,
        }),
        event_type: event.into_owned(),
        ..Mapped::default()
    })
}

/// Whether the recipient did it, and not a mail server.
fn is_of_recipient(event: &str) -> bool {
    matches!(
        event,
        "open" | "click" | "spamreport" | "unsubscribe" | "group_unsubscribe" | "group_resubscribe"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Counting, NOW, map, verify, verify_at};

    // The vector in the tests of SendGrid's own libraries.
    const PUBLIC: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpV\
        KS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==";
    const GOOD: &str = "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh\
        89M15TluLtEZtM=";
    const BODY: &str = "[{\"email\":\"hello@world.com\",\"event\":\"dropped\",\"reason\":\"Bounced Address\",\
        \"sg_event_id\":\"ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA\",\
        \"sg_message_id\":\"LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0\",\
        \"smtp-id\":\"<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>\",\"timestamp\":1600112492}]\r\n";
    const AT: Timestamp = Timestamp::from_secs(1_600_112_502);

    fn request(body: &str) -> SignedRequest {
        SignedRequest::post("https://hooks.example/in/src_1", body)
    }

    fn vector() -> SignedRequest {
        let mut request = request(BODY);
        request.set(SIGNATURE, GOOD).unwrap();
        request.set(TIME, "1600112502").unwrap();
        request
    }

    #[test]
    fn the_published_vector_is_accepted_and_mapped() {
        let expected = Verified { secret_index: 0, signed_at: Some(AT) };
        assert_eq!(verify_at(&SendGridEvents, &vector(), &[PUBLIC], AT), Ok(expected));
        let mapped = map(&SendGridEvents, &vector()).unwrap();
        assert_eq!(mapped.event_type, "dropped");
        let id = "ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA";
        assert_eq!(mapped.dedup_key.as_deref(), Some(id));
        assert_eq!(mapped.occurred_at, Some(Timestamp::from_secs(1_600_112_492)));
        assert_eq!(mapped.actor, None, "a server dropped it, not the recipient");
        assert!(mapped.subject.unwrap().id.starts_with("LRzXl_NHStOGhQ4kofSm_A."));
    }

    #[test]
    fn a_malformed_header_is_a_bad_signature_and_never_a_stale_one() {
        let mut twice = Encoding::Base64.decode(GOOD).unwrap();
        twice.push(0);
        for (name, bad) in [
            (SIGNATURE, GOOD.trim_end_matches('=')),
            (SIGNATURE, &GOOD.replace("M=", "N=")),
            (SIGNATURE, &Encoding::Base64.encode(&twice)),
            (SIGNATURE, "MAA="),
            (SIGNATURE, &Encoding::Base64.encode(&[0; 64])),
            (TIME, "1600112502.5"),
            (TIME, "1600112502000"),
        ] {
            let mut request = vector();
            request.set(name, bad).unwrap();
            let refused = verify(&SendGridEvents, &request, &[PUBLIC]);
            assert!(matches!(refused, Err(Refusal::Signature(_))), "{bad}: {refused:?}");
        }
    }

    #[test]
    fn the_line_end_that_sendgrid_signs_counts() {
        let mut request = vector();
        request.body.truncate(BODY.len() - 2);
        let refused = verify_at(&SendGridEvents, &request, &[PUBLIC], AT);
        assert_eq!(refused, Err(Refusal::Signature(Why::Mismatch)));
    }

    #[test]
    fn only_a_public_key_can_be_the_secret() {
        let settings = Settings::new();
        let keys = SendGridEvents.sample_keys(&settings, &Counting::default());
        assert!(SendGridEvents.check_secret(&keys.verifies, &settings).is_ok());
        for bad in [keys.signs.as_str(), "AAAA", "not base64!", &PUBLIC[4..]] {
            assert!(SendGridEvents.check_secret(bad, &settings).is_err(), "{bad}");
        }
        let mut request = request("[]");
        assert!(SendGridEvents.sign(&mut request, PUBLIC, &settings, "", NOW).is_err());
    }

    #[test]
    fn each_item_is_an_event_of_its_own_in_order() {
        let body = r#"[{"sg_event_id":"a","event":"delivered","email":"ida@example.com"},
            {"sg_event_id":"b","event":"click","email":"ida@example.com","url":"https://example.com/"}]"#;
        let request = request(body);
        let mapped = SendGridEvents.map(&request.as_request(), &Settings::new()).unwrap();
        let names: Vec<_> = mapped.iter().map(|event| event.event_type.as_str()).collect();
        assert_eq!(names, ["delivered", "click"]);
        assert_eq!(mapped[0].actor, None);
        let actor = mapped[1].actor.as_ref().unwrap();
        assert_eq!((actor.email.as_deref(), actor.verified), (Some("ida@example.com"), false));
        let data = |part| SendGridEvents.data(&request.as_request(), part);
        assert_eq!(data(0)["sg_event_id"], "a");
        assert_eq!(data(1)["url"], "https://example.com/");
        assert_eq!(data(2), Value::Null);
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        let body = r#"[{"sg_event_id":"a","event":"click","email":[],"timestamp":"soon","sg_message_id":{}}]"#;
        let mapped = map(&SendGridEvents, &request(body)).unwrap();
        assert_eq!((mapped.actor, mapped.subject, mapped.occurred_at), (None, None, None));
    }

    #[test]
    fn a_body_that_is_no_list_of_events_is_unmapped() {
        let error = |body: &str| {
            let request = request(body);
            SendGridEvents.map(&request.as_request(), &Settings::new()).unwrap_err()
        };
        assert_eq!(error("[]"), MapError::NotAList);
        assert_eq!(error(r#"[{"event":"open"}]"#), MapError::Missing("/sg_event_id"));
        assert_eq!(error(r#"[{"sg_event_id":"a"}]"#), MapError::Missing("/event"));
        let deep = format!(
            r#"[{{"sg_event_id":"a","event":"b","x":{}1{}}}]"#,
            "[".repeat(9999),
            "]".repeat(9999)
        );
        for body in
            ["", "{}", "[1", r#"[{"sg_event_id":"a","sg_event_id":"b","event":"open"}]"#, &deep]
        {
            assert!(matches!(error(body), MapError::NotJson(_)));
        }
    }
}
