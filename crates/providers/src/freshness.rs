//! Reading the time that a sender signed.

use wakepost_domain::Timestamp;

/// How a time is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Millis,
    Rfc3339,
}

impl Unit {
    /// The time, or `None` for anything that is not exactly one. Digits alone: a sign, a space, a fraction
    /// or a number too long for the unit means that the sender and the source disagree about the unit.
    pub(crate) fn read(self, text: &str) -> Option<Timestamp> {
        match self {
            Unit::Seconds => digits(text, 12).map(Timestamp::from_secs),
            Unit::Millis => digits(text, 15).map(Timestamp::from_millis),
            Unit::Rfc3339 if text.len() <= 40 => text.parse().ok(),
            Unit::Rfc3339 => None,
        }
    }

    /// The time as a sender with this unit writes it.
    pub(crate) fn write(self, at: Timestamp) -> String {
        match self {
            Unit::Seconds => at.as_secs().to_string(),
            Unit::Millis => at.as_millis().to_string(),
            Unit::Rfc3339 => at.to_string(),
        }
    }

    /// What a time in this unit looks like.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Unit::Seconds => "a Unix time in seconds, in digits alone",
            Unit::Millis => "a Unix time in milliseconds, in digits alone",
            Unit::Rfc3339 => "an RFC 3339 time",
        }
    }
}

fn digits(text: &str, len_max: usize) -> Option<i64> {
    let fits = (1..=len_max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_plain_digits_of_a_sane_length_are_a_time() {
        assert_eq!(Unit::Seconds.read("1614265330"), Some(Timestamp::from_secs(1_614_265_330)));
        let ms = Timestamp::from_millis(1_614_265_330_123);
        assert_eq!(Unit::Millis.read("1614265330123"), Some(ms));
        for bad in ["", " 1", "1 ", "+1", "-1", "1x", "0x10", "1.0", "1e9", "１", "1614265330123"]
        {
            assert_eq!(Unit::Seconds.read(bad), None, "{bad:?}");
        }
        assert_eq!(Unit::Millis.read("1614265330123456"), None);
    }

    #[test]
    fn an_rfc_3339_time_is_read_with_its_offset() {
        let at = Some(Timestamp::from_secs(1_614_265_330));
        assert_eq!(Unit::Rfc3339.read("2021-02-25T15:02:10Z"), at);
        assert_eq!(Unit::Rfc3339.read("2021-02-25T16:02:10+01:00"), at);
        for bad in ["", "2021-02-25", "2021-02-25T15:02:10", "1614265330", "2021-02-30T00:00:00Z"] {
            assert_eq!(Unit::Rfc3339.read(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn a_time_reads_back_as_a_sender_writes_it(secs in 0i64..100_000_000_000) {
            let at = Timestamp::from_secs(secs);
            for unit in [Unit::Seconds, Unit::Millis, Unit::Rfc3339] {
                prop_assert_eq!(unit.read(&unit.write(at)), Some(at));
            }
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC*") {
            for unit in [Unit::Seconds, Unit::Millis, Unit::Rfc3339] {
                let _ = unit.read(&text);
            }
        }
    }
}
