//! A moment, in whole milliseconds: written as RFC 3339 in UTC, everywhere.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since 1970 in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// The text was not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time, such as 2026-11-15T10:00:00.000Z")]
pub struct InvalidTime;

impl Timestamp {
    /// From Unix milliseconds.
    pub const fn from_millis(ms: i64) -> Timestamp {
        Timestamp(ms)
    }

    /// From Unix seconds.
    pub const fn from_secs(secs: i64) -> Timestamp {
        Timestamp(secs.saturating_mul(1000))
    }

    /// Unix milliseconds.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Whole Unix seconds, rounded down.
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This much later, or the last moment there is.
    pub fn after(self, by: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// This much earlier, or the first moment there is.
    pub fn before(self, by: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// How far apart the two are, whichever is first.
    pub fn distance(self, other: Timestamp) -> Duration {
        Duration::from_millis(self.0.abs_diff(other.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            // Outside the years 1 to 9999 there is no RFC 3339 text.
            Err(_) => f.write_str(if self.0 < 0 {
                "0001-01-01T00:00:00.000Z"
            } else {
                "9999-12-31T23:59:59.999Z"
            }),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTime;
    fn from_str(text: &str) -> Result<Timestamp, InvalidTime> {
        let time: jiff::Timestamp = text.parse().map_err(|_| InvalidTime)?;
        Ok(Timestamp(time.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_written_in_utc_with_milliseconds() {
        assert_eq!(
            Timestamp::from_millis(1_794_650_400_000).to_string(),
            "2026-11-14T10:00:00.000Z"
        );
        assert_eq!(Timestamp::from_millis(-1).to_string(), "1969-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::from_millis(i64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }

    proptest! {
        #[test]
        fn a_time_reads_back_as_written(ms in 0i64..253_402_300_799_999) {
            let time = Timestamp::from_millis(ms);
            prop_assert_eq!(time.to_string().parse::<Timestamp>(), Ok(time));
        }
    }
}
