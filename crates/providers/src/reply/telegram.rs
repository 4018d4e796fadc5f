//! Telegram: `sendMessage` in MarkdownV2, once more as plain text where Telegram cannot read that.

use serde_json::{Value, json};

use super::answer::{self, readable, without};
use super::markdown::{self, Style, is_web_address, spelled_out};
use super::{
    Outgoing, Replies, ReplyError, ReplyExchange, ReplyFailure, ReplyStep, base, needed,
    out_of_turn, split,
};
use crate::payload::{self, id_at, text_at};
use crate::registration::{Answered, ApiCall};
use crate::settings::ConfigError;
use crate::telegram::{API_URL, in_topic, present_field};

const NAME: &str = "Telegram";
const UNITS_MAX: usize = 4_096;

/// Replies as messages of the bot.
pub(crate) struct TelegramReplies;

impl Replies for TelegramReplies {
    fn parts(&self, text: &str) -> Vec<String> {
        // Telegram counts what is left when the marks are gone; counting them too is on the safe side.
        split::split(text, UNITS_MAX, |part| markdown::write(part, &MARKDOWN_V2))
    }

    fn post<'a>(
        &self,
        part: &Outgoing<'a>,
    ) -> Result<Box<dyn ReplyExchange + Send + 'a>, ReplyError> {
        let token = needed(part.settings, "bot_token")?;
        // It stands in the address.
        if !token.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'_' | b'-')) {
            return Err(ConfigError::new("bot_token", "is not a bot's token").into());
        }
        let api = base(part.settings, "api_url", API_URL)?;
        let method = if part.replaces.is_some() { "editMessageText" } else { "sendMessage" };
        Ok(Box::new(Posting {
            url: format!("{api}/bot{token}/{method}"),
            token,
            body: body(part)?,
            replaces: part.replaces,
            state: State::New,
        }))
    }

    fn is_repeatable(&self, part: &Outgoing<'_>) -> bool {
        part.replaces.is_some()
    }

    fn can_update(&self) -> bool {
        true
    }
}

/// What is sent, as MarkdownV2.
fn body(part: &Outgoing<'_>) -> Result<Value, ReplyError> {
    let unanswerable = || ReplyError::unanswerable("it is in no chat");
    let update = payload::whole(part.event()?.0.body).map_err(|_| unanswerable())?;
    let (_, content) = present_field(&update).ok_or_else(unanswerable)?;
    // A pressed button is below a message.
    let message = content.get("message").unwrap_or(content);
    let chat = message.pointer("/chat/id").filter(|id| id.is_i64()).ok_or_else(unanswerable)?;
    let mut body = json!({
        "chat_id": chat,
        "text": part.text,
        "parse_mode": "MarkdownV2",
        "link_preview_options": {"is_disabled": true},
    });
    if let Some(id) = part.replaces {
        let id = id.parse::<i64>().map_err(|_| {
            ReplyError::unanswerable("the message to change has no id of Telegram's")
        })?;
        body["message_id"] = id.into();
        return Ok(body);
    }
    if let Some(topic) = message.get("message_thread_id").filter(|_| in_topic(message)) {
        body["message_thread_id"] = topic.clone();
    }
    let in_group = text_at(message, "/chat/type") != Some("private");
    let answered = message.get("message_id").filter(|_| in_group && part.index == 0);
    if let Some(id) = answered {
        body["reply_parameters"] = json!({"message_id": id, "allow_sending_without_reply": true});
    }
    Ok(body)
}

struct Posting<'a> {
    url: String,
    token: &'a str,
    body: Value,
    replaces: Option<&'a str>,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    New,
    Formatted,
    Plain,
    Over,
}

impl ReplyExchange for Posting<'_> {
    fn next(&mut self, answered: Option<Answered<'_>>) -> ReplyStep {
        match (&self.state, answered) {
            (State::New, None) => self.send(State::Formatted),
            (State::Formatted | State::Plain, Some(answered)) => self.read(&answered),
            _ => out_of_turn(),
        }
    }
}

impl Posting<'_> {
    fn send(&mut self, state: State) -> ReplyStep {
        self.state = state;
        ReplyStep::Call { call: ApiCall::json(self.url.clone(), &self.body), acts: true }
    }

    fn read(&mut self, answered: &Answered<'_>) -> ReplyStep {
        let said = answer::json(answered);
        if answered.status.is_success() && said["ok"].as_bool() == Some(true) {
            self.state = State::Over;
            return ReplyStep::Posted(id_at(&said, "/result/message_id"));
        }
        let told = text_at(&said, "/description").unwrap_or_default().to_ascii_lowercase();
        if answered.status == 400 && told.contains("message is not modified") {
            self.state = State::Over;
            return ReplyStep::Posted(self.replaces.map(str::to_owned));
        }
        let unreadable = answered.status == 400 && told.contains("can't parse entities");
        if unreadable && self.state == State::Formatted {
            let text = plain(self.body["text"].as_str().unwrap_or_default());
            self.body["text"] = text.into();
            if let Some(body) = self.body.as_object_mut() {
                body.remove("parse_mode");
            }
            return self.send(State::Plain);
        }
        self.state = State::Over;
        ReplyStep::Failed(self.failure(answered, &said, &told))
    }

    fn failure(&self, answered: &Answered<'_>, said: &Value, told: &str) -> ReplyFailure {
        let description = text_at(said, "/description").map(|text| without(text, self.token));
        let failure = answer::failure(answered, true, NAME, description.as_deref());
        let wait = said.pointer("/parameters/retry_after").and_then(Value::as_f64);
        let is_gone = ["message to edit not found", "message can't be edited"];
        let is_gone = self.replaces.is_some() && is_gone.iter().any(|text| told.contains(text));
        ReplyFailure {
            error: readable(&failure.error),
            retry_after: wait.and_then(answer::seconds).or(failure.retry_after),
            replaced_is_gone: answered.status == 400 && is_gone,
            ..failure
        }
    }
}

/// Telegram's own markup, in which everything that could be a mark is escaped.
const MARKDOWN_V2: Style = Style {
    bold: "*",
    italic: "_",
    strike: "~",
    quote: ">",
    text: escape,
    code: |code| format!("`{}`", escape_code(code)),
    block: |code, language| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '_' | '#');
        let language = if language.chars().all(is_name) { language } else { "" };
        format!("```{language}\n{}\n```", escape_code(code))
    },
    link: |text, url| {
        // Other links could call somebody (tg://user) or are not links to Telegram.
        if !is_web_address(url) {
            return escape(&spelled_out(text, url));
        }
        let text = if text.is_empty() { url } else { text };
        let url = url.replace('\\', "\\\\").replace(')', "\\)");
        format!("[{}]({url})", escape(text))
    },
};

/// Every mark of MarkdownV2.
const MARKS: &[char] = &[
    '_', '*', '[', ']', '(', ')', '~', '`', '>', '#', '+', '-', '=', '|', '{', '}', '.', '!', '\\',
];

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        if MARKS.contains(&c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn escape_code(code: &str) -> String {
    code.replace('\\', "\\\\").replace('`', "\\`")
}

/// What a text in MarkdownV2 says, without its marks.
fn plain(marked: &str) -> String {
    let mut text = String::with_capacity(marked.len());
    let mut chars = marked.chars();
    let mut in_code = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.extend(chars.next()),
            // One and three of them both open or close.
            '`' => in_code = !in_code,
            c if in_code => text.push(c),
            '*' | '_' | '~' | '[' => {}
            // The text of a link ends, and its address begins.
            ']' => {
                text.push(' ');
                while let Some(c) = chars.next() {
                    text.extend(if c == '\\' { chars.next() } else { Some(c) });
                    if c == ')' {
                        break;
                    }
                }
            }
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn markdown_becomes_telegrams() {
        for (markdown, expected) in [
            ("**b** *i* ~~s~~ `c`", "*b* _i_ ~s~ `c`"),
            ("# Head **x**", "*Head x*"),
            ("a.b!c-d", "a\\.b\\!c\\-d"),
            ("1. one\n2. two", "1\\. one\n2\\. two"),
            ("- one", "• one"),
            ("[t(x)](https://a.example/(b))", "[t\\(x\\)](https://a.example/(b\\))"),
            ("[ada](tg://user?id=7)", "ada \\(tg://user?id\\=7\\)"),
            ("```rust\nlet a = `b`\\n;\n```", "```rust\nlet a = \\`b\\`\\\\n;\n```"),
            ("> q", ">q"),
            ("***both***", "_*both*_"),
            ("*a*_b_", "_a_\u{200b}_b_"),
            ("snake_case_name", "snake\\_case\\_name"),
        ] {
            assert_eq!(markdown::write(markdown, &MARKDOWN_V2), expected, "{markdown}");
        }
    }

    #[test]
    fn without_its_marks_the_text_is_still_all_there() {
        let marked = markdown::write("**b** a.b [t](https://a.example/x_(y)) `c_d`", &MARKDOWN_V2);
        assert_eq!(plain(&marked), "b a.b t (https://a.example/x_(y)) c_d");
        assert_eq!(plain(&escape("1 * 2_3 [x] \\ `y`")), "1 * 2_3 [x] \\ `y`");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_is_escaped_is_plain_again(text in "\\PC{0,80}") {
            prop_assert_eq!(plain(&escape(&text)), text);
        }

        #[test]
        fn parts_are_within_the_limit(text in "([-*_.!\\[a-z \\n]|```\\n){3000,6000}") {
            for part in TelegramReplies.parts(&text) {
                prop_assert!(split::units(&part) <= UNITS_MAX && !part.trim().is_empty());
            }
        }
    }
}
