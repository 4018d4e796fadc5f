//! What became of a request.

use serde::{Deserialize, Serialize};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_reads_back_from_its_code() {
        for verdict in Verdict::ALL {
            assert_eq!(Verdict::from_code(verdict as i16), Some(verdict));
        }
        assert_eq!(Verdict::from_code(13), None);
        assert_eq!(Verdict::from_code(-1), None);
    }
}
