//! `cargo xtask bench`: the measurements, against a PostgreSQL server that really writes to disk.

use std::process::Command;

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
    /// Handed to `wakepost-bench`.
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

impl Bench {
    /// Runs the benchmarks.
    pub fn run(self) -> anyhow::Result<()> {
        let bin_dir = workspace::bin_dir("release")?;
        // With the simulation, all programs would get a Tokio whose time can be stopped, and ask it for each moment.
        let build = ["build", "--release", "--workspace", "--exclude", "wakepost-simulation"];
        process::run(cargo().args(build))?;
        let database = Database::given_or_own(DATABASE_URL, Durability::Real)?;
        process::run(
            Command::new(bin_dir.join("wakepost-bench"))
                .args(self.args)
                .env(DATABASE_URL, database.url())
                .env(BIN_DIR, bin_dir),
        )
    }
}
