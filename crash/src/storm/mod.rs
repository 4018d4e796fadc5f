//! The replay storm: three days of events, over five providers and three tenants, each sent three times in random
//! order while the server is killed. In the end there is one event, one job and two effects for each, and every
//! repeat has a class. What is sent is in `plan`; `sender` and `worker` are the load; the check is that of all
//! crashes, with the counts and the receipts (`receipts`) besides.

mod outcome;
mod plan;
mod receipts;
mod sender;
mod tenant;
mod worker;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use xtask::postgres::Durability;

pub use outcome::Outcome;

use crate::chance::Chance;
use crate::check;
use crate::clients::{Phase, operator};
use crate::kill::Killing;
use crate::options::{Common, Control};
use crate::world::{Cluster, Place, break_promise, new_directory};
use outcome::Classes;
use plan::{Plan, SENDINGS};
use tenant::Tenant;
use worker::EFFECTS;

const SENDERS: u64 = 24;
const WORKERS_EACH: u64 = 3;
/// How often it is looked how far everything is, and how often that is told.
const LOOK: Duration = Duration::from_millis(10);
const PROGRESS: Duration = Duration::from_secs(5);
/// After this long without any progress something is stuck.
const STUCK: Duration = Duration::from_secs(60);
/// After this long without any progress what is left waits for leases that were lost: longer than one.
const QUIET: Duration = Duration::from_secs(10);
/// How long a client may take to go home: a long poll and a last call.
const GOING_HOME: Duration = Duration::from_secs(15);

/// How large a storm is.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// How many events.
    pub events: u32,
    /// How many kills.
    pub kills: u32,
}

/// Sends, kills, and checks.
pub async fn run(
    common: &Common,
    seed: u64,
    size: Size,
    control: Option<Control>,
) -> anyhow::Result<Outcome> {
    let directory = new_directory()?;
    let place = Place { directory: directory.path(), disk: None };
    let mut cluster = Cluster::start(common, &place, Durability::Small, &[]).await?;
    let tenants = Tenant::make_all(&mut cluster).await?;
    if let Some(control) = control {
        break_promise(&mut cluster, control).await?;
    }
    let plan = Arc::new(Plan::new(&tenants, size.events, &mut Chance::new(seed, 2)));
    let tenants = Arc::new(tenants);
    let mut killing = Killing::new(cluster, seed, size.kills);
    let storm = Storm { tenants: tenants.clone(), plan, seed };
    let checked = storm.pass(&mut killing, size).await;
    let (told, mut classes) = (&tenants[0].desk.told, Classes::default());
    match checked {
        Ok(found) => classes = found,
        // A server that cannot be started again, or asked, is the worst violation of all.
        Err(error) => told.violation("start", format!("{error:#}")),
    }
    let of_database = killing.of_database(common.database);
    let mut cluster = killing.cluster;
    let kills = format!("{} kills{of_database}", killing.killed);
    let mut outcome = Outcome { tenants: tenants.clone(), kills, classes, seed, kept: Vec::new() };
    if let Some(log) = cluster.fallen()?.filter(|_| outcome.violations() == 0) {
        told.violation("start", format!("a server ended by itself:\n{log}"));
    }
    if outcome.violations() > 0 && control.is_none() {
        outcome.kept.extend(cluster.keep()?);
        outcome.kept.push(directory.keep());
    }
    Ok(outcome)
}

struct Storm {
    tenants: Arc<Vec<Tenant>>,
    plan: Arc<Plan>,
    seed: u64,
}

impl Storm {
    /// Lets it pass, and checks what it left.
    async fn pass(&self, killing: &mut Killing, size: Size) -> anyhow::Result<Classes> {
        let mut senders = self.senders(killing);
        let mut others = self.others();
        let mut watch = Watch::new(&self.tenants, size.events);
        let mut moments = moments(self.seed, size.kills, watch.total).into_iter();
        while let Some(moment) = moments.next().filter(|_| !killing.is_over()) {
            watch.reach(moment, STUCK).await?;
            killing.next().await?;
        }
        while senders.join_next().await.is_some() {}
        // What a worker was not told the end of is missing in its counts: the check finds it.
        let _ = watch.reach(watch.total, QUIET).await;
        for tenant in self.tenants.iter() {
            check::drain(&tenant.caller, &tenant.desk.told).await?;
            tenant.desk.enter(Phase::Over);
        }
        let going = async { while others.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GOING_HOME, going).await;
        others.abort_all();
        self.check().await
    }

    fn senders(&self, killing: &Killing) -> JoinSet<()> {
        let mut senders = JoinSet::new();
        for number in 0..SENDERS {
            let (tenants, plan) = (self.tenants.clone(), self.plan.clone());
            let chance = Chance::new(self.seed, 100 + number);
            senders.spawn(sender::run(killing.cluster.caller(), tenants, plan, chance));
        }
        senders
    }

    fn others(&self) -> JoinSet<()> {
        let mut others = JoinSet::new();
        for (tenant, stream) in self.tenants.iter().zip((200..).step_by(100)) {
            for number in 0..WORKERS_EACH {
                let chance = Chance::new(self.seed, stream + number);
                let name = format!("worker-{number}");
                others.spawn(worker::run(tenant.desk.clone(), chance, name));
            }
            let chance = Chance::new(self.seed, stream + WORKERS_EACH);
            others.spawn(operator::run(tenant.desk.clone(), chance));
        }
        others
    }

    async fn check(&self) -> anyhow::Result<Classes> {
        let mut classes = Classes::default();
        for (number, tenant) in self.tenants.iter().enumerate() {
            let told = &tenant.desk.told;
            check::everything(&tenant.caller, told).await?;
            receipts::check(tenant, &mut classes).await?;
            let problems = tenant.count_problems(self.plan.of_tenant(number), EFFECTS.len());
            problems.into_iter().for_each(|problem| told.violation("counts", problem));
        }
        Ok(classes)
    }
}

/// After how many answers and ends each kill comes: all over the storm, and none when it is as good as over.
fn moments(seed: u64, kills: u32, total: u64) -> Vec<u64> {
    let mut chance = Chance::new(seed, 3);
    let mut moments: Vec<u64> =
        (0..kills).map(|_| chance.within(total / 100, total / 100 * 90)).collect();
    moments.sort_unstable();
    moments
}

/// How far the storm is.
struct Watch<'a> {
    tenants: &'a [Tenant],
    total: u64,
    moved: (u64, Instant),
    shown: Instant,
}

impl<'a> Watch<'a> {
    fn new(tenants: &'a [Tenant], events: u32) -> Watch<'a> {
        let now = Instant::now();
        // Each sending is answered once, and each job ends.
        let total = u64::from(events) * (SENDINGS as u64 + 1);
        Watch { tenants, total, moved: (0, now), shown: now }
    }

    /// Waits until there were so many answers and ends, as long as there are ever more.
    async fn reach(&mut self, moment: u64, patience: Duration) -> anyhow::Result<()> {
        self.moved.1 = Instant::now();
        loop {
            let counts = self.tenants.iter().map(|tenant| tenant.desk.told.counts());
            let (mut answered, mut finished) = (0, 0);
            for counts in counts {
                answered += counts.accepted + counts.duplicates;
                finished += counts.finished;
            }
            let progress = answered + finished;
            if progress >= moment {
                return Ok(());
            }
            if progress > self.moved.0 {
                self.moved = (progress, Instant::now());
            }
            anyhow::ensure!(
                self.moved.1.elapsed() < patience,
                "nothing was answered or ended for {patience:?}, at {progress} of {}",
                self.total
            );
            if self.shown.elapsed() >= PROGRESS {
                self.shown = Instant::now();
                println!("answered {answered}, jobs finished {finished}");
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_come_in_order_and_before_the_storm_is_over() {
        let moments = moments(7, 50, 12_000);
        assert_eq!(moments.len(), 50);
        assert!(moments.is_sorted());
        assert!(moments.iter().all(|moment| (120..=10_800).contains(moment)));
        assert_eq!(super::moments(7, 50, 12_000), moments);
    }
}
