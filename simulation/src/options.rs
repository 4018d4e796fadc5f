//! What can be asked for.

use clap::{Args, Parser, Subcommand};

use crate::control::Control;

/// Simulates Wakepost's core: one thread, simulated time, faults that follow from a seed.
#[derive(Parser)]
#[command(name = "wakepost-simulation")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Many seeds, each in a process of its own
    Many {
        /// How many
        #[arg(long)]
        seeds: u64,
        /// The first
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// Run each seed twice, and compare what happened
        #[arg(long)]
        twice: bool,
        /// Fail if a place was not reached that is within reach
        #[arg(long)]
        all_places: bool,
        /// How they run
        #[command(flatten)]
        common: Common,
    },
    /// One seed
    One {
        /// Which
        #[arg(long)]
        seed: u64,
        /// Show what happens
        #[arg(long)]
        trace: bool,
        /// How it runs
        #[command(flatten)]
        common: Common,
    },
}

/// How seeds run.
#[derive(Args, Clone, Copy)]
pub struct Common {
    /// Break this promise on purpose: a violation must be found
    #[arg(long, value_enum)]
    pub control: Option<Control>,
}
