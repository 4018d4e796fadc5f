//! Growth curves: what is measured on small and on ever larger databases, of which each is seeded on from the one before.
//!
//! Claims, ingest and deliveries are ratios: a copy of the grown database and a copy of the smallest take turns, so that
//! what else the machine does falls on both, and what a measure adds by itself is on both sides. Pages and starts are
//! as they are.

use std::collections::BTreeMap;
use std::time::Instant;

use super::ACCEPTED;
use super::claim::{work_off, workers};
use super::deliver::subscribe;
use super::delivering::deliver;
use super::pages::{PAGES, Reader};
use super::rounds::{by_arm, order, rounds};
use super::window::{Spent, load, window};
use super::worker::create;
use crate::bench::Bench;
use crate::curve::Curve;
use crate::figure::{Target, Unit, thousands};
use crate::load::Load;
use crate::load::closed::closed;
use crate::plot::Plot;
use crate::seed::{self, Rows, Seed, Tenants};
use crate::world::gateway::{Gateway, Kind};
use crate::world::receiver::Receiver;

/// Each size is ten times the one before.
const SMALLEST: usize = 1_000;
/// Larger ones are not copied: only claims are measured on them beside pages and starts, and on the database itself.
const COPIED_MAX: usize = 1_000_000;
/// Of the dashboard's pages, those that list or open what grows.
const GROWING: [&str; 4] = ["inbox", "inbox by status", "event", "jobs"];
const BATCH: usize = 100;
const JOBS: usize = 20_000;
/// Drained first, uncounted.
const WARM_UP: usize = 2_000;
const EVENT_TYPE: &str = "bench.grown";
const CONNECTIONS: usize = 64;

/// What takes turns on a copy of the grown database and one of the smallest.
#[derive(Debug, Clone, Copy)]
enum Compared {
    Claims,
    Ingest,
    Deliveries,
}

/// The curves of one database.
struct Curves {
    claims: Curve,
    ingest: Curve,
    deliveries: Curve,
    starts: Curve,
    pages: Vec<Curve>,
}

/// The curves, up to so many rows.
pub async fn curves(bench: &Bench, rows_max: usize) -> anyhow::Result<Vec<Curve>> {
    let mut curves = Vec::new();
    for kind in bench.databases() {
        curves.extend(of_one(bench, kind, rows_max).await?);
    }
    // Databases side by side, figure by figure.
    curves.sort_by_key(|(place, _)| *place);
    Ok(curves.into_iter().map(|(_, curve)| curve).collect())
}

fn sizes(rows_max: usize) -> impl Iterator<Item = usize> {
    let next = move |size: &usize| size.checked_mul(10).filter(|size| *size <= rows_max);
    std::iter::successors(Some(SMALLEST), next)
}

async fn of_one(bench: &Bench, kind: Kind, rows_max: usize) -> anyhow::Result<Vec<(usize, Curve)>> {
    let mut curves = Curves::new(kind);
    let mut grown = Gateway::start(bench, kind).await?;
    grown.child.stop().await?;
    seed::room(bench, &grown, rows(sizes(rows_max).last().unwrap_or(SMALLEST))).await?;
    let mut smallest = None;
    let mut seeded = 0;
    for size in sizes(rows_max) {
        grow(&grown, seeded, size).await?;
        seeded = size;
        if smallest.is_none() {
            let mut copy = grown.copy(bench).await?;
            copy.child.stop().await?;
            smallest = Some(copy);
        }
        let Some(smallest) = &smallest else { continue };
        looked_at(bench, &mut grown, size, &mut curves).await?;
        let small = smallest.copy(bench).await?;
        if size > COPIED_MAX {
            grown.start_again(bench).await?;
            let arms = [small, grown];
            compared(bench, &arms, size, Compared::Claims, &mut curves).await?;
            let [small, back] = arms;
            ended(bench, small).await?;
            grown = back;
            grown.child.stop().await?;
        } else {
            let arms = [small, grown.copy(bench).await?];
            for what in [Compared::Claims, Compared::Ingest, Compared::Deliveries] {
                compared(bench, &arms, size, what, &mut curves).await?;
            }
            for arm in arms {
                ended(bench, arm).await?;
            }
        }
    }
    if let Some(smallest) = smallest {
        smallest.discard(bench).await?;
    }
    grown.discard(bench).await?;
    Ok(curves.all())
}

/// So many events with their finished jobs, and as many jobs that wait.
fn rows(size: usize) -> Rows {
    Rows { events: size, waiting: size, ..Rows::default() }
}

/// Adds what a size has more than the one before.
async fn grow(gateway: &Gateway, seeded: usize, size: usize) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut seed = Seed::open(gateway).await?;
    if seeded == 0 {
        seed.lanes(Tenants::DEFAULT).await?;
    }
    seed.waiting(Tenants::DEFAULT, size - seeded).await?;
    seed.events(Tenants::DEFAULT, size - seeded).await?;
    seed.close().await?;
    println!(
        "{} grew to {} events with finished jobs and as many jobs that wait, in {:.1} s",
        gateway.kind,
        thousands(size as f64),
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

async fn ended(bench: &Bench, mut gateway: Gateway) -> anyhow::Result<()> {
    gateway.child.stop().await?;
    gateway.discard(bench).await
}

/// Starts and pages, on the database itself: they leave nothing in it.
async fn looked_at(
    bench: &Bench,
    grown: &mut Gateway,
    size: usize,
    curves: &mut Curves,
) -> anyhow::Result<()> {
    let seen = rounds(bench, async |_| {
        let mut seen = vec![grown.start_again(bench).await?.as_secs_f64() * 1000.0];
        let mut reader = Reader::sign_in(grown).await?;
        for name in GROWING {
            let path = PAGES.iter().find(|(page, _)| *page == name).map_or("/", |(_, path)| path);
            seen.push(reader.p95(path).await?);
        }
        grown.child.stop().await?;
        Ok(seen)
    });
    let mut arms = by_arm(seen.await?).into_iter();
    curves.starts.at(size, arms.next().unwrap_or_default());
    for (curve, millis) in curves.pages.iter_mut().zip(arms) {
        curve.at(size, millis);
    }
    Ok(())
}

/// Lets the two take turns.
async fn compared(
    bench: &Bench,
    arms: &[Gateway; 2],
    size: usize,
    what: Compared,
    curves: &mut Curves,
) -> anyhow::Result<()> {
    let receiver = Receiver::start().await?;
    for arm in arms {
        // Once uncounted: connections, plans and caches of a server that was just started.
        match what {
            Compared::Claims => drop(claims(arm, WARM_UP).await?),
            Compared::Ingest => drop(closed(next(bench, arm)?).await?),
            Compared::Deliveries => {
                subscribe(arm, &receiver, EVENT_TYPE, 1).await?;
                deliver(bench, arm, &receiver, EVENT_TYPE, 1).await?;
            }
        }
    }
    let seen = rounds(bench, async |round| {
        let mut rates = BTreeMap::new();
        for index in order(round, arms.len()) {
            let arm = &arms[index];
            let before = Spent::beside(bench, Some(arm), receiver.child.pid);
            let rate = match what {
                Compared::Claims => claims(arm, bench.options.count(JOBS)).await?,
                Compared::Ingest => window(bench, arm, closed(next(bench, arm)?)).await?.rate,
                Compared::Deliveries => deliver(bench, arm, &receiver, EVENT_TYPE, 1).await?.rate(),
            };
            let others = Spent::beside(bench, Some(arm), receiver.child.pid).others(bench, before);
            rates.insert(index, (rate, others));
        }
        let both: Vec<(f64, f64)> = rates.into_values().collect();
        let [(small, _), (many, others)] = both[..] else { anyhow::bail!("an arm is missing") };
        println!(
            "round {:>2}  {:<10} on {:<10} with {:>10} rows {many:>8.0}/s, with {SMALLEST} {small:>8.0}/s; others \
             took {:.0} %",
            round + 1,
            format!("{what:?}").to_lowercase(),
            arms[0].kind,
            thousands(size as f64),
            others * 100.0
        );
        Ok(many / small.max(f64::MIN_POSITIVE))
    });
    let ratios = seen.await?;
    match what {
        Compared::Claims => curves.claims.at(size, ratios),
        Compared::Ingest => curves.ingest.at(size, ratios),
        Compared::Deliveries => curves.deliveries.at(size, ratios),
    }
    Ok(())
}

fn next(bench: &Bench, gateway: &Gateway) -> anyhow::Result<Load> {
    Ok(load(bench, gateway.events()?, ACCEPTED, CONNECTIONS))
}

/// Jobs a second, leased and finished while others wait: as many as are finished were made before.
async fn claims(gateway: &Gateway, jobs: usize) -> anyhow::Result<f64> {
    create(&mut gateway.api().await?, jobs).await?;
    let (done, took) = work_off(workers(gateway, BATCH).await?, jobs).await?;
    Ok(done as f64 / took.as_secs_f64())
}

impl Curves {
    fn new(kind: Kind) -> Curves {
        let ratio = |name: &str, must: f64| {
            let curve = Curve::new(name, kind, Unit::Ratio).drawn(Plot::Growth);
            curve.bound_to(Target::AtLeast(must))
        };
        let page = |name: &str| {
            let name = format!("page `{name}`, p95");
            let curve = Curve::new(name, kind, Unit::Millis).drawn(Plot::Pages);
            curve.bound_to(Target::Below(50.0))
        };
        Curves {
            claims: ratio("claims", 0.7),
            ingest: ratio("ingest", 0.7),
            deliveries: ratio("deliveries", 0.7),
            starts: Curve::new("start of the server", kind, Unit::Millis)
                .drawn(Plot::Growth)
                .bound_to(Target::Below(300.0)),
            pages: GROWING.into_iter().map(page).collect(),
        }
    }

    /// With each one's place among all.
    fn all(self) -> Vec<(usize, Curve)> {
        let first = [self.claims, self.ingest, self.deliveries, self.starts];
        first.into_iter().chain(self.pages).enumerate().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_ten_up_to_the_largest_asked_for() {
        assert_eq!(sizes(1_000_000).collect::<Vec<_>>(), [1_000, 10_000, 100_000, 1_000_000]);
        assert_eq!(sizes(20_000).collect::<Vec<_>>(), [1_000, 10_000]);
        assert_eq!(sizes(10).collect::<Vec<_>>(), [1_000]);
    }

    #[test]
    fn every_page_that_grows_is_a_page() {
        for name in GROWING {
            assert!(PAGES.iter().any(|(page, _)| *page == name), "{name}");
        }
    }
}
