//! Schedules: jobs that are made again and again. A tick makes one job, over all nodes.

use async_trait::async_trait;
use wakepost_domain::schedule::ScheduleSettings;
use wakepost_domain::{ScheduleId, TenantId, Timestamp, WorkId, limits};

use super::read::Cursor;
use super::settings::{AuditEntry, Idempotency, Once};
use super::work::NewWork;
use crate::error::{Result, StoreError};
use crate::vault::Sealed;

/// A schedule, without what its jobs get.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Its id, which carries the time it was made.
    pub id: ScheduleId,
    /// Whose it is.
    pub tenant: TenantId,
    /// What people set.
    pub settings: ScheduleSettings,
    /// The next tick.
    pub next_at: Option<Timestamp>,
    /// The last tick that it fired.
    pub fired_at: Option<Timestamp>,
    /// The job that made.
    pub last_job: Option<WorkId>,
    /// How often it was changed or fired: what somebody saw is still so if this is the same.
    pub version: i64,
}

impl Schedule {
    /// Its tenant has as many as it may.
    pub(crate) fn too_many() -> StoreError {
        let most = limits::SCHEDULES_PER_TENANT_MAX;
        StoreError::Limit(format!("a tenant has at most {most} schedules: delete one first"))
    }
}

/// A tick, as a node saw it.
#[derive(Debug, Clone)]
pub struct Firing {
    /// Whose schedule.
    pub tenant: TenantId,
    /// Which.
    pub id: ScheduleId,
    /// Its version, as seen.
    pub seen: i64,
    /// The tick; of several that were missed, the last.
    pub tick: Timestamp,
    /// The one after it.
    pub next_at: Option<Timestamp>,
    /// Its job.
    pub work: NewWork,
}

/// Recurring jobs.
#[async_trait]
pub trait Schedules {
    /// Makes a schedule. `Limit` if its tenant has too many.
    async fn create_schedule(
        &self,
        schedule: Schedule,
        input: Sealed,
        audit: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>>;

    /// One schedule, with what its jobs get.
    async fn schedule(
        &self,
        tenant: TenantId,
        id: ScheduleId,
    ) -> Result<Option<(Schedule, Sealed)>>;

    /// A tenant's schedules, newest first.
    async fn schedules(&self, tenant: TenantId, page: Cursor) -> Result<Vec<Schedule>>;

    /// Changes what people set, when it fires next and, if given, what its jobs get. `false`: it was changed, fired or
    /// deleted since it was seen, and nothing happened.
    async fn update_schedule(
        &self,
        schedule: Schedule,
        input: Option<Sealed>,
        audit: AuditEntry,
    ) -> Result<bool>;

    /// Deletes a schedule. Its jobs stay.
    async fn delete_schedule(
        &self,
        tenant: TenantId,
        id: ScheduleId,
        audit: AuditEntry,
    ) -> Result<()>;

    /// Schedules whose next tick is due, the longest due first; those after a tick and a schedule that were seen.
    async fn due_schedules(
        &self,
        after: Option<(Timestamp, ScheduleId)>,
        limit: u32,
    ) -> Result<Vec<Schedule>>;

    /// Notes that a tick was fired, and makes its job, in one transaction. `false`: another node did, or somebody
    /// changed the schedule, and nothing happened.
    async fn fire_schedule(&self, firing: Firing) -> Result<bool>;
}
