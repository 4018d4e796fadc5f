//! The side-effect ledger.

use async_trait::async_trait;
use wakepost_domain::approval::ProposalHash;
use wakepost_domain::effect::{EffectState, OnDoubt, Runner};
use wakepost_domain::lease::Ticket;
use wakepost_domain::{TenantId, Timestamp, Ulid, WorkId};

use super::approvals::{ApprovalRow, Draft};
use super::settings::AuditEntry;
use crate::error::Result;
use crate::vault::Sealed;

/// A request to act.
#[derive(Debug, Clone)]
pub struct Begin {
    /// The lease.
    pub ticket: Ticket,
    /// The effect's name within its scope.
    pub key: String,
    /// What it would do, for people.
    pub description: Option<String>,
    /// What to do if an earlier run began it and never said how it went.
    pub on_doubt: OnDoubt,
    /// Whether a person must agree first.
    pub draft: Option<Draft>,
}

/// What a request to act came to.
#[derive(Debug, Clone, PartialEq)]
pub enum BeginOutcome {
    /// Go ahead.
    Execute {
        /// Whose effects the job shares.
        scope: Ulid,
    },
    /// It happened already.
    Skip {
        /// Whose effects the job shares.
        scope: Ulid,
        /// What it came to then.
        result: Option<Sealed>,
    },
    /// Nobody knows; the run has ended and the job is held.
    InDoubt {
        /// Whose effects the job shares.
        scope: Ulid,
    },
    /// It is proposed; the run has ended and the job waits for a person.
    NeedsApproval {
        /// Whose effects the job shares.
        scope: Ulid,
    },
}

/// One entry of the ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectRow {
    /// Its name.
    pub key: String,
    /// Where it stands.
    pub state: EffectState,
    /// The run that touched it last.
    pub runner: Runner,
    /// Whether that run is still alive.
    pub alive: bool,
    /// The place of its latest begin among all changes of its scope.
    pub begun_nth: i64,
    /// The place of its end among them.
    pub resolved_nth: Option<i64>,
    /// What it would do, for people.
    pub description: Option<String>,
    /// What it came to.
    pub result: Option<Sealed>,
    /// Why it did not happen.
    pub error: Option<String>,
    /// When it was begun first.
    pub begun_at: Timestamp,
    /// When it was resolved.
    pub resolved_at: Option<Timestamp>,
    /// What was proposed, and who decided, if it was.
    pub approval: Option<ApprovalRow>,
}

impl EffectRow {
    /// Whether an item waits for this to be decided on. A replay shares what the old item proposed, and waits for
    /// none of it.
    pub fn is_awaited_by(&self, item: WorkId) -> bool {
        self.state == EffectState::Proposed && self.runner.work == item
    }

    /// Whether it proposes exactly this, in time.
    pub(crate) fn proposes(&self, hash: ProposalHash, now: Timestamp) -> bool {
        let is_it = |approval: &ApprovalRow| approval.hash == hash && approval.expires_at > now;
        self.approval.as_ref().is_some_and(is_it)
    }
}

/// An operator's word on an effect in doubt.
#[derive(Debug, Clone)]
pub struct Resolve {
    /// Whose it is.
    pub tenant: TenantId,
    /// The job.
    pub work: WorkId,
    /// The effect.
    pub key: String,
    /// Whether it happened.
    pub committed: bool,
    /// What it came to.
    pub result: Option<Sealed>,
    /// Who says so, and why.
    pub audit: AuditEntry,
}

/// The ledger of side effects. Every move is durable before it answers.
#[async_trait]
pub trait Effects {
    /// Asks to act. An effect in doubt ends the run and holds the job, in the same transaction; so does one that a
    /// person must agree to, and the job then waits for that. Whoever repeats the call that ended the run so gets
    /// the same answer, as long as the job waits.
    async fn begin(&self, begin: Begin) -> Result<BeginOutcome>;

    /// It happened. Saying so again with the same lease is fine, and the first result stays.
    async fn commit(&self, ticket: Ticket, key: String, result: Option<Sealed>) -> Result<()>;

    /// It certainly did not happen.
    async fn abort(&self, ticket: Ticket, key: String, error: String) -> Result<()>;

    /// An operator says whether an effect in doubt happened. A job held for it alone goes on.
    async fn resolve(&self, resolve: Resolve) -> Result<()>;

    /// The effects of one scope, in the order they were begun.
    async fn effects(&self, tenant: TenantId, scope: Ulid) -> Result<Vec<EffectRow>>;
}
