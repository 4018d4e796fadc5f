//! The server process: started on a free port, waited for, ended.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::account::Account;
use super::programs::Programs;
use crate::interrupt::{self, Interrupted};
use crate::process::{POLL_INTERVAL, ending_with_us};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// The line of `postmaster.pid` on which the server writes its state, as `pg_ctl` reads it.
const STATE_LINE: usize = 7;

/// What the server says when it cannot start because of processes that will be gone sooner or later.
const IN_THE_WAY: [&str; 3] =
    ["Address already in use", "is still in use", "lock file \"postmaster.pid\" already exists"];

/// A server process that ends when dropped.
#[derive(Debug)]
pub struct Server {
    process: Child,
    directory: PathBuf,
    port: u16,
}

impl Server {
    /// Starts the server on a port and waits until it takes connections; `None` when the port was taken, or
    /// processes of a server that was killed still hold its memory.
    pub fn start(
        programs: &Programs,
        account: &Account,
        directory: &Path,
        settings: &[&str],
        port: u16,
    ) -> anyhow::Result<Option<Self>> {
        let log = File::create(directory.join("log")).context("creating the server's log")?;
        let program = ending_with_us(&programs.postgres(), "QUIT");
        let process = account
            .command(&program[0])
            .args(&program[1..])
            .current_dir(directory)
            .args(["-D", "data", "-p", &port.to_string(), "-k"])
            .arg(directory)
            .args(["-c", "listen_addresses=127.0.0.1"])
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C at the terminal is for us; the server ends after those who use it.
            .process_group(0)
            .spawn()
            .context("starting PostgreSQL")?;
        let mut server = Self { process, directory: directory.to_owned(), port };
        Ok(server.becomes_ready()?.then_some(server))
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends the server's first process by a signal, and sees it gone.
    pub fn end(&mut self, signal: Signal) -> anyhow::Result<()> {
        if self.process.try_wait()?.is_none() {
            kill_process(Pid::from_child(&self.process), signal).context("ending PostgreSQL")?;
            self.process.wait()?;
        }
        Ok(())
    }

    /// Sends the server's first process a signal, and does not wait.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.process), signal).context("telling PostgreSQL")
    }

    /// Returns at Ctrl-C; that the server ends by itself before then is an error.
    pub fn wait_for_interrupt(&mut self) -> anyhow::Result<()> {
        while !interrupt::take() {
            if let Some(status) = self.process.try_wait()? {
                bail!("PostgreSQL ended by itself ({status}):\n{}", self.log());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Whether it came up; `false` when another process has its port or its memory.
    fn becomes_ready(&mut self) -> anyhow::Result<bool> {
        let deadline = Instant::now() + START_TIMEOUT;
        while !self.is_ready() {
            if let Some(status) = self.process.try_wait()? {
                let log = self.log();
                if IN_THE_WAY.iter().any(|words| log.contains(words)) {
                    return Ok(false);
                }
                bail!("PostgreSQL did not start ({status}):\n{log}");
            }
            if interrupt::take() {
                bail!(Interrupted);
            }
            if Instant::now() >= deadline {
                bail!("PostgreSQL was not ready after {START_TIMEOUT:?}:\n{}", self.log());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(true)
    }

    /// Asked of the server's own file, since on the port another server could answer. A server that was
    /// killed leaves its file behind, which is why the number in it counts.
    fn is_ready(&self) -> bool {
        let state = fs::read_to_string(self.directory.join("data/postmaster.pid"));
        let state = state.unwrap_or_default();
        let own = state.lines().next() == Some(self.process.id().to_string().as_str());
        own && state.lines().nth(STATE_LINE).is_some_and(|line| line.trim() == "ready")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Server {
    /// Ends the server at once, without saving anything: its data goes with it.
    fn drop(&mut self) {
        let deadline = Instant::now() + STOP_TIMEOUT;
        // std knows whether the process was waited for, so a reused pid is never hit.
        while let Ok(None) = self.process.try_wait() {
            if Instant::now() >= deadline {
                let _ = self.process.kill();
                let _ = self.process.wait();
                return;
            }
            let _ = kill_process(Pid::from_child(&self.process), Signal::QUIT);
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// A port that nobody listens on now.
pub fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("finding a free port")?;
    Ok(listener.local_addr()?.port())
}
