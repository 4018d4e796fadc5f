//! The rules of the ledger, one by one and over everything there can be.

use proptest::prelude::*;

use super::*;
use crate::id::Ulid;

fn runner(work: u8, fence: i32) -> Runner {
    Runner { work: WorkId(Ulid::from_bytes([work; 16])), fence }
}

fn hash(of: u8) -> ProposalHash {
    ProposalHash([of; 32])
}

/// What stands in the ledger, never proposed.
fn known(state: EffectState, runner: Runner) -> Option<Known> {
    Some(Known { state, runner, proposal: None, in_time: false })
}

fn proposed(state: EffectState, runner: Runner, of: u8) -> Option<Known> {
    Some(Known { state, runner, proposal: Some(hash(of)), in_time: true })
}

#[test]
fn a_committed_effect_is_never_executed_again() {
    for by in [runner(1, 1), runner(1, 2), runner(2, 1)] {
        for on_doubt in [OnDoubt::Hold, OnDoubt::Execute] {
            let known = known(EffectState::Committed, by);
            assert_eq!(begin(known, runner(1, 1), on_doubt, None), Decision::Skip);
        }
    }
}

#[test]
fn begun_by_an_earlier_run_is_in_doubt_unless_declared_safe() {
    let known = known(EffectState::Begun, runner(1, 1));
    assert_eq!(begin(known, runner(1, 2), OnDoubt::Hold, None), Decision::InDoubt);
    assert_eq!(begin(known, runner(1, 2), OnDoubt::Execute, None), Decision::Execute);
    assert_eq!(begin(known, runner(2, 1), OnDoubt::Hold, None), Decision::InDoubt);
}

#[test]
fn asking_again_in_the_same_run_gets_the_same_answer() {
    let auto = known(EffectState::Begun, runner(1, 1));
    let draft = proposed(EffectState::Begun, runner(1, 1), 7);
    for asked in [None, Some(hash(7))] {
        // Also where the source was switched between the two.
        assert_eq!(begin(auto, runner(1, 1), OnDoubt::Hold, asked), Decision::Execute);
        assert_eq!(begin(draft, runner(1, 1), OnDoubt::Hold, asked), Decision::Execute);
    }
}

#[test]
fn an_aborted_effect_may_be_tried_again_and_is_proposed_again() {
    let aborted = proposed(EffectState::Aborted, runner(1, 1), 7);
    assert_eq!(begin(aborted, runner(1, 2), OnDoubt::Hold, None), Decision::Execute);
    let asked = Some(hash(7));
    assert_eq!(begin(aborted, runner(1, 2), OnDoubt::Hold, asked), Decision::NeedsApproval);
}

#[test]
fn an_approval_is_for_one_proposal_of_one_item_and_for_a_time() {
    let approved = proposed(EffectState::Approved, runner(1, 1), 7);
    let ask = |known, by, of| begin(known, by, OnDoubt::Hold, Some(hash(of)));
    assert_eq!(ask(approved, runner(1, 2), 7), Decision::Execute);
    assert_eq!(ask(approved, runner(1, 2), 8), Decision::NeedsApproval);
    assert_eq!(ask(approved, runner(2, 1), 7), Decision::NeedsApproval);
    let late = approved.map(|known| Known { in_time: false, ..known });
    assert_eq!(ask(late, runner(1, 2), 7), Decision::NeedsApproval);
}

#[test]
fn a_changed_act_under_a_begun_key_is_in_doubt_or_proposed_and_never_just_done() {
    let begun = proposed(EffectState::Begun, runner(1, 1), 7);
    let changed = Some(hash(8));
    for by in [runner(1, 1), runner(1, 2)] {
        assert_eq!(begin(begun, by, OnDoubt::Hold, changed), Decision::InDoubt);
        assert_eq!(begin(begun, by, OnDoubt::Execute, changed), Decision::NeedsApproval);
    }
    assert_eq!(begin(begun, runner(1, 2), OnDoubt::Execute, Some(hash(7))), Decision::Execute);
}

fn any_runner() -> impl Strategy<Value = Runner> {
    (1u8..3, 1i32..3).prop_map(|(work, fence)| runner(work, fence))
}

fn any_hash() -> impl Strategy<Value = ProposalHash> {
    (1u8..3).prop_map(hash)
}

fn any_known() -> impl Strategy<Value = Known> {
    let state = prop::sample::select(EffectState::ALL.to_vec());
    (state, any_runner(), prop::option::of(any_hash()), any::<bool>())
        .prop_map(|(state, runner, proposal, in_time)| Known { state, runner, proposal, in_time })
}

fn any_on_doubt() -> impl Strategy<Value = OnDoubt> {
    prop::sample::select(vec![OnDoubt::Hold, OnDoubt::Execute])
}

proptest! {
    #[test]
    fn in_draft_nothing_is_done_unless_exactly_that_was_agreed_to(
        known in prop::option::of(any_known()), by in any_runner(), on_doubt in any_on_doubt(),
        asked in any_hash(),
    ) {
        if begin(known, by, on_doubt, Some(asked)) == Decision::Execute {
            let known = known.expect("something was agreed to");
            // A run that was told to go ahead before anybody had to agree hears the same again.
            let told_before = known.state == EffectState::Begun && known.runner == by
                && known.proposal.is_none();
            prop_assert!(told_before || known.proposal == Some(asked));
            prop_assert!(known.runner.work == by.work);
            prop_assert!(matches!(known.state, EffectState::Approved | EffectState::Begun));
        }
    }

    #[test]
    fn nobody_is_asked_where_nobody_need_agree(
        known in prop::option::of(any_known()), by in any_runner(), on_doubt in any_on_doubt(),
    ) {
        prop_assert_ne!(begin(known, by, on_doubt, None), Decision::NeedsApproval);
    }

    #[test]
    fn what_may_have_happened_is_neither_done_nor_proposed_unless_a_repeat_is_safe(
        known in any_known(), by in any_runner(), asked in prop::option::of(any_hash()),
    ) {
        if known.state == EffectState::Begun && known.runner != by {
            prop_assert_eq!(begin(Some(known), by, OnDoubt::Hold, asked), Decision::InDoubt);
        }
    }
}
