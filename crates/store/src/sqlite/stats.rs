//! How the queue of a tenant stands.

use async_trait::async_trait;
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::State;
use wakepost_domain::{TenantId, Ulid};

use super::Sqlite;
use super::rows::{Bits, collect, known, time, unavailable};
use crate::error::Result;
use crate::moves::{LiveCount, LiveCounts, Stats};

#[async_trait]
impl Stats for Sqlite {
    async fn live_work(&self, tenant: TenantId, limit: u32) -> Result<LiveCounts> {
        self.readers
            .read(move |connection, now| {
                // One walk along a tenant's items, from the oldest on, that ends at the limit.
                let mut select = connection
                    .prepare_cached(
                        "SELECT lane, state, ready, worker, count(*), min(id), max(started_at)
                         FROM (SELECT lane, state, id, started_at,
                                      state <= 2 AND behind = 0 AND run_at <= ?3 AND lane NOT IN
                                        (SELECT id FROM lanes WHERE tenant = ?1 AND shut_until > ?3)
                                        AS ready,
                                      CASE WHEN state = 5 THEN worker END AS worker
                               FROM work WHERE tenant = ?1 ORDER BY id LIMIT ?2)
                         GROUP BY lane, state, ready, worker",
                    )
                    .map_err(unavailable)?;
                let rows = select
                    .query_map((tenant.0, limit, now.as_millis()), |row| {
                        Ok(LiveCount {
                            lane: LaneId(row.get(0)?),
                            state: known(row.get(1)?, State::from_code)?,
                            ready: row.get(2)?,
                            worker: row.get(3)?,
                            count: row.get(4)?,
                            oldest: Ulid::from_bytes(row.get::<_, Bits>(5)?.0).time(),
                            started_at: row.get::<_, Option<i64>>(6)?.map(time),
                        })
                    })
                    .map_err(unavailable)?;
                Ok(LiveCounts::new(now, collect(rows)?, limit))
            })
            .await
    }
}
