//! Retention: whole weeks are dropped; what is not in a week of its own goes row by row, in small steps.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use deadpool_postgres::{Client, Transaction};
use parking_lot::Mutex;
use uuid::Uuid;
use wakepost_domain::{Timestamp, Ulid};

use super::migrate::lock_schema;
use super::partitions::{Partition, older_than};
use super::rows::{execute, get, query_opt, uuid};
use super::{Postgres, commit};
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

/// The bodies that stay: those of live work and of dead letters that were not replayed.
const BODY_IS_NEEDED: &str = "
  (EXISTS (SELECT 1 FROM work w WHERE w.tenant = b.tenant AND w.id = b.id)
   OR EXISTS (SELECT 1 FROM work w WHERE w.event_id = b.id AND w.event_id <> w.id)
   OR EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = b.tenant AND d.id = b.id
              AND d.state = 8 AND d.replayed_as IS NULL)
   OR EXISTS (SELECT 1 FROM work_done d WHERE d.event_id = b.id AND d.event_id <> d.id
              AND d.state = 8 AND d.replayed_as IS NULL))";

/// The ids of a week's bodies that stay, found from the side of the work, which is smaller.
const BODIES_NEEDED: &str = "
  SELECT event_id FROM work WHERE event_id >= $1::uuid AND event_id < $2::uuid
  UNION
  SELECT event_id FROM work_done
  WHERE state = 8 AND replayed_as IS NULL AND event_id >= $1::uuid AND event_id < $2::uuid";

/// The ids of a week's items whose runs stay, because they are not finished.
const RUNS_NEEDED: &str = "SELECT id FROM work WHERE id >= $1::uuid AND id < $2::uuid";

/// What goes when it is older than a moment, slice by slice. `$1` is the first id to keep, `$2` the size
/// of a slice. Effects stay as long as any item that shares them, so that no replay can repeat one; what a
/// job left behind stays as long as its row, which may be until the end of its week.
type Slice = (&'static str, fn(&PruneBefore) -> Timestamp);
const SLICES: [Slice; 7] = [
    (
        "DELETE FROM events_rest WHERE ctid = ANY (ARRAY(
           SELECT ctid FROM events_rest WHERE id < $1::uuid LIMIT $2::bigint))",
        |before| before.events,
    ),
    (
        "DELETE FROM work_done_rest WHERE ctid = ANY (ARRAY(
           SELECT ctid FROM work_done_rest WHERE id < $1::uuid LIMIT $2::bigint))",
        |before| before.runs,
    ),
    (
        "DELETE FROM attempts_rest WHERE ctid = ANY (ARRAY(
           SELECT a.ctid FROM attempts_rest a WHERE a.work_id < $1::uuid
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = a.tenant AND w.id = a.work_id)
           LIMIT $2::bigint))",
        |before| before.runs,
    ),
    (
        "DELETE FROM job_state WHERE ctid = ANY (ARRAY(
           SELECT s.ctid FROM job_state s WHERE s.work_id < $1::uuid
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = s.tenant AND w.id = s.work_id)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = s.tenant AND d.id = s.work_id)
           ORDER BY s.work_id LIMIT $2::bigint))",
        |before| before.runs,
    ),
    (
        "DELETE FROM progress WHERE ctid = ANY (ARRAY(
           SELECT p.ctid FROM progress p WHERE p.work_id < $1::uuid
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = p.tenant AND w.id = p.work_id)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = p.tenant AND d.id = p.work_id)
           ORDER BY p.work_id LIMIT $2::bigint))",
        |before| before.runs,
    ),
    (
        "DELETE FROM effects WHERE ctid = ANY (ARRAY(
           SELECT e.ctid FROM effects e WHERE e.scope < $1::uuid
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = e.tenant AND w.id = e.scope)
             AND NOT EXISTS (SELECT 1 FROM work w WHERE w.scope = e.scope AND w.scope <> w.id)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = e.tenant AND d.id = e.scope)
             AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.scope = e.scope AND d.scope <> d.id)
           ORDER BY e.scope LIMIT $2::bigint))",
        |before| before.runs,
    ),
    (
        "DELETE FROM receipts WHERE id IN (
           SELECT id FROM receipts WHERE id < $1::uuid ORDER BY id LIMIT $2::bigint)",
        |before| before.receipts,
    ),
];

impl Postgres {
    pub(super) async fn prune_step(&self, before: &PruneBefore) -> Result<Pruned> {
        let mut client = self.cool().await?;
        if let Some(dropped) = drop_a_week(&mut client, before, &self.inner.walk).await? {
            return Ok(dropped);
        }
        failpoint::pass("retention.mid_batch")?;
        let tx = client.transaction().await?;
        let mine = tx.query_one("SELECT pg_try_advisory_xact_lock($1::bigint)", &[&LOCK]).await?;
        if !get::<bool>(&mine, 0)? {
            // Another node is at it.
            return Ok(Pruned::default());
        }
        let mut pruned = thin_bodies(&tx, "bodies_rest", before.bodies, &self.inner.walk).await?;
        for (sql, cut) in SLICES {
            let removed = execute(&tx, sql, &[&floor(cut(before)), &STEP]).await?;
            pruned.rows += removed;
            pruned.more |= removed >= STEP as u64;
            failpoint::pass("retention.mid_batch")?;
        }
        let keys = prune_keys(&tx, &self.inner.walk).await?;
        pruned.rows += keys.rows;
        pruned.more |= keys.more;
        commit(tx).await?;
        Ok(pruned)
    }
}

fn floor(at: Timestamp) -> Uuid {
    uuid(Ulid::floor(at))
}

/// Drops the first week that is wholly too old, after moving what must stay to the default partition.
async fn drop_a_week(
    client: &mut Client,
    before: &PruneBefore,
    walk: &Walk,
) -> Result<Option<Pruned>> {
    let kinds = [
        ("bodies", before.bodies, Some(BODIES_NEEDED)),
        ("events", before.events, None),
        ("work_done", before.runs, None),
        ("attempts", before.runs, Some(RUNS_NEEDED)),
    ];
    for (table, cut, needed) in kinds {
        for week in older_than(client, table, Ulid::floor(cut)).await? {
            if walk.rests(&week.name) {
                continue;
            }
            let tx = client.transaction().await?;
            lock_schema(&tx).await?;
            let dropped = match drop_week(&tx, &week, needed).await? {
                Some(rows) => Pruned { rows, more: true },
                None => thin_bodies(&tx, &week.name, cut, walk).await?,
            };
            commit(tx).await?;
            return Ok(Some(Pruned { more: true, ..dropped }));
        }
    }
    Ok(None)
}

/// `None`: too much of it must stay.
async fn drop_week(
    tx: &Transaction<'_>,
    week: &Partition,
    needed: Option<&str>,
) -> Result<Option<u64>> {
    let Partition { table, name, from, to } = week;
    let row = query_opt(
        tx,
        "SELECT greatest(reltuples, 1)::bigint FROM pg_class WHERE oid = to_regclass($1::text)",
        &[name],
    )
    .await?;
    // Another node was faster.
    let Some(row) = row else { return Ok(Some(0)) };
    let rows: i64 = get(&row, 0)?;
    // Found before the table is locked, so that the lock is short.
    tx.batch_execute("CREATE TEMP TABLE kept (id uuid PRIMARY KEY) ON COMMIT DROP").await?;
    let mut kept = 0;
    if let Some(needed) = needed {
        let limit = KEPT_MAX + 1;
        let sql = format!("INSERT INTO kept SELECT * FROM ({needed}) AS n LIMIT {limit}");
        kept = tx.execute(&sql, &[&uuid(*from), &uuid(*to)]).await?;
        if kept >= limit as u64 {
            return Ok(None);
        }
    }
    let key = if *table == "attempts" { "work_id" } else { "id" };
    tx.batch_execute(&format!(
        "SET LOCAL lock_timeout = '3s';
         ALTER TABLE {table} DETACH PARTITION {name};
         INSERT INTO {table} SELECT p.* FROM {name} p JOIN kept k ON k.id = p.{key};
         DROP TABLE {name};"
    ))
    .await?;
    tracing::info!(week = name, rows, kept, "dropped a week");
    Ok(Some(rows as u64))
}

/// Removes bodies that nobody needs, a few at a time, walking past those that stay.
async fn thin_bodies(
    tx: &Transaction<'_>,
    table: &str,
    cut: Timestamp,
    walk: &Walk,
) -> Result<Pruned> {
    let sql = format!(
        "WITH look AS MATERIALIZED (
           SELECT id FROM {table} WHERE id > $1::uuid AND id < $2::uuid ORDER BY id LIMIT $3::bigint
         ), gone AS (
           DELETE FROM {table} b USING look l WHERE b.id = l.id AND NOT {BODY_IS_NEEDED} RETURNING 1
         )
         SELECT (SELECT count(*) FROM look), (SELECT id FROM look ORDER BY id DESC LIMIT 1),
                (SELECT count(*) FROM gone)"
    );
    let from = walk.at(table);
    let row = tx.query_one(&sql, &[&from, &floor(cut), &STEP]).await?;
    let (looked, last, gone): (i64, Option<Uuid>, i64) =
        (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
    Ok(Pruned { rows: gone as u64, more: walk.step(table, looked, STEP, last) })
}

/// Removes expired keys: those of callers, and those of events whose body is gone. A key never ends before
/// the body it guards.
async fn prune_keys(tx: &Transaction<'_>, walk: &Walk) -> Result<Pruned> {
    let rows = execute(
        tx,
        "DELETE FROM idempotency WHERE ctid = ANY (ARRAY(
           SELECT ctid FROM idempotency WHERE expires_at <= wakepost_now() LIMIT $1::bigint))",
        &[&STEP],
    )
    .await?;
    const TABLE: &str = "dedup_keys";
    if walk.rests(TABLE) {
        return Ok(Pruned { rows, more: false });
    }
    // What an accept holds just now is being taken over: it is left alone.
    let row = tx
        .query_one(
            "WITH look AS MATERIALIZED (
               SELECT key, event_id, expires_at FROM dedup_keys WHERE key > $1::uuid
               ORDER BY key LIMIT $2::bigint
             ), old AS MATERIALIZED (
               SELECT d.key FROM look l JOIN dedup_keys d ON d.key = l.key
               WHERE l.expires_at <= wakepost_now() AND d.expires_at <= wakepost_now()
                 AND NOT EXISTS (SELECT 1 FROM bodies b WHERE b.id = l.event_id)
               FOR UPDATE OF d SKIP LOCKED
             ), gone AS (
               DELETE FROM dedup_keys d USING old o WHERE d.key = o.key RETURNING 1
             )
             SELECT (SELECT count(*) FROM look), (SELECT key FROM look ORDER BY key DESC LIMIT 1),
                    (SELECT count(*) FROM gone)",
            &[&walk.at(TABLE), &LOOK],
        )
        .await?;
    let (looked, last, gone): (i64, Option<Uuid>, i64) =
        (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
    Ok(Pruned { rows: rows + gone as u64, more: walk.step(TABLE, looked, LOOK, last) })
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

    /// Notes a step; answers whether the walk goes on. At the end it begins anew, if it was long after a
    /// rest.
    fn step(&self, table: &str, looked: i64, wanted: i64, last: Option<Uuid>) -> bool {
        let mut tables = self.tables.lock();
        let stand = tables.entry(table.to_owned()).or_default();
        stand.looked += looked;
        stand.rests_since = None;
        match last {
            Some(last) if looked >= wanted => {
                stand.after = last;
                true
            }
            _ => {
                let long = stand.looked > LONG_WALK;
                *stand = Stand { rests_since: long.then(Instant::now), ..Stand::default() };
                false
            }
        }
    }
}
