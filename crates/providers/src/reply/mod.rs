//! How platforms are answered: a reply becomes requests as data, and answers are read; someone else sends them.
//!
//! One file per platform. [`markdown`] writes what agents write in each platform's own format, [`split`] cuts it at
//! its limit, [`answer`] sorts answers into done, worth another try, and in doubt. Nothing here waits or sends, and
//! no error text holds a secret.

mod answer;
pub(crate) mod discord;
pub(crate) mod email;
pub(crate) mod google_docs;
mod markdown;
pub(crate) mod slack;
mod split;
pub(crate) mod telegram;
pub(crate) mod whatsapp;

use std::fmt;
use std::time::Duration;

use http::{HeaderValue, header};
use wakepost_domain::Timestamp;

use crate::registration::{Answered, ApiCall};
use crate::request::Request;
use crate::settings::{self, ConfigError, Settings};

/// How a platform is answered. It makes requests as data and reads answers; someone else sends them.
pub trait Replies: Send + Sync {
    /// The text as the platform wants it, split at its limit; none for a blank text.
    fn parts(&self, text: &str) -> Vec<String>;

    /// Posts one part.
    fn post<'a>(
        &self,
        part: &Outgoing<'a>,
    ) -> Result<Box<dyn ReplyExchange + Send + 'a>, ReplyError>;

    /// Looks whether a part that may have been posted is there; `None` where the platform cannot tell.
    fn look_up<'a>(
        &self,
        _part: &Outgoing<'a>,
    ) -> Option<Result<Box<dyn ReplyExchange + Send + 'a>, ReplyError>> {
        None
    }

    /// Whether posting it again does no harm: an edit in place, or the platform dedupes by the key.
    fn is_repeatable(&self, part: &Outgoing<'_>) -> bool;

    /// Whether a message can be changed after it was posted.
    fn can_update(&self) -> bool;

    /// The channel for alerts that a source's settings name; none where nothing can be posted there with them.
    fn alerts_channel<'s>(&self, _settings: &'s Settings) -> Option<&'s str> {
        None
    }
}

/// One part of a reply, about to be posted.
#[derive(Clone, Copy)]
pub struct Outgoing<'a> {
    /// Where it goes.
    pub to: To<'a>,
    /// One of [`Replies::parts`].
    pub text: &'a str,
    /// Its place among them, from 0.
    pub index: usize,
    /// Whether it is the first thing that is said about the event at all.
    pub is_first: bool,
    /// The platform's id of the message it takes the place of.
    pub replaces: Option<&'a str>,
    /// Stable over all tries of this part, unique to it.
    pub key: &'a str,
    /// The source's settings, secret ones included.
    pub settings: &'a Settings,
    /// When an earlier try of it began, if there was one.
    pub begun_at: Option<Timestamp>,
    /// The time now.
    pub now: Timestamp,
}

impl<'a> Outgoing<'a> {
    /// The event that is answered.
    fn event(&self) -> Result<(&'a Request<'a>, usize), ReplyError> {
        match self.to {
            To::Event { request, part } => Ok((request, part)),
            To::Channel { .. } => Err(ReplyError::unanswerable("there is none")),
        }
    }
}

/// Where a part goes.
#[derive(Clone, Copy)]
pub enum To<'a> {
    /// To the conversation of an event.
    Event {
        /// The request that told of it, as it was received.
        request: &'a Request<'a>,
        /// Which event of that request.
        part: usize,
    },
    /// Into a channel, in answer to nothing.
    Channel {
        /// The platform's id of it.
        id: &'a str,
        /// When it was first to be said: nothing of it is older.
        since: Timestamp,
    },
}

/// A few calls that belong together, one after another.
pub trait ReplyExchange {
    /// What to do next. `answered` is the answer to the call before; none at first.
    fn next(&mut self, answered: Option<Answered<'_>>) -> ReplyStep;

    /// What to do after a mail was handed to a mail server; asked only after [`ReplyStep::Mail`].
    fn mailed(&mut self, _mailed: Mailed<'_>) -> ReplyStep {
        out_of_turn()
    }
}

/// What an exchange wants next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyStep {
    /// Make this call, and come back with the answer.
    Call {
        /// The call.
        call: ApiCall,
        /// Whether it may post something; fetching a token does not.
        acts: bool,
    },
    /// Hand this mail to a mail server, and report through [`ReplyExchange::mailed`].
    Mail(OutgoingMail),
    /// It is there; the platform's id for it.
    Posted(Option<String>),
    /// A look-up's answer: it is not there.
    Absent,
    /// It was not posted, unless that is doubtful.
    Failed(ReplyFailure),
}

/// Why a part was not posted, and what follows from that.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplyFailure {
    /// For the operator; it holds no secret.
    pub error: String,
    /// Whether another try may end better.
    pub retryable: bool,
    /// How long the platform wants to be left alone first.
    pub retry_after: Option<Duration>,
    /// Whether it may have been posted all the same.
    pub doubtful: bool,
    /// Whether only the message that it was to take the place of is missing: it can be posted as a new one.
    pub replaced_is_gone: bool,
}

/// A mail for a mail server.
#[derive(Clone, PartialEq, Eq)]
pub struct OutgoingMail {
    /// The server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted.
    pub tls: MailTls,
    /// The name and the password for it.
    pub login: Option<(String, String)>,
    /// The envelope's sender.
    pub from: String,
    /// The envelope's receivers.
    pub to: Vec<String>,
    /// The mail with its headers; its lines end with CR LF.
    pub message: Vec<u8>,
    /// Its Message-ID, in brackets.
    pub message_id: String,
}

/// Without the login and the mail.
impl fmt::Debug for OutgoingMail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutgoingMail({}:{} {} …)", self.host, self.port, self.message_id)
    }
}

/// How a connection to a mail server is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailTls {
    /// From the first byte.
    Implicit,
    /// After STARTTLS, without which nothing is sent.
    StartTls,
    /// Not at all.
    None,
}

/// What became of a mail that a mail server was handed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mailed<'a> {
    /// The server took it.
    Accepted,
    /// The server answered with this code, and did not take it.
    Refused {
        /// Its code: 4xx for now, 5xx for good.
        code: u16,
        /// What it said.
        text: &'a str,
    },
    /// There was no answer.
    Lost {
        /// What happened.
        error: &'a str,
        /// Whether the end of the mail may have reached the server, which may then have taken it.
        handed_over: bool,
    },
}

/// The reply can never be posted as things are: no try would end better.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// A setting is missing or malformed.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The event cannot be answered; the text says why.
    #[error("the event cannot be answered: {0}")]
    Unanswerable(String),
}

impl ReplyError {
    fn unanswerable(why: impl Into<String>) -> ReplyError {
        ReplyError::Unanswerable(why.into())
    }
}

/// One call and one answer, which is most exchanges.
struct Once<F> {
    call: Option<ApiCall>,
    read: F,
}

impl<F: FnMut(&Answered<'_>) -> ReplyStep> Once<F> {
    fn new(call: ApiCall, read: F) -> Once<F> {
        Once { call: Some(call), read }
    }
}

impl<F: FnMut(&Answered<'_>) -> ReplyStep> ReplyExchange for Once<F> {
    fn next(&mut self, answered: Option<Answered<'_>>) -> ReplyStep {
        match (self.call.take(), answered) {
            (Some(call), None) => ReplyStep::Call { call, acts: true },
            (None, Some(answered)) => (self.read)(&answered),
            _ => out_of_turn(),
        }
    }
}

/// The answer to a question that an exchange did not wait for.
fn out_of_turn() -> ReplyStep {
    let error = "the exchange was asked out of turn".to_owned();
    ReplyStep::Failed(ReplyFailure { error, doubtful: true, ..ReplyFailure::default() })
}

/// A setting without which no reply can be sent.
fn needed<'s>(settings: &'s Settings, name: &str) -> Result<&'s str, ConfigError> {
    let given = settings::text(settings, name)?;
    given.ok_or_else(|| ConfigError::new(name, "is not set: replies need it"))
}

/// The address of an API, without a slash at its end.
fn base<'s>(
    settings: &'s Settings,
    name: &str,
    default: &'static str,
) -> Result<&'s str, ConfigError> {
    let url = settings::text(settings, name)?.unwrap_or(default).trim_end_matches('/');
    match url.starts_with("https://") || url.starts_with("http://") {
        true => Ok(url),
        false => Err(ConfigError::new(name, "must be an http or https address")),
    }
}

/// Adds who is calling; `field` is the setting that the credential is from.
fn authorize(
    call: &mut ApiCall,
    scheme: &str,
    credential: &str,
    field: &str,
) -> Result<(), ConfigError> {
    let value = HeaderValue::try_from(format!("{scheme} {credential}"));
    let mut value = value.map_err(|_| ConfigError::new(field, "cannot stand in a header"))?;
    value.set_sensitive(true);
    call.headers.insert(header::AUTHORIZATION, value);
    Ok(())
}

/// One segment of a path. What it holds came from outside, and must not lead anywhere else.
fn segment(text: &str) -> Result<String, ReplyError> {
    match text {
        "" | "." | ".." => Err(ReplyError::unanswerable("an id in it is not one")),
        text => Ok(form_urlencoded::byte_serialize(text.as_bytes())
            .collect::<String>()
            .replace('+', "%20")),
    }
}

#[cfg(test)]
mod tests;
