//! Slack's Web API: posting, editing, and reading a conversation back.

use std::collections::HashMap;

use http::Method;
use serde_json::{Map, Value, json};

use super::call::{Call, Response};
use super::server::{Platform, StandIn};
use super::violations::Violations;
use crate::source::now;

/// What we split at; Slack itself only advises it, and cuts off at 40,000.
const TEXT_CHARACTERS_MAX: usize = 4000;

/// What a page holds. Slack may give fewer messages than asked for; so few make everybody turn pages.
const PAGE_MESSAGES: usize = 2;

/// The user that our app's messages are from.
const BOT_USER: &str = "U0AGENT01";

/// A message in a channel.
#[derive(Debug, Clone, PartialEq)]
pub struct SlackMessage {
    /// Its id and time.
    pub ts: String,
    /// The first message of the thread it is in.
    pub thread_ts: Option<String>,
    /// Whom it is from.
    pub user: String,
    /// What it says.
    pub text: String,
    /// What programs know it by.
    pub metadata: Option<Value>,
    /// How often it was changed.
    pub edits: usize,
}

/// One workspace, with one app in it.
pub struct Slack {
    token: String,
    channels: HashMap<String, Vec<SlackMessage>>,
    posted: u32,
}

impl Slack {
    /// A workspace whose app has this bot token.
    pub async fn start(token: &str) -> Platform<Slack> {
        let slack = Slack { token: token.to_owned(), channels: HashMap::new(), posted: 0 };
        Platform::start(|_| slack).await
    }

    /// Somebody says something, in a channel that the app is in from now on.
    pub fn hears(&mut self, channel: &str, ts: &str, text: &str) {
        self.channels.entry(channel.to_owned()).or_default().push(SlackMessage {
            ts: ts.to_owned(),
            thread_ts: None,
            user: "U0ADA0001".to_owned(),
            text: text.to_owned(),
            metadata: None,
            edits: 0,
        });
    }

    /// Somebody deletes a message.
    pub fn forgets(&mut self, channel: &str, ts: &str) {
        self.channels.entry(channel.to_owned()).or_default().retain(|message| message.ts != ts);
    }

    /// What the app said in a thread, in order.
    pub fn said(&self, channel: &str, thread_ts: &str) -> Vec<SlackMessage> {
        let messages = self.channels.get(channel).into_iter().flatten();
        let in_thread = |message: &&SlackMessage| message.thread_ts.as_deref() == Some(thread_ts);
        messages.filter(in_thread).filter(|message| message.user == BOT_USER).cloned().collect()
    }

    /// The app is in a channel from now on.
    pub fn joins(&mut self, channel: &str) {
        self.channels.entry(channel.to_owned()).or_default();
    }

    /// What the app said in a channel itself, in order.
    pub fn posted(&self, channel: &str) -> Vec<SlackMessage> {
        let messages = self.channels.get(channel).into_iter().flatten();
        let is_own = |message: &&SlackMessage| message.user == BOT_USER;
        messages.filter(is_own).filter(|message| message.thread_ts.is_none()).cloned().collect()
    }

    fn post(&mut self, arguments: &Arguments, violations: &mut Violations) -> Result<Value, Error> {
        const CALL: &str = "chat.postMessage";
        const KNOWN: &[&str] = &[
            "attachments",
            "blocks",
            "channel",
            "icon_emoji",
            "icon_url",
            "link_names",
            "markdown_text",
            "metadata",
            "mrkdwn",
            "parse",
            "reply_broadcast",
            "text",
            "thread_ts",
            "unfurl_links",
            "unfurl_media",
            "username",
        ];
        violations.only(CALL, &arguments.0, KNOWN);
        let channel = arguments.text("channel").ok_or("channel_not_found")?;
        let text = message_text(CALL, arguments, violations)?;
        let metadata = arguments.metadata()?;
        let messages = self.channels.get_mut(channel).ok_or("channel_not_found")?;
        let thread_ts = arguments.text("thread_ts");
        if let Some(thread_ts) = thread_ts
            && !messages
                .iter()
                .any(|message| message.ts == thread_ts && message.thread_ts.is_none())
        {
            violations.note(format!("{CALL} answers {thread_ts}, which begins no thread"));
            return Err("thread_not_found");
        }
        self.posted += 1;
        let message = SlackMessage {
            // Six digits after the point, and never the same twice.
            ts: format!("{}.{:06}", now().as_secs(), 900_000 + self.posted),
            thread_ts: thread_ts.map(str::to_owned),
            user: BOT_USER.to_owned(),
            text: text.to_owned(),
            metadata,
            edits: 0,
        };
        messages.push(message.clone());
        Ok(json!({"channel": channel, "ts": message.ts, "message": message.shown(true)}))
    }

    fn update(
        &mut self,
        arguments: &Arguments,
        violations: &mut Violations,
    ) -> Result<Value, Error> {
        const CALL: &str = "chat.update";
        const KNOWN: &[&str] = &[
            "as_user",
            "attachments",
            "blocks",
            "channel",
            "file_ids",
            "link_names",
            "markdown_text",
            "metadata",
            "parse",
            "reply_broadcast",
            "text",
            "ts",
        ];
        violations.only(CALL, &arguments.0, KNOWN);
        let channel = arguments.text("channel").ok_or("channel_not_found")?;
        let text = message_text(CALL, arguments, violations)?;
        let metadata = arguments.metadata()?;
        let messages = self.channels.get_mut(channel).ok_or("channel_not_found")?;
        let ts = arguments.text("ts").ok_or("message_not_found")?;
        let message = messages.iter_mut().find(|message| message.ts == ts);
        let message = message.ok_or("message_not_found")?;
        if message.user != BOT_USER {
            violations.note(format!("{CALL} changes somebody else's message"));
            return Err("cant_update_message");
        }
        text.clone_into(&mut message.text);
        // An edit without metadata leaves what was there.
        message.metadata = metadata.or(message.metadata.take());
        message.edits += 1;
        Ok(json!({"channel": channel, "ts": ts, "text": text, "message": message.shown(true)}))
    }

    fn read(
        &self,
        call: &str,
        arguments: &Arguments,
        violations: &mut Violations,
    ) -> Result<Value, Error> {
        const KNOWN: &[&str] = &[
            "channel",
            "cursor",
            "include_all_metadata",
            "inclusive",
            "latest",
            "limit",
            "oldest",
            "ts",
        ];
        violations.only(call, &arguments.0, KNOWN);
        let channel = arguments.text("channel").ok_or("channel_not_found")?;
        let messages = self.channels.get(channel).ok_or("channel_not_found")?;
        let oldest = arguments.text("oldest").unwrap_or_default();
        let latest = arguments.text("latest").unwrap_or("~");
        let inclusive = arguments.flag("inclusive");
        let in_range = |message: &&SlackMessage| {
            let ts = message.ts.as_str();
            (ts > oldest && ts < latest) || (inclusive && (ts == oldest || ts == latest))
        };
        let found: Vec<&SlackMessage> = match call {
            "conversations.replies" => {
                let ts = arguments.text("ts").ok_or("thread_not_found")?;
                if !messages.iter().any(|message| message.ts == ts) {
                    return Err("thread_not_found");
                }
                let is_reply = |message: &&SlackMessage| message.thread_ts.as_deref() == Some(ts);
                // The first message of a thread comes with every range.
                let first = messages.iter().filter(|message| message.ts == ts);
                first.chain(messages.iter().filter(is_reply).filter(in_range)).collect()
            }
            // Newest first, and without what was said in threads.
            _ => {
                let top = messages.iter().filter(|message| message.thread_ts.is_none());
                top.rev().filter(in_range).collect()
            }
        };
        arguments.page(&found)
    }
}

impl StandIn for Slack {
    fn answer(&mut self, call: &Call, violations: &mut Violations) -> Response {
        let method = call.path.trim_start_matches("/api").trim_start_matches('/').to_owned();
        let answer =
            match call.bearer() {
                None => {
                    violations.note(format!("{method} without a token"));
                    Err("not_authed")
                }
                Some(token) if token != self.token => {
                    violations.note(format!("{method} with a wrong token"));
                    Err("invalid_auth")
                }
                Some(_) => Arguments::read(call, &method, violations).and_then(|arguments| {
                    match method.as_str() {
                        "auth.test" => Ok(json!({
                            "url": "https://acme.slack.com/", "team": "Acme", "user": "agent",
                            "team_id": "T0ACME001", "user_id": BOT_USER, "bot_id": "B0AGENT01",
                        })),
                        "chat.postMessage" => self.post(&arguments, violations),
                        "chat.update" => self.update(&arguments, violations),
                        "conversations.replies" | "conversations.history" => {
                            self.read(&method, &arguments, violations)
                        }
                        _ => {
                            violations.note(format!("there is no method {method}"));
                            Err("unknown_method")
                        }
                    }
                }),
            };
        let body = match answer {
            Ok(mut body) => {
                body["ok"] = true.into();
                body
            }
            Err(error) => json!({"ok": false, "error": error}),
        };
        Response::json(200, body)
    }

    fn broken(&self) -> Response {
        Response::json(500, json!({"ok": false, "error": "internal_error"}))
    }

    fn rate_limited(&self, retry_after_s: u32) -> Response {
        let body = json!({"ok": false, "error": "ratelimited"});
        Response::json(429, body).with_header("retry-after", retry_after_s)
    }
}

/// What Slack calls what is wrong.
type Error = &'static str;

/// What a method was called with, as JSON, as a form, or in the query.
struct Arguments(Map<String, Value>);

impl Arguments {
    fn read(call: &Call, method: &str, violations: &mut Violations) -> Result<Arguments, Error> {
        if call.asked("token").is_some() {
            violations.note(format!("{method} has a token in its address"));
        }
        if call.method == Method::GET {
            return Ok(Arguments::of_fields(call.query.clone()));
        }
        if call.says("application/x-www-form-urlencoded") {
            return Ok(Arguments::of_fields(call.form()));
        }
        if method.starts_with("conversations.") {
            // Methods that read take no JSON; Slack then sees no arguments.
            violations.note(format!("{method} takes a form, not JSON"));
            return Ok(Arguments(Map::new()));
        }
        if call.body.is_empty() {
            return Ok(Arguments(Map::new()));
        }
        call.object(violations).map(Arguments).ok_or("invalid_json")
    }

    fn of_fields(fields: Vec<(String, String)>) -> Arguments {
        Arguments(fields.into_iter().map(|(name, value)| (name, value.into())).collect())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn flag(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(text)) => matches!(text.as_str(), "true" | "1"),
            _ => false,
        }
    }

    /// An object with a type and a payload; in a form, as text.
    fn metadata(&self) -> Result<Option<Value>, Error> {
        let metadata = match self.0.get("metadata") {
            None => return Ok(None),
            Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
            Some(other) => other.clone(),
        };
        let fits = metadata["event_type"].as_str().is_some_and(|kind| !kind.is_empty())
            && metadata["event_payload"].is_object();
        if fits { Ok(Some(metadata)) } else { Err("invalid_metadata_format") }
    }

    fn page(&self, found: &[&SlackMessage]) -> Result<Value, Error> {
        let start: usize = match self.text("cursor") {
            None => 0,
            Some(cursor) => {
                let place = cursor.strip_prefix("at-").and_then(|place| place.parse().ok());
                place.filter(|place| *place <= found.len()).ok_or("invalid_cursor")?
            }
        };
        let limit = match self.0.get("limit") {
            None => PAGE_MESSAGES,
            Some(Value::String(text)) => text.parse().map_err(|_| "invalid_limit")?,
            Some(other) => other.as_u64().ok_or("invalid_limit")? as usize,
        };
        if !(1..=999).contains(&limit) {
            return Err("invalid_limit");
        }
        let end = found.len().min(start + limit.min(PAGE_MESSAGES));
        let with_metadata = self.flag("include_all_metadata");
        let shown: Vec<Value> =
            found[start..end].iter().map(|message| message.shown(with_metadata)).collect();
        let has_more = end < found.len();
        let next = if has_more { format!("at-{end}") } else { String::new() };
        Ok(
            json!({"messages": shown, "has_more": has_more, "response_metadata": {"next_cursor": next}}),
        )
    }
}

impl SlackMessage {
    fn shown(&self, with_metadata: bool) -> Value {
        let mut shown =
            json!({"type": "message", "user": self.user, "text": self.text, "ts": self.ts});
        if let Some(thread_ts) = &self.thread_ts {
            shown["thread_ts"] = thread_ts.clone().into();
        }
        if self.user == BOT_USER {
            shown["bot_id"] = "B0AGENT01".into();
        }
        if let Some(metadata) = self.metadata.as_ref().filter(|_| with_metadata) {
            shown["metadata"] = metadata.clone();
        }
        shown
    }
}

/// The text of a message. One that is too long is cut off, as Slack does without a word.
fn message_text<'a>(
    call: &str,
    arguments: &'a Arguments,
    violations: &mut Violations,
) -> Result<&'a str, Error> {
    const CUT_OFF: usize = 40_000;
    let text = arguments.text("text").ok_or("no_text")?;
    violations.at_most(call, text, TEXT_CHARACTERS_MAX);
    check_escapes(call, text, violations);
    Ok(text.char_indices().nth(CUT_OFF).map_or(text, |(end, _)| &text[..end]))
}

/// The three control characters stand for themselves only as references; `<…>` is a link or a ping.
fn check_escapes(call: &str, text: &str, violations: &mut Violations) {
    for (place, _) in text.match_indices('&') {
        let rest = &text[place..];
        if !["&amp;", "&lt;", "&gt;"].iter().any(|reference| rest.starts_with(reference)) {
            violations.note(format!("{call} has a bare &"));
        }
    }
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let inner = rest[start + 1..].split('>').next().unwrap_or_default();
        if !["https://", "http://", "mailto:"].iter().any(|scheme| inner.starts_with(scheme)) {
            violations.note(format!("{call} has <{inner}>, which is no link"));
        }
        rest = &rest[start + 1 + inner.len()..];
        rest = rest.strip_prefix('>').unwrap_or(rest);
    }
}

#[cfg(test)]
mod tests;
