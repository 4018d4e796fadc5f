//! The commands and the global flags.

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    alerts, audit, completions, deliveries, dlq, event_types, events, fixtures, inbox, jobs, keys,
    listen, man, operations, portal_link, profiles, schedules, sources, stats, tenants, top,
    trigger, verify, webhooks,
};
use crate::session::Session;

/// Where `wakepost serve` listens unless told otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8787";

/// The operator's tool for Wakepost.
#[derive(Parser)]
#[command(name = "webhookctl", version, arg_required_else_help = true, after_help = AFTER)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str =
    "Exit codes: 0, 1 failed, 2 usage, 3 not found, 4 not allowed, 5 server unreachable.";

/// What every command takes.
#[derive(Args)]
#[command(next_help_heading = "Server")]
pub struct Global {
    // The environment is read elsewhere: a profile is changed by flags alone, and help shows nobody's key.
    /// Where the server is [env: WAKEPOST_URL] [default: http://127.0.0.1:8787]
    #[arg(long, global = true)]
    pub url: Option<String>,
    /// The API key [env: WAKEPOST_KEY]
    #[arg(long, global = true)]
    pub key: Option<String>,
    /// Take what is not said from this profile [env: WAKEPOST_PROFILE]
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<String>,
    /// Act on this tenant (with a key for all tenants)
    #[arg(long, global = true, value_name = "SLUG")]
    pub tenant: Option<String>,
    /// Print the server's JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Events that came in, and what became of them
    #[command(subcommand)]
    Inbox(inbox::Inbox),
    /// Requests that were kept to be sent again
    #[command(subcommand)]
    Fixtures(fixtures::Fixtures),
    /// Agent work
    #[command(subcommand)]
    Jobs(jobs::Jobs),
    /// Jobs that are made again and again
    #[command(subcommand)]
    Schedules(schedules::Schedules),
    /// Dead letters: work that was given up
    #[command(subcommand)]
    Dlq(dlq::Dlq),
    /// Who may send webhooks
    #[command(subcommand)]
    Sources(sources::Sources),
    /// Send a source a realistic request, really signed
    Trigger(trigger::Trigger),
    /// Say why a saved request is accepted or refused, without a server
    Verify(verify::Verify),
    /// Who gets the events that you publish
    #[command(subcommand)]
    Webhooks(webhooks::Webhooks),
    /// Events that you publish
    #[command(subcommand)]
    Events(events::Events),
    /// The catalogue of what you publish
    #[command(subcommand)]
    EventTypes(event_types::EventTypes),
    /// Events on their way to a webhook, try by try
    #[command(subcommand)]
    Deliveries(deliveries::Deliveries),
    /// Make a link that opens a subscriber's own portal
    PortalLink(portal_link::PortalLink),
    /// How the queue stands: counts, limits, workers
    Stats(stats::Stats),
    /// Show events as they arrive, and pass them on to a local program
    Listen(Box<listen::Listen>),
    /// Watch lanes, rates, leases and circuits, live
    Top(top::Top),
    /// Bulk work: how far it is
    #[command(subcommand)]
    Operations(operations::Operations),
    /// What the server found out of order
    Alerts(alerts::Alerts),
    /// Who did what, when and why
    #[command(subcommand)]
    Audit(audit::Audit),
    /// API keys
    #[command(subcommand)]
    Keys(keys::Keys),
    /// Tenants
    #[command(subcommand)]
    Tenants(tenants::Tenants),
    /// Servers and keys by name, so that they need not be said each time
    #[command(subcommand)]
    Profiles(profiles::Profiles),
    /// Print completions for a shell
    Completions(completions::Completions),
    /// Write man pages
    Man(man::Man),
}

/// Reads the command line and does what it says. Wrong usage ends the program with code 2.
pub async fn run() -> anyhow::Result<()> {
    let cli = Cli::parse();
    // These need no server, and so no key.
    match &cli.command {
        Command::Verify(command) => return command.run(cli.global.json),
        Command::Profiles(command) => return command.run(&cli.global),
        Command::Completions(command) => return command.run(),
        Command::Man(command) => return command.run(),
        Command::Trigger(command) if command.new_keys => return command.make_keys(cli.global.json),
        Command::Trigger(command) if command.event.is_none() => return command.list_samples(),
        _ => {}
    }
    let session = Session::open(cli.global).await?;
    match cli.command {
        Command::Verify(_) | Command::Profiles(_) | Command::Completions(_) | Command::Man(_) => {
            Ok(())
        }
        Command::Trigger(command) => command.run(&session).await,
        Command::Inbox(command) => command.run(&session).await,
        Command::Fixtures(command) => command.run(&session).await,
        Command::Jobs(command) => command.run(&session).await,
        Command::Schedules(command) => command.run(&session).await,
        Command::Dlq(command) => command.run(&session).await,
        Command::Sources(command) => command.run(&session).await,
        Command::Webhooks(command) => command.run(&session).await,
        Command::Events(command) => command.run(&session).await,
        Command::EventTypes(command) => command.run(&session).await,
        Command::Deliveries(command) => command.run(&session).await,
        Command::PortalLink(command) => command.run(&session).await,
        Command::Stats(command) => command.run(&session).await,
        Command::Listen(command) => command.run(&session).await,
        Command::Top(command) => command.run(&session).await,
        Command::Operations(command) => command.run(&session).await,
        Command::Alerts(command) => command.run(&session).await,
        Command::Audit(command) => command.run(&session).await,
        Command::Keys(command) => command.run(&session).await,
        Command::Tenants(command) => command.run(&session).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
