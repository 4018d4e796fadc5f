//! Other queues on the same database server, each driven by a small program for Node.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::process::Command;
use tokio::time::timeout;

use crate::bench::Bench;

/// The drivers, and what they need. They are installed beside this program, never into the source tree.
const FILES: [(&str, &str); 5] = [
    ("package.json", include_str!("../../peers/package.json")),
    (LOCK, include_str!("../../peers/package-lock.json")),
    ("drain.mjs", include_str!("../../peers/drain.mjs")),
    ("graphile-worker.mjs", include_str!("../../peers/graphile-worker.mjs")),
    ("pg-boss.mjs", include_str!("../../peers/pg-boss.mjs")),
];
const LOCK: &str = "package-lock.json";
const DIRECTORY: &str = "bench-peers";
/// Holds the lock file of what was installed.
const INSTALLED: &str = "installed.json";
const INSTALL_TIMEOUT: Duration = Duration::from_secs(300);
const RUN_TIMEOUT: Duration = Duration::from_secs(180);

/// Which queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    GraphileWorker,
    PgBoss,
}

impl Queue {
    /// All of them.
    pub const ALL: [Queue; 2] = [Queue::GraphileWorker, Queue::PgBoss];

    /// With how many worker processes it is fastest on two cores that the database shares.
    fn processes(self) -> usize {
        match self {
            Queue::GraphileWorker => 2,
            Queue::PgBoss => 1,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Queue::GraphileWorker => "graphile-worker",
            Queue::PgBoss => "pg-boss",
        }
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A queue with a database of its own.
pub struct Peer {
    /// Which.
    pub queue: Queue,
    directory: PathBuf,
    url: String,
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
    /// Installs the drivers if need be, and makes a database for each of these queues. None, and a word on
    /// why, where they cannot be run.
    pub async fn all(bench: &Bench, queues: &[Queue]) -> anyhow::Result<Vec<Peer>> {
        let Some(postgres) = &bench.postgres else {
            println!("without PostgreSQL there are no other queues to compare with");
            return Ok(Vec::new());
        };
        let directory = match install().await {
            Ok(directory) => directory,
            Err(error) => {
                println!("the figures against other queues are left out: {error:#}");
                return Ok(Vec::new());
            }
        };
        let mut peers = Vec::new();
        for queue in queues {
            let (_, url) = postgres.create().await?;
            peers.push(Peer { queue: *queue, directory: directory.clone(), url });
        }
        Ok(peers)
    }

    /// Enqueues no-op jobs, then drains them; answers jobs a second of the drain.
    pub async fn drain(&self, jobs: usize) -> anyhow::Result<f64> {
        let numbers = [jobs, self.queue.processes()];
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
        let mut command = Command::new("node");
        command
            .current_dir(&self.directory)
            .arg(format!("{queue}.mjs"))
            .args([verb, &self.url])
            .args(numbers.iter().map(usize::to_string))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true);
        let output = timeout(RUN_TIMEOUT, command.output())
            .await
            .with_context(|| format!("{queue} did not end in time"))??;
        anyhow::ensure!(output.status.success(), "{queue} failed ({})", output.status);
        serde_json::from_slice(&output.stdout).with_context(|| format!("what {queue} printed"))
    }
}

/// Answers where the drivers are.
async fn install() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let directory = program.parent().context("this program has no directory")?.join(DIRECTORY);
    fs::create_dir_all(&directory)?;
    for (name, text) in FILES {
        fs::write(directory.join(name), text)?;
    }
    let installed = fs::read_to_string(directory.join(INSTALLED)).unwrap_or_default();
    if FILES.iter().any(|(name, text)| *name == LOCK && *text == installed) {
        return Ok(directory);
    }
    println!("installing the drivers of other queues by npm");
    npm(&directory).await?;
    fs::copy(directory.join(LOCK), directory.join(INSTALLED))?;
    Ok(directory)
}

async fn npm(directory: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("npm");
    command
        .current_dir(directory)
        .args(["ci", "--no-audit", "--no-fund", "--loglevel=error"])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let ended = timeout(INSTALL_TIMEOUT, command.status()).await.context("npm did not end")?;
    let status = ended.context("npm could not be started")?;
    if !status.success() {
        bail!("npm could not install them ({status})");
    }
    Ok(())
}
