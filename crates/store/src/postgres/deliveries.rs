//! What the lanes of webhooks hold: listed, counted, added to, and ended before their time.

use std::collections::HashSet;

use deadpool_postgres::{Client, Transaction};
use uuid::Uuid;
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::State;
use wakepost_domain::{EventId, TenantId, WorkId};

use super::event_list::before;
use super::ordering::{let_next_go, lock_live, lock_new};
use super::rows::{WORK_DONE, WORK_LIVE, code, get, id, query, text, ulid, uuid, work};
use super::work::insert;
use super::{commit, revivals};
use crate::error::Result;
use crate::moves::{Cursor, HandedDown, NewDelivery, NewWork, WorkRow, check_end};

/// A plan made while the tables were small would read the whole of them: with these there is only the walk along a
/// lane's part of its index, in the index's order.
const ONLY_INDEXES: &str = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off";

/// The deliveries of a lane, newest first.
pub async fn list(
    client: &mut Client,
    tenant: TenantId,
    lane: LaneId,
    state: Option<State>,
    page: Cursor,
) -> Result<Vec<WorkRow>> {
    let tx = client.transaction().await?;
    tx.batch_execute(ONLY_INDEXES).await?;
    let wanted = match state {
        // Spelled out, so that the index on dead letters may be used.
        Some(State::DeadLetter) => "AND state = 8 AND $5::smallint IS NOT NULL",
        Some(_) => "AND state = $5::smallint",
        None => "AND $5::smallint IS NULL",
    };
    // A lane is one tenant's: that is asked once, not of each item, whose key would then look like the way to them.
    let of = |columns: &str, table: &str| {
        format!(
            "(SELECT {columns} FROM {table} WHERE lane = $2::bigint AND kind = 1 AND id < $3::uuid {wanted}
                AND (SELECT l.tenant FROM lanes l WHERE l.id = $2::bigint) = $1::int
              ORDER BY id DESC LIMIT $4::bigint)"
        )
    };
    let (live, done) = (of(WORK_LIVE, "work"), of(WORK_DONE, "work_done"));
    let sql = match state {
        Some(state) if state.is_terminal() => done,
        Some(_) => live,
        // One statement, so that an item that ends meanwhile is seen once.
        None => format!("{live} UNION ALL {done} ORDER BY id DESC LIMIT $4::bigint"),
    };
    let limit = i64::from(page.limit);
    let state = state.map(|state| state as i16);
    let rows = query(&tx, &sql, &[&tenant.0, &lane.0, &before(page), &limit, &state]).await?;
    rows.iter().map(work).collect()
}

/// How many deliveries of a lane stand where, of at most so many that live and so many that ended.
pub async fn counts(client: &mut Client, lane: LaneId, rows_max: u32) -> Result<Vec<(State, i64)>> {
    let tx = client.transaction().await?;
    tx.batch_execute(ONLY_INDEXES).await?;
    let rows = query(
        &tx,
        "SELECT state, count(*) FROM (
           (SELECT state FROM work WHERE lane = $1::bigint AND kind = 1
            ORDER BY id DESC LIMIT $2::bigint)
           UNION ALL
           (SELECT state FROM work_done WHERE lane = $1::bigint AND kind = 1
            ORDER BY id DESC LIMIT $2::bigint)) w
         GROUP BY state ORDER BY state",
        &[&lane.0, &i64::from(rows_max)],
    )
    .await?;
    rows.iter().map(|row| Ok((code(row, 0, State::from_code)?, get(row, 1)?))).collect()
}

/// Makes those of these deliveries that were never made.
pub async fn add(
    client: &mut Client,
    tenant: TenantId,
    items: Vec<(EventId, NewDelivery)>,
) -> Result<Vec<NewDelivery>> {
    let tx = client.transaction().await?;
    revivals::begin(&tx).await?;
    tx.batch_execute(ONLY_INDEXES).await?;
    let events = lock_events(&tx, tenant, &items).await?;
    let mut made = find_made(&tx, tenant, &items).await?;
    let (mut works, mut added) = (Vec::new(), Vec::new());
    for (event, delivery) in items {
        let published = events.iter().find(|(published, _)| *published == event);
        if let Some((_, handed_down)) = published
            && made.insert(delivery.id)
        {
            works.push(delivery.work(tenant, event, handed_down.clone()));
            added.push(delivery);
        }
    }
    let works: Vec<&NewWork> = works.iter().collect();
    lock_new(&tx, &works).await?;
    insert(&tx, &works).await?;
    commit(tx).await?;
    Ok(added)
}

/// With what they hand down. Differs from SQLite: two nodes may add the same at once, so the events stay locked: what one made, the other sees.
async fn lock_events(
    tx: &Transaction<'_>,
    tenant: TenantId,
    items: &[(EventId, NewDelivery)],
) -> Result<Vec<(EventId, HandedDown)>> {
    let mut events: Vec<Uuid> = items.iter().map(|(event, _)| uuid(event.0)).collect();
    // In their order, as wherever several are locked.
    events.sort_unstable();
    let rows = query(
        tx,
        "SELECT e.id, e.subject, e.trace FROM unnest($2::uuid[]) AS i (id)
         CROSS JOIN LATERAL (
           SELECT id, subject, trace FROM events WHERE tenant = $1::int AND id = i.id AND route = 4
           FOR UPDATE) e",
        &[&tenant.0, &events],
    )
    .await?;
    let read =
        |row| Ok((EventId(id(row, 0)?), HandedDown { subject: get(row, 1)?, trace: get(row, 2)? }));
    rows.iter().map(read).collect()
}

/// Those that live or ended. One statement: between two, one might move from the second table to the first.
async fn find_made(
    tx: &Transaction<'_>,
    tenant: TenantId,
    items: &[(EventId, NewDelivery)],
) -> Result<HashSet<WorkId>> {
    let rows = query(
        tx,
        // One by one: as a list, they may be looked for in all that the tenant has.
        "SELECT w.id FROM unnest($2::uuid[]) AS i (id)
         CROSS JOIN LATERAL (
           SELECT id FROM work WHERE tenant = $1::int AND id = i.id
           UNION ALL
           SELECT id FROM work_done WHERE tenant = $1::int AND id = i.id
           OFFSET 0) w",
        &[&tenant.0, &items.iter().map(|(_, one)| uuid(one.id.0)).collect::<Vec<_>>()],
    )
    .await?;
    rows.iter().map(|row| Ok(WorkId(id(row, 0)?))).collect()
}

/// Ends what waits in a lane.
pub async fn end_waiting(
    client: &mut Client,
    lane: LaneId,
    state: State,
    reason: &str,
    limit: u32,
) -> Result<u64> {
    check_end(state)?;
    let tx = client.transaction().await?;
    tx.batch_execute(ONLY_INDEXES).await?;
    let waiting = query(
        &tx,
        "SELECT tenant, id FROM work WHERE lane = $1::bigint AND kind = 1 AND state <> 5
         ORDER BY id LIMIT $2::bigint",
        &[&lane.0, &i64::from(limit)],
    )
    .await?;
    let waiting =
        waiting.iter().map(|row| Ok((TenantId(get(row, 0)?), WorkId(ulid(get(row, 1)?)))));
    let waiting: Vec<(TenantId, WorkId)> = waiting.collect::<Result<_>>()?;
    // The keys before the items: so does whoever ends their runs.
    let keys = lock_live(&tx, &waiting).await?;
    let ended = query(
        &tx,
        END_WAITING,
        &[
            &waiting.iter().map(|(tenant, _)| tenant.0).collect::<Vec<_>>(),
            &waiting.iter().map(|(_, id)| uuid(id.0)).collect::<Vec<_>>(),
            &lane.0,
            &(state as i16),
            &text(reason),
        ],
    )
    .await?;
    let keys: HashSet<Uuid> = keys.into_values().collect();
    if !keys.is_empty() {
        let_next_go(&tx, &keys.into_iter().collect::<Vec<_>>()).await?;
    }
    commit(tx).await?;
    Ok(ended.len() as u64)
}

/// Those that still wait, by where they are. One that was claimed since runs, and stays.
const END_WAITING: &str = "
WITH gone AS (
  DELETE FROM work WHERE ctid = ANY (ARRAY(
    SELECT w.at FROM unnest($1::int[], $2::uuid[]) AS i (tenant, id)
    CROSS JOIN LATERAL (
      SELECT ctid AS at FROM work
      WHERE tenant = i.tenant AND id = i.id AND lane = $3::bigint AND state <> 5 FOR UPDATE) w))
    AND state <> 5
  RETURNING *
)
INSERT INTO work_done (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id, scope,
                       subject, order_key, meta, last_error, worker, started_at, finished_at, callback_lane)
SELECT tenant, id, kind, lane, $4::smallint, run_at, attempts, max_attempts, fence, event_id, scope, subject,
       order_key, meta, $5::text, worker, started_at, wakepost_now(), callback_lane
FROM gone
RETURNING id";
