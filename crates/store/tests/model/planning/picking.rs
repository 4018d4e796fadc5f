//! Which of the things that there are a wish is about, and which bounds hold for a lane.

use wakepost_domain::budget::{Budget, Over};
use wakepost_domain::effect::{EffectState, Runner};
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::rate::Rate;
use wakepost_domain::{ScheduleId, TenantId};
use wakepost_store::moves::{Bound, Cap, CapScope, ClaimLane, Schedule};

use super::{SAY, Scene, effect, unbound};
use crate::rules::{Effect, Item};
use crate::wish::{Hand, Pick};
use crate::world::Party;

impl Scene<'_> {
    pub fn party(&self, second: bool) -> Party {
        self.parties[usize::from(second)]
    }

    pub(super) fn of(&self, tenant: TenantId) -> Party {
        self.parties[usize::from(self.parties[1].tenant == tenant)]
    }

    pub(super) fn maybe_foreign(&self, tenant: TenantId, foreign: bool) -> TenantId {
        let own = self.parties.iter().position(|party| party.tenant == tenant);
        let own = own.expect("a tenant of the sequence");
        self.parties[(own + usize::from(foreign)) % 2].tenant
    }

    /// An item that suits, and as whose it is asked for.
    pub(super) fn item(
        &self,
        pick: Pick,
        suits: impl Fn(&Item) -> bool,
    ) -> Option<(TenantId, Item)> {
        let fits = |item: &&Item| pick.any || suits(item);
        let some: Vec<&Item> = self.model.items.values().filter(fits).collect();
        let item = (*some.get(usize::from(pick.nth) % some.len().max(1))?).clone();
        Some((self.maybe_foreign(item.row.tenant, pick.foreign), item))
    }

    pub(super) fn schedule(&self, pick: Pick) -> Option<(TenantId, ScheduleId)> {
        let all: Vec<&Schedule> = self.model.schedules.values().map(|(one, _)| one).collect();
        let one = all.get(usize::from(pick.nth) % all.len().max(1))?;
        Some((self.maybe_foreign(one.tenant, pick.foreign), one.id))
    }

    /// A lease that somebody has, or had. The latest first.
    pub fn ticket(&self, hand: Hand) -> Option<Ticket> {
        self.ticket_of(hand, |_| true)
    }

    pub(super) fn ticket_of(&self, hand: Hand, suits: impl Fn(&Ticket) -> bool) -> Option<Ticket> {
        let fits = |ticket: &&&Ticket| {
            let item = &self.model.items[&ticket.work];
            let is_own = item.is_running() && item.row.fence == ticket.fence;
            is_own != hand.stale && suits(ticket)
        };
        let all: Vec<&Ticket> = self.model.tickets.iter().rev().collect();
        let some: Vec<&&Ticket> = all.iter().filter(fits).collect();
        let ticket = ***some.get(usize::from(hand.nth) % some.len().max(1))?;
        Some(Ticket { tenant: self.maybe_foreign(ticket.tenant, hand.foreign), ..ticket })
    }

    /// The lease of a run, and an effect of its scope that another run had to do with.
    pub(super) fn known(&self, hand: Hand) -> Option<(Ticket, String, &Effect)> {
        let of = |ticket: &Ticket| {
            let (work, fence) = (ticket.work, ticket.fence);
            let scope = self.model.items[&work].row.scope;
            self.model.effects.iter().find(move |((of, key), effect)| {
                let is_earlier = effect.runner != Runner { work, fence };
                *of == scope && is_earlier && key != SAY
            })
        };
        let ticket = self.ticket_of(hand, |ticket| of(ticket).is_some())?;
        of(&ticket).map(|((_, key), effect)| (ticket, key.clone(), effect))
    }

    /// The lease of a run, and an effect that it began, if there is one.
    pub(super) fn begun(&self, hand: Hand, key: u8) -> Option<(Ticket, String)> {
        let effects = || self.model.effects.iter();
        let by = |effect: &Effect, ticket: &Ticket| {
            let runner = Runner { work: ticket.work, fence: ticket.fence };
            effect.state == EffectState::Begun && effect.runner == runner
        };
        let has_one = |ticket: &Ticket| effects().any(|(_, effect)| by(effect, ticket));
        let ticket = self.ticket_of(hand, has_one).or_else(|| self.ticket(hand))?;
        let begun = effects().find(|(_, effect)| by(effect, &ticket));
        Some((ticket, begun.map_or_else(|| effect(key), |((_, key), _)| key.clone())))
    }

    /// A lane with the bounds that hold there.
    pub(super) fn lane(&self, lane: LaneId) -> ClaimLane {
        let mine = |party: &&Party| party.lanes().contains(&lane);
        let party = self.parties.iter().find(mine).expect("a lane of the sequence");
        let (tenant, source) = (CapScope::Tenant(party.tenant), CapScope::Source(party.source));
        let tenants = self.bounds.tenant_running.map(|most| Cap::running(tenant, most));
        let of_source = [
            self.bounds.source_running.map(Bound::Running),
            self.bounds.source_rate.and_then(|per_s| Rate::new(per_s.into())).map(Bound::Rate),
            self.budget().map(|budget| match lane == party.let_go {
                true => Bound::Budget(budget.only_counted()),
                false => Bound::Budget(budget),
            }),
        ];
        let of_source = of_source.into_iter().flatten().map(|bound| Cap { scope: source, bound });
        let caps: Vec<Cap> = match lane {
            lane if lane == party.callbacks || lane == party.replies => Vec::new(),
            lane if party.hooks.iter().any(|hook| hook.lane == lane) => Vec::new(),
            lane if lane == party.of_api => tenants.into_iter().collect(),
            _ => tenants.into_iter().chain(of_source).collect(),
        };
        ClaimLane { caps, ..unbound(lane) }
    }

    pub(super) fn budget(&self) -> Option<Budget> {
        let (runs, cost) = (self.bounds.source_runs_per_day, self.bounds.source_cost_per_day);
        let budget =
            Budget { runs_per_day: runs, cost_per_day: cost.map(f64::from), over: Over::Wait };
        (runs.is_some() || cost.is_some()).then_some(budget)
    }
}
