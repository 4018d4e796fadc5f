//! Keys and settings to sign a provider's requests with, and the check of what came.

#![allow(dead_code)]

use std::time::Duration;

use http::{HeaderMap, Method};
use wakepost_domain::Timestamp;
use wakepost_domain::ports::Entropy;
use wakepost_providers::{
    Check, Keys, Provider, Refusal, Request, Settings, Verified, examples, registry,
};

/// What the sources of these tests are registered as.
pub const PUBLIC_URL: &str = "https://hooks.example/in/src_1";

/// Always the same bytes: these keys guard nothing.
struct Sevens;

impl Entropy for Sevens {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(7);
    }
}

/// The provider of this name.
pub fn provider(name: &str) -> &'static dyn Provider {
    registry::find(name).expect("a provider")
}

/// What its source must be told.
pub fn settings(provider: &dyn Provider) -> Settings {
    examples(provider.settings())
}

/// What its sender signs with, and its source verifies with.
pub fn keys(provider: &dyn Provider) -> Keys {
    provider.sample_keys(&settings(provider), &Sevens)
}

/// The time now.
pub fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

/// What a source of the provider makes of a POST now.
pub fn verdict(
    provider: &dyn Provider,
    secret: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Verified, Refusal> {
    let request = Request { method: &Method::POST, url: PUBLIC_URL, headers, body, fetched: None };
    let (settings, tolerance) = (settings(provider), Duration::from_secs(300));
    let check = Check { secrets: &[secret], settings: &settings, now: now(), tolerance };
    provider.verify(&request, &check)
}
