//! Resend: Svix signatures; an inbound mail is only announced, and its text is fetched later by its id.

use std::time::Duration;

use serde_json::Value;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{File, Mapped, Starts, Subject};
use wakepost_domain::ports::Entropy;
use wakepost_domain::work::Priority;

use crate::exchange::{Exchange, Failure, OneCall};
use crate::expansion::{Announces, Expanding, Expansion};
use crate::freshness::Unit;
use crate::mail::{ADDRESS, Headers, Mail, RECEIVED};
use crate::mapping::{self, MapError};
use crate::payload::{list_at, text_at};
use crate::provider::{Facts, Keys, Provider, SignedHeader};
use crate::registration::{Answered, ApiCall};
use crate::reply::{Replies, email};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{self, ConfigError, Setting, Settings};
use crate::standard_webhooks::{self, SVIX};
use crate::verdict::{Check, Refusal, Verified};
use crate::{header, payload, standard};

/// Where its API is.
const API_URL: &str = "https://api.resend.com";

/// A Resend account's webhook.
pub(crate) struct EmailResend;

impl Provider for EmailResend {
    fn name(&self) -> &'static str {
        "email-resend"
    }

    fn facts(&self) -> Facts {
        Facts {
            patience: Duration::from_secs(15),
            priority: Priority::Interactive,
            ..Facts::usual("Resend")
        }
    }

    fn place(&self) -> Option<&'static str> {
        Some("Webhooks → Add Webhook")
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn check_secret(&self, secret: &str, _: &Settings) -> Result<(), ConfigError> {
        standard_webhooks::checking_key(secret).map(|_| ())
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        [SVIX.signature, SVIX.id, SVIX.time].map(SignedHeader::exact).into()
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        standard_webhooks::verify(&SVIX, request, check)
    }

    fn map(&self, request: &Request<'_>, settings: &Settings) -> Result<Vec<Mapped>, MapError> {
        let [kind, created] = payload::pick(request.body, ["/type", "/created_at"])?;
        let kind = kind.ok_or(MapError::Missing("/type"))?;
        let mapped = match &*kind {
            RECEIVED => Announced::read(request)?.mail()?.map(RECEIVED, settings)?,
            kind => map_news(request, kind)?,
        };
        mapping::one(Mapped {
            occurred_at: created.and_then(|text| Unit::Rfc3339.read(&text)),
            provider_request_id: header::request_id(request.headers),
            ..mapped
        })
    }

    /// With the mail itself beside what announced it.
    fn data(&self, request: &Request<'_>, _part: usize) -> Value {
        let mut data = payload::data(request);
        if let (Some(fetched), Some(fields)) = (request.fetched, data.as_object_mut()) {
            let email = serde_json::from_slice(fetched).unwrap_or_default();
            fields.insert("email".to_owned(), email);
        }
        data
    }

    fn announces(&self, mapped: &Mapped) -> Option<Announces> {
        (mapped.event_type == RECEIVED).then_some(Announces::Rest)
    }

    fn expand<'a>(
        &'a self,
        what: Expanding<'a>,
    ) -> Result<Option<Box<dyn Exchange<Expansion> + 'a>>, ConfigError> {
        let Ok([Some(id)]) = payload::pick(what.request.body, ["/data/email_id"]) else {
            return Ok(None);
        };
        let key = settings::text(what.settings, "api_key")?
            .ok_or_else(|| ConfigError::new("api_key", "is not set"))?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if !id.bytes().all(is_plain) {
            return Ok(None);
        }
        let base = settings::text(what.settings, "api_url")?.unwrap_or(API_URL);
        let base = base.trim_end_matches('/');
        // Pictures within the text are named and not written out: a model could not read them there.
        let url = format!("{base}/emails/receiving/{id}?html_format=cid");
        let read = move |answered: &Answered<'_>| fetched(&what, answered);
        Ok(Some(Box::new(OneCall::new(ApiCall::get(url, key)?, read))))
    }

    fn sample_keys(&self, _: &Settings, entropy: &dyn Entropy) -> Keys {
        Keys::shared(standard::generate_secret(entropy))
    }

    fn does_without(&self, setting: &str, settings: &Settings) -> bool {
        email::RESEND.do_without(setting, settings)
    }

    fn replies(&self) -> Option<&'static dyn Replies> {
        Some(&email::RESEND)
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
        standard_webhooks::sign(&SVIX, request, secret, id, now)
    }
}

const SETTINGS: &[Setting] = &[
    Setting::required(
        "api_key",
        "API key",
        "An API key with full access. The text of each mail is fetched with it, and replies are sent with it.",
    )
    .secret()
    .example("re_123456789"),
    ADDRESS,
    email::FROM,
    email::REPLY_VIA,
    email::REPLY_API_KEY,
    email::REPLY_API_URL,
    email::SMTP_HOST,
    email::SMTP_PORT,
    email::SMTP_USERNAME,
    email::SMTP_PASSWORD,
    email::SMTP_TLS,
    Setting::optional(
        "api_url",
        "API address",
        "Where Resend's API is, if not at https://api.resend.com.",
    )
.destination(),
];

static SAMPLES: &[Sample] = &[
    Sample::json(RECEIVED, include_str!("../fixtures/email-resend/email.received.json")),
    Sample::json("email.bounced", include_str!("../fixtures/email-resend/email.bounced.json")),
];

/// What became of a mail that went out. One mail has many such events, so only the id of the sending, which is
/// signed and kept when it is tried again, tells them apart.
fn map_news(request: &Request<'_>, kind: &str) -> Result<Mapped, MapError> {
    let id = header::one(request.headers, SVIX.id)?;
    let [email] = payload::pick(request.body, ["/data/email_id"])?;
    Ok(Mapped {
        dedup_key: Some(id.to_owned()),
        event_type: kind.to_owned(),
        starts: Starts::Nothing,
        subject: email.map(|id| Subject {
            kind: "email".to_owned(),
            id: id.into_owned(),
            url: None,
        }),
        ..Mapped::default()
    })
}

/// The fetched mail, as it completes the event.
fn fetched(what: &Expanding<'_>, answered: &Answered<'_>) -> Result<Expansion, Failure> {
    if !answered.status.is_success() {
        return Err(Failure::of("Resend", answered));
    }
    let request = Request { fetched: Some(answered.body), ..what.request };
    let whole = Announced::read(&request).ok().filter(|mail| mail.fetched.is_some());
    let whole = whole.ok_or_else(|| Failure::passing("Resend answered with something else"))?;
    let mail = whole.mail().map_err(|error| Failure::lasting(error.to_string()))?;
    let ignored = mail.ignored(what.settings).map(str::to_owned);
    Ok(Expansion::Rest { fetched: answered.body.to_vec(), ignored })
}

/// A mail as it was announced, and as it is where it was fetched.
struct Announced {
    data: Value,
    fetched: Option<Value>,
}

impl Announced {
    fn read(request: &Request<'_>) -> Result<Announced, MapError> {
        let mut whole = payload::whole(request.body)?;
        let data = whole.get_mut("data").map(Value::take).unwrap_or_default();
        let fetched = request.fetched.and_then(|json| serde_json::from_slice(json).ok());
        Ok(Announced { data, fetched: fetched.filter(Value::is_object) })
    }

    /// What names the mail is taken from the announcement, which is signed; the rest from the mail itself. The
    /// announcement has no headers but the Message-ID: what the mail answers and whether a machine sent it is known
    /// only when it was fetched.
    fn mail(&self) -> Result<Mail<'_>, MapError> {
        let text = |name: &str| text_at(&self.data, &format!("/{name}"));
        let both = || std::iter::once(&self.data).chain(&self.fetched);
        let lists = ["to", "cc", "bcc", "received_for"];
        let to = both()
            .flat_map(|mail| lists.into_iter().flat_map(|name| list_at(mail, &format!("/{name}"))));
        let whole = self.fetched.as_ref();
        let mut files = both().map(|mail| list_at(mail, "/attachments"));
        Ok(Mail {
            headers: headers(text("message_id"), whole),
            from: text("from").ok_or(MapError::Missing("/data/from"))?,
            to: to.filter_map(Value::as_str).collect(),
            provider_id: text("email_id"),
            text: whole.and_then(|mail| text_at(mail, "/text")),
            html: whole.and_then(|mail| text_at(mail, "/html")),
            files: files
                .rfind(|files| !files.is_empty())
                .unwrap_or_default()
                .iter()
                .map(file)
                .collect(),
            ..Mail::default()
        })
    }
}

/// Resend hands headers over as an object. Their order is lost, and with it who wrote them: a verdict on the mail's
/// signature might be its sender's own. So no such verdict is read here, and nobody is taken as vouched for.
fn headers(message_id: Option<&str>, whole: Option<&Value>) -> Headers {
    let named = message_id.map(|id| ("Message-ID", id));
    let all = whole.and_then(|mail| mail.get("headers")).and_then(Value::as_object);
    let each = all.into_iter().flatten().flat_map(|(name, value)| {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        values.iter().filter_map(move |value| Some((name.as_str(), value.as_str()?)))
    });
    named.into_iter().chain(each).collect()
}

fn file(attachment: &Value) -> File {
    let text = |name: &str| attachment.get(name).and_then(Value::as_str).map(str::to_owned);
    File {
        id: text("id"),
        name: text("filename"),
        media_type: text("content_type"),
        bytes: attachment.get("size").and_then(Value::as_u64),
        url: None,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};
    use serde_json::json;

    use super::*;
    use crate::exchange::Step;
    use crate::testing::{self, NOW, settings};
    use crate::verdict::Why;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn mail() -> Value {
        json!({
            "type": "email.received", "created_at": "2023-11-14T22:13:20.000Z",
            "data": {
                "email_id": "56761188", "from": "Ada <ada@acme.example>", "to": ["agent@corp.example"],
                "cc": [], "bcc": [], "message_id": "<m1@acme.example>", "subject": "Rocket",
                "attachments": [{"id": "a1", "filename": "a.png", "content_type": "image/png", "size": 7}],
            },
        })
    }

    fn signed(body: &Value) -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/", body.to_string());
        EmailResend.sign(&mut request, SECRET, &Settings::new(), "msg_1", NOW).unwrap();
        request
    }

    fn map_body(body: &Value) -> Result<Mapped, MapError> {
        testing::map(&EmailResend, &signed(body))
    }

    #[test]
    fn the_published_vector_is_accepted_under_the_names_of_svix_only() {
        let at = Timestamp::from_secs(1_614_265_330);
        let vector = |prefix: &str| {
            let body = r#"{"test": 2432232314}"#;
            let mut request = SignedRequest::post("https://hooks.example/", body);
            request.set(&format!("{prefix}-id"), "msg_p5jXN8AQM9LWM0D4loKWxJek").unwrap();
            request.set(&format!("{prefix}-timestamp"), "1614265330").unwrap();
            let tag = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
            request.set(&format!("{prefix}-signature"), tag).unwrap();
            testing::verify_at(&EmailResend, &request, &[SECRET], at)
        };
        assert_eq!(vector("svix"), Ok(Verified { secret_index: 0, signed_at: Some(at) }));
        assert!(matches!(vector("webhook"), Err(Refusal::Signature(Why::Missing(_)))));
    }

    #[test]
    fn an_announced_mail_is_a_message_without_its_text() {
        let mapped = map_body(&mail()).unwrap();
        assert_eq!((mapped.event_type.as_str(), mapped.starts), ("email.received", Starts::Job));
        assert_eq!(mapped.dedup_key.as_deref(), Some("m1@acme.example"));
        assert_eq!(mapped.occurred_at, Some(NOW));
        let actor = mapped.actor.unwrap();
        assert_eq!(
            (actor.email.as_deref(), actor.name.as_deref()),
            (Some("ada@acme.example"), Some("Ada"))
        );
        assert!(!actor.verified, "nobody has said who signed it");
        let message = mapped.message.unwrap();
        assert_eq!(message.thread_id, "ada@acme.example::m1@acme.example");
        assert_eq!(message.text, "");
        let file = &message.files[0];
        assert_eq!((file.id.as_deref(), file.name.as_deref()), (Some("a1"), Some("a.png")));
    }

    #[test]
    fn a_mail_without_a_message_id_goes_by_resends_id() {
        let mut nameless = mail();
        nameless["data"]["message_id"] = Value::Null;
        let mapped = map_body(&nameless).unwrap();
        assert_eq!(mapped.dedup_key.as_deref(), Some("56761188"));
        assert_eq!(mapped.message.unwrap().thread_id, "ada@acme.example::56761188");
    }

    #[test]
    fn only_mail_to_the_agent_starts_a_job_and_its_own_never() {
        for (own, starts) in [
            ("agent@corp.example", Starts::Job),
            ("other@corp.example", Starts::Nothing),
            ("agent@corp.example,ada@acme.example", Starts::Nothing),
        ] {
            let own = settings(&[("address", own)]);
            let mapped = testing::map_with(&EmailResend, &signed(&mail()), &own).unwrap();
            assert_eq!(mapped.starts, starts, "{own:?}");
        }
    }

    #[test]
    fn what_became_of_a_mail_goes_by_the_id_of_the_sending_and_starts_nothing() {
        let news =
            json!({"type": "email.opened", "data": {"email_id": "e1", "message_id": "<m1@x>"}});
        let mapped = map_body(&news).unwrap();
        assert_eq!((mapped.event_type.as_str(), mapped.starts), ("email.opened", Starts::Nothing));
        assert_eq!(mapped.dedup_key.as_deref(), Some("msg_1"));
        assert_eq!(mapped.subject.unwrap().id, "e1");
        assert_eq!(mapped.message, None);
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        let mut odd = mail();
        odd["data"]["to"] = json!("agent@corp.example");
        odd["data"]["attachments"] = json!([7, {"id": {}}]);
        odd["created_at"] = json!(0);
        let mapped = map_body(&odd).unwrap();
        assert_eq!((mapped.occurred_at, mapped.starts), (None, Starts::Job));
        assert_eq!(mapped.message.unwrap().files, [File::default(), File::default()]);
        odd["data"]["from"] = json!(["ada@acme.example"]);
        assert_eq!(map_body(&odd), Err(MapError::Missing("/data/from")));
        assert_eq!(map_body(&json!({})), Err(MapError::Missing("/type")));
        assert!(map_body(&json!({"type": "email.received", "data": []})).is_err());
    }

    /// What the announced mail comes to with this answer.
    fn expand(status: u16, answer: &Value) -> Step<Expansion> {
        let request = signed(&mail());
        let settings = settings(&[("api_key", "re_1"), ("address", "agent@corp.example")]);
        let what = Expanding {
            request: request.as_request(),
            settings: &settings,
            position: None,
            now: NOW,
        };
        let mut exchange = EmailResend.expand(what).unwrap().unwrap();
        let Step::Call(call) = exchange.next(None) else { panic!("a call") };
        assert_eq!(call.method, "GET");
        assert_eq!(call.url, "https://api.resend.com/emails/receiving/56761188?html_format=cid");
        assert_eq!(call.headers["authorization"], "Bearer re_1");
        let (status, headers) = (StatusCode::from_u16(status).unwrap(), HeaderMap::new());
        let body = answer.to_string();
        exchange.next(Some(&Answered { status, headers: &headers, body: body.as_bytes() }))
    }

    fn whole(headers: &Value) -> Value {
        json!({
            "object": "email", "id": "56761188", "from": "Ada <ada@acme.example>",
            "to": ["agent@corp.example"], "cc": [], "bcc": [], "message_id": "<m1@acme.example>",
            "subject": "Rocket", "text": "When does it start?\n", "html": "<p>no</p>",
            "headers": headers,
            "attachments": [{"id": "a1", "filename": "a.png", "content_type": "image/png"}],
        })
    }

    #[test]
    fn a_fetched_mail_has_its_text_its_conversation_and_its_files() {
        let answer = whole(&json!({"references": "<m0@acme.example>", "x": ["1", "2"], "y": 1}));
        let Step::Done(Expansion::Rest { fetched, ignored }) = expand(200, &answer) else {
            panic!("the rest")
        };
        assert_eq!(ignored, None);
        let request = signed(&mail());
        let request = Request { fetched: Some(&fetched), ..request.as_request() };
        let mapped = EmailResend.map(&request, &Settings::new()).unwrap().remove(0);
        assert_eq!(mapped.dedup_key.as_deref(), Some("m1@acme.example"));
        assert!(!mapped.actor.unwrap().verified);
        let message = mapped.message.unwrap();
        assert_eq!(message.thread_id, "ada@acme.example::m0@acme.example");
        assert_eq!(message.text, "When does it start?");
        assert_eq!(message.files[0].name.as_deref(), Some("a.png"));
        let data = EmailResend.data(&request, 0);
        assert_eq!((&data["type"], &data["email"]), (&json!("email.received"), &answer));
    }

    #[test]
    fn what_turns_out_to_be_a_machines_mail_is_no_work_and_says_why() {
        for headers in [
            json!({"Auto-Submitted": "auto-replied"}),
            json!({"list-unsubscribe": "<mailto:x@y>"}),
            json!({"return-path": "<>"}),
        ] {
            let Step::Done(Expansion::Rest { ignored, .. }) = expand(200, &whole(&headers)) else {
                panic!("the rest")
            };
            assert_eq!(ignored.as_deref(), Some("a machine or a list sent the mail"), "{headers}");
        }
    }

    #[test]
    fn a_verdict_that_the_sender_may_have_written_vouches_for_nobody() {
        let headers = json!({
            "authentication-results": "amazonses.com; dkim=pass header.i=@acme.example",
            "dkim-signature": "v=1; d=acme.example; b=x",
        });
        let Step::Done(Expansion::Rest { fetched, .. }) = expand(200, &whole(&headers)) else {
            panic!("the rest")
        };
        let request = signed(&mail());
        let request = Request { fetched: Some(&fetched), ..request.as_request() };
        let mapped = EmailResend.map(&request, &Settings::new()).unwrap().remove(0);
        assert!(!mapped.actor.unwrap().verified);
    }

    #[test]
    fn a_mail_that_cannot_be_fetched_is_tried_again_only_if_that_may_help() {
        let gone = json!({"statusCode": 404, "message": "Email not found"});
        for (status, answer, retryable) in [
            (404, gone, false),
            (429, json!({}), true),
            (503, json!({}), true),
            (200, json!(7), true),
        ] {
            let Step::Failed(failure) = expand(status, &answer) else { panic!("a failure") };
            assert_eq!(failure.retryable, retryable, "{failure:?}");
        }
        let request = signed(&mail());
        let (request, settings) = (request.as_request(), Settings::new());
        let what = Expanding { request, settings: &settings, position: None, now: NOW };
        assert!(EmailResend.expand(what).is_err_and(|problem| problem.field == "api_key"));
    }
}
