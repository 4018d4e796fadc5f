//! Mailgun: a time and a token in the body, signed without the rest of it; mail as forms, and news of ours as JSON.

use std::borrow::Cow;

use aws_lc_rs::digest;
use aws_lc_rs::hmac::HMAC_SHA256;
use serde::Deserialize;
use serde_json::{Value, json};
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{File, Mapped, Starts, Subject};
use wakepost_domain::work::Priority;

use crate::form::{Form, says_form};
use crate::freshness::Unit;
use crate::mail::{self, ADDRESS, Dkim, Headers, Mail, RECEIVED, Raw};
use crate::mapping::{self, MapError};
use crate::provider::{Facts, Provider, SignedHeader};
use crate::reply::{Replies, email};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Setting, Settings};
use crate::signature::{self, Encoding};
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{header, payload};

const TIMESTAMP: &str = "timestamp";
const TOKEN: &str = "token";
const SIGNATURE: &str = "signature";

/// A Mailgun domain: its routes and its webhooks.
pub(crate) struct EmailMailgun;

impl Provider for EmailMailgun {
    fn name(&self) -> &'static str {
        "email-mailgun"
    }

    fn facts(&self) -> Facts {
        Facts {
            // It takes mails of 25 MB, and a form is a little longer.
            body_bytes_max: 30 * 1024 * 1024,
            signs_body: false,
            id_is_signed: false,
            // Any other status is tried again.
            accepted_status: 200,
            priority: Priority::Interactive,
            ..Facts::usual("Mailgun")
        }
    }

    fn place(&self) -> Option<&'static str> {
        Some("Receiving → Routes → Create route")
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        Vec::new()
    }

    /// It is in the body.
    fn proof(&self, request: &Request<'_>, _: &Settings) -> Option<String> {
        Proof::read(request).ok().map(|proof| proof.signature.into_owned())
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let proof = Proof::read(request)?;
        let time = Unit::Seconds
            .read(&proof.timestamp)
            .ok_or_else(|| Why::malformed(TIMESTAMP, Unit::Seconds.expected()))?;
        let given = Encoding::Hex
            .decode(&proof.signature)
            .ok_or_else(|| Why::malformed(SIGNATURE, "hex digits"))?;
        let (parts, given) = (proof.content(), [given]);
        let secret_index = check.secret_that(|secret| {
            Ok(signature::hmac_fits(HMAC_SHA256, secret.as_bytes(), &parts, &given))
        })?;
        check.fresh(time)?;
        Ok(Verified { secret_index, signed_at: Some(time) })
    }

    fn map(&self, request: &Request<'_>, settings: &Settings) -> Result<Vec<Mapped>, MapError> {
        let (proof, mapped) = if says_form(request.headers) {
            let form = Form::read(request)?;
            let proof = Proof::of_form(&form)?;
            let mapped = map_mail(&form, &proof, settings)?;
            (proof, mapped)
        } else {
            (Proof::read(request)?, map_news(request.body)?)
        };
        mapping::one(Mapped {
            // Nothing else in the body is signed: whoever has a proof could send anything with it, but only once.
            second_key: Some(format!("token:{}", proof.token)),
            provider_request_id: header::request_id(request.headers),
            ..mapped
        })
    }

    fn does_without(&self, setting: &str, settings: &Settings) -> bool {
        email::MAILGUN.do_without(setting, settings)
    }

    fn replies(&self) -> Option<&'static dyn Replies> {
        Some(&email::MAILGUN)
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
        let timestamp = Unit::Seconds.write(now);
        let token = digest::digest(&digest::SHA256, format!("{id}:{timestamp}").as_bytes());
        let token = hex::encode(token)[..50].to_owned();
        let mut proof =
            Proof { timestamp: timestamp.into(), token: token.into(), signature: "".into() };
        let tag = signature::hmac(HMAC_SHA256, secret.as_bytes(), &proof.content());
        proof.signature = hex::encode(tag).into();
        proof.put_into(request)
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
    Sample {
        content_type: "application/x-www-form-urlencoded",
        ..Sample::json(RECEIVED, include_str!("../fixtures/email-mailgun/email.received.form"))
    },
    Sample::json("delivered", include_str!("../fixtures/email-mailgun/delivered.json")),
    Sample::json("failed", include_str!("../fixtures/email-mailgun/failed.json")),
];

/// The three fields that show where a request is from.
struct Proof<'r> {
    timestamp: Cow<'r, str>,
    token: Cow<'r, str>,
    signature: Cow<'r, str>,
}

impl<'r> Proof<'r> {
    fn read(request: &Request<'r>) -> Result<Proof<'r>, Why> {
        if !says_form(request.headers) {
            let pointers = ["/signature/timestamp", "/signature/token", "/signature/signature"];
            let found = payload::pick(request.body, pointers);
            let unsound = |_| Why::malformed("the body", "sound JSON, which holds the signature");
            return Proof::of(found.map_err(unsound)?);
        }
        let unsound = |_| Why::malformed("the body", "a sound form, which holds the signature");
        Proof::of_form(&Form::read(request).map_err(unsound)?)
    }

    /// Each field must be there once: of two, nobody could say which was signed.
    fn of_form(form: &Form<'_>) -> Result<Proof<'r>, Why> {
        Proof::of([TIMESTAMP, TOKEN, SIGNATURE].map(|name| {
            let mut values = form.fields().filter(|(known, _)| *known == name);
            let (_, value) = values.next().filter(|_| values.next().is_none())?;
            Some(Cow::Owned(value.to_owned()))
        }))
    }

    fn of(found: [Option<Cow<'r, str>>; 3]) -> Result<Proof<'r>, Why> {
        let found = found.map(|field| field.filter(|text| !text.is_empty()));
        let missing = |name| Why::malformed(name, "in the body once, as text");
        let [timestamp, token, signature] = found;
        Ok(Proof {
            timestamp: timestamp.ok_or_else(|| missing(TIMESTAMP))?,
            token: token.ok_or_else(|| missing(TOKEN))?,
            signature: signature.ok_or_else(|| missing(SIGNATURE))?,
        })
    }

    fn content(&self) -> [&[u8]; 2] {
        [self.timestamp.as_bytes(), self.token.as_bytes()]
    }

    fn fields(&self) -> [(&'static str, &str); 3] {
        [(TIMESTAMP, &self.timestamp), (TOKEN, &self.token), (SIGNATURE, &self.signature)]
    }

    /// Puts the fields into a body in place of any that are there.
    fn put_into(&self, request: &mut SignedRequest) -> Result<(), ConfigError> {
        let content_type = header::optional(&request.headers, "content-type").ok().flatten();
        request.body = match multer::parse_boundary(content_type.unwrap_or_default()) {
            Ok(boundary) => self.in_multipart(&request.body, &boundary),
            Err(_) if says_form(&request.headers) => self.in_form(&request.body),
            Err(_) => self.in_json(&request.body)?,
        };
        Ok(())
    }

    fn in_json(&self, body: &[u8]) -> Result<Vec<u8>, ConfigError> {
        let refused = || ConfigError::new("body", "must be a JSON object or a form to be signed");
        let mut whole: Value = serde_json::from_slice(body).map_err(|_| refused())?;
        let fields = self.fields().map(|(name, value)| (name.to_owned(), json!(value)));
        let object = whole.as_object_mut().ok_or_else(refused)?;
        object.insert(SIGNATURE.to_owned(), Value::Object(fields.into_iter().collect()));
        Ok(whole.to_string().into_bytes())
    }

    fn in_form(&self, body: &[u8]) -> Vec<u8> {
        let others = form_urlencoded::parse(body)
            .filter(|(name, _)| self.fields().iter().all(|(field, _)| field != name));
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(others).extend_pairs(self.fields());
        form.finish().into_bytes()
    }

    fn in_multipart(&self, body: &[u8], boundary: &str) -> Vec<u8> {
        let mark = format!("--{boundary}");
        let part = |(name, value): (&str, &str)| {
            format!("{mark}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let mut signed = self.fields().map(part).concat().into_bytes();
        for part in split(body, mark.as_bytes()) {
            let head = String::from_utf8_lossy(&part[..part.len().min(200)]);
            let is_proof = |name: &str| head.contains(&format!("name=\"{name}\"\r\n\r\n"));
            if !self.fields().iter().any(|(name, _)| is_proof(name)) {
                signed.extend_from_slice(mark.as_bytes());
                signed.extend_from_slice(part);
            }
        }
        signed
    }
}

/// What follows each mark.
fn split<'b>(body: &'b [u8], mark: &[u8]) -> Vec<&'b [u8]> {
    let starts: Vec<usize> = body
        .windows(mark.len())
        .enumerate()
        .filter(|(_, window)| *window == mark)
        .map(|(at, _)| at + mark.len())
        .collect();
    let ends = starts.iter().skip(1).map(|next| next - mark.len()).chain([body.len()]);
    starts.iter().zip(ends).map(|(start, end)| &body[*start..end]).collect()
}

/// What became of a mail that went out: news for a person, and nothing to answer.
fn map_news(body: &[u8]) -> Result<Mapped, MapError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct News {
        event_data: When,
    }
    #[derive(Deserialize)]
    struct When {
        timestamp: f64,
    }
    let [id, event, message] = payload::pick(
        body,
        ["/event-data/id", "/event-data/event", "/event-data/message/headers/message-id"],
    )?;
    let when = serde_json::from_slice::<News>(body).ok();
    Ok(Mapped {
        dedup_key: Some(id.ok_or(MapError::Missing("/event-data/id"))?.into_owned()),
        event_type: event.ok_or(MapError::Missing("/event-data/event"))?.into_owned(),
        starts: Starts::Nothing,
        // Seconds with a fraction.
        occurred_at: when
            .map(|news| news.event_data.timestamp * 1000.0)
            .map(|ms| Timestamp::from_millis(ms as i64)),
        subject: message.map(|id| Subject {
            kind: "email".to_owned(),
            id: id.into_owned(),
            url: None,
        }),
        ..Mapped::default()
    })
}

/// A mail that a route sends on: taken apart, or whole in one field where the route wants it raw.
fn map_mail(form: &Form<'_>, proof: &Proof<'_>, settings: &Settings) -> Result<Mapped, MapError> {
    let raw = form.get("body-mime").map(Raw::read);
    let is_raw = raw.is_some();
    let raw = raw.unwrap_or_default();
    let pairs = form.get("message-headers");
    let pairs = pairs.and_then(|json| serde_json::from_str::<Vec<(String, String)>>(json).ok());
    let (headers, dkim) = match pairs {
        Some(pairs) => with_dkim(pairs.into_iter().collect()),
        None if is_raw => with_dkim(raw.headers),
        // Every header is also a field, but in no order that tells who wrote it.
        None => (form.fields().collect(), Dkim::Nobody),
    };
    let from = headers.all("From").next().map(str::to_owned);
    let mut files = mail::attached(form);
    files.extend(raw.files);
    files.extend(stored(form));
    let mail = Mail {
        from: form.get("from").or(from.as_deref()).ok_or(MapError::Missing("from"))?,
        to: ["To", "Cc"].into_iter().filter_map(|name| form.get(name)).collect(),
        received_for: form.get("recipient").into_iter().collect(),
        return_path: form.get("sender"),
        provider_id: Some(&proof.token),
        text: form.get("body-plain").or(raw.text.as_deref()),
        html: form.get("body-html").or(raw.html.as_deref()),
        received_at: Unit::Seconds.read(&proof.timestamp),
        dkim,
        files,
        headers,
    };
    mail.map(RECEIVED, settings)
}

/// Mailgun notes that a signature is good, but not whose; it does so only for domains with spam filtering.
fn with_dkim(headers: Headers) -> (Headers, Dkim) {
    let noted = headers.noted_on_receipt("X-Mailgun-Dkim-Check-Result");
    let dkim = match noted.is_some_and(|result| result.eq_ignore_ascii_case("pass")) {
        true => Dkim::one_of(&headers),
        false => Dkim::Nobody,
    };
    (headers, dkim)
}

/// The files of a mail that Mailgun keeps for a while, by where it keeps them.
fn stored(form: &Form<'_>) -> Vec<File> {
    let listed = form.get("attachments").and_then(|json| serde_json::from_str(json).ok());
    let listed: Vec<Value> = listed.unwrap_or_default();
    let text = |file: &Value, name: &str| file.get(name).and_then(Value::as_str).map(str::to_owned);
    let files = listed.iter().map(|file| File {
        id: None,
        name: text(file, "name"),
        media_type: text(file, "content-type"),
        bytes: file.get("size").and_then(Value::as_u64),
        url: text(file, "url"),
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::testing::{self, NOW, settings, verify};

    const SECRET: &str = "a-signing-key";
    const MULTIPART: &str = "multipart/form-data; boundary=b";

    fn headers(dkim: &str) -> String {
        json!([
            ["X-Mailgun-Dkim-Check-Result", dkim],
            ["X-Envelope-From", "<ada@acme.com>"],
            ["Received", "from mx.acme.com by mxa.mailgun.org"],
            ["Dkim-Signature", "v=1; a=rsa-sha256; d=acme.com; b=x"],
            ["From", "Ada <ada@acme.com>"],
            ["Message-Id", "<m2@acme.com>"],
            ["References", "<m1@acme.com>"],
        ])
        .to_string()
    }

    fn form(fields: &[(&str, &str)]) -> SignedRequest {
        let mut form = form_urlencoded::Serializer::new(String::new());
        let mut request =
            SignedRequest::post("https://hooks.example/", form.extend_pairs(fields).finish());
        request.set("content-type", "application/x-www-form-urlencoded").unwrap();
        signed(request)
    }

    fn signed(mut request: SignedRequest) -> SignedRequest {
        EmailMailgun.sign(&mut request, SECRET, &Settings::new(), "1", NOW).unwrap();
        request
    }

    fn multipart() -> SignedRequest {
        let body = "--b\r\nContent-Disposition: form-data; name=\"from\"\r\n\r\nada@acme.com\r\n\
            --b\r\nContent-Disposition: form-data; name=\"attachment-1\"; filename=\"a.txt\"\r\n\
            Content-Type: text/plain\r\n\r\n12345\r\n--b--\r\n";
        let mut request = SignedRequest::post("https://hooks.example/", body);
        request.set("content-type", MULTIPART).unwrap();
        signed(request)
    }

    fn news() -> SignedRequest {
        let body = json!({"event-data": {
            "id": "e1", "event": "failed", "timestamp": 1_700_000_000.25,
            "message": {"headers": {"message-id": "m9@corp.example"}},
        }});
        signed(SignedRequest::post("https://hooks.example/", body.to_string()))
    }

    fn mail(changes: &[(&str, &str)]) -> SignedRequest {
        let headers = headers("Pass");
        let mut fields = vec![
            ("recipient", "agent@corp.example"),
            ("sender", "ada@acme.com"),
            ("from", "Ada <ada@acme.com>"),
            ("To", "agent@corp.example"),
            ("body-plain", "Does it fly?"),
            ("message-headers", &headers),
        ];
        fields.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        fields.extend(changes);
        form(&fields)
    }

    fn mapped(changes: &[(&str, &str)]) -> Mapped {
        testing::map(&EmailMailgun, &mail(changes)).unwrap()
    }

    /// The same request with its proof rewritten.
    fn with(request: &SignedRequest, change: impl FnOnce(&mut Proof<'_>)) -> SignedRequest {
        let mut rewritten = request.clone();
        let mut proof = Proof::read(&request.as_request()).unwrap();
        change(&mut proof);
        proof.put_into(&mut rewritten).unwrap();
        rewritten
    }

    #[test]
    fn a_signature_made_by_another_implementation_is_accepted() {
        // printf '1700000000abcdef0123456789' | openssl dgst -sha256 -hmac a-signing-key
        let tag = "8461eed3cf8bbe9ff3a403a2568230ac7f83e56787637f578cf47be98d17d592";
        let body = json!({SIGNATURE: {"timestamp": "1700000000", "token": "abcdef0123456789", "signature": tag}});
        let request = SignedRequest::post("https://hooks.example/", body.to_string());
        let verified = verify(&EmailMailgun, &request, &[SECRET]);
        assert_eq!(verified, Ok(Verified { secret_index: 0, signed_at: Some(NOW) }));
        let upper = body.to_string().replace(tag, &tag.to_uppercase());
        let request = SignedRequest::post("https://hooks.example/", upper);
        assert!(verify(&EmailMailgun, &request, &[SECRET]).is_ok(), "hex goes by value");
    }

    #[test]
    fn the_proof_is_found_in_every_kind_of_body() {
        for request in [news(), mail(&[]), multipart()] {
            assert!(verify(&EmailMailgun, &request, &[SECRET]).is_ok());
            let refused = verify(&EmailMailgun, &request, &["other"]);
            assert_eq!(refused, Err(Refusal::Signature(Why::Mismatch)));
        }
    }

    #[test]
    fn a_request_can_be_signed_again() {
        for request in [news(), mail(&[]), multipart()] {
            let mut again = request.clone();
            EmailMailgun.sign(&mut again, "other", &Settings::new(), "2", NOW).unwrap();
            assert!(verify(&EmailMailgun, &again, &["other"]).is_ok());
            let rest =
                |request: &SignedRequest| testing::map(&EmailMailgun, request).unwrap().message;
            assert_eq!(rest(&again).map(|m| m.files), rest(&request).map(|m| m.files));
        }
    }

    #[test]
    fn a_missing_empty_or_doubled_field_of_the_proof_is_refused() {
        let refused = |request: &SignedRequest| {
            let refused = verify(&EmailMailgun, request, &[SECRET]);
            assert!(matches!(refused, Err(Refusal::Signature(_))), "{refused:?}");
        };
        for name in [TIMESTAMP, TOKEN, SIGNATURE] {
            let mut whole: Value = serde_json::from_slice(&news().body).unwrap();
            for bad in [Value::Null, json!(""), json!({}), json!(1.5)] {
                whole[SIGNATURE][name] = bad;
                refused(&SignedRequest::post("https://hooks.example/", whole.to_string()));
            }
            let text = String::from_utf8(news().body).unwrap();
            let doubled =
                text.replace(&format!("\"{name}\":\""), &format!("\"{name}\":\"x\",\"{name}\":\""));
            assert_ne!(doubled, text);
            refused(&SignedRequest::post("https://hooks.example/", doubled));

            let text = String::from_utf8(mail(&[]).body).unwrap();
            for (from, to) in [
                (format!("&{name}="), format!("&x{name}=")),
                (format!("&{name}="), format!("&{name}=&x=")),
                (format!("&{name}="), format!("&{name}=x&{name}=")),
            ] {
                let mut request = mail(&[]);
                assert!(text.contains(&from));
                request.body = text.replace(&from, &to).into_bytes();
                refused(&request);
            }
        }
        for body in ["", "[]", "{", r#"{"signature":7}"#] {
            refused(&SignedRequest::post("https://hooks.example/", body));
        }
    }

    #[test]
    fn digits_cannot_move_between_the_time_and_the_token() {
        // What is signed is the two without anything between them.
        let moved = with(&news(), |proof| {
            let digit = proof.timestamp.to_mut().pop().unwrap();
            proof.token.to_mut().insert(0, digit);
        });
        assert!(matches!(verify(&EmailMailgun, &moved, &[SECRET]), Err(Refusal::Stale { .. })));
    }

    #[test]
    fn a_malformed_time_is_a_bad_signature_and_never_a_stale_one() {
        for bad in ["1700000000x", "-1700000000", "1700000000000", "1700000000.0", " 1700000000"] {
            let request = with(&news(), |proof| proof.timestamp = bad.into());
            assert!(matches!(
                verify(&EmailMailgun, &request, &[SECRET]),
                Err(Refusal::Signature(_))
            ));
        }
    }

    proptest! {
        #[test]
        fn a_proof_with_any_bit_flipped_is_refused(which: Index, field in 0usize..3) {
            for request in [news(), mail(&[])] {
                let changed = with(&request, |proof| {
                    let field = [&mut proof.timestamp, &mut proof.token, &mut proof.signature]
                        .into_iter()
                        .nth(field)
                        .unwrap();
                    let mut bytes = field.as_bytes().to_vec();
                    let bit = which.index(bytes.len() * 8);
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    // Another case of a letter is the same hex digit, and an odd byte is no text.
                    match String::from_utf8(bytes) {
                        Ok(text) if !text.eq_ignore_ascii_case(field) => *field = text.into(),
                        _ => field.to_mut().push('0'),
                    }
                });
                let refused = verify(&EmailMailgun, &changed, &[SECRET]);
                prop_assert!(matches!(refused, Err(Refusal::Signature(_))), "{:?}", refused);
            }
        }

        #[test]
        fn no_body_makes_it_panic_or_pass(body: Vec<u8>) {
            for content_type in ["application/json", "application/x-www-form-urlencoded", MULTIPART] {
                let mut request = SignedRequest::post("https://hooks.example/", body.clone());
                request.set("content-type", content_type).unwrap();
                prop_assert!(verify(&EmailMailgun, &request, &[SECRET]).is_err());
                prop_assert!(testing::map(&EmailMailgun, &request).is_err());
            }
        }
    }

    #[test]
    fn a_form_is_a_mail_and_its_token_a_second_key() {
        let request = mail(&[]);
        let mapped = testing::map(&EmailMailgun, &request).unwrap();
        assert_eq!((mapped.event_type.as_str(), mapped.starts), (RECEIVED, Starts::Job));
        assert_eq!(mapped.dedup_key.as_deref(), Some("m2@acme.com"));
        let token = Proof::read(&request.as_request()).unwrap().token.into_owned();
        assert_eq!(mapped.second_key, Some(format!("token:{token}")));
        assert_eq!(mapped.occurred_at, Some(NOW));
        assert_eq!(mapped.actor.unwrap().email.as_deref(), Some("ada@acme.com"));
        let message = mapped.message.unwrap();
        assert_eq!(message.thread_id, "ada@acme.com::m1@acme.com");
        assert_eq!(message.text, "Does it fly?");
    }

    #[test]
    fn files_come_with_the_form_or_stay_with_mailgun() {
        let attached = testing::map(&EmailMailgun, &multipart()).unwrap().message.unwrap().files;
        assert_eq!((attached[0].name.as_deref(), attached[0].bytes), (Some("a.txt"), Some(5)));
        let list = r#"[{"url":"https://storage.example/1","content-type":"text/plain","name":"b.txt","size":3}, 7]"#;
        let stored = mapped(&[("attachments", list)]).message.unwrap().files;
        assert_eq!(stored[0].url.as_deref(), Some("https://storage.example/1"));
        assert_eq!(stored[1], File::default());
    }

    #[test]
    fn only_mailguns_own_note_of_the_senders_own_signature_verifies_them() {
        let verified = |changes: &[(&str, &str)]| mapped(changes).actor.unwrap().verified;
        assert!(verified(&[]));
        assert!(!verified(&[("message-headers", &headers("Fail"))]));
        assert!(!verified(&[("from", "Ada <ada@evil.com>")]));
        let by_another = headers("Pass").replace("d=acme.com", "d=evil.com");
        assert!(!verified(&[("message-headers", &by_another)]));
        let mut pairs: Vec<Value> = serde_json::from_str(&headers("Pass")).unwrap();
        pairs.swap(0, 2);
        assert!(!verified(&[("message-headers", &json!(pairs).to_string())]), "by the sender");
        let as_field = [
            ("message-headers", "junk"),
            ("X-Mailgun-Dkim-Check-Result", "Pass"),
            ("Message-Id", "<m@x>"),
        ];
        assert!(!verified(&as_field));
    }

    #[test]
    fn a_raw_mail_is_taken_apart_here() {
        let raw = "X-Mailgun-Dkim-Check-Result: Pass\r\nReceived: from a by mxa.mailgun.org\r\n\
            DKIM-Signature: d=acme.com; b=x\r\nFrom: Ada <ada@acme.com>\r\nMessage-Id: <m5@acme.com>\r\n\r\nHi\r\n";
        let fields =
            [("recipient", "agent@corp.example"), ("sender", "ada@acme.com"), ("body-mime", raw)];
        let mapped = testing::map(&EmailMailgun, &form(&fields)).unwrap();
        assert_eq!(mapped.dedup_key.as_deref(), Some("m5@acme.com"));
        assert!(mapped.actor.unwrap().verified);
        assert_eq!(mapped.message.unwrap().text, "Hi");
    }

    #[test]
    fn mail_to_others_and_machines_mail_start_nothing() {
        let starts = |own: &str, changes: &[(&str, &str)]| {
            let own = settings(&[("address", own)]);
            testing::map_with(&EmailMailgun, &mail(changes), &own).unwrap().starts
        };
        assert_eq!(starts("agent@corp.example", &[]), Starts::Job);
        assert_eq!(starts("other@corp.example", &[]), Starts::Nothing);
        assert_eq!(starts("agent@corp.example", &[("sender", "")]), Starts::Nothing);
        let as_fields =
            [("message-headers", ""), ("Message-Id", "<m1@x>"), ("List-Id", "<l.example>")];
        assert_eq!(starts("agent@corp.example", &as_fields), Starts::Nothing);
    }

    #[test]
    fn news_of_a_mail_is_kept_and_starts_nothing() {
        let mapped = testing::map(&EmailMailgun, &news()).unwrap();
        assert_eq!((mapped.event_type.as_str(), mapped.starts), ("failed", Starts::Nothing));
        assert_eq!(mapped.dedup_key.as_deref(), Some("e1"));
        assert!(mapped.second_key.is_some());
        assert_eq!(mapped.occurred_at, Some(Timestamp::from_millis(1_700_000_000_250)));
        assert_eq!(mapped.subject.unwrap().id, "m9@corp.example");
    }

    #[test]
    fn what_names_an_event_must_be_there_and_the_rest_may_be_anything() {
        let changed = |pointer: &str| {
            let mut whole: Value = serde_json::from_slice(&news().body).unwrap();
            *whole.pointer_mut(pointer).unwrap() = json!([]);
            testing::map(
                &EmailMailgun,
                &SignedRequest::post("https://hooks.example/", whole.to_string()),
            )
        };
        for pointer in ["/event-data/id", "/event-data/event"] {
            assert_eq!(changed(pointer), Err(MapError::Missing(pointer)));
        }
        let odd = changed("/event-data/timestamp").unwrap();
        assert_eq!(odd.occurred_at, None);
        assert_eq!(changed("/event-data/message").unwrap().subject, None);
        assert_eq!(testing::map(&EmailMailgun, &form(&[])), Err(MapError::Missing("from")));
    }
}
