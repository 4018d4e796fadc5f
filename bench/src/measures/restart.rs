//! How soon a server is ready that starts on a database with many events.

use std::collections::BTreeMap;

use super::rounds::{by_arm, order, rounds};
use super::window::Spent;
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit, thousands};
use crate::seed::{self, Rows, Seed, Tenants};
use crate::world::gateway::Gateway;

/// The figures of the spec: from the start of the process to the first 200 of `/readyz`.
pub async fn figures(bench: &Bench, events: usize) -> anyhow::Result<Vec<Figure>> {
    let mut gateways = Vec::new();
    for mut gateway in bench.gateways().await? {
        gateway.child.stop().await?;
        seed::room(bench, &gateway, Rows { events, ..Rows::default() }).await?;
        let mut seed = Seed::open(&gateway).await?;
        seed.lanes(Tenants::DEFAULT).await?;
        seed.events(Tenants::DEFAULT, events).await?;
        seed.close().await?;
        println!("seeded {} with {events} events", gateway.kind);
        gateways.push(gateway);
    }
    let millis = rounds(bench, async |round| {
        let mut millis = BTreeMap::new();
        for index in order(round, gateways.len()) {
            millis.insert(index, one(bench, &mut gateways[index], round).await?);
        }
        Ok(millis.into_values().collect())
    });
    let millis = by_arm(millis.await?);
    let name = format!("start on {} events", thousands(events as f64));
    let mut figures = Vec::new();
    for (gateway, millis) in gateways.into_iter().zip(millis) {
        figures.push(
            Figure::new(name.clone(), gateway.kind, Unit::Millis, millis)
                .held_to(Target::Below(300.0), Target::Below(100.0)),
        );
        gateway.discard(bench).await?;
    }
    Ok(figures)
}

async fn one(bench: &Bench, gateway: &mut Gateway, round: u32) -> anyhow::Result<f64> {
    let before = Spent::by_ended_children(bench);
    let millis = gateway.start_again(bench).await?.as_secs_f64() * 1000.0;
    gateway.child.stop().await?;
    let others = Spent::by_ended_children(bench).others(bench, before) * 100.0;
    println!(
        "round {:>2}  start of {:<11} {millis:>6.1} ms; others took {others:.0} %",
        round + 1,
        gateway.kind
    );
    Ok(millis)
}
