//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Crash Wakepost under load, and check what its clients were told. Run it through `cargo xtask crash`,
/// `cargo xtask powercut` and `cargo xtask storm`, which build the programs.
#[derive(Debug, Parser)]
#[command(name = "wakepost-crash")]
pub struct Cli {
    /// How to crash it.
    #[command(subcommand)]
    pub command: Command,
}

/// How to crash it.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Kill its processes at random moments
    Kill {
        /// What all share.
        #[command(flatten)]
        common: Common,
        /// How many kills
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        kills: u32,
        /// Break a promise on purpose: succeeds only if that is noticed
        #[arg(long, value_enum)]
        control: Option<Control>,
    },
    /// Kill its processes at random moments while events are published and delivered
    Outbound {
        /// What all share.
        #[command(flatten)]
        common: Common,
        /// How many kills
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        kills: u32,
        /// Break a promise on purpose: succeeds only if that is noticed
        #[arg(long, value_enum)]
        control: Option<OutboundControl>,
    },
    /// Send three days of events three times in random order while its processes are killed
    Storm {
        /// What all share.
        #[command(flatten)]
        common: Common,
        /// How many events
        #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        events: u32,
        /// How many kills
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1000))]
        kills: u32,
        /// Break a promise on purpose: succeeds only if that is noticed
        #[arg(long, value_enum)]
        control: Option<Control>,
    },
    /// Cut the power of its disk at random moments (root only)
    Power {
        /// What all share.
        #[command(flatten)]
        common: Common,
        /// How many cuts
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        cuts: u32,
        /// Let commits return before they are on the disk: succeeds only if that is noticed, and ends then
        #[arg(long)]
        control: bool,
    },
}

/// What all ways to crash it share.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// The server to crash
    #[arg(long)]
    pub program: PathBuf,
    /// The database it uses
    #[arg(long, value_enum, default_value_t = Database::Sqlite)]
    pub database: Database,
    /// Where all choices come from [default: a random one, which is printed]
    #[arg(long)]
    pub seed: Option<u64>,
}

/// A database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Database {
    /// Embedded, one process
    Sqlite,
    /// A server of its own, two processes
    Postgres,
}

/// A promise to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Control {
    /// Dedup keys are gone as soon as they are taken
    Dedup,
    /// A job's fence begins anew with every claim
    Fencing,
    /// Nothing waits for what is before it in its order key
    Order,
}

impl Control {
    /// The rules of which one at least is seen to be broken then.
    pub fn breaks(self) -> &'static [&'static str] {
        match self {
            Control::Dedup => &["U1"],
            Control::Fencing => &["L1", "L2", "E2"],
            Control::Order => &["L9"],
        }
    }
}

/// A promise of the outbound side to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutboundControl {
    /// Dedup keys are gone as soon as they are taken
    Dedup,
    /// Each delivery is made twice
    Twice,
    /// Tries that failed are forgotten
    Attempt,
    /// Some deliveries are gone once they ended
    Lost,
}

impl OutboundControl {
    /// The rules of which one at least is seen to be broken then.
    pub fn breaks(self) -> &'static [&'static str] {
        match self {
            OutboundControl::Dedup => &["U1"],
            OutboundControl::Twice => &["O1", "O2"],
            OutboundControl::Attempt => &["O2"],
            OutboundControl::Lost => &["O1"],
        }
    }
}
