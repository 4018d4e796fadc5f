//! How many requests a source, a key or a stranger may make, where there is a limit.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How many with a limit are remembered; beyond it all start anew.
const KEPT_MAX: usize = 50_000;
/// How many wrong keys an address may send at once, and in a minute.
pub const STRANGE_BURST: f64 = 20.0;
const STRANGE: Limit = Limit { per_second: STRANGE_BURST / 60.0, burst: STRANGE_BURST };

/// How fast a bucket fills, and how much it holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    per_second: f64,
    burst: f64,
}

impl Limit {
    /// So many in a second: the bucket holds one second's worth, so that a burst of that size passes.
    pub fn per_second(per_second: f64) -> Limit {
        Limit { per_second, burst: per_second.max(1.0) }
    }
}

/// The buckets of this node. They outlive the copies of a source or key, which are read anew every second where there
/// are many nodes.
#[derive(Debug)]
pub struct Rates<K> {
    by_key: Mutex<HashMap<K, Bucket>>,
}

impl<K> Default for Rates<K> {
    fn default() -> Rates<K> {
        Rates { by_key: Mutex::default() }
    }
}

impl<K: Eq + Hash> Rates<K> {
    /// Takes a place of one with this limit, or says how long until there is one.
    pub fn take(&self, key: K, limit: Limit) -> Result<(), Duration> {
        let now = Instant::now();
        let mut by_key = self.by_key.lock();
        if by_key.len() >= KEPT_MAX {
            by_key.clear();
        }
        let bucket = by_key.entry(key).or_insert_with(|| Bucket::new(limit, now));
        if bucket.limit != limit {
            *bucket = Bucket::new(limit, now);
        }
        bucket.take_at(now)
    }
}

/// Who sends wrong keys, by address.
#[derive(Debug, Default)]
pub struct Strangers(Rates<IpAddr>);

impl Strangers {
    /// Notes a wrong key, or says how long its sender has to wait before the next is answered as one.
    pub fn note(&self, address: IpAddr) -> Result<(), Duration> {
        self.0.take(network(address), STRANGE)
    }
}

/// One sender has as many addresses of version 6 as it likes within its network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        v4 => v4,
    }
}

#[derive(Debug)]
struct Bucket {
    limit: Limit,
    seen: Instant,
    held: f64,
}

impl Bucket {
    /// A full bucket.
    fn new(limit: Limit, now: Instant) -> Bucket {
        Bucket { limit, seen: now, held: limit.burst }
    }

    /// Takes one, or says how long until there is one again.
    fn take_at(&mut self, now: Instant) -> Result<(), Duration> {
        let Limit { per_second, burst } = self.limit;
        let filled = now.saturating_duration_since(self.seen).as_secs_f64() * per_second;
        self.seen = now.max(self.seen);
        self.held = (self.held + filled).min(burst);
        if self.held >= 1.0 {
            self.held -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.held) / per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_one_second_passes_and_then_the_rate() {
        let start = Instant::now();
        let mut rate = Bucket::new(Limit::per_second(5.0), start);
        let mut taken = |after_ms| rate.take_at(start + Duration::from_millis(after_ms)).is_ok();
        assert_eq!((0..10).filter(|_| taken(0)).count(), 5);
        assert!(!taken(199));
        assert!(taken(200));
        assert!(!taken(200));
        assert_eq!((0..10).filter(|_| taken(10_000)).count(), 5, "it holds one second's worth");
    }

    #[test]
    fn a_slow_rate_says_how_long_to_wait() {
        let start = Instant::now();
        let mut rate = Bucket::new(Limit::per_second(0.1), start);
        assert_eq!(rate.take_at(start), Ok(()));
        let wait = rate.take_at(start).unwrap_err();
        assert!(wait > Duration::from_secs(9) && wait <= Duration::from_secs(10), "{wait:?}");
    }

    #[test]
    fn each_has_its_own_bucket_and_a_new_limit_a_new_one() {
        let rates = Rates::default();
        let take = |key, limit| rates.take(key, Limit::per_second(limit)).is_ok();
        assert!(take(1, 0.01) && !take(1, 0.01));
        assert!(take(2, 0.01));
        assert!(take(1, 0.02) && !take(1, 0.02));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let rates = Rates::default();
        for key in 0..KEPT_MAX + 10 {
            rates.take(key, Limit::per_second(1.0)).unwrap();
        }
        assert!(rates.by_key.lock().len() <= KEPT_MAX);
    }

    #[test]
    fn a_stranger_is_known_by_its_network() {
        let strangers = Strangers::default();
        let note = |text: &str| strangers.note(text.parse().unwrap()).is_ok();
        let sent = (0..30).filter(|n| note(&format!("2001:db8::{n:x}"))).count();
        assert_eq!(sent, STRANGE_BURST as usize);
        assert!(note("2001:db8:0:1::1"));
        assert_eq!((0..30).filter(|_| note("192.0.2.1")).count(), STRANGE_BURST as usize);
        assert!(!note("::ffff:192.0.2.1") && note("192.0.2.2"));
    }
}
