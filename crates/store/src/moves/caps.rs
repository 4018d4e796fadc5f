//! Bounds on work, and what counts towards them: how many run at once, how many start in a second, how much runs on
//! a day.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use wakepost_domain::budget::{Budget, Spent};
use wakepost_domain::lane::LaneId;
use wakepost_domain::rate::Rate;
use wakepost_domain::{SourceId, TenantId, Timestamp, WorkId};

use super::settings::AuditEntry;
use crate::error::Result;

/// Whose work a bound counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapScope {
    /// All of a tenant's.
    Tenant(TenantId),
    /// All of a source's.
    Source(SourceId),
    /// All of a lane's.
    Lane(LaneId),
}

impl CapScope {
    /// The counter's name in the database.
    pub fn text(self) -> String {
        match self {
            CapScope::Tenant(tenant) => format!("tenant:{}", tenant.0),
            CapScope::Source(source) => source.to_string(),
            CapScope::Lane(lane) => format!("lane:{}", lane.0),
        }
    }
}

/// What is bounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// How many run at once.
    Running(u32),
    /// How many start in a second.
    Rate(Rate),
    /// How much runs on a day. Only sources have one.
    Budget(Budget),
}

/// A bound on work. The claim itself checks and counts it, so it holds at every committed state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cap {
    /// Whose work it counts.
    pub scope: CapScope,
    /// What is bounded.
    pub bound: Bound,
}

impl Cap {
    /// A bound on what runs at once.
    pub fn running(scope: CapScope, limit: u32) -> Cap {
        Cap { scope, bound: Bound::Running(limit) }
    }

    /// How many more items it lets start now.
    pub fn room(&self, count: &Count, now: Timestamp) -> u32 {
        match self.bound {
            Bound::Running(limit) => u32::try_from(i64::from(limit) - count.running).unwrap_or(0),
            Bound::Rate(rate) => rate.room(count.next_at_ms, now),
            Bound::Budget(budget) => budget.room(count.spent),
        }
    }

    /// When it lets the next item start, as far as time alone decides that. In the past: it does now.
    pub fn free_at(&self, count: &Count, now: Timestamp) -> Option<Timestamp> {
        match self.bound {
            Bound::Running(_) => None,
            Bound::Rate(rate) => Some(rate.free_at(count.next_at_ms, now)),
            Bound::Budget(budget) => Some(budget.free_at(count.spent, now)),
        }
    }

    /// The budget, and whose it is.
    pub fn budget(&self) -> Option<(SourceId, Budget)> {
        match (self.scope, self.bound) {
            (CapScope::Source(source), Bound::Budget(budget)) => Some((source, budget)),
            _ => None,
        }
    }
}

/// What a counter says.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Count {
    /// How many run.
    pub running: i64,
    /// When the next start would be due, if they came evenly.
    pub next_at_ms: f64,
    /// What was used of today's budget.
    pub spent: Spent,
}

/// What counters say at one moment.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// The moment, by the database's clock.
    pub now: Timestamp,
    /// The counters that there are.
    pub of: HashMap<CapScope, Count>,
}

impl Counts {
    /// A counter; one that nothing was ever counted by says nothing.
    pub fn get(&self, scope: CapScope) -> Count {
        self.of.get(&scope).copied().unwrap_or_default()
    }

    /// How many of so many these bounds let start now.
    pub fn room(&self, caps: &[Cap], wanted: u32) -> u32 {
        caps.iter().map(|cap| cap.room(&self.get(cap.scope), self.now)).fold(wanted, u32::min)
    }

    /// Counts starts by the counters of these bounds. Whatever is bounded, each counter knows how many run: the end
    /// of a run gives its place back, and need not know what the bounds were.
    pub(crate) fn start(&mut self, caps: &[Cap], starts: u32) {
        // What was read may be older than what others made of it since: without a start there is nothing to say.
        if starts == 0 {
            return;
        }
        for scope in scopes(caps) {
            self.of.entry(scope).or_default().running += i64::from(starts);
        }
        for cap in caps {
            let count = self.of.entry(cap.scope).or_default();
            match cap.bound {
                Bound::Running(_) => {}
                Bound::Rate(rate) => {
                    count.next_at_ms = rate.after(count.next_at_ms, self.now, starts)
                }
                Bound::Budget(_) => count.spent.runs += i64::from(starts),
            }
        }
    }

    /// The first of these bounds that lets nothing start now.
    pub fn blocked<'a>(&self, caps: &'a [Cap]) -> Option<&'a Cap> {
        caps.iter().find(|cap| cap.room(&self.get(cap.scope), self.now) == 0)
    }
}

/// Whose counters these bounds need, each once.
fn scopes(caps: &[Cap]) -> BTreeSet<CapScope> {
    caps.iter().map(|cap| cap.scope).collect()
}

/// The counters that an item holds while it runs, separated by spaces; none without bounds.
pub(crate) fn names(caps: &[Cap]) -> Option<String> {
    let names: Vec<String> = scopes(caps).into_iter().map(CapScope::text).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// Bounds on work, outside of a claim.
#[async_trait]
pub trait Caps {
    /// What counters say.
    async fn counts(&self, scopes: Vec<CapScope>) -> Result<Counts>;

    /// Holds ready items of a lane, oldest first, if its source's budget is spent; answers how many.
    async fn hold_over_budget(
        &self,
        lane: LaneId,
        source: SourceId,
        budget: Budget,
        limit: u32,
    ) -> Result<u32>;

    /// Lets an item go on that was held, in another lane, which no budget binds.
    async fn release_into(
        &self,
        tenant: TenantId,
        work: WorkId,
        lane: LaneId,
        audit: AuditEntry,
    ) -> Result<()>;
}
