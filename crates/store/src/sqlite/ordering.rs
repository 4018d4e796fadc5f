//! Order keys: of the items that share one, only the first can be claimed; the others stand behind it.

use rusqlite::{Connection, OptionalExtension};
use wakepost_domain::Timestamp;
use wakepost_domain::lane::LaneId;

use super::rows::Bits;
use crate::moves::OrderKey;

/// Whether a new item would stand behind another.
pub fn stands_behind(tx: &Connection, order: Option<OrderKey>) -> rusqlite::Result<bool> {
    let Some(order) = order else {
        return Ok(false);
    };
    tx.prepare_cached("SELECT 1 FROM work WHERE order_key = ?1 AND behind = 0")?
        .exists([Bits(order.0)])
}

/// The first of an order key has ended: the next may go. Answers its lane. It comes into its lane only now, so it
/// stands behind what was ready there before it.
pub fn let_next_go(
    tx: &Connection,
    now: Timestamp,
    order: OrderKey,
) -> rusqlite::Result<Option<LaneId>> {
    tx.prepare_cached(
        "UPDATE work SET behind = 0, run_at = max(run_at, ?2)
         FROM (SELECT tenant AS of, id AS item FROM work WHERE order_key = ?1 AND behind = 1
               ORDER BY place, id LIMIT 1)
         WHERE tenant = of AND id = item
         RETURNING lane",
    )?
    .query_row((Bits(order.0), now.as_millis()), |row| Ok(LaneId(row.get(0)?)))
    .optional()
}
