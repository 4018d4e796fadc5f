//! Lanes that are shut for a while: nothing of them is handed out.

use rusqlite::{Connection, OptionalExtension};
use wakepost_domain::Timestamp;
use wakepost_domain::lane::LaneId;

/// Shuts a lane until then, or opens it.
pub fn shut(tx: &Connection, lane: LaneId, until: Option<Timestamp>) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE lanes SET shut_until = ?2 WHERE id = ?1")?
        .execute((lane.0, until.map_or(0, Timestamp::as_millis)))?;
    Ok(())
}

/// Whether nothing of a lane is handed out now. One look, however many items wait in it: as a condition on the items
/// it would be asked of each of them.
pub fn is_shut(connection: &Connection, now: Timestamp, lane: LaneId) -> rusqlite::Result<bool> {
    let until: Option<i64> = connection
        .prepare_cached("SELECT shut_until FROM lanes WHERE id = ?1")?
        .query_row([lane.0], |row| row.get(0))
        .optional()?;
    Ok(until.is_some_and(|until| until > now.as_millis()))
}
