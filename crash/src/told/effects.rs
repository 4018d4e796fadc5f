//! What workers were told about effects, and the world outside that counts what they really did (E1, E2).

use std::collections::HashMap;

use serde_json::Value;

use super::runs::{Run, Verdict};
use super::{Inner, Problem, Told};
use crate::exchange::Exchange;

/// What is known of one effect.
#[derive(Debug, Default)]
pub struct EffectTold {
    /// Its owner declared that it may be done again when in doubt.
    pub repeatable: bool,
    /// How often it was done in the world outside.
    pub executed: u32,
    /// A worker was told that it is committed with this result, and when.
    pub committed: Option<(u64, i64)>,
    /// Results that were sent, answered or not.
    results: Vec<u64>,
    /// It is said, or may have been said, that it was not done.
    maybe_undone: bool,
    idempotency_key: Option<String>,
}

/// What a worker does after it asked to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Act.
    Execute,
    /// It was done before.
    Skip,
    /// The run is over: an operator must decide.
    Held,
    /// The lease is lost.
    Stop,
    /// No answer.
    Unknown,
}

impl Told {
    /// Asking to act came to this.
    pub fn begun(&self, run: &mut Run, key: &str, repeatable: bool, exchange: &Exchange) -> Next {
        let verdict = self.judge(run, "begin", exchange);
        let answer = match verdict {
            Verdict::Done(answer) => answer,
            Verdict::Refused => return Next::Stop,
            Verdict::Unknown => {
                // It may have been in doubt, which ends the run.
                self.over(run);
                return Next::Unknown;
            }
        };
        let next = match answer["decision"].as_str() {
            Some("execute") => Next::Execute,
            Some("skip") => Next::Skip,
            _ => Next::Held,
        };
        if next == Next::Held {
            self.over(run);
        }
        let mut inner = self.lock();
        inner.counts.in_doubt += u64::from(next == Next::Held);
        let effect = inner.effect(&run.job, key);
        effect.repeatable = repeatable;
        let problem = effect.begin_problem(next, &answer, exchange);
        if let Some((rule, problem)) = problem {
            inner.violation(rule, format!("{} {key}, fence {}: {problem}", run.job, run.fence));
        }
        next
    }

    /// A worker acts.
    pub fn executed(&self, run: &Run, key: &str) {
        let mut inner = self.lock();
        inner.counts.executed += 1;
        let effect = inner.effect(&run.job, key);
        effect.executed += 1;
        effect.maybe_undone = false;
    }

    /// Saying that it acted came to this.
    pub fn committed(&self, run: &Run, key: &str, result: u64, exchange: &Exchange) -> Verdict {
        let verdict = self.judge(run, "commit", exchange);
        let mut inner = self.lock();
        let effect = inner.effect(&run.job, key);
        match verdict {
            Verdict::Done(_) => effect.committed = Some((result, exchange.received)),
            Verdict::Unknown => {}
            Verdict::Refused => return verdict,
        }
        effect.results.push(result);
        verdict
    }

    /// A worker is about to say that it certainly did not act, or an operator is.
    pub fn undoing(&self, job: &str, key: &str) {
        self.lock().effect(job, key).maybe_undone = true;
    }

    /// The job whose effects a job shares.
    pub fn owner(&self, job: &str) -> String {
        self.lock().owner(job).to_owned()
    }

    /// How often each effect was done in the world outside, by its idempotency key: what a receiver counts that
    /// knows nothing of jobs.
    pub fn done_outside(&self) -> HashMap<String, u32> {
        let mut done = HashMap::new();
        for effect in self.lock().jobs.values().flat_map(|job| job.effects.values()) {
            let key = effect.idempotency_key.clone().unwrap_or_default();
            *done.entry(key).or_default() += effect.executed;
        }
        done
    }

    /// Whether an effect was done in the world outside, as an operator can find out. If so, the result that the
    /// operator is about to send.
    pub fn was_done(&self, job: &str, key: &str, result: u64) -> bool {
        let mut inner = self.lock();
        let effect = inner.effect(job, key);
        let done = effect.executed > 0;
        if done {
            effect.results.push(result);
        }
        done
    }
}

impl Inner {
    /// The job whose effects a job shares: the first of those that are replays of each other, or itself.
    pub fn owner<'a>(&'a self, job: &'a str) -> &'a str {
        self.owners.get(job).map_or(job, String::as_str)
    }

    fn effect(&mut self, job: &str, key: &str) -> &mut EffectTold {
        let owner = self.owner(job).to_owned();
        self.jobs.entry(owner).or_default().effects.entry(key.to_owned()).or_default()
    }
}

impl EffectTold {
    /// Whether a stored result is one that was sent.
    pub fn knows(&self, result: &Value) -> bool {
        let number = result["n"].as_u64();
        match self.committed {
            Some((committed, _)) => number == Some(committed),
            None => number.is_some_and(|number| self.results.contains(&number)),
        }
    }

    fn begin_problem(
        &mut self,
        next: Next,
        answer: &Value,
        exchange: &Exchange,
    ) -> Option<Problem> {
        let key = answer["idempotency_key"].as_str().unwrap_or_default();
        if self.idempotency_key.get_or_insert_with(|| key.to_owned()) != key {
            return Some(("E1", "the idempotency key of an effect changed".to_owned()));
        }
        let committed_before = self.committed.is_some_and(|(_, at)| at < exchange.sent);
        match next {
            Next::Execute if committed_before => {
                Some(("E1", "told to be committed, and is to be executed again".to_owned()))
            }
            Next::Execute if self.executed > 0 && !self.repeatable && !self.maybe_undone => {
                Some(("E2", "in doubt, and is to be executed again".to_owned()))
            }
            Next::Held if committed_before => {
                Some(("E1", "told to be committed, and is in doubt".to_owned()))
            }
            Next::Skip if !self.knows(&answer["result"]) => Some((
                "E1",
                format!("skipped with the result {}, which nobody sent", answer["result"]),
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exchange::Said;

    fn yes(sent: i64, body: Value) -> Exchange {
        Exchange { said: Said::Yes(200, body), sent, received: sent + 1 }
    }

    fn decision(sent: i64, word: &str) -> Exchange {
        yes(sent, json!({"decision": word, "idempotency_key": "k", "result": {"n": 1}}))
    }

    fn lease(told: &Told, fence: i64, at: i64) -> Run {
        let expires = jiff::Timestamp::from_millisecond(at + 1000).unwrap().to_string();
        let job = json!({"id": "job_1", "lease_token": "t", "fence": fence, "attempt": 1,
            "max_attempts": 3, "lease_expires_at": expires});
        told.leased(&job, &yes(at, json!({}))).unwrap()
    }

    #[test]
    fn a_committed_effect_may_only_be_skipped_with_its_result() {
        let told = Told::default();
        let mut run = lease(&told, 1, 0);
        assert_eq!(told.begun(&mut run, "a", false, &decision(1, "execute")), Next::Execute);
        told.executed(&run, "a");
        told.committed(&run, "a", 1, &yes(3, json!({})));
        let mut run = lease(&told, 2, 2000);
        assert_eq!(told.begun(&mut run, "a", false, &decision(2001, "skip")), Next::Skip);
        assert_eq!(told.counts().violations, 0);
        told.begun(&mut run, "a", true, &decision(2002, "execute"));
        assert_eq!(told.counts().violations, 1);
    }

    #[test]
    fn a_replay_shares_the_effects_of_the_first_job() {
        let told = Told::default();
        let mut run = lease(&told, 1, 0);
        told.begun(&mut run, "a", false, &decision(1, "execute"));
        told.executed(&run, "a");
        told.committed(&run, "a", 1, &yes(3, json!({})));
        let expires = jiff::Timestamp::from_millisecond(9000).unwrap().to_string();
        let job = json!({"id": "job_2", "scope": "1", "lease_token": "t", "fence": 1,
            "attempt": 1, "max_attempts": 3, "lease_expires_at": expires});
        let mut replay = told.leased(&job, &yes(2000, json!({}))).unwrap();
        assert_eq!(told.lock().owner("job_2"), "job_1");
        told.begun(&mut replay, "a", false, &decision(2001, "skip"));
        assert_eq!(told.counts().violations, 0);
        told.begun(&mut replay, "a", false, &decision(2002, "execute"));
        assert_eq!(told.counts().violations, 1);
    }

    #[test]
    fn an_effect_in_doubt_is_done_again_only_where_that_is_safe() {
        for (repeatable, undone, violations) in
            [(false, false, 1), (true, false, 0), (false, true, 0)]
        {
            let told = Told::default();
            let mut run = lease(&told, 1, 0);
            told.begun(&mut run, "a", repeatable, &decision(1, "execute"));
            told.executed(&run, "a");
            if undone {
                told.undoing("job_1", "a");
            }
            let mut run = lease(&told, 2, 2000);
            told.begun(&mut run, "a", repeatable, &decision(2001, "execute"));
            assert_eq!(told.counts().violations, violations);
        }
    }
}
