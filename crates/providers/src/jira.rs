//! Jira: `X-Hub-Signature` over the body; the event's id is in a header that nobody signs.

use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Actor, Mapped, Subject};
use wakepost_domain::ports::Entropy;

use crate::freshness::Unit;
use crate::hmac_header::HmacHeader;
use crate::mapping::{self, MapError};
use crate::payload::Found;
use crate::provider::{Facts, Provider, SecretNeed, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Settings};
use crate::verdict::{Check, Refusal, Verified};
use crate::{header, payload, signature};

const SIGNATURE: HmacHeader = HmacHeader::sha256_hex("X-Hub-Signature");
const IDENTIFIER: &str = "X-Atlassian-Webhook-Identifier";

/// A Jira site.
pub(crate) struct Jira;

impl Provider for Jira {
    fn name(&self) -> &'static str {
        "jira"
    }

    fn facts(&self) -> Facts {
        Facts {
            id_is_signed: false,
            secret: SecretNeed::Generated,
            retry_header: Some("x-atlassian-webhook-retry"),
            ..Facts::usual("Jira")
        }
    }

    fn place(&self) -> Option<&'static str> {
        Some("Settings → System → WebHooks → Create a WebHook")
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SIGNATURE.declared()]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let secret_index = SIGNATURE.verify_body(request, check)?;
        Ok(Verified { secret_index, signed_at: None })
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let id = header::one(request.headers, IDENTIFIER)?;
        let said = Said::read(request.body)?;
        mapping::one(Mapped {
            dedup_key: Some(id.to_owned()),
            actor: said.actor(),
            subject: said.subject(),
            occurred_at: said.timestamp.and_then(|text| Unit::Millis.read(&text)),
            event_type: said.event.ok_or(MapError::Missing("/webhookEvent"))?.into_owned(),
            provider_request_id: header::request_id(request.headers),
            ..Mapped::default()
        })
    }

    fn generate_secret(&self, _: &Settings, entropy: &dyn Entropy) -> Option<String> {
        Some(hex::encode(signature::random_key(entropy)))
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
        request.set(IDENTIFIER, id)?;
        SIGNATURE.sign_body(request, secret)
    }
}

static SAMPLES: &[Sample] = &[
    Sample::json("jira:issue_created", include_str!("../fixtures/jira/issue_created.json"))
        .with_headers(&[("x-atlassian-webhook-flow", "Primary")]),
    Sample::json("jira:issue_updated", include_str!("../fixtures/jira/issue_updated.json")),
    Sample::json("comment_created", include_str!("../fixtures/jira/comment_created.json")),
];

/// The few fields of a payload that the envelope needs.
struct Said<'a> {
    event: Found<'a>,
    timestamp: Found<'a>,
    user: Person<'a>,
    commenter: Person<'a>,
    issue_key: Found<'a>,
    issue_api_url: Found<'a>,
    sprint_id: Found<'a>,
    project_key: Found<'a>,
}

struct Person<'a> {
    id: Found<'a>,
    name: Found<'a>,
    email: Found<'a>,
}

impl<'a> Said<'a> {
    fn read(body: &'a [u8]) -> Result<Said<'a>, MapError> {
        let fields = payload::pick(
            body,
            [
                "/webhookEvent",
                "/timestamp",
                "/user/accountId",
                "/user/displayName",
                "/user/emailAddress",
                "/comment/updateAuthor/accountId",
                "/comment/updateAuthor/displayName",
                "/comment/updateAuthor/emailAddress",
                "/issue/key",
                "/issue/self",
                "/sprint/id",
                "/project/key",
            ],
        )?;
        let [event, timestamp, id, name, email, by_id, by_name, by_email, rest @ ..] = fields;
        let user = Person { id, name, email };
        let commenter = Person { id: by_id, name: by_name, email: by_email };
        let [issue_key, issue_api_url, sprint_id, project_key] = rest;
        Ok(Said {
            event,
            timestamp,
            user,
            commenter,
            issue_key,
            issue_api_url,
            sprint_id,
            project_key,
        })
    }

    /// The user is who Jira logged in, so it vouches for them. Comment events name only the comment's author.
    fn actor(&self) -> Option<Actor> {
        let person =
            [&self.user, &self.commenter].into_iter().find(|person| person.id.is_some())?;
        let text = |field: &Found<'_>| field.as_deref().map(str::to_owned);
        let (name, email) = (text(&person.name), text(&person.email));
        Some(Actor { id: text(&person.id), name, email, verified: true })
    }

    fn subject(&self) -> Option<Subject> {
        let subject =
            |kind: &str, id: &str| Subject { kind: kind.into(), id: id.into(), url: None };
        if let Some(key) = self.issue_key.as_deref() {
            return Some(Subject { url: self.issue_page(key), ..subject("issue", key) });
        }
        let sprint = self.sprint_id.as_deref().map(|id| subject("sprint", id));
        sprint.or_else(|| self.project_key.as_deref().map(|key| subject("project", key)))
    }

    /// The payload links to the API only; the page for people is on the same site.
    fn issue_page(&self, key: &str) -> Option<String> {
        let (site, _) = self.issue_api_url.as_deref()?.split_once("/rest/api/")?;
        Some(format!("{site}/browse/{key}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Why;
    use crate::testing::{NOW, map, verify};

    const SECRET: &str = "It's a Secret to Everybody";

    fn delivery(body: &str) -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/in/src_1", body);
        Jira.sign(&mut request, SECRET, &Settings::new(), "f4-11", NOW).unwrap();
        request
    }

    #[test]
    fn the_published_vector_is_accepted() {
        let mut request = SignedRequest::post("https://hooks.example/", "Hello World!");
        let vector = "a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9";
        request.set("X-Hub-Signature", &format!("sha256={vector}")).unwrap();
        assert!(verify(&Jira, &request, &[SECRET]).is_ok());
        for bad in [vector, &format!("sha1={vector}"), &format!("sha256={}", &vector[2..])] {
            request.set("X-Hub-Signature", bad).unwrap();
            let refused = verify(&Jira, &request, &[SECRET]);
            assert!(matches!(refused, Err(Refusal::Signature(_))), "{bad}: {refused:?}");
        }
    }

    #[test]
    fn an_issue_event_says_who_what_and_when() {
        let sample = Jira.samples()[1].request("https://hooks.example/", "7001", NOW);
        let body = String::from_utf8(sample.body).unwrap();
        let mapped = map(&Jira, &delivery(&body)).unwrap();
        assert_eq!(mapped.event_type, "jira:issue_updated");
        assert_eq!(mapped.dedup_key.as_deref(), Some("f4-11"));
        assert_eq!(mapped.occurred_at, Some(NOW));
        let actor = mapped.actor.unwrap();
        assert_eq!(actor.id.as_deref(), Some("712020:5f1d2c34"));
        assert_eq!(actor.name.as_deref(), Some("Mona Lind"));
        assert!(actor.verified);
        let subject = mapped.subject.unwrap();
        assert_eq!(subject.text("jira"), "jira:issue:OPS-42");
        assert_eq!(subject.url.as_deref(), Some("https://acme.atlassian.net/browse/OPS-42"));
    }

    #[test]
    fn a_comment_is_by_whoever_wrote_it_last() {
        let body = r#"{"webhookEvent":"comment_updated","issue":{"key":"OPS-1"},
            "comment":{"author":{"accountId":"a"},"updateAuthor":{"accountId":"b"}}}"#;
        let mapped = map(&Jira, &delivery(body)).unwrap();
        assert_eq!(mapped.actor.unwrap().id.as_deref(), Some("b"));
        assert_eq!(mapped.subject.unwrap().url, None);
    }

    #[test]
    fn events_without_an_issue_are_about_their_sprint_or_project() {
        let body = r#"{"webhookEvent":"sprint_started","sprint":{"id":7}}"#;
        let mapped = map(&Jira, &delivery(body)).unwrap();
        assert_eq!(mapped.subject.unwrap().text("jira"), "jira:sprint:7");
        let body = r#"{"webhookEvent":"project_created","project":{"key":"OPS"}}"#;
        let mapped = map(&Jira, &delivery(body)).unwrap();
        assert_eq!(mapped.subject.unwrap().text("jira"), "jira:project:OPS");
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        let body = r#"{"webhookEvent":"x","timestamp":"soon","user":["a"],"issue":{"key":{}},
            "comment":null,"sprint":7}"#;
        let mapped = map(&Jira, &delivery(body)).unwrap();
        assert_eq!((mapped.actor, mapped.subject, mapped.occurred_at), (None, None, None));
    }

    #[test]
    fn an_event_without_its_id_type_or_json_is_unmapped() {
        let mut request = delivery(r#"{"webhookEvent":"x"}"#);
        request.headers.remove(IDENTIFIER);
        assert!(matches!(map(&Jira, &request), Err(MapError::Header(Why::Missing(_)))));
        let missing = Err(MapError::Missing("/webhookEvent"));
        assert_eq!(map(&Jira, &delivery(r#"{"webhookEvent":null}"#)), missing);
        assert!(matches!(map(&Jira, &delivery("")), Err(MapError::NotJson(_))));
    }
}
