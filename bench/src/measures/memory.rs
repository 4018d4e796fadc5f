//! Memory of the server: idle, at a steady rate, flat out, and while it delivers.

use std::time::Duration;

use super::ACCEPTED;
use super::deliver::subscribe;
use super::delivering::deliver;
use super::window::load;
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::load::Load;
use crate::load::closed::closed;
use crate::load::paced::paced;
use crate::world::gateway::{Gateway, Kind};
use crate::world::receiver::Receiver;

/// The rate the spec names.
const RATE: f64 = 10_000.0;
const CONNECTIONS: usize = 256;
/// A fresh server comes to rest.
const SETTLE: Duration = Duration::from_secs(1);
const SAMPLE_EVERY: Duration = Duration::from_millis(50);
const MEGABYTE: f64 = 1e6;
/// Memory hardly differs between runs, so a few fresh servers are enough.
const ROUNDS_MAX: u32 = 3;
/// Webhooks that get each event while it delivers.
const FAN_OUT: u64 = 10;
const DELIVERED: &str = "bench.memory";

/// The figures of the spec.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for kind in bench.databases() {
        let (mut idle, mut steady, mut full) = (Vec::new(), Vec::new(), Vec::new());
        let mut delivering = Vec::new();
        let rounds = if bench.options.short { 1 } else { ROUNDS_MAX };
        for round in 0..bench.options.rounds().min(rounds) {
            let gateway = Gateway::start(bench, kind).await?;
            tokio::time::sleep(SETTLE).await;
            idle.push(gateway.resident_bytes() as f64 / MEGABYTE);
            let next = || anyhow::Ok(load(bench, gateway.events()?, ACCEPTED, CONNECTIONS));
            let (seen, at_rate) = highest(&gateway, paced(longer(next()?), RATE)).await?;
            steady.push(at_rate);
            let (_, flat_out) = highest(&gateway, closed(next()?)).await?;
            full.push(flat_out);
            delivering.push(while_delivering(bench, kind, round).await?);
            println!(
                "round {:>2}  memory of {kind}: idle {:.0} MB, at {:.0} events/s {at_rate:.0} MB, flat out \
                 {flat_out:.0} MB",
                round + 1,
                idle.last().copied().unwrap_or(0.0),
                seen.rate()
            );
        }
        let figure = |name: &str, rounds| Figure::new(name, kind, Unit::Megabytes, rounds);
        figures
            .push(figure("memory, idle", idle).held_to(Target::Below(40.0), Target::Below(25.0)));
        figures.push(
            figure("memory, highest at 10,000 events/s", steady)
                .held_to(Target::Below(200.0), Target::Below(120.0)),
        );
        figures.push(figure("memory, highest flat out, 256 connections", full));
        let name = format!("memory, highest while delivering flat out, fan-out {FAN_OUT}");
        figures.push(figure(&name, delivering));
    }
    Ok(figures)
}

/// The most memory that a fresh server holds while it delivers as fast as it can.
async fn while_delivering(bench: &Bench, kind: Kind, round: u32) -> anyhow::Result<f64> {
    let receiver = Receiver::start().await?;
    let gateway = Gateway::start(bench, kind).await?;
    subscribe(&gateway, &receiver, DELIVERED, FAN_OUT).await?;
    let load = deliver(bench, &gateway, &receiver, DELIVERED, FAN_OUT);
    let (came, most) = highest(&gateway, load).await?;
    println!(
        "round {:>2}  memory of {kind}: {most:.0} MB at {:.0} deliveries/s",
        round + 1,
        came.rate()
    );
    Ok(most)
}

/// What grows with time should be seen to grow.
fn longer(load: Load) -> Load {
    Load { window: load.window * 2, ..load }
}

/// The most memory held while a load runs, in megabytes.
async fn highest<T>(
    gateway: &Gateway,
    load: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<(T, f64)> {
    let mut load = std::pin::pin!(load);
    let mut highest = 0;
    loop {
        tokio::select! {
            seen = &mut load => return Ok((seen?, highest as f64 / MEGABYTE)),
            () = tokio::time::sleep(SAMPLE_EVERY) => highest = highest.max(gateway.resident_bytes()),
        }
    }
}
