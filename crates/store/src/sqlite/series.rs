//! Figures over time.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension};
use wakepost_domain::TenantId;
use wakepost_domain::figures::{Figures, Sample};

use super::Sqlite;
use super::rows::{collect, json, unavailable};
use crate::error::Result;
use crate::moves::{InMinute, Series, Standing, summed};

#[async_trait]
impl Series for Sqlite {
    async fn keep_figures(&self, node: i64, figures: Vec<InMinute<Figures>>) -> Result<()> {
        self.write_whole(figures.len() * 64, move |tx, _| {
            for row in &figures {
                tx.prepare_cached(
                    "INSERT INTO figures (tenant, minute, node, counted) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (tenant, minute, node) DO UPDATE SET counted = excluded.counted",
                )
                .and_then(|mut put| {
                    put.execute((row.tenant.0, row.minute, node, row.what.to_bytes()))
                })
                .map_err(unavailable)?;
            }
            Ok(())
        })
        .await
    }

    async fn keep_samples(&self, samples: Vec<InMinute<Sample>>) -> Result<()> {
        self.write_whole(samples.len() * 200, move |tx, _| {
            for row in &samples {
                let sample = serde_json::to_string(&row.what).expect("a sample is plain data");
                tx.prepare_cached(
                    "INSERT INTO samples (tenant, minute, sample) VALUES (?1, ?2, ?3)
                     ON CONFLICT (tenant, minute) DO UPDATE SET sample = excluded.sample",
                )
                .and_then(|mut put| put.execute((row.tenant.0, row.minute, sample)))
                .map_err(unavailable)?;
            }
            Ok(())
        })
        .await
    }

    async fn figures(
        &self,
        tenant: TenantId,
        from: i64,
        until: i64,
    ) -> Result<Vec<(i64, Figures)>> {
        let rows = self
            .readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT minute, counted FROM figures
                         WHERE tenant = ?1 AND minute >= ?2 AND minute < ?3 ORDER BY minute",
                    )
                    .map_err(unavailable)?;
                let rows = select.query_map((tenant.0, from, until), |row| {
                    Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
                });
                collect(rows.map_err(unavailable)?)
            })
            .await?;
        summed(rows)
    }

    async fn samples(&self, tenant: TenantId, from: i64, until: i64) -> Result<Vec<(i64, Sample)>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT minute, sample FROM samples
                         WHERE tenant = ?1 AND minute >= ?2 AND minute < ?3 ORDER BY minute",
                    )
                    .map_err(unavailable)?;
                let rows = select
                    .query_map((tenant.0, from, until), |row| Ok((row.get(0)?, json(row, 1)?)));
                collect(rows.map_err(unavailable)?)
            })
            .await
    }

    async fn latest_samples(&self, since: i64) -> Result<Vec<Sample>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT sample FROM samples
                         WHERE minute = (SELECT max(minute) FROM samples WHERE minute >= ?1)",
                    )
                    .map_err(unavailable)?;
                collect(select.query_map([since], |row| json(row, 0)).map_err(unavailable)?)
            })
            .await
    }

    async fn busy_tenants(
        &self,
        since: i64,
        after: Option<TenantId>,
        limit: u32,
    ) -> Result<Vec<TenantId>> {
        let after = after.map_or(i32::MIN, |after| after.0);
        self.readers
            .read(move |connection, _| {
                let mut tenants = BTreeSet::new();
                for walk in WALKS {
                    step_along(connection, walk, after, limit, &mut tenants).map_err(unavailable)?;
                }
                let mut lately = connection
                    .prepare_cached(
                        "SELECT DISTINCT tenant FROM figures WHERE minute >= ?1 AND tenant > max(?3, 0)
                         ORDER BY tenant LIMIT ?2",
                    )
                    .map_err(unavailable)?;
                let rows = lately.query_map((since, limit, after), |row| row.get::<_, i32>(0));
                tenants.extend(collect(rows.map_err(unavailable)?)?);
                Ok(tenants.into_iter().take(limit as usize).map(TenantId).collect())
            })
            .await
    }

    async fn standing(&self, tenant: TenantId, dead_max: u32) -> Result<Standing> {
        self.readers
            .read(move |connection, _| {
                connection
                    .prepare_cached(
                        "SELECT (SELECT count(*) FROM (
                                   SELECT 1 FROM work_done WHERE tenant = ?1 AND state = 8
                                     AND replayed_as IS NULL AND purged_by IS NULL LIMIT ?2)),
                                (SELECT count(*) FROM webhooks WHERE tenant = ?1
                                   AND coalesce(json_extract(circuit, '$.state'), 'closed') <> 'closed')",
                    )
                    .and_then(|mut select| {
                        select.query_row((tenant.0, dead_max), |row| {
                            Ok(Standing {
                                dead_letters: row.get::<_, i64>(0)?.unsigned_abs(),
                                open_circuits: row.get::<_, i64>(1)?.unsigned_abs(),
                            })
                        })
                    })
                    .map_err(unavailable)
            })
            .await
    }

    async fn take_turn(&self, what: &'static str, hold: Duration) -> Result<bool> {
        self.write_whole(0, move |tx, now| {
            let taken = tx
                .prepare_cached(
                    "INSERT INTO turns (what, free_at) VALUES (?1, ?2)
                     ON CONFLICT (what) DO UPDATE SET free_at = excluded.free_at WHERE free_at <= ?3",
                )
                .and_then(|mut take| {
                    take.execute((what, now.after(hold).as_millis(), now.as_millis()))
                })
                .map_err(unavailable)?;
            Ok(taken == 1)
        })
        .await
    }
}

/// The next tenant after one that has something: one step along an index a tenant, however much it has.
const WALKS: [&str; 2] = [
    "SELECT tenant FROM work WHERE tenant > ?1 ORDER BY tenant LIMIT 1",
    "SELECT tenant FROM work_done INDEXED BY work_done_open WHERE tenant > ?1 AND state = 8
       AND replayed_as IS NULL AND purged_by IS NULL ORDER BY tenant LIMIT 1",
];

fn step_along(
    connection: &Connection,
    walk: &str,
    after: i32,
    limit: u32,
    tenants: &mut BTreeSet<i32>,
) -> rusqlite::Result<()> {
    let mut step = connection.prepare_cached(walk)?;
    let mut last = after;
    for _ in 0..limit {
        let Some(next) = step.query_row([last], |row| row.get(0)).optional()? else { break };
        last = next;
        tenants.insert(next);
    }
    Ok(())
}
