//! Telegram's Bot API: sending, editing, and registering a webhook.

use std::collections::HashMap;

use http::Method;
use serde_json::{Map, Value, json};

use super::call::{Call, Response};
use super::markdown_v2;
use super::server::{Platform, StandIn};
use super::violations::Violations;
use crate::source::now;

/// The longest text, counted after its marks are taken away.
const TEXT_UNITS_MAX: usize = 4096;

/// A message in a chat.
#[derive(Debug, Clone, PartialEq)]
pub struct TelegramMessage {
    /// Its number in the chat.
    pub id: i64,
    /// Whether the bot sent it.
    pub by_bot: bool,
    /// What people see, without marks.
    pub text: String,
    /// The topic it is in.
    pub topic: Option<i64>,
    /// The message it answers.
    pub answers: Option<i64>,
    /// How often it was changed.
    pub edits: usize,
    /// What was sent, to tell a change from none.
    source: Source,
}

/// A text, and how it is to be read.
type Source = (String, Option<String>);

/// One bot, and the chats it is in.
pub struct Telegram {
    token: String,
    chats: HashMap<i64, Vec<TelegramMessage>>,
    topics: Vec<(i64, i64)>,
    webhook: Map<String, Value>,
}

impl Telegram {
    /// A bot with this token, such as `7007:AAE`.
    pub async fn start(token: &str) -> Platform<Telegram> {
        let telegram = Telegram {
            token: token.to_owned(),
            chats: HashMap::new(),
            topics: Vec::new(),
            webhook: Map::new(),
        };
        Platform::start(|_| telegram).await
    }

    /// Somebody says something, in a chat that the bot is in from now on.
    pub fn hears(&mut self, chat: i64, id: i64, text: &str) {
        self.chats.entry(chat).or_default().push(TelegramMessage {
            id,
            by_bot: false,
            text: text.to_owned(),
            topic: None,
            answers: None,
            edits: 0,
            source: (text.to_owned(), None),
        });
    }

    /// A chat has this topic.
    pub fn has_topic(&mut self, chat: i64, topic: i64) {
        self.topics.push((chat, topic));
    }

    /// What the bot said in a chat, in order.
    pub fn said(&self, chat: i64) -> Vec<TelegramMessage> {
        let messages = self.chats.get(&chat).into_iter().flatten();
        messages.filter(|message| message.by_bot).cloned().collect()
    }

    /// What was registered last.
    pub fn webhook(&self) -> &Map<String, Value> {
        &self.webhook
    }

    fn send(
        &mut self,
        arguments: &Arguments,
        violations: &mut Violations,
    ) -> Result<Value, Refusal> {
        const KNOWN: &[&str] = &[
            "allow_paid_broadcast",
            "business_connection_id",
            "chat_id",
            "disable_notification",
            "entities",
            "link_preview_options",
            "message_effect_id",
            "message_thread_id",
            "parse_mode",
            "protect_content",
            "reply_markup",
            "reply_parameters",
            "text",
        ];
        violations.only("sendMessage", &arguments.0, KNOWN);
        let (text, source) = arguments.message(violations)?;
        let chat = arguments.chat()?;
        let topic = arguments.number("message_thread_id");
        let messages = self.chats.get_mut(&chat).ok_or_else(|| bad_request("chat not found"))?;
        if let Some(topic) = topic
            && !self.topics.contains(&(chat, topic))
        {
            violations.note(format!("sendMessage to a topic {topic} that is not there"));
            return Err(bad_request("message thread not found"));
        }
        let answers = arguments.answered(messages)?;
        let message = TelegramMessage {
            id: 1 + messages.iter().map(|message| message.id).max().unwrap_or_default(),
            by_bot: true,
            text,
            topic,
            answers,
            edits: 0,
            source,
        };
        messages.push(message.clone());
        Ok(message.shown(chat))
    }

    fn edit(
        &mut self,
        arguments: &Arguments,
        violations: &mut Violations,
    ) -> Result<Value, Refusal> {
        const KNOWN: &[&str] = &[
            "business_connection_id",
            "chat_id",
            "entities",
            "inline_message_id",
            "link_preview_options",
            "message_id",
            "parse_mode",
            "reply_markup",
            "text",
        ];
        violations.only("editMessageText", &arguments.0, KNOWN);
        let (text, source) = arguments.message(violations)?;
        let chat = arguments.chat()?;
        let messages = self.chats.get_mut(&chat).ok_or_else(|| bad_request("chat not found"))?;
        let id = arguments.number("message_id");
        let id = id.ok_or_else(|| bad_request("message identifier is not specified"))?;
        let message = messages.iter_mut().find(|message| message.id == id);
        let message = message.ok_or_else(|| bad_request("message to edit not found"))?;
        if !message.by_bot {
            violations.note("editMessageText changes somebody else's message");
            return Err(bad_request("message can't be edited"));
        }
        if message.source == source {
            return Err(bad_request(
                "message is not modified: specified new message content and reply markup are exactly the same as a \
                 current content and reply markup of the message",
            ));
        }
        message.text = text;
        message.source = source;
        message.edits += 1;
        Ok(message.shown(chat))
    }

    fn set_webhook(
        &mut self,
        arguments: &Arguments,
        violations: &mut Violations,
    ) -> Result<Value, Refusal> {
        const KNOWN: &[&str] = &[
            "allowed_updates",
            "certificate",
            "drop_pending_updates",
            "ip_address",
            "max_connections",
            "secret_token",
            "url",
        ];
        violations.only("setWebhook", &arguments.0, KNOWN);
        if !arguments.text("url").unwrap_or_default().starts_with("https://") {
            return Err(bad_request("bad webhook: An HTTPS URL must be provided for webhook"));
        }
        let secret = arguments.text("secret_token").unwrap_or_default();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if secret.len() > 256 || !secret.bytes().all(is_plain) {
            return Err(bad_request("secret token contains unallowed characters"));
        }
        self.webhook = arguments.0.clone();
        Ok(true.into())
    }
}

impl StandIn for Telegram {
    fn answer(&mut self, call: &Call, violations: &mut Violations) -> Response {
        let path = call.path.trim_start_matches("/bot");
        let (token, method) = path.split_once('/').unwrap_or_default();
        if token != self.token {
            violations.note("a wrong bot token");
            return refused(&Refusal { status: 401, description: "Unauthorized".to_owned() });
        }
        let answer = Arguments::read(call, violations).and_then(|arguments| match method {
            "sendMessage" => self.send(&arguments, violations),
            "editMessageText" => self.edit(&arguments, violations),
            "setWebhook" => self.set_webhook(&arguments, violations),
            "getMe" => Ok(json!({
                "id": 7007, "is_bot": true, "first_name": "Desk", "username": "acme_desk_bot",
                "can_join_groups": true, "can_read_all_group_messages": false,
            })),
            "getWebhookInfo" => Ok(json!({
                "url": self.webhook.get("url").cloned().unwrap_or_else(|| "".into()),
                "has_custom_certificate": false, "pending_update_count": 0,
            })),
            _ => {
                violations.note(format!("there is no method {method}"));
                Err(Refusal { status: 404, description: "Not Found".to_owned() })
            }
        });
        match answer {
            Ok(result) => Response::json(200, json!({"ok": true, "result": result})),
            Err(refusal) => refused(&refusal),
        }
    }

    fn broken(&self) -> Response {
        refused(&Refusal { status: 500, description: "Internal Server Error".to_owned() })
    }

    fn rate_limited(&self, retry_after_s: u32) -> Response {
        let description = format!("Too Many Requests: retry after {retry_after_s}");
        let parameters = json!({"retry_after": retry_after_s});
        let body = json!({"ok": false, "error_code": 429, "description": description, "parameters": parameters});
        Response::json(429, body).with_header("retry-after", retry_after_s)
    }
}

/// Why a call is not done.
struct Refusal {
    status: u16,
    description: String,
}

fn bad_request(why: &str) -> Refusal {
    Refusal { status: 400, description: format!("Bad Request: {why}") }
}

fn refused(Refusal { status, description }: &Refusal) -> Response {
    let body = json!({"ok": false, "error_code": status, "description": description});
    Response::json(*status, body)
}

/// What a method was called with, as JSON, as a form, or in the query.
struct Arguments(Map<String, Value>);

impl Arguments {
    fn read(call: &Call, violations: &mut Violations) -> Result<Arguments, Refusal> {
        let fields = match call.method == Method::GET || call.body.is_empty() {
            true => call.query.clone(),
            false if call.says("application/x-www-form-urlencoded") => call.form(),
            false => {
                let object = call.object(violations).map(Arguments);
                return object.ok_or_else(|| bad_request("can't parse JSON object"));
            }
        };
        Ok(Arguments(fields.into_iter().map(|(name, value)| (name, value.into())).collect()))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// A number, also as text.
    fn number(&self, name: &str) -> Option<i64> {
        let value = self.0.get(name)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }

    fn chat(&self) -> Result<i64, Refusal> {
        self.number("chat_id").ok_or_else(|| bad_request("chat_id is empty"))
    }

    /// What people will see, and what was sent.
    fn message(&self, violations: &mut Violations) -> Result<(String, Source), Refusal> {
        let source = self.text("text").unwrap_or_default();
        let mode = self.text("parse_mode");
        let text = match mode {
            None | Some("") => Ok(source.to_owned()),
            Some("MarkdownV2") => markdown_v2::plain(source),
            Some(_) => return Err(bad_request("unsupported parse_mode")),
        };
        let text = text.map_err(|why| {
            violations.note(format!("MarkdownV2: {why}"));
            bad_request(&format!("can't parse entities: {why}"))
        })?;
        if text.trim().is_empty() {
            violations.note("a message without a text");
            return Err(bad_request("message text is empty"));
        }
        let units = text.encode_utf16().count();
        if units > TEXT_UNITS_MAX {
            violations.note(format!("a message of {units} characters"));
            return Err(bad_request("message is too long"));
        }
        Ok((text, (source.to_owned(), mode.map(str::to_owned))))
    }

    /// The message that is answered, if it is there.
    fn answered(&self, messages: &[TelegramMessage]) -> Result<Option<i64>, Refusal> {
        let parameters = match self.0.get("reply_parameters") {
            None => return Ok(None),
            Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
            Some(other) => other.clone(),
        };
        let id = parameters["message_id"].as_i64();
        let id = id.ok_or_else(|| bad_request("message identifier is not specified"))?;
        match messages.iter().any(|message| message.id == id) {
            true => Ok(Some(id)),
            false if parameters["allow_sending_without_reply"] == true => Ok(None),
            false => Err(bad_request("message to be replied not found")),
        }
    }
}

impl TelegramMessage {
    fn shown(&self, chat: i64) -> Value {
        let mut shown = json!({
            "message_id": self.id, "date": now().as_secs(), "text": self.text,
            "from": {"id": 7007, "is_bot": true, "first_name": "Desk", "username": "acme_desk_bot"},
            "chat": {"id": chat, "type": if chat < 0 { "supergroup" } else { "private" }},
        });
        if let Some(topic) = self.topic {
            shown["message_thread_id"] = topic.into();
        }
        shown
    }
}

#[cfg(test)]
mod tests;
