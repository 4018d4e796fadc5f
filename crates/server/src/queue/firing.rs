//! Lanes whose items are claimed by requests of this server to itself: what to send such a request for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wakepost_domain::executor::Executor;
use wakepost_domain::fair::Take;
use wakepost_domain::lane::{Lane, LaneId};
use wakepost_store::Result;
use wakepost_store::moves::Item;

use super::{Pushed, Queue, Rule, Way, claim_lane};
use crate::directory::Policy;
use crate::self_webhook::SelfWebhook;

/// How long a lane with a rate or a budget rests after calls for its items were sent: they are counted once they are
/// claimed. Also how long it rests if that came to nothing.
const CLAIM_REST: Duration = Duration::from_millis(100);

/// An item that a request of this server to itself shall claim.
#[derive(Debug)]
pub struct Fire {
    /// Which.
    pub item: Item,
    /// Its lane.
    pub lane: Arc<Lane>,
    /// The lane's turn.
    pub turn: Take,
    /// How it runs.
    pub executor: Executor,
    /// Whether there is a bound on how many may run.
    pub is_capped: bool,
    /// Whether there is one that gets free by itself.
    pub is_timed: bool,
}

impl Queue {
    /// Lanes have work that should have been fired for, and claimed. Says how many of them are fired for.
    pub async fn fire_again(&self, ids: &[LaneId]) -> Result<usize> {
        let mut count = 0;
        for lane in self.directory.lanes(ids).await? {
            count += usize::from(self.hint_if(&lane, 1, |way| way == Way::Fired).await);
        }
        Ok(count)
    }

    /// What to fire for now, in fair turns. What is under way already is left out.
    pub async fn to_fire(&self, max: u32, own: &SelfWebhook) -> Result<Vec<Fire>> {
        let mut taken: HashMap<Executor, usize> = HashMap::new();
        let mut places = |_, rule: &Rule| {
            let same = taken.entry(rule.executor.runner().clone()).or_default();
            let has_place = own.free_for(&rule.executor) > *same;
            *same += usize::from(has_place);
            has_place
        };
        let plan = self.rings.lock().plan(Way::Fired, max, &mut places);
        let ids: Vec<LaneId> = plan.iter().map(|take| take.lane).collect();
        let mut fires = Vec::new();
        for lane in self.directory.lanes(&ids).await? {
            let Some(take) = plan.iter().find(|take| take.lane == lane.id) else { continue };
            match self.fires_of(&lane, take, own).await {
                Ok(more) => fires.extend(more),
                Err(error) if fires.is_empty() => return Err(error),
                Err(error) => {
                    // The lanes before this one had their turn: what they gave must be fired for.
                    tracing::warn!(%error, "a lane could not be looked at");
                    break;
                }
            }
        }
        Ok(fires)
    }

    async fn fires_of(
        &self,
        lane: &Arc<Lane>,
        take: &Take,
        own: &SelfWebhook,
    ) -> Result<Vec<Fire>> {
        let policy = self.directory.policy(lane).await?;
        // The source's executor changed since the hint: the lane belongs to another ring now.
        if Way::of(&policy.executor) != Way::Fired {
            self.rings.lock().fired.remove(lane.id);
            self.hint_here(lane, 1).await;
            return Ok(Vec::new());
        }
        self.park(lane, &policy);
        let under_way = own.under_way_in(take.lane);
        let asked = Instant::now();
        let mut take = *take;
        if policy.is_timed() {
            let counts = self.counts(policy.caps.iter()).await?;
            let room = counts.room(&policy.caps, take.count);
            if room == 0 {
                self.rings.lock().fired.report(take, 0);
                self.rest_bound(Way::Fired, asked, std::iter::once((&**lane, &policy))).await?;
                return Ok(Vec::new());
            }
            take.count = room;
        }
        let items = self.ready_to_fire(&take, &policy, own, under_way).await?;
        // What was left out because its call is under way may be ready all the same.
        if under_way == 0 {
            self.rings.lock().fired.report(take, items.len() as u32);
        }
        if policy.is_timed() && !items.is_empty() {
            // Until those have been claimed, and so counted.
            self.rest(Way::Fired, lane.id, CLAIM_REST);
        }
        let (is_capped, is_timed) = (!policy.caps.is_empty(), policy.is_timed());
        let executor = policy.executor;
        let fire = |item| {
            let (lane, executor) = (lane.clone(), executor.clone());
            Fire { item, lane, turn: take, executor, is_capped, is_timed }
        };
        Ok(items.into_iter().map(fire).collect())
    }

    /// As many items of a lane as may be fired for: no more than the tightest bound lets run.
    async fn ready_to_fire(
        &self,
        take: &Take,
        policy: &Policy,
        own: &SelfWebhook,
        under_way: u32,
    ) -> Result<Vec<Item>> {
        let room = policy
            .running_max()
            .map_or(take.count, |cap| take.count.min(cap.saturating_sub(under_way)));
        if room == 0 {
            return Ok(Vec::new());
        }
        let mut items = self.store.ready(take.lane, room.saturating_add(under_way)).await?;
        items.retain(|item| !own.is_under_way(item));
        items.truncate(room as usize);
        Ok(items)
    }

    /// A call came to nothing, since the job could not be claimed. A lane under a bound waits for a hint: whoever
    /// could not claim it hears of a free place. One whose bounds go by time rests a little, and is looked at then.
    /// Of any other only that one job was not ready.
    pub fn fired_in_vain(&self, fire: &Fire) {
        if fire.is_timed {
            self.rest(Way::Fired, fire.lane.id, CLAIM_REST);
        } else if fire.is_capped {
            self.rings.lock().fired.report(fire.turn, 0);
        }
        self.fired.notify_one();
    }

    /// Waits until there may be something to fire for.
    pub async fn fired_ready(&self) {
        self.fired.notified().await;
    }

    /// Says that a call of this server to itself has ended. Its lane may have been passed over meanwhile: items
    /// whose call is under way are left out.
    pub fn fire_ended(&self, fire: &Fire) {
        self.rings.lock().fired.hint(&fire.lane);
        self.fired.notify_one();
    }

    /// Claims one item that was fired for; `None` if it is not ready, or another has it.
    pub async fn claim_one(
        &self,
        worker: String,
        item: Item,
        lane: Arc<Lane>,
        policy: Policy,
    ) -> Result<Option<Pushed>> {
        self.park(&lane, &policy);
        let asked = claim_lane(&lane, &policy, 1, None);
        let claimed = self.store.claim_one(worker, item, asked).await?;
        Ok(claimed.map(|claimed| (claimed, lane, policy)))
    }
}
