//! Linear: `Linear-Signature` over the body, which holds the time of sending; the event's id is in a header that
//! nobody signs.

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

const SIGNATURE: HmacHeader = HmacHeader::hex("Linear-Signature");
const DELIVERY: &str = "Linear-Delivery";
const SENT_AT: &str = "/webhookTimestamp";

/// A Linear workspace.
pub(crate) struct Linear;

impl Provider for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn facts(&self) -> Facts {
        Facts {
            tolerance: Duration::from_secs(60),
            patience: Duration::from_secs(5),
            id_is_signed: false,
            // Any other status counts as a failure there.
            accepted_status: 200,
            ..Facts::usual("Linear")
        }
    }

    fn place(&self) -> Option<&'static str> {
        Some("Settings → API → Webhooks → New webhook")
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SIGNATURE.declared()]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let secret_index = SIGNATURE.verify_body(request, check)?;
        let signed_at = sent_at(request.body)?;
        check.fresh(signed_at)?;
        Ok(Verified { secret_index, signed_at: Some(signed_at) })
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let id = header::one(request.headers, DELIVERY)?;
        let said = Said::read(request.body)?;
        mapping::one(Mapped {
            dedup_key: Some(id.to_owned()),
            event_type: said.event_type()?,
            occurred_at: said.created_at.as_deref().and_then(|text| Unit::Rfc3339.read(text)),
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
        _: Timestamp,
    ) -> Result<(), ConfigError> {
        request.set(DELIVERY, id)?;
        SIGNATURE.sign_body(request, secret)
    }
}

static SAMPLES: &[Sample] = &[
    Sample::json("Issue.create", include_str!("../fixtures/linear/issue.create.json"))
        .with_headers(&[("linear-event", "Issue")]),
    Sample::json("Comment.create", include_str!("../fixtures/linear/comment.create.json"))
        .with_headers(&[("linear-event", "Comment")]),
    Sample::json(
        "AgentSessionEvent.created",
        include_str!("../fixtures/linear/agent_session.created.json"),
    )
    .with_headers(&[("linear-event", "AgentSessionEvent")]),
];

/// When Linear sent this; a body without it could be replayed for ever.
fn sent_at(body: &[u8]) -> Result<Timestamp, Why> {
    let found = payload::pick(body, [SENT_AT]).ok().and_then(|[text]| text);
    found
        .and_then(|text| Unit::Millis.read(&text))
        .ok_or_else(|| Why::malformed("webhookTimestamp in the body", Unit::Millis.expected()))
}

/// The few fields of a payload that the envelope needs.
struct Said<'a> {
    kind: Found<'a>,
    action: Found<'a>,
    created_at: Found<'a>,
    url: Found<'a>,
    /// Type, id, name and e-mail.
    actor: [Found<'a>; 4],
    data_id: Found<'a>,
    data_identifier: Found<'a>,
    session_id: Found<'a>,
    notified_issue: Found<'a>,
}

impl<'a> Said<'a> {
    fn read(body: &'a [u8]) -> Result<Said<'a>, MapError> {
        let fields = payload::pick(
            body,
            [
                "/type",
                "/action",
                "/createdAt",
                "/url",
                "/actor/type",
                "/actor/id",
                "/actor/name",
                "/actor/email",
                "/data/id",
                "/data/identifier",
                "/agentSession/id",
                "/notification/issue/identifier",
            ],
        )?;
        let [kind, action, created_at, url, actor_type, actor_id, name, email, rest @ ..] = fields;
        let [data_id, data_identifier, session_id, notified_issue] = rest;
        let actor = [actor_type, actor_id, name, email];
        Ok(Said {
            kind,
            action,
            created_at,
            url,
            actor,
            data_id,
            data_identifier,
            session_id,
            notified_issue,
        })
    }

    fn event_type(&self) -> Result<String, MapError> {
        let kind = self.kind.as_deref().ok_or(MapError::Missing("/type"))?;
        Ok(match &self.action {
            Some(action) => format!("{kind}.{action}"),
            None => kind.to_owned(),
        })
    }

    /// Linear vouches for people, who are logged in, but not for whom an integration speaks.
    fn actor(&self) -> Option<Actor> {
        let [kind, id, name, email] = self.actor.each_ref().map(|field| field.as_deref());
        let id = Some(id?.to_owned());
        let (name, email) = (name.map(str::to_owned), email.map(str::to_owned));
        Some(Actor { id, name, email, verified: kind == Some("user") })
    }

    /// What changed, by the name people know it by where it has one (`ENG-42`).
    fn subject(&self) -> Option<Subject> {
        let (kind, id) = if let Some(id) = self.data_identifier.as_ref().or(self.data_id.as_ref()) {
            (self.kind.as_deref()?, id)
        } else if let Some(id) = &self.session_id {
            ("AgentSession", id)
        } else {
            ("Issue", self.notified_issue.as_ref()?)
        };
        let url = self.url.as_deref().map(str::to_owned);
        Some(Subject { kind: kind.to_owned(), id: id.as_ref().to_owned(), url })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, map, verify, verify_at};

    const SECRET: &str = "lin_wh_secret";

    fn delivery(body: &str) -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/in/src_1", body);
        Linear.sign(&mut request, SECRET, &Settings::new(), "d-1", NOW).unwrap();
        request
    }

    #[test]
    fn a_signature_made_by_another_implementation_is_accepted() {
        // printf '{"webhookTimestamp":1700000000000}' | openssl dgst -sha256 -hmac lin_wh_secret
        let body = r#"{"webhookTimestamp":1700000000000}"#;
        let mut request = SignedRequest::post("https://hooks.example/", body);
        request
            .set(
                "Linear-Signature",
                "4b1011a04abe3a2b3e5aabbd263f71852167af3291e9b7d7f3a9c26cdd453eef",
            )
            .unwrap();
        let expected = Verified { secret_index: 0, signed_at: Some(NOW) };
        assert_eq!(verify(&Linear, &request, &[SECRET]), Ok(expected));
    }

    #[test]
    fn the_time_in_the_body_is_good_for_a_minute() {
        let request = delivery(r#"{"webhookTimestamp":1700000000000}"#);
        let after =
            |secs| verify_at(&Linear, &request, &[SECRET], NOW.after(Duration::from_secs(secs)));
        assert!(after(60).is_ok());
        assert!(matches!(after(61), Err(Refusal::Stale { ahead: false, .. })));
    }

    #[test]
    fn a_body_whose_time_cannot_be_read_is_a_bad_signature() {
        for bad in [
            "",
            "{}",
            "not JSON",
            r#"{"webhookTimestamp":null}"#,
            r#"{"webhookTimestamp":"soon"}"#,
            r#"{"webhookTimestamp":-1700000000000}"#,
            r#"{"webhookTimestamp":1700000000000.0}"#,
            r#"{"webhookTimestamp":17000000000000000}"#,
            r#"{"webhookTimestamp":1700000000000,"webhookTimestamp":1}"#,
            r#"{"data":{"webhookTimestamp":1700000000000}}"#,
        ] {
            let refused = verify(&Linear, &delivery(bad), &[SECRET]);
            let why = matches!(refused, Err(Refusal::Signature(Why::Malformed { .. })));
            assert!(why, "{bad}: {refused:?}");
            let forged = verify(&Linear, &delivery(bad), &["another"]);
            assert_eq!(forged, Err(Refusal::Signature(Why::Mismatch)), "nothing is read before");
        }
    }

    #[test]
    fn an_issue_event_says_who_what_and_when() {
        let sample = Linear.samples()[0].request("https://hooks.example/", "7001", NOW);
        let body = String::from_utf8(sample.body).unwrap();
        let mapped = map(&Linear, &delivery(&body)).unwrap();
        assert_eq!(mapped.dedup_key.as_deref(), Some("d-1"));
        assert_eq!(mapped.occurred_at, Some(NOW));
        let actor = mapped.actor.unwrap();
        assert_eq!(actor.id.as_deref(), Some("b5ea5f1f-8adc-4f52-b4bd-ab4e84cf51ba"));
        assert_eq!(actor.email.as_deref(), Some("mona@example.com"));
        assert!(actor.verified);
        let subject = mapped.subject.unwrap();
        assert_eq!(subject.text("linear"), "linear:Issue:ENG-42");
        assert_eq!(subject.url.as_deref(), Some("https://linear.app/acme/issue/ENG-42"));
    }

    #[test]
    fn an_integration_is_not_a_verified_person() {
        let body = r#"{"type":"Comment","action":"create","data":{"id":"c1"},
            "actor":{"id":"i1","type":"integration","service":"email"}}"#;
        let mapped = map(&Linear, &delivery(body)).unwrap();
        assert!(!mapped.actor.unwrap().verified);
        assert_eq!(mapped.subject.unwrap().text("linear"), "linear:Comment:c1");
    }

    #[test]
    fn sessions_and_notifications_of_an_agent_have_their_own_subjects() {
        let body = r#"{"type":"AgentSessionEvent","action":"prompted","agentSession":{"id":"s1"}}"#;
        let subject = map(&Linear, &delivery(body)).unwrap().subject.unwrap();
        assert_eq!(subject.text("linear"), "linear:AgentSession:s1");
        let body = r#"{"type":"AppUserNotification","action":"issueAssignedToYou",
            "notification":{"id":"n1","issue":{"identifier":"ENG-7"}}}"#;
        let subject = map(&Linear, &delivery(body)).unwrap().subject.unwrap();
        assert_eq!(subject.text("linear"), "linear:Issue:ENG-7");
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        let body = r#"{"type":"Issue","action":{},"createdAt":5,"actor":"mona","data":[{"id":1}]}"#;
        let mapped = map(&Linear, &delivery(body)).unwrap();
        assert_eq!(mapped.event_type, "Issue");
        assert_eq!((mapped.actor, mapped.subject, mapped.occurred_at), (None, None, None));
    }

    #[test]
    fn an_event_without_its_id_or_type_is_unmapped() {
        let mut request = delivery(r#"{"type":"Issue"}"#);
        request.headers.remove(DELIVERY);
        assert!(matches!(map(&Linear, &request), Err(MapError::Header(Why::Missing(_)))));
        let body = r#"{"action":"create"}"#;
        assert_eq!(map(&Linear, &delivery(body)), Err(MapError::Missing("/type")));
    }
}
