//! How long a receiver asks us to wait.

use std::time::Duration;

use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use wakepost_domain::Timestamp;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The three forms of RFC 9110, 5.6.7: the one that is written today, then the two of old
/// senders, which a recipient must still read.
const DATE_FORMS: [&str; 3] =
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// Reads a `Retry-After` value, as seconds or as a date, and keeps it between 1 s and 24 h.
/// Anything else is `None`, so that the schedule decides.
pub fn parse(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim_matches([' ', '\t']);
    let delay = if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Digits alone can fail to parse only by being too many.
        Duration::from_secs(value.parse().unwrap_or(u64::MAX))
    } else {
        parse_date(value)?.since(now)
    };
    Some(delay.clamp(SHORTEST, LONGEST))
}

fn parse_date(value: &str) -> Option<Timestamp> {
    // The longest form has 33 bytes; the parser need not see more.
    if value.len() > 40 {
        return None;
    }
    let civil =
        DATE_FORMS.iter().find_map(|form| strtime::parse(form, value).ok()?.to_datetime().ok())?;
    let time = civil.to_zoned(TimeZone::UTC).ok()?.timestamp();
    Some(Timestamp::from_millis(time.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn seconds_are_kept_within_bounds() {
        let now = Timestamp::from_secs(0);
        for (value, secs) in [
            ("120", 120),
            (" 7\t", 7),
            ("0", 1),
            ("007", 7),
            ("86400", 86_400),
            ("86401", 86_400),
            ("99999999999999999999999999", 86_400),
        ] {
            assert_eq!(parse(value, now), Some(Duration::from_secs(secs)), "{value}");
        }
    }

    #[test]
    fn all_three_date_forms_are_read() {
        let now = at("1994-11-06T08:48:37Z");
        for value in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(value, now), Some(Duration::from_secs(60)), "{value}");
        }
    }

    #[test]
    fn a_past_date_waits_the_least_and_a_far_one_the_most() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(parse(date, at("2026-11-15T10:00:00Z")), Some(SHORTEST));
        assert_eq!(parse(date, at("1994-11-06T08:49:37Z")), Some(SHORTEST));
        assert_eq!(parse(date, at("1990-01-01T00:00:00Z")), Some(LONGEST));
    }

    #[test]
    fn garbage_is_no_wish() {
        for value in [
            "",
            " ",
            "-1",
            "+1",
            "1.5",
            "1e3",
            "12 s",
            "soon",
            "0x10",
            "١٢",
            "1,2",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 25:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 PST",
            "Sun, 06 Nov 1994 08:49:37",
            "1994-11-06T08:49:37Z",
        ] {
            assert_eq!(parse(value, Timestamp::from_secs(0)), None, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_within_bounds_or_not_at_all(value in ".{0,60}", now: i64) {
            if let Some(delay) = parse(&value, Timestamp::from_millis(now)) {
                prop_assert!((SHORTEST..=LONGEST).contains(&delay));
            }
        }
    }
}
