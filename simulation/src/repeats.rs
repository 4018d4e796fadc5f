//! What is made again: replays, one or many at once, backfills, and the ticks of a schedule.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wakepost_crash::told::Problem;
use wakepost_domain::Timestamp;

use crate::clients::scheduler::PERIOD_MS;

/// How long before it is ended a schedule's last tick must have come to have its job, in milliseconds.
const LATE_MS_MAX: i64 = 2000;

/// What operators were told.
#[derive(Default)]
pub struct Repeats(RefCell<Inner>);

#[derive(Default)]
struct Inner {
    /// Jobs that were replayed one by one, and what they were replayed as.
    replayed: BTreeMap<String, String>,
    /// Bulk work that replays jobs.
    replays: Vec<String>,
    /// Bulk work that makes deliveries.
    backfills: Vec<String>,
    /// A webhook that was made when there were events already.
    late: Option<String>,
    /// The first tick of a schedule while nothing went wrong, and until when it went on, in Unix milliseconds.
    ticked: Option<(i64, i64)>,
}

impl Repeats {
    /// A replay was acknowledged.
    pub fn replayed(&self, old: &str, new: &str) {
        self.0.borrow_mut().replayed.insert(old.to_owned(), new.to_owned());
    }

    /// Bulk work was begun that replays jobs.
    pub fn replays(&self, operation: &str) {
        self.0.borrow_mut().replays.push(operation.to_owned());
    }

    /// Bulk work was begun that makes deliveries.
    pub fn backfills(&self, operation: &str) {
        self.0.borrow_mut().backfills.push(operation.to_owned());
    }

    /// A webhook was made when there were events already.
    pub fn came_late(&self, webhook: &str) {
        self.0.borrow_mut().late = Some(webhook.to_owned());
    }

    /// The webhook that came late.
    pub fn late(&self) -> Option<String> {
        self.0.borrow().late.clone()
    }

    /// A schedule ticked from this tick until then while nothing went wrong.
    pub fn ticked(&self, first: i64, until: i64) {
        self.0.borrow_mut().ticked = Some((first, until));
    }

    /// All bulk work.
    pub fn operations(&self) -> Vec<String> {
        let inner = self.0.borrow();
        inner.replays.iter().chain(&inner.backfills).cloned().collect()
    }

    /// What is wrong with the jobs, as they are listed, and with the bulk work that was asked for, as it is shown: each
    /// replay that was acknowledged is there, and there are as many as were made (O6).
    pub fn replay_problems(&self, jobs: &[Value], shown: &BTreeMap<String, Value>) -> Vec<Problem> {
        let inner = self.0.borrow();
        let mut problems = Vec::new();
        let text = |row: &Value, name: &str| row[name].as_str().map(str::to_owned);
        let known: BTreeSet<String> = jobs.iter().filter_map(|row| text(row, "id")).collect();
        let mut there = BTreeMap::new();
        let mut made = BTreeSet::new();
        for (old, new) in
            jobs.iter().filter_map(|row| text(row, "id").zip(text(row, "replayed_as")))
        {
            if !known.contains(&new) {
                problems.push(("D1", format!("{old} was replayed as {new}, which is lost")));
            }
            if !made.insert(new.clone()) {
                problems.push(("O6", format!("{new} is the replay of two jobs")));
            }
            there.insert(old, new);
        }
        for (old, new) in &inner.replayed {
            if there.get(old) != Some(new) {
                let other = there.get(old);
                problems.push(("D1", format!("{old} is replayed as {other:?}, told: {new}")));
            }
        }
        let number =
            |operation: &str, name: &str| shown[operation][name].as_u64().unwrap_or_default();
        for operation in inner.replays.iter().chain(&inner.backfills) {
            let [matched, done, failed] =
                ["matched", "done", "failed"].map(|name| number(operation, name));
            if matched != done + failed {
                let counts = format!("{operation} did {done} and not {failed} of {matched}");
                problems.push(("O6", counts));
            }
        }
        let bulk: u64 = inner.replays.iter().map(|operation| number(operation, "done")).sum();
        let asked = inner.replayed.len() as u64 + bulk;
        if asked != there.len() as u64 {
            let there = there.len();
            problems.push(("O6", format!("{there} replays are there, {asked} were made")));
        }
        problems
    }

    /// What is wrong with the jobs of a schedule (D5): each is a tick's, no tick has two, none came early, and none is
    /// missing of those that came while nothing went wrong.
    pub fn tick_problems(&self, jobs: &[Value]) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut ticks = BTreeSet::new();
        let millis = |row: &Value, name: &str| {
            let text = row[name].as_str().unwrap_or_default();
            text.parse::<Timestamp>().map_or(0, Timestamp::as_millis)
        };
        for row in originals(jobs).filter(|row| row["schedule_id"].is_string()) {
            let (id, tick) = (&row["id"], millis(row, "scheduled_for"));
            if tick % PERIOD_MS != 0 {
                problems.push(("D5", format!("{id} is for {tick}, which is no tick")));
            }
            if millis(row, "created_at") < tick {
                problems.push(("D5", format!("{id} was made before its tick, {tick}")));
            }
            if !ticks.insert(tick) {
                problems.push(("D5", format!("{id} is another job for the tick {tick}")));
            }
        }
        if let Some((first, until)) = self.0.borrow().ticked {
            let due = (first..until - LATE_MS_MAX).step_by(PERIOD_MS as usize);
            let missing = due.filter(|tick| !ticks.contains(tick));
            problems.extend(missing.map(|tick| ("D5", format!("the tick {tick} made no job"))));
        }
        problems
    }
}

/// The jobs that are no replays.
pub fn originals(jobs: &[Value]) -> impl Iterator<Item = &Value> {
    let replays: BTreeSet<&str> =
        jobs.iter().filter_map(|row| row["replayed_as"].as_str()).collect();
    jobs.iter().filter(move |row| row["id"].as_str().is_none_or(|id| !replays.contains(id)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules(problems: Vec<Problem>) -> Vec<&'static str> {
        problems.into_iter().map(|(rule, _)| rule).collect()
    }

    #[test]
    fn a_replay_too_many_or_too_few_is_noticed() {
        let repeats = Repeats::default();
        repeats.replayed("a", "b");
        repeats.replays("op");
        let shown = |done: u64| {
            BTreeMap::from([(
                "op".to_owned(),
                json!({"matched": 3, "done": done, "failed": 3 - done}),
            )])
        };
        let jobs = |pairs: &[(&str, Option<&str>)]| -> Vec<Value> {
            pairs.iter().map(|(id, new)| json!({"id": id, "replayed_as": new})).collect()
        };
        let good = jobs(&[("a", Some("b")), ("b", None), ("c", Some("d")), ("d", None)]);
        assert_eq!(rules(repeats.replay_problems(&good, &shown(1))), [""; 0]);
        assert_eq!(rules(repeats.replay_problems(&good, &shown(2))), ["O6"]);
        assert_eq!(rules(repeats.replay_problems(&good, &shown(0))), ["O6"]);
        let lost = jobs(&[("a", Some("x")), ("c", Some("d")), ("d", None)]);
        assert_eq!(rules(repeats.replay_problems(&lost, &shown(1))), ["D1", "D1"]);
        let kept: Vec<&str> = originals(&good).filter_map(|row| row["id"].as_str()).collect();
        assert_eq!(kept, ["a", "c"]);
    }

    #[test]
    fn a_tick_with_two_jobs_or_none_is_noticed() {
        let job = |id: &str, tick: i64, made: i64| {
            let text = |at: i64| Timestamp::from_millis(at).to_string();
            json!({"id": id, "schedule_id": "s", "scheduled_for": text(tick), "created_at": text(made)})
        };
        let repeats = Repeats::default();
        repeats.ticked(40_000, 70_000);
        let good = [job("a", 40_000, 40_100), job("b", 60_000, 61_000)];
        assert_eq!(rules(repeats.tick_problems(&good)), [""; 0]);
        assert_eq!(rules(repeats.tick_problems(&good[..1])), ["D5"]);
        let twice = [&good[..], &[job("c", 60_000, 62_000)]].concat();
        assert_eq!(rules(repeats.tick_problems(&twice)), ["D5"]);
        let odd = [&good[..], &[job("c", 60_001, 59_000)]].concat();
        assert_eq!(rules(repeats.tick_problems(&odd)), ["D5", "D5"]);
    }
}
