//! A child process that serves on 127.0.0.1.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

const START_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// What a server prints when it can be reached.
const READY: &str = "listening on http://";

/// A running server. Dropping it kills it.
pub struct Child {
    process: tokio::process::Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its number.
    pub pid: u32,
}

impl Child {
    /// Starts a server and waits until it says where it listens.
    pub async fn start(command: &mut Command) -> anyhow::Result<Child> {
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {:?}", command.as_std().get_program()))?;
        let pid = process.id().context("the server ended at once")?;
        let output = process.stdout.take().context("the server has no output")?;
        let mut lines = BufReader::new(output).lines();
        let address = timeout(START_TIMEOUT, async {
            while let Some(line) = lines.next_line().await? {
                if let Some(address) = line.strip_prefix(READY) {
                    return Ok(address.trim().parse::<SocketAddr>()?);
                }
            }
            bail!("the server ended before it listened");
        });
        let address = address.await.context("the server did not start in time")??;
        // What it prints from now on is read and thrown away, lest it wait for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Child { process, address, pid })
    }

    /// Asks it to stop, and waits until it has.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        kill_process(pid.context("the server has no number")?, Signal::TERM)?;
        let status = timeout(STOP_TIMEOUT, self.process.wait())
            .await
            .context("the server did not stop in time")??;
        if !status.success() {
            bail!("the server ended badly ({status})");
        }
        Ok(())
    }
}
