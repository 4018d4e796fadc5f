//! How runs of sources' jobs went on this node, until it is written down: what failures in a row are counted by.

use std::collections::HashMap;

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
    fn however_many_sources_there_are_a_bounded_number_is_kept() {
        let streaks = Streaks::default();
        (0..20_000).for_each(|number| streaks.note(TenantId(1), source(number), false));
        assert_eq!(streaks.take().len(), KEPT_MAX);
    }
}
