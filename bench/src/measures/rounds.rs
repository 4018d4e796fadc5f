//! Interleaved rounds: in each, every arm runs once, and another one begins.

use crate::bench::Bench;

/// Runs rounds until enough of them count. A round during which other processes took too much of the
/// machine is run again, as long as the patience that was asked for lasts.
pub async fn rounds<T>(
    bench: &Bench,
    one: impl AsyncFnMut(u32) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    so_many_rounds(bench, bench.options.rounds(), one).await
}

/// The same where a figure needs more of them than usual.
pub async fn so_many_rounds<T>(
    bench: &Bench,
    count: u32,
    mut one: impl AsyncFnMut(u32) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    let mut all = Vec::new();
    for round in 0..count {
        loop {
            bench.quiet.wait(bench.machine.cores).await;
            let mark = bench.quiet.mark();
            let seen = one(round).await?;
            if bench.quiet.accepts(mark) {
                all.push(seen);
                break;
            }
            println!("          others were too busy: this round is run again");
        }
    }
    Ok(all)
}

/// The order of the arms in a round, as indexes.
pub fn order(round: u32, arms: usize) -> impl Iterator<Item = usize> {
    (0..arms).map(move |place| (place + round as usize) % arms)
}

/// From rows of one round each to columns of one arm each.
pub fn by_arm<T>(rounds: Vec<Vec<T>>) -> Vec<Vec<T>> {
    let mut arms = Vec::new();
    for round in rounds {
        for (arm, seen) in round.into_iter().enumerate() {
            if arms.len() <= arm {
                arms.push(Vec::new());
            }
            arms[arm].push(seen);
        }
    }
    arms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arm_runs_once_a_round_and_another_one_begins() {
        assert_eq!(order(0, 3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(order(1, 3).collect::<Vec<_>>(), [1, 2, 0]);
    }

    #[test]
    fn rounds_turn_into_arms() {
        assert_eq!(by_arm(vec![vec![1, 2], vec![3, 4]]), [[1, 3], [2, 4]]);
    }
}
