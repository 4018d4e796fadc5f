//! A soak: hours at a third of what the gateway can do, and whether memory, file handles and latency stay as they were.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;

use super::ACCEPTED;
use super::deliver::subscribe;
use super::timed::failed;
use super::window::load;
use super::worker::Worker;
use crate::api::Api;
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::load::closed::closed;
use crate::load::paced::paced;
use crate::load::publications::Publications;
use crate::load::{Load, Seen};
use crate::stats::Spread;
use crate::world::gateway::{Gateway, Kind};
use crate::world::receiver::Receiver;

const CONNECTIONS: usize = 32;
const WORKERS: usize = 4;
const BATCH: usize = 100;
/// How long a worker waits for the first job.
const WAIT_S: u64 = 1;
/// How long it is looked what the gateway can do.
const FLAT_OUT: Duration = Duration::from_secs(20);
/// Of that, so much.
const SHARE: f64 = 1.0 / 3.0;
/// One published event for so many received ones.
const RECEIVED_PER_PUBLISHED: f64 = 20.0;
const PUBLISHED: &str = "bench.soak";
const MEGABYTE: f64 = 1e6;
/// How long what is under way in the end may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// The senders' connections of the minute are closed by then.
const CLOSING: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(50);
/// Of all minutes the first are for pools, caches and partitions to fill: they are in no figure.
const UNCOUNTED: f64 = 0.2;

/// What one minute saw.
#[derive(Debug, Clone, Copy)]
struct Minute {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    memory_mb: f64,
    handles: f64,
}

/// What those who work beside the senders share.
#[derive(Debug, Default)]
struct Beside {
    finished: AtomicU64,
    published: AtomicU64,
    over: AtomicBool,
}

/// The figures.
pub async fn figures(bench: &Bench, minutes: u32) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for kind in bench.databases() {
        figures.extend(one(bench, kind, minutes).await?);
    }
    Ok(figures)
}

async fn one(bench: &Bench, kind: Kind, minutes: u32) -> anyhow::Result<Vec<Figure>> {
    let receiver = Receiver::start().await?;
    let gateway = Gateway::start(bench, kind).await?;
    subscribe(&gateway, &receiver, PUBLISHED, 1).await?;
    let beside = Arc::new(Beside::default());
    let mut tasks = JoinSet::new();
    for name in 0..WORKERS {
        let worker = Worker::new(gateway.api().await?, name, BATCH, WAIT_S);
        tasks.spawn(work(worker, beside.clone()));
    }
    let able = able(bench, &gateway, &beside).await?;
    let rate = able * SHARE;
    println!("{kind}: {able:.0} events/s with their jobs flat out; {minutes} minutes at {rate:.0}");
    let before = receiver.tally().await?.count().await?;
    let pause = Duration::from_secs_f64(RECEIVED_PER_PUBLISHED / rate);
    tasks.spawn(publish(gateway.api().await?, gateway.numbers.clone(), pause, beside.clone()));
    let mut seen = Vec::new();
    for number in 1..=minutes {
        let load = Load { window: minute(bench), ..next(bench, &gateway)? };
        let sent = tokio::select! {
            sent = paced(load, rate) => sent?,
            error = failed(&mut tasks) => return Err(error),
        };
        tokio::time::sleep(CLOSING).await;
        let now = Minute::of(&gateway, &sent)?;
        println!("{kind}: minute {number:>3}  {now}");
        seen.push(now);
    }
    beside.over.store(true, Ordering::Relaxed);
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    // The receiver closes connections that nobody uses, so this is a new one.
    let mut tally = receiver.tally().await?;
    let published = before + beside.published.load(Ordering::Relaxed);
    let until = Instant::now() + PATIENCE;
    while tally.count().await? < published {
        anyhow::ensure!(Instant::now() < until, "not all that was published came");
        tokio::time::sleep(LOOK).await;
    }
    anyhow::ensure!(tally.count().await? == published, "more came than was published");
    Ok(told(kind, &seen))
}

/// How long a minute is: a short run has short ones.
fn minute(bench: &Bench) -> Duration {
    if bench.options.short { Duration::from_secs(2) } else { Duration::from_secs(60) }
}

fn next(bench: &Bench, gateway: &Gateway) -> anyhow::Result<Load> {
    let load = load(bench, gateway.events()?, ACCEPTED, CONNECTIONS);
    Ok(Load { warm_up: Duration::ZERO, ..load })
}

/// How many events a second are taken in and their jobs done, while senders send all they can. Then all are done.
async fn able(bench: &Bench, gateway: &Gateway, beside: &Beside) -> anyhow::Result<f64> {
    let window = if bench.options.short { FLAT_OUT / 10 } else { FLAT_OUT };
    let sent = closed(Load { window, ..next(bench, gateway)? }).await?;
    let finished = beside.finished.load(Ordering::Relaxed);
    let able = finished as f64 / window.as_secs_f64();
    let until = Instant::now() + PATIENCE;
    while beside.finished.load(Ordering::Relaxed) < sent.exchanges {
        anyhow::ensure!(Instant::now() < until, "the jobs of the first load are not done");
        tokio::time::sleep(LOOK).await;
    }
    Ok(able)
}

/// Leases and finishes jobs until it is over and none are left.
async fn work(mut worker: Worker, beside: Arc<Beside>) -> anyhow::Result<()> {
    loop {
        let count = worker.turn(|_| ()).await?;
        beside.finished.fetch_add(count as u64, Ordering::Relaxed);
        if count == 0 && beside.over.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

async fn publish(
    mut api: Api,
    numbers: Arc<AtomicU64>,
    pause: Duration,
    beside: Arc<Beside>,
) -> anyhow::Result<()> {
    let mut events = Publications::new(PUBLISHED, 1, numbers);
    let mut due = tokio::time::interval(pause);
    while !beside.over.load(Ordering::Relaxed) {
        due.tick().await;
        api.post("/events", events.next()).await?;
        beside.published.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

impl Minute {
    fn of(gateway: &Gateway, sent: &Seen) -> anyhow::Result<Minute> {
        let handles = fs::read_dir(format!("/proc/{}/fd", gateway.child.pid));
        Ok(Minute {
            rate: sent.rate(),
            p50_ms: sent.millis(0.5),
            p99_ms: sent.millis(0.99),
            memory_mb: gateway.resident_bytes() as f64 / MEGABYTE,
            handles: handles.context("the server is gone")?.count() as f64,
        })
    }
}

impl std::fmt::Display for Minute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:>6.0}/s  p50 {:>5.2} ms  p99 {:>6.2} ms  {:>4.0} MB  {:>3.0} file handles",
            self.rate, self.p50_ms, self.p99_ms, self.memory_mb, self.handles
        )
    }
}

/// How the last third compares with the first, once all has filled. Medians, since others use the machine too.
fn told(kind: Kind, seen: &[Minute]) -> Vec<Figure> {
    let counted = &seen[(seen.len() as f64 * UNCOUNTED) as usize..];
    let third = counted.len().div_ceil(3);
    let ratio = |name: &str, of: fn(&Minute) -> f64, most: f64| {
        let first = Spread::of(counted[..third].iter().map(of)).median;
        let last = Spread::of(counted[counted.len() - third..].iter().map(of)).median;
        let name = format!("soak of {} minutes: {name}, last third / first", seen.len());
        Figure::new(name, kind, Unit::Ratio, vec![last / first.max(f64::MIN_POSITIVE)])
            .bound_to(Target::AtMost(most))
    };
    let plain = |name: &str, of: fn(&Minute) -> f64, unit| {
        Figure::new(format!("soak: {name}"), kind, unit, counted.iter().map(of).collect())
    };
    vec![
        ratio("memory", |minute| minute.memory_mb, 1.1),
        ratio("file handles", |minute| minute.handles, 1.1),
        ratio("p50", |minute| minute.p50_ms, 1.25),
        ratio("p99", |minute| minute.p99_ms, 1.5),
        plain("events", |minute| minute.rate, Unit::PerSecond),
        plain("memory", |minute| minute.memory_mb, Unit::Megabytes),
        plain("file handles", |minute| minute.handles, Unit::Count),
        plain("p50", |minute| minute.p50_ms, Unit::Millis),
        plain("p99", |minute| minute.p99_ms, Unit::Millis),
    ]
}
