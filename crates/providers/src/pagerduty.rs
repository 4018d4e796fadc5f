//! PagerDuty: `X-PagerDuty-Signature` with one HMAC over the body for each live secret of the subscription;
//! everything else is in the body.

use std::time::Duration;

use aws_lc_rs::hmac::HMAC_SHA256;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Actor, Mapped, Subject};

use crate::freshness::Unit;
use crate::mapping::{self, MapError};
use crate::payload::Found;
use crate::provider::{Facts, Provider, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Settings};
use crate::signature::{self, CANDIDATES_MAX, Encoding};
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{header, payload};

const SIGNATURE: &str = "X-PagerDuty-Signature";
const WEBHOOK_ID: &str = "X-Webhook-Id";

/// A webhook subscription (v3) of a PagerDuty account.
pub(crate) struct PagerDuty;

impl Provider for PagerDuty {
    fn name(&self) -> &'static str {
        "pagerduty"
    }

    fn facts(&self) -> Facts {
        Facts { patience: Duration::from_secs(5), ..Facts::usual("PagerDuty") }
    }

    fn place(&self) -> Option<&'static str> {
        Some("Integrations → Generic Webhooks (v3) → New Webhook")
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SignedHeader::hex("x-pagerduty-signature")]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let given = signatures(header::one(request.headers, SIGNATURE)?)?;
        let secret_index = check.secret_that(|secret| {
            Ok(signature::hmac_fits(HMAC_SHA256, secret.as_bytes(), &[request.body], &given))
        })?;
        Ok(Verified { secret_index, signed_at: None })
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let said = Said::read(request.body)?;
        let webhook_id = header::optional(request.headers, WEBHOOK_ID).ok().flatten();
        mapping::one(Mapped {
            actor: said.actor(),
            subject: said.subject(),
            dedup_key: Some(said.id.ok_or(MapError::Missing("/event/id"))?.into_owned()),
            event_type: said.kind.ok_or(MapError::Missing("/event/event_type"))?.into_owned(),
            occurred_at: said.occurred_at.and_then(|text| Unit::Rfc3339.read(&text)),
            provider_request_id: webhook_id
                .map(str::to_owned)
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
        id: &str,
        _: Timestamp,
    ) -> Result<(), ConfigError> {
        let tag = signature::hmac(HMAC_SHA256, secret.as_bytes(), &[&request.body]);
        request.set(SIGNATURE, &format!("v1={}", hex::encode(tag)))?;
        request.set(WEBHOOK_ID, id)
    }
}

static SAMPLES: &[Sample] = &[
    Sample::json(
        "incident.triggered",
        include_str!("../fixtures/pagerduty/incident.triggered.json"),
    ),
    Sample::json(
        "incident.annotated",
        include_str!("../fixtures/pagerduty/incident.annotated.json"),
    ),
];

/// Reads `v1=…[,v1=…]`; other versions are passed over.
fn signatures(text: &str) -> Result<Vec<Vec<u8>>, Why> {
    let signatures: Vec<_> = text
        .split(',')
        .filter_map(|item| item.trim().strip_prefix("v1="))
        .filter_map(|value| Encoding::Hex.decode(value))
        .take(CANDIDATES_MAX + 1)
        .collect();
    match (1..=CANDIDATES_MAX).contains(&signatures.len()) {
        true => Ok(signatures),
        false => Err(Why::malformed(SIGNATURE, "one to 16 hex signatures, each after v1=")),
    }
}

/// The few fields of a payload that the envelope needs.
struct Said<'a> {
    id: Found<'a>,
    kind: Found<'a>,
    occurred_at: Found<'a>,
    /// Type, id and name.
    agent: [Found<'a>; 3],
    /// Type, id and page.
    data: [Found<'a>; 3],
    /// Id and page.
    incident: [Found<'a>; 2],
}

impl<'a> Said<'a> {
    fn read(body: &'a [u8]) -> Result<Said<'a>, MapError> {
        let fields = payload::pick(
            body,
            [
                "/event/id",
                "/event/event_type",
                "/event/occurred_at",
                "/event/agent/type",
                "/event/agent/id",
                "/event/agent/summary",
                "/event/data/type",
                "/event/data/id",
                "/event/data/html_url",
                "/event/data/incident/id",
                "/event/data/incident/html_url",
            ],
        )?;
        let [id, kind, occurred_at, agent_type, agent_id, agent_name, rest @ ..] = fields;
        let [data_type, data_id, data_url, incident_id, incident_url] = rest;
        let agent = [agent_type, agent_id, agent_name];
        let (data, incident) = ([data_type, data_id, data_url], [incident_id, incident_url]);
        Ok(Said { id, kind, occurred_at, agent, data, incident })
    }

    /// PagerDuty vouches for its users; an integration may speak for anybody.
    fn actor(&self) -> Option<Actor> {
        let [kind, id, name] = self.agent.each_ref().map(|field| field.as_deref());
        let id = Some(id?.to_owned());
        let verified = kind == Some("user_reference");
        Some(Actor { id, name: name.map(str::to_owned), email: None, verified })
    }

    /// Notes, status updates and responders are about their incident.
    fn subject(&self) -> Option<Subject> {
        let [data_type, data_id, data_url] = self.data.each_ref().map(|field| field.as_deref());
        let [incident_id, incident_url] = self.incident.each_ref().map(|field| field.as_deref());
        let (kind, id, url) = match incident_id {
            Some(id) => ("incident", id, incident_url),
            None => (data_type?, data_id?, data_url),
        };
        Some(Subject { kind: kind.to_owned(), id: id.to_owned(), url: url.map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, map, verify};

    const SECRET: &str = "subscription secret";
    // printf '{"event":{}}' | openssl dgst -sha256 -hmac 'subscription secret'
    const GOOD: &str = "v1=083e1e743c85301592f2533c7f1a1e974028e2369b18a829ced57794dc0f1988";

    fn verdict(signature: &str) -> Result<Verified, Refusal> {
        let mut request = SignedRequest::post("https://hooks.example/", r#"{"event":{}}"#);
        request.set(SIGNATURE, signature).unwrap();
        verify(&PagerDuty, &request, &[SECRET])
    }

    fn event(body: &str) -> SignedRequest {
        SignedRequest::post("https://hooks.example/in/src_1", body)
    }

    #[test]
    fn one_good_signature_among_several_is_enough() {
        let zeros = "0".repeat(64);
        for good in [
            GOOD.to_owned(),
            format!("v1={zeros},{GOOD}"),
            format!("{GOOD}, v1={zeros}"),
            format!("v2=x,v1=,v1=zz,,{GOOD}"),
            format!("{}{GOOD}", format!("v1={zeros},").repeat(CANDIDATES_MAX - 1)),
        ] {
            assert!(verdict(&good).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_malformed_signature_is_refused() {
        let zeros = "0".repeat(64);
        for bad in [
            GOOD[3..].to_owned(),
            GOOD.replace("v1", "v2"),
            GOOD.replace("v1", "V1"),
            format!("{GOOD}00"),
            GOOD[..GOOD.len() - 2].to_owned(),
            "v1=".to_owned(),
            ",".to_owned(),
            format!("{GOOD}{}", format!(",v1={zeros}").repeat(CANDIDATES_MAX)),
        ] {
            let refused = verdict(&bad);
            assert!(matches!(refused, Err(Refusal::Signature(_))), "{bad}: {refused:?}");
        }
    }

    #[test]
    fn an_incident_says_who_what_and_when() {
        let mut sample = PagerDuty.samples()[0].request("https://hooks.example/", "7001", NOW);
        sample.set(WEBHOOK_ID, "hook-1").unwrap();
        let mapped = map(&PagerDuty, &sample).unwrap();
        assert_eq!(mapped.event_type, "incident.triggered");
        assert_eq!(mapped.dedup_key.as_deref(), Some("01DQ7001"));
        assert_eq!(mapped.occurred_at, Some(NOW));
        assert_eq!(mapped.provider_request_id.as_deref(), Some("hook-1"));
        let actor = mapped.actor.unwrap();
        assert_eq!((actor.name.as_deref(), actor.verified), (Some("Mona Lind"), true));
        let subject = mapped.subject.unwrap();
        assert_eq!(subject.text("pagerduty"), "pagerduty:incident:PGR0VU2");
        assert_eq!(subject.url.as_deref(), Some("https://acme.pagerduty.com/incidents/PGR0VU2"));
    }

    #[test]
    fn a_note_is_about_its_incident() {
        let sample = PagerDuty.samples()[1].request("https://hooks.example/", "7001", NOW);
        let subject = map(&PagerDuty, &sample).unwrap().subject.unwrap();
        assert_eq!(subject.text("pagerduty"), "pagerduty:incident:PGR0VU2");
    }

    #[test]
    fn an_integration_is_not_a_verified_person() {
        let body = r#"{"event":{"id":"1","event_type":"incident.triggered",
            "agent":{"id":"PX","type":"inbound_integration_reference"}}}"#;
        assert!(!map(&PagerDuty, &event(body)).unwrap().actor.unwrap().verified);
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        let body = r#"{"event":{"id":"1","event_type":"service.updated","occurred_at":7,
            "agent":null,"data":{"type":"service","id":{},"incident":[]}}}"#;
        let mapped = map(&PagerDuty, &event(body)).unwrap();
        assert_eq!((mapped.actor, mapped.subject, mapped.occurred_at), (None, None, None));
    }

    #[test]
    fn an_event_without_id_or_type_is_unmapped() {
        for (body, missing) in [
            (r#"{"event":{"event_type":"t"}}"#, "/event/id"),
            (r#"{"event":{"id":"1"}}"#, "/event/event_type"),
            (r#"{"id":"1","event_type":"t"}"#, "/event/id"),
        ] {
            assert_eq!(map(&PagerDuty, &event(body)), Err(MapError::Missing(missing)));
        }
        assert!(matches!(map(&PagerDuty, &event("")), Err(MapError::NotJson(_))));
    }
}
