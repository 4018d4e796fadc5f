//! How long a lone job waits behind others' backlog, in rounds of turns.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::timed::failed;
use super::worker::Worker;
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::world::gateway::Gateway;

/// How many lone jobs are tried.
pub const TRIALS: usize = 20;
const WORKERS: usize = 4;
const BATCH: usize = 100;
const PATIENCE: Duration = Duration::from_secs(60);

/// A job that was leased.
struct Leased {
    /// When its worker asked.
    asked: Instant,
    id: String,
    tenant: String,
}

/// The figure of the spec. A round is over when each tenant that has work had its turn, so the turns before the
/// lone job, divided by how many tenants had them, are how many rounds went by. What a tenant gets in one batch
/// is one turn; one that goes on in the next batch counts twice. Only batches asked for after the job was there
/// count: it could not be in others.
pub async fn figure(bench: &Bench, gateway: &Gateway) -> anyhow::Result<Figure> {
    let mut api = gateway.api().await?;
    api.post("/tenants", json!({"slug": "lone", "name": "Lone"}).to_string()).await?;
    let (tell, mut leased) = mpsc::unbounded_channel();
    // Aborted when dropped.
    let mut workers = JoinSet::new();
    for name in 0..WORKERS {
        let worker = Worker::new(gateway.api().await?, name, BATCH, 1);
        workers.spawn(work(worker, tell.clone()));
    }
    let trials = if bench.options.short { TRIALS / 4 } else { TRIALS };
    let mut rounds = Vec::new();
    for trial in 0..trials {
        // At another place in the round each time.
        tokio::time::sleep(Duration::from_millis(10 + 13 * trial as u64)).await;
        let body = json!({"kind": "lone", "input": {"number": trial}}).to_string();
        let answer = api.post("/jobs?tenant=lone", body).await?;
        let posted = Instant::now();
        let job: serde_json::Value = serde_json::from_slice(&answer)?;
        let id = job["id"].as_str().context("a job without an id")?;
        let (turns, tenants) = tokio::select! {
            before = before(&mut leased, id, posted) => before?,
            error = failed(&mut workers) => return Err(error),
            () = tokio::time::sleep(PATIENCE) => anyhow::bail!("a lone job was not leased in time"),
        };
        rounds.push(turns as f64 / tenants.max(1) as f64);
        println!(
            "lone job {:>2} on {}: {turns} turns of {tenants} tenants went before it",
            trial + 1,
            gateway.kind
        );
    }
    let most = rounds.iter().copied().fold(0.0, f64::max);
    let name = format!("fairness: rounds that a lone job waits, the most of {trials}");
    Ok(Figure::new(name, gateway.kind, Unit::Ratio, vec![most]).bound_to(Target::AtMost(2.0)))
}

/// How many turns, of how many tenants, went before this job.
async fn before(
    leased: &mut mpsc::UnboundedReceiver<Leased>,
    id: &str,
    posted: Instant,
) -> anyhow::Result<(usize, usize)> {
    let mut turns = 0;
    let mut tenants = HashSet::new();
    // Those that came in its own batch did not go before it.
    let mut batch = None;
    let mut in_batch = HashSet::new();
    loop {
        let job = leased.recv().await.context("no worker is left")?;
        if batch != Some(job.asked) {
            batch = Some(job.asked);
            turns += in_batch.len();
            tenants.extend(in_batch.drain());
        }
        if job.id == id {
            return Ok((turns, tenants.len()));
        }
        if job.asked >= posted {
            in_batch.insert(job.tenant);
        }
    }
}

async fn work(mut worker: Worker, tell: mpsc::UnboundedSender<Leased>) -> anyhow::Result<()> {
    loop {
        let asked = Instant::now();
        worker
            .turn(|job| {
                let (id, tenant) = (job.id.to_owned(), job.tenant.to_owned());
                // The measure may be over already.
                let _ = tell.send(Leased { asked, id, tenant });
            })
            .await?;
    }
}
