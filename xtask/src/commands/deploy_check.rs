//! `cargo xtask deploy-check`: whether what is in `deploy` is well formed and fits the server.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use xtask::packages::{self, Need};
use xtask::{process, workspace};

use crate::pinned;

const SYSTEMD: Need = Need {
    what: "systemd-analyze",
    debian: &["systemd"],
    by_hand: "The program `systemd-analyze` must be in PATH; it comes with systemd.",
};

/// How long all checks together may take; five seconds are usual.
const CHECK_TIME_MAX: Duration = Duration::from_secs(120);

/// How long it may take to fetch a package.
const FETCH_TIME_MAX: Duration = Duration::from_secs(120);

/// Lint the unit, the image, the chart, the rules and the board of `deploy`.
///
/// Needs Python 3.11, systemd-analyze and promtool. The other linters (hadolint, helm, the schemas of Compose and
/// Kubernetes, yamllint) are Python packages in pinned versions, under the target directory.
#[derive(clap::Args)]
pub struct DeployCheck {}

impl DeployCheck {
    /// Checks everything.
    pub fn run(self) -> anyhow::Result<()> {
        Self::check()
    }

    /// The same, as a step of CI.
    pub fn check() -> anyhow::Result<()> {
        if !answers("systemd-analyze") {
            packages::install(&SYSTEMD)?;
        }
        let promtool = promtool()?;
        let mut linters = pinned::python("deploy")?;
        linters.arg(workspace::root()).arg(promtool);
        process::run_within(&mut linters, CHECK_TIME_MAX)
    }
}

/// The one that is installed; else Debian's, unpacked under the target directory. To install the package would start a
/// Prometheus server.
fn promtool() -> anyhow::Result<PathBuf> {
    if answers("promtool") {
        return Ok("promtool".into());
    }
    let directory = workspace::bin_dir("pinned")?.join("promtool");
    let program = directory.join("usr/bin/promtool");
    if program.exists() {
        return Ok(program);
    }
    ensure!(
        answers("apt-get"),
        "promtool is missing. The program must be in PATH; it comes with Prometheus."
    );
    eprintln!("promtool is missing: fetching Debian's");
    std::fs::create_dir_all(&directory).context("making a place for promtool")?;
    let script = "get() { apt-get -q download prometheus; }
        get || { apt-get -q update && get; } && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb";
    let mut fetch = Command::new("sh");
    fetch.args(["-c", script]).current_dir(&directory);
    process::run_within(&mut fetch, FETCH_TIME_MAX)?;
    Ok(program)
}

fn answers(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}
