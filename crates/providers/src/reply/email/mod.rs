//! Mail: one answer on the same thread, by a mail server, Resend or SendGrid.
//!
//! [`received`] reads the mail that is answered, [`message`] writes the answer, [`settings`] says how it is sent.

mod message;
mod received;
mod settings;

use std::time::Duration;

use http::HeaderValue;
use serde_json::{Value, json};
use wakepost_domain::failure;

pub(crate) use self::received::Format;
pub(crate) use self::settings::{
    FROM, REPLY_API_KEY, REPLY_API_URL, REPLY_VIA, SMTP_HOST, SMTP_PASSWORD, SMTP_PORT, SMTP_TLS,
    SMTP_USERNAME, Via,
};

use self::message::Answer;
use self::received::Received;
use self::settings::Server;
use super::answer::{self, readable};
use super::{
    Mailed, Once, Outgoing, OutgoingMail, Replies, ReplyError, ReplyExchange, ReplyFailure,
    ReplyStep, authorize, base, needed, out_of_turn,
};
use crate::mail::{ADDRESS, Address};
use crate::payload::text_at;
use crate::registration::{Answered, ApiCall};
use crate::settings::{ConfigError, Settings, text};

/// How long Resend knows a key for sure.
const KEY_LIVES: Duration = Duration::from_secs(23 * 3600);
const RESEND_URL: &str = "https://api.resend.com";
const SENDGRID_URL: &str = "https://api.sendgrid.com";

/// Resend takes keys up to this length.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 256;

/// Replies to the mail of one provider.
pub(crate) struct EmailReplies {
    format: Format,
    via: Via,
}

pub(crate) static RESEND: EmailReplies = EmailReplies { format: Format::Resend, via: Via::Resend };
pub(crate) static SENDGRID: EmailReplies =
    EmailReplies { format: Format::SendGrid, via: Via::SendGrid };
pub(crate) static MAILGUN: EmailReplies = EmailReplies { format: Format::Mailgun, via: Via::Smtp };
pub(crate) static POSTMARK: EmailReplies =
    EmailReplies { format: Format::Postmark, via: Via::Smtp };

impl EmailReplies {
    /// Whether replies can be sent without this setting, given the others.
    pub(crate) fn do_without(&self, setting: &str, settings: &Settings) -> bool {
        let is_set = |name| text(settings, name).is_ok_and(|given| given.is_some());
        let via = Via::read(settings, self.via);
        if setting == FROM.name {
            is_set(ADDRESS.name)
        } else if setting == SMTP_HOST.name {
            via.is_ok_and(|via| via != Via::Smtp)
        } else if setting == REPLY_API_KEY.name {
            via.is_ok_and(|via| via == Via::Smtp || self.fetches_by(via) && is_set("api_key"))
        } else {
            false
        }
    }

    /// Whether the mail is fetched from the service that also sends, so that its key and address are known.
    fn fetches_by(&self, via: Via) -> bool {
        self.format == Format::Resend && via == Via::Resend
    }

    fn api_key<'s>(&self, settings: &'s Settings, via: Via) -> Result<&'s str, ConfigError> {
        match text(settings, REPLY_API_KEY.name)? {
            Some(key) => Ok(key),
            None if self.fetches_by(via) => needed(settings, "api_key"),
            None => needed(settings, REPLY_API_KEY.name),
        }
    }

    fn api_url<'s>(
        &self,
        settings: &'s Settings,
        via: Via,
        default: &'static str,
    ) -> Result<&'s str, ConfigError> {
        let is_own = text(settings, REPLY_API_URL.name)?.is_none() && self.fetches_by(via);
        base(settings, if is_own { "api_url" } else { REPLY_API_URL.name }, default)
    }

    fn answer(&self, part: &Outgoing<'_>) -> Result<Answer, ReplyError> {
        let received = Received::read(self.format, part.event()?.0)
            .ok_or_else(|| ReplyError::unanswerable("it is no mail"))?;
        let from = settings::sender(part.settings)?;
        let own = settings::own(part.settings, &from)?;
        Answer::to(received, from, &own, part.key, part.text)
    }
}

impl Replies for EmailReplies {
    fn parts(&self, text: &str) -> Vec<String> {
        let text = text.trim();
        if text.is_empty() { Vec::new() } else { vec![text.to_owned()] }
    }

    fn post<'a>(
        &self,
        part: &Outgoing<'a>,
    ) -> Result<Box<dyn ReplyExchange + Send + 'a>, ReplyError> {
        if part.replaces.is_some() {
            return Err(ReplyError::unanswerable("a mail cannot be changed"));
        }
        let answer = self.answer(part)?;
        let via = Via::read(part.settings, self.via)?;
        match via {
            Via::Smtp => {
                let mail = by_smtp(&answer, Server::read(part.settings)?, part);
                Ok(Box::new(Mailing::New(mail)))
            }
            Via::Resend => {
                let url = self.api_url(part.settings, via, RESEND_URL)?;
                let mut call = ApiCall::json(format!("{url}/emails"), &for_resend(&answer));
                authorize(&mut call, "Bearer", self.api_key(part.settings, via)?, "reply_api_key")?;
                if let Some(key) = idempotency_key(part.key) {
                    call.headers.insert("idempotency-key", key);
                }
                Ok(Box::new(Once::new(call, read_resend)))
            }
            Via::SendGrid => {
                let url = self.api_url(part.settings, via, SENDGRID_URL)?;
                let mut call = ApiCall::json(format!("{url}/v3/mail/send"), &for_sendgrid(&answer));
                authorize(&mut call, "Bearer", self.api_key(part.settings, via)?, "reply_api_key")?;
                let id = format!("<{}>", answer.message_id);
                Ok(Box::new(Once::new(call, move |answered| read_sendgrid(answered, &id))))
            }
        }
    }

    /// Resend keeps keys for a day; the others would send the mail again.
    fn is_repeatable(&self, part: &Outgoing<'_>) -> bool {
        let via = Via::read(part.settings, self.via);
        let is_known = part.begun_at.is_none_or(|begun| part.now.since(begun) < KEY_LIVES);
        via == Ok(Via::Resend) && idempotency_key(part.key).is_some() && is_known
    }

    fn can_update(&self) -> bool {
        false
    }
}

fn by_smtp(answer: &Answer, server: Server, part: &Outgoing<'_>) -> OutgoingMail {
    let receivers = answer.to.iter().chain(&answer.cc);
    OutgoingMail {
        host: server.host,
        port: server.port,
        tls: server.tls,
        login: server.login,
        from: answer.from.address.clone(),
        to: receivers.map(|one| one.address.clone()).collect(),
        message: answer.write(part.now),
        message_id: format!("<{}>", answer.message_id),
    }
}

/// A mail on its way to a mail server.
enum Mailing {
    New(OutgoingMail),
    Handed { message_id: String },
    Over,
}

impl ReplyExchange for Mailing {
    fn next(&mut self, answered: Option<Answered<'_>>) -> ReplyStep {
        match (std::mem::replace(self, Mailing::Over), answered) {
            (Mailing::New(mail), None) => {
                *self = Mailing::Handed { message_id: mail.message_id.clone() };
                ReplyStep::Mail(mail)
            }
            _ => out_of_turn(),
        }
    }

    fn mailed(&mut self, mailed: Mailed<'_>) -> ReplyStep {
        let Mailing::Handed { message_id } = std::mem::replace(self, Mailing::Over) else {
            return out_of_turn();
        };
        match mailed {
            Mailed::Accepted => ReplyStep::Posted(Some(message_id)),
            Mailed::Refused { code, text } => ReplyStep::Failed(ReplyFailure {
                error: failure::answered("the mail server", code, &readable(text)),
                retryable: (400..500).contains(&code),
                ..ReplyFailure::default()
            }),
            Mailed::Lost { error, handed_over } => ReplyStep::Failed(ReplyFailure {
                error: format!("the mail server did not answer: {}", readable(error)),
                retryable: true,
                doubtful: handed_over,
                ..ReplyFailure::default()
            }),
        }
    }
}

fn idempotency_key(key: &str) -> Option<HeaderValue> {
    let fits = (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len());
    fits.then(|| HeaderValue::try_from(key).ok()).flatten()
}

/// Nothing in it changes from one try to the next: Resend refuses a key that comes with another mail.
fn for_resend(answer: &Answer) -> Value {
    let list = |all: &[Address]| all.iter().map(written).collect::<Vec<_>>();
    let headers =
        answer.threading().into_iter().map(|(name, value)| (name.to_owned(), value.into()));
    let mut mail = json!({
        "from": written(&answer.from),
        "to": list(&answer.to),
        "subject": answer.subject,
        "text": answer.text,
        "html": answer.html,
        "headers": Value::Object(headers.collect()),
    });
    if !answer.cc.is_empty() {
        mail["cc"] = list(&answer.cc).into();
    }
    mail
}

/// An address with its name, quoted so that nothing in the name is read as an address.
fn written(one: &Address) -> String {
    match one.name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => {
            let name = name.replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{name}\" <{}>", one.address)
        }
        None => one.address.clone(),
    }
}

fn for_sendgrid(answer: &Answer) -> Value {
    let one = |one: &Address| match &one.name {
        Some(name) => json!({"email": one.address, "name": name}),
        None => json!({"email": one.address}),
    };
    let list = |all: &[Address]| all.iter().map(one).collect::<Value>();
    let mut people = json!({"to": list(&answer.to)});
    if !answer.cc.is_empty() {
        people["cc"] = list(&answer.cc);
    }
    let headers =
        answer.threading().into_iter().map(|(name, value)| (name.to_owned(), value.into()));
    json!({
        "personalizations": [people],
        "from": one(&answer.from),
        "subject": answer.subject,
        "content": [
            {"type": "text/plain", "value": answer.text},
            {"type": "text/html", "value": answer.html},
        ],
        "headers": Value::Object(headers.collect()),
    })
}

fn read_resend(answered: &Answered<'_>) -> ReplyStep {
    let said = answer::json(answered);
    if let Some(id) = text_at(&said, "/id").filter(|_| answered.status.is_success()) {
        return ReplyStep::Posted(Some(id.to_owned()));
    }
    let failure = answer::failure(answered, true, "Resend", text_at(&said, "/message"));
    ReplyStep::Failed(match text_at(&said, "/name") {
        // The first try is still under way.
        Some("concurrent_idempotent_requests") => {
            ReplyFailure { retryable: true, doubtful: true, ..failure }
        }
        // Under this key another mail was sent, by us: the settings were changed in between.
        Some("invalid_idempotent_request") => ReplyFailure { doubtful: true, ..failure },
        _ => failure,
    })
}

fn read_sendgrid(answered: &Answered<'_>, message_id: &str) -> ReplyStep {
    if answered.status.is_success() {
        return ReplyStep::Posted(Some(message_id.to_owned()));
    }
    let said = answer::json(answered);
    let told = text_at(&said, "/errors/0/message");
    ReplyStep::Failed(answer::failure(answered, true, "SendGrid", told))
}
