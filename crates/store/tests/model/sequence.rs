//! One sequence: each wish is done by the store and judged by the model, and then the two are compared.

use std::time::Duration;

use futures_util::future::join;
use tokio::time::timeout;
use wakepost_domain::Timestamp;
use wakepost_domain::limits::CANCEL_PATIENCE;
use wakepost_store::moves::{ClaimRequest, Expired, Overdue, ReplayFrom};

use crate::call::{Answer, Call};
use crate::compare::{self, Checked, Seen, same};
use crate::databases::Database;
use crate::invariants;
use crate::planning::{Scene, firing, rescue};
use crate::rules::Model;
use crate::tally::Tally;
use crate::wish::{Bounds, Wish};
use crate::world::{Ids, Party};

/// After so many moves everything is compared, not only what they were about.
const ALL_EVERY: usize = 16;
const LIMIT: u32 = 1000;
/// How long a call gets that is cut off: nothing at all, or about as long as one of its statements takes.
const CUT_AFTER_MS: [u64; 8] = [0, 0, 1, 2, 3, 4, 6, 8];

pub struct Sequence<'d, D> {
    database: &'d mut D,
    parties: [Party; 2],
    bounds: Bounds,
    model: Model,
    ids: Ids,
    seen: Seen,
    /// What rescuers saw so far.
    sightings: Vec<Expired>,
    /// Whether every call of the latest move was refused.
    refused: bool,
    tally: &'d mut Tally,
}

/// Runs a sequence on an empty database.
pub async fn run<D: Database>(
    database: &mut D,
    bounds: Bounds,
    wishes: &[Wish],
    tally: &mut Tally,
) -> Checked {
    let now = database.start_over().await;
    let parties = database.parties();
    let mut model = Model { now, ..Model::default() };
    for party in &parties {
        let source = Some(party.source);
        model.origins.extend(party.lanes().map(|lane| (lane, None)));
        model.origins.extend([(party.of_source, source), (party.let_go, source)]);
        model.webhooks.extend(party.webhooks().map(|webhook| (webhook.id, webhook)));
    }
    let (ids, seen) = (Ids::default(), Seen::default());
    let mut sequence = Sequence {
        database,
        parties,
        bounds,
        model,
        ids,
        seen,
        sightings: Vec::new(),
        refused: false,
        tally,
    };
    for (nth, wish) in wishes.iter().enumerate() {
        let is_last = nth + 1 == wishes.len();
        let done = sequence.step(wish, is_last || nth % ALL_EVERY == ALL_EVERY - 1).await;
        done.map_err(|why| format!("after move {}, {wish:?}: {why}", nth + 1))?;
    }
    Ok(())
}

impl<D: Database> Sequence<'_, D> {
    async fn step(&mut self, wish: &Wish, compare_all: bool) -> Checked {
        self.model.touched.clear();
        self.refused = true;
        match wish {
            Wish::StepClock(seconds) => self.step_clock(*seconds).await,
            Wish::Crash => self.database.crash().await,
            Wish::Cut(wish) => self.cut(wish).await?,
            Wish::AcceptCopies(second, event) => {
                let copies =
                    [(); 2].map(|()| Call::Accept(Box::new(self.scene().event(*second, event))));
                self.race(copies).await?;
            }
            Wish::Rescue { waits } => {
                self.wait(*waits, Model::next_end).await;
                self.rescue().await?;
            }
            Wish::RescueLate(nth) => {
                let nth = usize::from(*nth) % self.sightings.len().max(1);
                if let Some(seen) = self.sightings.get(nth) {
                    self.call(rescue(seen, self.model.now)).await?;
                }
            }
            Wish::ExpireApprovals { waits } => {
                self.wait(*waits, Model::next_overdue).await;
                self.expire_approvals().await?;
            }
            Wish::Fire { waits } => {
                self.wait(*waits, Model::next_tick).await;
                self.fire().await?;
            }
            Wish::ReplayDead(second) => {
                let tenant = self.parties[usize::from(*second)].tenant;
                for id in self.model.open_letters(tenant) {
                    let call = self.scene().replay(tenant, ReplayFrom::Work(id), false);
                    self.call(call).await?;
                }
            }
            _ => {
                if let Some(call) = self.scene().plan(wish) {
                    self.call(call.clone()).await?;
                    // A worker whose answer got lost says it again.
                    let twice = matches!(wish, Wish::Settle { twice: true, .. });
                    if twice && matches!(call, Call::Settle(..)) {
                        self.call(call).await?;
                    }
                }
            }
        }
        self.compare(compare_all).await
    }

    async fn compare(&mut self, all: bool) -> Checked {
        let store = self.database.node(0);
        let mut seen = match all {
            true => compare::all(&*store, &self.model, &self.parties).await?,
            false => {
                let is_bound = self.bounds.are_any();
                compare::after_move(&*store, &self.model, &self.parties, is_bound).await?
            }
        };
        let mut effects = self.seen.effects.clone();
        effects.extend(std::mem::take(&mut seen.effects));
        seen.effects = effects;
        invariants::check(&self.seen, &seen, &self.bounds, &self.parties)?;
        let changed = invariants::changed(&self.seen, &seen);
        if self.refused && !changed.is_empty() {
            return Err(format!("L2, E3: a refused call changed {changed:?}"));
        }
        self.seen = seen;
        Ok(())
    }

    fn scene(&mut self) -> Scene<'_> {
        let Sequence { model, parties, bounds, ids, .. } = self;
        Scene { model, parties, bounds, ids }
    }

    /// Makes a call at one of the nodes.
    async fn call(&mut self, call: Call) -> Checked {
        let node = self.database.node(usize::from(self.ids.count() % 5 == 4));
        let answer = call.clone().perform(&*node).await;
        if answer.as_ref().map_or(true, |text| text == "None" || text == "false") {
            self.database.calm().await;
        }
        self.judge(&call, answer)
    }

    fn judge(&mut self, call: &Call, answer: Answer) -> Checked {
        self.refused &= answer.is_err();
        self.tally.count(call, &answer);
        invariants::granted(&self.seen, call, &answer, self.model.now)?;
        same(&format!("the answer to {call:?}"), answer, self.model.apply(call))
    }

    /// Makes two calls at the two nodes at once, of which one is to find the other done.
    async fn race(&mut self, calls: [Call; 2]) -> Checked {
        let nodes = [self.database.node(0), self.database.node(1)];
        let [first, second] = calls;
        let answers = join(first.clone().perform(&*nodes[0]), second.clone().perform(&*nodes[1]));
        let (one, other) = answers.await;
        self.database.calm().await;
        let is_late = |answer: &Answer| {
            answer.as_ref().is_ok_and(|text| text == "false" || text.starts_with("Duplicate"))
        };
        if is_late(&one) && !is_late(&other) {
            self.judge(&second, other)?;
            return self.judge(&first, one);
        }
        self.judge(&first, one)?;
        self.judge(&second, other)
    }

    async fn step_clock(&mut self, seconds: i32) {
        let now = self.model.now.as_millis() + i64::from(seconds) * 1000;
        self.set_clock(Timestamp::from_millis(now)).await;
    }

    async fn set_clock(&mut self, at: Timestamp) {
        self.model.now = at;
        self.database.set_clock(at).await;
    }

    /// Lets time pass until a moment that the model knows of.
    async fn wait(&mut self, waits: bool, until: fn(&Model) -> Option<Timestamp>) {
        if let Some(until) = until(&self.model).filter(|until| waits && *until > self.model.now) {
            self.set_clock(until).await;
        }
    }

    /// Begins a call and is gone, the node too. It happened, or it did not.
    async fn cut(&mut self, wish: &Wish) -> Checked {
        let Some(call) = self.scene().plan(wish) else {
            self.database.crash().await;
            return Ok(());
        };
        {
            let node = self.database.node(0);
            let ms = CUT_AFTER_MS[self.ids.count() as usize % CUT_AFTER_MS.len()];
            // Whatever it answers in time is not heard either.
            let _ = timeout(Duration::from_millis(ms), call.clone().perform(&*node)).await;
        }
        self.database.crash().await;
        let before = self.model.clone();
        let store = self.database.node(0);
        let mut differences = Vec::new();
        for done in [Some(call.clone()), first_half::<D>(&call), None] {
            self.model = before.clone();
            self.refused = done.as_ref().is_some_and(|done| self.model.apply(done).is_err());
            match compare::all(&*store, &self.model, &self.parties).await {
                Ok(_) => return Ok(()),
                Err(difference) => differences.push(difference),
            }
        }
        Err(format!("a call was cut off half-way: {call:?}\n{}", differences.join("\n")))
    }

    async fn rescue(&mut self) -> Checked {
        let listed = self.database.node(0).expired(CANCEL_PATIENCE, LIMIT).await.unwrap();
        let by_id = |mut runs: Vec<Expired>| {
            runs.sort_by_key(|run| run.ticket.work);
            runs
        };
        let listed = by_id(listed);
        same("runs to be rescued", &listed, &self.model.expired(CANCEL_PATIENCE))?;
        self.sightings.extend(&listed);
        for seen in listed {
            self.call(rescue(&seen, self.model.now)).await?;
            // Another node saw the same.
            self.call(rescue(&seen, self.model.now)).await?;
        }
        Ok(())
    }

    async fn expire_approvals(&mut self) -> Checked {
        let mut listed = self.database.node(0).overdue(LIMIT).await.unwrap();
        listed.sort_by(|a: &Overdue, b| (a.scope, &a.key).cmp(&(b.scope, &b.key)));
        same("proposals whose time is over", &listed, &self.model.overdue())?;
        for seen in listed {
            for _ in 0..2 {
                let audit = self.ids.audit(self.model.now, seen.tenant, "approval.expire");
                self.call(Call::Expire(seen.clone(), audit)).await?;
            }
        }
        Ok(())
    }

    async fn fire(&mut self) -> Checked {
        let mut due = self.database.node(0).due_schedules(None, LIMIT).await.unwrap();
        due.sort_by_key(|schedule| schedule.id);
        same("schedules that are due", &due, &self.model.due())?;
        for seen in due {
            let calls = [(); 2].map(|()| firing(&mut self.scene(), &seen));
            self.race(calls).await?;
        }
        Ok(())
    }
}

/// What a call that is cut off may have done without the rest of it.
fn first_half<D: Database>(call: &Call) -> Option<Call> {
    let Call::Claim(request) = call else { return None };
    let bounded = request.lanes.iter().filter(|lane| !lane.caps.is_empty()).cloned();
    let first = ClaimRequest { worker: request.worker.clone(), lanes: bounded.collect() };
    D::CLAIMS_APART.then_some(Call::Claim(first))
}
