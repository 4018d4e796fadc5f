//! `cargo xtask addresses`: whether the address guard lets nothing hostile through.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use rustix::process::geteuid;
use xtask::packages::{self, Need};
use xtask::process::{self, cargo};
use xtask::workspace;

use crate::address_check::{self, Size};

/// What CI asks for at random, in a second or two.
const SHORT: Size = Size { addresses: 100_000, urls: 50_000 };
/// The proof takes a few seconds.
const PROOF_TIME_MAX: Duration = Duration::from_secs(120);

const NEED: Need =
    Need { what: "iproute2", debian: &["iproute2"], by_hand: "The program `ip` must be in PATH." };

/// Hold the address guard against hostile URLs, names and addresses, and against another implementation.
///
/// The real client sends to all of them in a network namespace in which every address is this machine and a name
/// server of ours answers; the kernel must count no connect. Then npm's ipaddr.js and Node judge the same addresses and
/// URLs, and many more. Needs Linux, Node 20, and root or user namespaces.
#[derive(clap::Args)]
pub struct Addresses {
    /// How many addresses to make up and compare
    #[arg(long, default_value_t = 1_000_000)]
    addresses: usize,
    /// How many URLs to make up and compare
    #[arg(long, default_value_t = 500_000)]
    urls: usize,
    /// Where all choices come from
    #[arg(long)]
    seed: Option<u64>,
}

impl Addresses {
    /// Proves and compares.
    pub fn run(self) -> anyhow::Result<()> {
        if let Some(reason) = impossible()? {
            bail!("the guard cannot be proved here: {reason}");
        }
        let guard = build()?;
        prove(&guard)?;
        let size = Size { addresses: self.addresses, urls: self.urls };
        address_check::run(&guard, size, self.seed.unwrap_or_else(any_seed))
    }

    /// The form that CI runs.
    pub fn short() -> anyhow::Result<()> {
        let guard = build()?;
        match impossible()? {
            Some(reason) => println!("the proof by sending is skipped: {reason}"),
            None => prove(&guard)?,
        }
        address_check::run(&guard, SHORT, any_seed())
    }
}

fn build() -> anyhow::Result<PathBuf> {
    let name = "address_guard";
    process::run(cargo().args(["build", "-p", "wakepost-server", "--example", name]))?;
    Ok(workspace::bin_dir("debug")?.join("examples").join(name))
}

fn prove(guard: &PathBuf) -> anyhow::Result<()> {
    let mut command = unshare();
    command.arg("--").arg(guard).arg("prove");
    process::run_within(&mut command, PROOF_TIME_MAX)
}

/// A command in a network and a view of the disk that end with it. Whoever is not root becomes root of a namespace of
/// users first, where the kernel lets everyone have one.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    if !geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--mount", "--propagation", "private"]);
    command
}

/// Why nothing can be proved by sending on this machine.
fn impossible() -> anyhow::Result<Option<String>> {
    if cfg!(not(target_os = "linux")) {
        return Ok(Some("only Linux has network namespaces".to_owned()));
    }
    if let Err(told) = works("mount -t tmpfs trial /mnt") {
        return Ok(Some(format!("no namespaces can be had ({told})")));
    }
    if !answers("ip") {
        packages::install(&NEED).context("for the network of the proof")?;
    }
    let routes = works("ip link set lo up && ip -6 route add local ::/0 dev lo");
    Ok(routes.err().map(|told| format!("there is no IPv6 ({told})")))
}

/// Whether this can be done in namespaces of its own, or what was said.
fn works(script: &str) -> Result<(), String> {
    let trial = unshare().args(["--", "sh", "-c", script]).output();
    let trial = trial.map_err(|error| format!("unshare: {error}"))?;
    match trial.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&trial.stderr).trim().to_owned()),
    }
}

fn answers(program: &str) -> bool {
    Command::new(program).arg("-V").output().is_ok_and(|output| output.status.success())
}

fn any_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(since.subsec_nanos())
}
