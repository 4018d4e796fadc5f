//! Coalescing: a newer item takes the place of older ones that wait.

use rusqlite::Connection;
use wakepost_domain::Timestamp;
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::State;

use super::rows::{Bits, WORK_LIVE, collect, meta_text, unavailable, work};
use super::settle::finish;
use crate::error::Result;
use crate::moves::{CoalesceKey, NewWork, WorkMeta, WorkRow};

/// Gives up the items of this key that nobody has. Answers the lane of an item that stood behind one of them.
pub fn supersede(
    tx: &Connection,
    now: Timestamp,
    key: Option<CoalesceKey>,
    by: &NewWork,
) -> Result<Option<LaneId>> {
    let Some(key) = key else {
        return Ok(None);
    };
    let mut next = None;
    for row in of_key(tx, key)? {
        let meta = WorkMeta { superseded_by: Some(by.id.text(by.kind)), ..row.meta };
        let id = Bits(row.id.to_bytes());
        tx.prepare_cached("UPDATE work SET meta = ?3 WHERE tenant = ?1 AND id = ?2")
            .and_then(|mut update| update.execute((row.tenant.0, id, meta_text(&meta))))
            .map_err(unavailable)?;
        if !row.state.is_claimable() {
            continue;
        }
        let freed = finish(tx, now, row.tenant, row.id, State::Cancelled, None);
        next = freed.map_err(unavailable)?.or(next);
    }
    Ok(next)
}

/// The first of its order key comes last: what it lets go is then none of the others.
fn of_key(tx: &Connection, key: CoalesceKey) -> Result<Vec<WorkRow>> {
    let mut select = tx
        .prepare_cached(&format!(
            "SELECT {WORK_LIVE} FROM work WHERE coalesce_key = ?1 ORDER BY behind DESC, id"
        ))
        .map_err(unavailable)?;
    collect(select.query_map([Bits(key.0)], work).map_err(unavailable)?)
}
