//! Duplicates against new events: what a round sent is sent once more.

use std::sync::atomic::Ordering;

use super::ACCEPTED;
use super::window::{load, window};
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::load::Expected;
use crate::load::closed::closed;

const CONNECTIONS: usize = 64;
const DUPLICATE: Expected = Expected { status: 200, word: "\"duplicate\"" };

/// The figures of the spec.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let gateways = bench.gateways().await?;
    let mut ratios = vec![Vec::new(); gateways.len()];
    for round in 0..bench.options.rounds() {
        for (index, gateway) in gateways.iter().enumerate() {
            let first = gateway.numbers.load(Ordering::Relaxed);
            let new = load(bench, gateway.events()?, ACCEPTED, CONNECTIONS);
            let new = window(bench, gateway, closed(new)).await?;
            let past = gateway.numbers.load(Ordering::Relaxed);
            new.print(round, &format!("new on {}", gateway.kind));
            // Numbers handed to connections that ended unanswered were never sent, but none is: a
            // connection ends only between two exchanges.
            let again = gateway.events()?.again(first, past);
            let again = load(bench, again, DUPLICATE, CONNECTIONS);
            let again = window(bench, gateway, closed(again)).await?;
            again.print(round, &format!("duplicates on {}", gateway.kind));
            ratios[index].push(again.rate / new.rate);
        }
    }
    let figures = gateways.iter().zip(ratios).map(|(gateway, ratios)| {
        Figure::new("duplicates / new events", gateway.kind, Unit::Ratio, ratios)
            .held_to(Target::AtLeast(1.0), Target::AtLeast(1.5))
    });
    Ok(figures.collect())
}
