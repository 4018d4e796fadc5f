//! The state machine: every legal move of a work item, and what the end of a run leads to.
//!
//! It is total and pure. The store turns each move into one conditional update whose condition is the
//! state the move starts from, so an impossible move changes nothing.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::run::RunOutcome;
use crate::work::{HeldReason, State};

/// What can happen to an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// A worker takes it.
    Claim,
    /// A run ends and leads to this state.
    Settle(State),
    /// An operator gives it up while nobody has it.
    Cancel,
    /// An operator lets a held item go on.
    Release,
    /// A person decided on the proposed effects. That nobody did in time is a refusal.
    Decide {
        /// Whether they agreed.
        approved: bool,
    },
}

/// The move is not possible from where the item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a {} item cannot do that", .from.as_str())]
pub struct InvalidMove {
    /// Where it stands.
    pub from: State,
}

/// Where a move leads.
pub fn next(from: State, mv: Move) -> Result<State, InvalidMove> {
    let to = match mv {
        Move::Claim if from.is_claimable() => Some(State::Running),
        // `Pending` is a hand-back, `Scheduled` an interruption; every other state but `Running` is an outcome.
        Move::Settle(to) if from == State::Running => Some(to).filter(|to| *to != State::Running),
        Move::Cancel if !from.is_terminal() && from != State::Running => Some(State::Cancelled),
        Move::Release if from == State::Held => Some(State::Pending),
        Move::Decide { approved } if from == State::AwaitingApproval => {
            Some(if approved { State::Pending } else { State::Cancelled })
        }
        _ => None,
    };
    to.ok_or(InvalidMove { from })
}

/// How a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The work is done.
    Succeeded,
    /// The worker says it failed.
    Failed {
        /// Whether another try makes sense.
        retryable: bool,
        /// When to try again, if the worker knows better than the policy.
        retry_after: Option<Duration>,
    },
    /// The lease ran out.
    Expired,
    /// It was only tried to see whether its receiver is back, which it is not: that counts towards nothing.
    ProbeFailed,
    /// The worker gives it back untouched, as at shutdown.
    HandedBack,
    /// An operator must decide first.
    Held(HeldReason),
    /// A person must decide on what it would do.
    Proposed,
    /// The worker stopped because it was asked to, or was stopped for not doing so.
    Cancelled,
    /// A new message of its thread takes the work back, to be done with the message.
    Interrupted {
        /// How long until it may run again.
        quiet: Duration,
    },
}

/// What the end of a run leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settlement {
    /// Where the item stands then.
    pub state: State,
    /// How long until it may be claimed again.
    pub delay: Duration,
    /// Whether the attempt is given back.
    pub give_back: bool,
    /// Why it waits for an operator.
    pub held: Option<HeldReason>,
    /// How the run is recorded.
    pub outcome: RunOutcome,
}

/// Decides what follows a run. `attempt` counts from 1; `fraction` is chance for the jitter.
pub fn settle(
    ending: Ending,
    attempt: i32,
    max_attempts: i32,
    backoff: &Backoff,
    fraction: f64,
) -> Settlement {
    let at = |state, outcome| Settlement {
        state,
        delay: Duration::ZERO,
        give_back: false,
        held: None,
        outcome,
    };
    let out_of_attempts = attempt >= max_attempts;
    match ending {
        Ending::Succeeded => at(State::Succeeded, RunOutcome::Succeeded),
        Ending::Failed { retryable, .. } if !retryable || out_of_attempts => {
            at(State::DeadLetter, RunOutcome::Failed)
        }
        Ending::Failed { retry_after, .. } => Settlement {
            delay: retry_after
                .unwrap_or_else(|| backoff.after(attempt.max(1) as u32, fraction))
                .min(crate::backoff::DELAY_MAX),
            ..at(State::Retrying, RunOutcome::Failed)
        },
        Ending::Expired if out_of_attempts => at(State::DeadLetter, RunOutcome::LeaseExpired),
        Ending::Expired => at(State::Retrying, RunOutcome::LeaseExpired),
        Ending::ProbeFailed => {
            Settlement { give_back: true, ..at(State::Retrying, RunOutcome::Failed) }
        }
        Ending::HandedBack => {
            Settlement { give_back: true, ..at(State::Pending, RunOutcome::HandedBack) }
        }
        Ending::Held(reason) => {
            Settlement { give_back: true, held: Some(reason), ..at(State::Held, RunOutcome::Held) }
        }
        Ending::Proposed => Settlement {
            give_back: true,
            ..at(State::AwaitingApproval, RunOutcome::AwaitingApproval)
        },
        Ending::Cancelled => at(State::Cancelled, RunOutcome::Cancelled),
        Ending::Interrupted { quiet } => Settlement {
            delay: quiet.min(crate::backoff::DELAY_MAX),
            give_back: true,
            ..at(
                if quiet.is_zero() { State::Pending } else { State::Scheduled },
                RunOutcome::Interrupted,
            )
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_state() -> impl Strategy<Value = State> {
        prop::sample::select(State::ALL.to_vec())
    }

    fn any_move() -> impl Strategy<Value = Move> {
        prop_oneof![
            Just(Move::Claim),
            any_state().prop_map(Move::Settle),
            Just(Move::Cancel),
            Just(Move::Release),
            any::<bool>().prop_map(|approved| Move::Decide { approved }),
        ]
    }

    fn any_ending() -> impl Strategy<Value = Ending> {
        prop_oneof![
            Just(Ending::Succeeded),
            (any::<bool>(), prop::option::of(0u64..u64::MAX)).prop_map(|(retryable, secs)| {
                Ending::Failed { retryable, retry_after: secs.map(Duration::from_secs) }
            }),
            Just(Ending::Expired),
            Just(Ending::HandedBack),
            Just(Ending::Held(HeldReason::InDoubt)),
            Just(Ending::Proposed),
            Just(Ending::Cancelled),
            Just(Ending::ProbeFailed),
            any::<Duration>().prop_map(|quiet| Ending::Interrupted { quiet }),
        ]
    }

    proptest! {
        #[test]
        fn a_terminal_state_is_never_left(from in any_state(), mv in any_move()) {
            if from.is_terminal() {
                prop_assert_eq!(next(from, mv), Err(InvalidMove { from }));
            }
        }

        #[test]
        fn only_a_claim_makes_an_item_run(from in any_state(), mv in any_move()) {
            if next(from, mv) == Ok(State::Running) {
                prop_assert_eq!(mv, Move::Claim);
                prop_assert!(from.is_claimable());
            }
        }

        #[test]
        fn every_end_of_a_run_is_a_legal_move(
            ending in any_ending(), attempt in 1i32..200, max in 1i32..100, fraction in 0.0..1.0f64,
        ) {
            let settlement = settle(ending, attempt, max, &Backoff::default(), fraction);
            prop_assert_eq!(next(State::Running, Move::Settle(settlement.state)), Ok(settlement.state));
            prop_assert!(settlement.delay <= crate::backoff::DELAY_MAX);
            prop_assert_eq!(settlement.held.is_some(), settlement.state == State::Held);
        }

        #[test]
        fn attempts_never_pass_their_maximum(
            ending in any_ending(), attempt in 1i32..200, max in 1i32..100,
        ) {
            let settlement = settle(ending, attempt, max, &Backoff::default(), 0.5);
            if settlement.state == State::Retrying && !settlement.give_back {
                prop_assert!(attempt < max);
            }
        }
    }
}
