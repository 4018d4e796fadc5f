//! `cargo xtask storm`: replays three days of events while the server is killed, and counts what it left.

use std::process::Command;

use clap::ValueEnum;
use xtask::process;

use super::crash::{Control, Database, Programs, name};

/// The short form that CI runs.
const SHORT_EVENTS: u32 = 3000;
const SHORT_KILLS: u32 = 3;
/// Where a promise is broken on purpose.
const CONTROL_EVENTS: u32 = 300;
const CONTROL_KILLS: u32 = 1;

/// Send three days of events three times in random order while the server is killed, and check that each is
/// there once.
///
/// Five providers, three tenants, two effects for each event. Ends with 1 and a plain description if a promise
/// is broken. The seed that is printed repeats the choices of a run, not its moments.
#[derive(clap::Args)]
pub struct Storm {
    /// How many events
    #[arg(long, default_value_t = 60_000)]
    events: u32,
    /// How many kills
    #[arg(long, default_value_t = 10)]
    kills: u32,
    /// Which database; on PostgreSQL there are two nodes, and its server is killed too
    #[arg(long, value_enum, default_value_t = Databases::Both)]
    database: Databases,
    /// Where all choices come from
    #[arg(long)]
    seed: Option<u64>,
    /// Break this promise on purpose: the command succeeds only if that is noticed
    #[arg(long, value_enum)]
    control: Option<Control>,
    /// Use the debug build of the server, as CI does, in place of the release build
    #[arg(long)]
    debug: bool,
}

/// Which databases.
#[derive(Clone, Copy, ValueEnum)]
enum Databases {
    Sqlite,
    Postgres,
    Both,
}

impl Storm {
    /// Lets the storm pass on each database, and checks.
    pub fn run(self) -> anyhow::Result<()> {
        let programs = Programs::build(self.debug)?;
        let databases: &[Database] = match self.database {
            Databases::Sqlite => &[Database::Sqlite],
            Databases::Postgres => &[Database::Postgres],
            Databases::Both => &[Database::Sqlite, Database::Postgres],
        };
        for database in databases {
            println!("{} events, {} kills on {}", self.events, self.kills, name(database));
            let mut command = Command::new(&programs.harness);
            command.args(["storm", "--program"]).arg(&programs.server);
            command.args(["--events", &self.events.to_string()]);
            command.args(["--kills", &self.kills.to_string(), "--database", &name(database)]);
            command.args(self.seed.map(|seed| format!("--seed={seed}")));
            command.args(self.control.map(|control| format!("--control={}", name(&control))));
            process::run(&mut command)?;
        }
        Ok(())
    }

    /// The form that CI runs.
    pub fn short() -> anyhow::Result<()> {
        let (events, kills) = (SHORT_EVENTS, SHORT_KILLS);
        let whole = Storm {
            events,
            kills,
            database: Databases::Both,
            seed: None,
            control: None,
            debug: true,
        };
        whole.run()?;
        println!("control `{}`", name(&Control::Dedup));
        let (events, kills) = (CONTROL_EVENTS, CONTROL_KILLS);
        let control = Some(Control::Dedup);
        Storm { events, kills, database: Databases::Sqlite, seed: None, control, debug: true }.run()
    }
}
