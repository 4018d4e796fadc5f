//! Refused signatures against a bare server that is sent the same requests.

use super::ingest::expected;
use super::rounds::{by_arm, order, rounds};
use super::window::{load, window};
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::load::Expected;
use crate::load::closed::closed;
use crate::world::gateway::{Gateway, Kind};

const CONNECTIONS: usize = 64;
/// A badly signed event.
pub const REFUSED: Expected = Expected { status: 401, word: "\"unauthorized\"" };

/// The figures of the spec.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let mut arms = vec![Gateway::start(bench, Kind::Bare).await?];
    arms.extend(bench.gateways().await?);
    let rates = rounds(bench, async |round| one_round(bench, &arms, round).await).await?;
    let rates = by_arm(rates);
    let bare = &rates[0];
    let figures = arms.iter().zip(&rates).skip(1).map(|(arm, refused)| {
        let ratios = refused.iter().zip(bare).map(|(refused, bare)| refused / bare);
        Figure::new("bad signatures refused / bare", arm.kind, Unit::Ratio, ratios.collect())
            .held_to(Target::AtLeast(0.6), Target::AtLeast(0.8))
    });
    Ok(figures.collect())
}

/// The rate of each arm.
async fn one_round(bench: &Bench, arms: &[Gateway], round: u32) -> anyhow::Result<Vec<f64>> {
    let mut rates = vec![0.0; arms.len()];
    for index in order(round, arms.len()) {
        let arm = &arms[index];
        let answer = match arm.kind {
            Kind::Bare => expected(Kind::Bare),
            _ => REFUSED,
        };
        let load = load(bench, arm.events()?.badly_signed(), answer, CONNECTIONS);
        let seen = window(bench, arm, closed(load)).await?;
        seen.print(round, &format!("bad signatures on {}", arm.kind));
        rates[index] = seen.rate;
    }
    Ok(rates)
}
