//! A worker: leases jobs in batches and works on them, sometimes badly: it vanishes, or stalls past its lease and then
//! tries to go on.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use wakepost_crash::chance::Chance;
use wakepost_crash::exchange::{Exchange, Said};
use wakepost_crash::plan::{Act, plan};
use wakepost_crash::told::{End, Next, Run, Verdict};
use wakepost_domain::ports::Clock;

use super::{Desk, Phase};

/// How often a call without an answer is repeated.
const TRIES_MAX: u32 = 3;
/// How long a worker rests when it got nothing.
const REST: Duration = Duration::from_millis(500);

/// Works until the simulation is over.
pub async fn run(desk: Desk, mut chance: Chance, name: String) {
    loop {
        let runs = lease(&desk, &mut chance, &name).await;
        if runs.is_empty() {
            desk.sleep(REST).await;
        }
        for run in runs {
            look_before(&desk, &run).await;
            let stalls = desk.phase() == Phase::Load && chance.percent(8);
            let shift = Shift {
                steps: desk.world.time.steps(),
                desk: desk.clone(),
                chance: chance.split(),
                run,
                stalls,
            };
            match stalls {
                // It has others to see to meanwhile.
                true => desk.world.spawn(shift.work_to_the_end()),
                false => shift.work_to_the_end().await,
            }
        }
    }
}

async fn lease(desk: &Desk, chance: &mut Chance, name: &str) -> Vec<Run> {
    let (max, lease_s) = (chance.within(1, 4), chance.within(5, 30));
    let wait_s = chance.within(0, 5);
    let body = json!({"worker": name, "max": max, "wait_s": wait_s, "lease_s": lease_s});
    let (is_calm, asked) = (desk.is_calm(), desk.world.time.steps());
    let exchange = desk.post("/jobs/lease", &body).await;
    let steps = desk.world.time.steps();
    match &exchange.said {
        Said::Yes(_, answer) => {
            if is_calm {
                desk.record.waited(&exchange, steps);
            }
            let jobs = answer["jobs"].as_array().into_iter().flatten();
            let run = |job: &Value| {
                desk.record.leased(&desk.told, job, exchange.received, asked, steps);
                desk.told.leased(job, &exchange)
            };
            jobs.filter_map(run).collect()
        }
        Said::No(status, code) => {
            desk.told.violation("contract", format!("a lease call was refused: {status} {code}"));
            Vec::new()
        }
        Said::Nothing => Vec::new(),
    }
}

/// What was before this job in its line has ended, for good.
async fn look_before(desk: &Desk, run: &Run) {
    let Some(before) = desk.told.before_in_line(&run.job) else { return };
    let shown = desk.call(Method::GET, &format!("/jobs/{before}"), None).await.said;
    if let Said::Yes(_, shown) = shown
        && shown["finished_at"].is_null()
    {
        let (job, status) = (&run.job, &shown["status"]);
        let early = format!("{job} was given out while {before}, before it in line, was {status}");
        desk.told.violation("L9", early);
    }
}

/// One run of one job.
struct Shift {
    desk: Desk,
    chance: Chance,
    run: Run,
    stalls: bool,
    /// How often the server's clock had been set when the run began.
    steps: u32,
}

impl Shift {
    async fn work_to_the_end(mut self) {
        if let Some(end) = self.work().await {
            self.end(end).await;
        }
    }

    /// Works. `None`: the lease is lost, or the worker vanished.
    async fn work(&mut self) -> Option<End> {
        self.desk.nap(&mut self.chance, 0, 1500).await;
        if self.chance.percent(30) {
            self.heartbeat().await?;
        }
        if self.chance.percent(40) {
            self.checkpoint().await?;
        }
        for act in plan(&self.desk.told.owner(&self.run.job)) {
            self.act(&act).await?;
        }
        if self.stalls && self.chance.percent(50) {
            self.stall().await;
        }
        match self.chance.within(1, 100) {
            1..=6 if self.faulty(100) => None,
            7..=18 if self.faulty(100) => Some(End::Fail),
            19..=21 => Some(End::Dead),
            _ => Some(End::Complete(self.desk.told.new_result())),
        }
    }

    async fn act(&mut self, act: &Act) -> Option<()> {
        match self.begin(act).await {
            Next::Execute => {}
            Next::Skip => return Some(()),
            Next::Held | Next::Stop | Next::Unknown => return None,
        }
        if self.stalls && self.chance.percent(30) {
            self.stall().await;
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
        if self.now() >= self.run.live_until {
            return None;
        }
        self.desk.told.executed(&self.run, act.key);
        if self.faulty(5) {
            return None;
        }
        self.commit(act).await
    }

    async fn begin(&mut self, act: &Act) -> Next {
        let on_doubt = if act.repeatable { "execute" } else { "hold" };
        for _ in 0..TRIES_MAX {
            let body = json!({"key": act.key, "on_doubt": on_doubt});
            let told = self.desk.told.clone();
            // In doubt it ends the run, and the job may be another's before we hear of it.
            told.over(&mut self.run);
            let exchange = self.call(Method::POST, "effects", body).await;
            let next = told.begun(&mut self.run, act.key, act.repeatable, &exchange);
            if matches!(next, Next::Execute | Next::Skip) && !self.clock_was_set() {
                told.goes_on(&mut self.run);
            }
            if next != Next::Unknown {
                return next;
            }
        }
        Next::Unknown
    }

    async fn commit(&mut self, act: &Act) -> Option<()> {
        let result = self.desk.told.new_result();
        for _ in 0..TRIES_MAX {
            let path = format!("effects/{}/commit", act.key);
            let exchange = self.call(Method::POST, &path, json!({"result": {"n": result}})).await;
            match self.desk.told.committed(&self.run, act.key, result, &exchange) {
                Verdict::Done(_) => return Some(()),
                Verdict::Refused => return None,
                Verdict::Unknown => {}
            }
        }
        None
    }

    async fn heartbeat(&mut self) -> Option<()> {
        let exchange = self.call(Method::POST, "heartbeat", json!({})).await;
        let told = self.desk.told.clone();
        goes_on(told.beaten(&mut self.run, &exchange))
    }

    async fn checkpoint(&mut self) -> Option<()> {
        let state = self.desk.told.new_result();
        let body = json!({"state": {"step": state}});
        self.desk.told.checkpointing(&self.run, state);
        let exchange = self.call(Method::PUT, "checkpoint", body).await;
        goes_on(self.desk.told.checkpointed(&self.run, state, &exchange))
    }

    async fn end(&mut self, end: End) {
        let (path, body) = match end {
            End::Complete(result) => ("complete", json!({"result": {"n": result}})),
            End::Fail => ("fail", json!({"error": "it went wrong"})),
            End::Dead => ("fail", json!({"error": "it is hopeless", "retryable": false})),
        };
        let told = self.desk.told.clone();
        told.ending(&mut self.run, end);
        for tries in 1..=TRIES_MAX {
            let exchange = self.call(Method::POST, path, body.clone()).await;
            match told.ended(&mut self.run, end, tries, &exchange) {
                Verdict::Done(_) | Verdict::Refused => return,
                Verdict::Unknown => self.desk.sleep(REST).await,
            }
        }
    }

    async fn call(&mut self, method: Method, path: &str, mut body: Value) -> Exchange {
        body["lease_token"] = self.run.token.clone().into();
        let path = format!("/jobs/{}/{path}", self.run.job);
        let exchange = self.desk.call(method, &path, Some(&body)).await;
        if self.clock_was_set() {
            // By the server's new time the lease may be over, or live for longer.
            let told = self.desk.told.clone();
            told.over(&mut self.run);
        }
        exchange
    }

    fn clock_was_set(&self) -> bool {
        self.steps != self.desk.world.time.steps()
    }

    /// Long enough that the rescuer was there, and often that another worker has the job.
    async fn stall(&mut self) {
        let left = u64::try_from(self.run.live_until - self.now()).unwrap_or(0);
        let more = self.chance.within(20, 20_000);
        self.desk.sleep(Duration::from_millis(left + more)).await;
    }

    fn now(&self) -> i64 {
        self.desk.world.time.now().as_millis()
    }

    /// Whether this run goes wrong here, which it does only while there are faults anyway.
    fn faulty(&mut self, share: u64) -> bool {
        self.chance.percent(share) && self.desk.phase() == Phase::Load
    }
}

fn goes_on(verdict: Verdict) -> Option<()> {
    match verdict {
        Verdict::Refused => None,
        Verdict::Done(_) | Verdict::Unknown => Some(()),
    }
}
