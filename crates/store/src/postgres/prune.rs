//! Retention: whole weeks are dropped; what is not in a week of its own goes row by row, in small steps.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use deadpool_postgres::{Client, Transaction};
use parking_lot::Mutex;
use uuid::Uuid;
use wakepost_domain::{Timestamp, Ulid, budget, figures};

use super::migrate::lock_schema;
use super::partitions::{Partition, older_than};
use super::rows::{execute, get, query_opt, uuid};
use super::{Postgres, commit, revivals};
use crate::error::Result;
use crate::failpoint;
use crate::moves::{PruneBefore, Pruned};

/// How many rows one step removes, in each table.
const STEP: i64 = 500;
/// How many rows one step of a walk looks at.
const LOOK: i64 = 5_000;
/// A week with more rows to keep than this is thinned where it stands: moving them would keep everyone
/// else waiting for the table.
const KEPT_MAX: i64 = 20_000;
/// A walk over more rows than this rests for a while when it is through.
const LONG_WALK: i64 = 100_000;
const REST: Duration = Duration::from_secs(3600);
/// What a node holds while it prunes: an arbitrary number, the same in all nodes.
const LOCK: i64 = 0x7072756e_65000000;

/// What must stay of a table although it is old: said of one row `r`, and as a list of a week's ids. `CUT` stands for the
/// moment, in milliseconds, and `DEAD` for that of dead letters.
struct Needed {
    key: &'static str,
    row: &'static str,
    /// Found from the side of the work, which is smaller.
    ids: &'static str,
    /// Whether work may be made anew that needs it.
    revives: bool,
}

/// Of an event, or of a body by the event's id: live work or a dead letter that was not replayed needs it.
macro_rules! needed {
    ($e:literal) => {
        concat!(
            "(EXISTS (SELECT 1 FROM work w WHERE w.tenant = ", $e, ".tenant AND w.id = ", $e, ".id)
   OR EXISTS (SELECT 1 FROM work w WHERE w.event_id = ", $e, ".id AND w.event_id <> w.id)
   OR EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = ", $e, ".tenant AND d.id = ", $e, ".id
              AND d.state = 8 AND d.replayed_as IS NULL AND d.purged_by IS NULL)
   OR EXISTS (SELECT 1 FROM work_done d WHERE d.event_id = ", $e, ".id AND d.event_id <> d.id
              AND d.state = 8 AND d.replayed_as IS NULL AND d.purged_by IS NULL)
   OR EXISTS (SELECT 1 FROM joined j JOIN work w ON w.tenant = j.tenant AND w.id = j.work_id
              WHERE j.event_id = ", $e, ".id)
   OR EXISTS (SELECT 1 FROM joined j JOIN work_done d ON d.tenant = j.tenant AND d.id = j.work_id
              WHERE j.event_id = ", $e, ".id AND d.state = 8 AND d.replayed_as IS NULL AND d.purged_by IS NULL))"
        )
    };
}

pub(super) use needed;

/// The ids of events that live work and kept dead letters need.
macro_rules! needed_ids {
    () => {
        "
  SELECT event_id FROM work WHERE event_id >= $1::uuid AND event_id < $2::uuid
  UNION
  SELECT event_id FROM work_done
  WHERE state = 8 AND replayed_as IS NULL AND purged_by IS NULL AND event_id >= $1::uuid AND event_id < $2::uuid
  UNION
  SELECT j.event_id FROM joined j JOIN work w ON w.tenant = j.tenant AND w.id = j.work_id
  WHERE j.event_id >= $1::uuid AND j.event_id < $2::uuid
  UNION
  SELECT j.event_id FROM joined j JOIN work_done d ON d.tenant = j.tenant AND d.id = j.work_id
  WHERE d.state = 8 AND d.replayed_as IS NULL AND d.purged_by IS NULL
    AND j.event_id >= $1::uuid AND j.event_id < $2::uuid"
    };
}

/// Events of live work and of dead letters that were not replayed.
const EVENTS: Needed = Needed { key: "id", row: needed!("r"), ids: needed_ids!(), revives: true };

/// Of a body: one event needs it, or one of several that share it.
macro_rules! needed_body {
    ($e:literal) => {
        concat!(
            "(",
            needed!($e),
            " OR EXISTS (SELECT 1 FROM events p WHERE p.body_id = ",
            $e,
            ".id AND ",
            needed!("p"),
            "))"
        )
    };
}
pub(super) use needed_body;

/// Their bodies.
const BODIES: Needed = Needed {
    key: "id",
    row: needed_body!("r"),
    ids: concat!(
        needed_ids!(),
        " UNION SELECT p.body_id FROM events p
          WHERE p.body_id >= $1::uuid AND p.body_id < $2::uuid AND ",
        needed!("p")
    ),
    revives: true,
};

/// What was made long before it ended. What still lives may end while its week is dropped.
const DONE: Needed = Needed {
    key: "id",
    row: "(r.finished_at >= CUT AND r.state <> 8 OR r.finished_at >= DEAD AND r.state = 8)",
    ids: "SELECT id FROM work_done WHERE id >= $1::uuid AND id < $2::uuid
    AND (finished_at >= CUT AND state <> 8 OR finished_at >= DEAD AND state = 8)
  UNION SELECT id FROM work WHERE id >= $1::uuid AND id < $2::uuid",
    revives: false,
};

/// Runs of unfinished work, and of what was made long before it ended.
const RUNS: Needed = Needed {
    key: "work_id",
    row: "(EXISTS (SELECT 1 FROM work w WHERE w.tenant = r.tenant AND w.id = r.work_id)
   OR EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = r.tenant AND d.id = r.work_id
              AND (d.finished_at >= CUT AND d.state <> 8 OR d.finished_at >= DEAD AND d.state = 8)))",
    ids: "SELECT id FROM work WHERE id >= $1::uuid AND id < $2::uuid
  UNION SELECT id FROM work_done WHERE id >= $1::uuid AND id < $2::uuid
    AND (finished_at >= CUT AND state <> 8 OR finished_at >= DEAD AND state = 8)",
    revives: false,
};

/// Of a dedup key: the body it guards is there, its event's own or one that its event shares. Looked for one by one, in the
/// one week that the id tells: the planner might read all bodies for it.
macro_rules! guards {
    ($k:literal) => {
        concat!(
            "(EXISTS (SELECT 1 FROM bodies b WHERE b.id = ",
            $k,
            ".event_id OFFSET 0)
   OR EXISTS (SELECT 1 FROM events e CROSS JOIN LATERAL (
                SELECT 1 FROM bodies b WHERE b.id = e.body_id OFFSET 0) b
              WHERE e.tenant = ",
            $k,
            ".tenant AND e.id = ",
            $k,
            ".event_id OFFSET 0))"
        )
    };
}

pub(super) use guards;

/// Of an effect `e`: no item shares it any more, so that no replay can repeat it.
macro_rules! unshared_effect {
    () => {
        "(NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = e.tenant AND w.id = e.scope)
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.scope = e.scope AND w.scope <> w.id)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = e.tenant AND d.id = e.scope)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.scope = e.scope AND d.scope <> d.id))"
    };
}

pub(super) use unshared_effect;

/// What goes when it is older than a moment, slice by slice. `$1` is the first id to keep, `$2` the size
/// of a slice. Effects stay as long as any item that shares them, so that no replay can repeat one; what a
/// job left behind stays as long as its row, which may be until the end of its week.
type Slice = (&'static str, fn(&PruneBefore) -> Timestamp);
const SLICES: [Slice; 11] = [
    (
        "DELETE FROM work_done_rest WHERE ctid = ANY (ARRAY(
           SELECT ctid FROM work_done_rest WHERE id < $1::uuid AND state <> 8
             AND finished_at < ('x' || left(replace($1::uuid::text, '-', ''), 12))::bit(48)::bigint
           LIMIT $2::bigint))",
        |before| before.runs,
    ),
    // Of every week: dead letters may be kept for less long than what succeeded. They are few, and have an index.
    (
        "DELETE FROM work_done d USING (
           SELECT tenant, id FROM work_done WHERE state = 8 AND id < $1::uuid
             AND finished_at < ('x' || left(replace($1::uuid::text, '-', ''), 12))::bit(48)::bigint
           LIMIT $2::bigint) o
         WHERE d.tenant = o.tenant AND d.id = o.id",
        |before| before.dead_letters,
    ),
    (
        "DELETE FROM attempts_rest WHERE ctid = ANY (ARRAY(
           SELECT a.ctid FROM attempts_rest a WHERE a.work_id < $1::uuid
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = a.tenant AND w.id = a.work_id)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = a.tenant AND d.id = a.work_id)
           LIMIT $2::bigint))",
        PruneBefore::of_work,
    ),
    (
        "DELETE FROM job_state WHERE ctid = ANY (ARRAY(
           SELECT s.ctid FROM job_state s WHERE s.work_id < $1::uuid
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = s.tenant AND w.id = s.work_id)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = s.tenant AND d.id = s.work_id)
           ORDER BY s.work_id LIMIT $2::bigint))",
        PruneBefore::of_work,
    ),
    (
        "DELETE FROM costs WHERE ctid = ANY (ARRAY(
           SELECT c.ctid FROM costs c WHERE c.work_id < $1::uuid
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = c.tenant AND w.id = c.work_id)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = c.tenant AND d.id = c.work_id)
           ORDER BY c.work_id LIMIT $2::bigint))",
        PruneBefore::of_work,
    ),
    (
        "DELETE FROM joined WHERE ctid = ANY (ARRAY(
           SELECT j.ctid FROM joined j WHERE j.work_id < $1::uuid
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = j.tenant AND w.id = j.work_id)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = j.tenant AND d.id = j.work_id)
           ORDER BY j.work_id LIMIT $2::bigint))",
        PruneBefore::of_work,
    ),
    (
        "DELETE FROM progress WHERE ctid = ANY (ARRAY(
           SELECT p.ctid FROM progress p WHERE p.work_id < $1::uuid
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = p.tenant AND w.id = p.work_id)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = p.tenant AND d.id = p.work_id)
           ORDER BY p.work_id LIMIT $2::bigint))",
        PruneBefore::of_work,
    ),
    (
        concat!(
            "DELETE FROM effects WHERE ctid = ANY (ARRAY(
               SELECT e.ctid FROM effects e WHERE e.scope < $1::uuid AND ",
            unshared_effect!(),
            " ORDER BY e.scope LIMIT $2::bigint))"
        ),
        PruneBefore::of_work,
    ),
    (
        "DELETE FROM receipts WHERE id IN (
           SELECT id FROM receipts WHERE id < $1::uuid ORDER BY id LIMIT $2::bigint)",
        |before| before.receipts,
    ),
    (
        "DELETE FROM alerts WHERE id IN (
           SELECT id FROM alerts WHERE id < $1::uuid AND resolved_at IS NOT NULL
           ORDER BY id LIMIT $2::bigint)",
        |before| before.events,
    ),
    // Differs from SQLite, which has no outbox. Only what could not be published: the rest is not ours to remove.
    (
        "DELETE FROM outbox WHERE number IN (
           SELECT number FROM outbox WHERE refused IS NOT NULL AND event < $1::uuid
           ORDER BY event LIMIT $2::bigint)",
        |before| before.events,
    ),
];

/// What is kept by minute.
const MINUTES: [&str; 2] = [
    "DELETE FROM figures WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM figures WHERE minute < $1::bigint ORDER BY minute LIMIT $2::bigint))",
    "DELETE FROM samples WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM samples WHERE minute < $1::bigint ORDER BY minute LIMIT $2::bigint))",
];

impl Postgres {
    pub(super) async fn prune_step(&self, before: &PruneBefore) -> Result<Pruned> {
        let mut client = self.cool().await?;
        if let Some(dropped) = drop_a_week(&mut client, before, &self.inner.walk).await? {
            return Ok(dropped);
        }
        failpoint::pass_async("retention.mid_batch").await?;
        let walk = &self.inner.walk;
        let mut pruned = thin_rest(&mut client, before, walk).await?;
        let tx = client.transaction().await?;
        if !is_alone(&tx).await? {
            return Ok(pruned);
        }
        for (sql, cut) in SLICES {
            let removed = execute(&tx, sql, &[&floor(cut(before)), &STEP]).await?;
            pruned.rows += removed;
            pruned.more |= removed >= STEP as u64;
            failpoint::pass_async("retention.mid_batch").await?;
        }
        let days = execute(
            &tx,
            "DELETE FROM budgets WHERE ctid = ANY (ARRAY(
               SELECT ctid FROM budgets WHERE day < $1::bigint LIMIT $2::bigint))",
            &[&budget::day(before.runs), &STEP],
        )
        .await?;
        pruned.rows += days;
        pruned.more |= days >= STEP as u64;
        for sql in MINUTES {
            let minute = figures::minute(before.figures);
            let removed = execute(&tx, sql, &[&minute, &STEP]).await?;
            pruned.rows += removed;
            pruned.more |= removed >= STEP as u64;
        }
        let keys = prune_keys(&tx, walk).await?;
        pruned.rows += keys.rows;
        pruned.more |= keys.more;
        commit(tx).await?;
        Ok(pruned)
    }
}

/// Whether no other node prunes; none does until the transaction ends.
pub(super) async fn is_alone(tx: &Transaction<'_>) -> Result<bool> {
    get(&tx.query_one("SELECT pg_try_advisory_xact_lock($1::bigint)", &[&LOCK]).await?, 0)
}

/// Events and bodies that are in no week. In a transaction of its own, since replays wait for it.
async fn thin_rest(client: &mut Client, before: &PruneBefore, walk: &Walk) -> Result<Pruned> {
    let tx = client.transaction().await?;
    let mut pruned = Pruned::default();
    if !is_alone(&tx).await? {
        return Ok(pruned);
    }
    revivals::wait_for(&tx).await?;
    let rest = [("bodies_rest", before.bodies, &BODIES), ("events_rest", before.events, &EVENTS)];
    for (table, cut, needed) in rest {
        if !walk.rests(table) {
            let thinned = thin(&tx, table, needed, (cut, before), walk, LONG_WALK).await?;
            pruned.rows += thinned.rows;
            pruned.more |= thinned.more;
        }
    }
    commit(tx).await?;
    Ok(pruned)
}

pub(super) fn floor(at: Timestamp) -> Uuid {
    uuid(Ulid::floor(at))
}

/// Drops the first week that is wholly too old, after moving what must stay to the default partition.
async fn drop_a_week(
    client: &mut Client,
    before: &PruneBefore,
    walk: &Walk,
) -> Result<Option<Pruned>> {
    let kinds = [
        ("bodies", before.bodies, &BODIES),
        ("events", before.events, &EVENTS),
        ("work_done", before.runs, &DONE),
        ("attempts", before.runs, &RUNS),
    ];
    for (table, cut, needed) in kinds {
        for week in older_than(client, table, Ulid::floor(cut)).await? {
            if walk.rests(&week.name) {
                continue;
            }
            let tx = client.transaction().await?;
            lock_schema(&tx).await?;
            if needed.revives {
                revivals::wait_for(&tx).await?;
            }
            let rows = match find_needed(&tx, &week, needed, cut, before).await? <= KEPT_MAX as u64
            {
                true => drop_week(&tx, &week, needed.key).await?,
                // A walk that rests whenever it is through.
                false => thin(&tx, &week.name, needed, (cut, before), walk, 0).await?.rows,
            };
            commit(tx).await?;
            return Ok(Some(Pruned { rows, more: true }));
        }
    }
    Ok(None)
}

fn at(sql: &str, cut: Timestamp, before: &PruneBefore) -> String {
    sql.replace("CUT", &cut.as_millis().to_string())
        .replace("DEAD", &before.dead_letters.as_millis().to_string())
}

/// Lists what must stay of a week, before the table is locked, so that the lock is short.
async fn find_needed(
    tx: &Transaction<'_>,
    week: &Partition,
    needed: &Needed,
    cut: Timestamp,
    before: &PruneBefore,
) -> Result<u64> {
    tx.batch_execute(MAKE_KEPT).await?;
    let ids = at(needed.ids, cut, before);
    let sql = format!("INSERT INTO kept SELECT * FROM ({ids}) AS n LIMIT {}", KEPT_MAX + 1);
    Ok(tx.execute(&sql, &[&uuid(week.from), &uuid(week.to)]).await?)
}

const MAKE_KEPT: &str = "CREATE TEMP TABLE IF NOT EXISTS kept (id uuid PRIMARY KEY) ON COMMIT DROP";

async fn drop_week(tx: &Transaction<'_>, week: &Partition, key: &str) -> Result<u64> {
    let Partition { table, name, .. } = week;
    let row = query_opt(
        tx,
        "SELECT greatest(reltuples, 1)::bigint FROM pg_class WHERE oid = to_regclass($1::text)",
        &[name],
    )
    .await?;
    // Another node was faster.
    let Some(row) = row else { return Ok(0) };
    let rows: i64 = get(&row, 0)?;
    tx.batch_execute(&format!(
        "{MAKE_KEPT};
         SET LOCAL lock_timeout = '500ms';
         ALTER TABLE {table} DETACH PARTITION {name};
         INSERT INTO {table} SELECT p.* FROM {name} p JOIN kept k ON k.id = p.{key};
         DROP TABLE {name};"
    ))
    .await?;
    tracing::info!(week = name, rows, "dropped a week");
    Ok(rows as u64)
}

/// Removes rows that nobody needs, a few at a time, walking past those that stay.
async fn thin(
    tx: &Transaction<'_>,
    table: &str,
    needed: &Needed,
    (cut, before): (Timestamp, &PruneBefore),
    walk: &Walk,
    short: i64,
) -> Result<Pruned> {
    let (key, row) = (needed.key, at(needed.row, cut, before));
    let sql = format!(
        "WITH look AS MATERIALIZED (
           SELECT {key} AS id FROM {table} WHERE {key} > $1::uuid AND {key} < $2::uuid
           ORDER BY {key} LIMIT $3::bigint
         ), gone AS (
           DELETE FROM {table} r USING (SELECT DISTINCT id FROM look) l
           WHERE r.{key} = l.id AND NOT {row} RETURNING 1
         )
         SELECT (SELECT count(*) FROM look), (SELECT id FROM look ORDER BY id DESC LIMIT 1),
                (SELECT count(*) FROM gone)"
    );
    let row = tx.query_one(&sql, &[&walk.at(table), &floor(cut), &STEP]).await?;
    let (looked, last, gone): (i64, Option<Uuid>, i64) =
        (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
    Ok(Pruned { rows: gone as u64, more: walk.step(table, (looked, STEP), last, short) })
}

/// Removes expired keys: those of callers, and those of events whose body is gone. A key never ends before
/// the body it guards.
async fn prune_keys(tx: &Transaction<'_>, walk: &Walk) -> Result<Pruned> {
    let mut pruned = Pruned::default();
    for (table, guard) in [
        ("idempotency", ""),
        ("dedup_keys", concat!("AND NOT ", guards!("d"))),
        ("threads", ""),
        ("sequences", ""),
    ] {
        if !walk.rests(table) {
            let walked = walk_keys(tx, table, guard, walk).await?;
            pruned.rows += walked.rows;
            pruned.more |= walked.more;
        }
    }
    Ok(pruned)
}

/// Removes expired rows among the next few. What an accept holds just now is being taken over: it is left alone.
async fn walk_keys(tx: &Transaction<'_>, table: &str, guard: &str, walk: &Walk) -> Result<Pruned> {
    let sql = format!(
        "WITH look AS MATERIALIZED (
           SELECT key, expires_at FROM {table} WHERE key > $1::uuid ORDER BY key LIMIT $2::bigint
         ), old AS MATERIALIZED (
           SELECT d.key FROM look l JOIN {table} d ON d.key = l.key
           WHERE l.expires_at <= wakepost_now() AND d.expires_at <= wakepost_now() {guard}
           FOR UPDATE OF d SKIP LOCKED
         ), gone AS (
           DELETE FROM {table} d USING old o WHERE d.key = o.key RETURNING 1
         )
         SELECT (SELECT count(*) FROM look), (SELECT key FROM look ORDER BY key DESC LIMIT 1),
                (SELECT count(*) FROM gone)"
    );
    let row = tx.query_one(&sql, &[&walk.at(table), &LOOK]).await?;
    let (looked, last, gone): (i64, Option<Uuid>, i64) =
        (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
    Ok(Pruned { rows: gone as u64, more: walk.step(table, (looked, LOOK), last, LONG_WALK) })
}

/// Where walks over tables without an index for the purpose stand. Only a cache: a node that starts
/// anew begins at the front.
#[derive(Default)]
pub struct Walk {
    tables: Mutex<HashMap<String, Stand>>,
}

#[derive(Default)]
struct Stand {
    after: Uuid,
    looked: i64,
    rests_since: Option<Instant>,
}

impl Walk {
    fn rests(&self, table: &str) -> bool {
        let tables = self.tables.lock();
        let since = tables.get(table).and_then(|stand| stand.rests_since);
        since.is_some_and(|since| since.elapsed() < REST)
    }

    fn at(&self, table: &str) -> Uuid {
        self.tables.lock().get(table).map_or(Uuid::nil(), |stand| stand.after)
    }

    /// Notes a step, with how many rows it looked at and how many it wanted to; answers whether the walk
    /// goes on. At the end it begins anew, after a rest unless it was shorter than
    /// `short`.
    fn step(
        &self,
        table: &str,
        (looked, wanted): (i64, i64),
        last: Option<Uuid>,
        short: i64,
    ) -> bool {
        let mut tables = self.tables.lock();
        let stand = tables.entry(table.to_owned()).or_default();
        stand.looked += looked;
        match last {
            Some(last) if looked >= wanted => {
                stand.after = last;
                true
            }
            _ => {
                let rests_since = (stand.looked >= short).then(Instant::now);
                *stand = Stand { rests_since, ..Stand::default() };
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_goes_on_until_the_end_and_rests_only_if_it_was_long() {
        let walk = Walk::default();
        let last = Some(Uuid::max());
        assert!(walk.step("t", (5, 5), last, 100));
        assert_eq!(walk.at("t"), Uuid::max());
        assert!(!walk.step("t", (4, 5), last, 100));
        assert_eq!((walk.at("t"), walk.rests("t")), (Uuid::nil(), false));
        assert!(!walk.step("t", (4, 5), last, 3));
        assert!(walk.rests("t"));
    }
}
