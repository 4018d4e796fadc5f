//! What a tired operator should do next about an event: the ledger turned into one sentence.

use crate::effect::EffectState;
use crate::work::{HeldReason, State};

/// Counts of one job's effects, and the sentence they make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EffectCounts {
    /// Effects that happened.
    pub committed: u32,
    /// Effects that nobody can vouch for.
    pub in_doubt: u32,
    /// Effects that a person must decide on.
    pub proposed: u32,
}

impl EffectCounts {
    /// Counts states. A begun effect is in doubt unless its own run is still alive.
    pub fn of(states: impl IntoIterator<Item = (EffectState, bool)>) -> EffectCounts {
        states.into_iter().fold(EffectCounts::default(), |mut counts, (state, alive)| {
            match state {
                EffectState::Committed => counts.committed += 1,
                EffectState::Begun if !alive => counts.in_doubt += 1,
                EffectState::Proposed => counts.proposed += 1,
                EffectState::Begun
                | EffectState::Aborted
                | EffectState::Approved
                | EffectState::Rejected => {}
            }
            counts
        })
    }

    /// Whether another run is safe, in the words of the spec.
    pub fn sentence(self) -> String {
        match (self.in_doubt, self.committed) {
            (0, 0) => "retry-safe: no side effect committed".to_owned(),
            (0, n) => format!("{n} {} committed, a retry skips {}", effects(n), them(n)),
            (n, _) => format!("{n} {} in doubt: decide before retrying", effects(n)),
        }
    }

    /// What an item waits for that a person must decide on.
    fn waiting(self) -> String {
        let n = self.proposed;
        let waits = if n == 1 { "waits" } else { "wait" };
        format!("{n} {} {waits} for approval: approve or reject {}", effects(n), them(n))
    }
}

/// The next action for a work item.
pub fn next_action(state: State, held: Option<HeldReason>, effects: EffectCounts) -> String {
    match (state, held) {
        (State::Succeeded, _) => "none: done".to_owned(),
        (State::Cancelled, _) => "none: cancelled".to_owned(),
        (State::Running, _) if effects.in_doubt == 0 => "none: running".to_owned(),
        (State::AwaitingApproval, _) => effects.waiting(),
        (State::Held, Some(HeldReason::HopLimit)) => "look at the chain, then release".to_owned(),
        (State::Held, Some(HeldReason::Budget)) => "raise the budget, or release".to_owned(),
        (State::Held, Some(HeldReason::UnknownKind)) => {
            "run a version that knows this kind of work, then release".to_owned()
        }
        _ => effects.sentence(),
    }
}

fn effects(n: u32) -> &'static str {
    if n == 1 { "effect" } else { "effects" }
}

fn them(n: u32) -> &'static str {
    if n == 1 { "it" } else { "them" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubt_comes_before_everything_else() {
        let counts = EffectCounts { committed: 2, in_doubt: 1, proposed: 0 };
        assert_eq!(counts.sentence(), "1 effect in doubt: decide before retrying");
        assert_eq!(
            EffectCounts { committed: 2, ..EffectCounts::default() }.sentence(),
            "2 effects committed, a retry skips them"
        );
        assert_eq!(EffectCounts::default().sentence(), "retry-safe: no side effect committed");
    }

    #[test]
    fn a_begun_effect_of_a_live_run_is_not_in_doubt() {
        let counts = EffectCounts::of([(EffectState::Begun, true), (EffectState::Begun, false)]);
        assert_eq!(counts, EffectCounts { in_doubt: 1, ..EffectCounts::default() });
    }

    #[test]
    fn what_waits_for_a_person_says_so() {
        let counts =
            EffectCounts::of([(EffectState::Proposed, false), (EffectState::Approved, false)]);
        let said = next_action(State::AwaitingApproval, None, counts);
        assert_eq!(said, "1 effect waits for approval: approve or reject it");
        // A proposal of a job that was cancelled waits for nobody.
        assert_eq!(next_action(State::Cancelled, None, counts), "none: cancelled");
    }
}
