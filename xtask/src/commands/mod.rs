//! The commands, one file each.

mod addresses;
mod bench;
mod browser;
mod ci;
mod crash;
mod deploy_check;
mod fixture;
mod fuzz;
mod newcomer;
mod postgres;
mod powercut;
mod schema_check;
mod sdk_check;
mod sdk_kills;
mod simulate;
mod storm;
mod test;

/// The list of commands.
#[derive(clap::Subcommand)]
pub enum Command {
    Test(test::Test),
    Ci(ci::Ci),
    Crash(crash::Crash),
    Powercut(powercut::Powercut),
    Storm(storm::Storm),
    Simulate(simulate::Simulate),
    Fuzz(fuzz::Fuzz),
    Bench(bench::Bench),
    Browser(browser::Browser),
    Addresses(addresses::Addresses),
    SchemaCheck(schema_check::SchemaCheck),
    SdkCheck(sdk_check::SdkCheck),
    SdkKills(sdk_kills::SdkKills),
    DeployCheck(deploy_check::DeployCheck),
    Newcomer(newcomer::Newcomer),
    Fixture(fixture::Fixture),
    Postgres(postgres::Postgres),
}

impl Command {
    /// Runs the command to its end.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Test(command) => command.run(),
            Self::Ci(command) => command.run(),
            Self::Crash(command) => command.run(),
            Self::Powercut(command) => command.run(),
            Self::Storm(command) => command.run(),
            Self::Simulate(command) => command.run(),
            Self::Fuzz(command) => command.run(),
            Self::Bench(command) => command.run(),
            Self::Browser(command) => command.run(),
            Self::Addresses(command) => command.run(),
            Self::SchemaCheck(command) => command.run(),
            Self::SdkCheck(command) => command.run(),
            Self::SdkKills(command) => command.run(),
            Self::DeployCheck(command) => command.run(),
            Self::Newcomer(command) => command.run(),
            Self::Fixture(command) => command.run(),
            Self::Postgres(command) => command.run(),
        }
    }
}
