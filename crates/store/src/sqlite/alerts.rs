//! Alerts.

use async_trait::async_trait;
use rusqlite::{Connection, Row, ToSql};
use wakepost_domain::alert::{AlertKind, Severity};
use wakepost_domain::{AlertId, SourceId, TenantId, Timestamp, Ulid};

use super::Sqlite;
use super::read::before;
use super::rows::{Bits, RECEIPT, collect, known, receipt, time, unavailable};
use crate::error::Result;
use crate::moves::{Alert, Alerts, Cursor, ReceiptRow, Streak, Untold};

#[async_trait]
impl Alerts for Sqlite {
    async fn fire_alert(&self, alert: Alert) -> Result<bool> {
        self.write_whole(alert.detail.len(), move |tx, _| {
            let made = tx
                .prepare_cached(
                    "INSERT INTO alerts (id, tenant, kind, subject, severity, title, detail, value,
                                         threshold, untold)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                     ON CONFLICT (tenant, kind, subject) WHERE resolved_at IS NULL DO NOTHING",
                )
                .and_then(|mut put| {
                    put.execute((
                        Bits(alert.id.to_bytes()),
                        alert.tenant.0,
                        alert.kind as i16,
                        &alert.subject,
                        alert.severity as i16,
                        &alert.title,
                        &alert.detail,
                        alert.value,
                        alert.threshold,
                        alert.untold.code(),
                    ))
                })
                .map_err(unavailable)?;
            Ok(made == 1)
        })
        .await
    }

    async fn change_alert(&self, alert: Alert) -> Result<bool> {
        self.write_whole(alert.detail.len(), move |tx, _| {
            let changed = tx
                .prepare_cached(
                    "UPDATE alerts SET severity = ?3, title = ?4, detail = ?5, value = ?6, threshold = ?7,
                            good_since = ?8, resolved_at = ?9, untold = untold | ?10,
                            version = version + 1
                     WHERE id = ?1 AND version = ?2 AND resolved_at IS NULL",
                )
                .and_then(|mut update| {
                    update.execute((
                        Bits(alert.id.to_bytes()),
                        alert.version,
                        alert.severity as i16,
                        &alert.title,
                        &alert.detail,
                        alert.value,
                        alert.threshold,
                        alert.good_since.map(Timestamp::as_millis),
                        alert.resolved_at.map(Timestamp::as_millis),
                        alert.untold.code(),
                    ))
                })
                .map_err(unavailable)?;
            Ok(changed == 1)
        })
        .await
    }

    async fn alert_told(&self, id: AlertId, told: Untold) -> Result<()> {
        self.write_whole(0, move |tx, _| {
            tx.prepare_cached("UPDATE alerts SET untold = untold & ~?2 WHERE id = ?1")
                .and_then(|mut update| update.execute((Bits(id.to_bytes()), told.code())))
                .map_err(unavailable)?;
            Ok(())
        })
        .await
    }

    async fn untold_alerts(&self, after: Option<AlertId>, limit: u32) -> Result<Vec<Alert>> {
        let after = Bits(after.map_or(Ulid::MIN, |after| after.0).to_bytes());
        let sql = "untold <> 0 AND id > ?1 ORDER BY id LIMIT ?2";
        self.list(sql, vec![Box::new(after), Box::new(limit)]).await
    }

    async fn firing_alerts(&self, tenant: Option<TenantId>, limit: u32) -> Result<Vec<Alert>> {
        match tenant {
            Some(tenant) => {
                let sql = "tenant = ?1 AND resolved_at IS NULL ORDER BY id DESC LIMIT ?2";
                self.list(sql, vec![Box::new(tenant.0), Box::new(limit)]).await
            }
            None => {
                let sql = "resolved_at IS NULL ORDER BY id DESC LIMIT ?1";
                self.list(sql, vec![Box::new(limit)]).await
            }
        }
    }

    async fn alerts(
        &self,
        tenant: TenantId,
        firing: Option<bool>,
        page: Cursor,
    ) -> Result<Vec<Alert>> {
        let sql = "tenant = ?1 AND id < ?2 AND (?3 IS NULL OR (resolved_at IS NULL) = ?3)
                   ORDER BY id DESC LIMIT ?4";
        self.list(
            sql,
            vec![
                Box::new(tenant.0),
                Box::new(before(page)),
                Box::new(firing),
                Box::new(page.limit),
            ],
        )
        .await
    }

    async fn note_streaks(&self, streaks: Vec<Streak>) -> Result<()> {
        self.write_whole(0, move |tx, _| {
            for streak in &streaks {
                note(tx, streak).map_err(unavailable)?;
            }
            Ok(())
        })
        .await
    }

    async fn streaks(&self, tenant: TenantId, least: u32) -> Result<Vec<(SourceId, u32)>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT source, failures FROM streaks
                         WHERE tenant = ?1 AND failures >= ?2 ORDER BY source",
                    )
                    .map_err(unavailable)?;
                let rows = select.query_map((tenant.0, least), |row| {
                    Ok((SourceId::from_bytes(row.get::<_, Bits>(0)?.0), row.get(1)?))
                });
                collect(rows.map_err(unavailable)?)
            })
            .await
    }

    async fn dead_letter_errors(
        &self,
        tenant: TenantId,
        look: u32,
        limit: u32,
    ) -> Result<Vec<(String, u64)>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT error, count(*) FROM (
                           SELECT coalesce(last_error, '') AS error
                           FROM work_done INDEXED BY work_done_open
                           WHERE tenant = ?1 AND state = 8 AND replayed_as IS NULL AND purged_by IS NULL
                           ORDER BY id DESC LIMIT ?2)
                         GROUP BY error ORDER BY 2 DESC, 1 LIMIT ?3",
                    )
                    .map_err(unavailable)?;
                let rows = select.query_map((tenant.0, look, limit), |row| {
                    Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
                });
                collect(rows.map_err(unavailable)?)
            })
            .await
    }

    async fn duplicates_since(
        &self,
        tenant: TenantId,
        since: Timestamp,
        limit: u32,
    ) -> Result<Vec<ReceiptRow>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(&format!(
                        "SELECT {RECEIPT} FROM receipts
                         WHERE id >= ?2 AND tenant = ?1 AND event_id IS NOT NULL
                         ORDER BY id DESC LIMIT ?3"
                    ))
                    .map_err(unavailable)?;
                let from = Bits(Ulid::floor(since).to_bytes());
                let rows = select.query_map((tenant.0, from, limit), receipt);
                collect(rows.map_err(unavailable)?)
            })
            .await
    }
}

impl Sqlite {
    async fn list(
        &self,
        which: &'static str,
        values: Vec<Box<dyn ToSql + Send + Sync>>,
    ) -> Result<Vec<Alert>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(&format!("SELECT {ALERT} FROM alerts WHERE {which}"))
                    .map_err(unavailable)?;
                let values: Vec<&dyn ToSql> = values.iter().map(|value| &**value as _).collect();
                let rows = select.query_map(&*values, alert);
                collect(rows.map_err(unavailable)?)
            })
            .await
    }
}

fn note(tx: &Connection, streak: &Streak) -> rusqlite::Result<()> {
    let Streak { tenant, source, broken, failures } = *streak;
    let source = Bits(source.to_bytes());
    if failures == 0 {
        // A source that never failed has no row, and gets none.
        let sql =
            "UPDATE streaks SET failures = 0 WHERE tenant = ?1 AND source = ?2 AND failures > 0";
        return tx.prepare_cached(sql)?.execute((tenant.0, source)).map(|_| ());
    }
    tx.prepare_cached(
        "INSERT INTO streaks (tenant, source, failures) VALUES (?1, ?2, ?3)
         ON CONFLICT (tenant, source) DO UPDATE
         SET failures = excluded.failures + CASE WHEN ?4 THEN 0 ELSE failures END",
    )?
    .execute((tenant.0, source, failures, broken))
    .map(|_| ())
}

const ALERT: &str = "id, tenant, kind, subject, severity, title, detail, value, threshold, good_since, \
     resolved_at, untold, version";

fn alert(row: &Row<'_>) -> rusqlite::Result<Alert> {
    Ok(Alert {
        id: AlertId::from_bytes(row.get::<_, Bits>(0)?.0),
        tenant: TenantId(row.get(1)?),
        kind: known(row.get(2)?, AlertKind::from_code)?,
        subject: row.get(3)?,
        severity: known(row.get(4)?, Severity::from_code)?,
        title: row.get(5)?,
        detail: row.get(6)?,
        value: row.get(7)?,
        threshold: row.get(8)?,
        good_since: row.get::<_, Option<i64>>(9)?.map(time),
        resolved_at: row.get::<_, Option<i64>>(10)?.map(time),
        untold: Untold::from_code(row.get(11)?),
        version: row.get(12)?,
    })
}
