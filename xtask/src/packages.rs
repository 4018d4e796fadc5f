//! What the tests need beyond Rust, installed through the system's package manager.

use std::process::Command;

use anyhow::bail;
use rustix::process::geteuid;

use crate::process;

/// A need that a package can meet.
pub struct Need {
    /// What is missing, as a sentence can name it.
    pub what: &'static str,
    /// The packages of Debian and its kin.
    pub debian: &'static [&'static str],
    /// What to do where this program cannot install: other systems, or no rights.
    pub by_hand: &'static str,
}

/// Installs what is missing, or says plainly what to install.
pub fn install(need: &Need) -> anyhow::Result<()> {
    let packages = need.debian.join(" ");
    if !has_apt() {
        bail!("{} is missing. {}", need.what, need.by_hand);
    }
    if !geteuid().is_root() {
        bail!(
            "{} is missing. Install it with `sudo apt-get install {packages}`. {}",
            need.what,
            need.by_hand
        );
    }
    eprintln!("{} is missing: installing {packages}", need.what);
    process::run(apt_get().arg("update"))?;
    process::run(apt_get().args(["install", "-y", "--no-install-recommends"]).args(need.debian))
}

fn has_apt() -> bool {
    apt_get().arg("--version").output().is_ok_and(|output| output.status.success())
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.arg("-q").env("DEBIAN_FRONTEND", "noninteractive");
    command
}
