//! Retention: removes old history in small steps.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use wakepost_domain::{Timestamp, Ulid, budget, figures};

use super::rows::{Bits, unavailable};
use crate::error::Result;
use crate::failpoint;
use crate::moves::{PruneBefore, Pruned};

/// How many rows one step removes, in each table.
const STEP: i64 = 500;
/// How many keys one step looks at.
const WALK_STEP: i64 = 5000;

/// What goes when it is older than a moment: how to find it (`?1` is the first id to keep, `?2` how many, `?3` the
/// moment, for what was made long before it ended), and how to remove it by its primary key. Found first and removed one by one, since SQLite searches by the
/// first column alone where two are compared with a list.
struct Slice {
    find: &'static str,
    remove: &'static str,
    cut: fn(&PruneBefore) -> Timestamp,
}

/// Of an event, or of a body by the event's id: live work or a dead letter that may be replayed needs it.
macro_rules! needed {
    ($e:literal) => {
        concat!(
            "(EXISTS (SELECT 1 FROM work w WHERE w.tenant = ", $e, ".tenant AND w.id = ", $e, ".id)
          OR EXISTS (SELECT 1 FROM work w WHERE w.event_id = ", $e, ".id AND w.event_id <> w.id)
          OR EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = ", $e, ".tenant AND d.id = ", $e, ".id
                     AND d.state = 8 AND d.replayed_as IS NULL AND d.purged_by IS NULL)
          OR EXISTS (SELECT 1 FROM work_done d WHERE d.event_id = ", $e, ".id
                     AND d.event_id <> d.id AND d.state = 8 AND d.replayed_as IS NULL AND d.purged_by IS NULL)
          OR EXISTS (SELECT 1 FROM joined j JOIN work w ON w.tenant = j.tenant AND w.id = j.work_id
                     WHERE j.event_id = ", $e, ".id)
          OR EXISTS (SELECT 1 FROM joined j JOIN work_done d ON d.tenant = j.tenant AND d.id = j.work_id
                     WHERE j.event_id = ", $e, ".id
                     AND d.state = 8 AND d.replayed_as IS NULL AND d.purged_by IS NULL))"
        )
    };
}

pub(super) use needed;

/// Of a dedup key: the body it guards is there, its event's own or one that its event shares.
macro_rules! guards {
    ($k:literal) => {
        concat!(
            "(EXISTS (SELECT 1 FROM bodies b WHERE b.id = ",
            $k,
            ".event_id)
          OR EXISTS (SELECT 1 FROM events e JOIN bodies b ON b.id = e.body_id
                     WHERE e.tenant = ",
            $k,
            ".tenant AND e.id = ",
            $k,
            ".event_id))"
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

/// Events of live work and of kept dead letters stay, with their bodies; effects stay as long as any item that shares them, so
/// that no replay can repeat one.
const SLICES: [Slice; 12] = [
    Slice {
        find: concat!(
            "SELECT e.id FROM bodies e WHERE e.id < ?1 AND NOT ",
            needed!("e"),
            " AND NOT EXISTS (SELECT 1 FROM events p WHERE p.body_id = e.id AND ",
            needed!("p"),
            ") ORDER BY e.id LIMIT ?2"
        ),
        remove: "DELETE FROM bodies WHERE id = ?1",
        cut: |before| before.bodies,
    },
    Slice {
        find: concat!(
            "SELECT e.tenant, e.id FROM tenants t CROSS JOIN events e
             WHERE e.tenant = t.id AND e.id < ?1 AND NOT ",
            needed!("e"),
            " LIMIT ?2"
        ),
        remove: "DELETE FROM events WHERE tenant = ?1 AND id = ?2",
        cut: |before| before.events,
    },
    Slice {
        find: "SELECT d.tenant, d.id FROM tenants t CROSS JOIN work_done d
               WHERE d.tenant = t.id AND d.id < ?1 AND d.finished_at < ?3 AND d.state <> 8 LIMIT ?2",
        remove: "DELETE FROM work_done WHERE tenant = ?1 AND id = ?2",
        cut: |before| before.runs,
    },
    Slice {
        find: "SELECT d.tenant, d.id FROM tenants t CROSS JOIN work_done d
               WHERE d.tenant = t.id AND d.id < ?1 AND d.finished_at < ?3 AND d.state = 8 LIMIT ?2",
        remove: "DELETE FROM work_done WHERE tenant = ?1 AND id = ?2",
        cut: |before| before.dead_letters,
    },
    Slice {
        find: "SELECT a.work_id, a.fence FROM attempts a WHERE a.work_id < ?1
                 AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = a.tenant AND w.id = a.work_id)
                 AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = a.tenant AND d.id = a.work_id)
               LIMIT ?2",
        remove: "DELETE FROM attempts WHERE work_id = ?1 AND fence = ?2",
        cut: PruneBefore::of_work,
    },
    Slice {
        find: "SELECT s.work_id FROM job_state s WHERE s.work_id < ?1
                 AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = s.tenant AND w.id = s.work_id)
                 AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = s.tenant AND d.id = s.work_id)
               LIMIT ?2",
        remove: "DELETE FROM job_state WHERE work_id = ?1",
        cut: PruneBefore::of_work,
    },
    Slice {
        find: "SELECT c.work_id, c.fence FROM costs c WHERE c.work_id < ?1
                 AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = c.tenant AND w.id = c.work_id)
                 AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = c.tenant AND d.id = c.work_id)
               LIMIT ?2",
        remove: "DELETE FROM costs WHERE work_id = ?1 AND fence = ?2",
        cut: PruneBefore::of_work,
    },
    Slice {
        find: "SELECT j.work_id, j.place FROM joined j WHERE j.work_id < ?1
                 AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = j.tenant AND w.id = j.work_id)
                 AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = j.tenant AND d.id = j.work_id)
               LIMIT ?2",
        remove: "DELETE FROM joined WHERE work_id = ?1 AND place = ?2",
        cut: PruneBefore::of_work,
    },
    Slice {
        find: "SELECT p.work_id, p.seq FROM progress p WHERE p.work_id < ?1
                 AND NOT EXISTS (SELECT 1 FROM work w WHERE w.tenant = p.tenant AND w.id = p.work_id)
                 AND NOT EXISTS (SELECT 1 FROM work_done d WHERE d.tenant = p.tenant AND d.id = p.work_id)
               LIMIT ?2",
        remove: "DELETE FROM progress WHERE work_id = ?1 AND seq = ?2",
        cut: PruneBefore::of_work,
    },
    Slice {
        find: concat!(
            "SELECT e.scope, e.key FROM effects e WHERE e.scope < ?1 AND ",
            unshared_effect!(),
            " LIMIT ?2"
        ),
        remove: "DELETE FROM effects WHERE scope = ?1 AND key = ?2",
        cut: PruneBefore::of_work,
    },
    Slice {
        find: "SELECT id FROM receipts WHERE id < ?1 ORDER BY id LIMIT ?2",
        remove: "DELETE FROM receipts WHERE id = ?1",
        cut: |before| before.receipts,
    },
    Slice {
        find: "SELECT id FROM alerts WHERE id < ?1 AND resolved_at IS NOT NULL ORDER BY id LIMIT ?2",
        remove: "DELETE FROM alerts WHERE id = ?1",
        cut: |before| before.events,
    },
];

/// What is kept by minute. Found by the minute, and removed by the primary key.
const MINUTES: [&str; 2] = [
    "DELETE FROM figures WHERE (tenant, minute, node) IN
       (SELECT tenant, minute, node FROM figures WHERE minute < ?1 ORDER BY minute LIMIT ?2)",
    "DELETE FROM samples WHERE (tenant, minute) IN
       (SELECT tenant, minute FROM samples WHERE minute < ?1 ORDER BY minute LIMIT ?2)",
];

/// One step of retention.
pub fn prune(
    tx: &Connection,
    now: Timestamp,
    before: &PruneBefore,
    walk: &mut Walk,
) -> Result<Pruned> {
    let mut pruned = Pruned::default();
    for slice in &SLICES {
        let found = find(tx, slice.find, (slice.cut)(before)).map_err(unavailable)?;
        for key in &found {
            tx.prepare_cached(slice.remove)
                .and_then(|mut remove| remove.execute(params_from_iter(key)))
                .map_err(unavailable)?;
        }
        pruned.rows += found.len() as u64;
        pruned.more |= found.len() as i64 >= STEP;
        failpoint::pass("retention.mid_batch")?;
    }
    let days = tx
        .prepare_cached(
            "DELETE FROM budgets WHERE (source, day) IN
               (SELECT source, day FROM budgets WHERE day < ?1 LIMIT ?2)",
        )
        .and_then(|mut remove| remove.execute((budget::day(before.runs), STEP)))
        .map_err(unavailable)?;
    pruned.rows += days as u64;
    pruned.more |= days as i64 >= STEP;
    for sql in MINUTES {
        let minute = figures::minute(before.figures);
        let removed = tx
            .prepare_cached(sql)
            .and_then(|mut remove| remove.execute((minute, STEP)))
            .map_err(unavailable)?;
        pruned.rows += removed as u64;
        pruned.more |= removed as i64 >= STEP;
    }
    for (place, table, guard) in [
        (&mut walk.idempotency, "idempotency", ""),
        (&mut walk.threads, "threads", ""),
        (&mut walk.sequences, "sequences", ""),
        (&mut walk.dedup, "dedup_keys", concat!("AND NOT ", guards!("k"))),
    ] {
        let removed = walk_keys(tx, now, table, guard, place).map_err(unavailable)?;
        pruned.rows += removed;
        pruned.more |= removed > 0;
    }
    Ok(pruned)
}

fn find(tx: &Connection, sql: &str, cut: Timestamp) -> rusqlite::Result<Vec<Vec<Value>>> {
    let mut select = tx.prepare_cached(sql)?;
    let columns = select.column_count();
    select.raw_bind_parameter(1, Bits(Ulid::floor(cut).to_bytes()))?;
    select.raw_bind_parameter(2, STEP)?;
    if select.parameter_count() == 3 {
        select.raw_bind_parameter(3, cut.as_millis())?;
    }
    select.raw_query().mapped(|row| (0..columns).map(|column| row.get(column)).collect()).collect()
}

/// Where the walks through the tables of keys stand. A restart begins anew, which costs nothing.
#[derive(Debug, Default)]
pub struct Walk {
    dedup: Vec<u8>,
    idempotency: Vec<u8>,
    threads: Vec<u8>,
    sequences: Vec<u8>,
}

/// Looks at the next keys in order and removes those whose time is over, except a dedup key whose body is
/// still there: it never ends before the body it guards. No index on the expiry is needed for this.
fn walk_keys(
    tx: &Connection,
    now: Timestamp,
    table: &str,
    guard: &str,
    place: &mut Vec<u8>,
) -> rusqlite::Result<u64> {
    let end: Option<Vec<u8>> = tx
        .prepare_cached(&format!(
            "SELECT max(key) FROM (SELECT key FROM {table} WHERE key > ?1 ORDER BY key LIMIT ?2)"
        ))?
        .query_row((&*place, WALK_STEP), |row| row.get(0))?;
    let Some(end) = end else {
        let at_start = place.is_empty();
        place.clear();
        // Past the last key: begin anew.
        return if at_start { Ok(0) } else { walk_keys(tx, now, table, guard, place) };
    };
    let removed = tx
        .prepare_cached(&format!(
            "DELETE FROM {table} AS k WHERE key > ?1 AND key <= ?2 AND expires_at <= ?3 {guard}"
        ))?
        .execute((&*place, &end, now.as_millis()))?;
    *place = end;
    Ok(removed as u64)
}
