//! Discord's API, as far as an interaction is answered: its first message, and those that follow it.

use std::collections::HashMap;

use http::Method;
use serde_json::{Map, Value, json};

use super::call::{Call, Response};
use super::server::{Platform, StandIn};
use super::violations::Violations;

/// The longest message.
const CONTENT_CHARACTERS_MAX: usize = 2000;

/// A message of the application.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscordMessage {
    /// Its id.
    pub id: String,
    /// What it says.
    pub content: String,
    /// How often it was written over.
    pub edits: usize,
}

/// One application, and the interactions it may answer.
pub struct Discord {
    application: String,
    /// By token: the first message, which is empty while the application "is thinking", and then the rest.
    interactions: HashMap<String, Vec<DiscordMessage>>,
    expired: Vec<String>,
    messages: u64,
}

impl Discord {
    /// An application with this id. Its API begins at `/api/v10`.
    pub async fn start(application: &str) -> Platform<Discord> {
        let discord = Discord {
            application: application.to_owned(),
            interactions: HashMap::new(),
            expired: Vec::new(),
            messages: 0,
        };
        Platform::start(|_| discord).await
    }

    /// Somebody gave a command, and was told that the answer comes later.
    pub fn defers(&mut self, token: &str) {
        let original = self.message("");
        self.interactions.insert(token.to_owned(), vec![original]);
    }

    /// A token is more than 15 minutes old.
    pub fn expires(&mut self, token: &str) {
        self.expired.push(token.to_owned());
    }

    /// What was answered to an interaction, in order.
    pub fn said(&self, token: &str) -> Vec<DiscordMessage> {
        let messages = self.interactions.get(token).into_iter().flatten();
        messages.filter(|message| !message.content.is_empty()).cloned().collect()
    }

    fn message(&mut self, content: &str) -> DiscordMessage {
        self.messages += 1;
        let id = (1_300_000_000_000_000_000 + self.messages).to_string();
        DiscordMessage { id, content: content.to_owned(), edits: 0 }
    }

    fn change(&mut self, token: &str, id: &str, content: &str) -> Result<Value, Refusal> {
        let messages = self.interactions.get_mut(token).ok_or_else(unknown_webhook)?;
        let place = match id {
            "@original" => Some(0),
            id => messages.iter().position(|message| message.id == id),
        };
        let message = place.and_then(|place| messages.get_mut(place));
        let message = message.ok_or_else(|| Refusal::new(404, 10008, "Unknown Message"))?;
        message.edits += usize::from(!message.content.is_empty());
        content.clone_into(&mut message.content);
        Ok(shown(message))
    }

    fn follow(&mut self, token: &str, content: &str) -> Result<Value, Refusal> {
        // While the first message is still awaited, a follow-up takes its place.
        let messages = self.interactions.get(token).ok_or_else(unknown_webhook)?;
        if messages[0].content.is_empty() {
            return self.change(token, "@original", content);
        }
        let message = self.message(content);
        let messages = self.interactions.get_mut(token).ok_or_else(unknown_webhook)?;
        messages.push(message.clone());
        Ok(shown(&message))
    }
}

impl StandIn for Discord {
    fn answer(&mut self, call: &Call, violations: &mut Violations) -> Response {
        let answer = match call.segments()[..] {
            ["api", "v10", "webhooks", application, token, ref rest @ ..] => {
                if call.header("user-agent").is_empty() {
                    violations.note("a call without a User-Agent");
                }
                if application != self.application {
                    Err(unknown_webhook())
                } else if self.expired.iter().any(|expired| expired == token) {
                    Err(Refusal::new(401, 50027, "Invalid Webhook Token"))
                } else {
                    let fields = call.object(violations).unwrap_or_default();
                    content(&fields, violations).and_then(|content| match (&call.method, rest) {
                        (&Method::POST, []) => self.follow(token, content),
                        (&Method::PATCH, ["messages", id]) => self.change(token, id, content),
                        _ => Err(Refusal::new(405, 0, "405: Method Not Allowed")),
                    })
                }
            }
            _ => Err(Refusal::new(404, 0, "404: Not Found")),
        };
        match answer {
            Ok(message) => Response::json(200, message),
            Err(refusal) => {
                violations.note(refusal.message.clone());
                refusal.response()
            }
        }
    }

    fn broken(&self) -> Response {
        Refusal::new(500, 0, "500: Internal Server Error").response()
    }

    fn rate_limited(&self, retry_after_s: u32) -> Response {
        let wait = f64::from(retry_after_s);
        let body =
            json!({"message": "You are being rate limited.", "retry_after": wait, "global": false});
        Response::json(429, body).with_header("retry-after", retry_after_s)
    }
}

/// Why a call is not done.
struct Refusal {
    status: u16,
    code: u32,
    message: String,
    errors: Option<Value>,
}

impl Refusal {
    fn new(status: u16, code: u32, message: &str) -> Refusal {
        Refusal { status, code, message: message.to_owned(), errors: None }
    }

    fn response(&self) -> Response {
        let mut body = json!({"message": self.message, "code": self.code});
        if let Some(errors) = &self.errors {
            body["errors"] = errors.clone();
        }
        Response::json(self.status, body)
    }
}

fn unknown_webhook() -> Refusal {
    Refusal::new(404, 10015, "Unknown Webhook")
}

/// The text of a message that pings nobody.
fn content<'f>(
    fields: &'f Map<String, Value>,
    violations: &mut Violations,
) -> Result<&'f str, Refusal> {
    violations.only(
        "a message",
        fields,
        &[
            "allowed_mentions",
            "attachments",
            "components",
            "content",
            "embeds",
            "flags",
            "poll",
            "tts",
        ],
    );
    if fields.get("allowed_mentions") != Some(&json!({"parse": []})) {
        violations.note("a message that may ping people");
    }
    let content = fields.get("content").and_then(Value::as_str).unwrap_or_default();
    if content.trim().is_empty() {
        return Err(Refusal::new(400, 50006, "Cannot send an empty message"));
    }
    if content.chars().count() > CONTENT_CHARACTERS_MAX {
        let error =
            json!({"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 2000 or fewer in length."});
        let errors = Some(json!({"content": {"_errors": [error]}}));
        return Err(Refusal { errors, ..Refusal::new(400, 50035, "Invalid Form Body") });
    }
    Ok(content)
}

fn shown(message: &DiscordMessage) -> Value {
    json!({"id": message.id, "type": 20, "content": message.content, "channel_id": "772908445358620702"})
}

#[cfg(test)]
mod tests {
    use super::super::{Fault, testing};
    use super::*;
    use crate::http::Answer;

    async fn send(discord: &Platform<Discord>, method: Method, path: &str, body: Value) -> Answer {
        let url = discord.url(&format!("/api/v10/webhooks/{path}"));
        let headers = [("content-type", "application/json"), ("user-agent", "test")];
        testing::send(method, &url, &headers, body.to_string()).await
    }

    fn text(content: &str) -> Value {
        json!({"content": content, "allowed_mentions": {"parse": []}})
    }

    #[tokio::test]
    async fn the_first_message_is_filled_and_others_follow() {
        let discord = Discord::start("1").await;
        discord.with(|discord| discord.defers("tok"));
        let original = "1/tok/messages/@original";
        send(&discord, Method::PATCH, original, text("a")).await.is(200);
        send(&discord, Method::PATCH, original, text("b")).await.is(200);
        let second = send(&discord, Method::POST, "1/tok", text("c")).await.is(200).text("id");
        send(&discord, Method::PATCH, &format!("1/tok/messages/{second}"), text("d")).await.is(200);
        let said = discord.with(|discord| discord.said("tok"));
        let said: Vec<_> =
            said.iter().map(|message| (message.content.as_str(), message.edits)).collect();
        assert_eq!(said, [("b", 1), ("d", 1)]);

        // A follow-up before the first message takes its place.
        discord.with(|discord| discord.defers("other"));
        send(&discord, Method::POST, "1/other", text("e")).await.is(200);
        assert_eq!(discord.with(|discord| discord.said("other").len()), 1);
    }

    #[tokio::test]
    async fn what_discord_refuses_is_refused() {
        let discord = Discord::start("1").await;
        discord.with(|discord| discord.defers("tok"));
        let original = "1/tok/messages/@original";
        let unknown =
            send(&discord, Method::PATCH, "1/nobody/messages/@original", text("x")).await.is(404);
        assert_eq!(unknown.json()["code"], 10015);
        send(&discord, Method::PATCH, "2/tok/messages/@original", text("x")).await.is(404);
        let long =
            send(&discord, Method::PATCH, original, text(&"x".repeat(2001))).await.is(400).json();
        assert_eq!(long["errors"]["content"]["_errors"][0]["code"], "BASE_TYPE_MAX_LENGTH");
        assert_eq!(
            send(&discord, Method::PATCH, original, text(" ")).await.is(400).json()["code"],
            50006
        );
        assert_eq!(
            send(&discord, Method::PATCH, "1/tok/messages/5", text("x")).await.is(404).json()["code"],
            10008
        );
        send(&discord, Method::PATCH, original, json!({"content": "@everyone"})).await.is(200);
        discord.with(|discord| discord.expires("tok"));
        assert_eq!(
            send(&discord, Method::POST, "1/tok", text("x")).await.is(401).json()["code"],
            50027
        );
        discord.expect_violations(&[
            "Unknown Webhook",
            "Unknown Webhook",
            "Invalid Form Body",
            "empty message",
            "Unknown Message",
            "ping",
            "Invalid Webhook Token",
        ]);
        discord.next(Fault::RateLimits { retry_after_s: 1 });
        let limited = send(&discord, Method::POST, "1/tok", text("x")).await.is(429).json();
        assert_eq!(limited["retry_after"], 1.0);
    }
}
