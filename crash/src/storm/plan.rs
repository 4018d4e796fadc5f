//! What a storm sends: events of three days, each several times, in random order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use wakepost_domain::Timestamp;
use wakepost_tests::{Source, now};

use super::tenant::{PROVIDERS, Tenant};
use crate::chance::Chance;

/// How often each event is sent: once, and replayed twice.
pub const SENDINGS: usize = 3;
const THREE_DAYS: Duration = Duration::from_secs(3 * 24 * 3600);

/// An event that is to be sent.
pub struct Planned {
    /// Whose it is, as an index.
    pub tenant: usize,
    /// What Wakepost tells it by.
    pub key: String,
    /// Which of the tenant's sources.
    source: usize,
    id: String,
    happened: Timestamp,
}

impl Planned {
    /// The source it comes from.
    pub fn source<'a>(&self, tenants: &'a [Tenant]) -> &'a Source {
        &tenants[self.tenant].sources[self.source]
    }

    /// The sender's own id, and when it happened.
    pub fn what(&self) -> (&str, Timestamp) {
        (&self.id, self.happened)
    }
}

/// All that is to be sent, and how far that is.
pub struct Plan {
    events: Vec<Planned>,
    /// Indexes of events, in the order of their sending.
    order: Vec<usize>,
    next: AtomicUsize,
}

impl Plan {
    /// Makes a plan, and tells each tenant's checker what will be sent.
    pub fn new(tenants: &[Tenant], count: u32, chance: &mut Chance) -> Plan {
        let begin = now().before(THREE_DAYS);
        let mut events = Vec::new();
        for number in 0..count {
            let place = number as usize;
            let (tenant, source) = (place % tenants.len(), place / tenants.len() % PROVIDERS.len());
            let id = format!("{number:08}");
            let happened = begin.after(THREE_DAYS * number / count);
            let from = &tenants[tenant].sources[source];
            let request = from.delivery(&id, happened);
            let key = from.dedup_key(&request);
            tenants[tenant].desk.told.sending(&key, Bytes::from(request.body));
            events.push(Planned { tenant, key, source, id, happened });
        }
        let order = shuffled(events.len(), chance);
        Plan { events, order, next: AtomicUsize::new(0) }
    }

    /// What is to be sent next, by whoever asks.
    pub fn next(&self) -> Option<&Planned> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        self.order.get(place).map(|index| &self.events[*index])
    }

    /// How many events a tenant gets.
    pub fn of_tenant(&self, tenant: usize) -> usize {
        self.events.iter().filter(|event| event.tenant == tenant).count()
    }
}

/// Every index as often as each event is sent, in any order.
fn shuffled(count: usize, chance: &mut Chance) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).cycle().take(count * SENDINGS).collect();
    for place in (1..order.len()).rev() {
        let other = chance.within(0, place as u64);
        order.swap(place, usize::try_from(other).unwrap_or(place));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_sent_three_times_in_an_order_that_the_seed_decides() {
        let order = shuffled(100, &mut Chance::new(7, 2));
        for index in 0..100 {
            assert_eq!(order.iter().filter(|other| **other == index).count(), SENDINGS);
        }
        assert!(!order.is_sorted());
        assert_eq!(order, shuffled(100, &mut Chance::new(7, 2)));
        assert_ne!(order, shuffled(100, &mut Chance::new(8, 2)));
    }
}
