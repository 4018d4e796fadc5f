//! Durable ingest against its two ceilings.

use std::collections::BTreeMap;

use super::ACCEPTED;
use super::rounds::{by_arm, order, rounds};
use super::window::{Window, load, window};
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::load::Expected;
use crate::load::closed::closed;
use crate::plot::Plot;
use crate::world::gateway::{Gateway, Kind};

/// How many connections, each measured on its own.
pub const CONNECTIONS: [usize; 2] = [64, 256];

/// The windows of each arm, by round.
pub type Windows = BTreeMap<(usize, Kind), Vec<Window>>;

/// What a server answers to a good event.
pub fn expected(kind: Kind) -> Expected {
    match kind {
        Kind::Bare => Expected { status: 202, word: "" },
        _ => ACCEPTED,
    }
}

/// Measures all arms.
pub async fn windows(bench: &Bench, connections: &[usize]) -> anyhow::Result<Windows> {
    let mut arms =
        vec![Gateway::start(bench, Kind::Bare).await?, Gateway::start(bench, Kind::Ceiling).await?];
    arms.extend(bench.gateways().await?);
    let mut windows = Windows::new();
    for &connections in connections {
        let seen = rounds(bench, async |round| one_round(bench, &arms, connections, round).await);
        for (arm, seen) in arms.iter().zip(by_arm(seen.await?)) {
            windows.insert((connections, arm.kind), seen);
        }
    }
    Ok(windows)
}

async fn one_round(
    bench: &Bench,
    arms: &[Gateway],
    connections: usize,
    round: u32,
) -> anyhow::Result<Vec<Window>> {
    let mut seen = BTreeMap::new();
    for index in order(round, arms.len()) {
        let arm = &arms[index];
        let load = load(bench, arm.events()?, expected(arm.kind), connections);
        let one = window(bench, arm, closed(load)).await?;
        one.print(round, &format!("ingest {} at {connections}", arm.kind));
        seen.insert(index, one);
    }
    Ok(seen.into_values().collect())
}

/// The figures of the spec.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let windows = windows(bench, &CONNECTIONS).await?;
    let mut figures = Vec::new();
    for kind in bench.databases() {
        for connections in CONNECTIONS {
            figures.extend(ratios(&windows, connections, kind));
        }
    }
    for (&(connections, kind), seen) in &windows {
        figures.extend(absolutes(connections, kind, seen));
    }
    Ok(figures)
}

fn ratios(windows: &Windows, connections: usize, kind: Kind) -> Vec<Figure> {
    let against = |ceiling: Kind| {
        let (Some(durable), Some(ceiling)) =
            (windows.get(&(connections, kind)), windows.get(&(connections, ceiling)))
        else {
            return Vec::new();
        };
        let pairs = durable.iter().zip(ceiling);
        pairs.map(|(durable, ceiling)| durable.rate / ceiling.rate).collect()
    };
    let ratio = |name: &str, ceiling: Kind| {
        let name = format!("durable ingest / {name}, {connections} connections");
        Figure::new(name, kind, Unit::Ratio, against(ceiling))
    };
    let (ceiling, bare) = (ratio("ceiling", Kind::Ceiling), ratio("bare", Kind::Bare));
    // The spec sets its targets for 64 connections.
    if connections != CONNECTIONS[0] {
        return vec![ceiling, bare];
    }
    let label = |ceiling: &str| format!("{kind} / {ceiling}");
    vec![
        ceiling
            .held_to(Target::AtLeast(0.40), Target::AtLeast(0.60))
            .drawn(Plot::Ingest, label("ceiling")),
        bare.held_to(Target::AtLeast(0.25), Target::AtLeast(0.40))
            .drawn(Plot::Ingest, label("bare server")),
    ]
}

fn absolutes(connections: usize, kind: Kind, windows: &[Window]) -> Vec<Figure> {
    let figure = |name: &str, unit, of: fn(&Window) -> f64| {
        let name = format!("ingest, {connections} connections: {name}");
        Figure::new(name, kind, unit, windows.iter().map(of).collect())
    };
    let mut figures = vec![
        figure("requests", Unit::PerSecond, |w| w.rate),
        figure("p50", Unit::Millis, |w| w.p50_ms),
        figure("p99", Unit::Millis, |w| w.p99_ms),
        figure("server CPU per request", Unit::Micros, |w| w.server_us),
    ];
    if kind == Kind::Postgres {
        figures.push(figure("database CPU per request", Unit::Micros, |w| w.database_us));
    }
    figures
}
