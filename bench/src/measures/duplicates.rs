//! Duplicates against new events: what a round sent is sent once more.

use std::sync::atomic::Ordering;

use super::ACCEPTED;
use super::rounds::{by_arm, rounds};
use super::window::{load, window};
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::load::Expected;
use crate::load::closed::closed;
use crate::world::gateway::Gateway;

const CONNECTIONS: usize = 64;
const DUPLICATE: Expected = Expected { status: 200, word: "\"duplicate\"" };

/// The figures of the spec.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let gateways = bench.gateways().await?;
    let ratios = rounds(bench, async |round| one_round(bench, &gateways, round).await).await?;
    let figures = gateways.iter().zip(by_arm(ratios)).map(|(gateway, ratios)| {
        Figure::new("duplicates / new events", gateway.kind, Unit::Ratio, ratios)
            .held_to(Target::AtLeast(1.0), Target::AtLeast(1.5))
    });
    Ok(figures.collect())
}

/// The ratio on each gateway.
async fn one_round(bench: &Bench, gateways: &[Gateway], round: u32) -> anyhow::Result<Vec<f64>> {
    let mut ratios = Vec::new();
    for gateway in gateways {
        let first = gateway.numbers.load(Ordering::Relaxed);
        let new = load(bench, gateway.events()?, ACCEPTED, CONNECTIONS);
        let new = window(bench, gateway, closed(new)).await?;
        new.print(round, &format!("new on {}", gateway.kind));
        // Every number that was handed out was sent and answered: a connection ends only between two
        // exchanges.
        let past = gateway.numbers.load(Ordering::Relaxed);
        let again = gateway.events()?.again(first, past);
        let again = load(bench, again, DUPLICATE, CONNECTIONS);
        let again = window(bench, gateway, closed(again)).await?;
        again.print(round, &format!("duplicates on {}", gateway.kind));
        ratios.push(again.rate / new.rate);
    }
    Ok(ratios)
}
