//! One server process: started, killed, started again on the same data.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;
use xtask::process::ending_with_us;

/// How long a start may take, recovery included.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(3);
/// What it keeps of our environment: nothing that could be a setting.
const INHERITED: [&str; 3] = ["PATH", "HOME", "TMPDIR"];
/// How much of its log is shown when it does not start.
const LOG_SHOWN: usize = 3000;

/// A place for a server process. What it prints and logs lies beside its data directory, not in it: a disk
/// that is cut must not lose it.
pub struct Node {
    program: Vec<OsString>,
    settings: Vec<(String, String)>,
    directory: PathBuf,
    name: String,
    process: Option<Child>,
}

impl Node {
    /// A node that is not started yet.
    pub fn new(
        program: &Path,
        settings: Vec<(String, String)>,
        directory: &Path,
        name: &str,
    ) -> Node {
        let (program, directory) = (ending_with_us(program, "KILL"), directory.to_owned());
        Node { program, settings, directory, name: name.to_owned(), process: None }
    }

    /// Starts the process, without waiting for it.
    pub fn launch(&mut self) -> anyhow::Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(self.log_path())?;
        let mut command = Command::new(&self.program[0]);
        command
            .args(&self.program[1..])
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env_clear()
            .envs(INHERITED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))))
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(File::create(self.printed_path())?)
            .stderr(log);
        let process = command.spawn();
        self.process = Some(process.with_context(|| format!("starting {:?}", self.program))?);
        Ok(())
    }

    /// Waits until it listens, and says where.
    pub async fn listening(&mut self) -> anyhow::Result<String> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let printed = std::fs::read_to_string(self.printed_path()).unwrap_or_default();
            let whole_lines = printed.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            if let Some(url) =
                whole_lines.filter_map(|line| line.strip_prefix("listening on ")).next()
            {
                return Ok(url.trim().to_owned());
            }
            if !self.is_alive()? {
                bail!("{} did not start:\n{}", self.name, self.log_end());
            }
            if Instant::now() >= deadline {
                bail!("{} did not listen within {START_TIMEOUT:?}:\n{}", self.name, self.log_end());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether the process runs.
    pub fn is_alive(&mut self) -> anyhow::Result<bool> {
        match &mut self.process {
            Some(process) => Ok(process.try_wait()?.is_none()),
            None => Ok(false),
        }
    }

    /// Stops the process where it stands.
    pub fn pause(&self) -> anyhow::Result<()> {
        if let Some(process) = &self.process {
            kill_process(Pid::from_child(process), Signal::STOP).context("stopping a server")?;
        }
        Ok(())
    }

    /// Ends the process as the kernel would, and sees it gone.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// The end of what it logged.
    pub fn log_end(&self) -> String {
        let log = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        log[log.ceil_char_boundary(log.len().saturating_sub(LOG_SHOWN))..].to_owned()
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join(format!("{}.log", self.name))
    }

    fn printed_path(&self) -> PathBuf {
        self.directory.join(format!("{}.out", self.name))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}
