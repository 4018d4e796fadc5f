//! `cargo xtask powercut`: cuts the power of the server's disk at random moments and checks what its clients
//! were told.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use rustix::process::geteuid;
use xtask::packages::{self, Need};
use xtask::process;

use super::crash::{Database, Programs, name};
use crate::skipping;

/// Cuts in the short form that CI runs.
const SHORT_SQLITE: u32 = 10;
const SHORT_POSTGRES: u32 = 4;
/// Cuts that the control may need until enough of them lost something: four in ten do.
const CONTROL_MOST: u32 = 30;

const NEED: Need = Need {
    what: "btrfs-progs",
    debian: &["btrfs-progs"],
    by_hand: "The program `mkfs.btrfs` must be in PATH.",
};

/// Cut the power of the server's disk at random moments under load (root only).
///
/// The data lies on an ext4 image that is a file on btrfs: a clone of it, taken at any moment, holds
/// what was synced and nothing else. The server starts again on the clone, and nothing that a client was told
/// may be missing.
#[derive(clap::Args)]
pub struct Powercut {
    /// How many cuts
    #[arg(long, default_value_t = 30)]
    cuts: u32,
    /// Which database
    #[arg(long, value_enum, default_value_t = Database::Sqlite)]
    database: Database,
    /// Where all choices come from
    #[arg(long)]
    seed: Option<u64>,
    /// Let commits return before they are on the disk: succeeds only if that loses something, and ends then
    #[arg(long)]
    control: bool,
    /// Use the debug build of the server, as CI and the control do, in place of the release build
    #[arg(long)]
    debug: bool,
}

impl Powercut {
    /// Cuts and checks.
    pub fn run(self) -> anyhow::Result<()> {
        if let Some(reason) = impossible() {
            bail!("power cuts cannot be made here: {reason}");
        }
        if !has_mkfs() {
            packages::install(&NEED)?;
        }
        // Only a debug build can be told not to wait for the disk.
        let programs = Programs::build(self.debug || self.control)?;
        // The mounts live in a namespace of their own: they end with the program, however that ends.
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "--"]).arg(&programs.harness);
        command.args(["power", "--program"]).arg(&programs.server);
        command.args(["--cuts", &self.cuts.to_string(), "--database", &name(&self.database)]);
        command.args(self.seed.map(|seed| format!("--seed={seed}")));
        command.args(self.control.then_some("--control"));
        process::run(&mut command)
    }

    /// The form that CI runs.
    pub fn short() -> anyhow::Result<()> {
        if let Some(reason) = impossible() {
            return skipping::skip(&format!("power cuts cannot be made here: {reason}"));
        }
        for (database, cuts, control) in [
            (Database::Sqlite, SHORT_SQLITE, false),
            (Database::Postgres, SHORT_POSTGRES, false),
            (Database::Sqlite, CONTROL_MOST, true),
        ] {
            let on_purpose = if control { ", at most, as a control" } else { "" };
            println!("{cuts} power cuts on {}{on_purpose}", name(&database));
            let short = Powercut { cuts, database, seed: None, control, debug: true };
            short.run().with_context(|| format!("on {}", name(&database)))?;
        }
        Ok(())
    }
}

/// Why there can be no power cuts on this machine.
fn impossible() -> Option<String> {
    if !geteuid().is_root() {
        return Some("only root can mount disks".to_owned());
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("there are no loop devices (/dev/loop-control)".to_owned());
    }
    let unshare = Command::new("unshare").args(["--mount", "true"]).output();
    if !unshare.is_ok_and(|output| output.status.success()) {
        return Some("`unshare --mount` does not work: no right to mount".to_owned());
    }
    None
}

fn has_mkfs() -> bool {
    Command::new("mkfs.btrfs").arg("--version").output().is_ok_and(|output| output.status.success())
}
