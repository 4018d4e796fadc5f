//! Zendesk: `X-Zendesk-Webhook-Signature` over a time and the body, which may be absent or of the operator's own
//! making.

use std::time::Duration;

use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Actor, Mapped, Subject};

use crate::freshness::Unit;
use crate::hmac_header::HmacHeader;
use crate::mapping::{self, MapError};
use crate::payload::Found;
use crate::provider::{Facts, Provider, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Settings};
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{header, payload};

const SIGNATURE_NAME: &str = "X-Zendesk-Webhook-Signature";
const SIGNATURE: HmacHeader = HmacHeader::base64(SIGNATURE_NAME);
const TIME: &str = "X-Zendesk-Webhook-Signature-Timestamp";
const INVOCATION: &str = "X-Zendesk-Webhook-Invocation-Id";

/// A webhook of a Zendesk account.
pub(crate) struct Zendesk;

impl Provider for Zendesk {
    fn name(&self) -> &'static str {
        "zendesk"
    }

    fn facts(&self) -> Facts {
        Facts { patience: Duration::from_secs(12), id_is_signed: false, ..Facts::usual("Zendesk") }
    }

    fn place(&self) -> Option<&'static str> {
        Some("Admin Center → Apps and integrations → Actions and webhooks → Webhooks")
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SIGNATURE.declared(), SignedHeader::exact("x-zendesk-webhook-signature-timestamp")]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let time_text = header::one(request.headers, TIME)?;
        let time = Unit::Rfc3339
            .read(time_text)
            .ok_or_else(|| Why::malformed(TIME, Unit::Rfc3339.expected()))?;
        let parts = [time_text.as_bytes(), request.body];
        let secret_index = SIGNATURE.verify(request, check, &parts)?;
        check.fresh(time)?;
        Ok(Verified { secret_index, signed_at: Some(time) })
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let said = Said::read(request)?;
        let invocation = header::optional(request.headers, INVOCATION)?;
        let id = invocation.or(said.id.as_deref()).ok_or(MapError::Missing("/id"))?;
        mapping::one(Mapped {
            dedup_key: Some(id.to_owned()),
            event_type: said.event_type(),
            occurred_at: said.time.as_deref().and_then(|text| Unit::Rfc3339.read(text)),
            actor: said.actor(),
            subject: said.subject(),
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
        id: &str,
        now: Timestamp,
    ) -> Result<(), ConfigError> {
        let time = Unit::Rfc3339.write(now);
        let value = SIGNATURE.value(secret, &[time.as_bytes(), &request.body]);
        request.set(SIGNATURE_NAME, &value)?;
        request.set(TIME, &time)?;
        request.set(INVOCATION, id)
    }
}

static SAMPLES: &[Sample] = &[
    Sample::json(
        "ticket.status_changed",
        include_str!("../fixtures/zendesk/ticket.status_changed.json"),
    ),
    Sample::json("user.created", include_str!("../fixtures/zendesk/user.created.json")),
    Sample::json("event", include_str!("../fixtures/zendesk/trigger.json")),
];

/// The few fields of a payload that the envelope needs.
#[derive(Default)]
struct Said<'a> {
    id: Found<'a>,
    kind: Found<'a>,
    time: Found<'a>,
    subject: Found<'a>,
    actor_id: Found<'a>,
}

impl<'a> Said<'a> {
    /// A webhook behind a trigger or automation sends whatever its operator wrote, in any media type, or nothing;
    /// only what claims to be JSON is read.
    fn read(request: &Request<'a>) -> Result<Said<'a>, MapError> {
        if request.body.is_empty() || !header::says_json(request.headers) {
            return Ok(Said::default());
        }
        let pointers = ["/id", "/type", "/time", "/subject", "/detail/actor_id"];
        let [id, kind, time, subject, actor_id] = payload::pick(request.body, pointers)?;
        Ok(Said { id, kind, time, subject, actor_id })
    }

    /// `event` where the operator's own body has no type of Zendesk's.
    fn event_type(&self) -> String {
        let kind = self.kind.as_deref().and_then(|kind| kind.strip_prefix("zen:event-type:"));
        kind.unwrap_or("event").to_owned()
    }

    /// Who acts may be anybody who can write a mail, so Zendesk vouches for nobody here.
    fn actor(&self) -> Option<Actor> {
        // A negative id is the system itself.
        let id = self.actor_id.as_deref().filter(|id| !id.starts_with('-'))?;
        Some(Actor { id: Some(id.to_owned()), ..Actor::default() })
    }

    /// Zendesk names things like `zen:ticket:35436`.
    fn subject(&self) -> Option<Subject> {
        let (kind, id) = self.subject.as_deref()?.strip_prefix("zen:")?.split_once(':')?;
        Some(Subject { kind: kind.to_owned(), id: id.to_owned(), url: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, map, verify, verify_at};

    // The signing secret that Zendesk publishes for testing webhooks before they are created.
    const SECRET: &str = "dGhpc19zZWNyZXRfaXNfZm9yX3Rlc3Rpbmdfb25seQ==";

    fn invocation(body: &str) -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/in/src_1", body);
        Zendesk.sign(&mut request, SECRET, &Settings::new(), "inv-1", NOW).unwrap();
        request
    }

    #[test]
    fn a_signature_made_by_another_implementation_is_accepted() {
        // printf '2021-02-25T15:02:10Z{"id":"1"}' | openssl dgst -sha256 -hmac <the secret> -binary | base64
        let mut request = SignedRequest::post("https://hooks.example/", r#"{"id":"1"}"#);
        request.set(SIGNATURE_NAME, "8hTMks9KJ41jz4FyQLwqC4w6gxNdatjHW0uR60utFXc=").unwrap();
        request.set(TIME, "2021-02-25T15:02:10Z").unwrap();
        let at = Timestamp::from_secs(1_614_265_330);
        let expected = Verified { secret_index: 0, signed_at: Some(at) };
        assert_eq!(verify_at(&Zendesk, &request, &[SECRET], at), Ok(expected));
        // The same moment in another text is not what was signed.
        request.set(TIME, "2021-02-25T15:02:10.000Z").unwrap();
        let refused = verify_at(&Zendesk, &request, &[SECRET], at);
        assert_eq!(refused, Err(Refusal::Signature(Why::Mismatch)));
    }

    #[test]
    fn a_malformed_time_is_a_bad_signature_and_never_a_stale_one() {
        for bad in ["1700000000", "2023-11-14", "2023-11-14T22:13:20", "now", "-1"] {
            let mut request = invocation("{}");
            request.set(TIME, bad).unwrap();
            let refused = verify(&Zendesk, &request, &[SECRET]);
            let why = matches!(refused, Err(Refusal::Signature(Why::Malformed { .. })));
            assert!(why, "{bad}: {refused:?}");
        }
    }

    #[test]
    fn the_body_may_be_absent() {
        let request = invocation("");
        assert!(verify(&Zendesk, &request, &[SECRET]).is_ok());
        let mapped = map(&Zendesk, &request).unwrap();
        assert_eq!(mapped.event_type, "event");
        assert_eq!(mapped.dedup_key.as_deref(), Some("inv-1"));
    }

    #[test]
    fn a_body_of_the_operators_own_making_is_an_event_too() {
        let mut xml = invocation("<ticket id='7'/>");
        xml.set("content-type", "application/xml").unwrap();
        assert_eq!(map(&Zendesk, &xml).unwrap().event_type, "event");
        let json = invocation(r#"{"ticket_id":"7","type":"question"}"#);
        assert_eq!(map(&Zendesk, &json).unwrap().event_type, "event");
        assert!(matches!(map(&Zendesk, &invocation("{")), Err(MapError::NotJson(_))));
    }

    #[test]
    fn an_event_says_who_what_and_when() {
        let mut sample = Zendesk.samples()[0].request("https://hooks.example/", "7001", NOW);
        sample.set(INVOCATION, "inv-1").unwrap();
        let mapped = map(&Zendesk, &sample).unwrap();
        assert_eq!(mapped.event_type, "ticket.status_changed");
        assert_eq!(mapped.dedup_key.as_deref(), Some("inv-1"));
        assert_eq!(mapped.occurred_at, Some(NOW));
        assert_eq!(mapped.subject.unwrap().text("zendesk"), "zendesk:ticket:35436");
        let actor = mapped.actor.unwrap();
        assert_eq!((actor.id.as_deref(), actor.verified), (Some("8447388090494"), false));
    }

    #[test]
    fn without_an_invocation_id_the_events_own_id_is_the_key() {
        let mut request = invocation(r#"{"id":"ev-1","type":"zen:event-type:user.created"}"#);
        request.headers.remove(INVOCATION);
        assert_eq!(map(&Zendesk, &request).unwrap().dedup_key.as_deref(), Some("ev-1"));
        request.body = b"{}".to_vec();
        assert_eq!(map(&Zendesk, &request), Err(MapError::Missing("/id")));
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        for body in [
            r#"{"type":"zen:event-type:x","subject":"ticket:1","time":5,"detail":{"actor_id":"-1"}}"#,
            r#"{"type":"zen:event-type:x","subject":"zen:ticket","detail":[1]}"#,
        ] {
            let mapped = map(&Zendesk, &invocation(body)).unwrap();
            assert_eq!(mapped.event_type, "x");
            assert_eq!((mapped.actor, mapped.subject, mapped.occurred_at), (None, None, None));
        }
    }
}
