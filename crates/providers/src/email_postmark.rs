//! Postmark: Basic authentication from the URL, over JSON that nobody signs; inbound mail and what became of ours.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Actor, File, Mapped, Starts, Subject};
use wakepost_domain::ports::Entropy;
use wakepost_domain::work::Priority;

use crate::freshness::Unit;
use crate::mail::{ADDRESS, Dkim, Headers, Mail};
use crate::mapping::{self, MapError};
use crate::provider::{Facts, Provider, SecretNeed, SignedHeader};
use crate::reply::{Replies, email};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Setting, Settings};
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{basic, header, payload, signature};

/// What an inbound mail is called, though Postmark itself leaves the name out.
const INBOUND: &str = "Inbound";

/// A Postmark server's inbound stream and its webhooks.
pub(crate) struct EmailPostmark;

impl Provider for EmailPostmark {
    fn name(&self) -> &'static str {
        "email-postmark"
    }

    fn facts(&self) -> Facts {
        Facts {
            // It takes mails of 35 MB, and attachments stand in the JSON.
            body_bytes_max: 50 * 1024 * 1024,
            signs_body: false,
            id_is_signed: false,
            priority: Priority::Interactive,
            secret: SecretNeed::Generated,
            ..Facts::usual("Postmark")
        }
    }

    fn steps(&self, webhook_url: &str) -> Vec<String> {
        vec![basic::step(
            "Postmark",
            "your server → Default Inbound Stream → Settings",
            webhook_url,
        )]
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn check_secret(&self, secret: &str, _: &Settings) -> Result<(), ConfigError> {
        basic::check_secret(secret)
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![basic::SIGNED]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let given =
            basic::given(request.headers)?.ok_or_else(|| Why::Missing(basic::HEADER.to_owned()))?;
        let secret_index =
            check.secret_that(|secret| Ok(signature::equal(&given, secret.as_bytes())))?;
        Ok(Verified { secret_index, signed_at: None })
    }

    fn map(&self, request: &Request<'_>, settings: &Settings) -> Result<Vec<Mapped>, MapError> {
        let [kind, id] = payload::pick(request.body, ["/RecordType", "/MessageID"])?;
        let id = id.filter(|id| !id.is_empty());
        let mapped = match kind.as_deref() {
            None | Some("" | INBOUND) => {
                let id = id.ok_or(MapError::Missing("/MessageID"))?;
                map_mail(request.body, &id, settings)?
            }
            Some(kind) => map_record(request.body, kind, id)?,
        };
        mapping::one(Mapped { provider_request_id: header::request_id(request.headers), ..mapped })
    }

    fn generate_secret(&self, _: &Settings, entropy: &dyn Entropy) -> Option<String> {
        Some(basic::generate_secret(entropy))
    }

    fn does_without(&self, setting: &str, settings: &Settings) -> bool {
        email::POSTMARK.do_without(setting, settings)
    }

    fn replies(&self) -> Option<&'static dyn Replies> {
        Some(&email::POSTMARK)
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
        request.set(basic::HEADER, &basic::value(secret))
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

static SAMPLES: &[Sample] = &[
    Sample::json(INBOUND, include_str!("../fixtures/email-postmark/Inbound.json")),
    Sample::json("Bounce", include_str!("../fixtures/email-postmark/Bounce.json")),
    Sample::json("Delivery", include_str!("../fixtures/email-postmark/Delivery.json")),
];

/// What became of a mail that went out: news for a person, and nothing to answer.
fn map_record(body: &[u8], kind: &str, id: Option<Cow<'_, str>>) -> Result<Mapped, MapError> {
    let [bounced, delivered, received, changed] =
        payload::pick(body, ["/BouncedAt", "/DeliveredAt", "/ReceivedAt", "/ChangedAt"])?;
    // One mail is opened and clicked on many times.
    let each = received.as_deref().map(|at| format!(":{at}")).unwrap_or_default();
    let at = bounced.or(delivered).or(received).or(changed);
    // A subscription may change without a mail, which then has an id of zeros; the body tells such events apart.
    let id = id.filter(|id| id.bytes().any(|byte| !matches!(byte, b'0' | b'-')));
    Ok(Mapped {
        dedup_key: id.as_deref().map(|id| format!("{id}:{kind}{each}")),
        event_type: kind.to_owned(),
        starts: Starts::Nothing,
        occurred_at: at.and_then(|text| Unit::Rfc3339.read(&text)),
        subject: id.map(|id| Subject { kind: "email".to_owned(), id: id.into_owned(), url: None }),
        ..Mapped::default()
    })
}

fn map_mail(body: &[u8], id: &str, settings: &Settings) -> Result<Mapped, MapError> {
    let [from, to, cc, recipient, text, html] = payload::pick(
        body,
        ["/FromFull/Email", "/To", "/Cc", "/OriginalRecipient", "/TextBody", "/HtmlBody"],
    )?;
    let [plain_from, name] = payload::pick(body, ["/From", "/FromName"])?;
    let from = from.or(plain_from).ok_or(MapError::Missing("/FromFull/Email"))?;
    let lists = Lists::read(body);
    let mail = Mail {
        dkim: dkim(&lists.headers),
        headers: lists.headers,
        from: &from,
        to: [&to, &cc].into_iter().flatten().map(AsRef::as_ref).collect(),
        received_for: recipient.as_deref().into_iter().collect(),
        provider_id: Some(id),
        text: text.as_deref(),
        html: html.as_deref(),
        files: lists.files,
        ..Mail::default()
    };
    let mapped = mail.map(INBOUND, settings)?;
    // Postmark gives the name and the address apart.
    let name = name.filter(|name| !name.is_empty()).map(Cow::into_owned);
    let actor = mapped.actor.map(|actor| Actor { name, ..actor });
    Ok(Mapped { dedup_key: Some(id.to_owned()), actor, ..mapped })
}

/// Postmark runs SpamAssassin over what it receives, and its test `DKIM_VALID_AU` is a good signature of the
/// author's own domain. Whose signatures there are is in the headers; all must be the author's to be sure.
fn dkim(headers: &Headers) -> Dkim {
    let tests = headers.noted_on_receipt("X-Spam-Tests").unwrap_or_default();
    match tests.split(',').any(|test| test.trim() == "DKIM_VALID_AU") {
        true => Dkim::one_of(headers),
        false => Dkim::Nobody,
    }
}

/// The lists in a mail. Each is read for itself, so that one of another shape costs only itself; the contents of
/// files, which may be large, are passed over.
#[derive(Default)]
struct Lists {
    headers: Headers,
    files: Vec<File>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Fields<'b> {
    #[serde(borrow)]
    headers: Option<&'b RawValue>,
    #[serde(borrow)]
    attachments: Option<&'b RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Named {
    name: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attachment {
    name: Option<String>,
    content_type: Option<String>,
    content_length: Option<u64>,
    #[serde(rename = "ContentID")]
    content_id: Option<String>,
}

impl Lists {
    fn read(body: &[u8]) -> Lists {
        let Ok(fields) = serde_json::from_slice::<Fields<'_>>(body) else {
            return Lists::default();
        };
        let headers: Vec<Named> = list(fields.headers);
        let files: Vec<Attachment> = list(fields.attachments);
        Lists {
            headers: headers.into_iter().map(|one| (one.name, one.value)).collect(),
            files: files
                .into_iter()
                .map(|file| File {
                    id: file.content_id.filter(|id| !id.is_empty()),
                    name: file.name,
                    media_type: file.content_type,
                    bytes: file.content_length,
                    url: None,
                })
                .collect(),
        }
    }
}

fn list<T: DeserializeOwned>(raw: Option<&RawValue>) -> Vec<T> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{self, NOW, settings, verify};

    fn mail() -> Value {
        json!({
            "FromName": "Ada", "From": "ada@acme.com",
            "FromFull": {"Email": "Ada@acme.com", "Name": "Ada", "MailboxHash": ""},
            "To": "Agent <agent@corp.example>", "Cc": "", "OriginalRecipient": "x1@inbound.example",
            "MessageID": "73e6d360", "Subject": "Rocket", "TextBody": "Does it fly?", "HtmlBody": "",
            "Headers": [
                {"Name": "Received", "Value": "by inbound.example (Postfix, from userid 1)"},
                {"Name": "X-Spam-Tests", "Value": "DKIM_SIGNED,DKIM_VALID,DKIM_VALID_AU,SPF_PASS"},
                {"Name": "Received", "Value": "from mx.acme.com by inbound.example"},
                {"Name": "DKIM-Signature", "Value": "v=1; d=acme.com; b=x"},
                {"Name": "Message-ID", "Value": "<m2@acme.com>"},
                {"Name": "References", "Value": "<m1@acme.com>"},
            ],
            "Attachments": [
                {"Name": "a.pdf", "Content": "MTIz", "ContentType": "application/pdf", "ContentLength": 3},
            ],
        })
    }

    fn map_body(body: &Value) -> Result<Mapped, MapError> {
        testing::map(
            &EmailPostmark,
            &SignedRequest::post("https://hooks.example/", body.to_string()),
        )
    }

    #[test]
    fn the_name_and_password_of_the_url_are_the_proof() {
        let mut request = SignedRequest::post("https://hooks.example/", "{}");
        // printf 'postmark:s3cret' | base64
        request.set("authorization", "Basic cG9zdG1hcms6czNjcmV0").unwrap();
        assert!(verify(&EmailPostmark, &request, &["postmark:s3cret"]).is_ok());
        for other in ["postmark:other", "other:s3cret", "postmark:s3cret2"] {
            let refused = verify(&EmailPostmark, &request, &[other]);
            assert_eq!(refused, Err(Refusal::Signature(Why::Mismatch)));
        }
        assert!(EmailPostmark.check_config(Some("no-colon"), &Settings::new()).is_err());
    }

    #[test]
    fn an_inbound_mail_is_a_message() {
        let mapped = map_body(&mail()).unwrap();
        assert_eq!((mapped.event_type.as_str(), mapped.starts), ("Inbound", Starts::Job));
        assert_eq!(mapped.dedup_key.as_deref(), Some("73e6d360"));
        let actor = mapped.actor.unwrap();
        assert_eq!(actor.email.as_deref(), Some("ada@acme.com"));
        assert_eq!((actor.name.as_deref(), actor.verified), (Some("Ada"), true));
        let message = mapped.message.unwrap();
        assert_eq!(message.thread_id, "ada@acme.com::m1@acme.com");
        assert_eq!(message.text, "Does it fly?");
        let file = &message.files[0];
        assert_eq!((file.name.as_deref(), file.bytes), (Some("a.pdf"), Some(3)));
        let mut named = mail();
        named["RecordType"] = json!("Inbound");
        assert_eq!(map_body(&named).unwrap().event_type, "Inbound");
    }

    #[test]
    fn only_the_authors_own_good_signature_as_postmark_notes_it_verifies_them() {
        let verified = |change: &dyn Fn(&mut Value)| {
            let mut mail = mail();
            change(&mut mail);
            map_body(&mail).unwrap().actor.unwrap().verified
        };
        assert!(verified(&|_| ()));
        assert!(!verified(&|mail| mail["Headers"][1]["Value"] = json!("DKIM_VALID,SPF_PASS")));
        assert!(!verified(&|mail| mail["Headers"][1]["Value"] = json!("SPF_PASS")));
        assert!(!verified(&|mail| mail["FromFull"]["Email"] = json!("ada@evil.com")));
        assert!(!verified(&|mail| mail["Headers"][3]["Value"] = json!("v=1; d=evil.com; b=x")));
        assert!(
            !verified(&|mail| mail["Headers"].as_array_mut().unwrap().swap(1, 2)),
            "by the sender"
        );
        assert!(!verified(&|mail| {
            let again = mail["Headers"][1].clone();
            mail["Headers"].as_array_mut().unwrap().push(again);
        }));
    }

    #[test]
    fn mail_to_others_and_machines_mail_start_nothing() {
        let body = mail().to_string();
        let request = SignedRequest::post("https://hooks.example/", body);
        for (own, starts) in [
            ("agent@corp.example", Starts::Job),
            ("x1@inbound.example", Starts::Job),
            ("other@corp.example", Starts::Nothing),
        ] {
            let own = settings(&[("address", own)]);
            assert_eq!(testing::map_with(&EmailPostmark, &request, &own).unwrap().starts, starts);
        }
        let mut away = mail();
        let line = json!({"Name": "Auto-Submitted", "Value": "auto-replied"});
        away["Headers"].as_array_mut().unwrap().push(line);
        assert_eq!(map_body(&away).unwrap().starts, Starts::Nothing);
    }

    #[test]
    fn what_became_of_a_mail_is_kept_and_starts_nothing() {
        let bounce = json!({
            "RecordType": "Bounce", "MessageID": "m1", "BouncedAt": "2023-11-14T22:13:20Z",
        });
        let mapped = map_body(&bounce).unwrap();
        assert_eq!((mapped.event_type.as_str(), mapped.starts), ("Bounce", Starts::Nothing));
        assert_eq!(mapped.dedup_key.as_deref(), Some("m1:Bounce"));
        assert_eq!(mapped.occurred_at, Some(NOW));
        assert_eq!(mapped.subject.unwrap().id, "m1");
        let open = |at: &str| {
            let open = json!({"RecordType": "Open", "MessageID": "m1", "ReceivedAt": at});
            map_body(&open).unwrap().dedup_key
        };
        assert_ne!(open("2023-11-14T22:13:20Z"), open("2023-11-14T22:13:21Z"));
        for none in [json!("00000000-0000-0000-0000-000000000000"), json!(""), Value::Null] {
            let change = json!({"RecordType": "SubscriptionChange", "MessageID": none});
            let mapped = map_body(&change).unwrap();
            assert_eq!((mapped.dedup_key, mapped.subject), (None, None));
        }
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        let mut odd = mail();
        odd["Attachments"] = json!({"deliberately": "malformed"});
        odd["TextBody"] = json!(["no", "text"]);
        let message = map_body(&odd).unwrap().message.unwrap();
        assert_eq!((message.files.len(), message.text.as_str()), (0, ""));
        assert_eq!(message.thread_id, "ada@acme.com::m1@acme.com", "the headers are still read");
        odd["Headers"] = json!([{"Name": 7}]);
        let message = map_body(&odd).unwrap().message.unwrap();
        assert_eq!(message.thread_id, "ada@acme.com::73e6d360");
        for pointer in ["/MessageID", "/FromFull/Email"] {
            let mut nameless = mail();
            nameless["From"] = Value::Null;
            *nameless.pointer_mut(pointer).unwrap() = json!({});
            assert_eq!(map_body(&nameless), Err(MapError::Missing(pointer)));
        }
        assert!(map_body(&json!([])).is_err());
        let empty = SignedRequest::post("https://hooks.example/", "");
        assert!(matches!(testing::map(&EmailPostmark, &empty), Err(MapError::NotJson(_))));
    }
}
