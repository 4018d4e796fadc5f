//! The disk's own ceiling: how many small writes at the end of a file it makes durable, one after the other; and how
//! near to it events come that are sent one after the other, each with a commit of its own.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::ACCEPTED;
use super::rounds::{by_arm, order, rounds};
use super::window::{load, window};
use crate::bench::Bench;
use crate::figure::{Figure, Unit};
use crate::load::Seen;
use crate::load::closed::closed;
use crate::world::gateway::Gateway;

/// One page of a log.
const BYTES: usize = 4096;

/// What a window saw of one arm.
#[derive(Debug, Clone, Copy)]
struct Syncs {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
}

/// The figures.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let gateways = bench.gateways().await?;
    let seen = rounds(bench, async |round| {
        let mut seen = BTreeMap::new();
        for index in order(round, 1 + gateways.len()) {
            let one = match index.checked_sub(1) {
                None => of_disk(bench, round).await?,
                Some(place) => of_gateway(bench, &gateways[place], round).await?,
            };
            seen.insert(index, one);
        }
        Ok(seen.into_values().collect())
    });
    let mut columns = by_arm(seen.await?).into_iter();
    let disk = columns.next().unwrap_or_default();
    let figure = |name: &str, unit, of: fn(&Syncs) -> f64| {
        let name = format!("4 KiB appended and synced, one at a time{name}");
        Figure::new(name, "disk", unit, disk.iter().map(of).collect())
    };
    let mut figures = vec![
        figure("", Unit::PerSecond, |syncs| syncs.rate),
        figure(", p50", Unit::Millis, |syncs| syncs.p50_ms),
        figure(", p99", Unit::Millis, |syncs| syncs.p99_ms),
    ];
    for (gateway, seen) in gateways.iter().zip(columns) {
        let ratios = seen.iter().zip(&disk).map(|(own, disk)| own.rate / disk.rate).collect();
        let name = "events, one at a time / such syncs";
        figures.push(Figure::new(name, gateway.kind, Unit::Ratio, ratios));
        let rates = seen.iter().map(|own| own.rate).collect();
        let name = "events, one at a time";
        figures.push(Figure::new(name, gateway.kind, Unit::PerSecond, rates));
    }
    Ok(figures)
}

async fn of_gateway(bench: &Bench, gateway: &Gateway, round: u32) -> anyhow::Result<Syncs> {
    let one = closed(load(bench, gateway.events()?, ACCEPTED, 1));
    let seen = window(bench, gateway, one).await?;
    seen.print(round, &format!("one at a time on {}", gateway.kind));
    Ok(Syncs { rate: seen.rate, p50_ms: seen.p50_ms, p99_ms: seen.p99_ms })
}

async fn of_disk(bench: &Bench, round: u32) -> anyhow::Result<Syncs> {
    let path = bench.directory.path().join("fsync");
    let window = bench.options.window();
    let seen = tokio::task::spawn_blocking(move || synced(path, window)).await??;
    let syncs = Syncs { rate: seen.rate(), p50_ms: seen.millis(0.5), p99_ms: seen.millis(0.99) };
    println!(
        "round {:>2}  {:<34} {:>8.0}/s  p50 {:>6.2} ms  p99 {:>7.2} ms",
        round + 1,
        "4 KiB appended and synced",
        syncs.rate,
        syncs.p50_ms,
        syncs.p99_ms
    );
    Ok(syncs)
}

/// Appends and syncs for as long as the window is.
fn synced(path: PathBuf, window: Duration) -> anyhow::Result<Seen> {
    let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
    let bytes = [7; BYTES];
    let mut micros = Vec::new();
    let end = Instant::now() + window;
    loop {
        let began = Instant::now();
        if began >= end {
            break;
        }
        file.write_all(&bytes)?;
        file.sync_data()?;
        micros.push(u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    drop(file);
    std::fs::remove_file(path)?;
    micros.sort_unstable();
    Ok(Seen { exchanges: micros.len() as u64, micros, window })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_to_measure_the_disk_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fsync");
        let seen = synced(path.clone(), Duration::from_millis(20)).unwrap();
        assert!(seen.exchanges > 0 && seen.exchanges == seen.micros.len() as u64);
        assert!(!path.exists());
    }
}
