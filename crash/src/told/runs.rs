//! What workers were told when they leased, worked and ended: a stale lease changes nothing (L2, L3), a live one
//! is not refused, attempts have a bound (L6).

use serde_json::Value;

use super::Told;
use super::job::{End, Lease};
use crate::exchange::{Exchange, Said};

/// A worker's own view of one lease.
#[derive(Debug, Clone)]
pub struct Run {
    /// The job.
    pub job: String,
    /// The token.
    pub token: String,
    /// The growing number.
    pub fence: i64,
    /// Until when it was told to be live.
    pub live_until: i64,
    /// A heartbeat got no answer: it may be live for longer.
    maybe_longer: bool,
    /// The end it asked for, and when first.
    asked: Option<End>,
    asked_at: i64,
    /// It is over, or may be: an end was asked for, or a `begin` without an answer may have held the job.
    maybe_over: bool,
}

/// What one call with a lease token came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It was done.
    Done(Value),
    /// The lease is lost, or something else is in the way: stop.
    Refused,
    /// Nobody knows.
    Unknown,
}

impl Told {
    /// A worker was given a job.
    pub fn leased(&self, job: &Value, exchange: &Exchange) -> Option<Run> {
        let text = |name: &str| job[name].as_str().map(str::to_owned);
        let number = |name: &str| job[name].as_i64();
        let (id, token) = (text("id")?, text("lease_token")?);
        let (fence, live_until) = (number("fence")?, millis(&text("lease_expires_at")?)?);
        let mut inner = self.lock();
        inner.counts.leases += 1;
        let (attempt, max) = (number("attempt")?, number("max_attempts")?);
        if attempt > max {
            inner.violation("L6", format!("{id} was given out for attempt {attempt} of {max}"));
        }
        let owner = text("scope").zip(id.split_once('_'));
        let owner = owner.map(|(scope, (prefix, _))| format!("{prefix}_{scope}"));
        if let Some(owner) = owner.filter(|owner| *owner != id) {
            inner.owners.insert(id.clone(), owner);
        }
        let known = inner.jobs.entry(id.clone()).or_default();
        let lease = Lease {
            fence,
            asked: exchange.sent,
            granted: exchange.received,
            live_until,
            maybe_over: false,
        };
        let mut problems = known.lease_problems(&lease);
        problems.extend(known.checkpoint_problem(fence, &job["checkpoint"]));
        known.leases.push(lease);
        for (rule, problem) in problems {
            inner.violation(rule, format!("{id}, fence {fence}: {problem}"));
        }
        let (maybe_longer, maybe_over) = (false, false);
        Some(Run {
            job: id,
            token,
            fence,
            live_until,
            maybe_longer,
            asked: None,
            asked_at: 0,
            maybe_over,
        })
    }

    /// A heartbeat came to this.
    pub fn beaten(&self, run: &mut Run, exchange: &Exchange) -> Verdict {
        let verdict = self.judge(run, "heartbeat", exchange);
        match &verdict {
            Verdict::Done(answer) => {
                let until = answer["lease_expires_at"].as_str().and_then(millis);
                run.live_until = until.unwrap_or(run.live_until).max(run.live_until);
                let (job, fence, until) = (&run.job, run.fence, run.live_until);
                if let Some(lease) = self.lock().lease_of(job, fence) {
                    lease.live_until = until;
                }
            }
            Verdict::Unknown => run.maybe_longer = true,
            Verdict::Refused => {}
        }
        verdict
    }

    /// A worker is about to save a checkpoint: another run may be handed it before the worker is told that it was saved.
    pub fn checkpointing(&self, run: &Run, state: u64) {
        if let Some(job) = self.lock().jobs.get_mut(&run.job) {
            job.checkpoints_unknown.insert(state);
        }
    }

    /// Saving it came to this.
    pub fn checkpointed(&self, run: &Run, state: u64, exchange: &Exchange) -> Verdict {
        let verdict = self.judge(run, "checkpoint", exchange);
        let mut inner = self.lock();
        let Some(job) = inner.jobs.get_mut(&run.job) else { return verdict };
        if verdict != Verdict::Unknown {
            job.checkpoints_unknown.remove(&state);
        }
        if matches!(verdict, Verdict::Done(_)) {
            job.saved(run.fence, state);
        }
        verdict
    }

    /// A worker is about to ask for an end.
    pub fn ending(&self, run: &mut Run, end: End) {
        if run.asked != Some(end) {
            run.asked = Some(end);
            let mut inner = self.lock();
            if let Some(lease) = inner.lease_of(&run.job, run.fence) {
                lease.maybe_over = true;
            }
            if let Some(job) = inner.jobs.get_mut(&run.job) {
                job.asked.push(end);
            }
        }
    }

    /// Asking for an end came to this, at the first try or a later one.
    pub fn ended(&self, run: &mut Run, end: End, tries: u32, exchange: &Exchange) -> Verdict {
        // A repeat of the call that ended the job is answered like the first, also after the lease.
        if tries <= 1 {
            run.asked_at = exchange.sent;
        }
        let expired = !run.maybe_longer && run.asked_at >= run.live_until;
        let verdict = self.judged(run, "end", exchange, expired);
        run.maybe_over = true;
        let mut inner = self.lock();
        let Some(job) = inner.jobs.get_mut(&run.job) else { return verdict };
        match &verdict {
            Verdict::Done(answer) => {
                let status = answer["status"].as_str().unwrap_or_default();
                let is_end = matches!(status, "succeeded" | "dead_letter");
                let first = job.ended.is_none();
                if is_end && first {
                    let end = if status == "dead_letter" { End::Dead } else { end };
                    job.ended = Some((end, exchange.received));
                }
                let expected = match end {
                    End::Complete(_) => status == "succeeded",
                    End::Dead => status == "dead_letter",
                    End::Fail => matches!(status, "retrying" | "dead_letter"),
                };
                inner.counts.finished += u64::from(is_end && first);
                if !expected {
                    let id = &run.job;
                    inner.violation(
                        "contract",
                        format!("{id}: {end:?} was answered with the job {status}"),
                    );
                }
            }
            // Nothing changed, so this cannot be how it ended, unless an earlier try did it.
            Verdict::Refused if tries <= 1 => job.asked.retain(|asked| *asked != end),
            Verdict::Refused | Verdict::Unknown => {}
        }
        verdict
    }

    /// Judges any call with a lease token.
    pub fn judge(&self, run: &Run, what: &str, exchange: &Exchange) -> Verdict {
        let stale = !run.maybe_longer && exchange.sent >= run.live_until;
        self.judged(run, what, exchange, stale)
    }

    fn judged(&self, run: &Run, what: &str, exchange: &Exchange, expired: bool) -> Verdict {
        let (job, fence) = (&run.job, run.fence);
        let mut inner = self.lock();
        let newer = inner.jobs.get(job).is_some_and(|known| known.newer(fence, exchange.sent));
        let verdict = match &exchange.said {
            Said::Nothing => return Verdict::Unknown,
            Said::Yes(_, answer) => Verdict::Done(answer.clone()),
            Said::No(..) => Verdict::Refused,
        };
        match &exchange.said {
            Said::Yes(..) if expired || newer => {
                let why = if newer { "another run had the job" } else { "its lease was over" };
                inner.violation(
                    "L2",
                    format!("{job}: {what} with fence {fence} was done although {why}"),
                );
            }
            Said::No(409, code) if code == "lease_lost" => {
                inner.counts.stale_refused += 1;
                if !run.maybe_over && exchange.received + 1 < run.live_until {
                    inner.violation(
                        "L1",
                        format!("{job}: {what} with fence {fence} was refused although its lease was live"),
                    );
                }
            }
            Said::No(status, code) => {
                inner.violation(
                    "contract",
                    format!("{job}: {what} with fence {fence} was refused: {status} {code}"),
                );
            }
            Said::Yes(..) | Said::Nothing => {}
        }
        verdict
    }

    /// The lease may not be live from now on.
    pub fn over(&self, run: &mut Run) {
        run.maybe_over = true;
        if let Some(lease) = self.lock().lease_of(&run.job, run.fence) {
            lease.maybe_over = true;
        }
    }
}

impl Told {
    /// The lease lived after all: the call that might have ended it did not.
    pub fn goes_on(&self, run: &mut Run) {
        run.maybe_over = false;
        if let Some(lease) = self.lock().lease_of(&run.job, run.fence) {
            lease.maybe_over = false;
        }
    }

    /// The server's clock was set: by its new time any lease may be over.
    pub fn clock_was_set(&self) {
        let mut inner = self.lock();
        for lease in inner.jobs.values_mut().flat_map(|job| &mut job.leases) {
            lease.maybe_over = true;
        }
    }
}

fn millis(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(|time| time.as_millisecond())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn yes(sent: i64, body: Value) -> Exchange {
        Exchange { said: Said::Yes(200, body), sent, received: sent + 1 }
    }

    fn lost(sent: i64) -> Exchange {
        Exchange { said: Said::No(409, "lease_lost".to_owned()), sent, received: sent + 1 }
    }

    fn lease(told: &Told, fence: i64, at: i64) -> Run {
        let expires = jiff::Timestamp::from_millisecond(at + 1000).unwrap().to_string();
        let job = json!({"id": "job_1", "lease_token": "t", "fence": fence, "attempt": fence,
            "max_attempts": 3, "lease_expires_at": expires});
        told.leased(&job, &yes(at, json!({}))).unwrap()
    }

    fn violations(told: &Told) -> u64 {
        told.counts().violations
    }

    #[test]
    fn a_second_lease_is_fine_only_after_the_first() {
        let told = Told::default();
        lease(&told, 1, 0);
        lease(&told, 2, 1500);
        assert_eq!(violations(&told), 0);
        lease(&told, 3, 2000);
        assert_eq!(violations(&told), 1, "the second lived until 2500");
        lease(&told, 3, 9000);
        assert_eq!(violations(&told), 2, "the fence did not grow");
        lease(&told, 4, 19_000);
        assert_eq!(violations(&told), 3, "attempt 4 of 3");
    }

    #[test]
    fn a_stale_call_that_is_done_is_noticed_and_one_refused_is_not() {
        let told = Told::default();
        let mut run = lease(&told, 1, 0);
        assert_eq!(told.beaten(&mut run, &lost(1200)), Verdict::Refused);
        assert_eq!(violations(&told), 0);
        told.judge(&run, "progress", &yes(1200, json!({})));
        assert_eq!(violations(&told), 1);
        told.judge(&run, "progress", &lost(500));
        assert_eq!(violations(&told), 2, "a live lease was refused");
    }

    #[test]
    fn an_end_may_be_repeated_but_stays_the_end() {
        let told = Told::default();
        let mut run = lease(&told, 1, 0);
        let end = End::Complete(7);
        told.ending(&mut run, end);
        let nothing = Exchange { said: Said::Nothing, sent: 10, received: 20 };
        assert_eq!(told.ended(&mut run, end, 1, &nothing), Verdict::Unknown);
        told.ended(&mut run, end, 2, &yes(2000, json!({"status": "succeeded"})));
        assert_eq!(violations(&told), 0);
        lease(&told, 2, 3000);
        assert_eq!(violations(&told), 1);
    }

    #[test]
    fn a_checkpoint_that_was_saved_is_handed_on() {
        let told = Told::default();
        let run = lease(&told, 1, 0);
        told.checkpointed(&run, 5, &yes(10, json!({})));
        lease(&told, 2, 2000);
        assert_eq!(violations(&told), 1, "the second run was handed none");
    }

    fn lease_with(told: &Told, fence: i64, at: i64, step: u64) -> Run {
        let expires = jiff::Timestamp::from_millisecond(at + 1000).unwrap().to_string();
        let job = json!({"id": "job_1", "lease_token": "t", "fence": fence, "attempt": fence,
            "max_attempts": 3, "lease_expires_at": expires, "checkpoint": {"step": step}});
        told.leased(&job, &yes(at, json!({}))).unwrap()
    }

    #[test]
    fn a_checkpoint_whose_answer_is_late_may_be_handed_on_before() {
        let told = Told::default();
        let run = lease(&told, 1, 0);
        told.checkpointing(&run, 5);
        let next = lease_with(&told, 2, 2000, 5);
        assert_eq!(violations(&told), 0);
        told.checkpointing(&next, 6);
        told.checkpointed(&next, 6, &yes(2010, json!({})));
        told.checkpointed(&run, 5, &Exchange { received: 2500, ..yes(10, json!({})) });
        lease_with(&told, 3, 4000, 6);
        assert_eq!(violations(&told), 0, "what the first run saved came before");
    }

    #[test]
    fn a_checkpoint_that_was_refused_is_not_handed_on() {
        let told = Told::default();
        let run = lease(&told, 1, 0);
        told.checkpointing(&run, 5);
        told.checkpointed(&run, 5, &lost(1200));
        lease_with(&told, 2, 2000, 5);
        assert_eq!(violations(&told), 1);
    }

    #[test]
    fn a_run_whose_answer_was_overtaken_need_not_know_what_was_saved_since() {
        let told = Told::default();
        let later = lease(&told, 2, 2000);
        told.checkpointed(&later, 5, &yes(2010, json!({})));
        let expires = jiff::Timestamp::from_millisecond(1000).unwrap().to_string();
        let job = json!({"id": "job_1", "lease_token": "t", "fence": 1, "attempt": 1,
            "max_attempts": 3, "lease_expires_at": expires});
        told.leased(&job, &Exchange { said: Said::Nothing, sent: 0, received: 4000 });
        assert_eq!(violations(&told), 0);
    }
}
