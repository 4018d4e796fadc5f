//! The check once faults have stopped: what clients were told, against what the API shows now. It never looks
//! into the database.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::Value;
use tokio::time::Instant;

use crate::caller::Caller;
use crate::shown::job_problems;
use crate::told::Told;

/// How long the work that is left may take: a lease, a rescue, the longest backoffs, an operator's looks.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(200);
const UNFINISHED: [&str; 6] =
    ["pending", "scheduled", "retrying", "running", "held", "awaiting_approval"];
/// Questions under way at once.
const AT_ONCE: usize = 16;
/// Stuck jobs that are named.
const NAMED_MAX: usize = 5;

/// Waits until every job has ended (L7); those that have not when the time is over are violations.
pub async fn drain(caller: &Caller, told: &Told) -> anyhow::Result<()> {
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    loop {
        let left = unfinished(caller).await?;
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let named: Vec<&Value> = left.iter().take(NAMED_MAX).collect();
            let count = left.len();
            told.violation(
                "L7",
                format!("{count} jobs did not end within {DRAIN_TIMEOUT:?}: {named:?}"),
            );
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Jobs that have not ended. One can slip from list to list while they are looked at, so only a walk over all
/// jobs shows that there is none; the lists spare that walk while there are some.
async fn unfinished(caller: &Caller) -> anyhow::Result<Vec<Value>> {
    for status in UNFINISHED {
        let left = caller.list(&format!("/jobs?status={status}")).await?;
        if !left.is_empty() {
            return Ok(left);
        }
    }
    let all = caller.list("/jobs").await?.into_iter();
    Ok(all.filter(|job| job["finished_at"].is_null()).collect())
}

/// Checks everything that clients were told.
pub async fn everything(caller: &Caller, told: &Told) -> anyhow::Result<()> {
    let shown = events(caller, told).await?;
    bodies(caller, told, shown).await?;
    jobs(caller, told).await
}

/// Checks that what was acknowledged in one round is there, byte for byte; says how much is lost.
pub async fn round(caller: &Caller, told: &Told, round: u32) -> anyhow::Result<usize> {
    let known: Vec<(String, String)> = {
        let inner = told.lock();
        let of_round = inner.events.iter().filter(|(_, event)| event.round == round);
        of_round.filter_map(|(key, event)| Some((key.clone(), event.ids.clone()?.0))).collect()
    };
    bodies(caller, told, known).await
}

/// Every acknowledged event is listed once under the id that was told (D1, U1); one without an answer at most
/// once (D3). Says what is to be read.
async fn events(caller: &Caller, told: &Told) -> anyhow::Result<Vec<(String, String)>> {
    let mut rows: HashMap<String, Vec<String>> = HashMap::new();
    for row in caller.list("/inbox").await? {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        rows.entry(text("dedup_key")).or_default().push(text("id"));
    }
    let mut inner = told.lock();
    inner.found.events = rows.values().map(Vec::len).sum();
    let mut problems = Vec::new();
    for (key, event) in &inner.events {
        let ids = rows.get(key).map(Vec::as_slice).unwrap_or_default();
        if ids.len() > 1 {
            problems.push(("U1", format!("{key} is there {} times: {ids:?}", ids.len())));
        }
        if let Some((told, _)) = &event.ids
            && !ids.contains(told)
        {
            problems
                .push(("D1", format!("{key} was acknowledged as {told} and is listed as {ids:?}")));
        }
    }
    let strangers = rows.keys().filter(|key| !inner.events.contains_key(*key));
    problems.extend(strangers.map(|key| ("D1", format!("{key} is there and nobody sent it"))));
    problems.into_iter().for_each(|(rule, problem)| inner.violation(rule, problem));
    let firsts = rows.into_iter().filter_map(|(key, mut ids)| Some((key, ids.pop()?)));
    Ok(firsts.collect())
}

/// Each of these events is there with the bytes that were sent (D1). Says how many are not.
async fn bodies(
    caller: &Caller,
    told: &Told,
    shown: Vec<(String, String)>,
) -> anyhow::Result<usize> {
    let reading = shown.into_iter().map(|(key, id)| async move {
        let body = caller.read(&format!("/inbox/{id}/raw")).await;
        body.map(|body| (key, id, body))
    });
    let mut answers = futures_util::stream::iter(reading).buffer_unordered(AT_ONCE);
    let mut lost = 0;
    while let Some(answer) = answers.next().await {
        let (key, id, body) = answer?;
        let mut inner = told.lock();
        let sent = inner.events.get(&key).map(|event| event.body.clone());
        let problem = match (body, sent) {
            (None, _) => Some(format!("{key}, acknowledged as {id}, is lost")),
            (Some(body), Some(sent)) if body != sent => {
                Some(format!("the body of {key}, {id}, is not what was sent"))
            }
            _ => None,
        };
        if let Some(problem) = problem {
            lost += 1;
            inner.violation("D1", problem);
        }
    }
    Ok(lost)
}

/// Every event has one job, which ended, as the workers were told (U1, L5, L6, L7), with its effects (E1).
async fn jobs(caller: &Caller, told: &Told) -> anyhow::Result<()> {
    let mut by_event: HashMap<String, Vec<String>> = HashMap::new();
    for row in caller.list("/jobs").await? {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        by_event.entry(text("event_id")).or_default().push(text("id"));
    }
    {
        let mut inner = told.lock();
        inner.found.jobs = by_event.values().map(Vec::len).sum();
        let mut problems = Vec::new();
        for (key, event) in &inner.events {
            let Some((event_id, job_id)) = &event.ids else { continue };
            let jobs = by_event.get(event_id).map(Vec::as_slice).unwrap_or_default();
            if jobs != [job_id.as_str()] {
                problems.push((
                    "U1",
                    format!("{key}, {event_id}, has jobs {jobs:?}, was told {job_id}"),
                ));
            }
        }
        problems.extend(inner.line_problems(by_event.get("").map_or(&[], Vec::as_slice)));
        problems.into_iter().for_each(|(rule, problem)| inner.violation(rule, problem));
    }
    let reading = by_event.into_values().flatten().map(|id| async move {
        let shown = caller.read(&format!("/jobs/{id}")).await;
        shown
            .map(|shown| (id, shown.and_then(|shown| serde_json::from_slice::<Value>(&shown).ok())))
    });
    let mut answers = futures_util::stream::iter(reading).buffer_unordered(AT_ONCE);
    let mut finished = 0;
    while let Some(answer) = answers.next().await {
        let (id, shown) = answer?;
        let mut inner = told.lock();
        finished += u64::from(shown.as_ref().is_some_and(|shown| !shown["finished_at"].is_null()));
        if let Some(shown) = &shown {
            let effects = shown["effects"].as_array().into_iter().flatten();
            inner.found.succeeded += usize::from(shown["status"] == "succeeded");
            inner.found.effects += effects.filter(|effect| effect["state"] == "committed").count();
        }
        let problems = match shown {
            Some(shown) => job_problems(&inner, &id, &shown),
            None => vec![("D1", "is listed and cannot be shown".to_owned())],
        };
        for (rule, problem) in problems {
            inner.violation(rule, format!("{id} {problem}"));
        }
    }
    told.lock().counts.finished = finished;
    Ok(())
}
