//! A small bounded cache whose entries may have an age limit.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;

/// When this many are kept, all are dropped: simpler than choosing, and rare.
const ENTRIES_MAX: usize = 50_000;

pub struct Cache<K, V> {
    ttl: Option<Duration>,
    entries: RwLock<HashMap<K, (Instant, V)>>,
    generation: AtomicU64,
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    pub fn new(ttl: Option<Duration>) -> Cache<K, V> {
        Cache { ttl, entries: RwLock::default(), generation: AtomicU64::new(0) }
    }

    pub fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.read();
        let (at, value) = entries.get(key)?;
        self.ttl.is_none_or(|ttl| at.elapsed() < ttl).then(|| value.clone())
    }

    /// Changes whenever something is forgotten; see [`Cache::put`].
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Keeps what was read after `seen`, unless something was forgotten since: it may be about this.
    pub fn put(&self, seen: u64, key: K, value: V) {
        let mut entries = self.entries.write();
        if self.generation() != seen {
            return;
        }
        if entries.len() >= ENTRIES_MAX {
            entries.clear();
        }
        entries.insert(key, (Instant::now(), value));
    }

    pub fn forget(&self, key: &K) {
        let mut entries = self.entries.write();
        self.generation.fetch_add(1, Ordering::AcqRel);
        entries.remove(key);
    }

    pub fn forget_all(&self) {
        let mut entries = self.entries.write();
        self.generation.fetch_add(1, Ordering::AcqRel);
        entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_read_before_a_change_is_not_kept_after_it() {
        let cache = Cache::new(None);
        let seen = cache.generation();
        cache.forget(&1);
        cache.put(seen, 1, "old");
        assert_eq!(cache.get(&1), None);
        cache.put(cache.generation(), 1, "new");
        assert_eq!(cache.get(&1), Some("new"));
    }

    #[test]
    fn a_value_does_not_outlive_its_age_limit() {
        let cache = Cache::new(Some(Duration::ZERO));
        cache.put(0, 1, "x");
        assert_eq!(cache.get(&1), None);
    }
}
