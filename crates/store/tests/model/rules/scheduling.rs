//! Schedules: whoever saw the latest version may fire or change it, and nobody else.

use wakepost_domain::{ScheduleId, TenantId, Timestamp};
use wakepost_store::moves::{Firing, Once, Schedule};
use wakepost_store::vault::Sealed;

use super::Model;
use crate::call::{Answer, Refused, tell};

impl Model {
    pub(super) fn create_schedule(&mut self, schedule: &Schedule, input: &Sealed) -> Answer {
        self.schedules.insert(schedule.id, (schedule.clone(), input.clone()));
        tell(Ok(Once::Now(())))
    }

    fn seen(
        &mut self,
        tenant: TenantId,
        id: ScheduleId,
        version: i64,
    ) -> Option<&mut (Schedule, Sealed)> {
        let found = self.schedules.get_mut(&id)?;
        (found.0.tenant == tenant && found.0.version == version).then_some(found)
    }

    pub(super) fn update_schedule(&mut self, new: &Schedule, input: &Option<Sealed>) -> Answer {
        let Some((schedule, kept)) = self.seen(new.tenant, new.id, new.version) else {
            return tell(Ok(false));
        };
        schedule.settings = new.settings.clone();
        schedule.next_at = new.next_at;
        schedule.version += 1;
        *kept = input.clone().unwrap_or_else(|| kept.clone());
        tell(Ok(true))
    }

    pub(super) fn delete_schedule(&mut self, tenant: TenantId, id: ScheduleId) -> Answer {
        let found = self.schedules.get(&id).filter(|(schedule, _)| schedule.tenant == tenant);
        found.ok_or(Refused::NotFound)?;
        self.schedules.remove(&id);
        tell(Ok(()))
    }

    pub(super) fn fire(&mut self, firing: &Firing) -> Answer {
        let Some((schedule, _)) = self.seen(firing.tenant, firing.id, firing.seen) else {
            return tell(Ok(false));
        };
        schedule.fired_at = Some(firing.tick);
        schedule.next_at = firing.next_at;
        schedule.last_job = Some(firing.work.id);
        schedule.version += 1;
        self.insert(&firing.work);
        tell(Ok(true))
    }

    /// The next tick of all.
    pub fn next_tick(&self) -> Option<Timestamp> {
        self.schedules.values().filter_map(|(schedule, _)| schedule.next_at).min()
    }

    /// What is due, by id.
    pub fn due(&self) -> Vec<Schedule> {
        let all = self.schedules.values().map(|(schedule, _)| schedule);
        all.filter(|schedule| schedule.next_at.is_some_and(|at| at <= self.now)).cloned().collect()
    }
}
