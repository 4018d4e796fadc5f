//! `cargo xtask simulate`: the server's core on one thread, in simulated time, with faults that follow from a seed.

use std::process::Command;

use clap::ValueEnum;
use xtask::process::{self, cargo};
use xtask::workspace;

use super::crash::name;

/// Seeds in the short form that CI runs, each of them twice.
const SHORT: u64 = 40;
/// Seeds of each control there: among these all of its rules notice it.
const SHORT_CONTROL: u64 = 2;

/// Simulate the server's core with seeded faults, and check that nothing is lost, doubled or stuck.
///
/// Ends with 1 and a plain description if a promise is broken. A seed does exactly the same each time.
#[derive(clap::Args)]
pub struct Simulate {
    /// How many seeds
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Only this seed
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Show what happens; with --seed
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Run each seed twice, and compare what happened
    #[arg(long)]
    twice: bool,
    /// Fail if a place was not reached that is within reach
    #[arg(long, conflicts_with = "seed")]
    all_places: bool,
    /// Break this promise on purpose: a violation must be found
    #[arg(long, value_enum)]
    control: Option<Control>,
}

/// A promise to break.
#[derive(Clone, Copy, ValueEnum)]
enum Control {
    Dedup,
    Fencing,
    Rescue,
    Order,
    Wake,
    Late,
}

impl Simulate {
    /// Simulates.
    pub fn run(self) -> anyhow::Result<()> {
        process::run(cargo().args(["build", "-p", "wakepost-simulation"]))?;
        let mut command = Command::new(workspace::bin_dir("debug")?.join("wakepost-simulation"));
        match self.seed {
            Some(seed) => {
                command.args(["one", "--seed", &seed.to_string()]);
                command.args(self.trace.then_some("--trace"));
            }
            None => {
                let (seeds, from) = (self.seeds.to_string(), self.from.to_string());
                command.args(["many", "--seeds", &seeds, "--from", &from]);
                command.args(self.twice.then_some("--twice"));
                command.args(self.all_places.then_some("--all-places"));
            }
        }
        command.args(self.control.map(|control| format!("--control={}", name(&control))));
        process::run(&mut command)
    }

    /// The form that CI runs: always the same seeds, so that a change that breaks one is the change at hand.
    pub fn short() -> anyhow::Result<()> {
        let few = |control| Simulate {
            seeds: SHORT_CONTROL,
            from: 1,
            seed: None,
            trace: false,
            twice: false,
            all_places: false,
            control,
        };
        Simulate { seeds: SHORT, twice: true, all_places: true, ..few(None) }.run()?;
        Control::value_variants().iter().try_for_each(|control| few(Some(*control)).run())
    }
}
