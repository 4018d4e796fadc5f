//! No-op jobs in batches of 100 through the HTTP lease API, against other queues on the same machine.

use std::collections::BTreeMap;

use super::claim;
use super::rounds::{by_arm, order, rounds};
use super::window::Spent;
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::plot::Plot;
use crate::world::gateway::{Gateway, Kind};
use crate::world::peers::{Peer, Queue};

const BATCH: usize = 100;
const JOBS: usize = 50_000;
/// The queues that the spec names.
const MEASURES: usize = 2;

/// The figures of the spec. Each round's ratio is against the faster of the others in that round.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    if bench.postgres.is_none() {
        bench.leave_out("other queues: they need the PostgreSQL that is not measured".to_owned());
        return Ok(Vec::new());
    }
    let peers = Peer::all(bench, &Queue::ALL).await;
    if peers.is_empty() {
        return Ok(Vec::new());
    }
    let gateways = bench.gateways().await?;
    let rates = by_arm(rates(bench, &gateways, &peers).await?);
    let (ours, others) = rates.split_at(gateways.len());
    let measures = peers.iter().zip(others).filter(|(peer, _)| peer.queue.is_the_measure());
    let measures: Vec<&[f64]> = measures.map(|(_, rates)| rates.as_slice()).collect();
    let mut figures = Vec::new();
    // Against one of them alone the figure would say less than its name.
    let measured = gateways.iter().zip(ours).filter(|_| measures.len() == MEASURES);
    for (gateway, own) in measured {
        let name = "no-op jobs / the faster of graphile-worker and pg-boss";
        let aim = if gateway.kind == Kind::Sqlite { 3.0 } else { 1.5 };
        figures.push(
            Figure::new(name, gateway.kind, Unit::Ratio, against_fastest(own, &measures))
                .held_to(Target::AtLeast(1.0), Target::AtLeast(aim)),
        );
    }
    let name = "no-op jobs beside other queues";
    for (gateway, own) in gateways.iter().zip(ours) {
        let rates = Figure::new(name, gateway.kind, Unit::PerSecond, own.clone());
        figures.push(rates.drawn(Plot::Peers, format!("Wakepost on {}", gateway.kind)));
    }
    for (peer, rates) in peers.iter().zip(others) {
        let rates = Figure::new(name, peer.queue, Unit::PerSecond, rates.clone());
        figures.push(rates.drawn(Plot::Peers, peer.queue.to_string()));
    }
    Ok(figures)
}

/// By round and arm: the gateways, then the peers.
async fn rates(
    bench: &Bench,
    gateways: &[Gateway],
    peers: &[Peer],
) -> anyhow::Result<Vec<Vec<f64>>> {
    let jobs = bench.options.count(JOBS);
    rounds(bench, async |round| {
        let mut rates = BTreeMap::new();
        for index in order(round, gateways.len() + peers.len()) {
            let rate = match gateways.get(index) {
                Some(gateway) => claim::one(bench, gateway, BATCH, jobs, round).await?.rate,
                None => one(bench, &peers[index - gateways.len()], jobs, round).await?,
            };
            rates.insert(index, rate);
        }
        Ok(rates.into_values().collect())
    })
    .await
}

async fn one(bench: &Bench, peer: &Peer, jobs: usize, round: u32) -> anyhow::Result<f64> {
    let before = Spent::by_peer(bench, peer.server());
    let rate = peer.drain(jobs).await?;
    let others = Spent::by_peer(bench, peer.server()).others(bench, before) * 100.0;
    println!(
        "round {:>2}  {:<34} {rate:>8.0} jobs/s; others took {others:.0} %",
        round + 1,
        peer.queue
    );
    Ok(rate)
}

fn against_fastest(own: &[f64], others: &[&[f64]]) -> Vec<f64> {
    let fastest = |round: usize| {
        let rates = others.iter().map(|rates| rates[round]);
        rates.fold(f64::MIN_POSITIVE, f64::max)
    };
    own.iter().enumerate().map(|(round, rate)| rate / fastest(round)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_is_held_against_its_own_fastest() {
        let others: [&[f64]; 2] = [&[10.0, 40.0], &[20.0, 20.0]];
        assert_eq!(against_fastest(&[30.0, 30.0], &others), [1.5, 0.75]);
    }
}
