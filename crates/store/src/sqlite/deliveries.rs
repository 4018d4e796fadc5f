//! Deliveries of a webhook's lane: listed, counted, ended, and made for events of the past.

use rusqlite::{Connection, OptionalExtension};
use wakepost_domain::event::Route;
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::State;
use wakepost_domain::{EventId, TenantId, Timestamp, WorkId};

use super::read::{Query, before};
use super::rows::{Bits, WORK_DONE, WORK_LIVE, collect, known, unavailable, work};
use super::settle::finish;
use super::work::{find, insert};
use crate::error::Result;
use crate::moves::{Cursor, HandedDown, NewDelivery, WorkRow};

/// The deliveries of a lane, live and finished, newest first.
pub fn list(
    connection: &Connection,
    tenant: TenantId,
    lane: LaneId,
    state: Option<State>,
    page: Cursor,
) -> Result<Vec<WorkRow>> {
    let live = state.is_none_or(|state| !state.is_terminal());
    let done = state.is_none_or(State::is_terminal);
    let mut found = Vec::new();
    if live {
        found.extend(query(WORK_LIVE, "work", tenant, lane, state, page).run(connection, work)?);
    }
    if done {
        let query = query(WORK_DONE, "work_done", tenant, lane, state, page);
        found.extend(query.run(connection, work)?);
    }
    found.sort_by_key(|row| std::cmp::Reverse(row.id));
    found.truncate(page.limit as usize);
    Ok(found)
}

fn query(
    columns: &str,
    table: &str,
    tenant: TenantId,
    lane: LaneId,
    state: Option<State>,
    page: Cursor,
) -> Query {
    // Named, since without statistics the walk along all of the tenant's work looks as good.
    let index = format!("{table}_deliveries");
    let mut query = Query::new(format!("SELECT {columns} FROM {table} INDEXED BY {index} WHERE"));
    let range = vec![Box::new(lane.0) as _, Box::new(before(page)) as _, Box::new(tenant.0) as _];
    query.add(" kind = 1 AND lane = ? AND id < ? AND tenant = ?", range);
    if let Some(state) = state {
        query.add(" AND state = ?", vec![Box::new(state as i16)]);
    }
    query.add(" ORDER BY id DESC LIMIT ?", vec![Box::new(page.limit)]);
    query
}

/// How many deliveries of a lane stand where, of at most so many that live and so many that ended.
pub fn count(connection: &Connection, lane: LaneId, rows_max: u32) -> Result<Vec<(State, i64)>> {
    let mut select = connection
        .prepare_cached(
            "SELECT state, count(*) FROM (
               SELECT state FROM work INDEXED BY work_deliveries
               WHERE kind = 1 AND lane = ?1 ORDER BY id DESC LIMIT ?2) GROUP BY state
             UNION ALL
             SELECT state, count(*) FROM (
               SELECT state FROM work_done INDEXED BY work_done_deliveries
               WHERE kind = 1 AND lane = ?1 ORDER BY id DESC LIMIT ?2) GROUP BY state
             ORDER BY state",
        )
        .map_err(unavailable)?;
    let rows = select
        .query_map((lane.0, rows_max), |row| {
            Ok((known(row.get(0)?, State::from_code)?, row.get(1)?))
        })
        .map_err(unavailable)?;
    collect(rows)
}

/// Ends what waits in a lane, the oldest ids; answers how many there were.
pub fn end_waiting(
    tx: &Connection,
    now: Timestamp,
    lane: LaneId,
    state: State,
    reason: &str,
    limit: u32,
) -> Result<u64> {
    let mut waiting = oldest_waiting(tx, lane, limit)?;
    // The first of its order key comes last: what it lets go is then none of the others.
    waiting.sort_by_key(|(_, id, behind)| (!behind, *id));
    for (tenant, id, _) in &waiting {
        finish(tx, now, *tenant, *id, state, Some(reason)).map_err(unavailable)?;
    }
    Ok(waiting.len() as u64)
}

/// Which they are, and whether each stands behind another.
fn oldest_waiting(
    tx: &Connection,
    lane: LaneId,
    limit: u32,
) -> Result<Vec<(TenantId, WorkId, bool)>> {
    let mut select = tx
        .prepare_cached(
            "SELECT tenant, id, behind FROM work INDEXED BY work_deliveries
             WHERE kind = 1 AND lane = ?1 AND state <> 5 ORDER BY id LIMIT ?2",
        )
        .map_err(unavailable)?;
    let rows = select
        .query_map((lane.0, limit), |row| {
            let id = WorkId::from_bytes(row.get::<_, Bits>(1)?.0);
            Ok((TenantId(row.get(0)?), id, row.get(2)?))
        })
        .map_err(unavailable)?;
    collect(rows)
}

/// Makes those of these deliveries that were never made.
pub fn add(
    tx: &Connection,
    now: Timestamp,
    tenant: TenantId,
    items: &[(EventId, NewDelivery)],
) -> Result<Vec<NewDelivery>> {
    let mut made = Vec::new();
    for (event, delivery) in items {
        let Some(handed_down) = published(tx, tenant, *event).map_err(unavailable)? else {
            continue;
        };
        if find(tx, tenant, delivery.id)?.is_none() {
            insert(tx, now, &delivery.work(tenant, *event, handed_down))?;
            made.push(delivery.clone());
        }
    }
    Ok(made)
}

/// What a published event hands down, if it is there.
fn published(
    tx: &Connection,
    tenant: TenantId,
    event: EventId,
) -> rusqlite::Result<Option<HandedDown>> {
    tx.prepare_cached(
        "SELECT subject, trace FROM events WHERE tenant = ?1 AND id = ?2 AND route = ?3",
    )?
    .query_row((tenant.0, Bits(event.to_bytes()), Route::Published as i16), |row| {
        Ok(HandedDown { subject: row.get(0)?, trace: row.get(1)? })
    })
    .optional()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use rusqlite::params_from_iter;

    use super::super::{Durability, migrate, writer};
    use super::*;
    use crate::moves::Page;

    #[test]
    fn a_list_walks_along_its_lane() {
        let memory = Path::new(":memory:");
        let mut connection = writer::connect(memory, Durability::Full, &Arc::default()).unwrap();
        migrate::migrate(&mut connection).unwrap();
        let page = Page { before: None, limit: 50 };
        for (columns, table) in [(WORK_LIVE, "work"), (WORK_DONE, "work_done")] {
            let query =
                query(columns, table, TenantId::DEFAULT, LaneId(1), Some(State::Running), page);
            let sql = format!("EXPLAIN QUERY PLAN {}", query.sql);
            let mut explain = connection.prepare(&sql).unwrap();
            let steps = explain.query_map(params_from_iter(&query.values), |row| row.get(3));
            let steps: Vec<String> = steps.unwrap().collect::<rusqlite::Result<_>>().unwrap();
            let plan = steps.join("\n");
            let index = format!("INDEX {table}_deliveries (lane=? AND id<?)");
            assert!(plan.contains(&index), "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
