//! What a provider is to the rest of Wakepost.

use std::time::Duration;

use wakepost_domain::Timestamp;
use wakepost_domain::envelope::Mapped;
use wakepost_domain::ports::Entropy;
use wakepost_domain::work::Priority;

use crate::mapping::MapError;
use crate::request::{Request, SignedRequest};
use crate::settings::{ConfigError, Setting, Settings};
use crate::verdict::{Check, Refusal, Verified};

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
    /// The status it wants for an accepted request: 202, or 200 where it insists.
    pub accepted_status: u16,
    /// Which queue its jobs wait in.
    pub priority: Priority,
    /// Who makes the secret.
    pub secret: SecretNeed,
}

/// Who makes a source's secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretNeed {
    /// Wakepost may make one, which is then entered at the provider.
    Generated,
    /// The provider shows one, which is then entered here.
    Given,
}

/// What a handshake is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
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
    fn settings(&self) -> &'static [Setting];

    /// Which settings are still missing, by name and with `secret` among them; an error where one is malformed.
    fn check_config(
        &self,
        secret: Option<&str>,
        settings: &Settings,
    ) -> Result<Vec<String>, ConfigError>;

    /// The answer to an unsigned handshake (GET or OPTIONS), if this is one.
    fn handshake(&self, _request: &Request<'_>, _settings: &Settings) -> Option<Answer> {
        None
    }

    /// The answer to a handshake that is signed like any event, if this is one; asked only after `verify`.
    fn signed_handshake(&self, _request: &Request<'_>, _settings: &Settings) -> Option<Answer> {
        None
    }

    /// Whether the request is really from the sender, and fresh.
    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal>;

    /// What the request says; the same answer at ingest and whenever the envelope is read.
    fn map(&self, request: &Request<'_>, settings: &Settings) -> Result<Mapped, MapError>;

    /// A new secret that fits these settings; `None` where the provider makes it.
    fn generate_secret(&self, settings: &Settings, entropy: &dyn Entropy) -> Option<String>;

    /// Adds the headers this sender would add, really signed; the body must already be the one to send.
    fn sign(
        &self,
        request: &mut SignedRequest,
        secret: &str,
        settings: &Settings,
        id: &str,
        now: Timestamp,
    ) -> Result<(), ConfigError>;
}
