//! Publish to receive: from just before an event is published to its receipt by the one webhook that wants it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::hooks::{HANGS, Hooks, event};
use super::rounds::{by_arm, order, rounds};
use super::timed::{self, Round, Tasks, Timetable, sorted};
use super::window::Spent;
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::world::gateway::Gateway;

const EVENTS_PER_SECOND: u32 = 50;
/// Not measured: connections, caches and plans warm up.
const UNCOUNTED: usize = 20;
/// A slow rate needs a longer window for a p99 that means something.
const WINDOWS: f64 = 4.0;
const EVENT_TYPE: &str = "bench.published";
/// Any receiver but the one that may hang.
const HOOK: usize = HANGS + 1;
const PATIENCE: Duration = Duration::from_secs(300);

/// The figures of the spec.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let hooks = Hooks::start().await?;
    let gateways = bench.gateways().await?;
    for gateway in &gateways {
        gateway.webhook("/webhooks", &hooks.url(HOOK), EVENT_TYPE, &[]).await?;
    }
    let seen = rounds(bench, async |round| {
        let mut seen = BTreeMap::new();
        for index in order(round, gateways.len()) {
            let gateway = &gateways[index];
            let what = format!("publish to receive on {:<10}", gateway.kind);
            seen.insert(index, one(bench, gateway, &hooks).await?.told(round, &what));
        }
        Ok(seen.into_values().collect())
    });
    let mut figures = Vec::new();
    for (seen, gateway) in by_arm(seen.await?).into_iter().zip(&gateways) {
        let (p50, p99) = seen.into_iter().unzip();
        let name = |share| format!("publish to receive at {EVENTS_PER_SECOND} events/s, {share}");
        figures.extend([
            Figure::new(name("p50"), gateway.kind, Unit::Millis, p50)
                .held_to(Target::Below(3.0), Target::Below(1.5)),
            Figure::new(name("p99"), gateway.kind, Unit::Millis, p99)
                .held_to(Target::Below(10.0), Target::Below(5.0)),
        ]);
    }
    Ok(figures)
}

async fn one(bench: &Bench, gateway: &Gateway, hooks: &Hooks) -> anyhow::Result<Round> {
    let seconds = bench.options.window().as_secs_f64() * WINDOWS;
    let timetable = Timetable {
        per_second: EVENTS_PER_SECOND,
        count: UNCOUNTED + (seconds * f64::from(EVENTS_PER_SECOND)) as usize,
        uncounted: UNCOUNTED,
        request: Arc::new(|number| event("/events", EVENT_TYPE, number)),
    };
    let before = Spent::so_far(bench, gateway);
    let mut tasks = Tasks::new();
    let seen = timed::micros(gateway, timetable, hooks.receipts(), &mut tasks);
    let seen = tokio::time::timeout(PATIENCE, seen)
        .await
        .context("the events were not all received in time")??;
    let others = Spent::so_far(bench, gateway).others(bench, before);
    Ok(Round { micros: sorted(seen), others })
}
