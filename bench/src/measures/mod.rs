//! The measures, one a file. Each compares its arms in interleaved rounds and answers figures.

mod claim;
mod disk;
mod duplicates;
mod ingest;
mod memory;
mod paced;
mod peers;
mod profile;
mod refusals;
mod rounds;
mod start;
mod window;
mod worker;

use crate::bench::Bench;
use crate::figure::Figure;
use crate::load::Expected;
use crate::options::{Command, Subject};
use crate::report;

/// An event that is new.
const ACCEPTED: Expected = Expected { status: 202, word: "\"accepted\"" };

/// Measures what was asked for.
pub async fn run(bench: &Bench, command: Command) -> anyhow::Result<()> {
    let figures = match command {
        Command::All => return all(bench).await,
        Command::Ingest => ingest::figures(bench).await?,
        Command::Paced => paced::figures(bench).await?,
        Command::Duplicates => duplicates::figures(bench).await?,
        Command::Refusals => refusals::figures(bench).await?,
        Command::Claim => claim::figures(bench).await?,
        Command::Start => start::figures(bench).await?,
        Command::Peers => peers::figures(bench).await?,
        Command::Memory => memory::figures(bench).await?,
        Command::Disk => disk::figures(bench).await?,
        Command::Profile { subject: Subject::Ingest } => profile::ingest(bench).await?,
        Command::Profile { subject: Subject::Claim } => profile::claim(bench).await?,
        Command::ServeBare | Command::ServeCeiling { .. } => Vec::new(),
    };
    println!();
    report::print(bench, &figures);
    Ok(())
}

async fn all(bench: &Bench) -> anyhow::Result<()> {
    let mut figures: Vec<Figure> = Vec::new();
    figures.extend(ingest::figures(bench).await?);
    figures.extend(paced::figures(bench).await?);
    figures.extend(duplicates::figures(bench).await?);
    figures.extend(refusals::figures(bench).await?);
    figures.extend(claim::figures(bench).await?);
    figures.extend(start::figures(bench).await?);
    figures.extend(peers::figures(bench).await?);
    figures.extend(memory::figures(bench).await?);
    figures.extend(disk::figures(bench).await?);
    println!();
    report::print(bench, &figures);
    report::write(bench, &figures)
}
