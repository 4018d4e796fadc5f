//! What a job came to, as the API shows it, against what clients were told.

use serde_json::Value;

use crate::plan::planned_keys;
use crate::told::{End, Inner, Problem};

/// What is wrong with a job as the API shows it once everything ended: it ended as the workers were told (L5, L6, L7), with
/// its effects (E1, E2).
pub fn job_problems(inner: &Inner, id: &str, shown: &Value) -> Vec<Problem> {
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
    let owner = inner.owner(id);
    let Some(job) = inner.jobs.get(owner) else { return Vec::new() };
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
        let undone = planned_keys(owner)
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
