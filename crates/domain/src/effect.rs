//! The side-effect ledger's rules: when an agent may act, and when it must not act again.

use serde::{Deserialize, Serialize};

use crate::approval::ProposalHash;
use crate::id::WorkId;

/// Where one effect stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// An agent was told to go ahead, and has not said how it went.
    Begun = 0,
    /// It happened; its result is stored.
    Committed = 1,
    /// It certainly did not happen.
    Aborted = 2,
    /// An agent would do it, and a person must decide first.
    Proposed = 3,
    /// A person agreed, and no run has begun it since.
    Approved = 4,
    /// A person refused, or nobody decided in time.
    Rejected = 5,
}

impl EffectState {
    /// All states.
    pub const ALL: [EffectState; 6] = [
        EffectState::Begun,
        EffectState::Committed,
        EffectState::Aborted,
        EffectState::Proposed,
        EffectState::Approved,
        EffectState::Rejected,
    ];

    /// From storage.
    pub fn from_code(code: i16) -> Option<EffectState> {
        EffectState::ALL.into_iter().find(|state| *state as i16 == code)
    }
}

/// What to do about an effect that an earlier run began and never resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDoubt {
    /// Hold the job until an operator says whether it happened.
    #[default]
    Hold,
    /// Do it again: the downstream dedupes by the idempotency key.
    Execute,
}

/// One run, as the ledger knows it: a work item and the fence of one claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runner {
    /// The work item.
    pub work: WorkId,
    /// The claim's fence.
    pub fence: i32,
}

/// What the ledger has under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Where it stands.
    pub state: EffectState,
    /// The run that touched it last.
    pub runner: Runner,
    /// What exactly was proposed, if it was.
    pub proposal: Option<ProposalHash>,
    /// Whether the time for it is not over.
    pub in_time: bool,
}

impl Known {
    /// Whether a person agreed to exactly this, for this very item, and it has not been done since.
    pub fn approves(&self, runner: Runner, asked: ProposalHash) -> bool {
        self.state == EffectState::Approved && self.is_of(runner, asked) && self.in_time
    }

    /// An approval is bound to the item it was given to: a replay asks again.
    fn is_of(&self, runner: Runner, asked: ProposalHash) -> bool {
        self.runner.work == runner.work && self.proposal == Some(asked)
    }

    /// Whether this very run was told to go ahead with this very act.
    fn is_own(&self, runner: Runner, draft: Option<ProposalHash>) -> bool {
        let is_changed = self.proposal.zip(draft).is_some_and(|(was, asked)| was != asked);
        self.runner == runner && !is_changed
    }
}

/// What `begin` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Go ahead.
    Execute,
    /// It happened already: here is its result.
    Skip,
    /// Nobody knows whether it happened; the job is now held.
    InDoubt,
    /// A person must decide; the job now waits for that.
    NeedsApproval,
}

/// What `begin` does, given what the ledger has under the key. `draft`: what exactly is asked for, where a person
/// must agree.
///
/// Doubt comes before approval: what may have happened is not proposed once more, unless its owner declared a repeat
/// safe; and then only exactly what was approved is repeated unasked.
pub fn begin(
    known: Option<Known>,
    runner: Runner,
    on_doubt: OnDoubt,
    draft: Option<ProposalHash>,
) -> Decision {
    let may = |approved: bool| match draft.is_none() || approved {
        true => Decision::Execute,
        false => Decision::NeedsApproval,
    };
    let Some(known) = known else {
        return may(false);
    };
    let approved = draft.is_some_and(|asked| known.approves(runner, asked));
    match (known.state, on_doubt) {
        (EffectState::Committed, _) => Decision::Skip,
        (EffectState::Begun, _) if known.is_own(runner, draft) => Decision::Execute,
        (EffectState::Begun, OnDoubt::Hold) => Decision::InDoubt,
        (EffectState::Begun, OnDoubt::Execute) => {
            may(draft.is_some_and(|asked| known.is_of(runner, asked)))
        }
        (_, _) => may(approved),
    }
}

#[cfg(test)]
mod tests;
