//! Effects: when an agent may act, must not act again, or has to ask.

use wakepost_domain::approval::ProposalHash;
use wakepost_domain::effect::{EffectState, OnDoubt, Runner};
use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State};
use wakepost_domain::{Timestamp, Ulid, WorkId};
use wakepost_store::moves::{Ask, Begin, BeginOutcome, Draft, Resolve};
use wakepost_store::vault::Sealed;

use super::Model;
use crate::call::{Answer, Refused, tell};

#[derive(Debug, Clone)]
pub struct Effect {
    pub state: EffectState,
    pub runner: Runner,
    pub begun_nth: i64,
    pub resolved_nth: Option<i64>,
    pub description: Option<String>,
    pub result: Option<Sealed>,
    pub error: Option<String>,
    pub begun_at: Timestamp,
    pub resolved_at: Option<Timestamp>,
    pub hash: Option<ProposalHash>,
    pub expires_at: Option<Timestamp>,
    pub undecided_until: Option<Timestamp>,
    pub decided_by: Option<String>,
    pub decided_at: Option<Timestamp>,
}

impl Effect {
    /// Whether a person agreed to exactly this, for this very item, and there is still time.
    fn is_approved(&self, work: WorkId, hash: ProposalHash, now: Timestamp) -> bool {
        self.state == EffectState::Approved
            && (self.runner.work, self.hash) == (work, Some(hash))
            && self.expires_at.is_some_and(|end| end > now)
    }
}

impl Model {
    pub(super) fn begin(&mut self, begin: &Begin) -> Answer {
        let ticket = &begin.ticket;
        let (scope, asked) = match self.asking(ticket, &begin.key, begin.draft)? {
            Asking::Repeats(scope) => return tell(Ok(BeginOutcome::NeedsApproval { scope })),
            Asking::First(scope) => (scope, begin.draft.map(|draft| draft.hash)),
        };
        let runner = Runner { work: ticket.work, fence: ticket.fence };
        let now = self.now;
        let effect = self.effects.get(&(scope, begin.key.clone()));
        let may = match effect {
            Some(effect) if effect.state == EffectState::Committed => {
                return tell(Ok(BeginOutcome::Skip { scope, result: effect.result.clone() }));
            }
            Some(effect) if effect.state == EffectState::Begun => {
                let is_changed = effect.hash.is_some() && asked.is_some() && effect.hash != asked;
                let is_own = effect.runner == runner && !is_changed;
                if !is_own && begin.on_doubt == OnDoubt::Hold {
                    let error = format!("effect {} is in doubt", begin.key);
                    let held = Ending::Held(HeldReason::InDoubt);
                    self.end_for_person(ticket.work, held, Some(&error));
                    return tell(Ok(BeginOutcome::InDoubt { scope }));
                }
                let is_same = effect.runner.work == runner.work && effect.hash == asked;
                is_own || asked.is_none() || is_same
            }
            Some(effect) => asked.is_none_or(|hash| effect.is_approved(ticket.work, hash, now)),
            None => asked.is_none(),
        };
        if may {
            self.write(scope, ticket, &begin.key, begin.description.clone(), begin.draft, false);
            return tell(Ok(BeginOutcome::Execute { scope }));
        }
        self.write(scope, ticket, &begin.key, begin.description.clone(), begin.draft, true);
        self.end_for_person(ticket.work, Ending::Proposed, None);
        tell(Ok(BeginOutcome::NeedsApproval { scope }))
    }

    pub(super) fn ask(&mut self, ask: &Ask) -> Answer {
        let Asking::First(scope) = self.asking(&ask.ticket, &ask.key, Some(ask.draft))? else {
            return tell(Ok(false));
        };
        let effect = self.effects.get(&(scope, ask.key.clone()));
        let (work, hash) = (ask.ticket.work, ask.draft.hash);
        if effect.is_some_and(|effect| effect.is_approved(work, hash, self.now)) {
            return tell(Ok(true));
        }
        self.write(scope, &ask.ticket, &ask.key, None, Some(ask.draft), true);
        self.end_for_person(work, Ending::Proposed, None);
        tell(Ok(false))
    }

    /// Whether a run may ask at all, and whether it asks for the second time what ended it.
    fn asking(
        &mut self,
        ticket: &Ticket,
        key: &str,
        draft: Option<Draft>,
    ) -> Result<Asking, Refused> {
        if let Ok(item) = self.leased(ticket) {
            return match item.cancel_at {
                Some(_) => Err(Refused::CancelRequested),
                None => Ok(Asking::First(item.row.scope)),
            };
        }
        let item = self.of_tenant(ticket.tenant, ticket.work).map_err(|_| Refused::LeaseLost)?;
        let scope = item.row.scope;
        let runner = Runner { work: ticket.work, fence: ticket.fence };
        let waits = item.row.state == State::AwaitingApproval && item.row.fence == ticket.fence;
        let proposed = self.effects.get(&(scope, key.to_owned())).is_some_and(|effect| {
            effect.state == EffectState::Proposed
                && effect.runner == runner
                && draft.is_some_and(|draft| effect.hash == Some(draft.hash))
        });
        if waits && proposed { Ok(Asking::Repeats(scope)) } else { Err(Refused::LeaseLost) }
    }

    /// The next place among the changes of a scope.
    pub(super) fn next_nth(&self, scope: Ulid) -> i64 {
        let of_scope = self.effects.iter().filter(|((of, _), _)| *of == scope);
        let last =
            of_scope.map(|(_, effect)| effect.begun_nth.max(effect.resolved_nth.unwrap_or(0)));
        last.max().unwrap_or(0) + 1
    }

    fn write(
        &mut self,
        scope: Ulid,
        ticket: &Ticket,
        key: &str,
        description: Option<String>,
        draft: Option<Draft>,
        proposes: bool,
    ) {
        let until = draft.filter(|_| proposes).map(|draft| self.now.after(draft.expires));
        let old = self.effects.get(&(scope, key.to_owned()));
        // Begun on an approval, it keeps word of who gave it.
        let approval = old.filter(|_| draft.is_some() && !proposes);
        let effect = Effect {
            state: if proposes { EffectState::Proposed } else { EffectState::Begun },
            runner: Runner { work: ticket.work, fence: ticket.fence },
            begun_nth: self.next_nth(scope),
            resolved_nth: None,
            description,
            result: old.and_then(|old| old.result.clone()),
            error: None,
            begun_at: old.map_or(self.now, |old| old.begun_at),
            resolved_at: None,
            hash: draft.map(|draft| draft.hash),
            expires_at: approval.map_or(until, |old| old.expires_at),
            undecided_until: until,
            decided_by: approval.and_then(|old| old.decided_by.clone()),
            decided_at: approval.and_then(|old| old.decided_at),
        };
        self.effects.insert((scope, key.to_owned()), effect);
    }

    /// The run that began an effect says how it went. The first word stays.
    pub(super) fn resolve_own(
        &mut self,
        ticket: &Ticket,
        key: &str,
        state: EffectState,
        result: Option<Sealed>,
        error: Option<String>,
    ) -> Answer {
        let scope = self.leased(ticket)?.row.scope;
        let runner = Runner { work: ticket.work, fence: ticket.fence };
        let effect = self.effects.get(&(scope, key.to_owned())).ok_or(Refused::NotFound)?;
        match effect.state {
            _ if effect.runner != runner => Err(Refused::InvalidState),
            EffectState::Begun => {
                self.write_resolved(scope, key, state, result, error);
                tell(Ok(()))
            }
            said if said == state => tell(Ok(())),
            _ => Err(Refused::InvalidState),
        }
    }

    fn write_resolved(
        &mut self,
        scope: Ulid,
        key: &str,
        state: EffectState,
        result: Option<Sealed>,
        error: Option<String>,
    ) {
        let (now, nth) = (self.now, self.next_nth(scope));
        let effect = self.effects.get_mut(&(scope, key.to_owned())).expect("it was found");
        (effect.state, effect.result, effect.error) = (state, result, error);
        (effect.resolved_at, effect.resolved_nth) = (Some(now), Some(nth));
    }

    /// An operator's word on what is in doubt. Whoever waits for the last doubt of the scope goes on.
    pub(super) fn resolve(&mut self, resolve: &Resolve) -> Answer {
        self.touched.insert(resolve.work);
        let scope = self.of_tenant(resolve.tenant, resolve.work)?.row.scope;
        if !self.effects.contains_key(&(scope, resolve.key.clone())) {
            return Err(Refused::NotFound);
        }
        let doubts = self.effects_of(scope).into_iter();
        let doubts = doubts.filter(|effect| effect.state == EffectState::Begun && !effect.alive);
        let doubts: Vec<String> = doubts.map(|effect| effect.key).collect();
        if !doubts.contains(&resolve.key) {
            return Err(Refused::InvalidState);
        }
        let (state, error) = match resolve.committed {
            true => (EffectState::Committed, None),
            false => (EffectState::Aborted, Some("an operator says it was not done".to_owned())),
        };
        self.write_resolved(scope, &resolve.key, state, resolve.result.clone(), error);
        if doubts.len() == 1 {
            self.let_go_on(scope);
        }
        tell(Ok(()))
    }

    fn let_go_on(&mut self, scope: Ulid) {
        let waits = |item: &&super::Item| {
            let is_held = item.row.held == Some(HeldReason::InDoubt);
            item.row.scope == scope && item.row.state == State::Held && is_held
        };
        let waiting: Vec<WorkId> =
            self.items.values().filter(waits).map(|item| item.row.id).collect();
        for id in waiting {
            let now = self.now;
            let row = &mut self.item(id).row;
            (row.state, row.run_at, row.held) = (State::Pending, now, None);
        }
    }
}

/// A run's wish to act.
enum Asking {
    First(Ulid),
    /// The item waits because of this very call.
    Repeats(Ulid),
}
