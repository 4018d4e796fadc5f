//! The measures, one a file. Each compares its arms in interleaved rounds and answers figures.

mod claim;
mod deliver;
mod delivering;
mod disk;
mod duplicates;
mod flood;
mod growth;
mod hooks;
mod ingest;
mod lanes;
mod memory;
mod paced;
mod pages;
mod peers;
mod profile;
mod publish;
mod refusals;
mod restart;
mod rounds;
mod rows_read;
mod soak;
mod start;
mod timed;
mod turns;
mod window;
mod worker;

use crate::bench::Bench;
use crate::figure::Figure;
use crate::load::Expected;
use crate::options::{Command, Sizes, Subject};
use crate::report;

/// An event that is new.
const ACCEPTED: Expected = Expected { status: 202, word: "\"accepted\"" };

/// Measures what was asked for.
pub async fn run(bench: &Bench, command: Command) -> anyhow::Result<()> {
    let figures = match command {
        Command::All { full_growth } => return all(bench, full_growth).await,
        Command::Ingest => ingest::figures(bench).await?,
        Command::Paced => paced::figures(bench).await?,
        Command::Duplicates => duplicates::figures(bench).await?,
        Command::Refusals => refusals::figures(bench).await?,
        Command::Flood => flood::figures(bench).await?,
        Command::Claim => claim::figures(bench).await?,
        Command::Start => start::figures(bench).await?,
        Command::Deliver => deliver::figures(bench).await?,
        Command::Publish => publish::figures(bench).await?,
        Command::Lanes => lanes::figures(bench).await?,
        Command::Peers => peers::figures(bench).await?,
        Command::Memory => memory::figures(bench).await?,
        Command::Disk => disk::figures(bench).await?,
        Command::Pages(wanted) => {
            pages::figures(bench, wanted.sizes(bench.options.short).events).await?
        }
        Command::Growth(wanted) => {
            growth::figures(bench, wanted.sizes(bench.options.short)).await?
        }
        Command::Soak { minutes } => soak::figures(bench, minutes).await?,
        Command::Profile { subject: Subject::Ingest } => profile::ingest(bench).await?,
        Command::Profile { subject: Subject::Claim } => profile::claim(bench).await?,
        Command::ServeBare | Command::ServeReceiver | Command::ServeCeiling { .. } => Vec::new(),
    };
    println!();
    report::print(bench, &figures);
    Ok(())
}

async fn all(bench: &Bench, full_growth: bool) -> anyhow::Result<()> {
    let mut figures: Vec<Figure> = Vec::new();
    figures.extend(ingest::figures(bench).await?);
    figures.extend(paced::figures(bench).await?);
    figures.extend(duplicates::figures(bench).await?);
    figures.extend(refusals::figures(bench).await?);
    figures.extend(flood::figures(bench).await?);
    figures.extend(claim::figures(bench).await?);
    figures.extend(start::figures(bench).await?);
    figures.extend(deliver::figures(bench).await?);
    figures.extend(publish::figures(bench).await?);
    figures.extend(lanes::figures(bench).await?);
    figures.extend(peers::figures(bench).await?);
    figures.extend(memory::figures(bench).await?);
    figures.extend(disk::figures(bench).await?);
    let sizes = Sizes::FULL.shrunk(if full_growth { 1 } else { 10 });
    let sizes = sizes.shrunk(if bench.options.short { 10 } else { 1 });
    figures.extend(growth::figures(bench, sizes).await?);
    figures.extend(pages::figures(bench, sizes.events).await?);
    println!();
    report::print(bench, &figures);
    report::write(bench, &figures)
}
