//! Work is made of old events, by replays and backfills, while retention removes what no work needs.
//!
//! Differs from SQLite, where one writer does both. Here retention would judge by what it sees, which is not what is being
//! made just then, and what it removes is locked by nobody: neither a body nor the events of a job's thread. So the two
//! exclude each other, and what is judged after a wait is judged anew.

use deadpool_postgres::Transaction;

use crate::error::Result;

/// What both hold: an arbitrary number, the same in all nodes.
const LOCK: i64 = 0x72657669_76650000;

/// Until the transaction ends, no event and no body is removed. Comes before all other locks, so that whoever waits here
/// keeps nobody waiting.
pub async fn begin(tx: &Transaction<'_>) -> Result<()> {
    tx.execute("SELECT pg_advisory_xact_lock_shared($1::bigint)", &[&LOCK]).await?;
    Ok(())
}

/// Waits until no work is being made of old events; none is until the transaction ends. It waits for less long than those
/// do who come after it, so that it cannot make them fail.
pub async fn wait_for(tx: &Transaction<'_>) -> Result<()> {
    tx.batch_execute("SET LOCAL lock_timeout = '2s'").await?;
    tx.execute("SELECT pg_advisory_xact_lock($1::bigint)", &[&LOCK]).await?;
    Ok(())
}
