//! `cargo xtask schema-check`: whether the server answers what its description says.

use std::time::Duration;

use xtask::postgres::{Durability, Postgres};
use xtask::process;

use crate::pinned;
use crate::served::{self, Served};

/// What CI tries on each operation, and from where: the same every time, so that a change is what fails.
const SHORT_EXAMPLES: u32 = 4;
const SHORT_SEED: u64 = 20_261_118;
/// The short form takes a minute.
const SHORT_TIME_MAX: Duration = Duration::from_secs(240);

/// How long the client of the Model Context Protocol may take; a few seconds are usual.
const MCP_TIME_MAX: Duration = Duration::from_secs(60);

/// Hold a real server's answers against its own description, with generated calls.
///
/// Schemathesis makes calls that fit the description and calls that do not, mostly about things that are there. No answer
/// may be a server's error, have a status, a type, a header or a shape that is not described, or take what should be
/// refused. The official SDK of the Model Context Protocol is a client of `/mcp` first. Needs Python 3.11 with pip; both are installed under the target directory.
#[derive(clap::Args)]
pub struct SchemaCheck {
    /// How many calls are made up for each operation, at most
    #[arg(long, default_value_t = 100)]
    examples: u32,
    /// Where all choices come from
    #[arg(long, default_value_t = SHORT_SEED)]
    seed: u64,
    /// Only operations whose path has this in it
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
}

impl SchemaCheck {
    /// Checks on both databases.
    pub fn run(self) -> anyhow::Result<()> {
        let mut args = vec![
            "--phases=examples,coverage,fuzzing".to_owned(),
            format!("--max-examples={}", self.examples),
        ];
        args.extend(self.only.map(|pattern| format!("--include-path-regex={pattern}")));
        println!("on SQLite");
        check(None, self.seed, &args, Duration::MAX)?;
        let postgres = Postgres::start(Durability::Fast)?;
        println!("on PostgreSQL {}", postgres.version());
        check(Some(&postgres.url()), self.seed, &args, Duration::MAX)
    }

    /// The form that CI runs.
    pub fn short() -> anyhow::Result<()> {
        let args = [
            "--phases=examples,coverage,fuzzing".to_owned(),
            format!("--max-examples={SHORT_EXAMPLES}"),
            "--no-shrink".to_owned(),
        ];
        check(None, SHORT_SEED, &args, SHORT_TIME_MAX)
    }
}

fn check(
    database: Option<&str>,
    seed: u64,
    args: &[String],
    limit: Duration,
) -> anyhow::Result<()> {
    let (mut speaker, mut checker) = (pinned::python("mcp")?, pinned::python("contract")?);
    let mut served = Served::start(database)?;
    for program in [&mut speaker, &mut checker] {
        program
            .env("WAKEPOST_URL", &served.url)
            .env("WAKEPOST_KEY", served::KEY)
            .env("WAKEPOST_SEED", seed.to_string())
            .env("PYTHONDONTWRITEBYTECODE", "1");
    }
    process::run_within(&mut speaker, MCP_TIME_MAX)?;
    process::run_within(checker.args(args), limit)?;
    served.lives()
}
