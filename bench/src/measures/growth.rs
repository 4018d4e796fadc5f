//! What growth costs: claims on a database with a large backlog, many tenants and a long history, against one
//! that holds nothing but the jobs to be claimed.

use std::collections::BTreeMap;
use std::time::Instant;

use wakepost_domain::fair::TURN_MAX;

use super::claim::{WORKERS, work_off, workers};
use super::rounds::{by_arm, order, rounds};
use super::window::Spent;
use super::{restart, rows_read, turns};
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit, thousands};
use crate::options::Sizes;
use crate::seed::{self, Rows, Seed, Tenants};
use crate::world::gateway::{Gateway, Kind};

const BATCH: usize = 100;
/// How many jobs a round drains on each arm.
const JOBS: usize = 50_000;
/// Drained first, uncounted, by a server that was just started.
const WARM_UP: usize = 5_000;
/// How many more than asked for the workers may take.
const SPARE: usize = WORKERS * BATCH;
/// Numbers of seeded tenants: far above those that the product gives out meanwhile. The first has the backlog,
/// the others a few jobs each.
const LARGE: Tenants = Tenants { first: 100_000, count: 1 };
const FIRST_SMALL: i32 = 100_001;

/// The figures of the spec.
pub async fn figures(bench: &Bench, sizes: Sizes) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for kind in bench.databases() {
        figures.extend(of_one(bench, kind, sizes).await?);
    }
    figures.extend(restart::figures(bench, sizes.events).await?);
    Ok(figures)
}

async fn of_one(bench: &Bench, kind: Kind, sizes: Sizes) -> anyhow::Result<Vec<Figure>> {
    let mut empty = Empty::new(bench, kind).await?;
    let mut grown = grown(bench, kind, sizes).await?;
    println!("claim on grown {kind}: one job of each tenant first, uncounted");
    work_off(workers(&grown, BATCH).await?, warm_up(sizes)).await?;
    let large = seed::slug(LARGE.first);
    let seen = rounds(bench, async |round| {
        let mut rates = BTreeMap::new();
        for arm in order(round, 3) {
            let rate = match arm {
                0 => empty.rate(bench, round).await?,
                1 => rate(bench, &grown, None, round, "grown").await?,
                _ => rate(bench, &grown, Some(&large), round, "grown, one tenant").await?,
            };
            rates.insert(arm, rate);
        }
        Ok(rates.into_values().collect())
    });
    let mut arms = by_arm(seen.await?).into_iter();
    let mut next = || arms.next().unwrap_or_default();
    let mut figures = ratios(kind, sizes, [next(), next(), next()]);
    figures.push(turns::figure(bench, &grown).await?);
    if kind == Kind::Postgres {
        empty.fill(rows_read::jobs(WARM_UP)).await?;
        let few = rows_read::each(bench, &mut empty.gateway, WARM_UP).await?;
        grown.child.stop().await?;
        let many = rows_read::each(bench, &mut grown, warm_up(sizes)).await?;
        let name = "rows read for each job leased and finished";
        figures.push(Figure::new(format!("{name}, empty"), kind, Unit::Count, vec![few]));
        figures.push(Figure::new(format!("{name}, grown"), kind, Unit::Count, vec![many]));
        let ratio = vec![few / many.max(f64::MIN_POSITIVE)];
        let ratio = Figure::new(format!("{name}, empty / grown"), kind, Unit::Ratio, ratio);
        figures.push(ratio.held_to(Target::AtLeast(0.7), Target::AtLeast(0.95)));
    } else {
        empty.gateway.child.stop().await?;
        grown.child.stop().await?;
    }
    empty.gateway.discard(bench).await?;
    grown.discard(bench).await?;
    Ok(figures)
}

fn ratios(kind: Kind, sizes: Sizes, arms: [Vec<f64>; 3]) -> Vec<Figure> {
    let [empty, all, one] = arms;
    let against_empty =
        |rates: &[f64]| rates.iter().zip(&empty).map(|(rate, empty)| rate / empty).collect();
    let [backlog, tenants, finished] =
        [sizes.backlog, sizes.tenants, sizes.finished].map(|size| thousands(size as f64));
    let grown = format!("{backlog} waiting, {tenants} tenants, {finished} finished");
    vec![
        Figure::new(format!("claims with {grown} / empty"), kind, Unit::Ratio, against_empty(&all))
            .held_to(Target::AtLeast(0.7), Target::AtLeast(0.95)),
        Figure::new(
            "the same, by workers of the one tenant with the backlog",
            kind,
            Unit::Ratio,
            against_empty(&one),
        ),
        Figure::new("jobs leased and finished, empty", kind, Unit::PerSecond, empty),
        Figure::new("jobs leased and finished, grown", kind, Unit::PerSecond, all),
        Figure::new("jobs leased and finished, grown, one tenant", kind, Unit::PerSecond, one),
    ]
}

/// Enough that every tenant had its turn: its key and its lane are then known to the server.
fn warm_up(sizes: Sizes) -> usize {
    WARM_UP.max(sizes.tenants + SPARE)
}

/// A database that holds next to nothing but the jobs to be claimed.
struct Empty {
    gateway: Gateway,
}

impl Empty {
    async fn new(bench: &Bench, kind: Kind) -> anyhow::Result<Empty> {
        let mut gateway = Gateway::start(bench, kind).await?;
        gateway.child.stop().await?;
        let mut seed = Seed::open(&gateway).await?;
        seed.lanes(Tenants::DEFAULT).await?;
        seed.close().await?;
        gateway.start_again(bench).await?;
        Ok(Empty { gateway })
    }

    /// Stops the server and puts jobs in.
    async fn fill(&mut self, jobs: usize) -> anyhow::Result<()> {
        self.gateway.child.stop().await?;
        let mut seed = Seed::open(&self.gateway).await?;
        seed.waiting(Tenants::DEFAULT, jobs).await?;
        seed.close().await
    }

    async fn rate(&mut self, bench: &Bench, round: u32) -> anyhow::Result<f64> {
        self.fill(WARM_UP + bench.options.count(JOBS) + 2 * SPARE).await?;
        self.gateway.start_again(bench).await?;
        work_off(workers(&self.gateway, BATCH).await?, WARM_UP).await?;
        rate(bench, &self.gateway, None, round, "empty").await
    }
}

/// A database that has grown. Its server runs.
async fn grown(bench: &Bench, kind: Kind, sizes: Sizes) -> anyhow::Result<Gateway> {
    let mut gateway = Gateway::start(bench, kind).await?;
    gateway.child.stop().await?;
    let small = Tenants { first: FIRST_SMALL, count: sizes.tenants };
    let few = taken_from_small(bench, sizes).div_ceil(sizes.tenants) + 10;
    let large = sizes.backlog + 2 * bench.options.rounds() as usize * taken_in_a_round(bench);
    let rows =
        Rows { waiting: large + few * sizes.tenants, finished: sizes.finished, ..Rows::default() };
    seed::room(bench, &gateway, rows).await?;
    let began = Instant::now();
    let mut seed = Seed::open(&gateway).await?;
    for tenants in [LARGE, small] {
        seed.tenants(tenants).await?;
        seed.lanes(tenants).await?;
    }
    seed.finished(small, sizes.finished / sizes.tenants).await?;
    seed.waiting(LARGE, large).await?;
    seed.waiting(small, few).await?;
    seed.close().await?;
    println!("seeded {kind} with {rows:?} in {:.0} s", began.elapsed().as_secs_f64());
    let took = gateway.start_again(bench).await?;
    println!("{kind} started on it in {:.0} ms", took.as_secs_f64() * 1000.0);
    Ok(gateway)
}

fn taken_in_a_round(bench: &Bench) -> usize {
    bench.options.count(JOBS) + SPARE
}

/// The tenants must all have jobs to the end, however many rounds are run again.
fn taken_from_small(bench: &Bench, sizes: Sizes) -> usize {
    warm_up(sizes)
        + 2 * bench.options.rounds() as usize * taken_in_a_round(bench)
        + turns::TRIALS * (2 * TURN_MAX as usize * sizes.tenants + SPARE)
        + rows_read::jobs(warm_up(sizes))
}

/// Jobs a second, leased and finished by workers of all tenants or of one.
async fn rate(
    bench: &Bench,
    gateway: &Gateway,
    tenant: Option<&str>,
    round: u32,
    what: &str,
) -> anyhow::Result<f64> {
    let workers = workers(gateway, BATCH).await?.into_iter();
    let workers = workers.map(|worker| match tenant {
        Some(slug) => worker.of_tenant(slug),
        None => worker,
    });
    let before = Spent::so_far(bench, gateway);
    let (done, took) = work_off(workers.collect(), bench.options.count(JOBS)).await?;
    let after = Spent::so_far(bench, gateway);
    let (server_us, database_us, generator_us) = after.each(before, done as u64);
    let others = after.others(bench, before) * 100.0;
    let rate = done as f64 / took.as_secs_f64();
    println!(
        "round {:>2}  claim {} {what:<18} {rate:>8.0} jobs/s   CPU µs each: server {server_us:>5.1}, \
         database {database_us:>5.1}, generator {generator_us:>5.1}; others took {others:.0} %",
        round + 1,
        gateway.kind,
    );
    Ok(rate)
}
