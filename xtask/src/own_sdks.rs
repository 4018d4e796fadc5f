//! Our own SDKs: made ready for the tests that run their conformance agents, and their own tests, with the examples.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Signal, getpid, kill_process};
use xtask::interrupt::{self, Interrupted};
use xtask::process::{self, cargo};
use xtask::workspace;

use crate::languages;

/// How long npm or the TypeScript compiler may take; ten seconds are usual.
const BUILD_TIME_MAX: Duration = Duration::from_secs(180);

/// How long one file of tests may take; three quarters of a minute are usual.
const TEST_TIME_MAX: Duration = Duration::from_secs(240);

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

/// Runs the tests of the Python and the TypeScript SDK, and every example once, on the debug build of the server.
///
/// They mostly wait (for leases to run out), so all files run at once. Those of the examples are with Python's.
pub fn test() -> anyhow::Result<()> {
    process::run(cargo().args(["build", "-p", "wakepost-server"]))?;
    build()?;
    let server = workspace::bin_dir("debug")?.join("wakepost");
    let logs = workspace::bin_dir("sdk-tests")?;
    fs::create_dir_all(&logs).context("making the directory of the logs")?;
    let mut suites = vec![("typescript".to_owned(), typescript())];
    for file in python_files()? {
        let mut python = Command::new("python3");
        python.args(["-m", "unittest", "discover", "-s", "sdks/python", "-p", &file]);
        // Bytecode stays out of the source tree.
        python.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(workspace::root());
        suites.push((file, python));
    }
    let failed: Vec<String> = thread::scope(|scope| {
        let running: Vec<_> = suites
            .into_iter()
            .map(|(name, mut command)| {
                command.env("WAKEPOST_BIN", &server);
                let log = logs.join(format!("{name}.log"));
                scope.spawn(move || {
                    let ran = run_logged(&mut command, &log);
                    ran.map_err(|error| tell(&name, &error, &log)).err().map(|()| name)
                })
            })
            .collect();
        let ended = running.into_iter().map(|suite| suite.join().expect("it does not panic"));
        ended.flatten().collect()
    });
    if interrupt::take() {
        bail!(Interrupted);
    }
    if !failed.is_empty() {
        bail!("these failed: {}", failed.join(", "));
    }
    Ok(())
}

fn typescript() -> Command {
    let mut npm = Command::new("npm");
    npm.args(["test", "--silent"]).current_dir(workspace::root().join("sdks/typescript"));
    npm
}

/// Each is a program of its own, so that they can run at once.
fn python_files() -> anyhow::Result<Vec<String>> {
    let directory = workspace::root().join("sdks/python/tests");
    let mut files = Vec::new();
    for entry in fs::read_dir(&directory).context("the tests of the Python SDK")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with("test_") && name.ends_with(".py") {
            files.push(name);
        }
    }
    files.sort();
    Ok(files)
}

fn run_logged(command: &mut Command, log: &Path) -> anyhow::Result<()> {
    let out = File::create(log).with_context(|| format!("making {}", log.display()))?;
    command.stderr(out.try_clone()?).stdout(out);
    process::run_within(command, TEST_TIME_MAX)
}

/// Shows what a suite said before it failed. A Ctrl-C is seen by one suite, and handed on to the next.
fn tell(name: &str, error: &anyhow::Error, log: &Path) {
    if error.is::<Interrupted>() || error.root_cause().is::<Interrupted>() {
        let _ = kill_process(getpid(), Signal::INT);
        return;
    }
    let said = fs::read_to_string(log).unwrap_or_default();
    eprintln!("{said}\n{name}: {error:#}");
}
