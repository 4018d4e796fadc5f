//! The check once faults have stopped: what clients were told, against what the API shows now. It never looks
//! into the database.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::Value;
use tokio::time::Instant;

use crate::caller::Caller;
use crate::clients::planned_keys;
use crate::told::{End, Inner, Problem, Told};

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

fn job_problems(inner: &Inner, id: &str, shown: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let status = shown["status"].as_str().unwrap_or_default();
    let number = |name: &str| shown[name].as_i64().unwrap_or_default();
    let (attempts, max) = (number("attempts"), number("max_attempts"));
    if attempts > max {
        problems.push(("L6", format!("had {attempts} attempts of {max}")));
    }
    let Some(job) = inner.jobs.get(id) else {
        // No worker was told of it: leases whose answers got lost may have used it up.
        if status != "dead_letter" || attempts < max {
            problems.push((
                "L7",
                format!("is {status} after {attempts} of {max} attempts, and no worker had it"),
            ));
        }
        return problems;
    };
    let result = shown["result"]["n"].as_u64();
    let expected = match (job.ended(), status) {
        (Some(End::Complete(told)), "succeeded") => result == Some(told),
        (Some(End::Dead | End::Fail), "dead_letter") => true,
        (None, "succeeded") => {
            result.is_some_and(|result| job.asked.contains(&End::Complete(result)))
        }
        (None, "dead_letter") => attempts == max || job.asked.contains(&End::Dead),
        _ => false,
    };
    if !expected {
        let ended = job.ended();
        problems.push(("L5", format!("is {status} with result {result:?}; told: {ended:?}")));
    }
    problems.extend(effect_problems(inner, id, shown));
    problems
}

fn effect_problems(inner: &Inner, id: &str, shown: &Value) -> Vec<Problem> {
    let Some(job) = inner.jobs.get(id) else { return Vec::new() };
    let mut problems = Vec::new();
    let of = |key: &str| {
        let effects = shown["effects"].as_array().into_iter().flatten();
        effects.into_iter().find(|effect| effect["key"].as_str() == Some(key))
    };
    for (key, effect) in &job.effects {
        let state = of(key).and_then(|shown| shown["state"].as_str()).unwrap_or("gone");
        let result_fits = of(key).is_some_and(|shown| effect.knows(&shown["result"]));
        if effect.committed.is_some() && !(state == "committed" && result_fits) {
            problems.push(("E1", format!("was told that {key} is committed, and it is {state}")));
        }
        if effect.executed > 1 && !effect.repeatable {
            problems.push(("E2", format!("did {key} {} times", effect.executed)));
        }
    }
    if shown["status"] == "succeeded" {
        let undone = planned_keys(id)
            .filter(|key| job.effects.get(*key).is_none_or(|effect| effect.executed == 0));
        problems.extend(undone.map(|key| ("E1", format!("succeeded without {key}"))));
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::told::JobTold;

    fn rules(job: JobTold, shown: Value) -> Vec<&'static str> {
        let mut inner = Inner::default();
        // A job of this name has no planned effects.
        inner.jobs.insert("job_1".to_owned(), job);
        assert_eq!(planned_keys("job_1").count(), 0);
        job_problems(&inner, "job_1", &shown).into_iter().map(|(rule, _)| rule).collect()
    }

    #[test]
    fn a_job_that_ended_as_it_was_asked_to_is_fine() {
        let mut job = JobTold::default();
        job.asked.push(End::Complete(7));
        let shown =
            json!({"status": "succeeded", "attempts": 1, "max_attempts": 3, "result": {"n": 7}});
        assert_eq!(rules(job, shown), [""; 0]);
    }

    #[test]
    fn a_result_that_nobody_sent_and_an_end_that_nobody_asked_for_are_noticed() {
        let result =
            json!({"status": "succeeded", "attempts": 1, "max_attempts": 3, "result": {"n": 8}});
        assert_eq!(rules(JobTold::default(), result), ["L5"]);
        let early = json!({"status": "dead_letter", "attempts": 1, "max_attempts": 3});
        assert_eq!(rules(JobTold::default(), early), ["L5"]);
        let over = json!({"status": "dead_letter", "attempts": 4, "max_attempts": 3});
        assert_eq!(rules(JobTold::default(), over), ["L6", "L5"]);
    }

    #[test]
    fn an_effect_done_twice_is_noticed() {
        let mut job = JobTold::default();
        job.asked.push(End::Complete(7));
        job.effects.entry("charge".to_owned()).or_default().executed = 2;
        let shown =
            json!({"status": "succeeded", "attempts": 1, "max_attempts": 3, "result": {"n": 7}});
        assert_eq!(rules(job, shown), ["E2"]);
    }
}
