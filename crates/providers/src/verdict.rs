//! The verdict on a request: verified, or refused and why.

use std::time::Duration;

use wakepost_domain::Timestamp;
use wakepost_domain::receipt::Verdict;

use crate::settings::{ConfigError, Settings};

/// What a request is checked against.
#[derive(Clone, Copy)]
pub struct Check<'a> {
    /// The live secrets, the current one first.
    pub secrets: &'a [&'a str],
    /// The source's settings, secret ones included.
    pub settings: &'a Settings,
    /// The time now.
    pub now: Timestamp,
    /// How far a signed time may be off, either way.
    pub tolerance: Duration,
}

/// The request is really from the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Which of the live secrets it was signed with.
    pub secret_index: usize,
    /// When it was signed, where the signature covers a time.
    pub signed_at: Option<Timestamp>,
}

/// The request is refused; the text is for the operator, never for the sender, and holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The signature is wrong, missing or malformed: 401.
    #[error("{0}")]
    Signature(Why),
    /// The signature is good, but its time is too far off: 403.
    #[error(
        "the request was signed {}.{:03} s {}, more than the {} s allowed",
        off.as_secs(), off.subsec_millis(), if *ahead { "ahead of our clock" } else { "ago" }, tolerance.as_secs()
    )]
    Stale {
        /// When it was signed.
        signed_at: Timestamp,
        /// How far that is from now.
        off: Duration,
        /// Whether it lies in the future.
        ahead: bool,
        /// How far it may be.
        tolerance: Duration,
    },
    /// The source cannot verify anything until its configuration is completed: 503.
    #[error("the source is not ready: {0}")]
    Unready(ConfigError),
}

/// What is wrong with a signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// A header that must be there is not.
    #[error("the header {0} is missing")]
    Missing(String),
    /// A header is there and says nothing.
    #[error("the header {0} is empty")]
    Empty(String),
    /// A header is there more than once, so nobody can say which one was signed.
    #[error("the header {0} is there more than once")]
    Doubled(String),
    /// A header, or a signed field of the body, is not what it should be.
    #[error("{place} is not {expected}")]
    Malformed {
        /// Which header or field.
        place: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Everything is in place, but no live secret gives this signature for these bytes.
    #[error(
        "the signature fits none of the source's secrets: another secret, or the body was changed on its way"
    )]
    Mismatch,
}

impl Why {
    pub(crate) fn malformed(place: impl Into<String>, expected: &'static str) -> Why {
        Why::Malformed { place: place.into(), expected }
    }
}

impl From<Why> for Refusal {
    fn from(why: Why) -> Refusal {
        Refusal::Signature(why)
    }
}

impl Refusal {
    /// What the receipt says.
    pub fn verdict(&self) -> Verdict {
        match self {
            Refusal::Signature(_) => Verdict::BadSignature,
            Refusal::Stale { .. } => Verdict::Stale,
            Refusal::Unready(_) => Verdict::Unavailable,
        }
    }
}

impl Check<'_> {
    /// The first live secret that fits. An empty secret never does: anybody could sign with it.
    pub(crate) fn secret_that(
        &self,
        fits: impl Fn(&str) -> Result<bool, ConfigError>,
    ) -> Result<usize, Refusal> {
        let mut usable = false;
        let mut unready = ConfigError::new("secret", "is not set");
        for (index, secret) in self.secrets.iter().enumerate().filter(|(_, s)| !s.is_empty()) {
            match fits(secret) {
                Ok(true) => return Ok(index),
                Ok(false) => usable = true,
                Err(error) => unready = error,
            }
        }
        // One malformed secret beside a usable one must not turn a forged request into a 503.
        Err(if usable { Why::Mismatch.into() } else { Refusal::Unready(unready) })
    }

    /// Refuses a time too far off. Call it only after the signature was found good: 401 comes before 403.
    pub(crate) fn fresh(&self, signed_at: Timestamp) -> Result<(), Refusal> {
        let off = self.now.distance(signed_at);
        if off <= self.tolerance {
            return Ok(());
        }
        let ahead = signed_at > self.now;
        Err(Refusal::Stale { signed_at, off, ahead, tolerance: self.tolerance })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<'a>(secrets: &'a [&'a str], settings: &'a Settings) -> Check<'a> {
        let (now, tolerance) = (Timestamp::from_secs(1_000_000), Duration::from_secs(300));
        Check { secrets, settings, now, tolerance }
    }

    #[test]
    fn a_time_is_fresh_up_to_the_tolerance_and_no_further_either_way() {
        let settings = Settings::new();
        let check = check(&[], &settings);
        for ms in [-300_000i64, -1, 0, 1, 300_000] {
            assert!(check.fresh(Timestamp::from_millis(1_000_000_000 + ms)).is_ok());
        }
        for (ms, is_ahead) in [(-300_001i64, false), (300_001, true)] {
            match check.fresh(Timestamp::from_millis(1_000_000_000 + ms)) {
                Err(Refusal::Stale { off, ahead, .. }) => {
                    assert_eq!((off, ahead), (Duration::from_millis(300_001), is_ahead));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn an_empty_secret_verifies_nothing() {
        let settings = Settings::new();
        let verdict = check(&["", ""], &settings).secret_that(|_| Ok(true));
        assert!(matches!(verdict, Err(Refusal::Unready(_))));
    }

    #[test]
    fn a_malformed_secret_beside_a_usable_one_is_passed_over() {
        let settings = Settings::new();
        let fits = |secret: &str| match secret {
            "bad" => Err(ConfigError::new("secret", "is malformed")),
            other => Ok(other == "good"),
        };
        assert_eq!(check(&["bad", "good"], &settings).secret_that(fits), Ok(1));
        assert_eq!(
            check(&["bad", "other"], &settings).secret_that(fits),
            Err(Refusal::Signature(Why::Mismatch))
        );
        assert!(matches!(check(&["bad"], &settings).secret_that(fits), Err(Refusal::Unready(_))));
    }

    #[test]
    fn a_stale_refusal_says_how_far_the_clock_was_off() {
        let settings = Settings::new();
        let refusal = check(&[], &settings).fresh(Timestamp::from_millis(999_699_500)).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "the request was signed 300.500 s ago, more than the 300 s allowed"
        );
    }
}
