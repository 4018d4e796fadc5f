//! From a wish to a call: which of the things that there are it is about.

mod ending;
mod making;
mod picking;
mod publishing;
mod scheduling;

use std::time::Duration;

use wakepost_domain::effect::{EffectState, OnDoubt};
use wakepost_domain::event::{Event, Route};
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::State;
use wakepost_domain::{OperationId, TenantId, WorkId};
use wakepost_store::moves::{
    Ask, Begin, ClaimLane, ClaimRequest, Decide, Draft, EffectRow, Heartbeat, Item as Named,
    OwnWalk, Progress, Replay, ReplayFrom, Resolve, SeenProposal, proposal_hash,
};

use crate::call::Call;
use crate::rules::{Item, Model};
use crate::wish::{BeginWish, Bounds, Hand, Pick, Wish};
use crate::world::{Ids, Party, hash, sealed, wording};

use ending::{reply, settle};

pub use ending::rescue;
pub use scheduling::{change, firing, schedule};

const MINUTES: Duration = Duration::from_secs(600);

/// What a reply is asked for by.
const SAY: &str = "say";

/// A worker that takes a bit of everything.
const CLAIM: Wish = Wish::Claim { lanes: u16::MAX, count: 2, lease_s: 100, run_s: 1000 };

/// What a plan is made from.
pub struct Scene<'a> {
    pub model: &'a Model,
    pub parties: &'a [Party; 2],
    pub bounds: &'a Bounds,
    pub ids: &'a mut Ids,
}

impl Scene<'_> {
    /// The one call that a wish means now; none if there is nothing it can be about, or it means several.
    pub fn plan(&mut self, wish: &Wish) -> Option<Call> {
        // A worker that has nothing to speak of asks for work, and if there is none, somebody makes some.
        let is_worker = matches!(
            wish,
            Wish::Heartbeat(..) | Wish::Begin(..) | Wish::Commit(..) | Wish::Settle { .. }
        );
        let lanes = self.parties.iter().flat_map(|party| party.lanes());
        let mut ready = lanes.map(|lane| self.model.ready(&unbound(lane)).len());
        let is_ready = ready.any(|count| count > 0);
        self.call_of(wish).or_else(|| match (is_worker, is_ready) {
            (true, true) => self.call_of(&CLAIM),
            (true, false) => Some(Call::Create(vec![self.usual_job()])),
            (false, _) => None,
        })
    }

    fn call_of(&mut self, wish: &Wish) -> Option<Call> {
        let now = self.model.now;
        Some(match wish {
            Wish::Accept(second, event) => Call::Accept(Box::new(self.event(*second, event))),
            Wish::Create(second, jobs) => {
                Call::Create(jobs.iter().map(|job| self.job(*second, job)).collect())
            }
            Wish::Publish(second, events) => {
                Call::Publish(events.iter().map(|event| self.publication(*second, event)).collect())
            }
            Wish::Shut { hook, for_s, stale, foreign } => {
                self.shut(*hook, *for_s, *stale, *foreign)
            }
            Wish::EndWaiting { hook, gives_up, limit } => {
                let state = if *gives_up { State::DeadLetter } else { State::Cancelled };
                Call::EndWaiting(self.hook(*hook).lane, state, u32::from(*limit))
            }
            Wish::Backfill(hook, ordered) => self.backfill(*hook, *ordered),
            Wish::Claim { lanes, count, lease_s, run_s } => {
                let all = self.parties.iter().flat_map(|party| party.lanes());
                let lanes = all.enumerate().filter(|(nth, _)| lanes >> nth & 1 == 1);
                let lane = |(_, lane): (usize, LaneId)| ClaimLane {
                    count: u32::from(*count),
                    lease: Duration::from_secs(u64::from(*lease_s)),
                    run_timeout: Duration::from_secs(u64::from(*run_s)),
                    ..self.lane(lane)
                };
                let lanes: Vec<ClaimLane> = lanes.map(lane).collect();
                let worker = format!("ada {}", self.ids.count());
                (!lanes.is_empty()).then_some(Call::Claim(ClaimRequest { worker, lanes }))?
            }
            Wish::ClaimOne(pick) => {
                let (tenant, item) = self.item(*pick, Item::waits)?;
                let named = Named { tenant, work: item.row.id };
                Call::ClaimOne("grace".to_owned(), named, self.lane(item.row.lane))
            }
            Wish::Heartbeat(hand, extend_s, cost) => Call::Heartbeat(Heartbeat {
                ticket: self.ticket(*hand)?,
                extend: Duration::from_secs(u64::from(*extend_s)),
                cost: cost.map(half),
            }),
            Wish::FollowUp(hand) => {
                let ticket = self.ticket(*hand)?;
                Call::FollowUp(ticket, Box::new(reply(self, &ticket)))
            }
            Wish::Checkpoint(hand, text) => {
                Call::Checkpoint(self.ticket(*hand)?, sealed(&format!("checkpoint {text}")))
            }
            Wish::Progress(hand, text) => Call::Progress(Progress {
                ticket: self.ticket(*hand)?,
                content: sealed(&format!("progress {text}")),
            }),
            Wish::Begin(hand, begin) => Call::Begin(self.begin(*hand, begin)?),
            Wish::Commit(hand, key) => {
                let result = Some(sealed(&format!("result {}", self.ids.count())));
                let (ticket, key) = self.begun(*hand, *key)?;
                Call::Commit(ticket, key, result)
            }
            Wish::Abort(hand, key) => {
                let (ticket, key) = self.begun(*hand, *key)?;
                Call::Abort(ticket, key, "it broke".to_owned())
            }
            Wish::Ask(hand, text) => {
                let draft = Draft { hash: hash(SAY, *text), expires: MINUTES };
                Call::Ask(Ask { ticket: self.ticket(*hand)?, key: SAY.to_owned(), draft })
            }
            Wish::Resolve(pick, key, committed) => {
                let doubts = |item: &Item| {
                    let effects = self.model.effects_of(item.row.scope).into_iter();
                    let in_doubt = |one: &EffectRow| one.state == EffectState::Begun && !one.alive;
                    effects.filter(in_doubt).map(|one| one.key).collect::<Vec<_>>()
                };
                let (tenant, item) = self.item(*pick, |item| !doubts(item).is_empty())?;
                let key = doubts(&item).pop().unwrap_or_else(|| effect(*key));
                Call::Resolve(Resolve {
                    tenant,
                    work: item.row.id,
                    key,
                    committed: *committed,
                    result: committed.then(|| sealed("seen by an operator")),
                    audit: self.ids.audit(now, tenant, "effect.resolve"),
                })
            }
            Wish::Decide { pick, approved, as_seen } => {
                Call::Decide(self.decide(*pick, *approved, *as_seen)?)
            }
            Wish::Settle { hand, end, cost, .. } => settle(self, *hand, *end, cost.map(half))?,
            Wish::Cancel(pick) => {
                let (tenant, item) = self.item(*pick, Item::is_live)?;
                Call::Cancel(tenant, item.row.id, self.ids.audit(now, tenant, "job.cancel"))
            }
            Wish::CancelSubject(second, nth) => {
                let tenant = self.party(*second).tenant;
                Call::CancelMany(tenant, self.model.about(tenant, &subject(*nth)))
            }
            Wish::Release(pick) => {
                let (tenant, item) = self.item(*pick, |item| item.row.state == State::Held)?;
                Call::Release(tenant, item.row.id, self.ids.audit(now, tenant, "job.release"))
            }
            Wish::ReleaseInto(pick) => {
                let party = self.parties;
                let is_held = |item: &Item| {
                    let of_source = party.iter().any(|party| party.of_source == item.row.lane);
                    item.row.state == State::Held && of_source
                };
                let (tenant, item) = self.item(*pick, is_held)?;
                let lane = self.of(item.row.tenant).let_go;
                let audit = self.ids.audit(now, tenant, "job.release");
                Call::ReleaseInto(tenant, item.row.id, lane, audit)
            }
            Wish::HoldOverBudget(second) => {
                let party = self.party(*second);
                Call::HoldOverBudget(party.of_source, party.source, self.budget()?)
            }
            Wish::Replay(pick, fresh) => {
                let (tenant, item) =
                    self.item(*pick, |item| !item.is_live() && item.row.replayed_as.is_none())?;
                self.replay(tenant, ReplayFrom::Work(item.row.id), *fresh)
            }
            Wish::ReplayEvent(pick) => {
                let events: Vec<&Event> = self.model.events.values().collect();
                let without = |event: &&&Event| pick.any || event.route != Route::Job;
                let some: Vec<&&Event> = events.iter().filter(without).collect();
                let event = **some.get(usize::from(pick.nth) % some.len().max(1))?;
                let tenant = self.maybe_foreign(event.tenant, pick.foreign);
                let from = ReplayFrom::Event(event.id, self.of(event.tenant).of_source);
                self.replay(tenant, from, false)
            }
            Wish::Purge(second) => {
                let tenant = self.party(*second).tenant;
                let by = OperationId(self.ids.next(now));
                Call::Purge(tenant, self.model.open_letters(tenant), by)
            }
            Wish::ForgetBodies(second) => {
                Call::PruneOwn(OwnWalk::Bodies(self.party(*second).tenant, now))
            }
            Wish::Schedule(second, ordered) => schedule(self, *second, *ordered),
            Wish::ChangeSchedule { pick, enabled, stale } => change(self, *pick, *enabled, *stale)?,
            Wish::DeleteSchedule(pick) => {
                let (tenant, id) = self.schedule(*pick)?;
                Call::DeleteSchedule(tenant, id, self.ids.audit(now, tenant, "schedule.delete"))
            }
            _ => return None,
        })
    }

    fn begin(&self, hand: Hand, wish: &BeginWish) -> Option<Begin> {
        let known = wish.again.then(|| self.known(hand)).flatten();
        let (ticket, key, text) = match known {
            Some((ticket, key, effect)) => (ticket, key, effect.description.clone()),
            None => (self.ticket(hand)?, effect(wish.key), Some(wording(wish.text))),
        };
        let draft = wish.draft_s.map(|s| Draft {
            hash: proposal_hash(&key, text.as_deref()),
            expires: Duration::from_secs(s.into()),
        });
        let on_doubt = if wish.executes_on_doubt { OnDoubt::Execute } else { OnDoubt::Hold };
        Some(Begin { ticket, key, description: text, on_doubt, draft })
    }

    fn decide(&mut self, pick: Pick, approved: bool, as_seen: bool) -> Option<Decide> {
        let (tenant, item) = self.item(pick, |item| item.row.state == State::AwaitingApproval)?;
        let effects = self.model.effects_of(item.row.scope).into_iter();
        let seen =
            effects.filter(|effect| effect.is_awaited_by(item.row.id)).filter_map(|effect| {
                let hash = if as_seen { effect.approval?.hash } else { hash("another", 0) };
                Some(SeenProposal { key: effect.key, hash })
            });
        let proposals: Vec<SeenProposal> = seen.collect();
        let audit = self.ids.audit(self.model.now, tenant, "approval.decide");
        Some(Decide {
            tenant,
            work: item.row.id,
            proposals,
            approved,
            by: "grace".to_owned(),
            reason: "grace says no".to_owned(),
            audit: vec![audit],
        })
    }

    pub fn replay(&mut self, tenant: TenantId, from: ReplayFrom, fresh_scope: bool) -> Call {
        let now = self.model.now;
        Call::Replay(Box::new(Replay {
            tenant,
            from,
            id: WorkId(self.ids.next(now)),
            fresh_scope,
            input: Some(sealed("sealed anew")),
            max_attempts: 2,
            callback_lane: None,
            audit: self.ids.audit(now, tenant, "job.replay"),
        }))
    }
}

/// A lane as if nothing were bound.
pub fn unbound(lane: LaneId) -> ClaimLane {
    let lease = Duration::from_secs(100);
    ClaimLane { lane, count: 1, lease, run_timeout: 10 * lease, caps: Vec::new() }
}

pub fn subject(nth: u8) -> String {
    format!("ticket:{nth}")
}

fn effect(nth: u8) -> String {
    format!("effect {nth}")
}

/// Sums of halves are exact, in whatever order they are added.
fn half(cost: u8) -> f64 {
    f64::from(cost) / 2.0
}
