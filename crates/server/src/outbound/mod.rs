//! Requests that Wakepost sends: jobs pushed to agents, callbacks, and later deliveries and
//! pre-flights. Callers read a URL with [`Target::parse`] and send through [`HttpClient`]; what
//! an answer means (success, retry, dead letter) is theirs to say. For what goes to somebody's
//! webhook [`deliver`] signs, sends and says it.
//!
//! Every attempt resolves the name, checks every address, and connects only to a checked one.
//! Nothing here follows a redirect, asks an environment proxy, inflates a body, waits past the
//! request's one deadline or keeps more bytes than asked for.

pub mod address;
mod answer;
mod client;
mod connector;
mod deliver;
mod fault;
mod guarded;
mod hosts;
mod identity;
mod mail;
mod policy;
mod progress;
mod resolve;
pub mod retry_after;
mod target;

pub use client::{
    HttpClient, KeepBody, OutboundAnswer, OutboundRequest, SendError, SendErrorClass, Timings,
    Trust,
};
pub use deliver::{Delivered, Delivery, TIMEOUT, Tried, deliver};
pub use guarded::{ClientSettings, GuardedClient};
pub use identity::Identity;
pub use mail::{MailFault, Mailer};
pub use policy::{AddressPolicy, Allow, InvalidAllow};
pub use resolve::{Resolver, SystemResolver};
pub use target::{Target, TargetHost, TargetRefusal};

#[cfg(test)]
mod tests;
