//! Approvals: what a person decides on, as they saw it and in time, and what nobody decides on.

use wakepost_domain::effect::EffectState;
use wakepost_domain::work::State;
use wakepost_domain::{Timestamp, Ulid, WorkId};
use wakepost_store::moves::{CancelOutcome, Decide, Decided, Overdue};

use super::{Effect, Model};
use crate::call::{Answer, Refused, tell};

/// What an item says of itself that nobody decided on.
const UNDECIDED: &str = "nobody decided in time on what it proposed";

impl Model {
    pub(super) fn decide(&mut self, decide: &Decide) -> Answer {
        self.touched.insert(decide.work);
        let row = &self.of_tenant(decide.tenant, decide.work)?.row;
        if row.state != State::AwaitingApproval {
            return Err(Refused::InvalidState);
        }
        let (scope, lane) = (row.scope, row.lane);
        let waits = |effect: &Effect| {
            effect.state == EffectState::Proposed && effect.runner.work == decide.work
        };
        let open = self.effects.iter().filter(|((of, _), effect)| *of == scope && waits(effect));
        let open = open.count();
        let as_it_is = |key: &str, hash| {
            self.effects.get(&(scope, key.to_owned())).is_some_and(|effect| {
                let in_time = effect.expires_at.is_some_and(|end| end > self.now);
                waits(effect) && effect.hash == Some(hash) && in_time
            })
        };
        if !decide.proposals.iter().all(|seen| as_it_is(&seen.key, seen.hash)) {
            return Err(Refused::ProposalChanged);
        }
        for seen in &decide.proposals {
            self.write_decided(scope, &seen.key, decide.approved, Some(&decide.by), None);
        }
        if !decide.approved {
            return tell(Ok(self.give_up(decide.work, &decide.reason)));
        }
        if open > decide.proposals.len() {
            return tell(Ok(Decided::StillWaits));
        }
        let now = self.now;
        let row = &mut self.item(decide.work).row;
        (row.state, row.run_at) = (State::Pending, now);
        tell(Ok(Decided::GoesOn(lane)))
    }

    fn write_decided(
        &mut self,
        scope: Ulid,
        key: &str,
        approved: bool,
        by: Option<&str>,
        error: Option<&str>,
    ) {
        let (now, nth) = (self.now, self.next_nth(scope));
        let effect = self.effects.get_mut(&(scope, key.to_owned())).expect("it was found");
        effect.state = if approved { EffectState::Approved } else { EffectState::Rejected };
        effect.decided_by = by.map(str::to_owned);
        effect.decided_at = Some(now);
        effect.error = error.map(str::to_owned);
        effect.undecided_until = None;
        effect.resolved_nth = Some(nth);
    }

    fn give_up(&mut self, id: WorkId, reason: &str) -> Decided {
        match self.cancel(id, Some(reason)) {
            Ok(CancelOutcome::Cancelled { next_in_order }) => Decided::Cancelled { next_in_order },
            other => unreachable!("a waiting item is cancelled, not {other:?}"),
        }
    }

    /// When the time of the next proposal is over.
    pub fn next_overdue(&self) -> Option<Timestamp> {
        self.effects.values().filter_map(|effect| effect.undecided_until).min()
    }

    /// What nobody decided on in time, by scope and key.
    pub fn overdue(&self) -> Vec<Overdue> {
        let is_over = |effect: &Effect| effect.undecided_until.is_some_and(|end| end <= self.now);
        let over = self.effects.iter().filter(|(_, effect)| is_over(effect));
        over.map(|((scope, key), effect)| {
            let row = &self.items[&effect.runner.work].row;
            Overdue {
                tenant: row.tenant,
                work: row.id,
                kind: (row.state == State::AwaitingApproval).then_some(row.kind),
                scope: *scope,
                key: key.clone(),
                hash: effect.hash.expect("a proposal has one"),
            }
        })
        .collect()
    }

    pub(super) fn expire(&mut self, seen: &Overdue) -> Answer {
        self.touched.insert(seen.work);
        if !self.overdue().iter().any(|overdue| {
            (overdue.work, &overdue.key, overdue.hash) == (seen.work, &seen.key, seen.hash)
        }) {
            return tell(Ok(None::<Decided>));
        }
        self.write_decided(seen.scope, &seen.key, false, None, Some(UNDECIDED));
        if self.items[&seen.work].row.state != State::AwaitingApproval {
            return tell(Ok(None::<Decided>));
        }
        tell(Ok(Some(self.give_up(seen.work, UNDECIDED))))
    }
}
