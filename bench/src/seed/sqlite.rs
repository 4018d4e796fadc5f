//! Seeding SQLite. Rows go in by their key, in steps that keep its log short.

use std::path::Path;

use rusqlite::{Connection, params};

use super::{LANE_NAME, Make, Tenants, slug};

const FILE: &str = "wakepost.db";
/// How many rows a transaction makes.
const STEP: usize = 200_000;

/// The rows of a step: ?1 and ?2 the tenants, ?3 and ?4 the numbers, ?5 the call, ?6 the time, ?7 the kind of lane. An
/// event's delivery has an id that differs from the event's in one bit.
const ITEMS: &str = "
WITH RECURSIVE n (n) AS (SELECT ?3 UNION ALL SELECT n + 1 FROM n WHERE n < ?4),
item AS (
  SELECT l.tenant, l.id AS lane, unhex(printf('%012x%04x%08x%08x', ?6, ?5, l.id, n.n)) AS id,
         unhex(printf('%012x%04x%08x%08x', ?6, ?5 | 0x8000, l.id, n.n)) AS delivery, n.n, ?6 AS now
  FROM lanes l CROSS JOIN n WHERE l.tenant BETWEEN ?1 AND ?2 AND l.kind = ?7)";

const WAITING: &str = "
INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id, scope)
SELECT tenant, id, 0, lane, 0, now, 0, 5, 0, NULL, id FROM item";

const FINISHED: &str = "
INSERT INTO work_done (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id, scope,
                       worker, started_at, finished_at)
SELECT tenant, id, 0, lane, 6, now, 1, 5, 1, NULL, id, 'bench-0', now, now FROM item";

const FINISHED_EVENTS: &str = "
INSERT INTO work_done (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id, scope,
                       worker, started_at, finished_at)
SELECT tenant, id, 0, lane, 6, now, 1, 5, 1, id, id, 'bench-0', now, now FROM item";

const EVENTS: &str = "
INSERT INTO events (tenant, id, source, type, dedup_key, route, verified, payload_hash, duplicates,
                    remote_addr, latency_us)
SELECT tenant, id, (SELECT id FROM sources LIMIT 1), 'order.paid', printf('msg_%016x', n), 0, 1,
       randomblob(32), 0, '127.0.0.1', 1000 FROM item";

const DEDUP_KEYS: &str = "
INSERT INTO dedup_keys (key, tenant, event_id, expires_at)
SELECT randomblob(16), tenant, id, now + 604800000 FROM item";

const PUBLISHED: &str = "
INSERT INTO events (tenant, id, source, type, dedup_key, route, verified, payload_hash, duplicates, latency_us)
SELECT tenant, id, zeroblob(16), 'bench.seeded', printf('ord_%016x', n), 4, 1, randomblob(32), 0, 0 FROM item";

const DELIVERED: &str = "
INSERT INTO work_done (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id, scope,
                       worker, started_at, finished_at)
SELECT tenant, delivery, 1, lane, 6, now, 1, 12, 1, id, delivery, 'bench-0', now, now FROM item";

pub fn open(data_dir: &Path) -> anyhow::Result<Connection> {
    let database = Connection::open(data_dir.join(FILE))?;
    // What is seeded need not survive anything; the server that comes later sets its own.
    database.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -262144")?;
    Ok(database)
}

pub fn tenants(database: &mut Connection, tenants: Tenants, now: i64) -> anyhow::Result<()> {
    let tx = database.transaction()?;
    for tenant in tenants.first..=tenants.last() {
        tx.prepare_cached(
            "INSERT INTO tenants (id, slug, settings, created_at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![tenant, slug(tenant), settings(tenant), now])?;
    }
    Ok(tx.commit()?)
}

/// A tenant's settings as the product writes them.
pub fn settings(tenant: i32) -> String {
    format!("{{\"name\":\"Grown {tenant}\"}}")
}

pub fn lanes(database: &mut Connection, lanes: &[([u8; 16], i32)]) -> anyhow::Result<()> {
    let tx = database.transaction()?;
    for (hash, tenant) in lanes {
        tx.prepare_cached(
            "INSERT INTO lanes (key, tenant, kind, priority, name) VALUES (?1, ?2, 0, 1, ?3)",
        )?
        .execute(params![hash, tenant, LANE_NAME])?;
    }
    Ok(tx.commit()?)
}

pub fn waiting(database: &mut Connection, make: &Make) -> anyhow::Result<()> {
    insert(database, make, &[WAITING])
}

pub fn finished(database: &mut Connection, make: &Make) -> anyhow::Result<()> {
    insert(database, make, &[FINISHED])
}

pub fn events(database: &mut Connection, make: &Make) -> anyhow::Result<()> {
    insert(database, make, &[EVENTS, DEDUP_KEYS, FINISHED_EVENTS])
}

pub fn deliveries(database: &mut Connection, make: &Make) -> anyhow::Result<()> {
    insert(database, make, &[PUBLISHED, DEDUP_KEYS, DELIVERED])
}

fn insert(database: &mut Connection, make: &Make, statements: &[&str]) -> anyhow::Result<()> {
    let tenants_a_step = (STEP / make.each.max(1)).max(1);
    let tenants = make.tenants;
    for first in (tenants.first..=tenants.last()).step_by(tenants_a_step) {
        let last = tenants.last().min(first + i32::try_from(tenants_a_step)? - 1);
        for from in (0..make.each).step_by(STEP) {
            let to = make.each.min(from + STEP) - 1;
            let tx = database.transaction()?;
            for statement in statements {
                tx.prepare_cached(&format!("{ITEMS}{statement}"))?.execute(params![
                    first,
                    last,
                    i64::try_from(from)?,
                    i64::try_from(to)?,
                    make.call,
                    make.now,
                    make.kind as i16
                ])?;
            }
            tx.commit()?;
        }
    }
    Ok(())
}

/// Moves the log into the database, on the disk.
pub fn close(database: Connection) -> anyhow::Result<()> {
    database.execute_batch("PRAGMA synchronous = FULL")?;
    let busy: i64 = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    anyhow::ensure!(busy == 0, "the log could not be moved: someone still has the database open");
    Ok(())
}
