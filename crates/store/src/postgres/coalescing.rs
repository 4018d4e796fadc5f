//! Coalescing: a newer item takes the place of older ones that wait.

use deadpool_postgres::Transaction;
use uuid::Uuid;
use wakepost_domain::lane::LaneId;

use super::ordering::key_uuid;
use super::rows::{WORK_LIVE, execute, get, meta_text, query, uuid, work};
use super::work::cancel;
use crate::error::Result;
use crate::moves::{CoalesceKey, NewWork, WorkMeta, WorkRow};

/// Gives up the items of this key that nobody has, and notes on the others that there is no need to run them again.
/// Answers the lane of an item that stood behind one of them. The
/// caller holds the locks of their order keys.
pub async fn supersede(
    tx: &Transaction<'_>,
    key: Option<CoalesceKey>,
    by: &NewWork,
) -> Result<Option<LaneId>> {
    let Some(key) = key else {
        return Ok(None);
    };
    let mut next = None;
    for row in of_key(tx, key).await? {
        let meta = WorkMeta { superseded_by: Some(by.id.text(by.kind)), ..row.meta.clone() };
        execute(
            tx,
            "UPDATE work SET meta = $3::text WHERE tenant = $1::int AND id = $2::uuid",
            &[&row.tenant.0, &uuid(row.id.0), &meta_text(&meta)],
        )
        .await?;
        if !row.state.is_claimable() {
            continue;
        }
        // Its own order key: without one of the source's, the two may be of different threads.
        let order: Vec<Uuid> = row.order.map(key_uuid).into_iter().collect();
        next = cancel(tx, &row, &order, None).await?.next_in_order().or(next);
    }
    Ok(next)
}

/// The order keys of items that may be superseded. The caller holds the locks of the keys they coalesce by, so that
/// none comes in meanwhile.
pub async fn orders_of_waiting(tx: &Transaction<'_>, keys: &[Uuid]) -> Result<Vec<Uuid>> {
    let sql = "SELECT DISTINCT order_key FROM work
               WHERE coalesce_key = ANY($1::uuid[]) AND order_key IS NOT NULL";
    query(tx, sql, &[&keys]).await?.iter().map(|row| get(row, 0)).collect()
}

/// The first of its order key comes last: what it lets go is then none of the others. Differs from SQLite: a claim
/// may take one at the same time, so they are locked, and what was claimed meanwhile is seen as running.
async fn of_key(tx: &Transaction<'_>, key: CoalesceKey) -> Result<Vec<WorkRow>> {
    let sql = format!(
        "SELECT {WORK_LIVE} FROM work WHERE coalesce_key = $1::uuid
         ORDER BY behind DESC, id FOR UPDATE"
    );
    query(tx, &sql, &[&Uuid::from_bytes(key.0)]).await?.iter().map(work).collect()
}
