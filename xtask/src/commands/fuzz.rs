//! `cargo xtask fuzz`: lets libFuzzer look for inputs that a parser of foreign bytes cannot bear.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use xtask::process::{self, cargo};
use xtask::workspace;

/// What makes the compiler note which ways an input takes.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// The longest input, and how long one may take: far more than any that a parser should need.
const BYTES_MAX: &str = "-max_len=65536";
const SECONDS_MAX: &str = "-timeout=10";

/// Fuzz every parser of foreign bytes.
///
/// What was learnt is kept in target/fuzz/corpus. A finding ends the command and lies in target/fuzz/findings: put it
/// into fuzz/corpus/<target>, where each test run reads it again. Needs a C++ compiler.
#[derive(clap::Args)]
pub struct Fuzz {
    /// Which targets; all of them if none is named
    targets: Vec<String>,
    /// How long each is fuzzed
    #[arg(long, default_value_t = 10)]
    minutes: u64,
}

impl Fuzz {
    /// Fuzzes one target after the other.
    pub fn run(self) -> anyhow::Result<()> {
        let room = workspace::bin_dir("fuzz")?;
        let known = write_seeds(&room.join("seeds"))?;
        let unknown = self.targets.iter().find(|name| !known.contains(name));
        ensure!(
            unknown.is_none(),
            "there is no target {}; there are: {}",
            unknown.map_or("", |name| name),
            known.join(", ")
        );
        let driver = build(&room)?;
        let chosen = if self.targets.is_empty() { known } else { self.targets };
        for name in chosen {
            println!("==> {name}, {} minutes", self.minutes);
            fuzz(&driver, &room, &name, self.minutes * 60)?;
        }
        Ok(())
    }
}

/// Writes what to begin with; answers the names of the targets.
fn write_seeds(folder: &Path) -> anyhow::Result<Vec<String>> {
    let seeds = ["run", "--quiet", "--package", "wakepost-fuzz", "--"];
    let printed = cargo().args(seeds).arg(folder).output().context("writing the seeds")?;
    ensure!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    Ok(String::from_utf8(printed.stdout)?.lines().map(str::to_owned).collect())
}

fn build(room: &Path) -> anyhow::Result<std::path::PathBuf> {
    let rustc = Command::new("rustc").args(["--version", "--verbose"]).output()?;
    let rustc = String::from_utf8(rustc.stdout)?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not say what it builds for")?;
    let build = ["build", "--release", "--locked", "--manifest-path", "fuzz/driver/Cargo.toml"];
    // Named, so that what runs while building is built without coverage.
    process::run(
        cargo()
            .args(build)
            .args(["--target", host, "--target-dir"])
            .arg(room.join("build"))
            .env("RUSTFLAGS", COVERAGE),
    )?;
    Ok(room.join("build").join(host).join("release").join("wakepost-fuzz-driver"))
}

fn fuzz(driver: &Path, room: &Path, name: &str, seconds: u64) -> anyhow::Result<()> {
    let learnt = room.join("corpus").join(name);
    let findings = room.join("findings");
    std::fs::create_dir_all(&learnt)?;
    std::fs::create_dir_all(&findings)?;
    let mut command = Command::new(driver);
    command.env("WAKEPOST_FUZZ_TARGET", name).arg(learnt).arg(room.join("seeds").join(name));
    let found_before = workspace::root().join("fuzz/corpus").join(name);
    command.args(found_before.exists().then_some(found_before));
    command.args([BYTES_MAX, SECONDS_MAX, "-print_final_stats=1"]);
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-artifact_prefix={}/{name}-", findings.display()));
    process::run(&mut command)
}
