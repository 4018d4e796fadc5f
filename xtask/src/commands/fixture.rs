//! `cargo xtask fixture`: keeps a filled database of this release, for the releases after it to open.

use std::path::PathBuf;

use anyhow::ensure;
use xtask::postgres::Durability;
use xtask::process::{self, cargo};
use xtask::workspace;

use super::test::{BIN_DIR, DATABASE_URL};
use crate::database::Database;

/// Where the files of all releases are.
const FIXTURES: &str = "tests/fixtures";

/// Keep a filled database of this release, and what its migrations are, in tests/fixtures.
///
/// Run it once, at the commit of the release. What is kept is never made anew: it is what users have.
#[derive(clap::Args)]
pub struct Fixture {
    /// Write over what is kept: only before the release is out
    #[arg(long)]
    again: bool,
    /// Where the release's programs are, if they are not to be built from what is here
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

impl Fixture {
    /// Fills, and keeps.
    pub fn run(self) -> anyhow::Result<()> {
        let release = format!("v{}", env!("CARGO_PKG_VERSION"));
        let directory = workspace::root().join(FIXTURES).join(&release);
        ensure!(
            self.again || !directory.exists(),
            "{FIXTURES}/{release} is there: a release is kept once. Raise the version first"
        );
        let programs = match self.programs {
            Some(directory) => directory,
            None => {
                process::run(cargo().args(["build", "-p", "wakepost-server"]))?;
                workspace::bin_dir("debug")?
            }
        };
        let database = Database::given_or_own(DATABASE_URL, Durability::Fast)?;
        let mut fill = cargo();
        fill.args(["run", "-p", "wakepost-tests", "--example", "fixture", "--", &release]);
        process::run(fill.env(DATABASE_URL, database.url()).env(BIN_DIR, &programs))?;
        println!("kept {release} in {FIXTURES}/{release}, on {database}");
        Ok(())
    }
}
