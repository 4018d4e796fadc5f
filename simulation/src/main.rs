//! Simulates Wakepost's core: the real server above inline SQLite, on one thread, in simulated time, with faults that
//! follow from a seed: `wakepost-simulation one|many`.
//!
//! `world` is what outlives the server: `clients`, `time`, timers and calls. `life` runs one life of the `server` on a runtime
//! of its own, so that a crash is that runtime dropped. `faults` decides at every failpoint what goes wrong there. When faults
//! have stopped (`story`), everything must end, and be what clients were told (`check`).

mod chance;
mod check;
mod clients;
mod control;
mod faults;
mod life;
mod many;
mod options;
mod places;
mod receiver;
mod record;
mod repeats;
mod server;
mod simulate;
mod story;
mod time;
mod trace;
mod world;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use crate::options::{Cli, Command, Common};

fn main() -> ExitCode {
    if !cfg!(debug_assertions) {
        eprintln!(
            "error: the simulation needs failpoints, which only builds with debug assertions have"
        );
        return ExitCode::FAILURE;
    }
    let ran = match Cli::parse().command {
        Command::Many { seeds, from, twice, all_places, common } => {
            many::run(from..from + seeds, many::Wanted { twice, all_places }, common)
        }
        Command::One { seed, trace, common } => apart(move || one(seed, trace, common)),
    };
    ran.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Runs on a thread of its own: what hash maps are seeded with counts up from a thread's beginning, and what this one did
/// before depends on its arguments.
fn apart(
    run: impl FnOnce() -> anyhow::Result<ExitCode> + Send + 'static,
) -> anyhow::Result<ExitCode> {
    std::thread::spawn(run).join().unwrap_or_else(|_| anyhow::bail!("the simulation panicked"))
}

fn one(seed: u64, trace: bool, common: Common) -> anyhow::Result<ExitCode> {
    let directory = Directory::new()?;
    let control = common.control.map(|control| control.sql());
    let outcome = simulate::run(seed, control, trace, &directory.0)?;
    for violation in &outcome.violations {
        println!("{violation}");
    }
    let counts = outcome.counts.map(|count| count.to_string()).join(" ");
    println!("{}{} {counts} {}", many::OUTCOME, outcome.hash, outcome.places);
    Ok(if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where the database is: in memory, where there is a file system for that. It goes with this.
struct Directory(PathBuf);

impl Directory {
    fn new() -> anyhow::Result<Directory> {
        let memory = Path::new("/dev/shm");
        let above = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = above.join(format!("wakepost-simulation-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
