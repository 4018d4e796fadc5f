//! Seeded chance as the server's entropy: its keys, ids and jitter follow from the seed too.

use std::sync::Mutex;

use wakepost_crash::chance::Chance;
use wakepost_domain::ports::Entropy;

/// Random bytes that follow from a seed.
pub struct Seeded(Mutex<Chance>);

impl Seeded {
    /// A stream of a seed.
    pub fn new(seed: u64, stream: u64) -> Seeded {
        Seeded(Mutex::new(Chance::new(seed, stream)))
    }
}

impl Entropy for Seeded {
    fn fill(&self, buffer: &mut [u8]) {
        let mut chance = self.0.lock().expect("nobody panics while holding it");
        for part in buffer.chunks_mut(8) {
            part.copy_from_slice(&chance.number().to_le_bytes()[..part.len()]);
        }
    }
}
