//! `cargo xtask ci`: everything a change must pass, in the order of what fails fastest.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use xtask::packages::{self, Need};
use xtask::process::{self, cargo, cargo_has};

use super::addresses::Addresses;
use super::bench::Bench;
use super::browser::Browser;
use super::crash::Crash;
use super::deploy_check::DeployCheck;
use super::newcomer::Newcomer;
use super::powercut::Powercut;
use super::schema_check::SchemaCheck;
use super::sdk_check::SdkCheck;
use super::simulate::Simulate;
use super::storm::Storm;
use super::test::run_tests_with;
use crate::{links, own_sdks, skipping, tracked_files};

/// Run everything a change must pass.
///
/// Stops at the first step that fails.
#[derive(clap::Args)]
pub struct Ci {
    /// Only the steps whose name has this in it
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

struct Step {
    name: &'static str,
    run: fn() -> anyhow::Result<()>,
}

/// The list of steps. Commands that would take longer have a short form here; those of crashes and benchmarks use the
/// debug build that the tests have just used.
const STEPS: &[Step] = &[
    Step { name: "format", run: format },
    Step { name: "tracked files", run: tracked_files::check },
    Step { name: "links", run: links::check },
    Step { name: "deploy", run: DeployCheck::check },
    Step { name: "dependencies", run: dependencies },
    Step { name: "lint", run: lint },
    Step { name: "documentation", run: documentation },
    Step { name: "vendors' SDKs", run: SdkCheck::check },
    Step { name: "tests", run: tests },
    Step { name: "description", run: SchemaCheck::short },
    Step { name: "newcomer", run: Newcomer::short },
    Step { name: "addresses", run: Addresses::short },
    Step { name: "our SDKs", run: own_sdks::test },
    Step { name: "dashboard", run: Browser::check },
    Step { name: "benchmarks", run: Bench::short },
    Step { name: "simulation", run: Simulate::short },
    Step { name: "crashes", run: Crash::short },
    Step { name: "replay storm", run: Storm::short },
    Step { name: "power cuts", run: Powercut::short },
];

/// What `tests/tests/pooling.rs` puts in front of PostgreSQL.
const PGBOUNCER: Need = Need {
    what: "PgBouncer",
    debian: &["pgbouncer"],
    by_hand: "The program must be /usr/sbin/pgbouncer.",
};

impl Ci {
    /// Runs the steps and tells what each took.
    pub fn run(self) -> anyhow::Result<()> {
        let chosen = |step: &&Step| self.only.as_ref().is_none_or(|name| step.name.contains(name));
        let steps: Vec<&Step> = STEPS.iter().filter(chosen).collect();
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        ensure!(!steps.is_empty(), "no such step; there are: {}", names.join(", "));
        let mut times = Vec::new();
        for step in steps {
            println!("==> {}", step.name);
            let started = Instant::now();
            (step.run)().with_context(|| format!("step `{}`", step.name))?;
            times.push((step.name, started.elapsed()));
            println!("<== {} ({})", step.name, seconds(started.elapsed()));
        }
        let times: Vec<_> =
            times.iter().map(|(name, took)| format!("{name} {}", seconds(*took))).collect();
        println!("all steps passed: {}", times.join(", "));
        Ok(())
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn format() -> anyhow::Result<()> {
    process::run(cargo().args(["fmt", "--all", "--check"]))
}

fn lint() -> anyhow::Result<()> {
    // `--locked` here speaks for all the steps: Cargo.lock is what the manifests ask for.
    let clippy = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    process::run(cargo().args(clippy))
}

fn documentation() -> anyhow::Result<()> {
    let doc = ["doc", "--no-deps", "--workspace"];
    process::run(cargo().args(doc).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Advisories are left out: their database is fetched from outside the package registries, which
/// not every machine reaches.
fn dependencies() -> anyhow::Result<()> {
    if !cargo_has("deny") {
        process::run(cargo().args(["install", "--locked", "cargo-deny"]))?;
    }
    let check = ["deny", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"];
    process::run(cargo().args(check))
}

/// Tests that a machine cannot run are failures where nothing may be left out.
fn tests() -> anyhow::Result<()> {
    let must_all_run = skipping::must_all_run();
    if must_all_run && !Path::new("/usr/sbin/pgbouncer").exists() {
        packages::install(&PGBOUNCER)?;
    }
    let must_run = if must_all_run { "1" } else { "" };
    let settings = [("NEXTEST_PROFILE", "ci"), (skipping::MUST_RUN, must_run)];
    run_tests_with(&settings.map(|(name, value)| (name, value.to_owned())), &[])
}
