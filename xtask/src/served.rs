//! A gateway of one's own: the debug build on a free port, with a directory that goes with it.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use xtask::interrupt::{self, Interrupted};
use xtask::process::{self, POLL_INTERVAL, cargo};
use xtask::workspace;

/// The first admin key.
pub const KEY: &str = "the-admin-key-of-a-gateway-that-is-checked";

/// How long it may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// What it prints when it is ready.
const READY: &str = "listening on ";

/// A running gateway.
pub struct Served {
    process: Child,
    directory: TempDir,
    /// Where it listens.
    pub url: String,
}

impl Served {
    /// Builds and starts one, on SQLite unless a PostgreSQL database is named. Only this machine is ever called.
    pub fn start(database: Option<&str>) -> anyhow::Result<Served> {
        process::run(cargo().args(["build", "-p", "wakepost-server", "--bin", "wakepost"]))?;
        let directory = tempfile::tempdir().context("making a directory")?;
        let program = workspace::bin_dir("debug")?.join("wakepost");
        let line = process::ending_with_us(&program, "KILL");
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).args(["serve", "--listen", "127.0.0.1:0"]);
        command
            .current_dir(directory.path())
            .env("WAKEPOST_DATA_DIR", directory.path().join("data"))
            .env("WAKEPOST_ADMIN_KEY", KEY)
            .env("WAKEPOST_ALLOW_HTTP", "true")
            // Callers say where they are: an address that sends many wrong keys is told to wait.
            .env("WAKEPOST_TRUSTED_PROXIES", "127.0.0.1")
            .env("WAKEPOST_ALLOW_PRIVATE", "127.0.0.0/8")
            .env_remove("DATABASE_URL");
        if let Some(url) = database {
            command.env("DATABASE_URL", url);
        }
        let log = File::create(directory.path().join("log")).context("making the log")?;
        command.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log).process_group(0);
        let process = command.spawn().context("starting the gateway")?;
        let mut served = Served { process, directory, url: String::new() };
        served.url = served.becomes_ready()?;
        Ok(served)
    }

    /// What it printed and logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// That it still lives, after all that was done to it.
    pub fn lives(&mut self) -> anyhow::Result<()> {
        match self.process.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the gateway ended ({status}):\n{}", self.log()),
        }
    }

    fn becomes_ready(&mut self) -> anyhow::Result<String> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let log = self.log();
            let ready = log.lines().find_map(|line| line.strip_prefix(READY));
            if let Some(url) = ready {
                return Ok(url.trim().to_owned());
            }
            self.lives()?;
            if interrupt::take() {
                bail!(Interrupted);
            }
            if Instant::now() >= deadline {
                bail!("the gateway was not ready after {START_TIMEOUT:?}:\n{log}");
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::KILL);
        let _ = self.process.wait();
    }
}
