//! GitHub: `X-Hub-Signature-256` over the body; the event's id and kind are in headers that nobody signs.

use std::borrow::Cow;

use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Actor, Mapped, Starts, Subject};
use wakepost_domain::ports::Entropy;

use crate::hmac_header::HmacHeader;
use crate::mapping::{self, MapError};
use crate::provider::{Facts, Provider, SecretNeed, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Settings};
use crate::verdict::{Check, Refusal, Verified};
use crate::{header, payload, signature};

const SIGNATURE: HmacHeader = HmacHeader::sha256_hex("X-Hub-Signature-256");
const DELIVERY: &str = "X-GitHub-Delivery";
const EVENT: &str = "X-GitHub-Event";

/// Repositories, organizations and apps on GitHub.
pub(crate) struct GitHub;

impl Provider for GitHub {
    fn name(&self) -> &'static str {
        "github"
    }

    fn facts(&self) -> Facts {
        Facts {
            body_bytes_max: 25 * 1024 * 1024,
            id_is_signed: false,
            secret: SecretNeed::Generated,
            ..Facts::usual("GitHub")
        }
    }

    fn steps(&self, webhook_url: &str) -> Vec<String> {
        let place = "the repository's (or organization's) Settings → Webhooks → Add webhook";
        vec![
            format!(
                "At GitHub, open {place} and enter the address {webhook_url} and the source's secret."
            ),
            "Choose application/json as the content type.".to_owned(),
        ]
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SIGNATURE.declared()]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let secret_index = SIGNATURE.verify_body(request, check)?;
        Ok(Verified { secret_index, signed_at: None })
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let event = header::one(request.headers, EVENT)?;
        let said = Said::read(request.body)?;
        mapping::one(Mapped {
            dedup_key: Some(header::one(request.headers, DELIVERY)?.to_owned()),
            event_type: match &said.action {
                Some(action) => format!("{event}.{action}"),
                None => event.to_owned(),
            },
            starts: if event == "ping" { Starts::Nothing } else { Starts::Job },
            actor: said.actor(),
            subject: said.subject(),
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
        request.set(DELIVERY, id)?;
        if !request.headers.contains_key(EVENT) {
            request.set(EVENT, "push")?;
        }
        SIGNATURE.sign_body(request, secret)
    }
}

static SAMPLES: &[Sample] = &[
    Sample::json("issues.opened", include_str!("../fixtures/github/issues.opened.json"))
        .with_headers(&[("x-github-event", "issues"), ("user-agent", "GitHub-Hookshot/044aadd")]),
    Sample::json(
        "pull_request.opened",
        include_str!("../fixtures/github/pull_request.opened.json"),
    )
    .with_headers(&[("x-github-event", "pull_request")]),
    Sample::json("push", include_str!("../fixtures/github/push.json"))
        .with_headers(&[("x-github-event", "push")]),
    Sample::json("ping", include_str!("../fixtures/github/ping.json"))
        .with_headers(&[("x-github-event", "ping")]),
];

/// The few fields of a payload that the envelope needs.
struct Said<'a> {
    action: Option<Cow<'a, str>>,
    sender_id: Option<Cow<'a, str>>,
    sender_login: Option<Cow<'a, str>>,
    repository: Option<Cow<'a, str>>,
    issue: [Option<Cow<'a, str>>; 2],
    pull_request: [Option<Cow<'a, str>>; 2],
}

impl<'a> Said<'a> {
    fn read(body: &'a [u8]) -> Result<Said<'a>, MapError> {
        let fields = payload::pick(
            body,
            [
                "/action",
                "/sender/id",
                "/sender/login",
                "/repository/full_name",
                "/issue/number",
                "/issue/html_url",
                "/pull_request/number",
                "/pull_request/html_url",
            ],
        )?;
        let [action, sender_id, sender_login, repository, issue, issue_url, pull, pull_url] =
            fields;
        let (issue, pull_request) = ([issue, issue_url], [pull, pull_url]);
        Ok(Said { action, sender_id, sender_login, repository, issue, pull_request })
    }

    /// The sender is who GitHub logged in, so it vouches for them.
    fn actor(&self) -> Option<Actor> {
        let name = self.sender_login.as_deref()?.to_owned();
        let id = self.sender_id.as_deref().map(str::to_owned);
        Some(Actor { id, name: Some(name), email: None, verified: true })
    }

    fn subject(&self) -> Option<Subject> {
        let (kind, [number, url]) = match (&self.pull_request, &self.issue) {
            (pull_request @ [Some(_), _], _) => ("pull_request", pull_request),
            (_, issue) => ("issue", issue),
        };
        let number = number.as_deref()?;
        // A number means something in its repository only, and one source may hear of many.
        let id = match self.repository.as_deref() {
            Some(repository) => format!("{repository}#{number}"),
            None => number.to_owned(),
        };
        Some(Subject { kind: kind.to_owned(), id, url: url.as_deref().map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Why;
    use crate::testing::{NOW, map, verify};

    const SECRET: &str = "It's a Secret to Everybody";

    fn delivery(event: &str, body: &str) -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/in/src_1", body);
        request.set(EVENT, event).unwrap();
        GitHub.sign(&mut request, SECRET, &Settings::new(), "72d3162e", NOW).unwrap();
        request
    }

    #[test]
    fn the_published_vector_is_accepted() {
        let mut request = SignedRequest::post("https://hooks.example/", "Hello, World!");
        let vector = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        request.set("X-Hub-Signature-256", &format!("sha256={vector}")).unwrap();
        assert!(verify(&GitHub, &request, &[SECRET]).is_ok());
        request.set("X-Hub-Signature-256", &format!("sha256={}", vector.to_uppercase())).unwrap();
        assert!(verify(&GitHub, &request, &[SECRET]).is_ok(), "hex goes by value");
        for bad in [vector, "sha256=", "sha1=00", "sha256=zz", &format!("sha256={vector}00")] {
            request.set("X-Hub-Signature-256", bad).unwrap();
            let refused = verify(&GitHub, &request, &[SECRET]);
            assert!(matches!(refused, Err(Refusal::Signature(_))), "{bad}: {refused:?}");
        }
    }

    #[test]
    fn an_issue_event_says_who_and_what() {
        let body = r#"{"action":"opened",
            "issue":{"number":42,"html_url":"https://github.com/acme/rocket/issues/42"},
            "repository":{"full_name":"acme/rocket"},"sender":{"login":"mona","id":7}}"#;
        let mapped = map(&GitHub, &delivery("issues", body)).unwrap();
        assert_eq!(mapped.event_type, "issues.opened");
        assert_eq!(mapped.dedup_key.as_deref(), Some("72d3162e"));
        assert_eq!(mapped.starts, Starts::Job);
        let actor = mapped.actor.unwrap();
        assert_eq!((actor.id.as_deref(), actor.name.as_deref()), (Some("7"), Some("mona")));
        assert!(actor.verified);
        let subject = mapped.subject.unwrap();
        assert_eq!(subject.text("github"), "github:issue:acme/rocket#42");
        assert_eq!(subject.url.as_deref(), Some("https://github.com/acme/rocket/issues/42"));
    }

    #[test]
    fn a_pull_request_is_its_own_kind_of_subject() {
        let body = r#"{"action":"closed","pull_request":{"number":9}}"#;
        let mapped = map(&GitHub, &delivery("pull_request", body)).unwrap();
        assert_eq!(mapped.subject.unwrap().text("github"), "github:pull_request:9");
    }

    #[test]
    fn a_ping_is_ignored_and_an_event_without_action_keeps_its_bare_name() {
        let ping = map(&GitHub, &delivery("ping", r#"{"zen":"Keep it simple."}"#)).unwrap();
        assert_eq!(ping.starts, Starts::Nothing);
        assert_eq!(ping.event_type, "ping");
        let push = map(&GitHub, &delivery("push", r#"{"ref":"refs/heads/main"}"#)).unwrap();
        assert_eq!((push.event_type.as_str(), push.starts), ("push", Starts::Job));
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        let body = r#"{"action":null,"sender":"mona","issue":[1,2],"pull_request":{"number":{}}}"#;
        let mapped = map(&GitHub, &delivery("issues", body)).unwrap();
        assert_eq!(mapped.event_type, "issues");
        assert_eq!((mapped.actor, mapped.subject), (None, None));
    }

    #[test]
    fn an_event_without_its_headers_or_json_is_unmapped() {
        let mut request = delivery("push", "{}");
        request.headers.remove(DELIVERY);
        assert!(matches!(map(&GitHub, &request), Err(MapError::Header(Why::Missing(_)))));
        let mut request = delivery("push", "{}");
        request.headers.remove(EVENT);
        assert!(matches!(map(&GitHub, &request), Err(MapError::Header(Why::Missing(_)))));
        let form = delivery("push", "payload=%7B%7D");
        assert!(matches!(map(&GitHub, &form), Err(MapError::NotJson(_))));
    }
}
