//! Retention beside those who make work of what is old.

use tokio::task::JoinHandle;
use wakepost_domain::AuditId;
use wakepost_domain::publication::NO_SOURCE;
use wakepost_store::moves::{
    AuditEntry, NewDelivery, OwnWalk, Replay, ReplayFrom, Webhooks, delivery_of,
};

use super::*;

const TENANT: TenantId = TenantId::DEFAULT;

/// Where the rows of long ago lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// In the partition of no week.
    InRest,
    InWeeks,
}

/// A database with an event of long ago.
struct Old {
    database: Database,
    store: Postgres,
    event: EventId,
    lane: LaneId,
    cut: Timestamp,
}

impl Old {
    async fn new(rows: Rows) -> Old {
        let database = Database::new().await;
        let store = database.store().await;
        let now = store.now().await.unwrap();
        let long_ago = now.before(40 * DAY);
        if rows == Rows::InWeeks {
            store.ensure_partitions(long_ago).await.unwrap();
        }
        let lane = lane(&store, "a").await;
        let new = event(lane, long_ago, &["old"]);
        let (event, cut) = (new.event.id, now.before(20 * DAY));
        store.accept(vec![new]).await.remove(0).unwrap();
        Old { database, store, event, lane, cut }
    }

    async fn claim(&self) -> wakepost_domain::lease::Ticket {
        self.store.claim(claim_of(self.lane, 1, vec![])).await.unwrap()[0].ticket
    }

    /// With a job that succeeded.
    async fn done(rows: Rows) -> Old {
        let old = Old::new(rows).await;
        let end = end_of(old.claim().await, Ending::Succeeded);
        old.store.settle(vec![end]).await.remove(0).unwrap();
        old
    }

    /// With nothing but that it was published.
    async fn published(rows: Rows) -> Old {
        let old = Old::new(rows).await;
        let raw = old.database.raw().await;
        raw.batch_execute("UPDATE events SET route = 4; DELETE FROM work").await.unwrap();
        old
    }

    /// Events and bodies of then may go, and so may finished work if `runs`.
    fn before(&self, runs: bool) -> PruneBefore {
        let (cut, never) = (self.cut, self.cut.before(100 * DAY));
        let work = if runs { cut } else { never };
        PruneBefore {
            bodies: cut,
            events: cut,
            runs: work,
            dead_letters: work,
            receipts: never,
            figures: never,
        }
    }

    fn prune(&self) -> JoinHandle<()> {
        let (store, before) = (self.store.clone(), self.before(false));
        tokio::spawn(async move { while store.prune(before).await.unwrap().more {} })
    }

    fn prune_own(&self) -> JoinHandle<()> {
        let (store, cut) = (self.store.clone(), self.cut);
        tokio::spawn(async move {
            for walk in [OwnWalk::Bodies(TENANT, cut), OwnWalk::Events(TENANT, cut)] {
                store.prune_own(walk, Ulid::MIN).await.unwrap();
            }
        })
    }

    fn replay(&self, id: WorkId) -> JoinHandle<()> {
        let replay = Replay {
            tenant: TENANT,
            from: ReplayFrom::Work(WorkId::first_of(self.event)),
            id,
            fresh_scope: false,
            input: None,
            max_attempts: 1,
            callback_lane: None,
            audit: AuditEntry {
                id: AuditId(id.0),
                tenant: Some(TENANT),
                actor: "ada".to_owned(),
                action: "job.replay".to_owned(),
                target: self.event.to_string(),
                note: None,
            },
        };
        let store = self.store.clone();
        tokio::spawn(async move { drop(store.replay(replay, None).await.unwrap()) })
    }

    fn backfill(&self) -> JoinHandle<()> {
        let webhook = wakepost_domain::WebhookId(NO_SOURCE.0);
        let delivery = NewDelivery {
            id: delivery_of(self.event, webhook),
            lane: self.lane,
            run_at: None,
            max_attempts: 1,
            order: None,
            parent_id: None,
        };
        let (store, items) = (self.store.clone(), vec![(self.event, delivery)]);
        tokio::spawn(async move { drop(store.add_deliveries(TENANT, items).await.unwrap()) })
    }

    /// Whatever the work is about is there.
    async fn ends_whole(self) {
        let raw = self.database.raw().await;
        assert_eq!(count(&raw, "SELECT count(*) FROM work").await, 1, "live work");
        assert_eq!(count(&raw, "SELECT count(*) FROM events").await, 1, "its event");
        assert_eq!(count(&raw, "SELECT count(*) FROM bodies").await, 1, "its body");
        self.database.close().await;
    }
}

/// Until so many wait for a lock, or this one waits no more.
async fn until_waiting(raw: &Client, many: i64, or: Option<&JoinHandle<()>>) {
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while count(raw, waiting).await < many && !or.is_some_and(JoinHandle::is_finished) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Makes work while this removes what no work needs. The work is made, and not committed, when the removing begins.
async fn beside(
    old: &Old,
    held: &str,
    make: impl AsyncFnOnce(&Old) -> JoinHandle<()>,
    prune: impl AsyncFnOnce(&Old) -> JoinHandle<()>,
) {
    let watch = old.database.raw().await;
    let mut raw = old.database.raw().await;
    let gate = raw.transaction().await.unwrap();
    gate.batch_execute(held).await.unwrap();
    let making = make(old).await;
    until_waiting(&watch, 1, None).await;
    let pruning = prune(old).await;
    until_waiting(&watch, 2, Some(&pruning)).await;
    gate.rollback().await.unwrap();
    making.await.unwrap();
    pruning.await.unwrap();
}

/// A replay comes to these after it made its work, a backfill before it makes its.
const NO_AUDIT: &str = "LOCK TABLE audit IN EXCLUSIVE MODE";
const NO_WORK: &str = "LOCK TABLE work IN EXCLUSIVE MODE";

#[tokio::test]
async fn what_is_being_replayed_is_not_removed() {
    for rows in [Rows::InRest, Rows::InWeeks] {
        let old = Old::done(rows).await;
        let id = WorkId(id(old.store.now().await.unwrap()));
        beside(&old, NO_AUDIT, async |old| old.replay(id), async |old| old.prune()).await;
        old.ends_whole().await;
    }
    let old = Old::done(Rows::InWeeks).await;
    let id = WorkId(id(old.store.now().await.unwrap()));
    beside(&old, NO_AUDIT, async |old| old.replay(id), async |old| old.prune_own()).await;
    old.ends_whole().await;
}

#[tokio::test]
async fn what_is_being_backfilled_is_not_removed() {
    for rows in [Rows::InRest, Rows::InWeeks] {
        let old = Old::published(rows).await;
        beside(&old, NO_WORK, async |old| old.backfill(), async |old| old.prune()).await;
        old.ends_whole().await;
    }
    let old = Old::published(Rows::InWeeks).await;
    beside(&old, NO_WORK, async |old| old.backfill(), async |old| old.prune_own()).await;
    old.ends_whole().await;
}

#[tokio::test]
async fn what_ends_while_its_week_is_dropped_stays() {
    let old = Old::new(Rows::InWeeks).await;
    let mut raw = old.database.raw().await;
    let watch = old.database.raw().await;
    old.claim().await;
    // Its run's end, which is not committed yet.
    let end = raw.transaction().await.unwrap();
    end.batch_execute(
        "INSERT INTO attempts (work_id, fence, tenant, attempt, worker, started_at, ended_at, outcome)
         SELECT id, fence, tenant, 1, 'ada', 1, wakepost_now(), 1 FROM work;
         INSERT INTO work_done (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id,
                                scope, finished_at)
         SELECT tenant, id, kind, lane, 8, run_at, 1, 1, fence, event_id, scope, wakepost_now() FROM work;
         DELETE FROM work",
    )
    .await
    .unwrap();
    let (store, before) = (old.store.clone(), old.before(true));
    let pruning = tokio::spawn(async move { while store.prune(before).await.unwrap().more {} });
    until_waiting(&watch, 1, Some(&pruning)).await;
    end.commit().await.unwrap();
    pruning.await.unwrap();
    for table in ["work_done", "attempts", "events", "bodies"] {
        assert_eq!(count(&watch, &format!("SELECT count(*) FROM {table}")).await, 1, "{table}");
    }
    old.database.close().await;
}
