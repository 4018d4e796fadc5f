//! Publishers and a receiver that counts: events go in in batches, and deliveries come out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;

use super::timed::failed;
use crate::api::Api;
use crate::bench::Bench;
use crate::load::publications::Publications;
use crate::world::gateway::Gateway;
use crate::world::receiver::{Receiver, Tally};

/// Events in a batch, as the spec has it.
pub const BATCH: usize = 100;
/// A few, so that one is always publishing while another waits for its commit.
const PUBLISHERS: usize = 4;
/// Deliveries that may be under way before publishers wait: enough that nothing ever idles, and few enough that what is
/// published in a window is also delivered in it.
const UNDER_WAY_MAX: u64 = 4_000;
/// How often it is looked how many came.
const LOOK: Duration = Duration::from_millis(5);
/// How long what is under way in the end may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// Deliveries in a window.
#[derive(Debug, Clone, Copy)]
pub struct Came {
    /// How many came, and in what time.
    count: u64,
    time: Duration,
    /// How many came in all, before and after the window too.
    pub in_all: u64,
}

impl Came {
    /// Deliveries a second.
    pub fn rate(&self) -> f64 {
        self.count as f64 / self.time.as_secs_f64()
    }
}

/// Counts what comes within a window, while something else sends it.
pub async fn counted(bench: &Bench, tally: &mut Tally) -> anyhow::Result<Came> {
    let first = tally.count().await?;
    tokio::time::sleep(bench.options.warm_up()).await;
    let (open, before) = (Instant::now(), tally.count().await?);
    tokio::time::sleep(bench.options.window()).await;
    let (count, time) = (tally.count().await? - before, open.elapsed());
    Ok(Came { count, time, in_all: before + count - first })
}

/// Publishes as hard as the gateway delivers, to as many webhooks as get this type, and counts what comes. In the end
/// everything that was published has come.
pub async fn deliver(
    bench: &Bench,
    gateway: &Gateway,
    receiver: &Receiver,
    event_type: &str,
    fan_out: u64,
) -> anyhow::Result<Came> {
    let mut tally = receiver.tally().await?;
    let before = tally.count().await?;
    let progress = Arc::new(Progress::default());
    let mut tasks = JoinSet::new();
    for _ in 0..PUBLISHERS {
        let batches = Publications::new(event_type, BATCH, gateway.numbers.clone());
        tasks.spawn(publish(gateway.api().await?, batches, fan_out, progress.clone()));
    }
    let watch = watch(receiver.tally().await?, before, progress.clone());
    let mut watching = JoinSet::new();
    watching.spawn(watch);
    let mut came = tokio::select! {
        came = counted(bench, &mut tally) => came?,
        error = failed(&mut tasks) => return Err(error),
        error = failed(&mut watching) => return Err(error),
    };
    progress.over.store(true, Ordering::Relaxed);
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let expected = progress.published.load(Ordering::Relaxed);
    let rest = rest(&mut tally, before + expected);
    came.in_all = tokio::time::timeout(PATIENCE, rest)
        .await
        .with_context(|| format!("not all of {expected} deliveries came within {PATIENCE:?}"))??
        - before;
    anyhow::ensure!(
        came.in_all == expected,
        "{} deliveries came in place of {expected}",
        came.in_all
    );
    Ok(came)
}

/// What publishers and the look at the receiver share.
#[derive(Debug, Default)]
struct Progress {
    /// Deliveries that were asked for.
    published: AtomicU64,
    /// Those that came, as of the last look.
    received: AtomicU64,
    over: AtomicBool,
}

async fn publish(
    mut api: Api,
    mut batches: Publications,
    fan_out: u64,
    progress: Arc<Progress>,
) -> anyhow::Result<()> {
    while !progress.over.load(Ordering::Relaxed) {
        let received = progress.received.load(Ordering::Relaxed);
        if progress.published.load(Ordering::Relaxed).saturating_sub(received) >= UNDER_WAY_MAX {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        progress.published.fetch_add(BATCH as u64 * fan_out, Ordering::Relaxed);
        api.post("/events", batches.next()).await?;
    }
    Ok(())
}

async fn watch(mut tally: Tally, before: u64, progress: Arc<Progress>) -> anyhow::Result<()> {
    loop {
        progress.received.store(tally.count().await? - before, Ordering::Relaxed);
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until so many came.
async fn rest(tally: &mut Tally, expected: u64) -> anyhow::Result<u64> {
    loop {
        let count = tally.count().await?;
        if count >= expected {
            return Ok(count);
        }
        tokio::time::sleep(LOOK).await;
    }
}
