//! placeholder
pub mod agent;
use std::process::ExitCode;
/// Args.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {}
/// Run.
pub async fn run(_args: DemoArgs) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
