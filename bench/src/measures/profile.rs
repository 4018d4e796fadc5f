//! CPU per request: the figure to extrapolate from, since a rate on shared cores is everybody's.

use super::claim;
use super::ingest;
use crate::bench::Bench;
use crate::figure::{Figure, Unit};
use crate::measures::window::Window;

/// Of each arm of ingest, with 64 connections.
pub async fn ingest(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let windows = ingest::windows(bench, &ingest::CONNECTIONS[..1]).await?;
    let mut figures = Vec::new();
    for (&(_, kind), windows) in &windows {
        let figure = |name: &str, unit, of: fn(&Window) -> f64| {
            Figure::new(name, kind, unit, windows.iter().map(of).collect())
        };
        figures.push(figure("ingest", Unit::PerSecond, |w| w.rate));
        figures.push(figure("  server CPU per request", Unit::Micros, |w| w.server_us));
        figures.push(figure("  database CPU per request", Unit::Micros, |w| w.database_us));
        figures.push(figure("  generator CPU per request", Unit::Micros, |w| w.generator_us));
    }
    Ok(figures)
}

/// Of claiming in batches of 100.
pub async fn claim(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let gateways = bench.gateways().await?;
    let (batch, jobs) = claim::BATCHES[0];
    let drained = claim::drained(bench, &gateways, batch, bench.options.count(jobs)).await?;
    let figures = gateways.iter().zip(drained);
    Ok(figures
        .flat_map(|(gateway, drained)| claim::of_one(gateway.kind, batch, &drained))
        .collect())
}
