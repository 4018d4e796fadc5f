//! Several nodes over one PostgreSQL: what two and four of them do together, against what one does. They share the cores
//! of one machine with the database and the load, so more cannot be expected; less would mean that they are in each
//! other's way.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;

use super::ACCEPTED;
use super::claim::{WORKERS, work_off};
use super::rounds::{by_arm, order, rounds};
use super::window::{Spent, load};
use super::worker::{Worker, create};
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::load::Load;
use crate::load::closed::closed;
use crate::world::gateway::{Gateway, Kind};

/// How many nodes; the first is what the others are held against.
const NODES: [usize; 3] = [1, 2, 4];
/// In all, whatever the number of nodes.
const CONNECTIONS: usize = 64;
const BATCH: usize = 100;
const JOBS: usize = 50_000;
/// Of what one node does, so much must be left.
const MUST: f64 = 0.8;

/// What so many nodes did together.
#[derive(Debug, Clone, Copy)]
struct Done {
    rate: f64,
    /// CPU of all nodes, in microseconds for each event or job.
    server_us: f64,
    database_us: f64,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    Ingest,
    Claim,
}

/// The figures. None where PostgreSQL is not measured.
pub async fn figures(bench: &Bench, task: Task) -> anyhow::Result<Vec<Figure>> {
    if !bench.databases().contains(&Kind::Postgres) {
        return Ok(Vec::new());
    }
    let mut first = Gateway::start(bench, Kind::Postgres).await?;
    first.child.stop().await?;
    let seen = rounds(bench, async |round| {
        let mut seen = BTreeMap::new();
        for index in order(round, NODES.len()) {
            seen.insert(index, one(bench, &mut first, task, NODES[index], round).await?);
        }
        Ok(seen.into_values().collect())
    });
    let arms = by_arm(seen.await?);
    first.discard(bench).await?;
    Ok(told(task, &arms))
}

/// Lets so many nodes work. Those of another arm do not run meanwhile: an idle node is not free.
async fn one(
    bench: &Bench,
    first: &mut Gateway,
    task: Task,
    count: usize,
    round: u32,
) -> anyhow::Result<Done> {
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(first.node(bench).await?);
    }
    if task == Task::Claim {
        create(&mut nodes[0].api().await?, bench.options.count(JOBS)).await?;
    }
    let before = Spent::of_nodes(bench, &nodes);
    let (rate, things) = match task {
        Task::Ingest => ingest(bench, &nodes).await?,
        Task::Claim => claim(bench, &nodes).await?,
    };
    let after = Spent::of_nodes(bench, &nodes);
    let (server_us, database_us, generator_us) = after.each(before, things);
    println!(
        "round {:>2}  {:<34} {rate:>8.0}/s   CPU µs each: servers {server_us:>5.1}, database \
         {database_us:>5.1}, generator {generator_us:>5.1}; others took {:.0} %",
        round + 1,
        format!("{task:?} by {count} nodes").to_lowercase(),
        after.others(bench, before) * 100.0
    );
    for mut node in nodes {
        node.child.stop().await?;
    }
    Ok(Done { rate, server_us, database_us })
}

/// Events a second, and how many in all.
async fn ingest(bench: &Bench, nodes: &[Gateway]) -> anyhow::Result<(f64, u64)> {
    let mut loads = Vec::new();
    for node in nodes {
        let load = load(bench, node.events()?, ACCEPTED, CONNECTIONS / nodes.len());
        let threads = (load.threads / nodes.len()).max(1);
        loads.push(closed(Load { threads, ..load }));
    }
    let seen = try_join_all(loads).await?;
    let rate = seen.iter().map(|seen| seen.rate()).sum();
    Ok((rate, seen.iter().map(|seen| seen.exchanges).sum()))
}

/// Jobs a second, and how many in all.
async fn claim(bench: &Bench, nodes: &[Gateway]) -> anyhow::Result<(f64, u64)> {
    let mut workers = Vec::new();
    for name in 0..WORKERS {
        let node = &nodes[name % nodes.len()];
        workers.push(Worker::new(node.api().await?, name, BATCH, 1));
    }
    let jobs = bench.options.count(JOBS);
    let (finished, took) = work_off(workers, jobs).await?;
    anyhow::ensure!(finished == jobs, "{finished} jobs were finished in place of {jobs}");
    Ok((jobs as f64 / took.as_secs_f64(), jobs as u64))
}

fn told(task: Task, arms: &[Vec<Done>]) -> Vec<Figure> {
    let (what, each) = match task {
        Task::Ingest => ("durable ingest", "event"),
        Task::Claim => ("jobs leased and finished in batches of 100", "job"),
    };
    let mut figures = Vec::new();
    for (count, done) in NODES.into_iter().zip(arms) {
        let figure = |name: String, unit, rounds| Figure::new(name, Kind::Postgres, unit, rounds);
        let by = if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") };
        if count > 1 {
            let ratios = done.iter().zip(&arms[0]).map(|(many, one)| many.rate / one.rate);
            let name = format!("{what} by {by} / by one");
            let ratio = figure(name, Unit::Ratio, ratios.collect());
            figures.push(ratio.bound_to(Target::AtLeast(MUST)));
        }
        let column = |of: fn(&Done) -> f64| done.iter().map(of).collect();
        figures.extend([
            figure(format!("{what} by {by}"), Unit::PerSecond, column(|done| done.rate)),
            figure(
                format!("{what} by {by}: CPU of all nodes per {each}"),
                Unit::Micros,
                column(|done| done.server_us),
            ),
            figure(
                format!("{what} by {by}: database CPU per {each}"),
                Unit::Micros,
                column(|done| done.database_us),
            ),
        ]);
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_nodes_are_held_against_one_round_by_round() {
        let done = |rate| Done { rate, server_us: 1.0, database_us: 1.0 };
        let arms = [vec![done(10.0), done(40.0)], vec![done(5.0), done(20.0)]];
        let ratio = &told(Task::Ingest, &arms)[3];
        assert_eq!(ratio.median(), 0.5);
    }
}
