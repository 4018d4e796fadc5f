//! The measures, one a file. Each compares its arms in interleaved rounds and answers figures.

mod claim;
mod curves;
mod deliver;
mod delivering;
mod disk;
mod duplicates;
mod flood;
mod fsync;
mod growth;
mod hooks;
mod ingest;
mod lanes;
mod memory;
mod nodes;
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
use crate::options::{Command, ROWS_MAX, ROWS_SHORT, ROWS_USUAL, Sizes, Subject};
use crate::report::{self, Section};
use nodes::Task;

/// An event that is new.
const ACCEPTED: Expected = Expected { status: 202, word: "\"accepted\"" };

/// Measures what was asked for.
pub async fn run(bench: &Bench, command: Command) -> anyhow::Result<()> {
    let short = bench.options.short;
    let mut section = Section::default();
    section.figures = match command {
        Command::All { full_growth, soak } => return all(bench, full_growth, soak).await,
        Command::Fsync => fsync::figures(bench).await?,
        Command::Ingest => ingest::figures(bench).await?,
        Command::Paced => paced::figures(bench).await?,
        Command::Duplicates => duplicates::figures(bench).await?,
        Command::Refusals => refusals::figures(bench).await?,
        Command::Flood => flood::figures(bench).await?,
        Command::Claim => claim::figures(bench).await?,
        Command::Start => start::figures(bench).await?,
        Command::Nodes => nodes(bench).await?,
        Command::Deliver => deliver::figures(bench).await?,
        Command::Publish => publish::figures(bench).await?,
        Command::Lanes => lanes::figures(bench).await?,
        Command::Peers => peers::figures(bench).await?,
        Command::Memory => memory::figures(bench).await?,
        Command::Disk => disk::figures(bench).await?,
        Command::Pages(wanted) => pages::figures(bench, wanted.sizes(short).events).await?,
        Command::Growth(wanted) => growth::figures(bench, wanted.sizes(short)).await?,
        Command::Curves { rows_max } => {
            section.curves = curves::curves(bench, rows_of_curves(bench, rows_max)).await?;
            Vec::new()
        }
        Command::Soak { minutes } => soak::figures(bench, minutes).await?,
        Command::Profile { subject: Subject::Ingest } => profile::ingest(bench).await?,
        Command::Profile { subject: Subject::Claim } => profile::claim(bench).await?,
        Command::ServeBare | Command::ServeReceiver | Command::ServeCeiling { .. } => Vec::new(),
    };
    println!();
    report::print(bench, &[section]);
    Ok(())
}

async fn all(bench: &Bench, full_growth: bool, soak: Option<u32>) -> anyhow::Result<()> {
    let mut ceilings = Section::new("Ceilings");
    ceilings.figures.extend(fsync::figures(bench).await?);

    let mut receiving = Section::new("Receiving");
    receiving.figures.extend(ingest::figures(bench).await?);
    receiving.figures.extend(paced::figures(bench).await?);
    receiving.figures.extend(duplicates::figures(bench).await?);
    receiving.figures.extend(refusals::figures(bench).await?);
    receiving.figures.extend(flood::figures(bench).await?);
    receiving.figures.extend(nodes::figures(bench, Task::Ingest).await?);

    let mut jobs = Section::new("Jobs");
    jobs.figures.extend(claim::figures(bench).await?);
    jobs.figures.extend(nodes::figures(bench, Task::Claim).await?);
    jobs.figures.extend(start::figures(bench).await?);
    jobs.figures.extend(peers::figures(bench).await?);

    let mut sending = Section::new("Sending");
    sending.figures.extend(deliver::figures(bench).await?);
    sending.figures.extend(publish::figures(bench).await?);
    sending.figures.extend(lanes::figures(bench).await?);

    let mut growth = Section::new("Growth");
    let sizes = Sizes::FULL.shrunk(if full_growth { 1 } else { 10 });
    let sizes = sizes.shrunk(if bench.options.short { 10 } else { 1 });
    growth.figures.extend(growth::figures(bench, sizes).await?);
    let rows_max = if full_growth { ROWS_MAX } else { ROWS_USUAL };
    growth.curves = curves::curves(bench, rows_of_curves(bench, rows_max)).await?;

    let mut operating = Section::new("Operating");
    operating.figures.extend(memory::figures(bench).await?);
    operating.figures.extend(disk::figures(bench).await?);
    operating.figures.extend(pages::figures(bench, sizes.events).await?);

    let mut soaked = Section::new("Soak");
    if let Some(minutes) = soak {
        soaked.figures.extend(soak::figures(bench, minutes).await?);
    }

    // What was measured beside others as what is possible at all.
    for section in [&mut receiving, &mut sending] {
        let figures = std::mem::take(&mut section.figures);
        let (of_ceilings, own) = figures.into_iter().partition(Figure::is_of_a_ceiling);
        ceilings.figures.extend::<Vec<Figure>>(of_ceilings);
        section.figures = own;
    }
    let sections = [ceilings, receiving, jobs, sending, growth, operating, soaked];
    println!();
    report::print(bench, &sections);
    report::write(bench, &sections)
}

async fn nodes(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let mut figures = nodes::figures(bench, Task::Ingest).await?;
    figures.extend(nodes::figures(bench, Task::Claim).await?);
    Ok(figures)
}

/// How large the curves' databases become. A short run has two sizes.
fn rows_of_curves(bench: &Bench, wanted: usize) -> usize {
    if bench.options.short { wanted.min(ROWS_SHORT) } else { wanted }
}
