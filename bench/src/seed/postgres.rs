//! Seeding PostgreSQL: one statement for each table.

use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use super::sqlite::settings;
use super::{LANE_NAME, Make, Tenants, slug};
use crate::world::postgres::connect;

/// The rows: $1 and $2 the tenants, $3 how many in each lane, $4 the call, $5 the time, $6 the kind of lane. An event's
/// delivery has an id that differs from the event's in one bit.
const ITEMS: &str = "
WITH item AS (
  SELECT l.tenant, l.id AS lane, n, $5::bigint AS now,
         (lpad(to_hex($5::bigint), 12, '0') || lpad(to_hex($4::int), 4, '0')
          || lpad(to_hex(l.id), 8, '0') || lpad(to_hex(n), 8, '0'))::uuid AS id,
         (lpad(to_hex($5::bigint), 12, '0') || lpad(to_hex($4::int | 32768), 4, '0')
          || lpad(to_hex(l.id), 8, '0') || lpad(to_hex(n), 8, '0'))::uuid AS delivery
  FROM generate_series(1, $3::bigint) n CROSS JOIN lanes l
  WHERE l.tenant BETWEEN $1::int AND $2::int AND l.kind = $6::smallint)";

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
SELECT tenant, id, (SELECT id FROM sources LIMIT 1), 'order.paid', 'msg_' || lpad(to_hex(n), 16, '0'), 0,
       true, sha256(id::text::bytea), 0, '127.0.0.1', 1000 FROM item";

const DEDUP_KEYS: &str = "
INSERT INTO dedup_keys (key, tenant, event_id, expires_at)
SELECT gen_random_uuid(), tenant, id, now + 604800000 FROM item";

const PUBLISHED: &str = "
INSERT INTO events (tenant, id, source, type, dedup_key, route, verified, payload_hash, duplicates, latency_us)
SELECT tenant, id, '00000000-0000-0000-0000-000000000000'::uuid, 'bench.seeded', 'ord_' || lpad(to_hex(n), 16, '0'), 4,
       true, sha256(id::text::bytea), 0, 0 FROM item";

const DELIVERED: &str = "
INSERT INTO work_done (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id, scope,
                       worker, started_at, finished_at)
SELECT tenant, delivery, 1, lane, 6, now, 1, 12, 1, id, delivery, 'bench-0', now, now FROM item";

pub async fn open(url: &str) -> anyhow::Result<Client> {
    let database = connect(&url.parse()?).await?;
    database.batch_execute("SET synchronous_commit = off").await?;
    Ok(database)
}

pub async fn tenants(database: &Client, tenants: Tenants, now: i64) -> anyhow::Result<()> {
    let ids: Vec<i32> = (tenants.first..=tenants.last()).collect();
    let slugs: Vec<String> = ids.iter().map(|id| slug(*id)).collect();
    let settings: Vec<String> = ids.iter().map(|id| settings(*id)).collect();
    database
        .execute(
            "INSERT INTO tenants (id, slug, settings, created_at)
             SELECT id, slug, settings, $4::bigint
             FROM unnest($1::int[], $2::text[], $3::text[]) AS t (id, slug, settings)",
            &[&ids, &slugs, &settings, &now],
        )
        .await?;
    Ok(())
}

pub async fn lanes(database: &Client, lanes: &[([u8; 16], i32)]) -> anyhow::Result<()> {
    let hashes: Vec<&[u8]> = lanes.iter().map(|(hash, _)| &hash[..]).collect();
    let tenants: Vec<i32> = lanes.iter().map(|(_, tenant)| *tenant).collect();
    database
        .execute(
            "INSERT INTO lanes (key, tenant, kind, priority, name)
             SELECT key, tenant, 0, 1, $3::text FROM unnest($1::bytea[], $2::int[]) AS l (key, tenant)",
            &[&hashes, &tenants, &LANE_NAME],
        )
        .await?;
    Ok(())
}

pub async fn waiting(database: &Client, make: &Make) -> anyhow::Result<()> {
    insert(database, make, &[WAITING]).await
}

pub async fn finished(database: &Client, make: &Make) -> anyhow::Result<()> {
    insert(database, make, &[FINISHED]).await
}

pub async fn events(database: &Client, make: &Make) -> anyhow::Result<()> {
    insert(database, make, &[EVENTS, DEDUP_KEYS, FINISHED_EVENTS]).await
}

pub async fn deliveries(database: &Client, make: &Make) -> anyhow::Result<()> {
    insert(database, make, &[PUBLISHED, DEDUP_KEYS, DELIVERED]).await
}

async fn insert(database: &Client, make: &Make, statements: &[&str]) -> anyhow::Result<()> {
    let Make { tenants, each, kind, now, call } = make;
    let (each, kind) = (i64::try_from(*each)?, *kind as i16);
    for statement in statements {
        let statement = format!("{ITEMS}{statement}");
        let values: [&(dyn ToSql + Sync); 6] =
            [&tenants.first, &tenants.last(), &each, call, now, &kind];
        database.execute(&statement, &values).await?;
    }
    Ok(())
}

/// What autovacuum would have done long ago, and a checkpoint, lest they fall into a measured window.
pub async fn close(database: &Client) -> anyhow::Result<()> {
    for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
        database.batch_execute(statement).await?;
    }
    Ok(())
}
