//! Times: read as people write them, shown as people read them.

use std::str::FromStr;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A hundred years.
const SPAN_S_MAX: i64 = 100 * 366 * 86_400;

/// A moment on the command line: `2h` (ago, or from now), a date, or RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    At(Timestamp),
    Span(SignedDuration),
}

impl When {
    /// As the API takes it, a span counted back from now.
    pub fn ago(self, now: Timestamp) -> String {
        self.resolve(|span| now.checked_sub(span))
    }

    /// As the API takes it, a span counted on from now.
    pub fn ahead(self, now: Timestamp) -> String {
        self.resolve(|span| now.checked_add(span))
    }

    fn resolve<E>(self, shift: impl Fn(SignedDuration) -> Result<Timestamp, E>) -> String {
        let at = match self {
            When::At(at) => at,
            // It cannot fail: spans are far shorter than the calendar.
            When::Span(span) => shift(span).unwrap_or(Timestamp::UNIX_EPOCH),
        };
        format!("{at:.3}")
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<When, String> {
        if let Some(span) = span(text) {
            return Ok(When::Span(span));
        }
        if let Ok(at) = text.parse::<Timestamp>() {
            return Ok(When::At(at));
        }
        let midnight = text.parse::<Date>().and_then(|d| d.to_zoned(TimeZone::UTC));
        midnight
            .map(|midnight| When::At(midnight.timestamp()))
            .map_err(|_| "write 30m, 2h, 7d, 2026-11-15 or 2026-11-15T09:00:00Z".to_owned())
    }
}

fn span(text: &str) -> Option<SignedDuration> {
    let unit = text.chars().last()?;
    let each_s: i64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    let count: u32 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = i64::from(count) * each_s;
    (seconds <= SPAN_S_MAX).then(|| SignedDuration::from_secs(seconds))
}

/// `3 min ago`, `in 38 s`. A time that cannot be read is shown as it came.
pub fn relative(now: Timestamp, text: &str) -> String {
    match text.parse::<Timestamp>() {
        Ok(at) => distance(now, at),
        Err(_) => text.to_owned(),
    }
}

/// `2026-11-15 09:14:22Z (3 min ago)`
pub fn absolute(now: Timestamp, text: &str) -> String {
    match text.parse::<Timestamp>() {
        Ok(at) => format!("{} ({})", at.strftime("%Y-%m-%d %H:%M:%SZ"), distance(now, at)),
        Err(_) => text.to_owned(),
    }
}

fn distance(now: Timestamp, at: Timestamp) -> String {
    let apart = at.duration_since(now);
    let amount = amount(apart.abs().as_secs());
    match apart.as_secs() {
        0 => "just now".to_owned(),
        1.. => format!("in {amount}"),
        _ => format!("{amount} ago"),
    }
}

/// `3 s`, `5 min`, `2 h`
pub fn amount(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-15T09:17:22Z".parse().expect("a time")
    }

    #[test]
    fn times_read_as_a_person_would_say_them() {
        for (text, said) in [
            ("2026-11-15T09:17:22.400Z", "just now"),
            ("2026-11-15T09:17:00Z", "22 s ago"),
            ("2026-11-15T09:14:22.000Z", "3 min ago"),
            ("2026-11-15T09:18:00Z", "in 38 s"),
            ("2026-11-15T04:00:00Z", "5 h ago"),
            ("2026-11-01T09:17:22Z", "14 days ago"),
            ("soon", "soon"),
        ] {
            assert_eq!(relative(now(), text), said, "{text}");
        }
        assert_eq!(absolute(now(), "2026-11-15T09:14:22.000Z"), "2026-11-15 09:14:22Z (3 min ago)");
    }

    #[test]
    fn spans_dates_and_times_are_understood() {
        let sent = |text: &str| text.parse::<When>().expect(text).ago(now());
        assert_eq!(sent("2h"), "2026-11-15T07:17:22.000Z");
        assert_eq!(sent("7d"), "2026-11-08T09:17:22.000Z");
        assert_eq!(sent("2026-11-14"), "2026-11-14T00:00:00.000Z");
        assert_eq!(sent("2026-11-14T10:00:00+02:00"), "2026-11-14T08:00:00.000Z");
        let ahead = "90d".parse::<When>().expect("a span").ahead(now());
        assert_eq!(ahead, "2027-02-13T09:17:22.000Z");
        for text in ["", "h", "-2h", "2 hours", "yesterday", "2hé", "9999w"] {
            assert!(text.parse::<When>().is_err(), "{text}");
        }
    }
}
