//! `cargo xtask browser`: every page and every button of the dashboard, in headless Chromium.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use xtask::packages::{self, Need};
use xtask::process::{self, cargo};
use xtask::workspace;

use crate::pinned;

/// How long all of it may take; two minutes are usual.
const TIME_MAX: Duration = Duration::from_secs(600);
/// What it is called, by who packaged it.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const CHROMIUM: Need = Need {
    what: "Chromium",
    debian: &["chromium"],
    by_hand: "A program `chromium` or `google-chrome` must be in PATH.",
};

/// Drive every page and every button of the dashboard in headless Chromium.
///
/// The real server, filled with real data, in light and dark and at the width of a phone. Needs Chromium and Node 20; the
/// pictures are kept under the target directory.
#[derive(clap::Args)]
pub struct Browser {
    /// On PostgreSQL instead of SQLite
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Take the picture for the README too
    #[arg(long)]
    picture: bool,
}

impl Browser {
    /// Runs it on the debug build of the server.
    pub fn run(self) -> anyhow::Result<()> {
        process::run(cargo().args(["build", "-p", "wakepost-server"]))?;
        let chromium = chromium()?;
        let shots = workspace::bin_dir("browser")?;
        if shots.exists() {
            fs::remove_dir_all(&shots).context("removing the pictures of another run")?;
        }
        let mut node = pinned::node("browser")?;
        node.env("WAKEPOST_BIN", workspace::bin_dir("debug")?.join("wakepost"));
        node.env("WAKEPOST_SHOTS", &shots).env("CHROMIUM", chromium).env_remove("DATABASE_URL");
        if let Some(url) = &self.database_url {
            node.env("DATABASE_URL", url);
        }
        if self.picture {
            node.env("WAKEPOST_PICTURE", workspace::root().join("docs/images/dashboard.png"));
        }
        process::run_within(&mut node, TIME_MAX)
    }

    /// The same, as a step of CI.
    pub fn check() -> anyhow::Result<()> {
        Browser { database_url: None, picture: false }.run()
    }
}

fn chromium() -> anyhow::Result<PathBuf> {
    if let Some(found) = find() {
        return Ok(found);
    }
    packages::install(&CHROMIUM)?;
    find().with_context(|| format!("Chromium is still missing. {}", CHROMIUM.by_hand))
}

fn find() -> Option<PathBuf> {
    let answers = |name: &&&str| {
        let shown = Command::new(name).arg("--version").output();
        shown.is_ok_and(|shown| shown.status.success())
    };
    let name = NAMES.iter().find(answers)?;
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file())
}
