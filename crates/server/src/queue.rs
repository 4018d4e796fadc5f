//! Turns and leases: who gets the next item.
//!
//! [`Turns`] (in the domain) decides which lanes to ask, the store hands out leases. This room keeps the two
//! together, holds the workers that wait for work, and passes hints on: a commit, a timer, a rescued lease,
//! a word from another node.

mod firing;
mod resting;
mod seen;
mod waiting;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wakepost_domain::executor::Executor;
use wakepost_domain::fair::{Take, Turns, Wanted};
use wakepost_domain::lane::{Lane, LaneId};
use wakepost_domain::work::WorkKind;
use wakepost_domain::{SourceId, TenantId};
use wakepost_store::moves::{ClaimLane, ClaimRequest, Claimed};
use wakepost_store::{Result, Store, failpoint};

use crate::directory::{Directory, Policy};
use crate::hub::{Hub, Word};
pub use firing::Fire;
use resting::Resting;
use seen::Seen;
use waiting::Waiting;

/// How long a waiting worker sleeps at most before it looks for itself: the net under lost hints.
const SAFETY_POLL: Duration = Duration::from_secs(1);
/// How often one claim may go round when lanes turn out to be empty.
const ROUNDS_MAX: usize = 8;

/// What a worker asks for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Of this kind of work only.
    pub kind: WorkKind,
    /// The worker's name.
    pub worker: String,
    /// At most this many.
    pub max: u32,
    /// How long to wait for the first.
    pub wait: Duration,
    /// Of this tenant only.
    pub tenant: Option<TenantId>,
    /// Of these kinds only.
    pub kinds: Option<Vec<String>>,
    /// Of these sources only.
    pub sources: Option<Vec<SourceId>>,
    /// How long the leases should last.
    pub lease: Option<Duration>,
}

impl Ask {
    fn wants(&self, lane: &Lane) -> bool {
        let key = &lane.key;
        self.kind == key.kind
            && self.tenant.is_none_or(|tenant| tenant == key.tenant)
            && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&key.name))
            && self.sources.as_ref().is_none_or(|sources| {
                key.origin.is_some_and(|origin| sources.contains(&SourceId(origin)))
            })
    }
}

/// Which way an item reaches its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Pulled,
    Pushed,
    /// Not claimed here: a request that this server sends to itself claims it.
    Fired,
}

impl Way {
    fn of(executor: &Executor) -> Way {
        match executor {
            Executor::Pull => Way::Pulled,
            Executor::Http { .. } | Executor::Exec { .. } | Executor::Gateway => Way::Pushed,
            Executor::SelfWebhook { .. } => Way::Fired,
        }
    }
}

#[derive(Default)]
struct Rings {
    pulled: Turns,
    pushed: Turns,
    fired: Turns,
    waiting: Waiting,
    /// How the items of each lane run that no worker asks for.
    executors: HashMap<LaneId, Rule>,
    /// Lanes that were asked while a bound on running items applied: a freed place brings them back.
    parked: HashMap<TenantId, HashSet<LaneId>>,
    /// Lanes that a rate or a budget lets nothing start of before a known moment.
    resting: Resting,
}

impl Rings {
    fn turns(&mut self, way: Way) -> &mut Turns {
        match way {
            Way::Pulled => &mut self.pulled,
            Way::Pushed => &mut self.pushed,
            Way::Fired => &mut self.fired,
        }
    }

    /// Plans which items this node runs or fires, as far as it has places for them.
    fn plan(&mut self, way: Way, max: u32, places: &mut Places<'_>) -> Vec<Take> {
        let Rings { pushed, fired, executors, .. } = self;
        let turns = if way == Way::Fired { fired } else { pushed };
        let places = RefCell::new(places);
        let takes_place = |lane: &Lane| {
            let rule = executors.get(&lane.id);
            rule.is_some_and(|rule| (places.borrow_mut())(lane.id, rule))
        };
        turns.plan(max, Wanted { tenant: None, lane: Some(&takes_place) })
    }
}

/// How the items of a lane run that this node starts itself.
#[derive(Debug, Clone)]
pub struct Rule {
    /// What runs them.
    pub executor: Executor,
    /// How many of them this node has under way at once, where that is bounded.
    pub at_once: Option<usize>,
}

/// Whether this node can run one more item of a lane, which then has its place in the plan.
pub type Places<'a> = dyn FnMut(LaneId, &Rule) -> bool + Send + 'a;

/// A claimed item, with its lane and the rules for it.
pub type Pushed = (Claimed, Arc<Lane>, Policy);

/// The queue of this node.
pub struct Queue {
    store: Arc<dyn Store>,
    directory: Arc<Directory>,
    hub: Arc<dyn Hub>,
    rings: Mutex<Rings>,
    pushed: Notify,
    fired: Notify,
    rested: Notify,
    seen: Seen,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Queue")
    }
}

impl Queue {
    /// A queue over a store.
    pub fn new(store: Arc<dyn Store>, directory: Arc<Directory>, hub: Arc<dyn Hub>) -> Queue {
        Queue {
            store,
            directory,
            hub,
            rings: Mutex::default(),
            pushed: Notify::new(),
            fired: Notify::new(),
            rested: Notify::new(),
            seen: Seen::default(),
        }
    }

    /// A lane got ready work through this node: serve it, and tell the others.
    pub async fn hint(&self, lane: &Arc<Lane>, count: usize) {
        if failpoint::pass_async("wake.lost").await.is_err() {
            return;
        }
        self.hub.tell(Word::Ready(lane.id));
        self.hint_here(lane, count).await;
    }

    /// Lanes may have ready work.
    pub async fn hint_lanes(&self, ids: &[LaneId]) -> Result<()> {
        for lane in self.directory.lanes(ids).await? {
            self.hint_here(&lane, 1).await;
        }
        Ok(())
    }

    /// Lanes may have ready work of which others know too. What is fired is fired by who made it ready, and by the
    /// sweep: else every node would.
    pub async fn overhear(&self, ids: &[LaneId]) -> Result<()> {
        for lane in self.directory.lanes(ids).await? {
            self.hint_if(&lane, 1, |way| way != Way::Fired).await;
        }
        Ok(())
    }

    /// As [`Queue::hint_lanes`], and the other nodes are told.
    pub async fn hint_all_nodes(&self, ids: &[LaneId]) -> Result<()> {
        for id in ids {
            self.hub.tell(Word::Ready(*id));
        }
        self.hint_lanes(ids).await
    }

    async fn hint_here(&self, lane: &Arc<Lane>, count: usize) {
        self.hint_if(lane, count, |_| true).await;
    }

    /// Serves a lane whose items go a way that is wanted, and says whether they do.
    async fn hint_if(&self, lane: &Arc<Lane>, count: usize, wanted: fn(Way) -> bool) -> bool {
        // Without a policy (the store is down) the slow resync, or the sweep, will come back to it.
        let Ok(policy) = self.directory.policy(lane).await else {
            return false;
        };
        let way = Way::of(&policy.executor);
        if !wanted(way) {
            return false;
        }
        let mut rings = self.rings.lock();
        if rings.resting.has(lane.id) {
            return true;
        }
        let turns = rings.turns(way);
        turns.set_weight(lane.key.tenant, policy.weight);
        turns.hint(lane);
        if way == Way::Pulled {
            rings.waiting.wake(lane, count);
            return true;
        }
        let Policy { executor, at_once, .. } = policy;
        rings.executors.insert(lane.id, Rule { executor, at_once });
        match way {
            Way::Fired => self.fired.notify_one(),
            _ => self.pushed.notify_one(),
        }
        true
    }

    /// A place under a bound on running items got free: the lanes that waited for it may go on.
    pub async fn cap_freed(&self, tenant: TenantId) -> Result<()> {
        self.hub.tell(Word::Freed(tenant));
        self.unpark(tenant).await
    }

    /// As [`Queue::cap_freed`], told by another node.
    pub async fn unpark(&self, tenant: TenantId) -> Result<()> {
        let lanes = self.rings.lock().parked.remove(&tenant).unwrap_or_default();
        let hinted = self.hint_lanes(&lanes.iter().copied().collect::<Vec<_>>()).await;
        if hinted.is_err() {
            self.rings.lock().parked.entry(tenant).or_default().extend(lanes);
        }
        hinted
    }

    /// Leases items to a worker, waiting for the first if need be.
    pub async fn lease(&self, ask: &Ask, stop: &CancellationToken) -> Result<Vec<Pushed>> {
        let deadline = Instant::now() + ask.wait;
        self.seen.note(ask);
        loop {
            // Registered before looking, so that a hint between the look and the sleep is not missed.
            let place = waiting::Place::take(&self.rings, ask);
            let mut got = Vec::new();
            for _ in 0..ROUNDS_MAX {
                let wanted = |lane: &Lane| ask.wants(lane);
                let room = ask.max - got.len() as u32;
                let want = Wanted { tenant: ask.tenant, lane: Some(&wanted) };
                let plan = self.rings.lock().pulled.plan(room, want);
                if plan.is_empty() {
                    break;
                }
                match self.claim(Way::Pulled, &ask.worker, &plan, ask.lease, &mut got).await {
                    Ok(()) => {}
                    Err(error) if got.is_empty() => return Err(error),
                    Err(error) => {
                        // What the earlier rounds got is committed: it must reach its worker.
                        tracing::warn!(%error, "a later round of a claim failed");
                        break;
                    }
                }
            }
            if !got.is_empty() || Instant::now() >= deadline || stop.is_cancelled() {
                return Ok(got);
            }
            let nap = deadline.min(Instant::now() + SAFETY_POLL);
            tokio::select! {
                () = place.woken() => {}
                () = tokio::time::sleep_until(nap) => {}
                () = stop.cancelled() => {}
            }
            place.look_again();
        }
    }

    /// Claims items that this node itself shall run.
    pub async fn claim_pushed(
        &self,
        worker: &str,
        max: u32,
        places: &mut Places<'_>,
    ) -> Result<Vec<Pushed>> {
        let mut got = Vec::new();
        let plan = self.rings.lock().plan(Way::Pushed, max, places);
        if !plan.is_empty() {
            self.claim(Way::Pushed, worker, &plan, None, &mut got).await?;
        }
        Ok(got)
    }

    /// Waits until pushed work may be ready.
    pub async fn pushed_ready(&self) {
        self.pushed.notified().await;
    }

    async fn claim(
        &self,
        way: Way,
        worker: &str,
        plan: &[Take],
        lease: Option<Duration>,
        got: &mut Vec<Pushed>,
    ) -> Result<()> {
        let ids: Vec<LaneId> = plan.iter().map(|take| take.lane).collect();
        let mut request = ClaimRequest { worker: worker.to_owned(), lanes: Vec::new() };
        let mut known = HashMap::new();
        for lane in self.directory.lanes(&ids).await? {
            let policy = self.directory.policy(&lane).await?;
            // The source's executor changed since the hint: the lane belongs to the other ring now.
            if Way::of(&policy.executor) != way {
                self.rings.lock().turns(way).remove(lane.id);
                self.hint_here(&lane, 1).await;
                continue;
            }
            self.park(&lane, &policy);
            let count = plan.iter().find(|take| take.lane == lane.id).map_or(0, |take| take.count);
            request.lanes.push(claim_lane(&lane, &policy, count, lease));
            known.insert(lane.id, (lane, policy));
        }
        if request.lanes.is_empty() {
            return Ok(());
        }
        let asked_at = Instant::now();
        let claimed = self.store.claim(request).await?;
        let mut counts: HashMap<LaneId, u32> = HashMap::new();
        for item in &claimed {
            *counts.entry(item.lane).or_default() += 1;
        }
        let asked = plan.iter().filter(|take| known.contains_key(&take.lane));
        self.report(way, asked, &counts);
        let lanes = known.values().map(|(lane, policy)| (&**lane, policy));
        if let Err(error) = self.rest_bound(way, asked_at, lanes).await {
            // What was claimed must reach its worker; the resync comes back to the lanes.
            tracing::warn!(%error, "bounds could not be looked at");
        }
        got.extend(claimed.into_iter().filter_map(|item| {
            let (lane, policy) = known.get(&item.lane)?;
            Some((item, lane.clone(), policy.clone()))
        }));
        Ok(())
    }

    fn report<'a>(
        &self,
        way: Way,
        asked: impl Iterator<Item = &'a Take>,
        counts: &HashMap<LaneId, u32>,
    ) {
        let mut rings = self.rings.lock();
        for take in asked {
            let count = counts.get(&take.lane).copied().unwrap_or(0);
            rings.turns(way).report(*take, count);
        }
    }

    /// A lane under a bound is about to be asked. Noted before, not after it gave too little: a place that gets free
    /// in between must not be missed.
    fn park(&self, lane: &Lane, policy: &Policy) {
        if policy.running_max().is_some() {
            self.rings.lock().parked.entry(lane.key.tenant).or_default().insert(lane.id);
        }
    }
}

fn claim_lane(lane: &Lane, policy: &Policy, count: u32, lease: Option<Duration>) -> ClaimLane {
    ClaimLane {
        lane: lane.id,
        count,
        lease: lease.unwrap_or(policy.lease),
        run_timeout: policy.run_timeout,
        caps: policy.caps.clone(),
    }
}
