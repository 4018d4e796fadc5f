//! GitLab: a token in `X-Gitlab-Token`, or Standard Webhooks where the webhook has a signing token.

use std::slice;

use http::HeaderMap;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Actor, Mapped, Subject};
use wakepost_domain::ports::Entropy;

use crate::freshness::Unit;
use crate::mapping::{self, MapError};
use crate::payload::Found;
use crate::provider::{Facts, Provider, SecretNeed, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{self, ConfigError, Setting, Settings};
use crate::standard_webhooks::StandardWebhooks;
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{header, payload, signature, standard};

const TOKEN: &str = "X-Gitlab-Token";
const EVENT: &str = "X-Gitlab-Event";
const EVENT_UUID: &str = "X-Gitlab-Event-UUID";
const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
const WEBHOOK_ID: &str = "webhook-id";
const WEBHOOK_SIGNATURE: &str = "webhook-signature";

/// Projects, groups and instances of GitLab.
pub(crate) struct GitLab;

impl Provider for GitLab {
    fn name(&self) -> &'static str {
        "gitlab"
    }

    fn facts(&self) -> Facts {
        Facts {
            signs_body: false,
            id_is_signed: false,
            secret: SecretNeed::Generated,
            ..Facts::usual("GitLab")
        }
    }

    fn place(&self) -> Option<&'static str> {
        Some("the project's (or group's) Settings → Webhooks → Add new webhook")
    }

    fn facts_for(&self, settings: &Settings) -> Facts {
        let is_signed = signature_only(settings).unwrap_or(false);
        Facts { signs_body: is_signed, id_is_signed: is_signed, ..self.facts() }
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn check_secret(&self, secret: &str, settings: &Settings) -> Result<(), ConfigError> {
        let signature_only = signature_only(settings)?;
        match is_signing_token(secret) {
            true => StandardWebhooks.check_secret(secret, settings),
            false if signature_only => Err(not_a_signing_token()),
            false => Ok(()),
        }
    }

    fn signed_headers(&self, settings: &Settings) -> Vec<SignedHeader> {
        match signature_only(settings) {
            Ok(true) => StandardWebhooks.signed_headers(settings),
            _ => vec![SignedHeader::exact("x-gitlab-token")],
        }
    }

    /// The form of each secret says how it is checked, never what the request carries: so nobody can choose the
    /// weaker check.
    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let signature_only = signature_only(check.settings).map_err(Refusal::Unready)?;
        let mut refusal = Refusal::Unready(ConfigError::new("secret", "is not set"));
        for (secret_index, secret) in check.secrets.iter().enumerate() {
            let alone = Check { secrets: slice::from_ref(secret), ..*check };
            let verdict = match is_signing_token(secret) {
                true => verify_signature(request, &alone),
                false if signature_only => Err(Refusal::Unready(not_a_signing_token())),
                false => verify_token(request, &alone),
            };
            match verdict {
                Ok(verified) => return Ok(Verified { secret_index, ..verified }),
                Err(stale @ Refusal::Stale { .. }) => return Err(stale),
                // A secret that cannot be used must not turn a forged request into a 503.
                Err(other) if matches!(refusal, Refusal::Unready(_)) => refusal = other,
                Err(_) => {}
            }
        }
        Err(refusal)
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let id = event_id(request.headers)?;
        let said = Said::read(request.body)?;
        mapping::one(Mapped {
            dedup_key: Some(id.to_owned()),
            event_type: said.event_type(request.headers)?,
            occurred_at: said.happened_at.as_deref().and_then(|text| Unit::Rfc3339.read(text)),
            actor: said.actor(),
            subject: said.subject(),
            provider_request_id: header::request_id(request.headers),
            ..Mapped::default()
        })
    }

    fn generate_secret(&self, settings: &Settings, entropy: &dyn Entropy) -> Option<String> {
        Some(match signature_only(settings) {
            Ok(true) => standard::generate_secret(entropy),
            _ => hex::encode(signature::random_key(entropy)),
        })
    }

    fn samples(&self) -> &'static [Sample] {
        SAMPLES
    }

    fn sign(
        &self,
        request: &mut SignedRequest,
        secret: &str,
        settings: &Settings,
        id: &str,
        now: Timestamp,
    ) -> Result<(), ConfigError> {
        request.set(IDEMPOTENCY_KEY, id)?;
        request.set(EVENT_UUID, id)?;
        if !request.headers.contains_key(EVENT) {
            request.set(EVENT, "Push Hook")?;
        }
        if is_signing_token(secret) {
            return StandardWebhooks.sign(request, secret, settings, id, now);
        }
        request.set(TOKEN, secret)
    }
}

static SETTINGS: &[Setting] = &[Setting::optional(
    "verification",
    "Verification",
    "Write `signature` if the webhook has a signing token at GitLab (it begins with whsec_) and you gave it here \
     as the secret. Requests that carry only a secret token are then refused, and events count as signed. Left \
     out, the secret itself decides: a signing token checks signatures, any other secret is compared with the \
     request's token, which does not protect the body.",
)
.example("signature")];

static SAMPLES: &[Sample] = &[
    Sample::json("merge_request", include_str!("../fixtures/gitlab/merge_request.json"))
        .with_headers(&[
            ("x-gitlab-event", "Merge Request Hook"),
            ("x-gitlab-instance", "https://gitlab.example.com"),
            ("user-agent", "GitLab/18.5.0"),
        ]),
    Sample::json("issue", include_str!("../fixtures/gitlab/issue.json"))
        .with_headers(&[("x-gitlab-event", "Issue Hook")]),
    Sample::json("note", include_str!("../fixtures/gitlab/note.json"))
        .with_headers(&[("x-gitlab-event", "Note Hook")]),
    Sample::json("push", include_str!("../fixtures/gitlab/push.json"))
        .with_headers(&[("x-gitlab-event", "Push Hook")]),
];

/// Whether nothing but a signature will do.
fn signature_only(settings: &Settings) -> Result<bool, ConfigError> {
    match settings::text(settings, "verification")? {
        None => Ok(false),
        Some("signature") => Ok(true),
        Some(_) => Err(ConfigError::new("verification", "must be signature, or left out")),
    }
}

fn is_signing_token(secret: &str) -> bool {
    secret.starts_with("whsec_")
}

fn not_a_signing_token() -> ConfigError {
    ConfigError::new("secret", "must be a signing token, which begins with whsec_")
}

fn verify_token(request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
    let given = header::one(request.headers, TOKEN)?;
    let secret_index =
        check.secret_that(|secret| Ok(signature::equal(given.as_bytes(), secret.as_bytes())))?;
    Ok(Verified { secret_index, signed_at: None })
}

fn verify_signature(request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
    // The other set of names that Standard Webhooks knows is not GitLab's: under it the id that was signed would
    // not be the one that is mapped.
    header::one(request.headers, WEBHOOK_SIGNATURE)?;
    StandardWebhooks.verify(request, check)
}

/// The first of the ids that there is. Where the request is signed that is the one that the signature covers;
/// GitLab gives it the same value as `Idempotency-Key`.
fn event_id(headers: &HeaderMap) -> Result<&str, Why> {
    for name in [WEBHOOK_ID, IDEMPOTENCY_KEY] {
        if let Some(id) = header::optional(headers, name)? {
            return Ok(id);
        }
    }
    header::one(headers, EVENT_UUID)
}

/// The few fields of a payload that the envelope needs.
struct Said<'a> {
    kind: Found<'a>,
    happened_at: Found<'a>,
    id: Found<'a>,
    iid: Found<'a>,
    url: Found<'a>,
    project: Found<'a>,
    noted_issue: Found<'a>,
    noted_merge_request: Found<'a>,
    /// Id, name and e-mail, in the two ways that GitLab writes them.
    user: [Found<'a>; 3],
    pusher: [Found<'a>; 3],
}

impl<'a> Said<'a> {
    fn read(body: &'a [u8]) -> Result<Said<'a>, MapError> {
        let fields = payload::pick(
            body,
            [
                "/object_kind",
                "/event_name",
                "/object_attributes/updated_at",
                "/object_attributes/created_at",
                "/object_attributes/id",
                "/object_attributes/iid",
                "/object_attributes/url",
                "/project/path_with_namespace",
                "/issue/iid",
                "/merge_request/iid",
                "/user/id",
                "/user/name",
                "/user/email",
                "/user_id",
                "/user_name",
                "/user_email",
            ],
        )?;
        let [kind, event_name, updated_at, created_at, id, iid, url, rest @ ..] = fields;
        let [project, noted_issue, noted_merge_request, user_id, user_name, user_email, rest @ ..] =
            rest;
        Ok(Said {
            // The hooks of a whole instance name their event here.
            kind: kind.or(event_name),
            happened_at: updated_at.or(created_at),
            id,
            iid,
            url,
            project,
            noted_issue,
            noted_merge_request,
            user: [user_id, user_name, user_email],
            pusher: rest,
        })
    }

    fn event_type(&self, headers: &HeaderMap) -> Result<String, MapError> {
        Ok(match self.kind.as_deref() {
            Some(kind) => kind.to_owned(),
            None => header::one(headers, EVENT)?.to_owned(),
        })
    }

    /// The user is who GitLab logged in, so it vouches for them.
    fn actor(&self) -> Option<Actor> {
        let person = [&self.user, &self.pusher].into_iter().find(|person| person[0].is_some())?;
        let [id, name, email] = person.each_ref().map(|field| field.as_deref().map(str::to_owned));
        // GitLab writes `[REDACTED]` for an address that its owner keeps private.
        let email = email.filter(|email| email.contains('@'));
        Some(Actor { id, name, email, verified: true })
    }

    /// Issues and merge requests by their number in their project, since one source may hear of many; a note is
    /// about what it stands under.
    fn subject(&self) -> Option<Subject> {
        let kind = self.kind.as_deref()?;
        let numbered = match kind {
            "issue" | "work_item" => self.iid.as_ref().map(|iid| (kind, '#', iid)),
            "merge_request" => self.iid.as_ref().map(|iid| (kind, '!', iid)),
            "note" => (self.noted_merge_request.as_ref().map(|iid| ("merge_request", '!', iid)))
                .or_else(|| self.noted_issue.as_ref().map(|iid| ("issue", '#', iid))),
            _ => None,
        };
        let (kind, id) = match (numbered, self.project.as_deref()) {
            (Some((kind, sign, iid)), Some(project)) => (kind, format!("{project}{sign}{iid}")),
            _ => (kind, self.id.as_deref()?.to_owned()),
        };
        Some(Subject { kind: kind.to_owned(), id, url: self.url.as_deref().map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, map, settings, verify, verify_with};

    const SECRET: &str = "a secret token";
    const SIGNING: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn delivery(secret: &str, body: &str) -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/in/src_1", body);
        GitLab.sign(&mut request, secret, &Settings::new(), "key-1", NOW).unwrap();
        request
    }

    fn sample(index: usize) -> Mapped {
        let mut sample = GitLab.samples()[index].request("https://hooks.example/", "7001", NOW);
        GitLab.sign(&mut sample, SECRET, &Settings::new(), "7001", NOW).unwrap();
        map(&GitLab, &sample).unwrap()
    }

    #[test]
    fn the_token_must_be_the_secret_exactly() {
        let mut request = delivery(SECRET, "{}");
        assert!(verify(&GitLab, &request, &[SECRET]).is_ok());
        for bad in ["a secret", "a secret token2", "A secret token", "whsec_x"] {
            request.set(TOKEN, bad).unwrap();
            let refused = verify(&GitLab, &request, &[SECRET]);
            assert_eq!(refused, Err(Refusal::Signature(Why::Mismatch)), "{bad}");
        }
    }

    #[test]
    fn the_published_vector_of_a_signing_token_is_accepted() {
        let mut request = SignedRequest::post("https://hooks.example/", r#"{"test": 2432232314}"#);
        request.set(WEBHOOK_ID, "msg_p5jXN8AQM9LWM0D4loKWxJek").unwrap();
        request.set("webhook-timestamp", "1614265330").unwrap();
        let good = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        request.set(WEBHOOK_SIGNATURE, good).unwrap();
        let at = Timestamp::from_secs(1_614_265_330);
        let verified = verify_with(&GitLab, &request, &[SIGNING], &Settings::new(), at);
        assert_eq!(verified, Ok(Verified { secret_index: 0, signed_at: Some(at) }));
        for secrets in [[SIGNING, SECRET], [SECRET, SIGNING]] {
            let stale = verify(&GitLab, &request, &secrets);
            assert!(matches!(stale, Err(Refusal::Stale { .. })), "{stale:?}");
        }
    }

    #[test]
    fn nobody_can_choose_the_weaker_check() {
        // Knowing the signing token as a text, as a proxy's log might show it, is not a signature.
        let mut request = delivery(SECRET, "{}");
        request.set(TOKEN, SIGNING).unwrap();
        let refused = verify(&GitLab, &request, &[SIGNING]);
        let missing = Why::Missing(WEBHOOK_SIGNATURE.to_owned());
        assert_eq!(refused, Err(Refusal::Signature(missing)));
        // Nor does a signature help where the source has a secret token.
        let refused = verify(&GitLab, &delivery(SIGNING, "{}"), &[SECRET]);
        assert_eq!(refused, Err(Refusal::Signature(Why::Missing(TOKEN.to_owned()))));
    }

    #[test]
    fn a_signed_request_cannot_come_back_under_other_names_or_another_id() {
        let mut request = delivery(SIGNING, "{}");
        request.set(IDEMPOTENCY_KEY, "key-2").unwrap();
        assert!(verify(&GitLab, &request, &[SIGNING]).is_ok());
        assert_eq!(map(&GitLab, &request).unwrap().dedup_key.as_deref(), Some("key-1"));
        for (name, other) in [
            (WEBHOOK_ID, "svix-id"),
            ("webhook-timestamp", "svix-timestamp"),
            (WEBHOOK_SIGNATURE, "svix-signature"),
        ] {
            let value = request.headers.remove(name).unwrap();
            request.set(other, value.to_str().unwrap()).unwrap();
        }
        let refused = verify(&GitLab, &request, &[SIGNING]);
        assert!(matches!(refused, Err(Refusal::Signature(_))), "{refused:?}");
    }

    #[test]
    fn a_source_may_change_from_a_secret_token_to_a_signing_token() {
        let secrets = [SIGNING, SECRET];
        let by_token = verify(&GitLab, &delivery(SECRET, "{}"), &secrets).unwrap();
        assert_eq!((by_token.secret_index, by_token.signed_at), (1, None));
        let by_signature = verify(&GitLab, &delivery(SIGNING, "{}"), &secrets).unwrap();
        assert_eq!((by_signature.secret_index, by_signature.signed_at), (0, Some(NOW)));
    }

    #[test]
    fn with_verification_by_signature_a_token_is_never_enough() {
        let signature = settings(&[("verification", "signature")]);
        let facts = GitLab.facts_for(&signature);
        assert!(facts.signs_body && facts.id_is_signed);
        assert!(!GitLab.facts().signs_body && !GitLab.facts().id_is_signed);
        let by_token = delivery(SECRET, "{}");
        let refused = verify_with(&GitLab, &by_token, &[SIGNING, SECRET], &signature, NOW);
        assert!(matches!(refused, Err(Refusal::Signature(_))), "{refused:?}");
        let refused = verify_with(&GitLab, &by_token, &[SECRET], &signature, NOW);
        assert!(matches!(refused, Err(Refusal::Unready(_))), "{refused:?}");
    }

    #[test]
    fn a_secret_that_cannot_be_used_is_refused_when_it_is_set() {
        let (any, signature) = (Settings::new(), settings(&[("verification", "signature")]));
        assert_eq!(GitLab.check_config(Some(SECRET), &any), Ok(vec![]));
        assert_eq!(GitLab.check_config(Some(SIGNING), &any), Ok(vec![]));
        assert_eq!(GitLab.check_config(Some(SIGNING), &signature), Ok(vec![]));
        assert_eq!(GitLab.check_config(Some(SECRET), &signature).unwrap_err().field, "secret");
        assert_eq!(GitLab.check_config(Some("whsec_%"), &any).unwrap_err().field, "secret");
        let unknown = settings(&[("verification", "none")]);
        for secret in [SECRET, SIGNING] {
            let error = GitLab.check_config(Some(secret), &unknown).unwrap_err();
            assert_eq!(error.field, "verification");
        }
    }

    #[test]
    fn a_merge_request_says_who_what_and_when() {
        let mapped = sample(0);
        assert_eq!(mapped.event_type, "merge_request");
        assert_eq!(mapped.dedup_key.as_deref(), Some("7001"));
        assert_eq!(mapped.occurred_at, Some(NOW));
        let actor = mapped.actor.unwrap();
        assert_eq!((actor.id.as_deref(), actor.name.as_deref()), (Some("7"), Some("Mona Lind")));
        assert_eq!((actor.email, actor.verified), (None, true), "a redacted address is none");
        let subject = mapped.subject.unwrap();
        assert_eq!(subject.text("gitlab"), "gitlab:merge_request:acme/rocket!43");
        let url = "https://gitlab.example.com/acme/rocket/-/merge_requests/43";
        assert_eq!(subject.url.as_deref(), Some(url));
    }

    #[test]
    fn a_note_is_about_what_it_stands_under() {
        let mapped = sample(2);
        let subject = mapped.subject.unwrap();
        assert_eq!(subject.text("gitlab"), "gitlab:issue:acme/rocket#42");
        assert!(subject.url.unwrap().ends_with("#note_1241"));
        let body = r#"{"object_kind":"note","object_attributes":{"id":9},"commit":{"id":"6dcb"}}"#;
        let subject = map(&GitLab, &delivery(SECRET, body)).unwrap().subject.unwrap();
        assert_eq!(subject.text("gitlab"), "gitlab:note:9");
    }

    #[test]
    fn a_push_names_who_pushed() {
        let mapped = sample(3);
        assert_eq!((mapped.event_type.as_str(), &mapped.subject), ("push", &None));
        let actor = mapped.actor.unwrap();
        assert_eq!(actor.email.as_deref(), Some("mona@example.com"));
    }

    #[test]
    fn a_pipeline_is_known_by_its_own_id_and_not_by_its_number_or_merge_request() {
        let body = r#"{"object_kind":"pipeline","object_attributes":{"id":31,"iid":3},
            "merge_request":{"iid":43},"project":{"path_with_namespace":"acme/rocket"}}"#;
        let subject = map(&GitLab, &delivery(SECRET, body)).unwrap().subject.unwrap();
        assert_eq!(subject.text("gitlab"), "gitlab:pipeline:31");
    }

    #[test]
    fn without_a_kind_the_events_name_and_then_the_header_say_what_it_is() {
        let of = |body| map(&GitLab, &delivery(SECRET, body)).unwrap().event_type;
        assert_eq!(of(r#"{"event_name":"project_create"}"#), "project_create");
        assert_eq!(of("{}"), "Push Hook");
        let mut request = delivery(SECRET, "{}");
        request.headers.remove(EVENT);
        assert!(matches!(map(&GitLab, &request), Err(MapError::Header(Why::Missing(_)))));
    }

    #[test]
    fn the_ids_are_taken_in_order() {
        let mut request = delivery(SECRET, "{}");
        request.set(EVENT_UUID, "uuid-1").unwrap();
        assert_eq!(map(&GitLab, &request).unwrap().dedup_key.as_deref(), Some("key-1"));
        request.headers.remove(IDEMPOTENCY_KEY);
        assert_eq!(map(&GitLab, &request).unwrap().dedup_key.as_deref(), Some("uuid-1"));
        request.headers.remove(EVENT_UUID);
        assert!(matches!(map(&GitLab, &request), Err(MapError::Header(Why::Missing(_)))));
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        let body = r#"{"object_kind":"issue","object_attributes":{"action":[],"iid":{}},
            "user":"mona","project":[1]}"#;
        let mapped = map(&GitLab, &delivery(SECRET, body)).unwrap();
        assert_eq!(mapped.event_type, "issue");
        assert_eq!((mapped.actor, mapped.subject, mapped.occurred_at), (None, None, None));
        assert!(matches!(map(&GitLab, &delivery(SECRET, "")), Err(MapError::NotJson(_))));
    }
}
