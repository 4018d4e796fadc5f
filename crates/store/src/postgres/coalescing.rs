//! Coalescing: a newer item takes the place of older ones that wait.

use deadpool_postgres::Transaction;
use uuid::Uuid;
use wakepost_domain::lane::LaneId;

use super::ordering::key_uuid;
use super::rows::{WORK_LIVE, execute, meta_text, query, uuid, work};
use super::work::cancel;
use crate::error::Result;
use crate::moves::{CoalesceKey, NewWork, WorkMeta, WorkRow};

/// Gives up the items of this key that nobody has. Answers the lane of an item that stood behind one of them. The
/// caller holds the lock of the order key, which is the same for all of them.
pub async fn supersede(
    tx: &Transaction<'_>,
    key: Option<CoalesceKey>,
    by: &NewWork,
) -> Result<Option<LaneId>> {
    let Some(key) = key else {
        return Ok(None);
    };
    let order: Vec<Uuid> = by.order.map(key_uuid).into_iter().collect();
    let mut next = None;
    for row in waiting(tx, key).await? {
        let meta = WorkMeta { superseded_by: Some(by.id.text(by.kind)), ..row.meta.clone() };
        execute(
            tx,
            "UPDATE work SET meta = $3::text WHERE tenant = $1::int AND id = $2::uuid",
            &[&row.tenant.0, &uuid(row.id.0), &meta_text(&meta)],
        )
        .await?;
        next = cancel(tx, &row, &order).await?.next_in_order().or(next);
    }
    Ok(next)
}

/// The first of its order key comes last: what it lets go is then none of the others. Differs from SQLite: a claim
/// may take one at the same time, so they are locked, and what was claimed meanwhile is not among them.
async fn waiting(tx: &Transaction<'_>, key: CoalesceKey) -> Result<Vec<WorkRow>> {
    let sql = format!(
        "SELECT {WORK_LIVE} FROM work WHERE coalesce_key = $1::uuid AND state <= 2
         ORDER BY behind DESC, id FOR UPDATE"
    );
    query(tx, &sql, &[&Uuid::from_bytes(key.0)]).await?.iter().map(work).collect()
}
