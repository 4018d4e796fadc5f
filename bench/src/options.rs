//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Measure Wakepost against its ceilings. Run it through `cargo xtask bench`, which builds the programs
/// and starts a PostgreSQL server that really writes to disk.
#[derive(Debug, Parser)]
#[command(name = "wakepost-bench")]
pub struct Cli {
    /// What to measure [default: all].
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to measure.
    #[command(flatten)]
    pub options: Options,
}

/// What to measure.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Everything below, and write bench/RESULTS.md
    All {
        /// Measure growth on databases of the full size, not of a tenth: needs half an hour and 25 GB more
        #[arg(long)]
        full_growth: bool,
        /// Soak each database for so many minutes, too
        #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(3..=10_000))]
        soak: Option<u32>,
    },
    /// What the disk can do: small writes made durable one after the other, and events sent so
    Fsync,
    /// Durable ingest against the ceiling and against a bare server, with 64 and 256 connections
    Ingest,
    /// The latency of ingest at half of the durable rate
    Paced,
    /// Duplicates against new events
    Duplicates,
    /// Refused signatures against a bare server
    Refusals,
    /// Good events at 500/s beside a flood of bad signatures; `--seconds 10` for the whole of it
    Flood,
    /// No-op jobs through the HTTP lease API in batches of 100, 10 and 1
    Claim,
    /// From just before a job is posted to its worker's receipt of it, at 200 jobs/s
    Start,
    /// Ingest and claims with 1, 2 and 4 nodes over one PostgreSQL
    Nodes,
    /// Published events delivered to 1 and to 10 webhooks, against the bare HTTP client
    Deliver,
    /// From just before an event is published to its receipt, at 50 events/s
    Publish,
    /// The same over 100 webhooks while one of them hangs, against all of them well; at least seven rounds
    Lanes,
    /// No-op jobs against graphile-worker, pg-boss and procrastinate on the same PostgreSQL and BullMQ on Redis (needs
    /// Node, npm, Python with pip, and Redis; what cannot be run is left out)
    Peers,
    /// Memory of the server, idle, under load and while it delivers
    Memory,
    /// Bytes on disk per event with its finished job
    Disk,
    /// The dashboard's pages with many events in the ledger
    Pages(Wanted),
    /// Claims with a backlog, many tenants and a long history against claims on an empty database; a lone
    /// job's wait behind the backlog; start-up on many events
    Growth(Wanted),
    /// Claims, ingest, deliveries, starts and pages on databases of 1,000 rows, 10,000 and so on
    Curves {
        /// Up to so many; from 10,000,000 on pages, starts and claims only. With --short two sizes
        #[arg(long, value_name = "ROWS", default_value_t = ROWS_USUAL)]
        rows_max: usize,
    },
    /// Hours at a third of what the gateway can do: do memory, file handles and latency stay as they were?
    Soak {
        /// How long, on each database; with --short each is two seconds
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(3..=10_000))]
        minutes: u32,
    },
    /// CPU per request of the server, the database and this program
    Profile {
        /// What to profile
        subject: Subject,
    },
    /// A bare server: reads the body, answers 202
    #[command(hide = true)]
    ServeBare,
    /// A receiver of deliveries: reads the body, counts, answers 200
    #[command(hide = true)]
    ServeReceiver,
    /// The gateway without its commit
    #[command(hide = true)]
    ServeCeiling {
        /// Where its settings live
        #[arg(long)]
        data_dir: PathBuf,
    },
}

/// How far the curves' databases grow, unless more is asked for; with `all --full-growth`; and in a short run.
pub const ROWS_USUAL: usize = 1_000_000;
pub const ROWS_MAX: usize = 10_000_000;
pub const ROWS_SHORT: usize = 10_000;

/// How far a database has grown.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Jobs of one tenant that wait.
    pub backlog: usize,
    /// Tenants with a few jobs each.
    pub tenants: usize,
    /// Finished jobs.
    pub finished: usize,
    /// Events of the database that a server starts on.
    pub events: usize,
}

impl Sizes {
    /// Those of the specification.
    pub const FULL: Sizes =
        Sizes { backlog: 1_000_000, tenants: 10_000, finished: 5_000_000, events: 1_000_000 };

    /// A part of them.
    pub fn shrunk(self, by: usize) -> Sizes {
        Sizes {
            backlog: self.backlog / by,
            tenants: self.tenants / by,
            finished: self.finished / by,
            events: self.events / by,
        }
    }
}

/// Sizes that were asked for.
#[derive(Debug, Clone, Copy, Args)]
pub struct Wanted {
    /// Jobs of one tenant that wait [default: 1,000,000; with --short a hundredth, as the others]
    #[arg(long, value_name = "JOBS")]
    backlog: Option<usize>,
    /// Tenants with a few jobs each [default: 10,000]
    #[arg(long, value_name = "TENANTS")]
    tenants: Option<usize>,
    /// Finished jobs [default: 5,000,000]
    #[arg(long, value_name = "JOBS")]
    finished: Option<usize>,
    /// Events of the database that a server starts on [default: 1,000,000]
    #[arg(long, value_name = "EVENTS")]
    events: Option<usize>,
}

impl Wanted {
    /// With what was not asked for.
    pub fn sizes(self, short: bool) -> Sizes {
        let usual = Sizes::FULL.shrunk(if short { 100 } else { 1 });
        Sizes {
            backlog: self.backlog.unwrap_or(usual.backlog),
            tenants: self.tenants.unwrap_or(usual.tenants).max(1),
            finished: self.finished.unwrap_or(usual.finished),
            events: self.events.unwrap_or(usual.events).max(1),
        }
    }
}

/// What `profile` looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// Receiving events
    Ingest,
    /// Leasing and finishing jobs
    Claim,
}

/// How to measure.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Interleaved rounds; the median counts
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Length of one measured window
    #[arg(long, global = true, default_value_t = 3.0, value_parser = seconds)]
    pub seconds: f64,
    /// Two rounds of very short windows: shows that everything runs, in under a minute
    #[arg(long, global = true)]
    pub short: bool,
    /// Leave other queues out: nothing is installed for them
    #[arg(long, global = true)]
    pub no_peers: bool,
    /// Wait for a quiet machine, and run spoilt rounds again, for at most this many minutes in all
    #[arg(long, global = true, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=600))]
    pub patience: u64,
    /// Which databases
    #[arg(long, global = true, value_enum, default_value_t = Databases::Both)]
    pub database: Databases,
    /// Threads of the load generator
    #[arg(long, global = true, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// Where `all` writes its figures [default: bench/RESULTS.md; with --short: nowhere]
    #[arg(long, global = true, value_name = "FILE")]
    pub results: Option<PathBuf>,
}

/// Which databases to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Databases {
    /// SQLite and PostgreSQL
    Both,
    /// SQLite alone
    Sqlite,
    /// PostgreSQL alone
    Postgres,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.2..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("must be from 0.2 to 60".to_owned()),
    }
}

impl Options {
    /// How many rounds.
    pub fn rounds(&self) -> u32 {
        if self.short { 2 } else { self.rounds }
    }

    /// How long one measured window is.
    pub fn window(&self) -> Duration {
        Duration::from_secs_f64(if self.short { 0.4 } else { self.seconds })
    }

    /// How long the load runs before the window opens.
    pub fn warm_up(&self) -> Duration {
        self.window() / 4
    }

    /// A number of things to do, or a tenth of it in a short run.
    pub fn count(&self, full: usize) -> usize {
        if self.short { full / 10 } else { full }
    }
}
