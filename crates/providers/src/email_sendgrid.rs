//! SendGrid's inbound parse: a form for each mail, with a password or a secret header and nothing signed.

use aws_lc_rs::digest;
use serde::Deserialize;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::Mapped;
use wakepost_domain::ports::Entropy;
use wakepost_domain::work::Priority;

use crate::form::Form;
use crate::mail::{self, ADDRESS, Dkim, Headers, Mail, RECEIVED, Raw};
use crate::mapping::{self, MapError};
use crate::provider::{Facts, Provider, SecretNeed, SignedHeader};
use crate::reply::{Replies, email};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Setting, Settings};
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{basic, header, signature};

const TOKEN: &str = "X-Webhook-Secret";

/// A host name whose mail SendGrid receives.
pub(crate) struct EmailSendGrid;

impl Provider for EmailSendGrid {
    fn name(&self) -> &'static str {
        "email-sendgrid"
    }

    fn facts(&self) -> Facts {
        Facts {
            // The largest mail it takes.
            body_bytes_max: 30 * 1024 * 1024,
            signs_body: false,
            id_is_signed: false,
            priority: Priority::Interactive,
            secret: SecretNeed::Generated,
            ..Facts::usual("SendGrid inbound parse")
        }
    }

    fn steps(&self, webhook_url: &str) -> Vec<String> {
        vec![basic::step("SendGrid", "Settings → Inbound Parse → Add Host & URL", webhook_url)]
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn check_secret(&self, secret: &str, _: &Settings) -> Result<(), ConfigError> {
        if secret.contains(':') { basic::check_secret(secret) } else { Ok(()) }
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![basic::SIGNED]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let pair = basic::given(request.headers)?;
        let token = header::optional(request.headers, TOKEN)?;
        if pair.is_none() && token.is_none() {
            return Err(Why::Missing(basic::HEADER.to_owned()).into());
        }
        // The secret's own form says where it must stand, so that neither can be tried in place of the other.
        let secret_index = check.secret_that(|secret| {
            let given = match secret.contains(':') {
                true => pair.as_deref(),
                false => token.map(str::as_bytes),
            };
            Ok(given.is_some_and(|given| signature::equal(given, secret.as_bytes())))
        })?;
        Ok(Verified { secret_index, signed_at: None })
    }

    fn map(&self, request: &Request<'_>, settings: &Settings) -> Result<Vec<Mapped>, MapError> {
        let form = Form::read(request)?;
        let mapped = map_mail(&form, request.body, settings)?;
        mapping::one(Mapped { provider_request_id: header::request_id(request.headers), ..mapped })
    }

    fn generate_secret(&self, _: &Settings, entropy: &dyn Entropy) -> Option<String> {
        Some(basic::generate_secret(entropy))
    }

    fn does_without(&self, setting: &str, settings: &Settings) -> bool {
        email::SENDGRID.do_without(setting, settings)
    }

    fn replies(&self) -> Option<&'static dyn Replies> {
        Some(&email::SENDGRID)
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
        match secret.contains(':') {
            true => request.set(basic::HEADER, &basic::value(secret)),
            false => request.set(TOKEN, secret),
        }
    }
}

const SETTINGS: &[Setting] = &[
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
];

static SAMPLES: &[Sample] = &[Sample {
    content_type: "multipart/form-data; boundary=xYzZY",
    ..Sample::json(RECEIVED, include_str!("../fixtures/email-sendgrid/email.received.multipart"))
}];

#[derive(Default, Deserialize)]
struct Envelope {
    #[serde(default)]
    to: Vec<String>,
    from: Option<String>,
}

/// The mail in a form: taken apart, or whole in one field where the account wants it raw.
fn map_mail(form: &Form<'_>, body: &[u8], settings: &Settings) -> Result<Mapped, MapError> {
    let raw = form.get("email").map(Raw::read).unwrap_or_default();
    let headers = form.get("headers").map_or(raw.headers, Headers::read);
    let from = headers.all("From").next().map(str::to_owned);
    let envelope = form.get("envelope").and_then(|json| serde_json::from_str(json).ok());
    let envelope: Envelope = envelope.unwrap_or_default();
    // SendGrid has no id of its own.
    let hash = match headers.message_id() {
        Some(_) => None,
        None => Some(hex::encode(digest::digest(&digest::SHA256, body))),
    };
    let mut files = mail::attached(form);
    files.extend(raw.files);
    let mail = Mail {
        dkim: Dkim::reported(form.get("dkim").unwrap_or_default(), &headers),
        from: form.get("from").or(from.as_deref()).ok_or(MapError::Missing("from"))?,
        to: ["to", "cc"].into_iter().filter_map(|name| form.get(name)).collect(),
        received_for: envelope.to.iter().map(String::as_str).collect(),
        return_path: envelope.from.as_deref(),
        provider_id: hash.as_deref(),
        text: form.get("text").or(raw.text.as_deref()),
        html: form.get("html").or(raw.html.as_deref()),
        files,
        headers,
        ..Mail::default()
    };
    mail.map(RECEIVED, settings)
}

#[cfg(test)]
mod tests {
    use wakepost_domain::envelope::Starts;

    use super::*;
    use crate::testing::{self, Counting, settings, verify};

    const HEADERS: &str = "Received: from mx.acme.com by mx.sendgrid.net\r\n\
        DKIM-Signature: v=1; a=rsa-sha256; d=acme.com;\r\n\ts=mail; b=x\r\n\
        From: Ada <ada@acme.com>\r\nMessage-ID: <m2@acme.com>\r\nReferences: <m1@acme.com>\r\n";

    fn form(fields: &[(&str, &str)]) -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/", "");
        request.set("content-type", "multipart/form-data; boundary=b").unwrap();
        for (name, value) in fields {
            let head = format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
            request.body.extend_from_slice(format!("{head}{value}\r\n").as_bytes());
        }
        request.body.extend_from_slice(b"--b--\r\n");
        request
    }

    fn mail<'a>(changes: &[(&'a str, &'a str)]) -> SignedRequest {
        let mut fields = vec![
            ("headers", HEADERS),
            ("from", "Ada <ada@acme.com>"),
            ("to", "agent@corp.example"),
            ("envelope", r#"{"to":["agent@corp.example"],"from":"ada@acme.com"}"#),
            ("dkim", "{@acme.com : pass}"),
            ("SPF", "pass"),
            ("text", "Does it fly?"),
        ];
        fields.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        fields.extend(changes);
        form(&fields)
    }

    fn mapped(changes: &[(&str, &str)]) -> Mapped {
        testing::map(&EmailSendGrid, &mail(changes)).unwrap()
    }

    #[test]
    fn a_secret_without_a_colon_stands_in_a_header_of_its_own() {
        let mut request = SignedRequest::post("https://hooks.example/", "");
        request.set(TOKEN, "s3cret").unwrap();
        assert!(verify(&EmailSendGrid, &request, &["s3cret"]).is_ok());
        assert_eq!(
            verify(&EmailSendGrid, &request, &["other", "s3cret"]).map(|v| v.secret_index),
            Ok(1)
        );
        for other in ["other", "s3cre", "s3cret:", "user:s3cret"] {
            let refused = verify(&EmailSendGrid, &request, &[other]);
            assert_eq!(refused, Err(Refusal::Signature(Why::Mismatch)), "{other}");
        }
        for bad in ["", " "] {
            request.set(TOKEN, bad).unwrap();
            assert!(matches!(
                verify(&EmailSendGrid, &request, &["s3cret"]),
                Err(Refusal::Signature(_))
            ));
        }
        request.set(TOKEN, "s3cret").unwrap();
        request.headers.append(TOKEN, "s3cret".parse().unwrap());
        let doubled = verify(&EmailSendGrid, &request, &["s3cret"]);
        assert!(matches!(doubled, Err(Refusal::Signature(Why::Doubled(_)))));
    }

    #[test]
    fn neither_proof_can_stand_in_for_the_other() {
        let secret = EmailSendGrid.generate_secret(&Settings::new(), &Counting::default()).unwrap();
        let mut request = SignedRequest::post("https://hooks.example/", "");
        request.set(TOKEN, &secret).unwrap();
        assert!(verify(&EmailSendGrid, &request, &[&secret]).is_err());
        request.headers.remove(TOKEN);
        request.set(basic::HEADER, &basic::value("s3cret")).unwrap();
        assert!(verify(&EmailSendGrid, &request, &["s3cret"]).is_err());
        let bare = SignedRequest::post("https://hooks.example/", "");
        let refused = verify(&EmailSendGrid, &bare, &["s3cret"]);
        assert!(matches!(refused, Err(Refusal::Signature(Why::Missing(_)))));
    }

    #[test]
    fn a_form_is_a_mail() {
        let mapped = mapped(&[]);
        assert_eq!((mapped.event_type.as_str(), mapped.starts), (RECEIVED, Starts::Job));
        assert_eq!(mapped.dedup_key.as_deref(), Some("m2@acme.com"));
        let actor = mapped.actor.unwrap();
        assert_eq!(
            (actor.email.as_deref(), actor.name.as_deref()),
            (Some("ada@acme.com"), Some("Ada"))
        );
        let message = mapped.message.unwrap();
        assert_eq!(message.thread_id, "ada@acme.com::m1@acme.com");
        assert_eq!(message.text, "Does it fly?");
    }

    #[test]
    fn only_an_aligned_pass_of_dkim_verifies_the_sender() {
        let verified = |changes: &[(&str, &str)]| mapped(changes).actor.unwrap().verified;
        assert!(verified(&[]));
        assert!(!verified(&[("dkim", "{@acme.com : fail}")]));
        assert!(!verified(&[("dkim", "none")]), "SPF alone is not enough");
        assert!(!verified(&[("dkim", "{@evil.com : pass}")]));
        assert!(!verified(&[("from", "Ada <ada@evil.com>")]));
        assert!(!verified(&[("headers", "Message-ID: <m1@x>\r\n")]), "there is no such signature");
    }

    #[test]
    fn a_raw_mail_is_taken_apart_here() {
        let raw = format!("{HEADERS}Content-Type: text/html\r\n\r\n<p>Does it <b>fly</b>?</p>\r\n");
        let fields = [
            ("email", raw.as_str()),
            ("to", "agent@corp.example"),
            ("envelope", r#"{"to":["agent@corp.example"],"from":"ada@acme.com"}"#),
            ("dkim", "{@acme.com : pass}"),
        ];
        let mapped = testing::map(&EmailSendGrid, &form(&fields)).unwrap();
        assert_eq!(mapped.dedup_key.as_deref(), Some("m2@acme.com"));
        assert!(mapped.actor.unwrap().verified);
        assert_eq!(mapped.message.unwrap().text, "Does it fly?");
    }

    #[test]
    fn a_mail_without_a_message_id_goes_by_its_bytes() {
        let key = |text: &str| mapped(&[("headers", "Subject: x\r\n"), ("text", text)]).dedup_key;
        assert_eq!(key("a").unwrap().len(), 64);
        assert_ne!(key("a"), key("b"));
    }

    #[test]
    fn mail_to_others_and_machines_mail_start_nothing() {
        let starts = |own: &str, changes: &[(&str, &str)]| {
            let own = settings(&[("address", own)]);
            testing::map_with(&EmailSendGrid, &mail(changes), &own).unwrap().starts
        };
        assert_eq!(starts("agent@corp.example", &[]), Starts::Job);
        assert_eq!(starts("agent@corp.example", &[("to", "list@corp.example")]), Starts::Job);
        assert_eq!(starts("other@corp.example", &[]), Starts::Nothing);
        let bounce = [("envelope", r#"{"to":["agent@corp.example"],"from":""}"#)];
        assert_eq!(starts("agent@corp.example", &bounce), Starts::Nothing);
    }

    #[test]
    fn unexpected_shapes_lose_the_description_and_never_panic() {
        let odd = mapped(&[("envelope", "[1"), ("dkim", "{"), ("text", "")]);
        assert_eq!((odd.starts, odd.message.unwrap().text), (Starts::Job, String::new()));
        assert!(testing::map(&EmailSendGrid, &form(&[])).is_err());
        for body in ["", "{}", "--b", "from=ada%40acme.com"] {
            let request = SignedRequest::post("https://hooks.example/", body);
            let _ = testing::map(&EmailSendGrid, &request);
        }
        let mut cut = mail(&[]);
        cut.body.truncate(300);
        assert!(matches!(testing::map(&EmailSendGrid, &cut), Err(MapError::NotAForm(_))));
    }
}
