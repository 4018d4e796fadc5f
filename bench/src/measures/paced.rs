//! The latency of ingest at half of the rate that the same round reached.

use super::ACCEPTED;
use super::window::{load, window};
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::load::closed::closed;
use crate::load::paced::paced;

const CONNECTIONS: usize = 64;

/// The figures of the spec.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let gateways = bench.gateways().await?;
    let mut p50 = vec![Vec::new(); gateways.len()];
    let mut p99 = vec![Vec::new(); gateways.len()];
    for round in 0..bench.options.rounds() {
        for (index, gateway) in gateways.iter().enumerate() {
            let next = || anyhow::Ok(load(bench, gateway.events()?, ACCEPTED, CONNECTIONS));
            let full = window(bench, gateway, closed(next()?)).await?;
            let half = window(bench, gateway, paced(next()?, full.rate / 2.0)).await?;
            half.print(round, &format!("ingest {} at half its rate", gateway.kind));
            p50[index].push(half.p50_ms);
            p99[index].push(half.p99_ms);
        }
    }
    let mut figures = Vec::new();
    for ((gateway, p50), p99) in gateways.iter().zip(p50).zip(p99) {
        figures.push(Figure::new(
            "ingest p50 at half of the durable rate",
            gateway.kind,
            Unit::Millis,
            p50,
        ));
        figures.push(
            Figure::new("ingest p99 at half of the durable rate", gateway.kind, Unit::Millis, p99)
                .held_to(Target::Below(20.0), Target::Below(8.0)),
        );
    }
    Ok(figures)
}
