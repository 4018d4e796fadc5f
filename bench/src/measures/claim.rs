//! No-op jobs through the HTTP lease API: leased and finished in batches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;

use super::rounds::{by_arm, order, rounds};
use super::window::Spent;
use super::worker::{Worker, create};
use crate::bench::Bench;
use crate::figure::{Figure, Unit};
use crate::world::gateway::{Gateway, Kind};

/// Batch sizes, with how many jobs a round drains.
pub const BATCHES: [(usize, usize); 3] = [(100, 50_000), (10, 10_000), (1, 3_000)];
pub const WORKERS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(120);

/// What draining came to.
#[derive(Debug, Clone, Copy)]
pub struct Drained {
    /// Jobs a second.
    pub rate: f64,
    /// CPU of the server, in microseconds a job.
    pub server_us: f64,
    /// CPU of the database server.
    pub database_us: f64,
}

/// The figures of the spec, as far as they need no other queue beside ours.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let gateways = bench.gateways().await?;
    for (batch, jobs) in BATCHES {
        let drained = drained(bench, &gateways, batch, bench.options.count(jobs)).await?;
        for (gateway, drained) in gateways.iter().zip(drained) {
            figures.extend(of_one(gateway.kind, batch, &drained));
        }
    }
    Ok(figures)
}

/// The figures of one arm.
pub fn of_one(kind: Kind, batch: usize, drained: &[Drained]) -> Vec<Figure> {
    let figure = |name: &str, unit, of: fn(&Drained) -> f64| {
        let name = format!("jobs leased and finished in batches of {batch}{name}");
        Figure::new(name, kind, unit, drained.iter().map(of).collect())
    };
    let mut figures = vec![
        figure("", Unit::PerSecond, |drained| drained.rate),
        figure(": server CPU per job", Unit::Micros, |d| d.server_us),
    ];
    if kind == Kind::Postgres {
        figures.push(figure(": database CPU per job", Unit::Micros, |d| d.database_us));
    }
    figures
}

/// Drains fresh jobs on each gateway in turn, once a round.
pub async fn drained(
    bench: &Bench,
    gateways: &[Gateway],
    batch: usize,
    jobs: usize,
) -> anyhow::Result<Vec<Vec<Drained>>> {
    let all = rounds(bench, async |round| {
        let mut seen = BTreeMap::new();
        for index in order(round, gateways.len()) {
            seen.insert(index, one(bench, &gateways[index], batch, jobs, round).await?);
        }
        Ok(seen.into_values().collect())
    });
    Ok(by_arm(all.await?))
}

/// Drains fresh jobs once.
pub async fn one(
    bench: &Bench,
    gateway: &Gateway,
    batch: usize,
    jobs: usize,
    round: u32,
) -> anyhow::Result<Drained> {
    create(&mut gateway.api().await?, jobs).await?;
    let before = Spent::so_far(bench, gateway);
    let took = drain(gateway, batch, jobs).await?;
    let after = Spent::so_far(bench, gateway);
    let (server_us, database_us, generator_us) = after.each(before, jobs as u64);
    let others = after.others(bench, before) * 100.0;
    let rate = jobs as f64 / took.as_secs_f64();
    println!(
        "round {:>2}  claim {} by {batch:<22} {rate:>8.0} jobs/s   CPU µs each: server \
         {server_us:>5.1}, database {database_us:>5.1}, generator {generator_us:>5.1}; others took \
         {others:.0} %",
        round + 1,
        gateway.kind,
    );
    Ok(Drained { rate, server_us, database_us })
}

/// Lets workers lease and finish until the `jobs` that there are are done, and answers how long that took.
pub async fn drain(gateway: &Gateway, batch: usize, jobs: usize) -> anyhow::Result<Duration> {
    let (finished, took) = work_off(workers(gateway, batch).await?, jobs).await?;
    anyhow::ensure!(finished == jobs, "{finished} jobs were finished in place of {jobs}");
    Ok(took)
}

/// Workers of all tenants' jobs.
pub async fn workers(gateway: &Gateway, batch: usize) -> anyhow::Result<Vec<Worker>> {
    let mut workers = Vec::new();
    for name in 0..WORKERS {
        workers.push(Worker::new(gateway.api().await?, name, batch, 1));
    }
    Ok(workers)
}

/// Lets workers lease and finish until at least `jobs` are done; answers how many were, and how long that
/// took.
pub async fn work_off(workers: Vec<Worker>, jobs: usize) -> anyhow::Result<(usize, Duration)> {
    let done = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for worker in workers {
        tasks.spawn(until_done(worker, done.clone(), jobs));
    }
    let mut last = began;
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            if let Some(at) = ended?? {
                last = last.max(at);
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, all).await.context("the jobs were not done in time")??;
    Ok((done.load(Ordering::Relaxed), last.duration_since(began)))
}

/// Answers when this worker finished its last job.
async fn until_done(
    mut worker: Worker,
    done: Arc<AtomicUsize>,
    jobs: usize,
) -> anyhow::Result<Option<Instant>> {
    let mut last = None;
    while done.load(Ordering::Relaxed) < jobs {
        let count = worker.turn(|_| {}).await?;
        if count > 0 {
            done.fetch_add(count, Ordering::Relaxed);
            last = Some(Instant::now());
        }
    }
    Ok(last)
}
