//! Refused signatures against a bare server that is sent the same requests.

use super::ingest::expected;
use super::rounds::order;
use super::window::{load, window};
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::load::Expected;
use crate::load::closed::closed;
use crate::world::gateway::{Gateway, Kind};

const CONNECTIONS: usize = 64;
const REFUSED: Expected = Expected { status: 401, word: "\"unauthorized\"" };

/// The figures of the spec.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let mut arms = vec![Gateway::start(bench, Kind::Bare).await?];
    arms.extend(bench.gateways().await?);
    let mut rates = vec![Vec::new(); arms.len()];
    for round in 0..bench.options.rounds() {
        for index in order(round, arms.len()) {
            let arm = &arms[index];
            let answer = match arm.kind {
                Kind::Bare => expected(Kind::Bare),
                _ => REFUSED,
            };
            let load = load(bench, arm.events()?.badly_signed(), answer, CONNECTIONS);
            let seen = window(bench, arm, closed(load)).await?;
            seen.print(round, &format!("bad signatures on {}", arm.kind));
            rates[index].push(seen.rate);
        }
    }
    let bare = &rates[0];
    let figures = arms.iter().zip(&rates).skip(1).map(|(arm, refused)| {
        let ratios = refused.iter().zip(bare).map(|(refused, bare)| refused / bare);
        Figure::new("bad signatures refused / bare", arm.kind, Unit::Ratio, ratios.collect())
            .held_to(Target::AtLeast(0.6), Target::AtLeast(0.8))
    });
    Ok(figures.collect())
}
