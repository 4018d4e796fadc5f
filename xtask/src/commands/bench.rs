//! `cargo xtask bench`: the measurements, against a PostgreSQL server that really writes to disk.

use std::process::Command;

use anyhow::ensure;
use xtask::postgres::Durability;
use xtask::process::{self, cargo};
use xtask::workspace;

use crate::database::Database;

/// Names the server to measure on (a superuser's address).
const DATABASE_URL: &str = "WAKEPOST_BENCH_DATABASE_URL";

/// Names the directory of the program `wakepost` to be measured.
const BIN_DIR: &str = "WAKEPOST_BENCH_BIN_DIR";

/// Run the benchmarks.
///
/// Builds the programs for release and starts a PostgreSQL server with full durability (or uses the
/// one WAKEPOST_BENCH_DATABASE_URL names). The server's data lies in the temp directory: set TMPDIR
/// to measure another disk.
#[derive(clap::Args)]
pub struct Bench {
    /// On the debug build: shows that everything runs, and measures nothing
    #[arg(long)]
    debug: bool,
    /// Handed to `wakepost-bench`.
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

impl Bench {
    /// That every measure still runs, on the build that the tests have just used. What others than we make is left
    /// out: it would have to be installed.
    pub fn short() -> anyhow::Result<()> {
        let directory = tempfile::tempdir()?;
        let results = directory.path().join("RESULTS.md").display().to_string();
        let args = ["--short", "--no-peers", "--results", &results].map(str::to_owned).to_vec();
        Bench { debug: true, args }.run()?;
        ensure!(std::path::Path::new(&results).exists(), "no figures were written");
        Ok(())
    }

    /// Runs the benchmarks.
    pub fn run(self) -> anyhow::Result<()> {
        let (profile, durability) = match self.debug {
            false => ("release", Durability::Real),
            true => ("debug", Durability::Fast),
        };
        let bin_dir = workspace::bin_dir(profile)?;
        // With the simulation, all programs would get a Tokio whose time can be stopped, and ask it for each moment. The
        // tests have built them so, and what is not measured need not be built again.
        let parts: &[&str] = match self.debug {
            false => &["--release", "--workspace", "--exclude", "wakepost-simulation"],
            true => &["--workspace"],
        };
        process::run(cargo().arg("build").args(parts))?;
        let database = Database::given_or_own(DATABASE_URL, durability)?;
        process::run(
            Command::new(bin_dir.join("wakepost-bench"))
                .args(self.args)
                .env(DATABASE_URL, database.url())
                .env(BIN_DIR, bin_dir),
        )
    }
}
