//! How runs of sources' jobs went on this node, until it is written down: what failures in a row are counted by.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use parking_lot::Mutex;
use wakepost_domain::{SourceId, TenantId};
use wakepost_store::moves::Streak;

/// How many sources are kept; what further ones do is not noted until these are written down.
const KEPT_MAX: usize = 5000;

/// What was noted.
#[derive(Debug, Default)]
pub struct Streaks(Mutex<HashMap<SourceId, Streak>>);

impl Streaks {
    /// Notes how a run went.
    pub fn note(&self, tenant: TenantId, source: SourceId, ok: bool) {
        let mut streaks = self.0.lock();
        if streaks.len() >= KEPT_MAX && !streaks.contains_key(&source) {
            return;
        }
        let new = Streak { tenant, source, broken: false, failures: 0 };
        let streak = streaks.entry(source).or_insert(new);
        match ok {
            true => (streak.broken, streak.failures) = (true, 0),
            false => streak.failures = streak.failures.saturating_add(1),
        }
    }

    /// What was noted since the last time.
    pub fn take(&self) -> Vec<Streak> {
        std::mem::take(&mut *self.0.lock()).into_values().collect()
    }

    /// Takes back what could not be written down, which was before all that was noted since. If it was written all the same,
    /// failures count twice: an alert too early is better than none.
    pub fn put_back(&self, taken: Vec<Streak>) {
        let mut streaks = self.0.lock();
        for before in taken {
            let is_full = streaks.len() >= KEPT_MAX;
            match streaks.entry(before.source) {
                Entry::Occupied(mut since) if !since.get().broken => {
                    let since = since.get_mut();
                    since.broken = before.broken;
                    since.failures = since.failures.saturating_add(before.failures);
                }
                // Since then one succeeded: what was before is over.
                Entry::Occupied(_) => {}
                Entry::Vacant(free) if !is_full => drop(free.insert(before)),
                Entry::Vacant(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wakepost_domain::Ulid;

    use super::*;

    fn source(number: u128) -> SourceId {
        SourceId(Ulid::from_bytes(number.to_be_bytes()))
    }

    #[test]
    fn a_success_ends_what_failed_before_it() {
        let streaks = Streaks::default();
        for ok in [false, false, true, false] {
            streaks.note(TenantId(1), source(1), ok);
        }
        let told = Streak { tenant: TenantId(1), source: source(1), broken: true, failures: 1 };
        assert_eq!(streaks.take(), [told]);
        assert!(streaks.take().is_empty());
    }

    #[test]
    fn what_was_not_written_down_counts_before_what_was_noted_since() {
        let streaks = Streaks::default();
        let note = |number: u128, outcomes: &[bool]| {
            outcomes.iter().for_each(|ok| streaks.note(TenantId(1), source(number), *ok));
        };
        note(1, &[true, false]);
        note(2, &[false, false]);
        note(3, &[false]);
        let taken = streaks.take();
        note(1, &[false, false]);
        note(2, &[true, false]);
        streaks.put_back(taken);
        let mut told = streaks.take();
        told.sort_by_key(|streak| streak.source);
        let told: Vec<_> = told.iter().map(|streak| (streak.broken, streak.failures)).collect();
        assert_eq!(told, [(true, 3), (true, 1), (false, 1)]);
    }

    #[test]
    fn however_many_sources_there_are_a_bounded_number_is_kept() {
        let streaks = Streaks::default();
        (0..20_000).for_each(|number| streaks.note(TenantId(1), source(number), false));
        let taken = streaks.take();
        assert_eq!(taken.len(), KEPT_MAX);
        (20_000..20_009).for_each(|number| streaks.note(TenantId(1), source(number), false));
        streaks.put_back(taken);
        assert_eq!(streaks.take().len(), KEPT_MAX);
    }
}
