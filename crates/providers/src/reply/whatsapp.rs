//! WhatsApp: a text message by Meta's Graph API, from the number that was written to.

use serde_json::{Value, json};

use super::answer::{self, readable};
use super::markdown::{self, Style, spelled_out};
use super::{
    Once, Outgoing, Replies, ReplyError, ReplyExchange, ReplyFailure, ReplyStep, authorize, base,
    needed, segment, split,
};
use crate::payload::{self, id_at, text_at};
use crate::registration::{Answered, ApiCall};
use crate::settings::{self, ConfigError};
use crate::whatsapp::written;

const NAME: &str = "WhatsApp";
const API_URL: &str = "https://graph.facebook.com";
const API_VERSION: &str = "v24.0";
const CHARS_MAX: usize = 4_096;

/// Replies as text messages of the business.
pub(crate) struct WhatsAppReplies;

impl Replies for WhatsAppReplies {
    fn parts(&self, text: &str) -> Vec<String> {
        split::split(text, CHARS_MAX, |part| markdown::write(part, &SHOWN))
    }

    fn post<'a>(
        &self,
        part: &Outgoing<'a>,
    ) -> Result<Box<dyn ReplyExchange + Send + 'a>, ReplyError> {
        if part.replaces.is_some() {
            return Err(ReplyError::unanswerable("WhatsApp messages cannot be changed"));
        }
        let unanswerable = || ReplyError::unanswerable("it is no message from a person");
        let (request, index) = part.event()?;
        let request = payload::whole(request.body).map_err(|_| unanswerable())?;
        let (number, message) = written(&request, index).ok_or_else(unanswerable)?;
        let number = match number {
            Some(number) => number,
            None => needed(part.settings, "phone_number_id")?.to_owned(),
        };
        let body = body(part, message).ok_or_else(unanswerable)?;
        let api = base(part.settings, "api_url", API_URL)?;
        let version = version(part)?;
        let mut call =
            ApiCall::json(format!("{api}/{version}/{}/messages", segment(&number)?), &body);
        authorize(&mut call, "Bearer", needed(part.settings, "access_token")?, "access_token")?;
        Ok(Box::new(Once::new(call, read)))
    }

    fn is_repeatable(&self, _: &Outgoing<'_>) -> bool {
        false
    }

    fn can_update(&self) -> bool {
        false
    }
}

fn version<'a>(part: &Outgoing<'a>) -> Result<&'a str, ConfigError> {
    let version = settings::text(part.settings, "api_version")?.unwrap_or(API_VERSION);
    match version.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.') {
        true => Ok(version),
        false => Err(ConfigError::new("api_version", "must look like v24.0")),
    }
}

/// To the group, to the number, or to the id of somebody who keeps the number to themselves.
fn body(part: &Outgoing<'_>, message: &Value) -> Option<Value> {
    let mut body = json!({
        "messaging_product": "whatsapp",
        "type": "text",
        "text": {"body": part.text, "preview_url": false},
    });
    let (kind, field, to) = match (id_at(message, "/group_id"), id_at(message, "/from")) {
        (Some(group), _) => ("group", "to", group),
        (None, Some(number)) => ("individual", "to", number),
        (None, None) => ("individual", "recipient", id_at(message, "/from_user_id")?),
    };
    body["recipient_type"] = kind.into();
    body[field] = to.into();
    if let Some(id) = id_at(message, "/id") {
        body["context"] = json!({"message_id": id});
    }
    Some(body)
}

fn read(answered: &Answered<'_>) -> ReplyStep {
    let said = answer::json(answered);
    if let Some(id) = id_at(&said, "/messages/0/id").filter(|_| answered.status.is_success()) {
        return ReplyStep::Posted(Some(id));
    }
    ReplyStep::Failed(failure(answered, &said))
}

/// Meta asks to go by the code of an error. Too much at once comes with any status.
fn failure(answered: &Answered<'_>, said: &Value) -> ReplyFailure {
    let told = text_at(said, "/error/error_data/details").or(text_at(said, "/error/message"));
    let told = told.map(readable);
    let code = said.pointer("/error/code").and_then(Value::as_u64);
    let failure = answer::failure(answered, true, NAME, told.as_deref());
    let error = match code {
        Some(131_047) => format!("{} (more than 24 hours since they wrote)", failure.error),
        Some(190) => format!("{} (check access_token)", failure.error),
        _ => failure.error.clone(),
    };
    match code {
        // Too many calls, too many messages, too many to one person, a number under maintenance.
        Some(4 | 80_007 | 130_429 | 131_056 | 131_057) => {
            ReplyFailure { error, retryable: true, doubtful: false, ..failure }
        }
        _ => ReplyFailure { error, ..failure },
    }
}

/// What WhatsApp shows: it has marks, and no way to escape them.
const SHOWN: Style = Style {
    bold: "*",
    italic: "_",
    strike: "~",
    quote: "> ",
    text: str::to_owned,
    code: |code| format!("`{}`", code.replace('`', "'")),
    block: |code, _| format!("```\n{}\n```", code.replace("```", "``\u{200b}`")),
    link: spelled_out,
};
