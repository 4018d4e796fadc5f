//! What a work item waits for that neither runs nor has ended.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use wakepost_domain::Timestamp;
use wakepost_domain::executor::Executor;
use wakepost_domain::lane::{Lane, LaneId};
use wakepost_domain::sequence::OUT_OF_ORDER;
use wakepost_domain::work::State;
use wakepost_store::Result;
use wakepost_store::moves::{Bound, Cap, CapScope, Counts, WorkRow};

use crate::context::Context;
use crate::directory::Policy;

/// The bounds of some lanes, and what counts towards them now: enough for all rows of a page.
#[derive(Debug, Default)]
pub struct Waits {
    now: Timestamp,
    policies: HashMap<LaneId, Policy>,
    counts: Counts,
}

impl Waits {
    /// Looks at what bounds the rows that are ready. One look at the counters for all of them, and none if nothing
    /// is bounded.
    pub async fn look(context: &Context, rows: &[WorkRow], lanes: &[Arc<Lane>]) -> Result<Waits> {
        let now = context.now();
        let ready: HashSet<LaneId> =
            rows.iter().filter(|row| is_ready(row, now)).map(|row| row.lane).collect();
        let mut policies = HashMap::new();
        for lane in lanes.iter().filter(|lane| ready.contains(&lane.id)) {
            if let Entry::Vacant(place) = policies.entry(lane.id) {
                place.insert(context.directory.policy(lane).await?);
            }
        }
        let scopes: HashSet<CapScope> =
            policies.values().flat_map(|policy| &policy.caps).map(|cap| cap.scope).collect();
        let counts = match scopes.is_empty() {
            true => Counts::default(),
            false => context.store.counts(scopes.into_iter().collect()).await?,
        };
        Ok(Waits { now, policies, counts })
    }

    /// What a row waits for.
    pub fn on(&self, row: &WorkRow, lane: Option<&Lane>) -> Option<&'static str> {
        let early = || row.meta.flags.iter().any(|flag| flag == OUT_OF_ORDER);
        match row.state {
            State::Running => None,
            state if state.is_terminal() => None,
            State::AwaitingApproval => Some("approval"),
            State::Held => Some("operator"),
            _ if row.behind => Some("order_key"),
            State::Scheduled if early() => Some("sequence"),
            _ if lane.is_some_and(|lane| lane.key.expands()) => Some("expansion"),
            _ if row.run_at > self.now => Some("run_at"),
            _ => self.bound(row.lane),
        }
    }

    /// What an item of a lane waits for that is ready.
    fn bound(&self, lane: LaneId) -> Option<&'static str> {
        let policy = self.policies.get(&lane)?;
        match self.counts.blocked(&policy.caps) {
            Some(cap) => Some(word(cap)),
            None if policy.executor == Executor::Pull => Some("worker"),
            None => Some("executor"),
        }
    }
}

fn is_ready(row: &WorkRow, now: Timestamp) -> bool {
    row.state.is_claimable() && !row.behind && row.run_at <= now
}

fn word(cap: &Cap) -> &'static str {
    match (cap.scope, cap.bound) {
        (_, Bound::Budget(_)) => "budget",
        (CapScope::Tenant(_), Bound::Running(_)) => "tenant_cap",
        (CapScope::Source(_), Bound::Running(_)) => "source_cap",
        (CapScope::Tenant(_), Bound::Rate(_)) => "tenant_rate",
        (CapScope::Source(_), Bound::Rate(_)) => "source_rate",
        // Only what the gateway itself sends has one: its receiver has enough in hand.
        (CapScope::Lane(_), _) => "receiver",
    }
}
