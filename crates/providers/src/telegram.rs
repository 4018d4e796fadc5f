//! Telegram bots: a secret token in a header, one update per request, and only some messages are for the bot.

use std::ops::Range;

use serde_json::{Value, json};
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{
    Actor, ConversationType, File, Mapped, Message, Starts, Subject, Trigger,
};
use wakepost_domain::ports::Entropy;
use wakepost_domain::work::Priority;

use crate::exchange::{Exchange, Step};
use crate::mapping::{self, MapError};
use crate::payload::{self, id_at, list_at, text_at};
use crate::provider::{Answer, Facts, Provider, SecretNeed, SignedHeader};
use crate::registration::{Answered, ApiCall, Registration};
use crate::reply::Replies;
use crate::reply::telegram::TelegramReplies;
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{self, ConfigError, Setting, Settings};
use crate::verdict::{Check, Refusal, Verified};
use crate::{header, signature};

const TOKEN: &str = "X-Telegram-Bot-Api-Secret-Token";

pub(crate) const API_URL: &str = "https://api.telegram.org";

const GREETING: &str = "Hello! Write to me here, and I will answer.";

/// A Telegram bot.
pub(crate) struct Telegram;

impl Provider for Telegram {
    fn name(&self) -> &'static str {
        "telegram"
    }

    fn facts(&self) -> Facts {
        Facts {
            signs_body: false,
            id_is_signed: false,
            priority: Priority::Interactive,
            secret: SecretNeed::Generated,
            ..Facts::usual("Telegram")
        }
    }

    /// Telegram has no form for it.
    fn steps(&self, webhook_url: &str) -> Vec<String> {
        vec![
            "Set bot_token to what @BotFather gave you, and ask for this set-up again: it registers the webhook."
                .to_owned(),
            format!(
                "Or call the bot API's setWebhook with the url {webhook_url} and the source's secret as secret_token."
            ),
        ]
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn check_secret(&self, secret: &str, _: &Settings) -> Result<(), ConfigError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        match secret.len() <= 256 && secret.bytes().all(plain) {
            true => Ok(()),
            false => Err(ConfigError::new(
                "secret",
                "must be at most 256 letters, digits, - and _, which is all that Telegram takes",
            )),
        }
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SignedHeader::exact("x-telegram-bot-api-secret-token")]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let given = header::one(request.headers, TOKEN)?.as_bytes();
        let secret_index =
            check.secret_that(|secret| Ok(signature::equal(given, secret.as_bytes())))?;
        Ok(Verified { secret_index, signed_at: None })
    }

    fn map(&self, request: &Request<'_>, settings: &Settings) -> Result<Vec<Mapped>, MapError> {
        let update = payload::whole(request.body)?;
        let update_id = id_at(&update, "/update_id").ok_or(MapError::Missing("/update_id"))?;
        let (kind, content) = present_field(&update).ok_or(MapError::Missing("/message"))?;
        let bot = Bot::read(settings).map_err(MapError::Settings)?;
        let message = match kind {
            "message" | "edited_message" => bot.hears(content),
            _ => None,
        };
        mapping::one(Mapped {
            dedup_key: Some(update_id),
            event_type: kind.to_owned(),
            starts: match &message {
                Some(_) if greeting(&update, settings).is_none() => Starts::Job,
                _ => Starts::Nothing,
            },
            occurred_at: occurred_at(content),
            actor: actor(content),
            subject: subject(content),
            message,
            provider_request_id: header::request_id(request.headers),
            ..Mapped::default()
        })
    }

    /// Telegram takes a call of its API as the answer to an update: the greeting needs no token and no second try.
    fn prescribed(&self, request: &Request<'_>, settings: &Settings) -> Option<Answer> {
        let update = payload::whole(request.body).ok()?;
        let text = greeting(&update, settings)?;
        let call = json!({
            "method": "sendMessage",
            "chat_id": update.pointer("/message/chat/id")?,
            "text": text,
        });
        Some(Answer::ok("application/json", call.to_string()))
    }

    fn registration(&self, at: &Registration<'_>) -> Option<ApiCall> {
        let token = settings::text(at.settings, "bot_token").ok()??;
        let base = settings::text(at.settings, "api_url").ok()?.unwrap_or(API_URL);
        let url = format!("{}/bot{token}/setWebhook", base.trim_end_matches('/'));
        let body = json!({
            "url": at.webhook_url,
            "secret_token": at.secret,
            "allowed_updates": ["message", "edited_message"],
        });
        Some(ApiCall::json(url, &body))
    }

    fn standing<'a>(
        &'a self,
        settings: &'a Settings,
    ) -> Option<Box<dyn Exchange<Option<String>> + 'a>> {
        let token = settings::text(settings, "bot_token").ok()??;
        let base = settings::text(settings, "api_url").ok()?.unwrap_or(API_URL);
        let place = format!("{}/bot{token}", base.trim_end_matches('/'));
        Some(Box::new(Standing { place, asked: 0 }))
    }

    fn registered(&self, answered: &Answered<'_>) -> Result<(), String> {
        let said: Value = serde_json::from_slice(answered.body).unwrap_or_default();
        match said["ok"].as_bool() {
            Some(true) => Ok(()),
            _ => Err(text_at(&said, "/description")
                .map_or_else(|| format!("it answered {}", answered.status), str::to_owned)),
        }
    }

    fn generate_secret(&self, _: &Settings, entropy: &dyn Entropy) -> Option<String> {
        Some(hex::encode(signature::random_key(entropy)))
    }

    fn replies(&self) -> Option<&'static dyn Replies> {
        Some(&TelegramReplies)
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
        request.set(TOKEN, secret)
    }
}

const SETTINGS: &[Setting] = &[
    Setting::for_replies(
        "bot_token",
        "Bot token",
        "What BotFather gave you for the bot: a number, a colon and letters. Replies are sent with it.",
    )
    .secret()
    .example("7007007:AAE…"),
    Setting::optional(
        "bot_username",
        "Bot username",
        "The bot's name, with or without the @. In groups only messages that mention this name, or answer the bot, \
         start a job; without it the bot listens in private chats only.",
    )
    .example("acme_desk_bot"),
    Setting::optional(
        "greeting",
        "Greeting",
        "What somebody is answered who opens a chat with the bot (/start), in place of a job. Empty: /start makes a \
         job like any text.",
    )
    .example("Hello! Ask me about your order."),
    Setting::optional(
        "api_url",
        "API address",
        "Leave it empty for https://api.telegram.org; set it for a Bot API server of your own, or a proxy.",
    )
.destination(),
];

static SAMPLES: &[Sample] = &[
    Sample::json("message", include_str!("../fixtures/telegram/message.json")),
    Sample::json("edited_message", include_str!("../fixtures/telegram/edited_message.json")),
    Sample::json("callback_query", include_str!("../fixtures/telegram/callback_query.json")),
];

/// Asks who the bot is, and then how its webhook does.
struct Standing {
    place: String,
    asked: usize,
}

impl Exchange<Option<String>> for Standing {
    fn next(&mut self, answered: Option<&Answered<'_>>) -> Step<Option<String>> {
        const METHODS: [&str; 2] = ["getMe", "getWebhookInfo"];
        let said: Value = answered
            .and_then(|answered| serde_json::from_slice(answered.body).ok())
            .unwrap_or_default();
        if answered.is_some() && said["ok"] != true {
            let why = text_at(&said, "/description").unwrap_or("it did not say why");
            return Step::Done(Some(format!("Telegram refuses bot_token: {why}")));
        }
        if let Some(method) = METHODS.get(self.asked) {
            self.asked += 1;
            return Step::Call(ApiCall::json(format!("{}/{method}", self.place), &json!({})));
        }
        let trouble = match text_at(&said, "/result/url") {
            None | Some("") => Some("Telegram has no address to send to: set it up".to_owned()),
            Some(_) => text_at(&said, "/result/last_error_message")
                .map(|error| format!("Telegram could not deliver an update: {error}")),
        };
        Step::Done(trouble)
    }
}

/// What somebody is answered who opens a chat with the bot. What follows `/start` in a link is for the agent.
fn greeting<'s>(update: &Value, settings: &'s Settings) -> Option<&'s str> {
    let message = update.get("message")?;
    let opens = text_at(message, "/chat/type") == Some("private")
        && text_at(message, "/text") == Some("/start");
    match settings.get("greeting") {
        None | Some(Value::Null) => Some(GREETING),
        given => given.and_then(Value::as_str).filter(|text| !text.is_empty()),
    }
    .filter(|_| opens)
}

/// The one field of an update besides its id: its name is the type, so that a kind of update which Telegram
/// adds tomorrow has a type too.
pub(crate) fn present_field(update: &Value) -> Option<(&str, &Value)> {
    let fields = update.as_object()?.iter();
    fields.map(|(name, value)| (name.as_str(), value)).find(|(_, value)| value.is_object())
}

/// When it was said, or last changed. An update has more than one date only where it was edited.
fn occurred_at(content: &Value) -> Option<Timestamp> {
    let date = content.get("edit_date").or_else(|| content.get("date"))?.as_i64()?;
    Some(Timestamp::from_secs(date))
}

/// Who did it. Telegram knows who is logged in, but not who speaks for a channel or as an anonymous admin.
fn actor(content: &Value) -> Option<Actor> {
    let user = ["from", "user"].iter().find_map(|name| content.get(name))?;
    let names = [text_at(user, "/first_name"), text_at(user, "/last_name")];
    let full_name = names.into_iter().flatten().collect::<Vec<_>>().join(" ");
    Some(Actor {
        id: Some(id_at(user, "/id")?),
        name: Some(full_name).filter(|name| !name.is_empty()),
        email: None,
        verified: content.get("sender_chat").is_none(),
    })
}

/// The message, whose number means something in its chat only; an edit has the same.
fn subject(content: &Value) -> Option<Subject> {
    let message = content.get("message").unwrap_or(content);
    let number = id_at(message, "/message_id")?;
    let chat = id_at(message, "/chat/id")?;
    // Only supergroups and channels have links; the private ones for members, by an id without its -100.
    let has_links = matches!(text_at(message, "/chat/type"), Some("supergroup" | "channel"));
    let private_link = || chat.strip_prefix("-100").map(|id| format!("c/{id}"));
    let place = text_at(message, "/chat/username").map(str::to_owned).or_else(private_link);
    let url = place.filter(|_| has_links).map(|place| format!("https://t.me/{place}/{number}"));
    Some(Subject { kind: "message".to_owned(), id: format!("{chat}:{number}"), url })
}

/// What the settings say of the bot itself.
struct Bot<'s> {
    /// Its name, without the @.
    username: Option<&'s str>,
    /// Its id, which its token begins with.
    id: Option<&'s str>,
}

impl<'s> Bot<'s> {
    fn read(settings: &'s Settings) -> Result<Bot<'s>, ConfigError> {
        let username = settings::text(settings, "bot_username")?;
        let username = username.map(|name| name.strip_prefix('@').unwrap_or(name));
        let token = settings::text(settings, "bot_token")?;
        let id = token.and_then(|token| token.split_once(':')).map(|(id, _)| id);
        Ok(Bot { username: username.filter(|name| !name.is_empty()), id })
    }

    /// The message, if it is the bot's business.
    fn hears(&self, content: &Value) -> Option<Message> {
        let said = Said::read(content)?;
        let kind = text_at(content, "/chat/type")?;
        if self.spoke(content, kind) {
            return None;
        }
        let calls = self.calls(&said);
        let command = said.command();
        let (conversation_type, trigger) = match kind {
            "private" if command => (ConversationType::Direct, Trigger::Command),
            "private" => (ConversationType::Direct, Trigger::Direct),
            // A bare command in a group may be meant for any bot in it; with our name it is ours.
            "group" | "supergroup" if calls.first().is_some_and(|call| call.is_command) => {
                (ConversationType::Group, Trigger::Command)
            }
            "group" | "supergroup" if !calls.is_empty() => {
                (ConversationType::Group, Trigger::Mention)
            }
            "group" | "supergroup" if self.is_answered(content) => {
                (ConversationType::Group, Trigger::Reply)
            }
            _ => return None,
        };
        let thread_id = thread_id(content)?;
        let text = without(said.text, &calls);
        Some(Message { thread_id, text, conversation_type, trigger, files: files(content) })
    }

    /// Whether the bot itself wrote it, or somebody sent it through the bot.
    fn spoke(&self, content: &Value, kind: &str) -> bool {
        // In a private chat there is no other bot.
        let writer = content.get("from").filter(|writer| is_bot(writer));
        let by_us = writer.is_some_and(|writer| kind == "private" || self.is(writer));
        by_us || content.get("via_bot").is_some_and(|bot| self.is(bot))
    }

    /// Whether it answers a message of the bot's. In a topic every message "answers" the one that opened it.
    fn is_answered(&self, content: &Value) -> bool {
        content.get("reply_to_message").is_some_and(|message| {
            message.get("from").is_some_and(|writer| self.is(writer))
                && message.get("forum_topic_created").is_none()
        })
    }

    /// Whether this user is the bot.
    fn is(&self, user: &Value) -> bool {
        let same_name = |name: &str| text_at(user, "/username").is_some_and(|u| eq(u, name));
        let same_id = |id: &str| id_at(user, "/id").as_deref() == Some(id);
        is_bot(user) && (self.username.is_some_and(same_name) || self.id.is_some_and(same_id))
    }

    /// Where the text calls the bot by its name, in order.
    fn calls(&self, said: &Said<'_>) -> Vec<Call> {
        let Some(username) = self.username else { return Vec::new() };
        let named = |entity: &Value| {
            let range = said.range(entity)?;
            let (is_command, at) = match text_at(entity, "/type")? {
                "mention" => (false, range.start),
                "bot_command" => (true, range.start + said.text[range.clone()].find('@')?),
                _ => return None,
            };
            let name = said.text[at..range.end].strip_prefix('@')?;
            eq(name, username).then_some(Call { range: at..range.end, is_command })
        };
        let mut calls: Vec<_> = said.entities.iter().filter_map(named).collect();
        calls.sort_by_key(|call| call.range.start);
        calls.dedup_by(|later, earlier| later.range.start < earlier.range.end);
        calls
    }
}

fn is_bot(user: &Value) -> bool {
    user.get("is_bot").and_then(Value::as_bool).unwrap_or(false)
}

/// Usernames are ASCII, and any case of letters means the same.
fn eq(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// A place in a text that names the bot.
struct Call {
    range: Range<usize>,
    is_command: bool,
}

/// More marks than Telegram allows in one message are not looked at.
const ENTITIES_MAX: usize = 100;

/// What a message says, and which stretches of it mean more than their letters.
struct Said<'m> {
    text: &'m str,
    entities: &'m [Value],
}

impl<'m> Said<'m> {
    /// The text, or what is written under a picture.
    fn read(content: &'m Value) -> Option<Said<'m>> {
        let (text, entities) = match text_at(content, "/text") {
            Some(text) => (text, list_at(content, "/entities")),
            None => (text_at(content, "/caption")?, list_at(content, "/caption_entities")),
        };
        Some(Said { text, entities: &entities[..entities.len().min(ENTITIES_MAX)] })
    }

    /// The bytes of the text that an entity is about: Telegram counts in UTF-16 units.
    fn range(&self, entity: &Value) -> Option<Range<usize>> {
        let unit = |name| usize::try_from(entity.get(name)?.as_u64()?).ok();
        let start = unit("offset")?;
        let end = start.checked_add(unit("length")?)?;
        Some(byte_at(self.text, start)?..byte_at(self.text, end)?)
    }

    /// Whether it begins with a command.
    fn command(&self) -> bool {
        self.entities.iter().any(|entity| {
            text_at(entity, "/type") == Some("bot_command")
                && entity.get("offset").and_then(Value::as_u64) == Some(0)
        })
    }
}

/// Where this many UTF-16 units end; `None` beyond the text or inside a character.
fn byte_at(text: &str, units: usize) -> Option<usize> {
    let mut passed = 0;
    for (at, character) in text.char_indices() {
        if passed >= units {
            return (passed == units).then_some(at);
        }
        passed += character.len_utf16();
    }
    (passed == units).then_some(text.len())
}

/// The text without the places that call the bot, and without the gap that each would leave.
fn without(text: &str, calls: &[Call]) -> String {
    let mut left = String::with_capacity(text.len());
    let mut from = 0;
    for call in calls {
        left.push_str(&text[from..call.range.start]);
        from = call.range.end;
        if left.is_empty() {
            // "@bot, do this" is an address and then what to do.
            from = text.len() - text[from..].trim_start_matches([',', ':', ' ']).len();
        } else if left.ends_with(char::is_whitespace) && text[from..].starts_with(' ') {
            from += 1;
        }
    }
    left.push_str(&text[from..]);
    left.trim().to_owned()
}

/// The chat, and the topic in it. The id of a thread means a topic only where the message says so: elsewhere
/// Telegram also numbers chains of replies.
fn thread_id(content: &Value) -> Option<String> {
    let chat = id_at(content, "/chat/id")?;
    let topic = id_at(content, "/message_thread_id").filter(|_| in_topic(content));
    Some(topic.map_or_else(|| chat.clone(), |topic| format!("{chat}:{topic}")))
}

/// Whether a message is in a topic of a forum.
pub(crate) fn in_topic(message: &Value) -> bool {
    message.get("is_topic_message").and_then(Value::as_bool) == Some(true)
}

/// What came with the message. Telegram gives an address for a file only when asked with the bot's token.
fn files(content: &Value) -> Vec<File> {
    // An animation is there a second time, as a document, for clients that know no animations.
    let kinds = match content.get("animation") {
        Some(_) => ["animation", "video", "audio", "voice", "video_note"],
        None => ["document", "video", "audio", "voice", "video_note"],
    };
    let photo = list_at(content, "/photo").last().map(|photo| (photo, Some("image/jpeg")));
    let others = kinds.iter().filter_map(|kind| Some((content.get(kind)?, None)));
    let file = |(file, media_type): (&Value, Option<&str>)| {
        let media_type = text_at(file, "/mime_type").or(media_type).map(str::to_owned);
        let name = text_at(file, "/file_name").map(str::to_owned);
        let bytes = file.get("file_size").and_then(Value::as_u64);
        Some(File { id: Some(id_at(file, "/file_id")?), name, media_type, bytes, url: None })
    };
    photo.into_iter().chain(others).filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::{NOW, map_with, settings, verify};
    use crate::verdict::Why;

    const SECRET: &str = "a-Secret_1";

    fn update(content: Value) -> SignedRequest {
        let mut update = content;
        update["update_id"] = 10_001.into();
        let mut request = SignedRequest::post("https://hooks.example/in/src_1", update.to_string());
        Telegram.sign(&mut request, SECRET, &Settings::new(), "", NOW).unwrap();
        request
    }

    fn bot() -> Settings {
        settings(&[("bot_username", "@Acme_bot"), ("bot_token", "7007:AAE")])
    }

    fn mapped(content: Value) -> Mapped {
        map_with(&Telegram, &update(content), &bot()).unwrap()
    }

    /// A message in a group, with one entity of this type where the given text stands in it.
    fn in_group(text: &str, entity_type: &str, of: &str) -> Value {
        let before = &text[..text.find(of).unwrap()];
        let (offset, length) = (before.encode_utf16().count(), of.encode_utf16().count());
        json!({"message": {
            "message_id": 5, "date": 1_700_000_000, "text": text,
            "from": {"id": 1, "is_bot": false, "first_name": "Ada"},
            "chat": {"id": -1_001_234, "type": "supergroup", "title": "Ops"},
            "entities": [{"type": entity_type, "offset": offset, "length": length}],
        }})
    }

    fn private(text: &str) -> Value {
        json!({"message": {
            "message_id": 5, "date": 1_700_000_000, "text": text,
            "from": {"id": 1, "is_bot": false, "first_name": "Ada", "last_name": "Moreno"},
            "chat": {"id": 1, "type": "private", "username": "ada"},
        }})
    }

    #[test]
    fn its_standing_is_what_telegram_says() {
        let asked = |answers: [Value; 2]| {
            let settings = bot();
            let mut exchange = Telegram.standing(&settings).unwrap();
            let headers = http::HeaderMap::new();
            let mut step = exchange.next(None);
            for (answer, method) in answers.iter().zip(["getMe", "getWebhookInfo"]) {
                match step {
                    Step::Call(call) => {
                        assert!(call.url.ends_with(&format!("/bot7007:AAE/{method}")))
                    }
                    over => return over,
                }
                let body = answer.to_string();
                let status = http::StatusCode::OK;
                let answered = Answered { status, headers: &headers, body: body.as_bytes() };
                step = exchange.next(Some(&answered));
            }
            step
        };
        let good = json!({"ok": true, "result": {"username": "acme_bot"}});
        let info = |result: Value| json!({"ok": true, "result": result});
        let says = |step| match step {
            Step::Done(error) => error,
            other => panic!("{other:?}"),
        };
        let fine = info(json!({"url": "https://hooks.example/in/src_1"}));
        assert_eq!(says(asked([good.clone(), fine])), None);
        let failing =
            info(json!({"url": "https://h", "last_error_message": "Wrong response: 404"}));
        assert!(says(asked([good.clone(), failing])).unwrap().contains("Wrong response: 404"));
        assert!(says(asked([good, info(json!({"url": ""}))])).unwrap().contains("set it up"));
        let refused = json!({"ok": false, "description": "Unauthorized"});
        assert!(says(asked([refused, json!({})])).unwrap().contains("Unauthorized"));
        assert!(Telegram.standing(&Settings::new()).is_none());
    }

    #[test]
    fn whoever_opens_a_chat_is_greeted_and_makes_no_job() {
        let greeted = |text: &str, settings: &Settings| {
            let request = update(private(text));
            let answer = Telegram.prescribed(&request.as_request(), settings);
            let starts = map_with(&Telegram, &request, settings).unwrap().starts;
            assert_eq!(answer.is_some(), starts == Starts::Nothing, "{text}");
            answer.map(|answer| serde_json::from_str::<Value>(&answer.body).unwrap())
        };
        let said = greeted("/start", &bot()).unwrap();
        assert_eq!(said, json!({"method": "sendMessage", "chat_id": 1, "text": GREETING}));
        let own = settings(&[("greeting", "Hi!")]);
        assert_eq!(greeted("/start", &own).unwrap()["text"], "Hi!");
        assert_eq!(greeted("/start", &settings(&[("greeting", "")])), None);
        assert_eq!(
            greeted("/start order-8123", &bot()),
            None,
            "a link's own word is for the agent"
        );
        assert_eq!(greeted("hello", &bot()), None);
        let group = update(in_group("/start", "bot_command", "/start"));
        assert_eq!(Telegram.prescribed(&group.as_request(), &bot()), None);
    }

    #[test]
    fn only_the_whole_secret_is_accepted() {
        let mut request = update(private("hi"));
        assert!(verify(&Telegram, &request, &[SECRET]).is_ok());
        for bad in ["a-Secret_", "a-Secret_12", "A-secret_1", "a-Secret_1 "] {
            request.set(TOKEN, bad).unwrap();
            let refused = verify(&Telegram, &request, &[SECRET]);
            assert_eq!(refused, Err(Refusal::Signature(Why::Mismatch)), "{bad}");
        }
    }

    #[test]
    fn a_secret_that_telegram_would_refuse_is_refused_here() {
        let settings = Settings::new();
        assert!(Telegram.check_secret(&"x".repeat(256), &settings).is_ok());
        for bad in ["a secret", "sécret", "a.b", &"x".repeat(257)] {
            assert!(Telegram.check_secret(bad, &settings).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_private_message_starts_a_job_and_says_who_wrote_it() {
        let mapped = mapped(private("Which invoices are open?"));
        assert_eq!((mapped.event_type.as_str(), mapped.starts), ("message", Starts::Job));
        assert_eq!(mapped.dedup_key.as_deref(), Some("10001"));
        assert_eq!(mapped.occurred_at, Some(NOW));
        let actor = mapped.actor.unwrap();
        let (id, name) = (actor.id.as_deref(), actor.name.as_deref());
        assert_eq!((id, name, actor.verified), (Some("1"), Some("Ada Moreno"), true));
        let subject = mapped.subject.unwrap();
        assert_eq!(
            (subject.text("telegram").as_str(), subject.url),
            ("telegram:message:1:5", None)
        );
        let message = mapped.message.unwrap();
        assert_eq!((message.thread_id.as_str(), &*message.text), ("1", "Which invoices are open?"));
        assert_eq!(message.trigger, Trigger::Direct);
        assert_eq!(message.conversation_type, ConversationType::Direct);
    }

    #[test]
    fn an_edit_is_a_new_event_about_the_same_message() {
        let mut content = private("Which invoices?");
        content["edited_message"] = content["message"].take();
        content.as_object_mut().unwrap().remove("message");
        content["edited_message"]["edit_date"] = 1_700_000_060.into();
        let mapped = mapped(content);
        assert_eq!((mapped.event_type.as_str(), mapped.starts), ("edited_message", Starts::Job));
        assert_eq!(mapped.occurred_at, Some(Timestamp::from_secs(1_700_000_060)));
        assert_eq!(mapped.subject.unwrap().id, "1:5");
    }

    #[test]
    fn a_command_in_private_is_one() {
        let mut content = private("/start abc");
        content["message"]["entities"] = json!([{"type": "bot_command", "offset": 0, "length": 6}]);
        let message = mapped(content).message.unwrap();
        assert_eq!((message.trigger, message.text.as_str()), (Trigger::Command, "/start abc"));
    }

    #[test]
    fn in_a_group_a_mention_calls_the_bot_and_is_left_out_of_the_text() {
        for (text, left) in [
            ("@acme_bot what is open?", "what is open?"),
            ("@ACME_BOT, what is open?", "what is open?"),
            ("say, @acme_bot what is open?", "say, what is open?"),
            ("what is open, @acme_bot", "what is open,"),
            ("what is open?\n@acme_bot\nhurry", "what is open?\n\nhurry"),
            ("@acme_bot", ""),
        ] {
            let call = if text.contains("ACME") { "@ACME_BOT" } else { "@acme_bot" };
            let mapped = mapped(in_group(text, "mention", call));
            assert_eq!(mapped.starts, Starts::Job);
            let message = mapped.message.unwrap();
            assert_eq!((message.text.as_str(), message.trigger), (left, Trigger::Mention));
            assert_eq!(message.conversation_type, ConversationType::Group);
            assert_eq!(message.thread_id, "-1001234");
        }
    }

    #[test]
    fn a_mention_is_found_behind_characters_of_two_units() {
        let message = mapped(in_group("🚀 é 漢 @acme_bot go", "mention", "@acme_bot")).message;
        assert_eq!(message.unwrap().text, "🚀 é 漢 go");
    }

    #[test]
    fn a_command_with_the_bots_name_is_for_the_bot_and_one_without_is_not() {
        let message = mapped(in_group("/ask@acme_bot now", "bot_command", "/ask@acme_bot")).message;
        let message = message.unwrap();
        assert_eq!((message.text.as_str(), message.trigger), ("/ask now", Trigger::Command));
        for (text, command) in [("/ask now", "/ask"), ("/ask@other_bot now", "/ask@other_bot")] {
            assert_eq!(mapped(in_group(text, "bot_command", command)).starts, Starts::Nothing);
        }
    }

    #[test]
    fn in_a_group_other_talk_starts_nothing() {
        for content in [
            in_group("hello all", "bold", "hello"),
            in_group("@acme_bottle hi", "mention", "@acme_bottle"),
            in_group("@other hi", "mention", "@other"),
            // The name without the mark of a mention is only a text: in a link, in code.
            in_group("see x@acme_bot", "email", "x@acme_bot"),
        ] {
            let mapped = mapped(content);
            assert_eq!((mapped.starts, mapped.message), (Starts::Nothing, None));
        }
    }

    #[test]
    fn in_a_group_an_answer_to_the_bot_is_for_the_bot() {
        let answer = |replied: Value| {
            let mut content = in_group("yes, do it", "bold", "yes");
            content["message"]["reply_to_message"] = replied;
            mapped(content).message.map(|message| message.trigger)
        };
        let us = json!({"id": 7007, "is_bot": true, "username": "renamed_bot"});
        assert_eq!(answer(json!({"from": us})), Some(Trigger::Reply));
        let us = json!({"id": 1, "is_bot": true, "username": "acme_bot"});
        assert_eq!(answer(json!({"from": us})), Some(Trigger::Reply));
        assert_eq!(answer(json!({"from": us, "forum_topic_created": {"name": "t"}})), None);
        let person = json!({"id": 7007, "is_bot": false, "username": "acme_bot"});
        assert_eq!(answer(json!({"from": person})), None);
    }

    #[test]
    fn without_its_name_the_bot_hears_private_chats_only() {
        let group = update(in_group("@acme_bot hi", "mention", "@acme_bot"));
        let mapped = map_with(&Telegram, &group, &Settings::new()).unwrap();
        assert_eq!(mapped.starts, Starts::Nothing);
        let mapped = map_with(&Telegram, &update(private("hi")), &Settings::new()).unwrap();
        assert_eq!(mapped.starts, Starts::Job);
    }

    #[test]
    fn the_bots_own_messages_start_nothing() {
        let us = json!({"id": 7007, "is_bot": true, "username": "acme_bot"});
        let mut own = in_group("@acme_bot hi", "mention", "@acme_bot");
        own["message"]["from"] = us.clone();
        let mut in_private = private("hi");
        in_private["message"]["from"] = json!({"id": 9, "is_bot": true});
        let mut through_us = private("hi");
        through_us["message"]["via_bot"] = us;
        for content in [own, in_private, through_us] {
            assert_eq!(mapped(content).starts, Starts::Nothing);
        }
    }

    #[test]
    fn a_topic_is_a_thread_of_its_own_and_a_chain_of_replies_is_not() {
        let mut content = in_group("@acme_bot hi", "mention", "@acme_bot");
        content["message"]["message_thread_id"] = 77.into();
        assert_eq!(mapped(content.clone()).message.unwrap().thread_id, "-1001234");
        content["message"]["is_topic_message"] = true.into();
        let mapped = mapped(content);
        assert_eq!(mapped.message.unwrap().thread_id, "-1001234:77");
        assert_eq!(mapped.subject.unwrap().url.as_deref(), Some("https://t.me/c/1234/5"));
    }

    #[test]
    fn a_picture_with_words_under_it_is_a_message_with_a_file() {
        let mut content = private("");
        content["message"]["caption"] = "What is this?".into();
        content["message"]["photo"] =
            json!([{"file_id": "small"}, {"file_id": "large", "file_size": 90}]);
        let message = mapped(content).message.unwrap();
        assert_eq!(message.text, "What is this?");
        assert_eq!(message.files.len(), 1);
        let file = &message.files[0];
        assert_eq!((file.id.as_deref(), file.bytes), (Some("large"), Some(90)));
    }

    #[test]
    fn an_animation_is_one_file_though_telegram_tells_it_twice() {
        let mut content = private("");
        content["message"]["caption"] = "look".into();
        let file = json!({"file_id": "f", "file_name": "a.mp4", "mime_type": "video/mp4"});
        content["message"]["animation"] = file.clone();
        content["message"]["document"] = file;
        let files = mapped(content).message.unwrap().files;
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].media_type.as_deref(), Some("video/mp4"));
    }

    #[test]
    fn other_updates_are_known_by_their_field_and_start_nothing() {
        let user = json!({"id": 1, "is_bot": false, "first_name": "Ada"});
        let post = json!({"message_id": 1, "chat": {"id": -1, "type": "channel"}, "text": "hi"});
        for (kind, content) in [
            ("callback_query", json!({"from": user})),
            ("channel_post", post),
            ("my_chat_member", json!({"from": user, "date": 5})),
            ("something_new", json!({})),
        ] {
            let mapped = mapped(json!({kind: content}));
            assert_eq!((mapped.event_type.as_str(), mapped.starts), (kind, Starts::Nothing));
        }
    }

    #[test]
    fn nobody_vouches_for_who_speaks_as_a_channel() {
        let mut content = in_group("@acme_bot hi", "mention", "@acme_bot");
        content["message"]["sender_chat"] = json!({"id": -1_001_234, "type": "supergroup"});
        assert!(!mapped(content).actor.unwrap().verified);
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        for message in [
            json!({}),
            json!({"text": 1, "chat": [], "from": "x", "date": "soon"}),
            json!({"text": "hi", "chat": {"type": "private"}}),
            json!({"text": "hi", "chat": {"id": 1.5, "type": "private"}, "from": {"id": {}}}),
        ] {
            let mapped = mapped(json!({"message": message}));
            assert_eq!(mapped.event_type, "message");
            assert_eq!((mapped.actor, mapped.subject, mapped.message), (None, None, None));
        }
    }

    #[test]
    fn entities_that_lie_about_the_text_are_passed_over() {
        for (offset, length) in
            [(json!(0), json!(99)), (json!(-1), json!(9)), (json!(u64::MAX), json!(u64::MAX))]
        {
            let mut content = in_group("🚀@acme_bot", "mention", "@acme_bot");
            content["message"]["entities"][0]["offset"] = offset;
            content["message"]["entities"][0]["length"] = length;
            assert_eq!(mapped(content).starts, Starts::Nothing);
        }
        let mut inside_a_character = in_group("🚀@acme_bot", "mention", "@acme_bot");
        inside_a_character["message"]["entities"][0]["offset"] = 1.into();
        assert_eq!(mapped(inside_a_character).starts, Starts::Nothing);
    }

    #[test]
    fn an_update_without_its_id_or_its_field_is_unmapped() {
        let request = |body: &str| SignedRequest::post("https://hooks.example/", body);
        let error = |body: &str| map_with(&Telegram, &request(body), &bot()).unwrap_err();
        assert_eq!(error(r#"{"message":{}}"#), MapError::Missing("/update_id"));
        assert_eq!(error(r#"{"update_id":1}"#), MapError::Missing("/message"));
        for body in ["", "[]x", r#"{"update_id":1,"update_id":2,"message":{}}"#] {
            assert!(matches!(error(body), MapError::NotJson(_)), "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_text_and_no_entity_make_it_panic(
            text in "\\PC{0,12}@acme_bot\\PC{0,12}",
            marks in prop::collection::vec((0u64..40, 0u64..40, 0usize..2), 0..4),
        ) {
            let mut content = private(&text);
            content["message"]["entities"] = marks
                .iter()
                .map(|(offset, length, kind)| {
                    let kind = ["mention", "bot_command"][*kind];
                    json!({"type": kind, "offset": offset, "length": length})
                })
                .collect();
            prop_assert!(mapped(content).message.is_some());
        }
    }
}
