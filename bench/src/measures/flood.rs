//! Good events at a steady rate beside a flood of badly signed requests, on connections of their own.

use wakepost_domain::limits::REJECTIONS_KEPT;

use super::ACCEPTED;
use super::refusals::REFUSED;
use super::rounds::{by_arm, rounds};
use super::window::{load, window};
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::load::closed::closed;
use crate::load::paced::paced;
use crate::world::contents::Contents;
use crate::world::gateway::Gateway;

/// Each sends as soon as it was refused.
const FLOOD_CONNECTIONS: usize = 64;
const GOOD_CONNECTIONS: usize = 16;
const GOOD_PER_SECOND: f64 = 500.0;

/// What one flood came to.
struct Flood {
    /// Stored events for each good one that was sent.
    accepted: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Refusals a second.
    refused: f64,
    /// Rows that the flood left.
    rows: f64,
    /// Bytes by which the database grew, for each good event.
    bytes_each: f64,
}

/// The figures of the spec.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let gateways = bench.gateways().await?;
    let seen = rounds(bench, async |round| one_round(bench, &gateways, round).await).await?;
    let mut figures = Vec::new();
    for (gateway, seen) in gateways.iter().zip(by_arm(seen)) {
        let figure = |name: &str, unit, of: fn(&Flood) -> f64| {
            let name = format!("flood of bad signatures: {name}");
            Figure::new(name, gateway.kind, unit, seen.iter().map(of).collect())
        };
        let kept = REJECTIONS_KEPT as f64;
        figures.extend([
            figure("good events accepted", Unit::Ratio, |flood| flood.accepted)
                .bound_to(Target::AtLeast(1.0)),
            figure("p50 of good events", Unit::Millis, |flood| flood.p50_ms),
            figure("p99 of good events", Unit::Millis, |flood| flood.p99_ms)
                .bound_to(Target::Below(100.0)),
            figure("refused", Unit::PerSecond, |flood| flood.refused),
            figure("rows left by it", Unit::Count, |flood| flood.rows)
                .bound_to(Target::AtMost(kept)),
            figure("growth per good event", Unit::Bytes, |flood| flood.bytes_each),
        ]);
    }
    Ok(figures)
}

async fn one_round(bench: &Bench, gateways: &[Gateway], round: u32) -> anyhow::Result<Vec<Flood>> {
    let mut floods = Vec::new();
    for gateway in gateways {
        let flood = one_flood(bench, gateway).await?;
        println!(
            "round {:>2}  flood on {:<10} {:>8.0} refused/s  good: accepted {:.4}, p50 {:>6.2} ms, p99 {:>7.2} ms  \
             left: {:.0} rows",
            round + 1,
            gateway.kind,
            flood.refused,
            flood.accepted,
            flood.p50_ms,
            flood.p99_ms,
            flood.rows,
        );
        floods.push(flood);
    }
    Ok(floods)
}

/// One answer to a good event that is not 202, or to a bad one that is not 401, fails it.
async fn one_flood(bench: &Bench, gateway: &Gateway) -> anyhow::Result<Flood> {
    let good = load(bench, gateway.events()?, ACCEPTED, GOOD_CONNECTIONS);
    let bad = load(bench, gateway.events()?.badly_signed(), REFUSED, FLOOD_CONNECTIONS);
    let before = Contents::of(bench, gateway).await?;
    let (mut sent, mut refused) = (0, 0.0);
    let beside = async {
        let (good, bad) = tokio::try_join!(paced(good, GOOD_PER_SECOND), closed(bad))?;
        (sent, refused) = (good.exchanges, bad.rate());
        Ok(good)
    };
    let good = window(bench, gateway, beside).await?;
    let after = Contents::of(bench, gateway).await?;
    let each = |count: u64| count as f64 / sent.max(1) as f64;
    Ok(Flood {
        accepted: each(after.events - before.events),
        p50_ms: good.p50_ms,
        p99_ms: good.p99_ms,
        refused,
        rows: (after.receipts + after.others - before.others) as f64,
        bytes_each: each(after.bytes.saturating_sub(before.bytes)),
    })
}
