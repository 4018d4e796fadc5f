//! `cargo xtask crash`: kills the server at random moments and checks what its clients were told.

use std::path::PathBuf;
use std::process::Command;

use clap::ValueEnum;
use xtask::process::{self, cargo};
use xtask::workspace;

/// Kills in the short form that CI runs.
const SHORT_SQLITE: u32 = 30;
const SHORT_POSTGRES: u32 = 8;
/// The same while events are published and delivered.
const SHORT_OUTBOUND_SQLITE: u32 = 30;
const SHORT_OUTBOUND_POSTGRES: u32 = 8;
/// Where a promise is broken on purpose.
const SHORT_CONTROL: u32 = 3;

/// Kill the server at random moments under load, and check that nothing is lost, doubled or stuck.
///
/// Ends with 1 and a plain description if a promise is broken. The seed that is printed repeats the
/// choices of a run, not its moments.
#[derive(clap::Args)]
pub struct Crash {
    /// Publish events and receive their deliveries, in place of sending events and working on their jobs
    #[arg(long)]
    outbound: bool,
    /// How many kills
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Which database; on PostgreSQL there are two nodes, and its server is killed too
    #[arg(long, value_enum, default_value_t = Database::Sqlite)]
    database: Database,
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

/// Which database.
#[derive(Clone, Copy, ValueEnum)]
pub enum Database {
    Sqlite,
    Postgres,
}

/// A promise to break. Not every load needs every promise: the harness refuses what its load would not notice.
#[derive(Clone, Copy, ValueEnum)]
pub enum Control {
    Dedup,
    /// Not with --outbound
    Fencing,
    /// Not with --outbound
    Order,
    /// Only with --outbound: each delivery is made twice
    Twice,
    /// Only with --outbound: tries that failed are forgotten
    Attempt,
    /// Only with --outbound: some deliveries are gone once they ended
    Lost,
}

impl Crash {
    /// Kills and checks.
    pub fn run(self) -> anyhow::Result<()> {
        let programs = Programs::build(self.debug)?;
        let mut command = Command::new(&programs.harness);
        let load = if self.outbound { "outbound" } else { "kill" };
        command.args([load, "--program"]).arg(&programs.server);
        command.args(["--kills", &self.kills.to_string(), "--database", &name(&self.database)]);
        command.args(self.seed.map(|seed| format!("--seed={seed}")));
        command.args(self.control.map(|control| format!("--control={}", name(&control))));
        process::run(&mut command)
    }

    /// The form that CI runs.
    pub fn short() -> anyhow::Result<()> {
        for (outbound, database, kills, control) in [
            (false, Database::Sqlite, SHORT_SQLITE, None),
            (false, Database::Postgres, SHORT_POSTGRES, None),
            (false, Database::Sqlite, SHORT_CONTROL, Some(Control::Fencing)),
            (true, Database::Sqlite, SHORT_OUTBOUND_SQLITE, None),
            (true, Database::Postgres, SHORT_OUTBOUND_POSTGRES, None),
            (true, Database::Sqlite, SHORT_CONTROL, Some(Control::Lost)),
        ] {
            let load = if outbound { " while events are delivered" } else { "" };
            let on_purpose = control.map(|control| format!(", control `{}`", name(&control)));
            println!(
                "{kills} kills on {}{load}{}",
                name(&database),
                on_purpose.unwrap_or_default()
            );
            Crash { outbound, kills, database, seed: None, control, debug: true }.run()?;
        }
        Ok(())
    }
}

/// The name of a choice on the command line.
pub fn name(choice: &impl ValueEnum) -> String {
    let shown = choice.to_possible_value().expect("no choice is hidden");
    shown.get_name().to_owned()
}

/// The programs that crash and are crashed.
pub struct Programs {
    /// The server.
    pub server: PathBuf,
    /// What crashes it, always a debug build: it waits more than it works.
    pub harness: PathBuf,
}

impl Programs {
    /// Builds them.
    pub fn build(debug: bool) -> anyhow::Result<Programs> {
        let (profile, flag) = if debug { ("debug", None) } else { ("release", Some("--release")) };
        process::run(cargo().args(["build", "-p", "wakepost-server"]).args(flag))?;
        process::run(cargo().args(["build", "-p", "wakepost-crash"]))?;
        Ok(Programs {
            server: workspace::bin_dir(profile)?.join("wakepost"),
            harness: workspace::bin_dir("debug")?.join("wakepost-crash"),
        })
    }
}
