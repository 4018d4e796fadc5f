//! Figures, times and ids as people read them.

use std::time::Duration;

use wakepost_domain::Timestamp;

/// A count with thin gaps between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A duration in one unit, or two.
pub fn lasting(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..10_000 => format!("{:.1} s", duration.as_secs_f64()),
        10_000..60_000 => format!("{} s", ms / 1000),
        60_000..3_600_000 => two(ms / 1000, 60, "min", "s"),
        3_600_000..86_400_000 => two(ms / 60_000, 60, "h", "min"),
        _ => two(ms / 3_600_000, 24, "d", "h"),
    }
}

fn two(small: u128, per_large: u128, large_unit: &str, small_unit: &str) -> String {
    match small % per_large {
        0 => format!("{} {large_unit}", small / per_large),
        rest => format!("{} {large_unit} {rest} {small_unit}", small / per_large),
    }
}

/// Milliseconds as a measurement.
pub fn millis(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1_000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1_000.0),
    }
}

/// How long ago, or how far ahead, in one unit.
pub fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.distance(now).as_secs();
    let text = match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    };
    match at <= now {
        true if seconds == 0 => "now".to_owned(),
        true => format!("{text} ago"),
        false => format!("in {text}"),
    }
}

/// A long id with its middle left out: what kind it is and how it ends tell it from others.
pub fn short(id: &str) -> String {
    let letters: Vec<char> = id.chars().collect();
    let prefix = id.find('_').filter(|at| *at < 8).map_or(0, |at| at + 1);
    if letters.len() <= prefix + 14 {
        return id.to_owned();
    }
    let first: String = letters[..prefix + 4].iter().collect();
    let last: String = letters[letters.len() - 6..].iter().collect();
    format!("{first}…{last}")
}

/// One thing or many.
pub fn many(number: usize, one: &str, more: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{} {more}", count(number as u64)),
    }
}

/// A share as a percentage that never rounds up to all.
pub fn percent(part: u64, whole: u64) -> Option<String> {
    if whole == 0 {
        return None;
    }
    let share = part as f64 * 100.0 / whole as f64;
    Some(match share {
        share if part == whole => format!("{share:.0} %"),
        share => format!("{:.1} %", (share * 10.0).floor() / 10.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_as_people_write_them() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1234567), "1\u{202f}234\u{202f}567");
        assert_eq!(lasting(Duration::from_millis(3)), "3 ms");
        assert_eq!(lasting(Duration::from_secs(61)), "1 min 1 s");
        assert_eq!(lasting(Duration::from_secs(7200)), "2 h");
        assert_eq!(lasting(Duration::from_secs(90_000)), "1 d 1 h");
        assert_eq!(percent(999_999, 1_000_000).as_deref(), Some("99.9 %"));
        assert_eq!(percent(0, 0), None);
    }

    #[test]
    fn times_are_told_from_now() {
        let now = Timestamp::from_secs(1_000_000);
        assert_eq!(ago(now, now), "now");
        assert_eq!(ago(Timestamp::from_secs(999_820), now), "3 min ago");
        assert_eq!(ago(Timestamp::from_secs(1_000_038), now), "in 38 s");
    }

    #[test]
    fn ids_keep_their_kind_and_their_end() {
        assert_eq!(short("evt_01M7PX6HKWMFJBD4CGCEFB9474"), "evt_01M7…FB9474");
        assert_eq!(short("acme"), "acme");
        assert_eq!(short("ordnung-äöü-ordnung-äöü"), "ordn…ng-äöü");
    }
}
