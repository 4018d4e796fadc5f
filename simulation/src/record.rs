//! What makers of jobs and publishers were told, and what receivers saw: beside the rules that the simulation shares with the
//! crashes, those about times and deliveries.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wakepost_crash::told::{Problem, Told};

use crate::receiver::Sightings;

/// The record.
#[derive(Default)]
pub struct Record(RefCell<Inner>);

#[derive(Default)]
struct Inner {
    /// Jobs that must not start before a time, in Unix milliseconds.
    run_at: BTreeMap<String, i64>,
    /// What was published, by its dedup key: the id that its publisher was told, if any.
    published: BTreeMap<String, Option<String>>,
}

impl Record {
    /// A maker was told that its job runs then.
    pub fn runs_at(&self, job: &str, at: i64) {
        self.0.borrow_mut().run_at.insert(job.to_owned(), at);
    }

    /// A worker was given a job: never early (D5).
    pub fn leased(&self, told: &Told, job: &Value, received: i64) {
        let id = job["id"].as_str().unwrap_or_default();
        let Some(at) = self.0.borrow().run_at.get(id).copied() else { return };
        if received < at {
            told.violation("D5", format!("{id} was given out {} ms early", at - received));
        }
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

/// What is wrong with a webhook's deliveries: each published event has one (O1), which ended (L7), and succeeded if its
/// receiver took it, and only then (O4).
pub fn delivery_problems(
    hook: &str,
    rows: &[Value],
    events: &[Value],
    seen: &Sightings,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut left: BTreeSet<&str> = events.iter().filter_map(|event| event["id"].as_str()).collect();
    for row in rows {
        let event = row["event_id"].as_str().unwrap_or_default();
        if !left.remove(event) {
            problems.push(("O1", format!("{event} has another delivery to {hook}")));
        }
        let taken = seen.taken(hook, event);
        match row["status"].as_str().unwrap_or_default() {
            "succeeded" if !taken => {
                problems.push(("O4", format!("{event} to {hook} succeeded, and nobody took it")));
            }
            "succeeded" | "dead_letter" | "cancelled" => {}
            status => problems.push(("L7", format!("{event} to {hook} is {status}"))),
        }
    }
    problems.extend(left.into_iter().map(|event| ("O1", format!("{event} never went to {hook}"))));
    problems
}
