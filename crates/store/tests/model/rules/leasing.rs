//! Claims and what keeps a lease: of what is due, first of its order key and within its bounds, the oldest goes.

use wakepost_domain::lease::Ticket;
use wakepost_domain::work::State;
use wakepost_domain::{Timestamp, WorkId};
use wakepost_store::moves::{
    ClaimLane, ClaimRequest, Claimed, Heartbeat, HeartbeatAnswer, Item as Named, JobState, NewWork,
    Once, Progress, ProgressRow, WorkMeta,
};
use wakepost_store::vault::Sealed;

use super::Model;
use crate::call::{Answer, by_lane, tell};

impl Model {
    pub(super) fn claim(&mut self, request: &ClaimRequest) -> Answer {
        let mut claimed = Vec::new();
        for lane in &request.lanes {
            let room = self.room(&lane.caps).min(lane.count);
            for id in self.ready(lane).into_iter().take(room as usize) {
                claimed.push(self.start(&request.worker, lane, id));
            }
        }
        tell(Ok(by_lane(claimed)))
    }

    pub(super) fn claim_one(&mut self, worker: &str, item: Named, lane: &ClaimLane) -> Answer {
        self.touched.insert(item.work);
        let is_ready = self.ready(lane).contains(&item.work);
        let is_own = self.of_tenant(item.tenant, item.work).is_ok();
        let goes = is_ready && is_own && self.room(&lane.caps).min(lane.count) > 0;
        tell(Ok(goes.then(|| self.start(worker, lane, item.work))))
    }

    /// What can be claimed of a lane, oldest first.
    pub fn ready(&self, lane: &ClaimLane) -> Vec<WorkId> {
        if self.is_shut(lane.lane) {
            return Vec::new();
        }
        let is_ready = |item: &&super::Item| {
            let row = &item.row;
            row.lane == lane.lane && item.waits() && !row.behind && row.run_at <= self.now
        };
        let ready = self.items.values().filter(is_ready);
        let mut ready: Vec<(Timestamp, WorkId)> =
            ready.map(|item| (item.row.run_at, item.row.id)).collect();
        ready.sort();
        ready.into_iter().map(|(_, id)| id).collect()
    }

    fn start(&mut self, worker: &str, lane: &ClaimLane, id: WorkId) -> Claimed {
        self.count_start(&lane.caps);
        let now = self.now;
        let item = self.item(id);
        let deadline = now.after(lane.run_timeout);
        let expires = now.after(lane.lease).min(deadline);
        item.deadline = Some(deadline);
        item.cancel_at = None;
        item.caps = lane.caps.iter().map(|cap| cap.scope).collect();
        let row = &mut item.row;
        row.state = State::Running;
        row.attempts += 1;
        row.fence += 1;
        row.worker = Some(worker.to_owned());
        row.started_at = Some(now);
        row.lease_expires_at = Some(expires);
        row.held = None;
        row.cancel_requested = false;
        let ticket = Ticket {
            work: id,
            tenant: row.tenant,
            fence: row.fence,
            attempt: row.attempts,
            max_attempts: row.max_attempts,
            lease_s: lane.lease.as_secs() as i32,
            started_at: now,
            ordered: row.order.is_some(),
        };
        let claimed = Claimed {
            ticket,
            kind: row.kind,
            lane: row.lane,
            event: row.event,
            scope: row.scope,
            lease_expires_at: expires,
            // A worker has nothing to do with where the outcome goes.
            meta: WorkMeta { callback_lane: None, ..row.meta.clone() },
        };
        self.tickets.push(ticket);
        claimed
    }

    pub(super) fn heartbeat(&mut self, beat: &Heartbeat) -> Answer {
        let now = self.now;
        let item = self.leased(&beat.ticket)?;
        let wanted = now.after(beat.extend).min(item.deadline.expect("it runs"));
        let end = item.row.lease_expires_at.expect("it runs").max(wanted);
        item.row.lease_expires_at = Some(end);
        let cancel_requested = item.cancel_at.is_some();
        if let Some(cost) = beat.cost {
            self.cost(beat.ticket.work, cost);
        }
        tell(Ok(HeartbeatAnswer { lease_expires_at: end, cancel_requested }))
    }

    pub(super) fn follow_up(&mut self, ticket: &Ticket, item: &NewWork) -> Answer {
        self.leased(ticket)?;
        self.insert(item);
        tell(Ok(Once::Now(())))
    }

    pub(super) fn checkpoint(&mut self, ticket: &Ticket, state: &Sealed) -> Answer {
        let item = self.leased(ticket)?;
        item.kept.get_or_insert_with(JobState::default).checkpoint = Some(state.clone());
        tell(Ok(()))
    }

    pub(super) fn progress(&mut self, progress: &Progress) -> Answer {
        let now = self.now;
        let item = self.leased(&progress.ticket)?;
        let seq = item.progress.last().map_or(1, |last| last.seq + 1);
        item.progress.push(ProgressRow { seq, at: now, content: progress.content.clone() });
        tell(Ok(()))
    }
}
