//! The latency of ingest at half of the rate that the same round reached.

use super::ACCEPTED;
use super::rounds::{by_arm, rounds};
use super::window::{Window, load, window};
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::load::closed::closed;
use crate::load::paced::paced;
use crate::world::gateway::Gateway;

const CONNECTIONS: usize = 64;

/// The figures of the spec.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let gateways = bench.gateways().await?;
    let seen = rounds(bench, async |round| one_round(bench, &gateways, round).await).await?;
    let mut figures = Vec::new();
    for (gateway, seen) in gateways.iter().zip(by_arm(seen)) {
        let p50 = seen.iter().map(|window| window.p50_ms).collect();
        let p99 = seen.iter().map(|window| window.p99_ms).collect();
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

async fn one_round(bench: &Bench, gateways: &[Gateway], round: u32) -> anyhow::Result<Vec<Window>> {
    let mut seen = Vec::new();
    for gateway in gateways {
        let next = || anyhow::Ok(load(bench, gateway.events()?, ACCEPTED, CONNECTIONS));
        let full = window(bench, gateway, closed(next()?)).await?;
        rest(bench).await?;
        let half = window(bench, gateway, paced(next()?, full.rate / 2.0)).await?;
        half.print(round, &format!("ingest {} at half its rate", gateway.kind));
        seen.push(half);
    }
    Ok(seen)
}

/// The window before stored as much as it could, and what it left to be written is not this rate's doing.
async fn rest(bench: &Bench) -> anyhow::Result<()> {
    if let Some(postgres) = &bench.postgres {
        postgres.rest().await?;
    }
    let synced = tokio::process::Command::new("sync").status().await?;
    anyhow::ensure!(synced.success(), "sync failed");
    Ok(())
}
