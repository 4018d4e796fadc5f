//! What became of a request.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::time::Timestamp;

/// The verdict on one inbound request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Stored, with a job.
    Accepted = 0,
    /// Known already.
    Duplicate = 1,
    /// Stored, without a job: the filter or the provider's rules say so.
    Ignored = 2,
    /// Stored, without a job: it could not be understood.
    Unmapped = 3,
    /// The signature is wrong or missing.
    BadSignature = 4,
    /// The signed time is too far off.
    Stale = 5,
    /// The body is too large.
    Oversize = 6,
    /// The request is broken.
    Malformed = 7,
    /// The sender was too slow.
    TooSlow = 8,
    /// The sender's address is not allowed.
    AddressRefused = 9,
    /// Too many requests.
    RateLimited = 10,
    /// Part of a provider's set-up.
    Handshake = 11,
    /// The store could not commit.
    Unavailable = 12,
}

impl Verdict {
    /// All verdicts, in the order of their codes.
    pub const ALL: [Verdict; 13] = [
        Verdict::Accepted,
        Verdict::Duplicate,
        Verdict::Ignored,
        Verdict::Unmapped,
        Verdict::BadSignature,
        Verdict::Stale,
        Verdict::Oversize,
        Verdict::Malformed,
        Verdict::TooSlow,
        Verdict::AddressRefused,
        Verdict::RateLimited,
        Verdict::Handshake,
        Verdict::Unavailable,
    ];

    /// From storage.
    pub fn from_code(code: i16) -> Option<Verdict> {
        Verdict::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// The word clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Accepted => "accepted",
            Verdict::Duplicate => "duplicate",
            Verdict::Ignored => "ignored",
            Verdict::Unmapped => "unmapped",
            Verdict::BadSignature => "bad_signature",
            Verdict::Stale => "stale",
            Verdict::Oversize => "oversize",
            Verdict::Malformed => "malformed",
            Verdict::TooSlow => "too_slow",
            Verdict::AddressRefused => "address_refused",
            Verdict::RateLimited => "rate_limited",
            Verdict::Handshake => "handshake",
            Verdict::Unavailable => "unavailable",
        }
    }
}

/// What a repeat showed of itself, kept with its receipt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// What made it a duplicate, for people.
    pub dedup_key: String,
    /// The first bytes of the body's SHA-256, in hex.
    pub body: String,
    /// The signature's hash, where the signature covers a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<i64>,
    /// What the provider's retry header said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
    /// How our own earlier answer failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub our_fault: Option<OurFault>,
}

/// How our own answer to the same event failed a moment before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OurFault {
    /// We answered 503, and may have stored it after all.
    Unavailable,
    /// We answered later than the provider waits.
    Slow,
}

/// Why a request came again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The provider tried again.
    ProviderRetry,
    /// The provider, or somebody there, sent it again long after.
    ProviderReplay,
    /// Our own answer made the provider try again.
    SelfInflicted,
    /// Nobody should be able to send this.
    Suspicious,
}

impl Class {
    /// The word clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::ProviderRetry => "provider_retry",
            Class::ProviderReplay => "provider_replay",
            Class::SelfInflicted => "self_inflicted",
            Class::Suspicious => "suspicious",
        }
    }
}

/// How long after the first a repeat is still a retry, where nothing else tells.
const SOON: Duration = Duration::from_secs(3600);

/// A repeat beside the first of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// How long after the first it came.
    pub seconds_after: u64,
    /// Whether it has the first's id.
    pub same_id: bool,
    /// Whether it has the first's body.
    pub same_body: bool,
    /// Whether it has the first's signature; `None` where that says nothing, since no time is signed.
    pub same_signature: Option<bool>,
    /// Whether it came from where the first did.
    pub same_address: bool,
}

impl Compared {
    /// Puts a repeat beside the first.
    pub fn new(first: &Event, at: Timestamp, address: Option<&str>, evidence: &Evidence) -> Self {
        Compared {
            seconds_after: at.distance(first.received_at).as_secs(),
            same_id: first.dedup_key == evidence.dedup_key,
            same_body: Evidence::body_text(&first.payload_hash) == evidence.body,
            same_signature: first.signature.zip(evidence.signature).map(|(a, b)| a == b),
            same_address: first.remote_addr.as_deref() == address,
        }
    }

    /// Why it came again.
    pub fn class(&self, evidence: &Evidence) -> Class {
        let resigned = self.same_signature != Some(true);
        let forged = match (self.same_id, self.same_body) {
            // An id stands for one body.
            (true, false) => true,
            // A captured body under a new id.
            (false, true) => true,
            // One thing under two ids, as some providers send it; signed anew if it is really from them.
            (false, false) => !resigned,
            (true, true) => !resigned && !self.same_address,
        };
        match (forged, evidence.our_fault, &evidence.retry) {
            (true, ..) => Class::Suspicious,
            (_, Some(_), _) => Class::SelfInflicted,
            (.., Some(_)) => Class::ProviderRetry,
            _ if self.seconds_after <= SOON.as_secs() => Class::ProviderRetry,
            _ => Class::ProviderReplay,
        }
    }
}

impl Evidence {
    /// A body's hash as evidence has it.
    pub fn body_text(hash: &[u8; 32]) -> String {
        hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Route;
    use crate::{EventId, SourceId, TenantId, Ulid};

    #[test]
    fn every_verdict_reads_back_from_its_code() {
        for verdict in Verdict::ALL {
            assert_eq!(Verdict::from_code(verdict as i16), Some(verdict));
        }
        assert_eq!(Verdict::from_code(13), None);
        assert_eq!(Verdict::from_code(-1), None);
    }

    fn first() -> Event {
        Event {
            id: EventId(Ulid::from_bytes([1; 16])),
            tenant: TenantId::DEFAULT,
            source: SourceId(Ulid::from_bytes([2; 16])),
            event_type: "t".into(),
            dedup_key: "k".into(),
            route: Route::Job,
            verified: true,
            subject: None,
            thread: None,
            occurred_at: None,
            received_at: Timestamp::from_secs(1000),
            payload_hash: [7; 32],
            duplicates: 1,
            remote_addr: Some("192.0.2.1".into()),
            latency_us: 1,
            part: None,
            trace: None,
            signature: Some(5),
        }
    }

    fn evidence() -> Evidence {
        Evidence {
            dedup_key: "k".into(),
            body: Evidence::body_text(&[7; 32]),
            signature: Some(6),
            retry: None,
            our_fault: None,
        }
    }

    fn class_of(after_s: i64, address: &str, evidence: &Evidence) -> Class {
        let at = Timestamp::from_secs(1000 + after_s);
        Compared::new(&first(), at, Some(address), evidence).class(evidence)
    }

    #[test]
    fn a_freshly_signed_repeat_is_a_retry_soon_after_and_a_replay_later() {
        assert_eq!(class_of(5, "192.0.2.9", &evidence()), Class::ProviderRetry);
        assert_eq!(class_of(3600, "192.0.2.9", &evidence()), Class::ProviderRetry);
        assert_eq!(class_of(3601, "192.0.2.9", &evidence()), Class::ProviderReplay);
        let marked = Evidence { retry: Some("2".into()), ..evidence() };
        assert_eq!(class_of(90_000, "192.0.2.9", &marked), Class::ProviderRetry);
    }

    #[test]
    fn our_own_failure_explains_a_repeat() {
        for our_fault in [OurFault::Unavailable, OurFault::Slow] {
            let evidence = Evidence { our_fault: Some(our_fault), ..evidence() };
            assert_eq!(class_of(5, "192.0.2.1", &evidence), Class::SelfInflicted);
        }
    }

    #[test]
    fn a_captured_signature_from_elsewhere_is_suspicious_and_from_the_same_place_is_not() {
        let captured = Evidence { signature: Some(5), ..evidence() };
        assert_eq!(class_of(5, "198.51.100.7", &captured), Class::Suspicious);
        assert_eq!(class_of(5, "192.0.2.1", &captured), Class::ProviderRetry);
        // Without a signed time every repeat has the same signature.
        let untimed = Evidence { signature: None, ..evidence() };
        assert_eq!(class_of(5, "198.51.100.7", &untimed), Class::ProviderRetry);
    }

    #[test]
    fn the_same_id_with_another_body_and_the_same_body_under_another_id_are_suspicious() {
        let other_body = Evidence { body: Evidence::body_text(&[8; 32]), ..evidence() };
        let fault = Evidence { our_fault: Some(OurFault::Slow), ..other_body.clone() };
        assert_eq!(class_of(5, "192.0.2.1", &other_body), Class::Suspicious);
        assert_eq!(class_of(5, "192.0.2.1", &fault), Class::Suspicious);
        let other_id = Evidence { dedup_key: "l".into(), ..evidence() };
        assert_eq!(class_of(5, "192.0.2.1", &other_id), Class::Suspicious);
    }

    #[test]
    fn one_thing_under_two_ids_is_no_crime_unless_its_signature_was_used_before() {
        let body = Evidence::body_text(&[8; 32]);
        let two_ids = Evidence { dedup_key: "l".into(), body, ..evidence() };
        assert_eq!(class_of(5, "192.0.2.1", &two_ids), Class::ProviderRetry);
        let reused = Evidence { signature: Some(5), ..two_ids };
        assert_eq!(class_of(5, "192.0.2.1", &reused), Class::Suspicious);
    }
}
