//! How the queue of a tenant stands.

use async_trait::async_trait;
use tokio_postgres::Row;
use wakepost_domain::TenantId;
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::State;

use super::Postgres;
use super::rows::{code, get, id, opt_time, query, time};
use crate::error::Result;
use crate::moves::{LiveCount, LiveCounts, Stats};

#[async_trait]
impl Stats for Postgres {
    async fn live_work(&self, tenant: TenantId, limit: u32) -> Result<LiveCounts> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        // Differs from SQLite: a plan made while the queue was short would sort all of a tenant's items to find its
        // oldest, of a million in half a second. With these there is only the walk along the key.
        tx.batch_execute("SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = off")
            .await?;
        let now = time(&tx.query_one("SELECT wakepost_now()", &[]).await?, 0)?;
        // One walk along a tenant's items, from the oldest on, that ends at the limit.
        let rows = query(
            &tx,
            "SELECT lane, state, ready, worker, count(*), (array_agg(id ORDER BY id))[1], max(started_at)
             FROM (SELECT lane, state, id, started_at,
                          state <= 2 AND NOT behind AND run_at <= $3::bigint AND lane <> ALL (ARRAY(
                            SELECT l.id FROM lanes l WHERE l.tenant = $1::int AND l.shut_until > $3::bigint))
                            AS ready,
                          CASE WHEN state = 5 THEN worker END AS worker
                   FROM work WHERE tenant = $1::int ORDER BY id LIMIT $2::bigint) w
             GROUP BY lane, state, ready, worker",
            &[&tenant.0, &i64::from(limit), &now.as_millis()],
        )
        .await?;
        let lanes = rows.iter().map(lane).collect::<Result<Vec<_>>>()?;
        Ok(LiveCounts::new(now, lanes, limit))
    }
}

fn lane(row: &Row) -> Result<LiveCount> {
    Ok(LiveCount {
        lane: LaneId(get(row, 0)?),
        state: code(row, 1, State::from_code)?,
        ready: get(row, 2)?,
        worker: get(row, 3)?,
        count: get(row, 4)?,
        oldest: id(row, 5)?.time(),
        started_at: opt_time(row, 6)?,
    })
}
