//! Retention of tenants that keep less than the server: one walk after the other, in small steps.
//!
//! What may go is looked for beside the writer, which nobody has to wait for, and is looked at again where it is removed.

use std::collections::HashMap;

use rusqlite::Connection;
use wakepost_domain::{TenantId, Timestamp, Ulid};

use super::Sqlite;
use super::prune::{needed, unshared_effect};
use super::rows::{Bits, unavailable};
use crate::error::Result;
use crate::failpoint;
use crate::moves::{Found, OWN_LOOK, OWN_STEP, OwnWalk, Walked};

/// A walk along a tenant's rows: each with what lies beside it, and whether it may go. `?1` is the tenant, `?2` the last row
/// before, `?3` the first id to keep, `?4` how many, and `?5` the moment, for what was made long before it ended.
const BODIES: &str = concat!(
    "SELECT e.id, coalesce(e.body_id, e.id),
            EXISTS (SELECT 1 FROM bodies b WHERE b.id = coalesce(e.body_id, e.id)) AND NOT ",
    needed!("e"),
    " FROM events e WHERE e.tenant = ?1 AND e.id > ?2 AND e.id < ?3 ORDER BY e.id LIMIT ?4"
);
const EVENTS: &str = concat!(
    "SELECT e.id, coalesce(e.body_id, e.id), NOT ",
    needed!("e"),
    " FROM events e WHERE e.tenant = ?1 AND e.id > ?2 AND e.id < ?3 ORDER BY e.id LIMIT ?4"
);
const RUNS: &str = "SELECT d.id, d.scope, d.finished_at < ?5 FROM work_done d
     WHERE d.tenant = ?1 AND d.id > ?2 AND d.id < ?3 AND d.state <> 8 ORDER BY d.id LIMIT ?4";
/// By their own index, whatever the planner thinks: among much that succeeded they are few.
const DEAD_LETTERS: &str = "SELECT d.id, d.scope, d.finished_at < ?5
     FROM work_done d INDEXED BY work_done_dead
     WHERE d.tenant = ?1 AND d.id > ?2 AND d.id < ?3 AND d.state = 8 ORDER BY d.id LIMIT ?4";

const REMOVE_BODY: &str = concat!(
    "DELETE FROM bodies AS e WHERE e.tenant = ?1 AND e.id = ?2 AND NOT ",
    needed!("e"),
    " AND NOT EXISTS (SELECT 1 FROM events p WHERE p.body_id = e.id AND ",
    needed!("p"),
    ")"
);
const REMOVE_EVENT: &str =
    concat!("DELETE FROM events AS e WHERE e.tenant = ?1 AND e.id = ?2 AND NOT ", needed!("e"));

/// What an item leaves behind goes with its row. Effects go with the last item that shares them.
const REMOVE_WORK: [&str; 6] = [
    "DELETE FROM work_done WHERE tenant = ?1 AND id = ?2",
    "DELETE FROM attempts WHERE tenant = ?1 AND work_id = ?2",
    "DELETE FROM job_state WHERE tenant = ?1 AND work_id = ?2",
    "DELETE FROM costs WHERE tenant = ?1 AND work_id = ?2",
    "DELETE FROM joined WHERE tenant = ?1 AND work_id = ?2",
    "DELETE FROM progress WHERE tenant = ?1 AND work_id = ?2",
];
const REMOVE_EFFECTS: &str = concat!(
    "DELETE FROM effects AS e WHERE e.tenant = ?1 AND e.scope = ?2 AND ",
    unshared_effect!()
);

impl Sqlite {
    pub(super) async fn prune_own_step(&self, walk: OwnWalk, after: Ulid) -> Result<Walked> {
        let look = walk.clone();
        let found = self.readers.read_known(move |beside, _| find(beside, &look, after)).await?;
        let next = found.next().map(|id| Ulid::from_bytes(id.0));
        let alerts = matches!(walk, OwnWalk::Events(..)) && after == Ulid::MIN;
        if found.ids.is_empty() && !alerts {
            return Ok(Walked { rows: 0, next });
        }
        let rows = self
            .write_whole(0, move |tx, _| {
                let mut rows = remove(tx, &walk, &found).map_err(unavailable)?;
                if let OwnWalk::Events(tenant, before) = walk
                    && alerts
                {
                    rows += remove_alerts(tx, tenant, before).map_err(unavailable)?;
                }
                failpoint::pass("retention.mid_batch")?;
                Ok(rows)
            })
            .await?;
        Ok(Walked { rows: rows as u64, next })
    }
}

fn floor(at: Timestamp) -> Bits {
    Bits(Ulid::floor(at).to_bytes())
}

fn find(beside: &Connection, walk: &OwnWalk, after: Ulid) -> Result<Found<Bits>> {
    let after = Bits(after.to_bytes());
    let (sql, tenant, before) = match walk {
        OwnWalk::Bodies(tenant, before) => (BODIES, tenant, before),
        OwnWalk::Events(tenant, before) => (EVENTS, tenant, before),
        OwnWalk::Runs(tenant, before) => (RUNS, tenant, before),
        OwnWalk::DeadLetters(tenant, before) => (DEAD_LETTERS, tenant, before),
        OwnWalk::Receipts(before) => return find_receipts(beside, before, after),
    };
    let mut found = Found::default();
    let mut look = || {
        let mut select = beside.prepare_cached(sql)?;
        select.raw_bind_parameter(1, tenant.0)?;
        select.raw_bind_parameter(2, after)?;
        select.raw_bind_parameter(3, floor(*before))?;
        select.raw_bind_parameter(4, OWN_LOOK as i64)?;
        if select.parameter_count() == 5 {
            select.raw_bind_parameter(5, before.as_millis())?;
        }
        let mut rows = select.raw_query();
        while found.ids.len() < OWN_STEP
            && let Some(row) = rows.next()?
        {
            found.see(row.get(0)?, row.get(1)?, row.get(2)?);
        }
        Ok(())
    };
    look().map_err(unavailable)?;
    Ok(found)
}

fn find_receipts(
    beside: &Connection,
    before: &[(TenantId, Timestamp)],
    after: Bits,
) -> Result<Found<Bits>> {
    let cuts: HashMap<i32, [u8; 16]> =
        before.iter().map(|(tenant, before)| (tenant.0, floor(*before).0)).collect();
    let Some(last) = cuts.values().max() else { return Ok(Found::default()) };
    let mut found = Found::default();
    let mut look = || {
        let mut select = beside.prepare_cached(
            "SELECT id, tenant FROM receipts WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3",
        )?;
        let mut rows = select.query((after, Bits(*last), OWN_LOOK as i64))?;
        while found.ids.len() < OWN_STEP
            && let Some(row) = rows.next()?
        {
            let (id, tenant): (Bits, i32) = (row.get(0)?, row.get(1)?);
            found.see(id, id, cuts.get(&tenant).is_some_and(|cut| id.0 < *cut));
        }
        Ok(())
    };
    look().map_err(unavailable)?;
    Ok(found)
}

fn remove(tx: &Connection, walk: &OwnWalk, found: &Found<Bits>) -> rusqlite::Result<usize> {
    let each = |sql: &str, tenant: TenantId, ids: &[Bits]| {
        let mut delete = tx.prepare_cached(sql)?;
        ids.iter().map(|id| delete.execute((tenant.0, id))).sum()
    };
    match walk {
        OwnWalk::Bodies(tenant, _) => each(REMOVE_BODY, *tenant, &found.beside),
        OwnWalk::Events(tenant, _) => {
            Ok(each(REMOVE_BODY, *tenant, &found.beside)?
                + each(REMOVE_EVENT, *tenant, &found.ids)?)
        }
        OwnWalk::Runs(tenant, _) | OwnWalk::DeadLetters(tenant, _) => {
            let mut rows = 0;
            for sql in REMOVE_WORK {
                rows += each(sql, *tenant, &found.ids)?;
            }
            Ok(rows + each(REMOVE_EFFECTS, *tenant, &found.beside)?)
        }
        OwnWalk::Receipts(_) => {
            let mut delete = tx.prepare_cached("DELETE FROM receipts WHERE id = ?1")?;
            found.ids.iter().map(|id| delete.execute([id])).sum()
        }
    }
}

/// Alerts that are over are as old as events may be.
fn remove_alerts(tx: &Connection, tenant: TenantId, before: Timestamp) -> rusqlite::Result<usize> {
    tx.prepare_cached(
        "DELETE FROM alerts WHERE id IN (
           SELECT id FROM alerts WHERE tenant = ?1 AND id < ?2 AND resolved_at IS NOT NULL
           ORDER BY id LIMIT ?3)",
    )?
    .execute((tenant.0, floor(before), OWN_STEP as i64))
}
