//! The commands, one file each.

mod bench;
mod ci;
mod postgres;
mod test;

/// The list of commands.
#[derive(clap::Subcommand)]
pub enum Command {
    Test(test::Test),
    Ci(ci::Ci),
    Bench(bench::Bench),
    Postgres(postgres::Postgres),
}

impl Command {
    /// Runs the command to its end.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Test(command) => command.run(),
            Self::Ci(command) => command.run(),
            Self::Bench(command) => command.run(),
            Self::Postgres(command) => command.run(),
        }
    }
}
