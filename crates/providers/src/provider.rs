//! What a provider is to the rest of Wakepost.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::Mapped;
use wakepost_domain::limits::BODY_BYTES_MAX;
use wakepost_domain::ports::Entropy;
use wakepost_domain::work::Priority;

use crate::exchange::{Exchange, Failure, OneCall};
use crate::expansion::{Announces, Expanding, Expansion};
use crate::mapping::MapError;
use crate::registration::{Answered, ApiCall, Registered, Registering, Registration};
use crate::reply::Replies;
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{self, ConfigError, Setting, Settings};
use crate::verdict::{Check, Refusal, Verified};
use crate::{header, payload, signature};

/// What is true of a provider, and a source's defaults that follow from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its name for people.
    pub label: &'static str,
    /// How far a signed time may be off, either way.
    pub tolerance: Duration,
    /// The largest body it sends.
    pub body_bytes_max: usize,
    /// How long it waits for an answer before it counts the request as failed.
    pub patience: Duration,
    /// Whether its signature covers the body.
    pub signs_body: bool,
    /// Whether its signature covers the event's id; if not, the body's hash is a second dedup key.
    pub id_is_signed: bool,
    /// Whether an id and a body belong to one type of event; if not, they tell repeats only within a type.
    pub one_type_per_body: bool,
    /// Whether its signature covers the public address, which must then be configured.
    pub signs_url: bool,
    /// The status it wants for an accepted request: 202, or 200 where it insists.
    pub accepted_status: u16,
    /// Which queue its jobs wait in.
    pub priority: Priority,
    /// Whether each of its messages waits for an answer of its own, so that two are never answered by one.
    pub answers_each: bool,
    /// Who makes the secret.
    pub secret: SecretNeed,
    /// The header by which it says that it tries again.
    pub retry_header: Option<&'static str>,
}

impl Facts {
    /// What is true of most.
    pub const fn usual(label: &'static str) -> Facts {
        Facts {
            label,
            tolerance: Duration::from_secs(300),
            body_bytes_max: BODY_BYTES_MAX,
            patience: Duration::from_secs(10),
            signs_body: true,
            id_is_signed: true,
            one_type_per_body: true,
            signs_url: false,
            accepted_status: 202,
            priority: Priority::Webhook,
            answers_each: false,
            secret: SecretNeed::Given,
            retry_header: None,
        }
    }
}

/// Who makes a source's secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretNeed {
    /// Wakepost may make one, which is then entered at the provider.
    Generated,
    /// The provider shows one, which is then entered here.
    Given,
    /// The provider sends it with its first request.
    Sent,
}

/// A header that a signature is in, or covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHeader {
    /// Its name, in lower case.
    pub name: Cow<'static, str>,
    /// Whether letter case changes nothing in it, as in hex.
    pub any_case: bool,
}

impl SignedHeader {
    /// One in which every character counts.
    pub const fn exact(name: &'static str) -> SignedHeader {
        SignedHeader { name: Cow::Borrowed(name), any_case: false }
    }

    /// One that holds hex.
    pub const fn hex(name: &'static str) -> SignedHeader {
        SignedHeader { name: Cow::Borrowed(name), any_case: true }
    }
}

/// What is signed with and what is verified with: two keys where the scheme has a public one.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// What a sender signs with.
    pub signs: String,
    /// What a source has as its secret.
    pub verifies: String,
}

impl Keys {
    /// One secret that both know.
    pub fn shared(secret: impl Into<String>) -> Keys {
        let secret = secret.into();
        Keys { signs: secret.clone(), verifies: secret }
    }
}

/// What a provider prescribes as the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The media type of the body.
    pub content_type: &'static str,
    /// Headers besides.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
}

impl Answer {
    /// A 200 with this body.
    pub fn ok(content_type: &'static str, body: impl Into<String>) -> Answer {
        Answer { status: 200, content_type, headers: Vec::new(), body: body.into() }
    }
}

/// One kind of sender.
pub trait Provider: Send + Sync {
    /// Its name in the API.
    fn name(&self) -> &'static str;

    /// What is true of it before anything is configured.
    fn facts(&self) -> Facts;

    /// What is true of it with these settings, which matter only to providers that are all configuration.
    fn facts_for(&self, _settings: &Settings) -> Facts {
        self.facts()
    }

    /// The settings it understands, besides the secret.
    fn settings(&self) -> &'static [Setting] {
        &[]
    }

    /// An error where the secret cannot be what this provider uses.
    fn check_secret(&self, _secret: &str, _settings: &Settings) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Whether what verifies its requests is no secret: the public half of a pair.
    fn is_public(&self, _secret: &str, _settings: &Settings) -> bool {
        false
    }

    /// An error where a setting cannot be what this provider uses.
    fn check_settings(&self, _settings: &Settings) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Whether it does without this setting, given the others.
    fn does_without(&self, _setting: &str, _settings: &Settings) -> bool {
        false
    }

    /// Which settings are still missing, by name and with `secret` among them; an error where one is malformed.
    fn check_config(
        &self,
        secret: Option<&str>,
        settings: &Settings,
    ) -> Result<Vec<String>, ConfigError> {
        let mut missing = settings::missing(self.settings(), settings)?;
        missing.retain(|name| !self.does_without(name, settings));
        self.check_settings(settings)?;
        match secret.filter(|secret| !secret.is_empty()) {
            Some(secret) => self.check_secret(secret, settings)?,
            None => missing.insert(0, "secret".to_owned()),
        }
        Ok(missing)
    }

    /// The answer to an unsigned handshake (GET or OPTIONS), if this is one.
    fn handshake(&self, _request: &Request<'_>, _settings: &Settings) -> Option<Answer> {
        None
    }

    /// The secret that a first request brings, while the source has none.
    fn sent_secret(&self, _request: &Request<'_>) -> Option<String> {
        None
    }

    /// The answer to a handshake that is signed like any event, if this is one; asked only after `verify`.
    fn signed_handshake(&self, _request: &Request<'_>, _settings: &Settings) -> Option<Answer> {
        None
    }

    /// The headers that the signature is in or covers, the signature itself first; none where it is in the body.
    fn signed_headers(&self, settings: &Settings) -> Vec<SignedHeader>;

    /// The signature as the request carries it: two requests with the same one are one request, sent twice.
    fn proof(&self, request: &Request<'_>, settings: &Settings) -> Option<String> {
        let header = self.signed_headers(settings).into_iter().next()?;
        header::optional(request.headers, &header.name).ok().flatten().map(str::to_owned)
    }

    /// Whether the request is really from the sender, and fresh.
    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal>;

    /// Whether the bodies of two requests are one and the same to the signature: byte for byte, unless the sender
    /// signs what the body means and not how it is written.
    fn says_the_same(&self, one: &Request<'_>, other: &Request<'_>) -> bool {
        one.body == other.body
    }

    /// The events that the request tells of, at least one; the same answer at ingest and whenever an envelope
    /// is read.
    fn map(&self, request: &Request<'_>, settings: &Settings) -> Result<Vec<Mapped>, MapError>;

    /// The payload of one of its events: of the whole request, unless it tells of many.
    fn data(&self, request: &Request<'_>, _part: usize) -> Value {
        payload::data(request)
    }

    /// The answer that it prescribes for an event that was stored or was there already.
    fn prescribed(&self, _request: &Request<'_>, _settings: &Settings) -> Option<Answer> {
        None
    }

    /// Where in its product a webhook's address is entered; `None` where there is no such place.
    fn place(&self) -> Option<&'static str> {
        None
    }

    /// What an operator does at the provider to register the webhook.
    fn steps(&self, webhook_url: &str) -> Vec<String> {
        let Facts { label, secret, .. } = self.facts();
        let enter = match self.place() {
            Some(place) => format!("At {label}, open {place} and enter the address {webhook_url}"),
            None => format!("At {label}, add a webhook with the address {webhook_url}"),
        };
        match secret {
            SecretNeed::Generated => vec![format!("{enter} and the source's secret.")],
            SecretNeed::Given => vec![
                format!("{enter}."),
                format!("Enter the secret that {label} shows as the source's secret."),
            ],
            SecretNeed::Sent => vec![
                format!("{enter}. It sends its secret with the first request."),
                "Ask for this set-up again: it shows what was sent, once.".to_owned(),
                format!("Enter that at {label} to confirm the address."),
            ],
        }
    }

    /// The call that registers the webhook, where the provider has an API for it and the settings suffice.
    fn registration(&self, _at: &Registration<'_>) -> Option<ApiCall> {
        None
    }

    /// What that call came to; an error is what the provider said.
    fn registered(&self, _answered: &Answered<'_>) -> Result<(), String> {
        Ok(())
    }

    /// How its events are answered; `None` where nobody waits for an answer.
    fn replies(&self) -> Option<&'static dyn Replies> {
        None
    }

    /// The registration of the webhook as a conversation, where one call does not do.
    fn registering<'a>(
        &'a self,
        at: Registering<'a>,
    ) -> Option<Box<dyn Exchange<Registered> + 'a>> {
        let call = self.registration(&at.at)?;
        let read = |answered: &Answered<'_>| match self.registered(answered) {
            Ok(()) => Ok(Registered::default()),
            Err(error) => Err(Failure { error, ..Failure::of("it", answered) }),
        };
        Some(Box::new(OneCall::new(call, read)))
    }

    /// Asks the provider what is wrong with the webhook, if anything; `None` where it cannot be asked.
    fn standing<'a>(
        &'a self,
        _settings: &'a Settings,
    ) -> Option<Box<dyn Exchange<Option<String>> + 'a>> {
        None
    }

    /// The settings that follow from what was kept of a registration; asked only of those that keep something.
    fn registered_settings(&self, _registration: &Value) -> Settings {
        Settings::new()
    }

    /// Whether a registration leaves something to be kept.
    fn keeps_registration(&self) -> bool {
        false
    }

    /// What an event announces, if it does only that.
    fn announces(&self, _mapped: &Mapped) -> Option<Announces> {
        None
    }

    /// Fetches what an event announced; none where there is nothing to fetch.
    fn expand<'a>(
        &'a self,
        _what: Expanding<'a>,
    ) -> Result<Option<Box<dyn Exchange<Expansion> + 'a>>, ConfigError> {
        Ok(None)
    }

    /// A new secret that fits these settings; `None` where the provider makes it.
    fn generate_secret(&self, _settings: &Settings, _entropy: &dyn Entropy) -> Option<String> {
        None
    }

    /// Keys to try it with, as its sender might have them.
    fn sample_keys(&self, settings: &Settings, entropy: &dyn Entropy) -> Keys {
        let made = self.generate_secret(settings, entropy);
        Keys::shared(made.unwrap_or_else(|| hex::encode(signature::random_key(entropy))))
    }

    /// Realistic requests to try it with, at least one.
    fn samples(&self) -> &'static [Sample];

    /// Adds what this sender would add, really signed; the body must already be the one to send.
    fn sign(
        &self,
        request: &mut SignedRequest,
        secret: &str,
        settings: &Settings,
        id: &str,
        now: Timestamp,
    ) -> Result<(), ConfigError>;
}
