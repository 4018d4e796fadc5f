//! Notion: `X-Notion-Signature` over the body; the secret is a token that Notion sends with its first request.

use serde::Deserialize;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Actor, Mapped, Subject};

use crate::freshness::Unit;
use crate::hmac_header::HmacHeader;
use crate::mapping::{self, MapError};
use crate::provider::{Answer, Facts, Provider, SecretNeed, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Settings};
use crate::verdict::{Check, Refusal, Verified};
use crate::{header, payload};

const SIGNATURE: HmacHeader = HmacHeader::sha256_hex("X-Notion-Signature");
/// Notion's tokens have about fifty characters.
const TOKEN_BYTES_MAX: usize = 200;

/// A webhook subscription of a Notion connection.
pub(crate) struct Notion;

impl Provider for Notion {
    fn name(&self) -> &'static str {
        "notion"
    }

    fn facts(&self) -> Facts {
        Facts { secret: SecretNeed::Sent, ..Facts::usual("Notion") }
    }

    fn place(&self) -> Option<&'static str> {
        Some("your connection's settings → Webhooks → Create a subscription")
    }

    fn sent_secret(&self, request: &Request<'_>) -> Option<String> {
        handshake_token(request.body)
    }

    /// Notion sends the token again when its operator asks for it; a source that has one keeps it.
    fn signed_handshake(&self, request: &Request<'_>, _: &Settings) -> Option<Answer> {
        handshake_token(request.body).map(|_| Answer::ok("application/json", "{}"))
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SIGNATURE.declared()]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let secret_index = SIGNATURE.verify_body(request, check)?;
        Ok(Verified { secret_index, signed_at: None })
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let [id, event_type, timestamp, author_id, author_type, entity_id, entity_type] =
            payload::pick(
                request.body,
                [
                    "/id",
                    "/type",
                    "/timestamp",
                    "/authors/0/id",
                    "/authors/0/type",
                    "/entity/id",
                    "/entity/type",
                ],
            )?;
        mapping::one(Mapped {
            dedup_key: Some(id.ok_or(MapError::Missing("/id"))?.into_owned()),
            event_type: event_type.ok_or(MapError::Missing("/type"))?.into_owned(),
            occurred_at: timestamp.and_then(|text| Unit::Rfc3339.read(&text)),
            // Notion vouches for the people it logged in; a bot may act for anybody.
            actor: author_id.map(|id| Actor {
                id: Some(id.into_owned()),
                verified: author_type.as_deref() == Some("person"),
                ..Actor::default()
            }),
            subject: entity_type.zip(entity_id).map(|(kind, id)| Subject {
                kind: kind.into_owned(),
                id: id.into_owned(),
                url: None,
            }),
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
        SIGNATURE.sign_body(request, secret)
    }
}

static SAMPLES: &[Sample] = &[
    Sample::json(
        "page.content_updated",
        include_str!("../fixtures/notion/page.content_updated.json"),
    ),
    Sample::json("comment.created", include_str!("../fixtures/notion/comment.created.json")),
];

/// The whole of Notion's first request. Anything beside the token means that it is something else.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Handshake {
    verification_token: String,
}

/// The token, if the body is exactly the handshake. It comes unsigned, so only a plain one is taken for a secret.
fn handshake_token(body: &[u8]) -> Option<String> {
    // Serde would also read the one field from a list.
    let is_object = body.trim_ascii_start().starts_with(b"{");
    let Handshake { verification_token: token } = serde_json::from_slice(body).ok()?;
    let fits = (1..=TOKEN_BYTES_MAX).contains(&token.len());
    (is_object && fits && token.bytes().all(|byte| byte.is_ascii_graphic())).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, map, verify};

    const TOKEN: &str = "secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl";
    const HANDSHAKE: &str =
        r#"{"verification_token":"secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl"}"#;

    fn post(body: &str) -> SignedRequest {
        SignedRequest::post("https://hooks.example/in/src_1", body)
    }

    #[test]
    fn a_signature_made_by_another_implementation_is_accepted() {
        // printf '{"id":"e1"}' | openssl dgst -sha256 -hmac <the token>
        let mut request = post(r#"{"id":"e1"}"#);
        request
            .set(
                "X-Notion-Signature",
                "sha256=c8e36e47c02391d3b98de3069d1cb8fe6a07faa804f0b2a1410de6daebc9fc84",
            )
            .unwrap();
        assert!(verify(&Notion, &request, &[TOKEN]).is_ok());
    }

    #[test]
    fn the_first_request_brings_the_secret() {
        assert_eq!(Notion.facts().secret, SecretNeed::Sent);
        let sent = Notion.sent_secret(&post(HANDSHAKE).as_request());
        assert_eq!(sent.as_deref(), Some(TOKEN));
    }

    #[test]
    fn nothing_but_the_exact_handshake_brings_a_secret() {
        let long = format!(r#"{{"verification_token":"{}"}}"#, "x".repeat(TOKEN_BYTES_MAX + 1));
        for other in [
            "",
            "{}",
            "null",
            r#""secret_x""#,
            r#"["secret_x"]"#,
            r#"{"verification_token":""}"#,
            r#"{"verification_token":null}"#,
            r#"{"verification_token":7}"#,
            r#"{"verification_token":"a b"}"#,
            r#"{"verification_token":"a\u0000"}"#,
            r#"{"verification_token":"a","verification_token":"b"}"#,
            r#"{"verification_token":"a","type":"page.created"}"#,
            r#"{"id":"1","type":"page.created","data":{"verification_token":"a"}}"#,
            r#"{"verification_token":"a"} {}"#,
            &long,
        ] {
            let request = post(other);
            assert_eq!(Notion.sent_secret(&request.as_request()), None, "{other}");
            let answer = Notion.signed_handshake(&request.as_request(), &Settings::new());
            assert_eq!(answer, None, "{other}");
        }
    }

    #[test]
    fn a_later_token_must_be_signed_and_is_then_answered() {
        let mut request = post(HANDSHAKE);
        assert!(matches!(verify(&Notion, &request, &["old"]), Err(Refusal::Signature(_))));
        Notion.sign(&mut request, "old", &Settings::new(), "", NOW).unwrap();
        assert!(verify(&Notion, &request, &["old"]).is_ok());
        let answer = Notion.signed_handshake(&request.as_request(), &Settings::new()).unwrap();
        assert_eq!(answer.status, 200);
        assert!(!answer.body.contains("secret_"), "the token is never repeated");
    }

    #[test]
    fn an_event_says_who_what_and_when() {
        let sample = Notion.samples()[0].request("https://hooks.example/", "7001", NOW);
        let mapped = map(&Notion, &sample).unwrap();
        assert_eq!(mapped.event_type, "page.content_updated");
        assert_eq!(mapped.dedup_key.as_deref(), Some("367cba44-b6f3-4c92-81e7-7001"));
        assert_eq!(mapped.occurred_at, Some(NOW));
        let actor = mapped.actor.unwrap();
        assert_eq!(actor.id.as_deref(), Some("c7c11cca-1d73-471d-9b6e-bdef51470190"));
        assert!(actor.verified);
        let subject = mapped.subject.unwrap();
        assert_eq!(subject.text("notion"), "notion:page:153104cd-477e-809d-8dc4-ff2d96ae3090");
    }

    #[test]
    fn a_bot_is_not_a_verified_person() {
        let body = r#"{"id":"1","type":"t","authors":[{"id":"b","type":"bot"}]}"#;
        assert!(!map(&Notion, &post(body)).unwrap().actor.unwrap().verified);
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        let body = r#"{"id":"1","type":"t","timestamp":1,"authors":{"id":"a"},"entity":["x"]}"#;
        let mapped = map(&Notion, &post(body)).unwrap();
        assert_eq!((mapped.actor, mapped.subject, mapped.occurred_at), (None, None, None));
    }

    #[test]
    fn an_event_without_id_or_type_is_unmapped() {
        assert_eq!(map(&Notion, &post(r#"{"type":"t"}"#)), Err(MapError::Missing("/id")));
        assert_eq!(map(&Notion, &post(r#"{"id":"1"}"#)), Err(MapError::Missing("/type")));
        assert!(matches!(map(&Notion, &post("")), Err(MapError::NotJson(_))));
    }
}
