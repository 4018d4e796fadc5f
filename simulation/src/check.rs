//! The check once faults have stopped: what clients were told, against what the API shows now.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use wakepost_crash::shown::job_problems;
use wakepost_crash::told::Problem;

use crate::clients::Desk;
use crate::receiver::Receiver;
use crate::record::delivery_problems;
use crate::repeats::originals;
use crate::story::Hook;

/// How long what is left may take, in simulated time: leases, the longest backoffs of jobs and deliveries.
const DRAIN_MAX: Duration = Duration::from_secs(3 * 3600);
/// The first pause between two looks; each is longer than the last.
const LOOK: Duration = Duration::from_secs(2);
const LOOK_MAX: Duration = Duration::from_secs(3600);
const OPEN: [&str; 6] =
    ["pending", "scheduled", "retrying", "running", "held", "awaiting_approval"];
/// What is stuck and named.
const NAMED_MAX: usize = 5;

/// Waits until everything has ended (L7); what has not when the time is over is a violation.
pub async fn drain(desk: &Desk, hooks: &[Hook]) {
    let until = desk.world.time.passed() + DRAIN_MAX;
    let mut pause = LOOK;
    loop {
        let left = unfinished(desk, hooks).await;
        if left.is_empty() {
            return;
        }
        if desk.world.time.passed() >= until {
            let named: Vec<&Value> = left.iter().take(NAMED_MAX).collect();
            let stuck = format!("{} items did not end within {DRAIN_MAX:?}: {named:?}", left.len());
            return desk.told.violation("L7", stuck);
        }
        desk.sleep(pause).await;
        pause = (pause * 3 / 2).min(LOOK_MAX);
    }
}

async fn unfinished(desk: &Desk, hooks: &[Hook]) -> Vec<Value> {
    for status in OPEN {
        let left = desk.list(&format!("/jobs?status={status}")).await;
        if !left.is_empty() {
            return left;
        }
    }
    let mut left = Vec::new();
    for (_, id) in hooks {
        left.extend(desk.list(&format!("/webhooks/{id}/deliveries")).await);
    }
    left.extend(operations(desk).await.into_values());
    left.retain(|row| row["status"].as_str().is_none_or(|status| OPEN.contains(&status)));
    left
}

/// Checks everything that clients were told.
pub async fn everything(desk: &Desk, hooks: &[Hook], receiver: &Receiver) {
    let mut problems = events(desk).await;
    problems.extend(bodies(desk).await);
    problems.extend(jobs(desk).await);
    problems.extend(desk.record.late_jobs());
    let published = desk.list("/events").await;
    problems.extend(desk.record.publication_problems(&published));
    for (path, id) in hooks {
        let rows = desk.list(&format!("/webhooks/{id}/deliveries")).await;
        let faults = &desk.world.faults;
        problems.extend(delivery_problems(path, &rows, &published, &receiver.seen(), faults));
    }
    let changed = receiver.seen().changed().to_vec();
    problems.extend(changed.into_iter().map(|place| ("O3", format!("{place} got other bytes"))));
    for (rule, problem) in problems {
        desk.told.violation(rule, problem);
    }
}

/// Every acknowledged event is listed once under the id that was told (D1, U1); one without an answer at most once (D3).
async fn events(desk: &Desk) -> Vec<Problem> {
    let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in desk.list("/inbox").await {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        rows.entry(text("dedup_key")).or_default().push(text("id"));
    }
    let mut problems = Vec::new();
    let mut inner = desk.told.lock();
    inner.found.events = rows.values().map(Vec::len).sum();
    for (key, event) in &inner.events {
        let ids = rows.remove(key).unwrap_or_default();
        if ids.len() > 1 {
            problems.push(("U1", format!("{key} is there {} times: {ids:?}", ids.len())));
        }
        if let Some((told, _)) = &event.ids
            && !ids.contains(told)
        {
            let lost = format!("{key} was acknowledged as {told} and is listed as {ids:?}");
            problems.push(("D1", lost));
        }
    }
    problems.extend(rows.into_keys().map(|key| ("D1", format!("{key} is there, unsent"))));
    problems
}

/// Every acknowledged event is kept byte for byte as it was sent (D1).
async fn bodies(desk: &Desk) -> Vec<Problem> {
    let mut sent: Vec<(String, Bytes)> = {
        let inner = desk.told.lock();
        let known = inner.events.values();
        known.filter_map(|event| Some((event.ids.clone()?.0, event.body.clone()))).collect()
    };
    // They come from a hash map, and reading takes time.
    sent.sort();
    let mut problems = Vec::new();
    for (id, sent) in sent {
        match desk.raw(&format!("/inbox/{id}/raw")).await {
            Some(kept) if kept == sent => {}
            Some(_) => problems.push(("D1", format!("{id} is not what was sent"))),
            None => problems.push(("D1", format!("{id} is acknowledged and cannot be read"))),
        }
    }
    problems
}

/// All bulk work, as it is shown.
async fn operations(desk: &Desk) -> BTreeMap<String, Value> {
    let mut shown = BTreeMap::new();
    for id in desk.repeats.operations() {
        let operation = desk.read(&format!("/operations/{id}")).await;
        shown.insert(id, operation.unwrap_or_default());
    }
    shown
}

/// Every event has one job, and its replays, which ended as the workers were told (U1, L5, L6, L7), with its effects (E1, E2).
async fn jobs(desk: &Desk) -> Vec<Problem> {
    let mut by_event: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let shown = desk.list("/jobs").await;
    let mut problems = desk.repeats.replay_problems(&shown, &operations(desk).await);
    problems.extend(desk.repeats.tick_problems(&shown));
    for row in originals(&shown).filter(|row| row["schedule_id"].is_null()) {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        by_event.entry(text("event_id")).or_default().push(text("id"));
    }
    {
        let mut inner = desk.told.lock();
        inner.found.jobs = shown.len();
        for (key, event) in &inner.events {
            let Some((event_id, job_id)) = &event.ids else { continue };
            let jobs = by_event.get(event_id).map(Vec::as_slice).unwrap_or_default();
            if jobs != [job_id.as_str()] {
                problems.push(("U1", format!("{key} has jobs {jobs:?}, was told {job_id}")));
            }
        }
        problems.extend(inner.line_problems(by_event.get("").map_or(&[], Vec::as_slice)));
    }
    let mut all: Vec<&str> = shown.iter().filter_map(|row| row["id"].as_str()).collect();
    all.sort_unstable();
    for id in all {
        let shown = desk.read(&format!("/jobs/{id}")).await;
        let found = match &shown {
            Some(shown) => job_problems(&desk.told.lock(), id, shown),
            None => vec![("D1", "is listed and cannot be shown".to_owned())],
        };
        let shown = shown.unwrap_or_default();
        desk.world.note(format_args!("{id} {} {}", shown["status"], shown["attempts"]));
        problems.extend(found.into_iter().map(|(rule, what)| (rule, format!("{id} {what}"))));
    }
    problems
}
