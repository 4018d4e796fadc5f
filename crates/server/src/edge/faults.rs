//! What we answered badly a moment ago, so that a repeat of it is known to be our own doing.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use wakepost_domain::receipt::OurFault;
use wakepost_store::moves::DedupKey;

/// How long a fault explains a repeat.
const KEPT: Duration = Duration::from_secs(3600);
/// How many are kept; beyond it the older half is forgotten.
const FAULTS_MAX: usize = 20_000;

/// The faults of this node. Another node, or this one after a restart, calls the repeat a retry.
#[derive(Default)]
pub struct Faults {
    by_key: Mutex<HashMap<DedupKey, (Instant, OurFault)>>,
}

impl Faults {
    /// Remembers that whoever sent these was answered badly.
    pub fn note(&self, keys: &[DedupKey], fault: OurFault) {
        let now = Instant::now();
        let mut by_key = self.by_key.lock();
        if by_key.len() + keys.len() > FAULTS_MAX {
            let mut times: Vec<Instant> = by_key.values().map(|(at, _)| *at).collect();
            times.sort_unstable();
            let middle = times[times.len() / 2];
            by_key.retain(|_, (at, _)| *at > middle && now.duration_since(*at) < KEPT);
        }
        by_key.extend(keys.iter().map(|key| (*key, (now, fault))));
    }

    /// How we failed whoever sent this, if we did.
    pub fn of(&self, keys: &[DedupKey]) -> Option<OurFault> {
        let by_key = self.by_key.lock();
        if by_key.is_empty() {
            return None;
        }
        let found = keys.iter().find_map(|key| by_key.get(key));
        found.filter(|(at, _)| at.elapsed() < KEPT).map(|(_, fault)| *fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> DedupKey {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        DedupKey(bytes)
    }

    #[test]
    fn a_fault_is_found_by_any_of_its_keys() {
        let faults = Faults::default();
        assert_eq!(faults.of(&[key(1)]), None);
        faults.note(&[key(1), key(2)], OurFault::Slow);
        assert_eq!(faults.of(&[key(3), key(2)]), Some(OurFault::Slow));
        assert_eq!(faults.of(&[key(3)]), None);
    }

    #[test]
    fn however_many_faults_there_are_a_bounded_number_is_kept() {
        let faults = Faults::default();
        for number in 0..50_000 {
            faults.note(&[key(number)], OurFault::Unavailable);
        }
        assert!(faults.by_key.lock().len() <= FAULTS_MAX);
        assert_eq!(faults.of(&[key(49_999)]), Some(OurFault::Unavailable));
    }
}
