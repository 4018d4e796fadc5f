//! Scheduling: a tick makes one job, over all nodes, and what people change holds.

use std::time::Duration;

use wakepost_domain::schedule::ScheduleSettings;
use wakepost_domain::work::State;
use wakepost_domain::{ScheduleId, TenantId, Timestamp, WorkId};

use super::Harness;
use super::drafts::{Inbox, once};
use super::world::{ALL, World, assert_not_found, sealed};
use crate::moves::{Firing, Once, Page, Schedule, WorkMeta};

const MINUTE: Duration = Duration::from_secs(60);

impl<H: Harness> World<'_, H> {
    fn draft(&self, tenant: TenantId, next_at: Option<Timestamp>) -> Schedule {
        let settings = ScheduleSettings {
            name: "nightly".to_owned(),
            cron: "* * * * *".to_owned(),
            time_zone: "Europe/Berlin".to_owned(),
            enabled: true,
            kind: Some("tidy".to_owned()),
            max_attempts: Some(4),
            ..ScheduleSettings::default()
        };
        let (fired_at, last_job, version) = (None, None, 0);
        let id = ScheduleId(self.id());
        Schedule { id, tenant, settings, next_at, fired_at, last_job, version }
    }

    async fn scheduled(&self, next_at: Timestamp) -> Schedule {
        let schedule = self.draft(TenantId::DEFAULT, Some(next_at));
        let audit = self.audit(schedule.tenant, "schedule.create");
        let made = self.store.create_schedule(schedule.clone(), sealed("input"), audit, None);
        assert_eq!(made.await.unwrap(), Once::Now(()));
        schedule
    }

    fn firing(&self, inbox: &Inbox, seen: &Schedule) -> Firing {
        let tick = seen.next_at.expect("it is due");
        let meta = WorkMeta {
            schedule_id: Some(seen.id),
            scheduled_for: Some(tick),
            ..WorkMeta::default()
        };
        Firing {
            tenant: seen.tenant,
            id: seen.id,
            seen: seen.version,
            tick,
            next_at: Some(tick.after(MINUTE)),
            work: self.job(inbox).with_meta(meta).with_input("input").build(),
        }
    }

    async fn read_schedule(&self, schedule: &Schedule) -> Schedule {
        self.other.schedule(schedule.tenant, schedule.id).await.unwrap().expect("it is there").0
    }
}

pub async fn a_schedule_is_kept_as_it_was_made(harness: &impl Harness) {
    let world = World::new(harness).await;
    let made = world.scheduled(world.now().await).await;
    let (read, input) = world.other.schedule(made.tenant, made.id).await.unwrap().unwrap();
    assert_eq!((&read, input), (&made, sealed("input")));
    let second = world.scheduled(world.now().await).await;
    assert_eq!(world.store.schedules(made.tenant, ALL).await.unwrap(), [second, read]);
    let page = Page { before: Some(made.id.0), limit: 5 };
    assert_eq!(world.store.schedules(made.tenant, page).await.unwrap(), []);
    let other = world.tenant("acme").await;
    assert_eq!(world.store.schedules(other, ALL).await.unwrap(), []);
    assert_eq!(world.store.schedule(other, made.id).await.unwrap(), None);
    let audit = world.audit(other, "schedule.delete");
    assert_not_found(world.store.delete_schedule(other, made.id, audit).await);
    let audit = world.audit(made.tenant, "schedule.delete");
    world.store.delete_schedule(made.tenant, made.id, audit).await.unwrap();
    assert_eq!(world.store.schedule(made.tenant, made.id).await.unwrap(), None);
    let trail = world.actions(made.tenant).await;
    assert_eq!(trail.iter().filter(|action| *action == "schedule.create").count(), 2);
    assert_eq!(trail.iter().filter(|action| *action == "schedule.delete").count(), 1);
}

pub async fn a_schedule_is_made_once_under_an_idempotency_key(harness: &impl Harness) {
    let world = World::new(harness).await;
    let until = world.now().await.after(MINUTE);
    for expected in [true, false] {
        let schedule = world.draft(TenantId::DEFAULT, None);
        let audit = world.audit(schedule.tenant, "schedule.create");
        let key = Some(once(3, "made", until));
        let made = world.store.create_schedule(schedule, sealed("input"), audit, key).await;
        assert_eq!(made.unwrap() == Once::Now(()), expected);
    }
    assert_eq!(world.store.schedules(TenantId::DEFAULT, ALL).await.unwrap().len(), 1);
}

pub async fn a_schedule_is_due_from_its_tick_on(harness: &impl Harness) {
    let world = World::new(harness).await;
    let made = world.scheduled(world.now().await.after(10 * MINUTE)).await;
    let late = world.scheduled(world.now().await.after(9 * MINUTE)).await;
    let off = world.draft(TenantId::DEFAULT, None);
    let audit = world.audit(off.tenant, "schedule.create");
    world.store.create_schedule(off, sealed("input"), audit, None).await.unwrap();
    assert_eq!(world.store.due_schedules(None, 10).await.unwrap(), []);
    world.advance(11 * MINUTE).await;
    assert_eq!(world.other.due_schedules(None, 10).await.unwrap(), [late.clone(), made.clone()]);
    assert_eq!(world.store.due_schedules(None, 1).await.unwrap(), std::slice::from_ref(&late));
    let after = |seen: &Schedule| seen.next_at.map(|tick| (tick, seen.id));
    assert_eq!(
        world.store.due_schedules(after(&late), 10).await.unwrap(),
        std::slice::from_ref(&made)
    );
    assert_eq!(world.store.due_schedules(after(&made), 10).await.unwrap(), []);
}

pub async fn a_tick_makes_one_job_over_all_nodes(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut seen = world.scheduled(world.now().await).await;
    for _ in 0..5 {
        let (ours, theirs) = (world.firing(&inbox, &seen), world.firing(&inbox, &seen));
        let (tick, ids) = (ours.tick, [ours.work.id, theirs.work.id]);
        let (ours, theirs) =
            tokio::join!(world.store.fire_schedule(ours), world.other.fire_schedule(theirs));
        let fired = [ours.unwrap(), theirs.unwrap()];
        assert_eq!(fired.iter().filter(|fired| **fired).count(), 1);
        let job: WorkId = if fired[0] { ids[0] } else { ids[1] };
        let lost: WorkId = if fired[0] { ids[1] } else { ids[0] };
        assert_eq!(world.store.work(inbox.tenant, lost).await.unwrap(), None);
        let row = world.row(inbox.tenant, job).await;
        assert_eq!((row.state, row.meta.schedule_id), (State::Pending, Some(seen.id)));
        assert_eq!(row.meta.scheduled_for, Some(tick));
        let kept = world.kept(job).await;
        assert_eq!((kept.input, kept.scheduled_for), (Some(sealed("input")), Some(tick)));
        let now = world.read_schedule(&seen).await;
        assert_eq!((now.fired_at, now.last_job), (Some(tick), Some(job)));
        assert_eq!(now.next_at, Some(tick.after(MINUTE)));
        seen = now;
    }
}

pub async fn a_change_and_a_firing_do_not_undo_each_other(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let seen = world.scheduled(world.now().await).await;
    let settings = ScheduleSettings { enabled: false, ..seen.settings.clone() };
    let off = Schedule { settings, next_at: None, ..seen.clone() };
    let audit = || world.audit(seen.tenant, "schedule.update");
    assert!(world.store.update_schedule(off.clone(), None, audit()).await.unwrap());
    // It was seen as due before it was disabled.
    assert!(!world.other.fire_schedule(world.firing(&inbox, &seen)).await.unwrap());
    let (read, input) = world.other.schedule(seen.tenant, seen.id).await.unwrap().unwrap();
    assert_eq!((&read.settings, read.next_at), (&off.settings, None));
    assert_eq!((read.fired_at, input), (None, sealed("input")));
    // Seen before the change.
    assert!(!world.store.update_schedule(seen.clone(), None, audit()).await.unwrap());
    let on = Schedule { settings: seen.settings.clone(), next_at: seen.next_at, ..read };
    assert!(world.store.update_schedule(on, Some(sealed("more")), audit()).await.unwrap());
    let on = world.read_schedule(&seen).await;
    assert!(world.store.fire_schedule(world.firing(&inbox, &on)).await.unwrap());
    // Seen before the firing.
    let renamed = Schedule { next_at: on.next_at, ..on.clone() };
    assert!(!world.store.update_schedule(renamed, None, audit()).await.unwrap());
    let (fired, input) = world.store.schedule(seen.tenant, seen.id).await.unwrap().unwrap();
    assert_eq!((fired.fired_at, input), (on.next_at, sealed("more")));
    let gone = Schedule { id: ScheduleId(world.id()), ..fired };
    assert!(!world.store.update_schedule(gone.clone(), None, audit()).await.unwrap());
    assert!(!world.store.fire_schedule(world.firing(&inbox, &gone)).await.unwrap());
    let updates = world.actions(seen.tenant).await;
    assert_eq!(updates.iter().filter(|action| *action == "schedule.update").count(), 2);
}
