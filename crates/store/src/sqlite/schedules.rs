//! Schedules: jobs that are made again and again.

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Row};
use wakepost_domain::limits::SCHEDULES_PER_TENANT_MAX;
use wakepost_domain::{ScheduleId, TenantId, Timestamp, WorkId};

use super::Sqlite;
use super::rows::{Bits, SealedColumn, audit, collect, json, time, unavailable};
use super::settings::remember;
use super::settings_rows::found;
use super::work::insert;
use crate::error::Result;
use crate::failpoint;
use crate::moves::{AuditEntry, Cursor, Firing, Idempotency, Once, Schedule, Schedules};
use crate::vault::Sealed;

#[async_trait]
impl Schedules for Sqlite {
    async fn create_schedule(
        &self,
        schedule: Schedule,
        input: Sealed,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        self.write_whole(input.len(), move |tx, now| {
            if let Some(before) = remember(tx, now, once.as_ref())? {
                return Ok(Once::Before(before));
            }
            let count = "SELECT count(*) FROM schedules WHERE tenant = ?1";
            let there: i64 = tx
                .query_row(count, [schedule.tenant.0], |row| row.get(0))
                .map_err(unavailable)?;
            if there >= SCHEDULES_PER_TENANT_MAX {
                return Err(Schedule::too_many());
            }
            tx.execute(
                "INSERT INTO schedules (id, tenant, settings, input, next_at) VALUES (?1, ?2, ?3, ?4, ?5)",
                (
                    Bits(schedule.id.to_bytes()),
                    schedule.tenant.0,
                    settings_text(&schedule),
                    input.as_bytes(),
                    schedule.next_at.map(Timestamp::as_millis),
                ),
            )
            .map_err(unavailable)?;
            audit(tx, &entry)?;
            Ok(Once::Now(()))
        })
        .await
    }

    async fn schedule(
        &self,
        tenant: TenantId,
        id: ScheduleId,
    ) -> Result<Option<(Schedule, Sealed)>> {
        self.readers
            .read(move |connection, _| {
                connection
                    .prepare_cached(&format!(
                        "SELECT {SCHEDULE}, input FROM schedules WHERE tenant = ?1 AND id = ?2"
                    ))
                    .and_then(|mut select| {
                        let row = |row: &Row<'_>| {
                            Ok((schedule_row(row)?, row.get::<_, SealedColumn>(7)?.0))
                        };
                        select.query_row((tenant.0, Bits(id.to_bytes())), row).optional()
                    })
                    .map_err(unavailable)
            })
            .await
    }

    async fn schedules(&self, tenant: TenantId, page: Cursor) -> Result<Vec<Schedule>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(&format!(
                        "SELECT {SCHEDULE} FROM schedules WHERE tenant = ?1 AND (?2 IS NULL OR id < ?2)
                         ORDER BY id DESC LIMIT ?3"
                    ))
                    .map_err(unavailable)?;
                let before = page.before.map(|id| Bits(id.to_bytes()));
                let rows = select.query_map((tenant.0, before, page.limit), schedule_row);
                collect(rows.map_err(unavailable)?)
            })
            .await
    }

    async fn update_schedule(
        &self,
        schedule: Schedule,
        input: Option<Sealed>,
        entry: AuditEntry,
    ) -> Result<bool> {
        self.write_whole(input.as_ref().map_or(0, Sealed::len), move |tx, _| {
            let changed = tx
                .execute(
                    "UPDATE schedules SET settings = ?4, next_at = ?5, input = coalesce(?6, input),
                            version = version + 1
                     WHERE tenant = ?1 AND id = ?2 AND version = ?3",
                    (
                        schedule.tenant.0,
                        Bits(schedule.id.to_bytes()),
                        schedule.version,
                        settings_text(&schedule),
                        schedule.next_at.map(Timestamp::as_millis),
                        input.as_ref().map(Sealed::as_bytes),
                    ),
                )
                .map_err(unavailable)?;
            if changed == 0 {
                return Ok(false);
            }
            audit(tx, &entry)?;
            Ok(true)
        })
        .await
    }

    async fn delete_schedule(
        &self,
        tenant: TenantId,
        id: ScheduleId,
        entry: AuditEntry,
    ) -> Result<()> {
        self.write_whole(0, move |tx, _| {
            let gone = tx
                .execute(
                    "DELETE FROM schedules WHERE tenant = ?1 AND id = ?2",
                    (tenant.0, Bits(id.to_bytes())),
                )
                .map_err(unavailable)?;
            found(gone)?;
            audit(tx, &entry)
        })
        .await
    }

    async fn due_schedules(
        &self,
        after: Option<(Timestamp, ScheduleId)>,
        limit: u32,
    ) -> Result<Vec<Schedule>> {
        let (tick, id) = after.map_or((i64::MIN, Bits([0; 16])), |(tick, id)| {
            (tick.as_millis(), Bits(id.to_bytes()))
        });
        self.readers
            .read(move |connection, now| {
                let mut select = connection
                    .prepare_cached(&format!(
                        "SELECT {SCHEDULE} FROM schedules
                         WHERE next_at <= ?1 AND (next_at, id) > (?2, ?3)
                         ORDER BY next_at, id LIMIT ?4"
                    ))
                    .map_err(unavailable)?;
                let rows = select.query_map((now.as_millis(), tick, id, limit), schedule_row);
                collect(rows.map_err(unavailable)?)
            })
            .await
    }

    async fn fire_schedule(&self, firing: Firing) -> Result<bool> {
        let bytes = firing.work.input.as_ref().map_or(0, Sealed::len);
        self.write_whole(bytes, move |tx, now| {
            let ours = tx
                .execute(
                    "UPDATE schedules SET fired_at = ?4, next_at = ?5, last_job = ?6, version = version + 1
                     WHERE tenant = ?1 AND id = ?2 AND version = ?3",
                    (
                        firing.tenant.0,
                        Bits(firing.id.to_bytes()),
                        firing.seen,
                        firing.tick.as_millis(),
                        firing.next_at.map(Timestamp::as_millis),
                        Bits(firing.work.id.to_bytes()),
                    ),
                )
                .map_err(unavailable)?;
            if ours == 0 {
                return Ok(false);
            }
            insert(tx, now, &firing.work)?;
            failpoint::pass("cron.after_enqueue")?;
            Ok(true)
        })
        .await
    }
}

const SCHEDULE: &str = "id, tenant, settings, next_at, fired_at, last_job, version";

fn schedule_row(row: &Row<'_>) -> rusqlite::Result<Schedule> {
    Ok(Schedule {
        id: ScheduleId::from_bytes(row.get::<_, Bits>(0)?.0),
        tenant: TenantId(row.get(1)?),
        settings: json(row, 2)?,
        next_at: row.get::<_, Option<i64>>(3)?.map(time),
        fired_at: row.get::<_, Option<i64>>(4)?.map(time),
        last_job: row.get::<_, Option<Bits>>(5)?.map(|bits| WorkId::from_bytes(bits.0)),
        version: row.get(6)?,
    })
}

fn settings_text(schedule: &Schedule) -> String {
    serde_json::to_string(&schedule.settings).expect("settings are plain data")
}
