//! What makers of jobs and publishers were told, and what receivers saw: beside the rules that the simulation shares with the
//! crashes, those about times and deliveries.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value;
use wakepost_crash::exchange::Exchange;
use wakepost_crash::told::{Problem, Told};
use wakepost_domain::Timestamp;

use crate::faults::Faults;
use crate::receiver::{Seen, Sightings};

/// How much later than its time a job may be given out to a worker who has been waiting since before, in milliseconds: a
/// second (D5), and the way there and back.
const LATE_MS_MAX: i64 = 1_020;

/// The record.
#[derive(Default)]
pub struct Record(RefCell<Inner>);

#[derive(Default)]
struct Inner {
    /// Jobs that must not start before a time, in Unix milliseconds, and how often the clock had been set when that was told.
    run_at: BTreeMap<String, (i64, u32)>,
    /// When each of them was first given out, if that was its first attempt, and by which clock.
    started: BTreeMap<String, (i64, u32)>,
    /// Lease calls while nothing went wrong: when they were sent and answered, and by which clock.
    waits: Vec<(i64, i64, u32)>,
    /// From which tick on a schedule's jobs must come in time, in Unix milliseconds.
    ticks_from: Option<i64>,
    /// What was published, by its dedup key: the id that its publisher was told, if any.
    published: BTreeMap<String, Option<String>>,
}

impl Record {
    /// A maker was told that its job runs then. `steps`, here and below: how often the clock has been set.
    pub fn runs_at(&self, job: &str, at: i64, steps: u32) {
        self.0.borrow_mut().run_at.insert(job.to_owned(), (at, steps));
    }

    /// From this tick on a schedule's jobs must come in time.
    pub fn ticks_count_from(&self, from: i64) {
        self.0.borrow_mut().ticks_from = Some(from);
    }

    /// A worker was given a job: never early (D5), by the clock that the server had then. What once started may run again
    /// at once though the clock was set back since. `asked`: `steps` when it asked.
    pub fn leased(&self, told: &Told, job: &Value, received: i64, asked: u32, steps: u32) {
        let id = job["id"].as_str().unwrap_or_default();
        let tick = job["scheduled_for"].as_str().and_then(|tick| tick.parse::<Timestamp>().ok());
        let tick = tick.map(Timestamp::as_millis);
        let counts = |tick: &i64| self.0.borrow().ticks_from.is_some_and(|from| *tick >= from);
        if let Some(tick) = tick.filter(counts) {
            self.runs_at(id, tick, steps);
        }
        let Some((at, told_at)) = self.0.borrow().run_at.get(id).copied() else { return };
        let is_first = job["attempt"] == 1;
        if received < at && asked == steps && (is_first || told_at == steps) {
            told.violation("D5", format!("{id} was given out {} ms early", at - received));
        }
        if is_first {
            self.0.borrow_mut().started.entry(id.to_owned()).or_insert((received, steps));
        }
    }

    /// A worker asked for jobs while nothing went wrong, and was answered.
    pub fn waited(&self, exchange: &Exchange, steps: u32) {
        self.0.borrow_mut().waits.push((exchange.sent, exchange.received, steps));
    }

    /// Jobs that came too late (D5): a worker was waiting for one when its time came, and still was, empty-handed, when it
    /// was over by too much. What had started before the clock was set did not wait.
    pub fn late_jobs(&self) -> Vec<Problem> {
        let inner = self.0.borrow();
        let mut problems = Vec::new();
        for (id, (started, clock)) in &inner.started {
            let (at, _) = inner.run_at[id];
            let in_vain = |(sent, received, steps): &&(i64, i64, u32)| {
                let waited = *sent <= at && *received > at + LATE_MS_MAX && received <= started;
                waited && steps == clock
            };
            if let Some((sent, received, _)) = inner.waits.iter().find(in_vain) {
                let (late, before) = (received - at, at - sent);
                problems.push((
                    "D5",
                    format!("{id} was not there {late} ms after its time, {at}, for a worker who had waited {before} ms before it"),
                ));
            }
        }
        problems
    }

    /// A publisher is about to publish.
    pub fn publishing(&self, key: &str) {
        self.0.borrow_mut().published.insert(key.to_owned(), None);
    }

    /// A publisher was told an id: always the same one (U1).
    pub fn published(&self, key: &str, id: &str) -> Option<Problem> {
        let mut inner = self.0.borrow_mut();
        let known = inner.published.entry(key.to_owned()).or_default();
        let known = known.get_or_insert_with(|| id.to_owned());
        (known != id).then(|| ("U1", format!("{key} was told two ids: {known} and {id}")))
    }

    /// How many publications their publishers know to be there.
    pub fn known_publications(&self) -> usize {
        self.0.borrow().published.values().flatten().count()
    }

    /// What is wrong with the published events, as they are listed: each that was acknowledged is there once under the id
    /// that was told (D1, U1), and no other is there (D3).
    pub fn publication_problems(&self, shown: &[Value]) -> Vec<Problem> {
        let mut rows: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for row in shown {
            let text = |name: &str| row[name].as_str().unwrap_or_default();
            rows.entry(text("dedup_key")).or_default().push(text("id"));
        }
        let mut problems = Vec::new();
        for (key, told) in &self.0.borrow().published {
            let ids = rows.remove(key.as_str()).unwrap_or_default();
            if ids.len() > 1 {
                problems.push(("U1", format!("{key} is there {} times: {ids:?}", ids.len())));
            }
            if let Some(told) = told
                && !ids.contains(&told.as_str())
            {
                let lost = format!("{key} was acknowledged as {told} and is listed as {ids:?}");
                problems.push(("D1", lost));
            }
        }
        let strangers = rows.into_keys().filter(|key| key.starts_with("pub-"));
        problems.extend(strangers.map(|key| ("D1", format!("nobody published {key}"))));
        problems
    }
}

/// What is wrong with a webhook's deliveries: each published event has one (O1), which ended (L7), and succeeded if the
/// server heard that its receiver took it, and only then (O4).
pub fn delivery_problems(
    hook: &str,
    rows: &[Value],
    events: &[Value],
    seen: &Sightings,
    faults: &Faults,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let key = |event: &Value| Some((event["id"].as_str()?.to_owned(), event["dedup_key"].clone()));
    let mut left: BTreeMap<String, Value> = events.iter().filter_map(key).collect();
    for row in rows {
        let event = row["event_id"].as_str().unwrap_or_default();
        let said = left.remove(event);
        if said.is_none() {
            problems.push(("O1", format!("{event} has another delivery to {hook}")));
        }
        let status = row["status"].as_str().unwrap_or_default();
        if !matches!(status, "succeeded" | "dead_letter" | "cancelled") {
            problems.push(("L7", format!("{event} to {hook} is {status}")));
        }
        let found = match seen.of(hook, event) {
            Some(seen) => receipt_problems(seen, status, &said.unwrap_or_default(), faults),
            None if status == "succeeded" => {
                vec![("O4", "succeeded, and was never sent".to_owned())]
            }
            None => Vec::new(),
        };
        problems.extend(
            found.into_iter().map(|(rule, what)| (rule, format!("{event} to {hook} {what}"))),
        );
    }
    problems.extend(left.into_keys().map(|event| ("O1", format!("{event} never went to {hook}"))));
    problems
}

/// What is wrong with what a receiver saw of an event, which ended so.
fn receipt_problems(seen: &Seen, status: &str, key: &Value, faults: &Faults) -> Vec<Problem> {
    let mut problems = Vec::new();
    if status == "succeeded" && seen.heard.is_empty() {
        problems.push(("O4", "succeeded, and nobody took it".to_owned()));
    }
    let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
    if body["data"]["object"]["key"] != *key {
        problems.push(("O3", format!("is not what was published as {key}")));
    }
    // Where anything went wrong about then, the server may have lost what it heard, and has to send it again.
    let Some(heard) = seen.heard.iter().find(|at| faults.is_quiet_after(**at)) else {
        return problems;
    };
    if status != "succeeded" {
        problems.push(("O4", format!("was taken, which the server heard, and is {status}")));
    }
    if let Some(again) = seen.came.iter().find(|came| *came > heard) {
        let after = *again - *heard;
        problems.push(("O2", format!("came again {after:?} after it was taken")));
    }
    problems
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::time::Time;

    fn rules(seen: &Seen, status: &str, disturbed: bool) -> Vec<&'static str> {
        let faults = Faults::new(1, Arc::new(Time::default()));
        if disturbed {
            // At the very beginning, since no time passes here.
            faults.revive();
        }
        let found = receipt_problems(seen, status, &json!("pub-1"), &faults);
        found.into_iter().map(|(rule, _)| rule).collect()
    }

    fn seen(came: &[u64], heard: &[u64]) -> Seen {
        let seconds = |all: &[u64]| all.iter().map(|s| Duration::from_secs(*s)).collect();
        let body = br#"{"data":{"object":{"key":"pub-1"}}}"#.as_slice().into();
        Seen { body, came: seconds(came), heard: seconds(heard) }
    }

    #[test]
    fn what_the_server_heard_is_a_success_and_comes_no_more() {
        assert_eq!(rules(&seen(&[0], &[0]), "succeeded", false), [""; 0]);
        assert_eq!(rules(&seen(&[0], &[0]), "dead_letter", false), ["O4"]);
        assert_eq!(rules(&seen(&[0, 5], &[0, 5]), "succeeded", false), ["O2"]);
    }

    #[test]
    fn what_it_may_have_lost_may_come_again_and_fail() {
        assert_eq!(rules(&seen(&[0, 5], &[0]), "dead_letter", true), [""; 0]);
        // Only what was said then is in doubt.
        assert_eq!(rules(&seen(&[0, 5, 9], &[0, 5]), "dead_letter", true), ["O4", "O2"]);
    }

    #[test]
    fn what_nobody_took_is_no_success_and_other_words_are_noticed() {
        assert_eq!(rules(&seen(&[0], &[]), "succeeded", false), ["O4"]);
        let other = Seen {
            body: br#"{"data":{"object":{"key":"pub-2"}}}"#.as_slice().into(),
            ..seen(&[0], &[])
        };
        assert_eq!(rules(&other, "dead_letter", false), ["O3"]);
    }

    #[test]
    fn a_job_for_which_a_worker_waited_in_vain_is_late() {
        let late_by = |steps, sent, received, started| {
            let record = Record::default();
            record.runs_at("job_1", 10_000, 0);
            record.leased(&Told::default(), &json!({"id": "job_1", "attempt": 1}), started, 0, 0);
            let said = wakepost_crash::exchange::Said::Nothing;
            record.waited(&Exchange { said, sent, received }, steps);
            record.late_jobs().len()
        };
        let late = |sent, received, started| late_by(0, sent, received, started);
        assert_eq!(late(9_000, 10_300, 10_300), 0);
        assert_eq!(late(9_000, 13_000, 13_000), 1);
        assert_eq!(late(9_000, 13_000, 20_000), 1);
        // Who came later, or went before, waited for nothing.
        assert_eq!(late(10_001, 13_000, 13_000), 0);
        assert_eq!(late(9_000, 10_900, 20_000), 0);
        assert_eq!(late(9_000, 13_000, 10_100), 0);
        // It had started when the clock was set back.
        assert_eq!(late_by(1, 9_000, 13_000, 20_000), 0);
    }

    #[test]
    fn a_job_that_starts_before_its_time_is_early_and_one_that_runs_again_is_not() {
        let early = |attempt, received, asked, steps| {
            let (record, told) = (Record::default(), Told::default());
            record.runs_at("job_1", 10_000, 0);
            let job = json!({"id": "job_1", "attempt": attempt});
            record.leased(&told, &job, received, asked, steps);
            told.counts().violations
        };
        assert_eq!(early(1, 10_000, 0, 0), 0);
        assert_eq!(early(1, 9_999, 0, 0), 1);
        assert_eq!(early(1, 9_999, 1, 1), 1);
        assert_eq!(early(2, 9_999, 0, 0), 1);
        // The clock was set back since it started, or on the way of the answer.
        assert_eq!(early(2, 9_999, 1, 1), 0);
        assert_eq!(early(1, 9_999, 0, 1), 0);
    }
}
