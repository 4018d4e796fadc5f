//! What a schedule's tick makes: a job like any other, which says what made it.

use wakepost_domain::lane::{LaneKey, OwnExecutor};
use wakepost_domain::schedule::Recurrence;
use wakepost_domain::work::{Priority, WorkKind};
use wakepost_domain::{Timestamp, WorkId};
use wakepost_store::moves::{Firing, NewWork, OrderKey, Schedule, WorkMeta};
use wakepost_store::vault::Slot;
use wakepost_store::{Result, StoreError};

use crate::context::Context;

/// The kind of a job that names none.
pub const DEFAULT_KIND: &str = "job";

/// Where a schedule's jobs wait.
pub fn lane_key(schedule: &Schedule) -> LaneKey {
    let settings = &schedule.settings;
    let trusted = settings.executor_trusted;
    let own = settings.executor.clone().map(|executor| OwnExecutor { executor, trusted }.key());
    LaneKey {
        tenant: schedule.tenant,
        kind: WorkKind::Job,
        priority: settings.priority.unwrap_or(Priority::Webhook),
        origin: None,
        name: settings.kind.clone().unwrap_or_else(|| DEFAULT_KIND.to_owned()),
        executor: own,
    }
}

/// Fires a schedule whose tick is due; answers whether this node did. However many ticks were missed, there is one
/// job, which stands for the last of them.
pub async fn fire(context: &Context, seen: Schedule, now: Timestamp) -> Result<bool> {
    let Some(due) = seen.next_at else { return Ok(false) };
    let settings = &seen.settings;
    let recurrence = Recurrence::parse(&settings.cron, &settings.time_zone)
        .map_err(|error| StoreError::Corrupt(error.to_string()))?;
    let tick = recurrence.latest(due, now);
    let next_at = recurrence.next_after(tick.max(now));
    // Its input is read only now: of all that are due it might be much.
    let Some((current, input)) = context.store.schedule(seen.tenant, seen.id).await? else {
        return Ok(false);
    };
    if current.version != seen.version {
        return Ok(false);
    }
    let key = context.vault.key(seen.tenant).await?;
    let input = key.open(Slot::ScheduleInput(seen.id), &input)?;
    let wanted = lane_key(&seen);
    let name = wanted.name.clone();
    let lane = context.directory.lane(wanted).await?;
    let id = WorkId(context.new_id());
    let work = NewWork {
        id,
        tenant: seen.tenant,
        kind: WorkKind::Job,
        lane: lane.id,
        run_at: None,
        max_attempts: context.directory.max_attempts(&lane, settings.max_attempts).await?,
        event: None,
        scope: None,
        subject: settings.subject.clone(),
        order: settings
            .order_key
            .as_ref()
            .map(|text| OrderKey::of_job(seen.tenant, text.as_bytes())),
        meta: WorkMeta {
            name: lane.key.name.is_empty().then_some(name),
            owner: settings.owner.clone(),
            order_key: settings.order_key.clone(),
            schedule_id: Some(seen.id),
            scheduled_for: Some(tick),
            ..WorkMeta::default()
        },
        input: Some(key.seal(Slot::Input(id), &input)),
        dedup: None,
    };
    let firing =
        Firing { tenant: seen.tenant, id: seen.id, seen: seen.version, tick, next_at, work };
    let fired = context.store.fire_schedule(firing).await;
    // A hint too many costs nothing.
    if fired.as_ref().map_or_else(StoreError::is_unknown, |fired| *fired) {
        context.queue.hint(&lane, 1).await;
    }
    fired
}
