//! `cargo xtask test`: every test of the workspace, against a PostgreSQL server of its own.

use std::process::Command;
use std::time::Instant;

use xtask::postgres::Durability;
use xtask::process::{self, cargo, cargo_has};
use xtask::workspace;

use crate::database::Database;
use crate::own_sdks;

/// Names the server the tests make their databases on (a superuser's address).
pub const DATABASE_URL: &str = "WAKEPOST_TEST_DATABASE_URL";

/// Names the directory of the programs `wakepost` and `webhookctl` to be tested.
pub const BIN_DIR: &str = "WAKEPOST_TEST_BIN_DIR";

/// Run the tests.
///
/// Builds the programs, starts a PostgreSQL server (or uses the one WAKEPOST_TEST_DATABASE_URL
/// names), and runs every test of the workspace by cargo-nextest, or by `cargo test` where that is
/// not installed.
#[derive(clap::Args)]
pub struct Test {
    /// Handed to the test runner, to select tests; documentation tests are then left out.
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

impl Test {
    /// Runs the tests as a developer wants them: stopping at the first failure.
    pub fn run(self) -> anyhow::Result<()> {
        run_tests_with(&[], &self.args)
    }
}

/// Runs the tests with further settings in the environment, such as a profile of `.config/nextest.toml`.
pub fn run_tests_with(settings: &[(&str, String)], args: &[String]) -> anyhow::Result<()> {
    let started = Instant::now();
    let bin_dir = workspace::bin_dir("debug")?;
    process::run(cargo().args(["build", "-p", "wakepost-server", "-p", "wakepost-ctl"]))?;
    if runs_agents(args) {
        own_sdks::build()?;
    }
    let database = Database::given_or_own(DATABASE_URL, Durability::Fast)?;
    let run = |command: &mut Command| {
        let settings = settings.iter().map(|(name, value)| (name, value));
        let command = command.env(DATABASE_URL, database.url()).env(BIN_DIR, &bin_dir);
        process::run(command.envs(settings))
    };

    let everything = args.is_empty();
    let runner = if cargo_has("nextest") {
        // nextest leaves these out. They go first, so that the output closes on its summary.
        if everything {
            run(cargo().args(["test", "--doc", "--workspace"]))?;
        }
        run(cargo().args(["nextest", "run"]).args(packages(args)).args(args))?;
        "cargo nextest"
    } else {
        run(cargo().arg("test").args(packages(args)).args(args))?;
        "cargo test"
    };

    let what = match everything {
        true => "the workspace with its doctests".to_owned(),
        false => format!("`{}`", args.join(" ")),
    };
    let took = started.elapsed().as_secs_f64();
    println!("tested {what}, by {runner}, on {database}, in {took:.0} s");
    Ok(())
}

/// Whether the tests of our SDKs may be among the chosen ones.
fn runs_agents(args: &[String]) -> bool {
    packages(args).is_some() || args.iter().any(|arg| arg.contains("wakepost-tests"))
}

/// The whole workspace, unless the developer's own arguments choose packages.
fn packages(args: &[String]) -> Option<&'static str> {
    let chosen = args.iter().take_while(|arg| *arg != "--").any(|arg| {
        ["--package", "--workspace", "--all"].contains(&arg.as_str())
            || arg.starts_with("--package=")
            || (arg.starts_with("-p") && !arg.starts_with("--"))
    });
    (!chosen).then_some("--workspace")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages_of(line: &str) -> Option<&'static str> {
        packages(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_whole_workspace_is_tested_unless_packages_are_chosen() {
        for whole in ["", "a_stale_lease", "--no-capture", "--profile ci", "leasing -- -p"] {
            assert_eq!(packages_of(whole), Some("--workspace"), "{whole}");
        }
        for chosen in ["-p xtask", "-pxtask", "--package xtask", "--package=xtask", "--workspace"] {
            assert_eq!(packages_of(chosen), None, "{chosen}");
        }
    }
}
