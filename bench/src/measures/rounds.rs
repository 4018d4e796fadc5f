//! Interleaved rounds: in each, every arm runs once, and another one begins.

/// The order of the arms in a round, as indexes.
pub fn order(round: u32, arms: usize) -> impl Iterator<Item = usize> {
    (0..arms).map(move |place| (place + round as usize) % arms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arm_runs_once_a_round_and_another_one_begins() {
        assert_eq!(order(0, 3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(order(1, 3).collect::<Vec<_>>(), [1, 2, 0]);
    }
}
