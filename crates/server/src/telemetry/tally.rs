//! What this node counts by tenant and minute, until it is written down.
//!
//! An event costs one short lock and no allocation. What is counted in the last seconds before a crash is lost: these are
//! figures for people, not the ledger.

use std::collections::HashMap;

use parking_lot::Mutex;
use wakepost_domain::figures::{Figure, Figures, minute};
use wakepost_domain::{TenantId, Timestamp};
use wakepost_store::moves::InMinute;

/// How many tenants' minutes are kept; those of further tenants are summed up under nobody's name.
const KEPT_MAX: usize = 5000;
/// Nobody's name.
const OTHERS: TenantId = TenantId(0);
/// For how many minutes the others are kept apart while nothing can be written down.
const OTHERS_MAX: usize = 60;

/// What was counted.
pub struct Tally {
    /// What this node's rows are told apart by.
    pub node: i64,
    minutes: Mutex<HashMap<(TenantId, i64), Kept>>,
}

#[derive(Default)]
struct Kept {
    figures: Figures,
    is_new: bool,
    /// What of it is counted in the metrics.
    told: Figures,
}

/// What was counted since the last time.
#[derive(Debug, Default)]
pub struct Taken {
    /// Each minute in which something was, whole.
    pub rows: Vec<InMinute<Figures>>,
    /// By how much figures grew.
    pub grown: Vec<(TenantId, Figure, u64)>,
}

impl Tally {
    /// For a node, by a random number.
    pub fn new(node: i64) -> Tally {
        Tally { node, minutes: Mutex::default() }
    }

    /// Counts something that happened to a tenant.
    pub fn note(&self, tenant: TenantId, at: Timestamp, count: impl FnOnce(&mut Figures)) {
        let minute = minute(at);
        let mut minutes = self.minutes.lock();
        let len = minutes.len();
        let mut key = (tenant, minute);
        if len >= KEPT_MAX && !minutes.contains_key(&key) {
            key.0 = OTHERS;
            if len >= KEPT_MAX + OTHERS_MAX && !minutes.contains_key(&key) {
                return;
            }
        }
        let kept = minutes.entry(key).or_default();
        count(&mut kept.figures);
        kept.is_new = true;
    }

    /// What was counted since the last time, each minute whole. What is over for good is forgotten.
    pub fn take(&self, now: Timestamp) -> Taken {
        let this = minute(now);
        let mut minutes = self.minutes.lock();
        // A clock that went back a little finds the minute before.
        minutes.retain(|(_, minute), kept| kept.is_new || *minute >= this - 1);
        let new = minutes.iter_mut().filter(|(_, kept)| kept.is_new);
        let mut taken = Taken::default();
        for ((tenant, minute), kept) in new {
            kept.is_new = false;
            for figure in Figure::ALL {
                let more = kept.figures.get(figure) - kept.told.get(figure);
                if more > 0 {
                    taken.grown.push((*tenant, figure, more));
                }
            }
            kept.told = kept.figures;
            taken.rows.push(InMinute { tenant: *tenant, minute: *minute, what: kept.figures });
        }
        taken.rows.sort_by_key(|row| (row.tenant, row.minute));
        taken
    }

    /// Takes back what could not be written down.
    pub fn put_back(&self, rows: &[InMinute<Figures>]) {
        let mut minutes = self.minutes.lock();
        for row in rows {
            if let Some(kept) = minutes.get_mut(&(row.tenant, row.minute)) {
                kept.is_new = true;
            }
        }
    }
}

impl std::fmt::Debug for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tally")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(figures: &mut Figures) {
        figures.count(Figure::Accepted, 1);
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_secs(minute * 60)
    }

    #[test]
    fn a_minute_is_told_whole_and_only_if_something_was_counted() {
        let tally = Tally::new(1);
        tally.note(TenantId(1), at(5), one);
        assert_eq!(tally.take(at(5)).rows.len(), 1);
        assert_eq!(tally.take(at(5)).rows.len(), 0);
        tally.note(TenantId(1), at(5), one);
        let taken = tally.take(at(5));
        assert_eq!(taken.rows[0].what.get(Figure::Accepted), 2);
        assert_eq!(taken.grown, [(TenantId(1), Figure::Accepted, 1)]);
        tally.put_back(&taken.rows);
        let again = tally.take(at(9));
        assert_eq!(again.rows, taken.rows, "what was not written down stays");
        assert!(again.grown.is_empty(), "and is not counted twice");
        tally.take(at(9));
        assert!(tally.minutes.lock().is_empty());
    }

    #[test]
    fn however_many_tenants_there_are_a_bounded_number_is_kept_and_nothing_is_lost() {
        let tally = Tally::new(1);
        for tenant in 1..=20_000 {
            tally.note(TenantId(tenant), at(5), one);
        }
        let taken = tally.take(at(5)).rows;
        assert_eq!(taken.len(), KEPT_MAX + 1);
        assert_eq!(taken[0].tenant, OTHERS);
        assert_eq!(taken.iter().map(|row| row.what.get(Figure::Accepted)).sum::<u64>(), 20_000);
        for minute in 6..10_000 {
            tally.note(TenantId(1), at(minute), one);
        }
        assert!(tally.minutes.lock().len() <= KEPT_MAX + OTHERS_MAX);
    }
}
