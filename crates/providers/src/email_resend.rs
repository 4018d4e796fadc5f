//! Resend: Svix signatures; an inbound mail is only announced, and its text is fetched later by its id.

use std::time::Duration;

use serde_json::Value;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{File, Mapped, Starts, Subject};
use wakepost_domain::ports::Entropy;
use wakepost_domain::work::Priority;

use crate::freshness::Unit;
use crate::mail::{ADDRESS, Headers, Mail, RECEIVED};
use crate::mapping::{self, MapError};
use crate::provider::{Facts, Keys, Provider, SignedHeader};
use crate::reply::{Replies, email};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Setting, Settings};
use crate::standard_webhooks::{self, SVIX};
use crate::verdict::{Check, Refusal, Verified};
use crate::{header, payload, standard};

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
            RECEIVED => map_mail(request.body, settings)?,
            kind => map_news(request, kind)?,
        };
        mapping::one(Mapped {
            occurred_at: created.and_then(|text| Unit::Rfc3339.read(&text)),
            provider_request_id: header::request_id(request.headers),
            ..mapped
        })
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
    ),
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

/// The announcement has no headers but the Message-ID: who signed the mail, what it answers and whether a machine
/// sent it is known only when it was fetched.
fn map_mail(body: &[u8], settings: &Settings) -> Result<Mapped, MapError> {
    let [id, message_id, from] =
        payload::pick(body, ["/data/email_id", "/data/message_id", "/data/from"])?;
    // The pass before has read every byte of the body, so this cannot fail.
    let whole: Value = serde_json::from_slice(body).unwrap_or_default();
    let list = |name: &str| whole.pointer(&format!("/data/{name}")).and_then(Value::as_array);
    let texts = |name: &str| list(name).into_iter().flatten().filter_map(Value::as_str);
    let mail = Mail {
        headers: message_id.iter().map(|id| ("Message-ID", &**id)).collect::<Headers>(),
        from: from.as_deref().ok_or(MapError::Missing("/data/from"))?,
        to: ["to", "cc", "bcc", "received_for"].into_iter().flat_map(texts).collect(),
        provider_id: id.as_deref(),
        files: list("attachments").into_iter().flatten().map(file).collect(),
        ..Mail::default()
    };
    mail.map(RECEIVED, settings)
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
    use serde_json::json;

    use super::*;
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
}
