//! Who is calling, is it really them, and what did they say.
//!
//! The server's edge asks this crate about every inbound request, and again when an envelope is read.
//! Everything here is pure: headers, body, secrets and the time now come in; a verdict and a mapping come
//! out. It never keeps, sends or logs anything, and it never reads a clock.
//!
//! One file per provider and one list of them ([`registry`]): adding a provider touches those two only.

mod basic;
mod cloudevents;
mod discord;
mod email_mailgun;
mod email_postmark;
mod email_resend;
mod email_sendgrid;
mod exchange;
mod expansion;
mod explain;
mod form;
mod freshness;
mod generic;
mod github;
mod gitlab;
mod google;
mod google_docs;
mod header;
mod hmac_header;
mod hubspot;
mod intercom;
mod jira;
mod linear;
mod mail;
mod mapping;
mod notion;
mod pagerduty;
mod payload;
mod provider;
mod registration;
mod reply;
mod request;
mod sample;
mod sendgrid_events;
mod settings;
mod shopify;
mod signature;
mod slack;
mod square;
mod standard_webhooks;
mod stripe;
mod telegram;
mod template;
mod twilio;
mod verdict;
mod whatsapp;
mod zendesk;

pub mod registry;
pub mod standard;

pub use exchange::{Exchange, Failure, Step};
pub use expansion::{Announces, Expanding, Expansion};
pub use explain::{EXPLAINED_BYTES_MAX, OtherSecret, explain};
pub use mapping::MapError;
pub use payload::data;
pub use provider::{Answer, Facts, Keys, Provider, SecretNeed, SignedHeader};
pub use registration::{Answered, ApiCall, Registered, Registering, Registration};
pub use reply::{
    MailTls, Mailed, Outgoing, OutgoingMail, Replies, ReplyError, ReplyExchange, ReplyFailure,
    ReplyStep, To,
};
pub use request::{Request, SignedRequest};
pub use sample::Sample;
pub use settings::{ConfigError, Need, Setting, Settings, examples};
pub use template::Template;
pub use verdict::{Check, Refusal, Verified, Why};

#[cfg(test)]
mod testing;
