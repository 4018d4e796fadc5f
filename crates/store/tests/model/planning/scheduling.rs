//! Schedules: made, changed, and fired for the last of the ticks that were missed.

use wakepost_domain::schedule::{Recurrence, ScheduleSettings};
use wakepost_domain::work::WorkKind;
use wakepost_domain::{ScheduleId, WorkId};
use wakepost_store::moves::{Firing, NewWork, OrderKey, Schedule, WorkMeta};

use super::Scene;
use crate::call::Call;
use crate::wish::Pick;
use crate::world::sealed;

pub fn schedule(scene: &mut Scene<'_>, second: bool, ordered: bool) -> Call {
    let (now, tenant) = (scene.model.now, scene.party(second).tenant);
    let settings = ScheduleSettings {
        name: "every minute".to_owned(),
        cron: "* * * * *".to_owned(),
        time_zone: "UTC".to_owned(),
        enabled: true,
        order_key: ordered.then(|| "job order 0".to_owned()),
        ..ScheduleSettings::default()
    };
    let schedule = Schedule {
        id: ScheduleId(scene.ids.next(now)),
        tenant,
        next_at: settings.next_at(now, None).expect("it can be read"),
        settings,
        fired_at: None,
        last_job: None,
        version: 0,
    };
    let audit = scene.ids.audit(now, tenant, "schedule.create");
    Call::CreateSchedule(schedule, sealed("input"), audit)
}

/// Somebody switches a schedule on or off, who may have seen it before it was last fired or changed.
pub fn change(scene: &mut Scene<'_>, pick: Pick, enabled: bool, stale: bool) -> Option<Call> {
    let now = scene.model.now;
    let (tenant, id) = scene.schedule(pick)?;
    let (seen, _) = &scene.model.schedules[&id];
    let settings = ScheduleSettings { enabled, ..seen.settings.clone() };
    let schedule = Schedule {
        tenant,
        next_at: settings.next_at(now, seen.fired_at).expect("it can be read"),
        settings,
        version: seen.version - i64::from(stale),
        ..seen.clone()
    };
    let input = enabled.then(|| sealed("another input"));
    let audit = scene.ids.audit(now, tenant, "schedule.update");
    Some(Call::UpdateSchedule(schedule, input, audit))
}

/// What a node does that sees a schedule due: however many ticks were missed, one job.
pub fn firing(scene: &mut Scene<'_>, seen: &Schedule) -> Call {
    let now = scene.model.now;
    let settings = &seen.settings;
    let recurrence =
        Recurrence::parse(&settings.cron, &settings.time_zone).expect("it can be read");
    let tick = recurrence.latest(seen.next_at.expect("it is due"), now);
    let order = settings.order_key.as_ref();
    let work = NewWork {
        id: WorkId(scene.ids.next(now)),
        tenant: seen.tenant,
        kind: WorkKind::Job,
        lane: scene.of(seen.tenant).of_api,
        run_at: None,
        max_attempts: 2,
        event: None,
        scope: None,
        subject: None,
        order: order.map(|key| OrderKey::of_job(seen.tenant, key.as_bytes())),
        meta: WorkMeta {
            schedule_id: Some(seen.id),
            scheduled_for: Some(tick),
            order_key: order.cloned(),
            ..WorkMeta::default()
        },
        input: Some(sealed("input")),
        dedup: None,
    };
    let next_at = settings.next_at(now, Some(tick)).expect("it can be read");
    let (tenant, id, seen) = (seen.tenant, seen.id, seen.version);
    Call::Fire(Box::new(Firing { tenant, id, seen, tick, next_at, work }))
}
