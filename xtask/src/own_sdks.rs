//! Our own SDKs, made ready for the tests that run their conformance agents.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use xtask::process::{self, cargo};
use xtask::workspace;

use crate::languages;

/// How long npm or the TypeScript compiler may take; ten seconds are usual.
const BUILD_TIME_MAX: Duration = Duration::from_secs(180);

/// Builds what has to be built: Rust's agent, and the TypeScript package. Python only has to be there.
pub fn build() -> anyhow::Result<()> {
    let agent = ["build", "-p", "wakepost-client", "--example", "conformance_agent"];
    process::run(cargo().args(agent))?;
    languages::need_python()?;
    languages::need_node()?;
    let package = workspace::root().join("sdks/typescript");
    let npm = |args: &[&str]| {
        let mut npm = Command::new("npm");
        npm.args(args).args(["--silent"]).current_dir(&package);
        process::run_within(&mut npm, BUILD_TIME_MAX)
    };
    // npm itself notes there what it installed.
    let lock =
        fs::metadata(package.join("package-lock.json")).context("the package's lock file")?;
    let installed = fs::metadata(package.join("node_modules/.package-lock.json"));
    if !installed.is_ok_and(|installed| installed.modified().ok() >= lock.modified().ok()) {
        npm(&["ci", "--ignore-scripts", "--no-audit", "--no-fund"])?;
    }
    npm(&["run", "build"])
}
