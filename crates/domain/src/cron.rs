//! Cron expressions: which wall times one names. The time zone is [`crate::schedule`]'s business.

use jiff::civil::{Date, DateTime, Time};

/// The longest expression.
pub const CRON_CHARS_MAX: usize = 256;
/// How far ahead a wall time is looked for. The rarest day, a 29 February, is at most eight years away.
const YEARS_MAX: i16 = 10;

/// An expression that names no wall times, or none that anybody can tell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidCron(String);

/// An expression, read: the values of each field as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Both the day of the month and the day of the week are restricted: then either is enough, as in every cron.
    either_day: bool,
}

struct Field {
    name: &'static str,
    low: u32,
    high: u32,
    /// Words for values, from the lowest on.
    words: &'static [&'static str],
}

const SECOND: Field = Field { name: "second", low: 0, high: 59, words: &[] };
const MINUTE: Field = Field { name: "minute", low: 0, high: 59, words: &[] };
const HOUR: Field = Field { name: "hour", low: 0, high: 23, words: &[] };
const DAY: Field = Field { name: "day of the month", low: 1, high: 31, words: &[] };
const MONTH: Field = Field {
    name: "month",
    low: 1,
    high: 12,
    words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
/// 0 and 7 are Sunday.
const WEEKDAY: Field = Field {
    name: "day of the week",
    low: 0,
    high: 7,
    words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

impl Cron {
    /// Reads five fields (minute, hour, day of the month, month, day of the week), six with a second before them, or
    /// a word such as `@daily`.
    pub fn parse(text: &str) -> Result<Cron, InvalidCron> {
        if text.chars().count() > CRON_CHARS_MAX {
            return Err(InvalidCron(format!("must have at most {CRON_CHARS_MAX} characters")));
        }
        let text = text.trim();
        let text = if text.starts_with('@') { macro_of(text)? } else { text };
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [second, minute, hour, day, month, weekday] = match fields[..] {
            [minute, hour, day, month, weekday] => ["0", minute, hour, day, month, weekday],
            [second, minute, hour, day, month, weekday] => {
                [second, minute, hour, day, month, weekday]
            }
            _ => {
                let message = "must have five fields: minute, hour, day of the month, month, day of the week \
                               (six with the second first), or be a word such as @daily";
                return Err(InvalidCron(message.to_owned()));
            }
        };
        let weekdays = WEEKDAY.read(weekday)?;
        Ok(Cron {
            seconds: SECOND.read(second)?,
            minutes: MINUTE.read(minute)?,
            hours: HOUR.read(hour)?,
            days: DAY.read(day)?,
            months: MONTH.read(month)?,
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
            either_day: !is_open(day) && !is_open(weekday),
        })
    }

    /// Whether it names no hours: then it goes by the clock's minutes, whatever the hour is called.
    pub fn is_every_hour(&self) -> bool {
        self.hours == (1 << 24) - 1
    }

    /// The first wall time from this one on. `None`: there is none, within years.
    pub fn at_or_after(&self, from: DateTime) -> Option<DateTime> {
        let last_year = from.year().saturating_add(YEARS_MAX);
        let (mut date, mut time) = (from.date(), from.time());
        while date.year() <= last_year {
            let whole_month_out = !has(self.months, date.month());
            if !whole_month_out
                && self.names_day(date)
                && let Some(time) = self.time_at_or_after(time)
            {
                return Some(date.to_datetime(time));
            }
            let day = if whole_month_out { date.last_of_month() } else { date };
            date = day.tomorrow().ok()?;
            time = Time::midnight();
        }
        None
    }

    fn names_day(&self, date: Date) -> bool {
        let of_month = has(self.days, date.day());
        let of_week = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        if self.either_day { of_month || of_week } else { of_month && of_week }
    }

    fn time_at_or_after(&self, from: Time) -> Option<Time> {
        let mut hour = next(self.hours, from.hour())?;
        let mut minute = if hour == from.hour() { from.minute() } else { 0 };
        let mut second = if hour == from.hour() { from.second() } else { 0 };
        if next(self.minutes, minute) != Some(minute) {
            second = 0;
        }
        // At most three rounds: a field that ran out moves the one before it on, once.
        loop {
            let found = next(self.minutes, minute);
            match found.and_then(|minute| Some((minute, next(self.seconds, second)?))) {
                Some((minute, second)) => return Time::new(hour, minute, second, 0).ok(),
                None if found.is_some() => minute += 1,
                None => {
                    hour = next(self.hours, hour + 1)?;
                    minute = 0;
                }
            }
            second = 0;
        }
    }
}

fn macro_of(word: &str) -> Result<&'static str, InvalidCron> {
    match word {
        "@yearly" | "@annually" => Ok("0 0 1 1 *"),
        "@monthly" => Ok("0 0 1 * *"),
        "@weekly" => Ok("0 0 * * 0"),
        "@daily" | "@midnight" => Ok("0 0 * * *"),
        "@hourly" => Ok("0 * * * *"),
        _ => {
            let known = "@yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly";
            Err(InvalidCron(format!("is not a known word: there are {known}")))
        }
    }
}

/// Whether a field leaves its days open, by which cron decides how the two kinds of day go together.
fn is_open(field: &str) -> bool {
    field.starts_with(['*', '?'])
}

fn has(values: u64, value: i8) -> bool {
    values >> value & 1 == 1
}

fn next(values: u64, from: i8) -> Option<i8> {
    let rest = values.checked_shr(u32::from(from.unsigned_abs()))?;
    (rest != 0).then(|| from + rest.trailing_zeros() as i8)
}

impl Field {
    /// The values of a list such as `1,5-9/2,*/15`.
    fn read(&self, text: &str) -> Result<u64, InvalidCron> {
        text.split(',').try_fold(0, |values, item| Ok(values | self.item(item)?))
    }

    fn item(&self, item: &str) -> Result<u64, InvalidCron> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (item, None),
        };
        let (low, high) = match range {
            "*" | "?" => (self.low, self.high),
            _ => match range.split_once('-') {
                Some((low, high)) => (self.value(low)?, self.value(high)?),
                // `5/10` is "from 5 on, every 10", as in most crons.
                None if step.is_some() => (self.value(range)?, self.high),
                None => (self.value(range)?, self.value(range)?),
            },
        };
        if low > high {
            let name = self.name;
            return Err(InvalidCron(format!(
                "the {name} has a range that runs backwards: {item:?}"
            )));
        }
        let step = usize::try_from(step.unwrap_or(1)).unwrap_or(usize::MAX);
        Ok((low..=high).step_by(step).fold(0, |values, value| values | 1 << value))
    }

    fn step(&self, text: &str) -> Result<u32, InvalidCron> {
        let step = plain(text).filter(|step| (1..=self.high).contains(step));
        step.ok_or_else(|| {
            let (name, high) = (self.name, self.high);
            InvalidCron(format!("the {name} has a step that is not from 1 to {high}: {text:?}"))
        })
    }

    fn value(&self, text: &str) -> Result<u32, InvalidCron> {
        let word = self.words.iter().position(|word| word.eq_ignore_ascii_case(text));
        let value = word.map_or_else(|| plain(text), |place| Some(self.low + place as u32));
        let value = value.filter(|value| (self.low..=self.high).contains(value));
        value.ok_or_else(|| {
            let Field { name, low, high, words } = self;
            let words = if words.is_empty() { "" } else { " or a name such as MON or JAN" };
            InvalidCron(format!("the {name} must be from {low} to {high}{words}: {text:?}"))
        })
    }
}

/// A number in digits only.
fn plain(text: &str) -> Option<u32> {
    let digits = (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use jiff::civil::datetime;
    use proptest::prelude::*;

    use super::*;

    fn next_of(cron: &str, from: &str) -> Option<String> {
        let cron = Cron::parse(cron).unwrap();
        cron.at_or_after(from.parse().unwrap()).map(|found| found.to_string())
    }

    #[track_caller]
    fn is_next(cron: &str, from: &str, expected: &str) {
        assert_eq!(next_of(cron, from).as_deref(), Some(expected), "{cron} from {from}");
    }

    #[test]
    fn fields_lists_ranges_steps_and_names_are_understood() {
        let monday = "2026-11-16T10:07:00";
        is_next("* * * * *", monday, monday);
        is_next("*/15 * * * *", monday, "2026-11-16T10:15:00");
        is_next("5,10-12 9 * * *", monday, "2026-11-17T09:05:00");
        is_next("0 9-17/4 * * MON-FRI", monday, "2026-11-16T13:00:00");
        is_next("0 0 * * sun", monday, "2026-11-22T00:00:00");
        is_next("0 0 * * 7", monday, "2026-11-22T00:00:00");
        is_next("0 0 * * 5-7", monday, "2026-11-20T00:00:00");
        is_next("0 0 1 JAN,feb ?", monday, "2027-01-01T00:00:00");
        is_next("30 8/6 * * *", monday, "2026-11-16T14:30:00");
        is_next("20 30 10 * * *", monday, "2026-11-16T10:30:20");
        is_next("*/20 * * * * *", "2026-11-16T10:07:41", "2026-11-16T10:08:00");
        is_next("59 59 23 31 12 *", "2026-12-31T23:59:59", "2026-12-31T23:59:59");
        is_next("@daily", monday, "2026-11-17T00:00:00");
        is_next("@weekly", monday, "2026-11-22T00:00:00");
        is_next("@monthly", monday, "2026-12-01T00:00:00");
        is_next("@yearly", monday, "2027-01-01T00:00:00");
        is_next("@hourly", monday, "2026-11-16T11:00:00");
    }

    #[test]
    fn two_restricted_days_are_either_and_else_both() {
        // The 13th, or a Friday.
        is_next("0 0 13 * FRI", "2026-11-01T00:00:00", "2026-11-06T00:00:00");
        is_next("0 0 13 * FRI", "2026-11-07T00:00:00", "2026-11-13T00:00:00");
        // A step over all days leaves them open: only Fridays that are odd days.
        is_next("0 0 */2 * FRI", "2026-11-01T00:00:00", "2026-11-13T00:00:00");
    }

    #[test]
    fn a_leap_day_is_found_and_a_day_that_never_comes_is_not() {
        is_next("0 0 29 2 *", "2096-03-01T00:00:00", "2104-02-29T00:00:00");
        assert_eq!(next_of("0 0 30 2 *", "2026-01-01T00:00:00"), None);
        assert_eq!(next_of("0 0 31 4,6,9,11 *", "2026-01-01T00:00:00"), None);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (bad, told) in [
            ("", "five fields"),
            ("* * * *", "five fields"),
            ("* * * * * * *", "five fields"),
            ("60 * * * *", "minute"),
            ("* 24 * * *", "hour"),
            ("* * 0 * *", "day of the month"),
            ("* * * 13 *", "month"),
            ("* * * FOO *", "month"),
            ("* * * * 8", "day of the week"),
            ("5-1 * * * *", "backwards"),
            ("*/0 * * * *", "step"),
            ("*/-1 * * * *", "step"),
            ("1,,2 * * * *", "minute"),
            ("+1 * * * *", "minute"),
            ("* * L * *", "day of the month"),
            ("@reboot", "@daily"),
            (&"1,".repeat(1000), "characters"),
        ] {
            let error = Cron::parse(bad).unwrap_err().to_string();
            assert!(error.contains(told), "{bad}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_or_run_on(text in "[0-9*/,?@a-zA-Z -]{0,60}") {
            if let Ok(cron) = Cron::parse(&text) {
                let _ = cron.at_or_after(datetime(2026, 11, 16, 10, 0, 0, 0));
            }
        }

        #[test]
        fn what_is_found_is_named_and_nothing_before_it_is(
            minutes in 0u32..60, hours in 0u32..24, step in 1u32..30, ahead in 0i64..4_000_000,
        ) {
            let cron = Cron::parse(&format!("{minutes}-59/{step} {hours} * * *")).unwrap();
            let from = datetime(2026, 1, 1, 0, 0, 0, 0)
                .checked_add(jiff::SignedDuration::from_secs(ahead))
                .unwrap();
            let found = cron.at_or_after(from).unwrap();
            prop_assert!(found >= from);
            prop_assert_eq!(cron.at_or_after(found), Some(found));
            prop_assert_eq!(found.hour() as u32, hours);
            prop_assert_eq!((found.minute() as u32 - minutes) % step, 0);
            let mut minute = from;
            while minute < found && minute.checked_add(jiff::SignedDuration::from_mins(1)).unwrap() <= found {
                minute = minute.checked_add(jiff::SignedDuration::from_mins(1)).unwrap();
                let whole = minute.with().second(0).build().unwrap();
                prop_assert!(whole < from || whole == found || cron.at_or_after(whole) != Some(whole));
            }
        }
    }
}
