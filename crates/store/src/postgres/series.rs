//! Figures over time.

use std::time::Duration;

use async_trait::async_trait;
use wakepost_domain::TenantId;
use wakepost_domain::figures::{Figures, Sample};

use super::Postgres;
use super::claim::millis;
use super::rows::{execute, get, query};
use super::settings_rows::json;
use crate::error::Result;
use crate::moves::{InMinute, Series, Standing, summed};

#[async_trait]
impl Series for Postgres {
    async fn keep_figures(&self, node: i64, figures: Vec<InMinute<Figures>>) -> Result<()> {
        let client = self.cool().await?;
        let tenants: Vec<i32> = figures.iter().map(|row| row.tenant.0).collect();
        let minutes: Vec<i64> = figures.iter().map(|row| row.minute).collect();
        let counted: Vec<Vec<u8>> = figures.iter().map(|row| row.what.to_bytes()).collect();
        execute(
            &client,
            "INSERT INTO figures (tenant, minute, node, counted)
             SELECT t.tenant, t.minute, $1::bigint, t.counted
             FROM unnest($2::int[], $3::bigint[], $4::bytea[]) AS t (tenant, minute, counted)
             ON CONFLICT (tenant, minute, node) DO UPDATE SET counted = excluded.counted",
            &[&node, &tenants, &minutes, &counted],
        )
        .await?;
        Ok(())
    }

    async fn keep_samples(&self, samples: Vec<InMinute<Sample>>) -> Result<()> {
        let client = self.cool().await?;
        let tenants: Vec<i32> = samples.iter().map(|row| row.tenant.0).collect();
        let minutes: Vec<i64> = samples.iter().map(|row| row.minute).collect();
        let text = |row: &InMinute<Sample>| {
            serde_json::to_string(&row.what).expect("a sample is plain data")
        };
        let samples: Vec<String> = samples.iter().map(text).collect();
        // In one order, so that two nodes at once never wait for each other.
        execute(
            &client,
            "INSERT INTO samples (tenant, minute, sample)
             SELECT t.tenant, t.minute, t.sample
             FROM unnest($1::int[], $2::bigint[], $3::text[]) AS t (tenant, minute, sample)
             ORDER BY 1, 2
             ON CONFLICT (tenant, minute) DO UPDATE SET sample = excluded.sample",
            &[&tenants, &minutes, &samples],
        )
        .await?;
        Ok(())
    }

    async fn figures(
        &self,
        tenant: TenantId,
        from: i64,
        until: i64,
    ) -> Result<Vec<(i64, Figures)>> {
        let client = self.cool().await?;
        let sql = "SELECT minute, counted FROM figures
                   WHERE tenant = $1::int AND minute >= $2::bigint AND minute < $3::bigint ORDER BY minute";
        let rows = query(&client, sql, &[&tenant.0, &from, &until]).await?;
        let read = rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?)));
        summed(read.collect::<Result<Vec<_>>>()?)
    }

    async fn samples(&self, tenant: TenantId, from: i64, until: i64) -> Result<Vec<(i64, Sample)>> {
        let client = self.cool().await?;
        let sql = "SELECT minute, sample FROM samples
                   WHERE tenant = $1::int AND minute >= $2::bigint AND minute < $3::bigint ORDER BY minute";
        let rows = query(&client, sql, &[&tenant.0, &from, &until]).await?;
        rows.iter().map(|row| Ok((get(row, 0)?, json(row, 1)?))).collect()
    }

    async fn latest_samples(&self, since: i64) -> Result<Vec<Sample>> {
        let client = self.cool().await?;
        let sql = "SELECT sample FROM samples
                   WHERE minute = (SELECT max(minute) FROM samples WHERE minute >= $1::bigint)";
        query(&client, sql, &[&since]).await?.iter().map(|row| json(row, 0)).collect()
    }

    async fn busy_tenants(
        &self,
        since: i64,
        after: Option<TenantId>,
        limit: u32,
    ) -> Result<Vec<TenantId>> {
        let client = self.cool().await?;
        // One step along an index a tenant, however much it has.
        let rows = query(
            &client,
            "WITH RECURSIVE live AS (
               (SELECT tenant FROM work WHERE tenant > $3::int ORDER BY tenant LIMIT 1)
               UNION ALL
               SELECT (SELECT w.tenant FROM work w WHERE w.tenant > live.tenant
                       ORDER BY w.tenant LIMIT 1)
               FROM live WHERE live.tenant IS NOT NULL
             ), dead AS (
               (SELECT tenant FROM work_done
                WHERE tenant > $3::int AND state = 8 AND replayed_as IS NULL AND purged_by IS NULL
                ORDER BY tenant LIMIT 1)
               UNION ALL
               SELECT (SELECT d.tenant FROM work_done d WHERE d.tenant > dead.tenant AND d.state = 8
                         AND d.replayed_as IS NULL AND d.purged_by IS NULL
                       ORDER BY d.tenant LIMIT 1)
               FROM dead WHERE dead.tenant IS NOT NULL
             )
             SELECT tenant FROM live WHERE tenant IS NOT NULL
             UNION SELECT tenant FROM dead WHERE tenant IS NOT NULL
             UNION SELECT tenant FROM figures WHERE minute >= $1::bigint AND tenant > greatest($3::int, 0)
             ORDER BY 1 LIMIT $2::bigint",
            &[&since, &i64::from(limit), &after.map_or(i32::MIN, |after| after.0)],
        )
        .await?;
        rows.iter().map(|row| Ok(TenantId(get(row, 0)?))).collect()
    }

    async fn standing(&self, tenant: TenantId, dead_max: u32) -> Result<Standing> {
        let client = self.cool().await?;
        let rows = query(
            &client,
            "SELECT (SELECT count(*) FROM (
                       SELECT 1 FROM work_done WHERE tenant = $1::int AND state = 8
                         AND replayed_as IS NULL AND purged_by IS NULL LIMIT $2::bigint) d),
                    (SELECT count(*) FROM webhooks WHERE tenant = $1::int
                       AND coalesce(circuit::json ->> 'state', 'closed') <> 'closed')",
            &[&tenant.0, &i64::from(dead_max)],
        )
        .await?;
        let Some(row) = rows.first() else { return Ok(Standing::default()) };
        Ok(Standing {
            dead_letters: get::<i64>(row, 0)?.unsigned_abs(),
            open_circuits: get::<i64>(row, 1)?.unsigned_abs(),
        })
    }

    async fn take_turn(&self, what: &'static str, hold: Duration) -> Result<bool> {
        let client = self.cool().await?;
        let taken = execute(
            &client,
            "INSERT INTO turns AS t (what, free_at) VALUES ($1::text, wakepost_now() + $2::bigint)
             ON CONFLICT (what) DO UPDATE SET free_at = excluded.free_at
             WHERE t.free_at <= wakepost_now()",
            &[&what, &millis(hold)],
        )
        .await?;
        Ok(taken == 1)
    }
}
