//! Enqueue to start: from just before a job is posted to its worker's receipt of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::rounds::{by_arm, order, rounds};
use super::window::Spent;
use super::worker::Worker;
use crate::api::Api;
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::stats::percentile;
use crate::world::gateway::Gateway;

const JOBS_PER_SECOND: u32 = 200;
/// Jobs are posted one by one, over a few connections so that a slow answer does not hold up the next.
const POSTERS: usize = 8;
/// Workers wait in a long poll; with a few, one is always waiting.
const WORKERS: usize = 4;
/// Not measured: connections, caches and plans warm up.
const UNCOUNTED: usize = 50;
const PATIENCE: Duration = Duration::from_secs(90);

/// The figures of the spec.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let gateways = bench.gateways().await?;
    let seen = rounds(bench, async |round| {
        let mut seen = BTreeMap::new();
        for index in order(round, gateways.len()) {
            seen.insert(index, one(bench, &gateways[index], round).await?);
        }
        Ok(seen.into_values().collect())
    });
    let seen: Vec<Vec<(f64, f64)>> = by_arm(seen.await?);
    let mut figures = Vec::new();
    for (gateway, seen) in gateways.iter().zip(seen) {
        let (p50, p99) = seen.into_iter().unzip();
        let figure = |name: &str, rounds| {
            let name = format!("enqueue to start at {JOBS_PER_SECOND} jobs/s, {name}");
            Figure::new(name, gateway.kind, Unit::Millis, rounds)
        };
        figures.push(figure("p50", p50).held_to(Target::Below(3.0), Target::Below(1.5)));
        figures.push(figure("p99", p99).held_to(Target::Below(15.0), Target::Below(6.0)));
    }
    Ok(figures)
}

/// The p50 and the p99 of one round, in milliseconds.
async fn one(bench: &Bench, gateway: &Gateway, round: u32) -> anyhow::Result<(f64, f64)> {
    let before = Spent::so_far(bench, gateway);
    let micros = tokio::time::timeout(PATIENCE, micros(bench, gateway))
        .await
        .context("the jobs did not all start in time")??;
    let others = Spent::so_far(bench, gateway).others(bench, before) * 100.0;
    let millis = |share| f64::from(percentile(&micros, share)) / 1000.0;
    println!(
        "round {:>2}  enqueue to start on {:<14} p50 {:>6.2} ms  p99 {:>6.2} ms  max {:>6.2} ms; \
         others took {others:.0} %",
        round + 1,
        gateway.kind,
        millis(0.5),
        millis(0.99),
        millis(1.0)
    );
    Ok((millis(0.5), millis(0.99)))
}

/// When each job was posted, in nanoseconds since the beginning.
type Posted = Arc<Vec<AtomicU64>>;

/// The sorted microseconds of one round.
async fn micros(bench: &Bench, gateway: &Gateway) -> anyhow::Result<Vec<u32>> {
    let seconds = bench.options.window().as_secs_f64() * 2.0;
    let count = UNCOUNTED + (seconds * f64::from(JOBS_PER_SECOND)) as usize;
    let posted: Posted = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
    let (heard, mut receipts) = mpsc::unbounded_channel();
    // Aborted when dropped: the last long polls need not be waited for.
    let mut tasks = JoinSet::new();
    for name in 0..WORKERS {
        let worker = Worker::new(gateway.api().await?, name, 10, 20);
        tasks.spawn(work(worker, heard.clone()));
    }
    let begin = Instant::now() + Duration::from_millis(100);
    for poster in 0..POSTERS {
        let api = gateway.api().await?;
        tasks.spawn(post(api, poster, begin, posted.clone()));
    }
    let mut micros = Vec::with_capacity(count);
    for _ in 0..count {
        let (number, at): (usize, Instant) = tokio::select! {
            receipt = receipts.recv() => receipt.context("no worker is left")?,
            error = failed(&mut tasks) => return Err(error),
        };
        let posted = posted.get(number).context("a job from elsewhere")?;
        let posted = begin + Duration::from_nanos(posted.load(Ordering::Relaxed));
        if number >= UNCOUNTED {
            let took = at.saturating_duration_since(posted).as_micros();
            micros.push(u32::try_from(took).unwrap_or(u32::MAX));
        }
    }
    // The last jobs may still be on their way to being finished; the next round must not meet them.
    tokio::time::sleep(Duration::from_millis(100)).await;
    micros.sort_unstable();
    Ok(micros)
}

/// Resolves when a task fails; those that end well are left behind.
async fn failed(tasks: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Error {
    loop {
        match tasks.join_next().await {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => return error,
            Some(Err(error)) => return error.into(),
            None => std::future::pending::<()>().await,
        }
    }
}

async fn post(mut api: Api, poster: usize, begin: Instant, posted: Posted) -> anyhow::Result<()> {
    for number in (poster..posted.len()).step_by(POSTERS) {
        let due = begin + Duration::from_secs(1) / JOBS_PER_SECOND * u32::try_from(number)?;
        tokio::time::sleep_until(due.into()).await;
        let body = json!({"kind": "start", "input": {"number": number}}).to_string();
        let nanos = begin.elapsed().as_nanos();
        posted[number].store(u64::try_from(nanos)?, Ordering::Relaxed);
        api.post("/jobs", body).await?;
    }
    Ok(())
}

async fn work(
    mut worker: Worker,
    heard: mpsc::UnboundedSender<(usize, Instant)>,
) -> anyhow::Result<()> {
    loop {
        worker
            .turn(|number| {
                // The measure may be over already.
                let _ = heard.send((number, Instant::now()));
            })
            .await?;
    }
}
