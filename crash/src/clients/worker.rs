//! A worker: leases jobs in batches and works on them, sometimes badly: it vanishes, or stalls past its lease
//! and then tries to go on.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use wakepost_tests::now;

use super::ending::{self, Finish};
use super::{Desk, Phase, acting};
use crate::caller::{Exchange, Said};
use crate::chance::Chance;
use crate::plan::{Act, plan};
use crate::told::{End, Next, Run, Verdict};

/// Stalled runs that a worker lets go on beside its others.
const STALLED_MAX: usize = 30;

/// A worker.
pub struct Worker {
    desk: Desk,
    chance: Chance,
    name: String,
}

/// Where a run stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stall {
    Never,
    BeforeActing,
    AfterActing,
    BeforeTheEnd,
}

impl Worker {
    /// A worker with a name.
    pub fn new(desk: Desk, chance: Chance, name: String) -> Worker {
        Worker { desk, chance, name }
    }

    /// Works until everybody goes home.
    pub async fn run(mut self) {
        let mut stalled = JoinSet::new();
        while self.desk.phase() != Phase::Over {
            let mut finishes = Vec::new();
            let mut runs = self.lease().await;
            if runs.len() > 1 && self.chance.percent(25) {
                self.beat(&mut runs).await;
            }
            for run in runs {
                self.look_before(&run).await;
                let stall = self.stall();
                let mut shift =
                    Shift { desk: self.desk.clone(), chance: self.chance.split(), run, stall };
                if stall != Stall::Never && stalled.len() < STALLED_MAX {
                    stalled.spawn(async move {
                        if let Some(end) = shift.work().await {
                            let finish = Finish { run: shift.run, end };
                            ending::alone(&shift.desk, &mut shift.chance, finish).await;
                        }
                    });
                } else if let Some(end) = shift.work().await {
                    finishes.push(Finish { run: shift.run, end });
                }
            }
            ending::all(&self.desk, &mut self.chance, finishes).await;
            while stalled.try_join_next().is_some() {}
        }
        while stalled.join_next().await.is_some() {}
    }

    async fn lease(&mut self) -> Vec<Run> {
        let (max, lease_s) = (self.chance.within(1, 6), self.chance.within(1, 3));
        acting::lease(&self.desk, &mut self.chance, &self.name, max, lease_s).await
    }

    /// What was before this job in its line has ended, for good.
    async fn look_before(&mut self, run: &Run) {
        let Some(before) = self.desk.told.before_in_line(&run.job) else { return };
        let path = format!("/jobs/{before}");
        let shown = self.desk.caller.call(&mut self.chance, Method::GET, &path, None).await.said;
        if let Said::Yes(_, shown) = shown
            && shown["finished_at"].is_null()
        {
            let (job, status) = (&run.job, &shown["status"]);
            self.desk.told.violation(
                "L9",
                format!("{job} was given out while {before}, before it in its line, was {status}"),
            );
        }
    }

    /// One heartbeat for many.
    async fn beat(&mut self, runs: &mut [Run]) {
        let jobs = runs.iter().map(|run| json!({"id": run.job, "lease_token": run.token}));
        let body = json!({"jobs": jobs.collect::<Vec<_>>()});
        let exchange = self.desk.caller.post(&mut self.chance, "/jobs/heartbeat", &body).await;
        let said = ending::each(&exchange, runs.len());
        for (run, said) in runs.iter_mut().zip(said) {
            self.desk.told.beaten(run, &Exchange { said, ..exchange });
        }
    }

    fn stall(&mut self) -> Stall {
        if self.desk.phase() != Phase::Load {
            return Stall::Never;
        }
        match self.chance.within(1, 100) {
            1..=2 => Stall::BeforeActing,
            3 => Stall::AfterActing,
            4..=5 => Stall::BeforeTheEnd,
            _ => Stall::Never,
        }
    }
}

/// One run of one job.
struct Shift {
    desk: Desk,
    chance: Chance,
    run: Run,
    stall: Stall,
}

impl Shift {
    /// Works. `None`: the lease is lost, or the worker vanished.
    async fn work(&mut self) -> Option<End> {
        if self.chance.percent(20) {
            self.heartbeat().await?;
        }
        if self.chance.percent(40) {
            self.checkpoint().await?;
        }
        for act in plan(&self.run.job) {
            self.act(&act).await?;
        }
        if self.chance.percent(10) {
            let body = json!({"message": "nearly done"});
            let exchange = self.call(Method::POST, "progress", body).await;
            self.done(self.desk.told.judge(&self.run, "progress", &exchange))?;
        }
        if self.stall == Stall::BeforeTheEnd {
            self.sleep_past_the_lease().await;
        }
        self.end()
    }

    async fn act(&mut self, act: &Act) -> Option<()> {
        let (key, repeatable) = (act.key, act.repeatable);
        match acting::begin(&self.desk, &mut self.chance, &mut self.run, key, repeatable).await {
            Next::Execute => {}
            Next::Skip => return Some(()),
            Next::Held | Next::Stop | Next::Unknown => return None,
        }
        if self.stall == Stall::BeforeActing {
            self.sleep_past_the_lease().await;
            // A careful worker asks whether the job is still its own.
            self.heartbeat().await?;
        }
        if self.faulty(3) {
            self.desk.told.undoing(&self.run.job, act.key);
            let path = format!("effects/{}/abort", act.key);
            let exchange = self.call(Method::POST, &path, json!({"error": "not today"})).await;
            self.desk.told.judge(&self.run, "abort", &exchange);
            return None;
        }
        // Without this an answer that took longer than the lease would be acted on.
        if now().as_millis() >= self.run.live_until {
            return None;
        }
        self.desk.told.executed(&self.run, act.key);
        if self.faulty(4) {
            return None;
        }
        if self.stall == Stall::AfterActing {
            self.sleep_past_the_lease().await;
        }
        acting::commit(&self.desk, &mut self.chance, &self.run, act.key).await
    }

    async fn heartbeat(&mut self) -> Option<()> {
        let exchange = self.call(Method::POST, "heartbeat", json!({})).await;
        let verdict = self.desk.told.beaten(&mut self.run, &exchange);
        self.done(verdict)
    }

    async fn checkpoint(&mut self) -> Option<()> {
        let state = self.desk.told.new_result();
        let body = json!({"state": {"step": state}});
        self.desk.told.checkpointing(&self.run, state);
        let exchange = self.call(Method::PUT, "checkpoint", body).await;
        self.done(self.desk.told.checkpointed(&self.run, state, &exchange))
    }

    fn end(&mut self) -> Option<End> {
        match self.chance.within(1, 100) {
            1..=4 if self.faulty(100) => None,
            5..=12 if self.faulty(100) => Some(End::Fail),
            13..=14 => Some(End::Dead),
            _ => Some(End::Complete(self.desk.told.new_result())),
        }
    }

    /// Whether this run goes wrong here, which it does only while there are faults anyway.
    fn faulty(&mut self, share: u64) -> bool {
        self.chance.percent(share) && self.desk.phase() == Phase::Load
    }

    fn done(&self, verdict: Verdict) -> Option<()> {
        match verdict {
            Verdict::Refused => None,
            Verdict::Done(_) | Verdict::Unknown => Some(()),
        }
    }

    async fn call(&mut self, method: Method, path: &str, body: Value) -> Exchange {
        acting::call(&self.desk, &mut self.chance, &self.run, method, path, body).await
    }

    /// Long enough that the rescuer was there, and often that another worker has the job.
    async fn sleep_past_the_lease(&mut self) {
        let left = u64::try_from(self.run.live_until - now().as_millis()).unwrap_or(0);
        let more = self.chance.within(20, 2500);
        tokio::time::sleep(Duration::from_millis(left + more)).await;
    }
}
