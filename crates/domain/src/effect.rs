//! The side-effect ledger's rules: when an agent may act, and when it must not act again.

use serde::{Deserialize, Serialize};

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
}

impl EffectState {
    /// From storage.
    pub fn from_code(code: i16) -> Option<EffectState> {
        [EffectState::Begun, EffectState::Committed, EffectState::Aborted]
            .into_iter()
            .find(|state| *state as i16 == code)
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
}

/// What `begin` does, given what the ledger has under the key.
pub fn begin(known: Option<(EffectState, Runner)>, runner: Runner, on_doubt: OnDoubt) -> Decision {
    match known {
        None | Some((EffectState::Aborted, _)) => Decision::Execute,
        Some((EffectState::Committed, _)) => Decision::Skip,
        Some((EffectState::Begun, by)) if by == runner => Decision::Execute,
        Some((EffectState::Begun, _)) => match on_doubt {
            OnDoubt::Hold => Decision::InDoubt,
            OnDoubt::Execute => Decision::Execute,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Ulid;

    fn runner(work: u8, fence: i32) -> Runner {
        Runner { work: WorkId(Ulid::from_bytes([work; 16])), fence }
    }

    #[test]
    fn a_committed_effect_is_never_executed_again() {
        for by in [runner(1, 1), runner(1, 2), runner(2, 1)] {
            for on_doubt in [OnDoubt::Hold, OnDoubt::Execute] {
                let decision = begin(Some((EffectState::Committed, by)), runner(1, 1), on_doubt);
                assert_eq!(decision, Decision::Skip);
            }
        }
    }

    #[test]
    fn begun_by_an_earlier_run_is_in_doubt_unless_declared_safe() {
        let known = Some((EffectState::Begun, runner(1, 1)));
        assert_eq!(begin(known, runner(1, 2), OnDoubt::Hold), Decision::InDoubt);
        assert_eq!(begin(known, runner(1, 2), OnDoubt::Execute), Decision::Execute);
        assert_eq!(begin(known, runner(2, 1), OnDoubt::Hold), Decision::InDoubt);
    }

    #[test]
    fn asking_again_in_the_same_run_gets_the_same_answer() {
        let known = Some((EffectState::Begun, runner(1, 1)));
        assert_eq!(begin(known, runner(1, 1), OnDoubt::Hold), Decision::Execute);
    }

    #[test]
    fn an_aborted_effect_may_be_tried_again() {
        let known = Some((EffectState::Aborted, runner(1, 1)));
        assert_eq!(begin(known, runner(1, 2), OnDoubt::Hold), Decision::Execute);
    }
}
