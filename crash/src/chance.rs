//! Chance that can be had again: every choice of a run follows from its seed. What the machine does in between
//! does not, so a seed repeats the choices and not the moments.

use std::time::Duration;

/// A stream of choices (SplitMix64).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The stream with this number.
    pub fn new(seed: u64, stream: u64) -> Chance {
        let mut chance = Chance(seed ^ stream.wrapping_mul(0xa076_1d64_78bd_642f));
        chance.number();
        chance
    }

    /// A stream of its own.
    pub fn split(&mut self) -> Chance {
        Chance(self.number())
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.number() % (high - low + 1)
    }

    /// True this often in a hundred times.
    pub fn percent(&mut self, share: u64) -> bool {
        self.number() % 100 < share
    }

    /// A time from `low` to `high` milliseconds.
    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.within(low, high))
    }

    /// One of them; none if there is none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let index = usize::try_from(self.number() % from.len().max(1) as u64).ok()?;
        from.get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_stream_choose_the_same() {
        let draw = |seed, stream| {
            let mut chance = Chance::new(seed, stream);
            [chance.number(), chance.number()]
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn a_range_holds_both_its_ends() {
        let mut chance = Chance::new(1, 1);
        let drawn: Vec<u64> = (0..200).map(|_| chance.within(3, 5)).collect();
        assert!((3..=5).all(|number| drawn.contains(&number)));
        assert!(drawn.iter().all(|number| (3..=5).contains(number)));
        assert_eq!(chance.pick::<u8>(&[]), None);
    }
}
