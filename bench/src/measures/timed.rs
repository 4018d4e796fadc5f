//! Things posted one by one on a timetable, each with a number, and how long each took to be received.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::api::Api;
use crate::stats::percentile;
use crate::world::gateway::Gateway;

/// They are posted over a few connections so that a slow answer does not hold up the next.
const POSTERS: usize = 8;
/// Connections are opened before the first is due.
const HEAD_START: Duration = Duration::from_millis(100);

/// A receiver's word that it has a number, and when.
pub type Heard = mpsc::UnboundedSender<(usize, Instant)>;
/// What receivers said.
pub type Receipts = mpsc::UnboundedReceiver<(usize, Instant)>;
/// Tasks of one round; they end with it.
pub type Tasks = JoinSet<anyhow::Result<()>>;

/// What to post.
pub struct Request {
    /// Where.
    pub path: String,
    /// Its body.
    pub body: String,
}

/// What is posted when.
pub struct Timetable {
    /// How many a second.
    pub per_second: u32,
    /// How many in all.
    pub count: usize,
    /// The first ones do not count: connections, caches and plans warm up.
    pub uncounted: usize,
    /// What is posted for a number.
    pub request: Arc<dyn Fn(usize) -> Request + Send + Sync>,
}

/// When each was posted, in nanoseconds since the beginning.
type Posted = Arc<Vec<AtomicU64>>;

/// Posts everything, and answers the microseconds from just before each was posted to its receipt.
pub async fn micros(
    gateway: &Gateway,
    timetable: Timetable,
    mut receipts: Receipts,
    tasks: &mut Tasks,
) -> anyhow::Result<Vec<(usize, u32)>> {
    let timetable = Arc::new(timetable);
    let posted: Posted = Arc::new((0..timetable.count).map(|_| AtomicU64::new(0)).collect());
    let begin = Instant::now() + HEAD_START;
    for poster in 0..POSTERS {
        let api = gateway.api().await?;
        tasks.spawn(post(api, poster, begin, posted.clone(), timetable.clone()));
    }
    let mut micros = Vec::with_capacity(timetable.count);
    for _ in 0..timetable.count {
        let (number, at): (usize, Instant) = tokio::select! {
            receipt = receipts.recv() => receipt.context("nobody is left to receive")?,
            error = failed(tasks) => return Err(error),
        };
        let posted = posted.get(number).context("something from elsewhere was received")?;
        let posted = begin + Duration::from_nanos(posted.load(Ordering::Relaxed));
        if number >= timetable.uncounted {
            let took = at.saturating_duration_since(posted).as_micros();
            micros.push((number, u32::try_from(took).unwrap_or(u32::MAX)));
        }
    }
    Ok(micros)
}

/// The microseconds alone, sorted.
pub fn sorted(seen: Vec<(usize, u32)>) -> Vec<u32> {
    let mut micros: Vec<u32> = seen.into_iter().map(|(_, micros)| micros).collect();
    micros.sort_unstable();
    micros
}

/// What one round saw on one arm.
pub struct Round {
    /// From post to receipt, sorted.
    pub micros: Vec<u32>,
    /// The share of the machine that others took.
    pub others: f64,
}

impl Round {
    /// Prints it; answers the p50 and the p99 in milliseconds.
    pub fn told(&self, round: u32, what: &str) -> (f64, f64) {
        let millis = |share| f64::from(percentile(&self.micros, share)) / 1000.0;
        println!(
            "round {:>2}  {what} p50 {:>6.2} ms  p99 {:>6.2} ms  max {:>6.2} ms; others took {:.0} %",
            round + 1,
            millis(0.5),
            millis(0.99),
            millis(1.0),
            self.others * 100.0
        );
        (millis(0.5), millis(0.99))
    }
}

/// Resolves when a task fails; those that end well are left behind.
pub async fn failed(tasks: &mut Tasks) -> anyhow::Error {
    loop {
        match tasks.join_next().await {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => return error,
            Some(Err(error)) => return error.into(),
            None => std::future::pending::<()>().await,
        }
    }
}

async fn post(
    mut api: Api,
    poster: usize,
    begin: Instant,
    posted: Posted,
    timetable: Arc<Timetable>,
) -> anyhow::Result<()> {
    for number in (poster..timetable.count).step_by(POSTERS) {
        let due = begin + Duration::from_secs(1) / timetable.per_second * u32::try_from(number)?;
        tokio::time::sleep_until(due.into()).await;
        let Request { path, body } = (timetable.request)(number);
        let nanos = begin.elapsed().as_nanos();
        posted[number].store(u64::try_from(nanos)?, Ordering::Relaxed);
        api.post(&path, body).await?;
    }
    Ok(())
}
