//! What every part of the server may use: the store, the clock, the keys, the queue.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wakepost_domain::ports::{Clock, Entropy};
use wakepost_domain::{KeyId, SourceId, Timestamp, Ulid};
use wakepost_store::moves::Ledger;
use wakepost_store::vault::Vault;
use wakepost_store::{Result, Store};

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
use crate::to_the_end::ToTheEnd;
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
pub async fn last_id(store: &dyn Store, now: Timestamp, entropy: &dyn Entropy) -> Result<Ulid> {
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

    /// Changes settings, and has this node and the others read them anew. Also if the caller goes away before the commit is
    /// heard of, and after an error, since it may be committed all the same: alone on SQLite a copy has no age limit.
    pub async fn change<T, W>(
        &self,
        setting: Setting,
        write: impl FnOnce(Arc<dyn Store>) -> W,
    ) -> Result<T>
    where
        T: Send + 'static,
        W: Future<Output = Result<T>> + Send + 'static,
    {
        let write = write(self.store.clone());
        let Context { directory, queue, hub, .. } = self;
        let (directory, queue, hub) = (directory.clone(), queue.clone(), hub.clone());
        ToTheEnd::of(async move {
            let written = write.await;
            forget(&directory, &queue, setting);
            hub.tell(Word::Changed(setting));
            written
        })
        .await
    }

    /// Settings were changed by another node: this one reads them anew.
    pub fn forget(&self, setting: Setting) {
        forget(&self.directory, &self.queue, setting);
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

fn forget(directory: &Directory, queue: &Queue, setting: Setting) {
    match setting {
        Setting::Source(id) => directory.forget_source(id),
        // The default tenant's types are read by all tenants, but kept once.
        Setting::Webhooks(tenant) => directory.forget_webhooks(tenant),
        Setting::Tenants => directory.forget_tenants(),
        // No rule of the queue is a key's.
        Setting::Keys => return directory.forget_keys(),
    }
    queue.rules_changed();
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Context")
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::rc::Rc;

    use http::{Method, StatusCode};
    use serde_json::{Value, json};
    use tokio::sync::Notify;
    use wakepost_domain::WorkId;
    use wakepost_domain::work::WorkKind;
    use wakepost_store::failpoint::{self, Whim};

    use super::*;
    use crate::trial::{ADMIN, Trial, ask};

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

    /// Calls that commit, and whose caller does not hear of it.
    struct Unheard {
        trial: Trial,
        how: Whim,
        /// How many writes from now on is the one.
        nth: Rc<Cell<u32>>,
        committed: Rc<Notify>,
    }

    impl Unheard {
        async fn by(how: Whim) -> Unheard {
            let (nth, committed) = (Rc::<Cell<u32>>::default(), Rc::<Notify>::default());
            let unheard = Unheard {
                trial: Trial::start().await,
                how,
                nth: nth.clone(),
                committed: committed.clone(),
            };
            failpoint::choose(move |place, _| {
                if place != "store.after_commit" || nth.get() == 0 {
                    return None;
                }
                nth.set(nth.get() - 1);
                (nth.get() == 0).then(|| {
                    committed.notify_one();
                    how
                })
            });
            unheard
        }

        /// A call of the API whose nth write is the one that nobody hears of.
        async fn call(&self, method: Method, path: &str, body: Value, nth: u32) {
            self.nth.set(nth);
            let path = format!("/api/v1{path}");
            let calling = ask(&self.trial.context, ADMIN, method, &path, &body);
            match self.how {
                Whim::Wait(_) => tokio::select! {
                    answer = calling => panic!("{path}: {answer:?}"),
                    () = self.committed.notified() => {}
                },
                _ => {
                    let (status, answer) = calling.await;
                    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {answer}");
                    self.committed.notified().await;
                }
            }
        }

        /// What a call is answered, with the key of an admin of all tenants.
        async fn ask(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
            self.ask_with(ADMIN, method, path, body).await
        }

        async fn ask_with(
            &self,
            key: &str,
            method: Method,
            path: &str,
            body: Value,
        ) -> (u16, Value) {
            let (status, answer) = ask(&self.trial.context, key, method, path, &body).await;
            (status.as_u16(), answer)
        }
    }

    /// Whatever a node does by a setting, it does by the new one soon.
    async fn soon(what: &str, is_so: impl AsyncFn() -> bool) {
        for _ in 0..250 {
            if is_so().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("not in five seconds: {what}");
    }

    async fn settings_change_though_nobody_heard_of_it(how: Whim) {
        let unheard = Unheard::by(how).await;
        let trial = &unheard.trial;

        let key = json!({"name": "k", "role": "viewer", "tenant": "*"});
        let key = trial.post("/keys", &key).await;
        let secret = key["key"].as_str().unwrap();
        let works = async || {
            let path = "/api/v1/jobs";
            unheard.ask_with(secret, Method::GET, path, Value::Null).await.0 == 200
        };
        assert!(works().await);
        let path = format!("/keys/{}", key["id"].as_str().unwrap());
        unheard.call(Method::DELETE, &path, Value::Null, 1).await;
        soon("the key is revoked", async || !works().await).await;

        let source = json!({"provider": "generic", "unsigned": true});
        let source = trial.post("/sources", &source).await["id"].as_str().unwrap().to_owned();
        let takes = async || {
            let (path, body) = (format!("/in/{source}"), json!({"type": "a.b"}));
            unheard.ask(Method::POST, &path, body).await.0 < 300
        };
        assert!(takes().await);
        let path = format!("/sources/{source}");
        unheard.call(Method::PATCH, &path, json!({"enabled": false}), 1).await;
        soon("the source is disabled", async || !takes().await).await;
        trial.post(&format!("{path}/enable"), &json!({})).await;
        assert!(takes().await);
        unheard.call(Method::DELETE, &path, Value::Null, 1).await;
        soon("the source is deleted", async || !takes().await).await;

        let is_known = async || {
            unheard.ask(Method::GET, "/api/v1/jobs?tenant=acme", Value::Null).await.0 == 200
        };
        assert!(!is_known().await);
        unheard.call(Method::POST, "/tenants", json!({"slug": "acme", "name": "Acme"}), 1).await;
        soon("the tenant is there", is_known).await;

        let publish = async || {
            let event = json!({"type": "order.paid", "data": {}});
            unheard.ask(Method::POST, "/api/v1/events", event).await
        };
        assert_eq!(publish().await.0, 202);
        unheard.call(Method::PATCH, "/tenants/default", json!({"strict_types": true}), 1).await;
        soon("the tenant is strict about types", async || publish().await.0 == 422).await;
        let path = "/event-types/order.paid";
        unheard.call(Method::PUT, path, json!({"description": "Paid."}), 1).await;
        soon("the type is registered", async || publish().await.0 == 202).await;
        unheard.call(Method::DELETE, path, Value::Null, 1).await;
        soon("the type is gone", async || publish().await.0 == 422).await;
        unheard.call(Method::POST, "/event-types", json!({"name": "order.paid"}), 1).await;
        soon("the type is there", async || publish().await.0 == 202).await;

        let receivers = async |count: u64| publish().await.1["deliveries"] == count;
        let webhook = json!({"mode": "pull", "events": ["order.*"]});
        let first = trial.post("/webhooks", &webhook).await["id"].as_str().unwrap().to_owned();
        assert!(receivers(1).await);
        // The first write makes its lane.
        unheard.call(Method::POST, "/webhooks", webhook, 2).await;
        soon("the webhook is there", async || receivers(2).await).await;
        let path = format!("/webhooks/{first}");
        unheard.call(Method::PATCH, &path, json!({"events": ["refund.*"]}), 1).await;
        soon("the webhook wants others", async || receivers(1).await).await;
        unheard.call(Method::PATCH, &path, json!({"events": ["order.*"]}), 1).await;
        soon("it wants these again", async || receivers(2).await).await;
        unheard.call(Method::DELETE, &path, Value::Null, 1).await;
        soon("the webhook is gone", async || receivers(1).await).await;
    }

    /// On SQLite nothing else would ever tell this node.
    #[tokio::test]
    async fn settings_that_were_changed_apply_though_the_store_failed_after_the_commit() {
        settings_change_though_nobody_heard_of_it(Whim::Fail).await;
    }

    #[tokio::test]
    async fn settings_that_were_changed_apply_though_the_caller_hung_up_after_the_commit() {
        settings_change_though_nobody_heard_of_it(Whim::Wait(Duration::from_millis(50))).await;
    }
}
