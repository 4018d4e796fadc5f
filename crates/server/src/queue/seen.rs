//! Which workers have asked this node for work lately.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use wakepost_domain::TenantId;

use super::{Ask, Queue};

/// How many are remembered; beyond it all start anew.
const WORKERS_MAX: usize = 10_000;
/// How long one is.
const LATELY: Duration = Duration::from_secs(300);

/// When each worker of a tenant asked last. Workers of all tenants are nobody's.
#[derive(Default)]
pub struct Seen {
    workers: Mutex<HashMap<(TenantId, String), Instant>>,
}

impl Seen {
    pub fn note(&self, ask: &Ask) {
        let Some(tenant) = ask.tenant else { return };
        let mut workers = self.workers.lock();
        if workers.len() >= WORKERS_MAX {
            workers.clear();
        }
        workers.insert((tenant, ask.worker.clone()), Instant::now());
    }
}

impl Queue {
    /// The tenant's workers that asked lately, and how long ago.
    pub fn workers_seen(&self, tenant: TenantId) -> HashMap<String, Duration> {
        let workers = self.seen.workers.lock();
        let own = workers.iter().filter(|((of, _), _)| *of == tenant);
        let ages = own.map(|((_, worker), seen)| (worker.clone(), seen.elapsed()));
        ages.filter(|(_, age)| *age < LATELY).collect()
    }
}
