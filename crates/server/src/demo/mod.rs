//! `wakepost demo`: one event all the way through, on a throw-away database, each step printed as it
//! happens.
//!
//! Nothing here is staged: the server is this same binary on SQLite, the event is really signed, the agent
//! is a command of its own that is really killed in the middle, and every line shows what the server said.

pub mod agent;
mod http;
mod sending;
mod slack;
mod story;

use std::process::ExitCode;

/// How the demo runs.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// Keep the demo's database and say where it is
    #[arg(long)]
    keep: bool,
}

/// Runs the demo.
pub async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let directory = tempfile::Builder::new().prefix("wakepost-demo-").tempdir()?;
    let told = story::tell(directory.path()).await;
    if args.keep {
        println!("\nThe demo's database is in {}", directory.keep().display());
    }
    told.map(|()| ExitCode::SUCCESS)
}
