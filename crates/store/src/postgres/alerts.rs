//! Alerts.

use async_trait::async_trait;
use tokio_postgres::Row;
use wakepost_domain::alert::{AlertKind, Severity};
use wakepost_domain::{AlertId, SourceId, TenantId, Timestamp, Ulid};

use super::Postgres;
use super::event_list::before;
use super::rows::{Params, RECEIPT, code, execute, get, id, opt_time, query, receipt, text, uuid};
use crate::error::Result;
use crate::moves::{Alert, Alerts, Cursor, ReceiptRow, Streak, Untold};

#[async_trait]
impl Alerts for Postgres {
    async fn fire_alert(&self, alert: Alert) -> Result<bool> {
        let client = self.cool().await?;
        let made = execute(
            &client,
            "INSERT INTO alerts (id, tenant, kind, subject, severity, title, detail, value,
                                 threshold, untold)
             VALUES ($1::uuid, $2::int, $3::smallint, $4::text, $5::smallint, $6::text, $7::text,
                     $8::double precision, $9::double precision, $10::smallint)
             ON CONFLICT (tenant, kind, subject) WHERE resolved_at IS NULL DO NOTHING",
            &[
                &uuid(alert.id.0),
                &alert.tenant.0,
                &(alert.kind as i16),
                &text(&alert.subject),
                &(alert.severity as i16),
                &text(&alert.title),
                &text(&alert.detail),
                &alert.value,
                &alert.threshold,
                &alert.untold.code(),
            ],
        )
        .await?;
        Ok(made == 1)
    }

    async fn change_alert(&self, alert: Alert) -> Result<bool> {
        let client = self.cool().await?;
        let changed = execute(
            &client,
            "UPDATE alerts SET severity = $3::smallint, title = $4::text, detail = $5::text,
                    value = $6::double precision, threshold = $7::double precision,
                    good_since = $8::bigint, resolved_at = $9::bigint,
                    untold = untold | $10::smallint, version = version + 1
             WHERE id = $1::uuid AND version = $2::bigint AND resolved_at IS NULL",
            &[
                &uuid(alert.id.0),
                &alert.version,
                &(alert.severity as i16),
                &text(&alert.title),
                &text(&alert.detail),
                &alert.value,
                &alert.threshold,
                &alert.good_since.map(Timestamp::as_millis),
                &alert.resolved_at.map(Timestamp::as_millis),
                &alert.untold.code(),
            ],
        )
        .await?;
        Ok(changed == 1)
    }

    async fn alert_told(&self, id: AlertId, told: Untold) -> Result<()> {
        let client = self.cool().await?;
        let sql = "UPDATE alerts SET untold = untold & ~$2::smallint WHERE id = $1::uuid";
        execute(&client, sql, &[&uuid(id.0), &told.code()]).await?;
        Ok(())
    }

    async fn untold_alerts(&self, after: Option<AlertId>, limit: u32) -> Result<Vec<Alert>> {
        let after = uuid(after.map_or(Ulid::MIN, |after| after.0));
        let which = "untold <> 0 AND id > $1::uuid ORDER BY id LIMIT $2::bigint";
        self.list(which, &[&after, &i64::from(limit)]).await
    }

    async fn firing_alerts(&self, tenant: Option<TenantId>, limit: u32) -> Result<Vec<Alert>> {
        let which = "($1::int IS NULL OR tenant = $1::int) AND resolved_at IS NULL
                     ORDER BY id DESC LIMIT $2::bigint";
        self.list(which, &[&tenant.map(|tenant| tenant.0), &i64::from(limit)]).await
    }

    async fn alerts(
        &self,
        tenant: TenantId,
        firing: Option<bool>,
        page: Cursor,
    ) -> Result<Vec<Alert>> {
        let which = "tenant = $1::int AND id < $2::uuid
                     AND ($3::boolean IS NULL OR (resolved_at IS NULL) = $3::boolean)
                     ORDER BY id DESC LIMIT $4::bigint";
        self.list(which, &[&tenant.0, &before(page), &firing, &i64::from(page.limit)]).await
    }

    async fn note_streaks(&self, mut streaks: Vec<Streak>) -> Result<()> {
        // In one order, so that two nodes at once never wait for each other.
        streaks.sort_by_key(|streak| (streak.tenant, streak.source));
        let client = self.cool().await?;
        // A source that never failed has no row, and gets none.
        let over = "UPDATE streaks s SET failures = 0 FROM told t
                    WHERE s.tenant = t.tenant AND s.source = t.source AND s.failures > 0";
        let anew = "INSERT INTO streaks (tenant, source, failures) SELECT * FROM told ORDER BY 1, 2
                    ON CONFLICT (tenant, source) DO UPDATE SET failures = excluded.failures";
        let more = "INSERT INTO streaks AS s (tenant, source, failures) SELECT * FROM told ORDER BY 1, 2
                    ON CONFLICT (tenant, source) DO UPDATE SET failures = s.failures + excluded.failures";
        for (sql, of) in [(over, (true, false)), (anew, (true, true)), (more, (false, true))] {
            let told: Vec<&Streak> = streaks
                .iter()
                .filter(|streak| (streak.broken, streak.failures > 0) == of)
                .collect();
            if told.is_empty() {
                continue;
            }
            let tenants: Vec<i32> = told.iter().map(|streak| streak.tenant.0).collect();
            let sources: Vec<_> = told.iter().map(|streak| uuid(streak.source.0)).collect();
            let failures: Vec<i64> = told.iter().map(|streak| streak.failures.into()).collect();
            let sql = format!(
                "WITH told AS (SELECT * FROM unnest($1::int[], $2::uuid[], $3::bigint[])
                                 AS t (tenant, source, failures)) {sql}"
            );
            execute(&client, &sql, &[&tenants, &sources, &failures]).await?;
        }
        Ok(())
    }

    async fn streaks(&self, tenant: TenantId, least: u32) -> Result<Vec<(SourceId, u32)>> {
        let client = self.cool().await?;
        let sql = "SELECT source, failures FROM streaks
                   WHERE tenant = $1::int AND failures >= $2::bigint ORDER BY source";
        let rows = query(&client, sql, &[&tenant.0, &i64::from(least)]).await?;
        let of = |row: &Row| {
            let failures = u32::try_from(get::<i64>(row, 1)?).unwrap_or(u32::MAX);
            Ok((SourceId(id(row, 0)?), failures))
        };
        rows.iter().map(of).collect()
    }

    async fn dead_letter_errors(
        &self,
        tenant: TenantId,
        look: u32,
        limit: u32,
    ) -> Result<Vec<(String, u64)>> {
        let client = self.cool().await?;
        let rows = query(
            &client,
            "SELECT error, count(*) FROM (
               SELECT coalesce(last_error, '') AS error FROM work_done
               WHERE tenant = $1::int AND state = 8 AND replayed_as IS NULL AND purged_by IS NULL
               ORDER BY id DESC LIMIT $2::bigint) d
             GROUP BY error ORDER BY count(*) DESC, error COLLATE \"C\" LIMIT $3::bigint",
            &[&tenant.0, &i64::from(look), &i64::from(limit)],
        )
        .await?;
        rows.iter().map(|row| Ok((get(row, 0)?, get::<i64>(row, 1)?.unsigned_abs()))).collect()
    }

    async fn duplicates_since(
        &self,
        tenant: TenantId,
        since: Timestamp,
        limit: u32,
    ) -> Result<Vec<ReceiptRow>> {
        let client = self.cool().await?;
        let sql = format!(
            "SELECT {RECEIPT} FROM receipts
             WHERE id >= $2::uuid AND tenant = $1::int AND event_id IS NOT NULL
             ORDER BY id DESC LIMIT $3::bigint"
        );
        let params: Params<'_> = &[&tenant.0, &uuid(Ulid::floor(since)), &i64::from(limit)];
        query(&client, &sql, params).await?.iter().map(receipt).collect()
    }
}

impl Postgres {
    async fn list(&self, which: &str, params: Params<'_>) -> Result<Vec<Alert>> {
        let client = self.cool().await?;
        let sql = format!("SELECT {ALERT} FROM alerts WHERE {which}");
        query(&client, &sql, params).await?.iter().map(alert).collect()
    }
}

const ALERT: &str = "id, tenant, kind, subject, severity, title, detail, value, threshold, good_since, \
     resolved_at, untold, version";

fn alert(row: &Row) -> Result<Alert> {
    Ok(Alert {
        id: AlertId(id(row, 0)?),
        tenant: TenantId(get(row, 1)?),
        kind: code(row, 2, AlertKind::from_code)?,
        subject: get(row, 3)?,
        severity: code(row, 4, Severity::from_code)?,
        title: get(row, 5)?,
        detail: get(row, 6)?,
        value: get(row, 7)?,
        threshold: get(row, 8)?,
        good_since: opt_time(row, 9)?,
        resolved_at: opt_time(row, 10)?,
        untold: Untold::from_code(get(row, 11)?),
        version: get(row, 12)?,
    })
}
