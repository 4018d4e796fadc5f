//! Order keys: of the items that share one, only the first can be claimed; the others stand behind it.
//!
//! Differs from SQLite: two nodes may add to a key, and end its first item, at once. Whoever does either
//! holds the key's lock, taken by a statement of its own, so that the next statement sees what the one
//! before it left.

use std::collections::HashMap;

use deadpool_postgres::Transaction;
use uuid::Uuid;
use wakepost_domain::lane::LaneId;
use wakepost_domain::{TenantId, WorkId};

use super::rows::{execute, get, query, uuid};
use crate::error::Result;
use crate::moves::{NewWork, OrderKey};

/// Locks the keys of new items until the transaction ends.
pub async fn lock_new(tx: &Transaction<'_>, items: &[&NewWork]) -> Result<()> {
    let keys: Vec<Uuid> = items.iter().filter_map(|item| item.order).map(key_uuid).collect();
    lock_keys(tx, &keys).await
}

/// Locks keys until the transaction ends, in one order for all.
pub async fn lock_keys(tx: &Transaction<'_>, keys: &[Uuid]) -> Result<()> {
    if !keys.is_empty() {
        execute(
            tx,
            "SELECT pg_advisory_xact_lock(k.lock)
             FROM (SELECT DISTINCT hashtextextended(key::text, 0) AS lock
                   FROM unnest($1::uuid[]) AS o (key) ORDER BY 1) k",
            &[&keys],
        )
        .await?;
    }
    Ok(())
}

/// Locks the keys of live items until the transaction ends, before any of the items is locked. Answers
/// which items have which.
pub async fn lock_live(
    tx: &Transaction<'_>,
    items: &[(TenantId, WorkId)],
) -> Result<HashMap<Uuid, Uuid>> {
    lock_live_and_new(tx, items, &[]).await
}

/// As [`lock_live`], and with them the keys of new items: two rounds of locks could deadlock.
pub async fn lock_live_and_new(
    tx: &Transaction<'_>,
    items: &[(TenantId, WorkId)],
    new: &[&NewWork],
) -> Result<HashMap<Uuid, Uuid>> {
    let new: Vec<Uuid> = new.iter().filter_map(|item| item.order).map(key_uuid).collect();
    lock_live_and(tx, items, new).await
}

/// As [`lock_live`], and with them further keys.
pub async fn lock_live_and(
    tx: &Transaction<'_>,
    items: &[(TenantId, WorkId)],
    keys: Vec<Uuid>,
) -> Result<HashMap<Uuid, Uuid>> {
    let rows = query(
        tx,
        "SELECT k.id, k.order_key, pg_advisory_xact_lock(k.lock)::text
         FROM (SELECT w.id, w.order_key, hashtextextended(w.order_key::text, 0) AS lock
               FROM unnest($1::int[], $2::uuid[]) AS i (tenant, id)
               CROSS JOIN LATERAL (
                 SELECT id, order_key FROM work
                 WHERE tenant = i.tenant AND id = i.id AND order_key IS NOT NULL LIMIT 1) w
               UNION ALL
               SELECT NULL, o.key, hashtextextended(o.key::text, 0) FROM unnest($3::uuid[]) AS o (key)
               ORDER BY 3) k",
        &[
            &items.iter().map(|(tenant, _)| tenant.0).collect::<Vec<_>>(),
            &items.iter().map(|(_, id)| uuid(id.0)).collect::<Vec<_>>(),
            &keys,
        ],
    )
    .await?;
    let mut keys = HashMap::new();
    for row in &rows {
        if let Some(item) = get::<Option<Uuid>>(row, 0)? {
            keys.insert(item, get(row, 1)?);
        }
    }
    Ok(keys)
}

/// Of each of these keys that has no first item any more, the next may go. Answers its lane. The keys are
/// locked, so the item stays; the conflict is how it is found again, as in a heartbeat. It comes into its lane only
/// now: there, nothing may enter with a time long past.
pub async fn let_next_go(tx: &Transaction<'_>, keys: &[Uuid]) -> Result<HashMap<Uuid, LaneId>> {
    let rows = query(
        tx,
        "INSERT INTO work AS w (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, scope)
         SELECT n.* FROM (SELECT DISTINCT key FROM unnest($1::uuid[]) AS o (key)) o
         CROSS JOIN LATERAL (
           SELECT tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, scope FROM work
           WHERE order_key = o.key AND behind
             AND NOT EXISTS (SELECT 1 FROM work f WHERE f.order_key = o.key AND NOT f.behind)
           ORDER BY place, id LIMIT 1 FOR UPDATE OF work) n
         ON CONFLICT (tenant, id) DO UPDATE
         SET behind = false, run_at = greatest(w.run_at, wakepost_now())
         RETURNING w.order_key, w.lane",
        &[&keys],
    )
    .await?;
    rows.iter().map(|row| Ok((get(row, 0)?, LaneId(get(row, 1)?)))).collect()
}

/// A key as a column.
pub fn key_uuid(key: OrderKey) -> Uuid {
    Uuid::from_bytes(key.0)
}
