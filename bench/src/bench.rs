//! What all measures share: the options, the machine, the database server, a directory for data.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;

use crate::machine::Machine;
use crate::options::{Databases, Options};
use crate::quiet::Quiet;
use crate::world::gateway::{Gateway, Kind};
use crate::world::postgres::Postgres;

/// Names the PostgreSQL server; `cargo xtask bench` sets it.
const DATABASE_URL: &str = "WAKEPOST_BENCH_DATABASE_URL";
/// Names the directory of the program `wakepost`; `cargo xtask bench` sets it.
const BIN_DIR: &str = "WAKEPOST_BENCH_BIN_DIR";

/// What all measures share.
pub struct Bench {
    /// How to measure.
    pub options: Options,
    /// Where.
    pub machine: Machine,
    /// The program `wakepost`.
    pub program: PathBuf,
    /// Data of the programs under measurement.
    pub directory: TempDir,
    /// The database server, unless only SQLite is measured.
    pub postgres: Option<Postgres>,
    /// What others do on the machine meanwhile.
    pub quiet: Quiet,
    /// What could not be measured, and why: the report says so.
    left_out: RefCell<Vec<String>>,
}

impl Bench {
    /// Connects to the database server and looks at the machine.
    pub async fn new(options: Options) -> anyhow::Result<Bench> {
        let bin_dir = std::env::var_os(BIN_DIR)
            .with_context(|| format!("{BIN_DIR} is not set: run `cargo xtask bench`"))?;
        let postgres = match options.database {
            Databases::Sqlite => None,
            Databases::Both | Databases::Postgres => {
                let url = std::env::var(DATABASE_URL).with_context(|| {
                    format!("{DATABASE_URL} is not set: run `cargo xtask bench`")
                })?;
                Some(Postgres::connect(&url).await?)
            }
        };
        let quiet = Quiet::new(Duration::from_secs(60 * options.patience));
        let machine = Machine::look(postgres.as_ref()).await?;
        println!("{machine}");
        Ok(Bench {
            options,
            machine,
            program: PathBuf::from(bin_dir).join("wakepost"),
            directory: tempfile::Builder::new().prefix("wakepost-bench-").tempdir()?,
            postgres,
            quiet,
            left_out: RefCell::default(),
        })
    }

    /// The databases to measure.
    pub fn databases(&self) -> Vec<Kind> {
        match self.options.database {
            Databases::Both => vec![Kind::Sqlite, Kind::Postgres],
            Databases::Sqlite => vec![Kind::Sqlite],
            Databases::Postgres => vec![Kind::Postgres],
        }
    }

    /// Starts a gateway on each database to measure.
    pub async fn gateways(&self) -> anyhow::Result<Vec<Gateway>> {
        let mut gateways = Vec::new();
        for kind in self.databases() {
            gateways.push(Gateway::start(self, kind).await?);
        }
        Ok(gateways)
    }

    /// Notes what cannot be measured, once.
    pub fn leave_out(&self, what: String) {
        let mut left_out = self.left_out.borrow_mut();
        if !left_out.contains(&what) {
            println!("left out: {what}");
            left_out.push(what);
        }
    }

    /// What was left out so far.
    pub fn left_out(&self) -> Vec<String> {
        self.left_out.borrow().clone()
    }

    /// Removes the databases that were made.
    pub async fn clean_up(&self) {
        if let Some(postgres) = &self.postgres {
            postgres.clean_up().await;
        }
    }
}
