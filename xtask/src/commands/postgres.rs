//! `cargo xtask postgres`: a server to run single tests against by hand.

use xtask::postgres::{self, Durability};

/// Start a PostgreSQL server, print its address, and keep it until Ctrl-C.
///
/// For single tests by hand: put the address in WAKEPOST_TEST_DATABASE_URL and run `cargo test` or
/// `cargo xtask test` as often as needed.
#[derive(clap::Args)]
pub struct Postgres {
    /// Write to disk at every commit, as for benchmarks
    #[arg(long)]
    durable: bool,
}

impl Postgres {
    /// Starts the server and waits.
    pub fn run(self) -> anyhow::Result<()> {
        let durability = if self.durable { Durability::Real } else { Durability::Fast };
        let mut server = postgres::Postgres::start(durability)?;
        println!("{}", server.url());
        eprintln!("PostgreSQL {} is running; Ctrl-C ends it", server.version());
        server.wait_for_interrupt()
    }
}
