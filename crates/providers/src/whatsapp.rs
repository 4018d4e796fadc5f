//! WhatsApp: Meta's `X-Hub-Signature-256` over the body; one request tells of many messages and statuses.

use http::Method;
use serde_json::{Value, json};
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{
    Actor, ConversationType, File, Mapped, Message, Starts, Subject, Trigger,
};
use wakepost_domain::work::Priority;

use crate::freshness::Unit;
use crate::hmac_header::HmacHeader;
use crate::mapping::{self, MapError};
use crate::payload::{self, id_at, list_at, text_at};
use crate::provider::{Answer, Facts, Provider, SignedHeader};
use crate::reply::Replies;
use crate::reply::whatsapp::WhatsAppReplies;
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{self, ConfigError, Setting, Settings};
use crate::verdict::{Check, Refusal, Verified};
use crate::{header, signature};

const SIGNATURE: HmacHeader = HmacHeader::sha256_hex("X-Hub-Signature-256");

/// A WhatsApp Business account, by Meta's Cloud API.
pub(crate) struct WhatsApp;

impl Provider for WhatsApp {
    fn name(&self) -> &'static str {
        "whatsapp"
    }

    fn facts(&self) -> Facts {
        Facts {
            body_bytes_max: 3 * 1024 * 1024,
            accepted_status: 200,
            priority: Priority::Interactive,
            ..Facts::usual("WhatsApp")
        }
    }

    fn place(&self) -> Option<&'static str> {
        Some("developers.facebook.com → your app → WhatsApp → Configuration → Webhook")
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn handshake(&self, request: &Request<'_>, settings: &Settings) -> Option<Answer> {
        let expected = settings::text(settings, "verify_token").ok()??;
        let asked = Asked::read(request)?;
        let knows_us = signature::equal(asked.verify_token.as_bytes(), expected.as_bytes());
        knows_us.then(|| Answer::ok("text/plain", asked.challenge))
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SIGNATURE.declared()]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let secret_index = SIGNATURE.verify_body(request, check)?;
        Ok(Verified { secret_index, signed_at: None })
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let body = payload::whole(request.body)?;
        let request_id = header::request_id(request.headers);
        mapping::many(
            parts(&body)?.into_iter().map(|part| {
                Ok(Mapped { provider_request_id: request_id.clone(), ..part.mapped()? })
            }),
        )
    }

    fn data(&self, request: &Request<'_>, part: usize) -> Value {
        let Ok(body) = payload::whole(request.body) else {
            return payload::data(request);
        };
        let parts = parts(&body).unwrap_or_default();
        parts.get(part).map_or_else(|| body.clone(), |part| part.alone(&body))
    }

    fn replies(&self) -> Option<&'static dyn Replies> {
        Some(&WhatsAppReplies)
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

const SETTINGS: &[Setting] = &[
    Setting::optional(
        "verify_token",
        "Verify token",
        "A word of your own, entered here and then in Meta's webhook form, which asks for it once when you save. \
         Messages arrive without it, but Meta will not save the form.",
    )
    .secret(),
    Setting::for_replies(
        "access_token",
        "Access token",
        "A system user's token with whatsapp_business_messaging. Replies are sent with it.",
    )
    .secret(),
    Setting::optional(
        "phone_number_id",
        "Phone number id",
        "Under API Setup in Meta's dashboard; not the phone number itself. Replies go out from the number that was \
         written to; this one is for messages that answer none.",
    )
    .example("106540352242922"),
    Setting::optional(
        "api_url",
        "API address",
        "Leave it empty for https://graph.facebook.com; set it to go through a proxy.",
    )
.destination(),
    Setting::optional(
        "api_version",
        "API version",
        "Which version of Meta's API replies are sent by, if not by v24.0.",
    )
    .example("v24.0"),
];

static SAMPLES: &[Sample] = &[
    Sample::json("messages", include_str!("../fixtures/whatsapp/messages.json")),
    Sample::json(
        "message_template_status_update",
        include_str!("../fixtures/whatsapp/message_template_status_update.json"),
    ),
];

/// What Meta asks when somebody saves the webhook's address.
struct Asked {
    verify_token: String,
    challenge: String,
}

impl Asked {
    /// More parameters than this are not Meta's.
    const PARAMETERS_MAX: usize = 16;
    const CHALLENGE_BYTES_MAX: usize = 256;

    fn read(request: &Request<'_>) -> Option<Asked> {
        if request.method != Method::GET {
            return None;
        }
        let (_, query) = request.url.split_once('?')?;
        let given: Vec<_> = form_urlencoded::parse(query.as_bytes())
            .take(Asked::PARAMETERS_MAX + 1)
            .filter(|(name, _)| name.starts_with("hub."))
            .collect();
        let one = |wanted: &str| {
            let mut values = given.iter().filter(|(name, _)| name == wanted);
            values.next().map(|(_, value)| &**value).filter(|_| values.next().is_none())
        };
        // The challenge goes back to whoever asks: it must not be able to carry anything but itself.
        let plain = |text: &&str| {
            (1..=Asked::CHALLENGE_BYTES_MAX).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        };
        one("hub.mode").filter(|mode| *mode == "subscribe")?;
        let challenge = one("hub.challenge").filter(plain)?.to_owned();
        Some(Asked { verify_token: one("hub.verify_token")?.to_owned(), challenge })
    }
}

/// One event in a request: a message, a status, or a change that has neither.
struct Part<'b> {
    entry: &'b Value,
    change: &'b Value,
    what: What<'b>,
}

enum What<'b> {
    Message(&'b Value),
    Status(&'b Value),
    Change,
}

/// Every event in the body, in its order: the same at ingest and whenever one is read.
fn parts(body: &Value) -> Result<Vec<Part<'_>>, MapError> {
    let mut parts = Vec::new();
    for entry in list_at(body, "/entry") {
        for change in list_at(entry, "/changes") {
            let messages = list_at(change, "/value/messages").iter().map(What::Message);
            let statuses = list_at(change, "/value/statuses").iter().map(What::Status);
            let before = parts.len();
            parts.extend(messages.chain(statuses).map(|what| Part { entry, change, what }));
            if parts.len() == before {
                parts.push(Part { entry, change, what: What::Change });
            }
        }
    }
    match parts.is_empty() {
        true => Err(MapError::Missing("/entry/0/changes/0")),
        false => Ok(parts),
    }
}

/// The message that is one event of a body, and the number that it was sent to; `None` for what is no message.
pub(crate) fn written(body: &Value, part: usize) -> Option<(Option<String>, &Value)> {
    let part = parts(body).ok()?.into_iter().nth(part)?;
    match part.what {
        What::Message(message) => {
            Some((id_at(part.change, "/value/metadata/phone_number_id"), message))
        }
        What::Status(_) | What::Change => None,
    }
}

impl Part<'_> {
    fn mapped(&self) -> Result<Mapped, MapError> {
        let field = text_at(self.change, "/field");
        let event_type = field.ok_or(MapError::Missing("/entry/0/changes/0/field"))?.to_owned();
        Ok(match self.what {
            What::Message(message) => self.mapped_message(message, event_type)?,
            What::Status(status) => mapped_status(status, event_type)?,
            What::Change => Mapped {
                event_type,
                starts: Starts::Nothing,
                occurred_at: time_at(self.entry, "/time"),
                ..Mapped::default()
            },
        })
    }

    fn mapped_message(&self, message: &Value, event_type: String) -> Result<Mapped, MapError> {
        const MISSING: MapError = MapError::Missing("/entry/0/changes/0/value/messages/0/id");
        let id = id_at(message, "/id").ok_or(MISSING)?;
        // Under other fields Meta also sends old messages, and those that the business wrote itself.
        let is_new = event_type == "messages" && !self.is_own(message);
        let said = is_new.then(|| self.said(message)).flatten();
        Ok(Mapped {
            dedup_key: Some(id.clone()),
            event_type,
            starts: if said.is_some() { Starts::Job } else { Starts::Nothing },
            occurred_at: time_at(message, "/timestamp"),
            actor: self.actor(message),
            subject: Some(Subject { kind: "message".to_owned(), id, url: None }),
            message: said,
            ..Mapped::default()
        })
    }

    /// Whether the sender is the number that the message was sent to.
    fn is_own(&self, message: &Value) -> bool {
        let own = text_at(self.change, "/value/metadata/display_phone_number");
        own.is_some_and(|own| text_at(message, "/from").is_some_and(|from| same_number(from, own)))
    }

    fn said(&self, message: &Value) -> Option<Message> {
        let number = id_at(self.change, "/value/metadata/phone_number_id")?;
        let sender = sender(message)?;
        let text = text(message).unwrap_or_default().to_owned();
        let files: Vec<_> = file(message).into_iter().collect();
        let says_something = !text.is_empty() || !files.is_empty();
        let in_group = message.get("group_id").is_some_and(|group| !group.is_null());
        says_something.then(|| Message {
            thread_id: format!("{number}:{sender}"),
            text,
            conversation_type: match in_group {
                true => ConversationType::Group,
                false => ConversationType::Direct,
            },
            trigger: Trigger::Direct,
            files,
        })
    }

    /// WhatsApp vouches for the number; the name is what its owner chose to be called.
    fn actor(&self, message: &Value) -> Option<Actor> {
        let id = sender(message)?;
        let contact = self.contacts_of(&id).next();
        let name = contact.and_then(|contact| text_at(contact, "/profile/name"));
        Some(Actor { name: name.map(str::to_owned), id: Some(id), email: None, verified: true })
    }

    fn contacts_of<'p>(&'p self, sender: &'p str) -> impl Iterator<Item = &'p Value> {
        list_at(self.change, "/value/contacts").iter().filter(move |contact| {
            ["/wa_id", "/user_id"].iter().any(|at| id_at(contact, at).as_deref() == Some(sender))
        })
    }

    /// The request as it would be if it told of this alone: in Meta's shape, so that Meta's words still apply.
    fn alone(&self, body: &Value) -> Value {
        let mut change = without(self.change, &["value"]);
        let value = self.change.get("value").unwrap_or(&Value::Null);
        change["value"] = match self.what {
            What::Change => value.clone(),
            What::Message(message) => {
                let mut value = without(value, &["messages", "statuses", "contacts"]);
                let sender = sender(message).unwrap_or_default();
                value["contacts"] = self.contacts_of(&sender).cloned().collect();
                value["messages"] = json!([message]);
                value
            }
            What::Status(status) => {
                let mut value = without(value, &["messages", "statuses", "contacts"]);
                value["statuses"] = json!([status]);
                value
            }
        };
        let mut entry = without(self.entry, &["changes"]);
        entry["changes"] = json!([change]);
        let mut alone = without(body, &["entry"]);
        alone["entry"] = json!([entry]);
        alone
    }
}

fn mapped_status(status: &Value, event_type: String) -> Result<Mapped, MapError> {
    let missing = |at| move || MapError::Missing(at);
    let id = id_at(status, "/id").ok_or_else(missing("/entry/0/changes/0/value/statuses/0/id"))?;
    let name = text_at(status, "/status")
        .ok_or_else(missing("/entry/0/changes/0/value/statuses/0/status"))?;
    Ok(Mapped {
        dedup_key: Some(format!("{id}:{name}")),
        event_type,
        starts: Starts::Nothing,
        occurred_at: time_at(status, "/timestamp"),
        subject: Some(Subject { kind: "message".to_owned(), id, url: None }),
        ..Mapped::default()
    })
}

/// Who wrote it: their number, or the id that stands for it where they keep the number to themselves.
fn sender(message: &Value) -> Option<String> {
    id_at(message, "/from").or_else(|| id_at(message, "/from_user_id"))
}

/// Numbers are written with and without signs between their digits.
fn same_number(a: &str, b: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    digits(a) == digits(b)
}

/// What was said, pressed, chosen, or written under a picture.
fn text(message: &Value) -> Option<&str> {
    let kind = text_at(message, "/type")?;
    let content = message.get(kind)?;
    match kind {
        "text" => text_at(content, "/body"),
        "button" => text_at(content, "/text"),
        "interactive" => text_at(content, "/button_reply/title")
            .or_else(|| text_at(content, "/list_reply/title")),
        _ => text_at(content, "/caption"),
    }
}

/// What came with it; to be read with the access token.
fn file(message: &Value) -> Option<File> {
    let kind = text_at(message, "/type")?;
    if !matches!(kind, "image" | "video" | "audio" | "document" | "sticker") {
        return None;
    }
    let media = message.get(kind)?;
    let text = |at| text_at(media, at).map(str::to_owned);
    Some(File {
        id: Some(id_at(media, "/id")?),
        name: text("/filename"),
        media_type: text("/mime_type"),
        bytes: None,
        url: text("/url"),
    })
}

fn time_at(value: &Value, pointer: &str) -> Option<Timestamp> {
    Unit::Seconds.read(&id_at(value, pointer)?)
}

/// A copy of an object without some of its fields, which are not copied first.
fn without(value: &Value, fields: &[&str]) -> Value {
    let kept = value.as_object().into_iter().flatten();
    let kept = kept.filter(|(name, _)| !fields.contains(&name.as_str()));
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, map, settings, verify};
    use crate::verdict::Why;

    const SECRET: &str = "app secret";

    fn post(body: &Value) -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/in/src_1", body.to_string());
        WhatsApp.sign(&mut request, SECRET, &Settings::new(), "", NOW).unwrap();
        request
    }

    fn change(field: &str, value: Value) -> Value {
        json!({"object": "whatsapp_business_account",
            "entry": [{"id": "w1", "changes": [{"field": field, "value": value}]}]})
    }

    /// A message from +49 1555 to the number 106, with this content besides.
    fn message(content: Value) -> Value {
        let mut message = json!({"from": "491555", "id": "wamid.A", "timestamp": "1700000000"});
        for (name, value) in content.as_object().unwrap() {
            message[name] = value.clone();
        }
        change(
            "messages",
            json!({
                "metadata": {"display_phone_number": "+1 555-0783", "phone_number_id": "106"},
                "contacts": [{"profile": {"name": "Ida"}, "wa_id": "491555"}],
                "messages": [message],
            }),
        )
    }

    fn mapped(body: &Value) -> Mapped {
        map(&WhatsApp, &post(body)).unwrap()
    }

    fn handshake(url: &str, method: Method) -> Option<Answer> {
        let mut request = SignedRequest::post(url, "");
        request.method = method;
        WhatsApp.handshake(&request.as_request(), &settings(&[("verify_token", "a word&more")]))
    }

    const GOOD: &str = "https://hooks.example/in/s?hub.mode=subscribe&hub.verify_token=a+word%26more\
        &hub.challenge=1158201444";

    #[test]
    fn a_signature_made_by_another_implementation_is_accepted() {
        // printf '{"entry":[]}' | openssl dgst -sha256 -hmac 'app secret'
        let tag = "4269b90096ee090e4a787624758f36c998f98fdc3858d7ac354ed25fa9f869f3";
        let mut request = SignedRequest::post("https://hooks.example/", r#"{"entry":[]}"#);
        request.set("X-Hub-Signature-256", &format!("sha256={tag}")).unwrap();
        assert!(verify(&WhatsApp, &request, &[SECRET]).is_ok());
        let refused = verify(&WhatsApp, &request, &["another"]);
        assert_eq!(refused, Err(Refusal::Signature(Why::Mismatch)));
    }

    #[test]
    fn the_challenge_is_echoed_to_who_knows_the_verify_token() {
        let answer = handshake(GOOD, Method::GET).unwrap();
        assert_eq!((answer.status, answer.content_type), (200, "text/plain"));
        assert_eq!(answer.body, "1158201444");
    }

    #[test]
    fn no_other_question_is_answered() {
        let with = |from: &str, to: &str| GOOD.replace(from, to);
        let long = "1".repeat(257);
        for bad in [
            with("=a+word%26more", "=a+word"),
            with("=a+word%26more", "="),
            with("hub.verify_token=a+word%26more&", ""),
            with("subscribe", "unsubscribe"),
            with("hub.mode=subscribe&", ""),
            with("1158201444", ""),
            with("1158201444", "%3Cscript%3E"),
            with("1158201444", "a%0d%0ab"),
            with("1158201444", &long),
            format!("{GOOD}&hub.challenge=2"),
            format!("{GOOD}&hub.verify_token=x"),
            "https://hooks.example/in/s".to_owned(),
        ] {
            assert_eq!(handshake(&bad, Method::GET), None, "{bad}");
        }
        assert_eq!(handshake(GOOD, Method::OPTIONS), None);
    }

    #[test]
    fn without_a_verify_token_nothing_is_answered_not_even_the_empty_one() {
        for given in [Settings::new(), settings(&[("verify_token", "")])] {
            for url in [GOOD, &GOOD.replace("a+word%26more", "")] {
                let mut request = SignedRequest::post(url, "");
                request.method = Method::GET;
                assert_eq!(WhatsApp.handshake(&request.as_request(), &given), None);
            }
        }
    }

    #[test]
    fn a_text_message_starts_a_job_and_says_who_wrote_it() {
        let mapped = mapped(&message(json!({"type": "text", "text": {"body": "Hello"}})));
        assert_eq!((mapped.event_type.as_str(), mapped.starts), ("messages", Starts::Job));
        assert_eq!(mapped.dedup_key.as_deref(), Some("wamid.A"));
        assert_eq!(mapped.occurred_at, Some(NOW));
        assert_eq!(mapped.subject.unwrap().text("whatsapp"), "whatsapp:message:wamid.A");
        let actor = mapped.actor.unwrap();
        assert_eq!((actor.id.as_deref(), actor.name.as_deref()), (Some("491555"), Some("Ida")));
        assert!(actor.verified);
        let message = mapped.message.unwrap();
        assert_eq!((message.thread_id.as_str(), message.text.as_str()), ("106:491555", "Hello"));
        assert_eq!(message.conversation_type, ConversationType::Direct);
    }

    #[test]
    fn what_was_pressed_chosen_or_written_under_a_picture_is_the_text() {
        for (content, text) in [
            (json!({"type": "button", "button": {"text": "Yes", "payload": "y"}}), "Yes"),
            (
                json!({"type": "interactive", "interactive":
                    {"type": "button_reply", "button_reply": {"id": "1", "title": "Change"}}}),
                "Change",
            ),
            (
                json!({"type": "interactive", "interactive":
                    {"type": "list_reply", "list_reply": {"id": "2", "title": "Express"}}}),
                "Express",
            ),
            (json!({"type": "image", "image": {"id": "9", "caption": "The label"}}), "The label"),
        ] {
            let mapped = mapped(&message(content));
            assert_eq!(mapped.starts, Starts::Job);
            assert_eq!(mapped.message.unwrap().text, text);
        }
    }

    #[test]
    fn media_come_by_reference_and_need_no_words() {
        let document =
            json!({"id": "9", "filename": "a.pdf", "mime_type": "application/pdf", "sha256": "x"});
        let mapped = mapped(&message(json!({"type": "document", "document": document})));
        assert_eq!(mapped.starts, Starts::Job);
        let message = mapped.message.unwrap();
        assert_eq!(message.text, "");
        let file = &message.files[0];
        assert_eq!((file.id.as_deref(), file.name.as_deref()), (Some("9"), Some("a.pdf")));
        assert_eq!(file.media_type.as_deref(), Some("application/pdf"));
    }

    #[test]
    fn what_says_nothing_or_is_our_own_starts_nothing() {
        let hello = json!({"type": "text", "text": {"body": "Hello"}});
        let mut own = message(hello.clone());
        own["entry"][0]["changes"][0]["value"]["messages"][0]["from"] = "15550783".into();
        let mut old = message(hello);
        old["entry"][0]["changes"][0]["field"] = "history".into();
        let reaction = json!({"type": "reaction", "reaction": {"emoji": "👍"}});
        for body in [own, old, message(reaction), message(json!({"type": "unsupported"}))] {
            let mapped = mapped(&body);
            assert_eq!((mapped.starts, mapped.message), (Starts::Nothing, None));
            assert_eq!(mapped.dedup_key.as_deref(), Some("wamid.A"));
        }
    }

    #[test]
    fn a_sender_without_a_number_is_known_by_the_id_that_stands_for_it() {
        let mut body = message(json!({"type": "text", "text": {"body": "Hello"}}));
        let value = &mut body["entry"][0]["changes"][0]["value"];
        value["messages"][0].as_object_mut().unwrap().remove("from");
        value["messages"][0]["from_user_id"] = "DE.77".into();
        value["contacts"] = json!([{"profile": {"name": "Ida"}, "user_id": "DE.77"}]);
        let mapped = mapped(&body);
        assert_eq!(mapped.message.unwrap().thread_id, "106:DE.77");
        assert_eq!(mapped.actor.unwrap().name.as_deref(), Some("Ida"));
    }

    #[test]
    fn every_status_of_a_message_is_an_event_of_its_own_and_starts_nothing() {
        let statuses = json!({"statuses": [
            {"id": "wamid.A", "status": "sent", "timestamp": "1700000000"},
            {"id": "wamid.A", "status": "read", "timestamp": "1700000001"},
        ]});
        let request = post(&change("messages", statuses));
        let mapped = WhatsApp.map(&request.as_request(), &Settings::new()).unwrap();
        let keys: Vec<_> = mapped.iter().map(|event| event.dedup_key.as_deref().unwrap()).collect();
        assert_eq!(keys, ["wamid.A:sent", "wamid.A:read"]);
        assert!(mapped.iter().all(|event| event.starts == Starts::Nothing));
        assert!(mapped.iter().all(|event| event.subject.as_ref().unwrap().id == "wamid.A"));
    }

    #[test]
    fn a_change_without_messages_goes_by_its_body() {
        let mut body = change("account_update", json!({"event": "VERIFIED_ACCOUNT"}));
        body["entry"][0]["time"] = 1_700_000_000.into();
        let mapped = mapped(&body);
        assert_eq!((mapped.event_type.as_str(), mapped.dedup_key), ("account_update", None));
        assert_eq!((mapped.starts, mapped.occurred_at), (Starts::Nothing, Some(NOW)));
    }

    #[test]
    fn everything_in_one_request_is_told_in_order_and_each_alone_in_metas_shape() {
        let mut body = message(json!({"type": "text", "text": {"body": "one"}}));
        let value = &mut body["entry"][0]["changes"][0]["value"];
        value["contacts"] = json!([{"wa_id": "491555"}, {"wa_id": "491666"}]);
        let second = json!({"from": "491666", "id": "wamid.B"});
        value["messages"].as_array_mut().unwrap().push(second);
        value["statuses"] = json!([{"id": "wamid.C", "status": "read"}]);
        let other = change("account_update", json!({"event": "X"}));
        body["entry"].as_array_mut().unwrap().push(other["entry"][0].clone());
        body["entry"][1]["id"] = "w2".into();
        let request = post(&body);
        let mapped = WhatsApp.map(&request.as_request(), &Settings::new()).unwrap();
        let keys: Vec<_> = mapped.iter().map(|event| event.dedup_key.as_deref()).collect();
        assert_eq!(keys, [Some("wamid.A"), Some("wamid.B"), Some("wamid.C:read"), None]);
        let data = |part| WhatsApp.data(&request.as_request(), part);
        let metadata = &body["entry"][0]["changes"][0]["value"]["metadata"];
        assert_eq!(
            data(1),
            json!({"object": "whatsapp_business_account", "entry": [{"id": "w1", "changes": [{
                "field": "messages",
                "value": {"metadata": metadata, "contacts": [{"wa_id": "491666"}],
                    "messages": [{"from": "491666", "id": "wamid.B"}]},
            }]}]})
        );
        assert_eq!(
            data(2)["entry"][0]["changes"][0]["value"],
            json!({"metadata": metadata, "statuses": [{"id": "wamid.C", "status": "read"}]})
        );
        assert_eq!(data(3)["entry"], json!([body["entry"][1]]));
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        for content in [
            json!({"from": {}, "timestamp": "soon", "type": "text", "text": {"body": "hi"}}),
            json!({"type": 7, "from": null}),
            json!({"type": "image", "image": "x", "from": []}),
        ] {
            let mapped = mapped(&message(content));
            assert_eq!((mapped.actor, mapped.message), (None, None));
            assert_eq!(mapped.starts, Starts::Nothing);
        }
        let mut no_number = message(json!({"type": "text", "text": {"body": "hi"}}));
        no_number["entry"][0]["changes"][0]["value"]["metadata"] = "x".into();
        assert_eq!(mapped(&no_number).message, None);
    }

    #[test]
    fn a_body_that_names_no_event_is_unmapped() {
        let error = |body: &str| {
            let request = SignedRequest::post("https://hooks.example/", body);
            WhatsApp.map(&request.as_request(), &Settings::new()).unwrap_err()
        };
        for body in ["{}", "[]", r#"{"entry":[]}"#, r#"{"entry":[{"changes":{}}]}"#] {
            assert_eq!(error(body), MapError::Missing("/entry/0/changes/0"), "{body}");
        }
        for body in [
            json!({"entry": [{"changes": [7]}]}),
            change("messages", json!({"messages": [{}]})),
            change("messages", json!({"statuses": [{"status": "read"}]})),
            change("messages", json!({"statuses": [{"id": "a"}]})),
        ] {
            assert!(matches!(error(&body.to_string()), MapError::Missing(_)), "{body}");
        }
        for body in ["", "x", r#"{"entry":[],"entry":[]}"#] {
            assert!(matches!(error(body), MapError::NotJson(_)), "{body}");
        }
        let many = json!({"messages": vec![json!({"id": "a"}); 1001]});
        assert_eq!(error(&change("messages", many).to_string()), MapError::NotAList);
    }
}
