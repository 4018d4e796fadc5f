//! Schedules: when a job is made again and again.
//!
//! A schedule names wall times of a time zone. Where the clocks change, it does what users of cron expect. One that
//! names hours (`30 2 * * *`) fires once a day: a wall time that does not exist fires right after the gap, one that
//! exists twice fires the first time. One that names none (`*/15 * * * *`) goes by the clock as it runs: nothing to
//! make up for after a gap, and a repeated hour is an hour like any other.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::cron::Cron;
use crate::executor::Executor;
use crate::work::Priority;

/// Changes of the clocks that a look ahead may pass: more than any zone has in the years it goes.
const CHANGES_MAX: usize = 100;
/// The zone of a schedule that names none.
pub const UTC: &str = "UTC";

/// What people set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ScheduleSettings {
    /// What people call it.
    pub name: String,
    /// The wall times.
    pub cron: String,
    /// Where these are the wall times, by its IANA name.
    pub time_zone: String,
    /// Whether it fires.
    pub enabled: bool,
    /// The kind of its jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Which queue they wait in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// How they run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<Executor>,
    /// Whether an administrator of all tenants chose the executor's address.
    pub executor_trusted: bool,
    /// What they run in order with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_key: Option<String>,
    /// What they are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Who asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// How often each may be tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
}

impl ScheduleSettings {
    /// When it fires next: the first tick after now, and after the last that it fired, however the clock was moved.
    /// `None`: it is disabled, or there is no such time.
    pub fn next_at(
        &self,
        now: Timestamp,
        fired_at: Option<Timestamp>,
    ) -> Result<Option<Timestamp>, InvalidSchedule> {
        let recurrence = Recurrence::parse(&self.cron, &self.time_zone)?;
        let after = fired_at.map_or(now, |fired_at| fired_at.max(now));
        Ok(self.enabled.then(|| recurrence.next_after(after)).flatten())
    }
}

/// What is wrong with a schedule's times.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct InvalidSchedule {
    /// Which field.
    pub field: &'static str,
    /// What is wrong with it.
    pub message: String,
}

/// The times of a schedule, read.
#[derive(Debug, Clone)]
pub struct Recurrence {
    cron: Cron,
    zone: TimeZone,
}

impl Recurrence {
    /// Reads an expression and the name of a time zone.
    pub fn parse(cron: &str, time_zone: &str) -> Result<Recurrence, InvalidSchedule> {
        let wrong = |field, message: String| InvalidSchedule { field, message };
        let cron = Cron::parse(cron).map_err(|error| wrong("cron", error.to_string()))?;
        let zone = TimeZone::get(time_zone).map_err(|_| {
            let message = "must be the name of a time zone, such as Europe/Berlin or UTC";
            wrong("time_zone", message.to_owned())
        })?;
        Ok(Recurrence { cron, zone })
    }

    /// The zone's name as its database writes it.
    pub fn time_zone(&self) -> &str {
        self.zone.iana_name().unwrap_or(UTC)
    }

    /// The first tick that is strictly later. `None`: there is none, within years.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let at = jiff::Timestamp::from_second(after.as_secs()).ok()?;
        let mut offset = self.zone.to_offset(at);
        let second = jiff::SignedDuration::from_secs(1);
        let mut from = offset.to_datetime(at).checked_add(second).ok()?;
        if let Some(repeated_until) = self.repeated_until(at, offset) {
            from = from.max(repeated_until);
        }
        let mut changes = self.zone.following(at);
        for _ in 0..CHANGES_MAX {
            let wall = self.cron.at_or_after(from)?;
            let tick = offset.to_timestamp(wall).ok()?;
            let Some(change) = changes.next().filter(|change| change.timestamp() <= tick) else {
                return Some(Timestamp::from_secs(tick.as_second()));
            };
            let at = change.timestamp();
            let (left, entered) = (offset.to_datetime(at), change.offset().to_datetime(at));
            offset = change.offset();
            from = match self.cron.is_every_hour() {
                true => entered,
                // It lies in the gap.
                false if wall < entered => return Some(Timestamp::from_secs(at.as_second())),
                // After a fold, wall times up to the one that was left have been there before.
                false => left.max(entered),
            };
        }
        None
    }

    /// Until which wall time the clock shows what it has shown before, where that does not count again.
    fn repeated_until(&self, at: jiff::Timestamp, offset: Offset) -> Option<DateTime> {
        let second = jiff::SignedDuration::from_secs(1);
        let change = self.zone.preceding(at.checked_add(second).ok()?).next()?;
        let before = self.zone.to_offset(change.timestamp().checked_sub(second).ok()?);
        let repeats = before > offset && !self.cron.is_every_hour();
        repeats.then(|| before.to_datetime(change.timestamp()))
    }

    /// The latest tick up to now, given an earlier one: what a firing stands for that comes late.
    pub fn latest(&self, tick: Timestamp, now: Timestamp) -> Timestamp {
        let (mut latest, mut until) = (tick, now);
        // No tick lies between `until` and now; each round halves what lies between the two.
        while until.since(latest) >= Duration::from_secs(1) {
            let middle = latest.after(until.since(latest) / 2);
            match self.next_after(middle).filter(|next| *next <= now) {
                Some(next) => latest = next,
                None => until = middle,
            }
        }
        latest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BERLIN: &str = "Europe/Berlin";
    const NEW_YORK: &str = "America/New_York";
    /// Its summer is half an hour ahead.
    const LORD_HOWE: &str = "Australia/Lord_Howe";

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// The ticks after a moment, up to another, both in UTC.
    fn ticks(cron: &str, zone: &str, after: &str, until: &str) -> Vec<String> {
        let recurrence = Recurrence::parse(cron, zone).unwrap();
        let (mut at, until) = (time(after), time(until));
        let mut found = Vec::new();
        while let Some(next) = recurrence.next_after(at).filter(|next| *next <= until) {
            found.push(next.to_string().replace(":00.000Z", ""));
            at = next;
        }
        found
    }

    #[test]
    fn it_goes_by_the_wall_clock_of_its_zone() {
        let found = ticks("30 9 * * *", BERLIN, "2026-07-01T00:00:00Z", "2026-07-02T23:00:00Z");
        assert_eq!(found, ["2026-07-01T07:30", "2026-07-02T07:30"]);
        let found = ticks("30 9 * * *", BERLIN, "2026-12-01T00:00:00Z", "2026-12-01T23:00:00Z");
        assert_eq!(found, ["2026-12-01T08:30"]);
        let found = ticks("0 0 * * *", NEW_YORK, "2026-12-01T00:00:00Z", "2026-12-01T23:00:00Z");
        assert_eq!(found, ["2026-12-01T05:00"]);
    }

    #[test]
    fn a_wall_time_that_does_not_exist_fires_once_right_after_the_gap() {
        // Berlin: 29 March 2026, 02:00 becomes 03:00, which is 01:00 in UTC.
        let (after, until) = ("2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z");
        assert_eq!(
            ticks("30 2 * * *", BERLIN, after, until),
            ["2026-03-29T01:00", "2026-03-30T00:30"]
        );
        assert_eq!(
            ticks("*/10 2 * * *", BERLIN, after, "2026-03-29T23:00:00Z"),
            ["2026-03-29T01:00"]
        );
        // At three it fires anyway.
        assert_eq!(
            ticks("0 2,3 * * *", BERLIN, after, "2026-03-29T23:00:00Z"),
            ["2026-03-29T01:00"]
        );
        // New York: 8 March 2026, at 07:00 in UTC.
        assert_eq!(
            ticks("15 2 * * *", NEW_YORK, "2026-03-07T12:00:00Z", "2026-03-09T12:00:00Z"),
            ["2026-03-08T07:00", "2026-03-09T06:15"]
        );
        // Lord Howe: 4 October 2026, 02:00 becomes 02:30, which is 15:30 in UTC the day before.
        assert_eq!(
            ticks("10,40 2 * * *", LORD_HOWE, "2026-10-03T12:00:00Z", "2026-10-04T12:00:00Z"),
            ["2026-10-03T15:30", "2026-10-03T15:40"]
        );
    }

    #[test]
    fn a_wall_time_that_exists_twice_fires_once() {
        // Berlin: 25 October 2026, 03:00 becomes 02:00 again, at 01:00 in UTC.
        let (after, until) = ("2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z");
        assert_eq!(
            ticks("30 2 * * *", BERLIN, after, until),
            ["2026-10-25T00:30", "2026-10-26T01:30"]
        );
        // Asked for in the middle of the repeated hour.
        assert_eq!(
            ticks("30 2 * * *", BERLIN, "2026-10-25T01:10:00Z", until),
            ["2026-10-26T01:30"]
        );
        assert_eq!(
            ticks("30 1 * * *", NEW_YORK, "2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z"),
            ["2026-11-01T05:30", "2026-11-02T06:30"]
        );
        // Lord Howe: 5 April 2026, 02:00 becomes 01:30 again, at 15:00 in UTC the day before.
        assert_eq!(
            ticks("45 1 * * *", LORD_HOWE, "2026-04-04T12:00:00Z", "2026-04-05T16:00:00Z"),
            ["2026-04-04T14:45", "2026-04-05T15:15"]
        );
    }

    #[test]
    fn without_hours_it_goes_by_the_clock_as_it_runs() {
        let found = ticks("30 * * * *", BERLIN, "2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z");
        assert_eq!(found, ["2026-03-29T00:30", "2026-03-29T01:30"]);
        let found = ticks("*/30 * * * *", BERLIN, "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z");
        assert_eq!(
            found,
            ["2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2026-10-25T02:00"]
        );
    }

    #[test]
    fn what_never_fires_has_no_next_tick() {
        let recurrence = Recurrence::parse("0 0 30 2 *", BERLIN).unwrap();
        assert_eq!(recurrence.next_after(time("2026-11-16T00:00:00Z")), None);
        let error = Recurrence::parse("@daily", "Mars/Olympus").unwrap_err();
        assert_eq!(error.field, "time_zone");
        assert_eq!(Recurrence::parse("@daily", "europe/berlin").unwrap().time_zone(), BERLIN);
    }

    #[test]
    fn a_clock_that_was_set_back_has_nothing_to_fire_until_past_the_last_tick() {
        let settings = ScheduleSettings {
            cron: "@daily".to_owned(),
            time_zone: UTC.to_owned(),
            enabled: true,
            ..ScheduleSettings::default()
        };
        let (now, fired_at) = (time("2026-11-16T10:00:00Z"), time("2026-11-21T00:00:00Z"));
        let next = settings.next_at(now, Some(fired_at)).unwrap();
        assert_eq!(next, Some(time("2026-11-22T00:00:00Z")));
        assert_eq!(settings.next_at(now, None).unwrap(), Some(time("2026-11-17T00:00:00Z")));
        let off = ScheduleSettings { enabled: false, ..settings };
        assert_eq!(off.next_at(now, None).unwrap(), None);
    }

    proptest! {
        #[test]
        fn ticks_come_in_order_and_none_is_left_out(
            cron in prop::sample::select(vec![
                "*/7 * * * *", "30 2 * * *", "*/20 1-3 * * *", "0 0 29 2 *", "15 */6 1 * MON", "*/13 * * * * *",
            ]),
            zone in prop::sample::select(vec!["UTC", BERLIN, NEW_YORK, LORD_HOWE, "Africa/Casablanca"]),
            at in 1_700_000_000i64..2_000_000_000, back in 0i64..20_000,
        ) {
            let recurrence = Recurrence::parse(cron, zone).unwrap();
            let at = Timestamp::from_secs(at);
            let next = recurrence.next_after(at).unwrap();
            prop_assert!(next > at);
            // The same tick from anywhere between an earlier moment's last tick and it.
            prop_assert_eq!(recurrence.next_after(Timestamp::from_millis(next.as_millis() - 1)), Some(next));
            let earlier = Timestamp::from_secs(at.as_secs() - back);
            let first = recurrence.next_after(earlier).unwrap();
            prop_assert!(first <= next);
            let mut last = first;
            while last < next {
                last = recurrence.next_after(last).unwrap();
                if last > at { prop_assert_eq!(last, next) }
            }
            // A late firing stands for the last tick, however many there were.
            let latest = recurrence.latest(first, next);
            prop_assert_eq!(latest, next);
        }
    }
}
