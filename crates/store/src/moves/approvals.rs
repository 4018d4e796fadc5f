//! People in the loop: what is proposed, who decides, and what becomes of what nobody decides on.

use std::time::Duration;

use async_trait::async_trait;
use wakepost_domain::approval::ProposalHash;
use wakepost_domain::effect::EffectState;
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{TenantId, Timestamp, Ulid, WorkId};

use super::effects::EffectRow;
use super::settings::AuditEntry;
use crate::error::Result;

/// That a person must agree, to what exactly, and how long they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draft {
    /// What exactly is proposed.
    pub hash: ProposalHash,
    /// How long a person has to decide, and an approval is good.
    pub expires: Duration,
}

/// The hash of a proposal: SHA-256 over its text.
pub fn proposal_hash(key: &str, description: Option<&str>) -> ProposalHash {
    let text = ProposalHash::text(key, description);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    ProposalHash(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
}

/// A wish to act that is not itself an effect: what follows from the approval is told by effects of its own.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The lease.
    pub ticket: Ticket,
    /// The proposal's name within its scope.
    pub key: String,
    /// What is proposed.
    pub draft: Draft,
}

/// What the ledger knows of a proposal besides its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRow {
    /// What exactly was proposed.
    pub hash: ProposalHash,
    /// Until when it can be decided on, and then until when an approval is good.
    pub expires_at: Timestamp,
    /// Who decided.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<Timestamp>,
}

/// One proposal, as the person who decides saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenProposal {
    /// Its name.
    pub key: String,
    /// What exactly it said.
    pub hash: ProposalHash,
}

/// A person's decision.
#[derive(Debug, Clone)]
pub struct Decide {
    /// Whose it is.
    pub tenant: TenantId,
    /// The item that waits.
    pub work: WorkId,
    /// What is decided on: each must be as it was seen, or nothing is decided.
    pub proposals: Vec<SeenProposal>,
    /// Whether they agree.
    pub approved: bool,
    /// Who decides.
    pub by: String,
    /// What a refused item says of itself.
    pub reason: String,
    /// One entry for each proposal.
    pub audit: Vec<AuditEntry>,
}

impl Decide {
    /// Whether each proposal that is decided on is one of those that the item waits for, as it was seen, in time.
    pub(crate) fn seen_as_it_is(&self, waits: &[&EffectRow], now: Timestamp) -> bool {
        let is_there = |seen: &SeenProposal| {
            waits.iter().any(|effect| seen.key == effect.key && effect.proposes(seen.hash, now))
        };
        self.proposals.iter().all(is_there)
    }
}

/// What a decision came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// Nothing is left undecided: the item goes on, in this lane.
    GoesOn(LaneId),
    /// Something is.
    StillWaits,
    /// The item is cancelled.
    Cancelled {
        /// The lane of the next item of its order key, which may go now.
        next_in_order: Option<LaneId>,
    },
}

/// A proposal that nobody decided on in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overdue {
    /// Whose it is.
    pub tenant: TenantId,
    /// The item that proposed it.
    pub work: WorkId,
    /// What kind of item waits for it; none if it was given up by other means.
    pub kind: Option<WorkKind>,
    /// Whose effects it shares.
    pub scope: Ulid,
    /// Its name.
    pub key: String,
    /// What exactly it said.
    pub hash: ProposalHash,
}

impl Overdue {
    /// Whether an effect is this proposal, and still waits although its time is over.
    pub(crate) fn is_still(&self, effect: &EffectRow, now: Timestamp) -> bool {
        effect.state == EffectState::Proposed
            && (effect.runner.work, &effect.key) == (self.work, &self.key)
            && effect
                .approval
                .as_ref()
                .is_some_and(|approval| approval.hash == self.hash && approval.expires_at <= now)
    }
}

/// What a person has the word on.
#[async_trait]
pub trait Approvals {
    /// Whether a person agreed to exactly this, for this very item. If not, it is proposed, the run ends and the
    /// item waits for them, in the same transaction.
    async fn ask(&self, ask: Ask) -> Result<bool>;

    /// A person decides. `ProposalChanged` if one of the proposals is not what they saw, or its time is over.
    async fn decide(&self, decide: Decide) -> Result<Decided>;

    /// Proposals whose time is over, the oldest first.
    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>>;

    /// Gives up an item because nobody decided in time, if that is still so; `None` if it is not.
    async fn expire(&self, overdue: Overdue, audit: AuditEntry) -> Result<Option<Decided>>;
}

/// What an item says of itself that nobody decided on.
pub(crate) const UNDECIDED: &str = "nobody decided in time on what it proposed";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_can_be_hashed_by_anybody() {
        // printf '4:mailto Ada' | sha256sum
        let hash = proposal_hash("mail", Some("to Ada")).to_string();
        assert_eq!(hash, "3b8bbc210e297ef64685214eb98cfcf1a76dfa6ce6595bd365df4a6125ff8e10");
        assert_eq!(proposal_hash("k", None), proposal_hash("k", Some("")));
    }
}
