//! Other queues, each driven by a small program in its own language: on the same database server, or on a Redis whose
//! data lies on the same disk.

mod drivers;
mod redis;

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::bench::Bench;
use drivers::Language;
use redis::{Fsync, Redis};

const RUN_TIMEOUT: Duration = Duration::from_secs(180);

/// Which queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    GraphileWorker,
    PgBoss,
    /// On a Redis that syncs each write before it answers, which is what a commit is worth to the others.
    BullMq,
    /// On a Redis that syncs each second, as its documentation has it: a power cut takes what was answered since.
    BullMqEverySecond,
    Procrastinate,
}

impl Queue {
    /// All of them.
    pub const ALL: [Queue; 5] = [
        Queue::GraphileWorker,
        Queue::PgBoss,
        Queue::BullMq,
        Queue::BullMqEverySecond,
        Queue::Procrastinate,
    ];

    /// Whether ours is held against it: the spec names two.
    pub fn is_the_measure(self) -> bool {
        matches!(self, Queue::GraphileWorker | Queue::PgBoss)
    }

    /// With how many worker processes it is fastest on two cores that the database shares.
    fn processes(self) -> usize {
        match self {
            Queue::PgBoss => 1,
            _ => 2,
        }
    }

    /// How many of so many jobs it drains: a slow queue has fewer, so that a round stays one of seconds.
    fn share(self, jobs: usize) -> usize {
        match self {
            Queue::GraphileWorker | Queue::PgBoss => jobs,
            Queue::BullMq | Queue::BullMqEverySecond => jobs * 2 / 5,
            Queue::Procrastinate => jobs / 25,
        }
    }

    fn language(self) -> Language {
        match self {
            Queue::Procrastinate => Language::Python,
            _ => Language::Node,
        }
    }

    fn driver(self) -> &'static str {
        match self {
            Queue::GraphileWorker => "graphile-worker",
            Queue::PgBoss => "pg-boss",
            Queue::BullMq | Queue::BullMqEverySecond => "bullmq",
            Queue::Procrastinate => "procrastinate",
        }
    }

    fn fsync(self) -> Option<Fsync> {
        match self {
            Queue::BullMq => Some(Fsync::Always),
            Queue::BullMqEverySecond => Some(Fsync::EverySecond),
            _ => None,
        }
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Queue::BullMqEverySecond => f.pad("BullMQ, fsync each second"),
            Queue::BullMq => f.pad("BullMQ, fsync always"),
            other => f.pad(other.driver()),
        }
    }
}

/// A queue with a database of its own.
pub struct Peer {
    /// Which.
    pub queue: Queue,
    url: String,
    redis: Option<Redis>,
}

/// How long a drain took, but for its first jobs.
#[derive(Debug, Deserialize)]
struct Drained {
    jobs: u32,
    seconds: f64,
}

/// From enqueue to start, of each job.
#[derive(Debug, Deserialize)]
struct Started {
    millis: Vec<f64>,
}

impl Peer {
    /// Installs the drivers if need be, and makes a database for each of these queues. Those that cannot be run are
    /// left out, and the report says why.
    pub async fn all(bench: &Bench, queues: &[Queue]) -> Vec<Peer> {
        let mut peers = Vec::new();
        if bench.options.no_peers {
            bench.leave_out("other queues: --no-peers".to_owned());
            return peers;
        }
        for queue in queues {
            match Peer::ready(bench, *queue).await {
                Ok(peer) => peers.push(peer),
                Err(error) => bench.leave_out(format!("{queue}: {error:#}")),
            }
        }
        peers
    }

    async fn ready(bench: &Bench, queue: Queue) -> anyhow::Result<Peer> {
        queue.language().driver(queue.driver()).await?;
        if let Some(fsync) = queue.fsync() {
            let redis = Redis::start(bench.directory.path(), fsync).await?;
            return Ok(Peer { queue, url: redis.url(), redis: Some(redis) });
        }
        let postgres = bench.postgres.as_ref().context("there is no PostgreSQL")?;
        let (_, url) = postgres.create().await?;
        Ok(Peer { queue, url, redis: None })
    }

    /// Where its jobs are kept, if that is a server of its own.
    pub fn server(&self) -> Option<u32> {
        self.redis.as_ref().map(|redis| redis.pid)
    }

    /// Enqueues no-op jobs, then drains them; answers jobs a second of the drain.
    pub async fn drain(&self, jobs: usize) -> anyhow::Result<f64> {
        let numbers = [self.queue.share(jobs), self.queue.processes()];
        let drained: Drained = self.run("drain", &numbers).await?;
        Ok(f64::from(drained.jobs) / drained.seconds)
    }

    /// Enqueues no-op jobs one by one; answers the sorted microseconds until each started.
    pub async fn start(&self, jobs_per_second: u32, count: usize) -> anyhow::Result<Vec<u32>> {
        let numbers = [jobs_per_second as usize, count];
        let started: Started = self.run("start", &numbers).await?;
        let mut micros: Vec<u32> = started.millis.iter().map(|ms| (ms * 1000.0) as u32).collect();
        micros.sort_unstable();
        Ok(micros)
    }

    async fn run<T: DeserializeOwned>(&self, verb: &str, numbers: &[usize]) -> anyhow::Result<T> {
        let queue = self.queue;
        let mut command = queue.language().driver(queue.driver()).await?;
        command
            .args([verb, &self.url])
            .args(numbers.iter().map(usize::to_string))
            .stderr(Stdio::inherit());
        let output = timeout(RUN_TIMEOUT, command.output())
            .await
            .with_context(|| format!("{queue} did not end in time"))??;
        anyhow::ensure!(output.status.success(), "{queue} failed ({})", output.status);
        serde_json::from_slice(&output.stdout).with_context(|| format!("what {queue} printed"))
    }
}
