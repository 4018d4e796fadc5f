//! What the tests of all providers share.

use std::sync::atomic::{AtomicU8, Ordering};

use wakepost_domain::Timestamp;
use wakepost_domain::envelope::Mapped;
use wakepost_domain::ports::Entropy;

use crate::{Check, MapError, Provider, Refusal, Settings, SignedRequest, Verified};

mod promises;

/// When every test happens unless it says otherwise.
pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

/// Bytes that count up: different every time, and the same in every run.
#[derive(Default)]
pub(crate) struct Counting(AtomicU8);

impl Entropy for Counting {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill_with(|| self.0.fetch_add(1, Ordering::Relaxed));
    }
}

/// Settings from pairs.
pub(crate) fn settings(pairs: &[(&str, &str)]) -> Settings {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect()
}

/// The verdict now, without settings.
pub(crate) fn verify(
    provider: &dyn Provider,
    request: &SignedRequest,
    secrets: &[&str],
) -> Result<Verified, Refusal> {
    verify_at(provider, request, secrets, NOW)
}

/// The verdict at another time, without settings.
pub(crate) fn verify_at(
    provider: &dyn Provider,
    request: &SignedRequest,
    secrets: &[&str],
    now: Timestamp,
) -> Result<Verified, Refusal> {
    verify_with(provider, request, secrets, &Settings::new(), now)
}

/// The verdict with everything given.
pub(crate) fn verify_with(
    provider: &dyn Provider,
    request: &SignedRequest,
    secrets: &[&str],
    settings: &Settings,
    now: Timestamp,
) -> Result<Verified, Refusal> {
    let tolerance = provider.facts().tolerance;
    provider.verify(&request.as_request(), &Check { secrets, settings, now, tolerance })
}

/// The mapping without settings of a request that tells of one event.
pub(crate) fn map(provider: &dyn Provider, request: &SignedRequest) -> Result<Mapped, MapError> {
    map_with(provider, request, &Settings::new())
}

/// The mapping of a request that tells of one event.
pub(crate) fn map_with(
    provider: &dyn Provider,
    request: &SignedRequest,
    settings: &Settings,
) -> Result<Mapped, MapError> {
    let mut events = provider.map(&request.as_request(), settings)?;
    assert_eq!(events.len(), 1, "one event");
    Ok(events.remove(0))
}
