//! What every part of the server may use: the store, the clock, the keys, the queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wakepost_domain::ports::{Clock, Entropy};
use wakepost_domain::{KeyId, SourceId, Timestamp, Ulid};
use wakepost_store::Store;
use wakepost_store::moves::Ledger;
use wakepost_store::vault::Vault;

use crate::api::{KeptKeySet, KeptStats};
use crate::config::Config;
use crate::directory::Directory;
use crate::edge::{Faults, Rejections};
use crate::executors::Places;
use crate::fresh::Fresh;
use crate::hub::{Hub, Setting, Word};
use crate::outbound::{HttpClient, Mailer};
use crate::queue::Queue;
use crate::rates::{Rates, Strangers};
use crate::self_webhook::SelfWebhook;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::streaks::Streaks;
use crate::telemetry::tally::Tally;
use crate::telemetry::traces::Traces;
use crate::tokens::Tokens;
use crate::webhooks::{Circuits, Untold};
use crate::workers::rescue::Aside;

/// How far the clock may go back before new ids go back with it. Small steps are common where clocks are kept in time,
/// and must not put a later job before an earlier one; after a large one a wrong time in each id would be worse.
const STEP_BACK_MAX: Duration = Duration::from_secs(60);

/// The parts, connected once at start.
pub struct Context {
    /// What the operator set.
    pub config: Config,
    /// The one base URL, for links and signed URLs.
    pub base_url: String,
    /// Where this machine reaches the server, for commands that it runs.
    pub local_url: String,
    /// The database.
    pub store: Arc<dyn Store>,
    /// The way into the ledger: the store, or whatever stands in front of it.
    pub ledger: Arc<dyn Ledger + Send + Sync>,
    /// Encryption at rest.
    pub vault: Arc<Vault>,
    /// Lease tokens and job keys.
    pub tokens: Tokens,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// Settings, cached.
    pub directory: Arc<Directory>,
    /// Turns and leases.
    pub queue: Arc<Queue>,
    /// Requests that we send.
    pub client: Arc<dyn HttpClient>,
    /// Mails that we send.
    pub mailer: Mailer,
    /// Requests that we send to ourselves.
    pub self_webhook: SelfWebhook,
    /// Room for runs on this node.
    pub places: Arc<Places>,
    /// What a stop waits for.
    pub tasks: TaskTracker,
    /// What events say that were just published.
    pub fresh: Fresh,
    /// Places for those who listen to the inbox.
    pub streams: Arc<Semaphore>,
    /// The other nodes.
    pub hub: Arc<dyn Hub>,
    /// How queues stood a moment ago.
    pub stats: KeptStats,
    /// Public keys of webhooks, as they were a moment ago.
    pub key_set: KeptKeySet,
    /// Places for those who fetch whole events by a link.
    pub links: Semaphore,
    /// What is counted.
    pub metrics: Metrics,
    /// What is counted by tenant and minute.
    pub tally: Tally,
    /// What a collector of traces hears of.
    pub traces: Traces,
    /// How sources' jobs went.
    pub streaks: Streaks,
    /// Where refused requests leave their receipts.
    pub rejections: Rejections,
    /// How many requests sources have taken lately.
    pub rates: Rates<SourceId>,
    /// How many calls keys have made lately.
    pub key_rates: Rates<KeyId>,
    /// Who sends keys that are none.
    pub strangers: Strangers,
    /// What providers were answered badly.
    pub faults: Faults,
    /// Successes that no circuit was told of yet.
    pub untold: Untold,
    /// Whose circuit is being counted.
    pub circuits: Circuits,
    /// The id that was given out last.
    pub last_id: Mutex<Ulid>,
    /// Runs that the rescuer could not end.
    pub aside: Aside,
    /// Until when timers were looked at, by the database's clock, in milliseconds; 0: not yet.
    pub timers_seen: AtomicI64,
    /// Keys used since the last time it was written down.
    pub used_keys: Mutex<HashMap<KeyId, Timestamp>>,
    /// Ends when the server is asked to stop.
    pub stop: CancellationToken,
}

/// After which id those of a server that starts now begin: a clock that was set back a little while it was down puts
/// nothing before what is there, as one that is set back under it does not.
pub async fn last_id(
    store: &dyn Store,
    now: Timestamp,
    entropy: &dyn Entropy,
) -> wakepost_store::Result<Ulid> {
    let newest = store.newest_id(Ulid::floor(now.after(STEP_BACK_MAX))).await?;
    // The events of one body have ids after its own, in the same millisecond. By chance, since another node may start
    // after the same one: ids that both gave out would be taken for another try of the same thing.
    let beginning = |id: Ulid| Ulid::new(id.time().after(Duration::from_millis(1)), entropy);
    Ok(newest.map_or(Ulid::MIN, beginning))
}

impl Context {
    /// The time now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Notes that a key was used; a worker writes it down now and then.
    pub fn key_used(&self, key: KeyId) {
        self.used_keys.lock().insert(key, self.now());
    }

    /// Settings were changed: this node and the others read them anew.
    pub fn changed(&self, setting: Setting) {
        self.forget(setting);
        self.hub.tell(Word::Changed(setting));
    }

    /// This node reads settings anew.
    pub fn forget(&self, setting: Setting) {
        match setting {
            Setting::Source(id) => self.directory.forget_source(id),
            // The default tenant's types are read by all tenants, but kept once.
            Setting::Webhooks(tenant) => self.directory.forget_webhooks(tenant),
            Setting::Tenants => self.directory.forget_tenants(),
            // No rule of the queue is a key's.
            Setting::Keys => return self.directory.forget_keys(),
        }
        self.queue.rules_changed();
    }

    /// A new id for something that happens now. It sorts after all that this node gave out before, unless the clock
    /// went back by more than a minute.
    pub fn new_id(&self) -> Ulid {
        let mut last = self.last_id.lock();
        let now = self.clock.now();
        *last = match (now..=now.after(STEP_BACK_MAX)).contains(&last.time()) {
            true => last.next(),
            false => Ulid::new(now, self.entropy.as_ref()),
        };
        *last
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Context")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;
    use wakepost_domain::WorkId;
    use wakepost_domain::work::WorkKind;

    use super::*;
    use crate::trial::Trial;

    struct Stopped(Timestamp);

    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            self.0
        }
    }

    #[tokio::test]
    async fn two_nodes_that_start_after_the_same_id_give_out_different_ones_after_it() {
        let trial = Trial::start().await;
        let made = trial.post("/jobs", &json!({"kind": "t", "input": 1})).await;
        let newest = WorkId::parse(made["id"].as_str().unwrap(), WorkKind::Job).unwrap();
        let clock = Arc::new(Stopped(newest.0.time().before(Duration::from_secs(5))));
        let mut given = BTreeSet::new();
        for _ in 0..2 {
            let node = trial.node(clock.clone(), trial.context.vault.clone()).await;
            let ids: Vec<Ulid> = (0..50).map(|_| node.new_id()).collect();
            assert!(ids[0] > newest.0 && ids.is_sorted());
            given.extend(ids);
        }
        assert_eq!(given.len(), 100);
    }
}
