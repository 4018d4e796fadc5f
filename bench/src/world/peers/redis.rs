//! A Redis server of our own, for the queue that lives in one: on a free port, its data among that of the bench.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use xtask::packages::{self, Need};

const PROGRAM: &str = "redis-server";
const NEED: Need = Need {
    what: "Redis",
    debian: &["redis-server"],
    by_hand: "The program `redis-server` must be in PATH.",
};
const START_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
/// A port is free only until someone else takes it.
const PORTS_TRIED_MAX: usize = 5;

/// When what was written is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Before it is answered, as on the databases beside it.
    Always,
    /// Within a second: what BullMQ's "Going to production" calls enough for most.
    EverySecond,
}

impl Fsync {
    fn setting(self) -> &'static str {
        match self {
            Fsync::Always => "always",
            Fsync::EverySecond => "everysec",
        }
    }
}

/// A running server. Dropping it kills it.
pub struct Redis {
    process: tokio::process::Child,
    port: u16,
    /// Its number.
    pub pid: u32,
}

impl Redis {
    /// Starts a server with its data in a directory of its own under `parent`, installing Redis first when it is
    /// missing.
    pub async fn start(parent: &Path, fsync: Fsync) -> anyhow::Result<Redis> {
        if !is_there() {
            packages::install(&NEED)?;
            anyhow::ensure!(is_there(), "{} is still missing. {}", NEED.what, NEED.by_hand);
        }
        for _ in 0..PORTS_TRIED_MAX {
            let directory = tempfile::Builder::new().prefix("redis-").tempdir_in(parent)?;
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            // Removed with its parent, after the server that uses it has gone.
            let mut redis = Redis::spawn(&directory.keep(), port, fsync)?;
            if redis.answers().await? {
                return Ok(redis);
            }
        }
        bail!("Redis found its port taken {PORTS_TRIED_MAX} times in a row")
    }

    /// Where it is reached.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn spawn(directory: &Path, port: u16, fsync: Fsync) -> anyhow::Result<Redis> {
        let process = tokio::process::Command::new(PROGRAM)
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--appendonly", "yes", "--appendfsync", fsync.setting()])
            // BullMQ's "Going to production": its keys must never be evicted. A snapshot beside the log would only
            // cost it.
            .args(["--maxmemory-policy", "noeviction", "--save", ""])
            .args(["--logfile", "log", "--dir"])
            .arg(directory)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("starting Redis")?;
        let pid = process.id().context("Redis ended at once")?;
        Ok(Redis { process, port, pid })
    }

    /// Waits until it answers; not true if it ended before that.
    async fn answers(&mut self) -> anyhow::Result<bool> {
        let until = Instant::now() + START_TIMEOUT;
        while Instant::now() < until {
            if self.process.try_wait()?.is_some() {
                return Ok(false);
            }
            if pong(self.port).await.unwrap_or(false) {
                return Ok(true);
            }
            sleep(LOOK).await;
        }
        bail!("Redis did not answer within {START_TIMEOUT:?}")
    }
}

async fn pong(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_all(b"PING\r\n").await?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await?;
    Ok(&answer == b"+PONG")
}

fn is_there() -> bool {
    let version = Command::new(PROGRAM).arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}
