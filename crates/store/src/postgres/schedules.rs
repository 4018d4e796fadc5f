//! Schedules: jobs that are made again and again.

use async_trait::async_trait;
use tokio_postgres::Row;
use wakepost_domain::limits::SCHEDULES_PER_TENANT_MAX;
use wakepost_domain::{ScheduleId, TenantId, Timestamp, WorkId};

use super::ordering::lock_new;
use super::rows::{
    audit, execute, get, id, opt_id, opt_time, query, query_opt, sealed, text, uuid,
};
use super::settings::remember;
use super::settings_rows::found;
use super::work::insert;
use super::{Postgres, commit};
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{AuditEntry, Cursor, Firing, Idempotency, Once, Schedule, Schedules};
use crate::vault::Sealed;

#[async_trait]
impl Schedules for Postgres {
    async fn create_schedule(
        &self,
        schedule: Schedule,
        input: Sealed,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        let _place = self.inner.admission.enter(input.len())?;
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        if let Some(before) = remember(&tx, once.as_ref()).await? {
            return Ok(Once::Before(before));
        }
        // Differs from SQLite: the tenant's row is locked, so that two at once cannot both be the last.
        let tenant = "SELECT 1 FROM tenants WHERE id = $1::int FOR UPDATE";
        query(&tx, tenant, &[&schedule.tenant.0]).await?;
        let count = "SELECT count(*) FROM schedules WHERE tenant = $1::int";
        let count = query_opt(&tx, count, &[&schedule.tenant.0]).await?;
        let there: i64 = count.map_or(Ok(0), |row| get(&row, 0))?;
        if there >= SCHEDULES_PER_TENANT_MAX {
            return Err(Schedule::too_many());
        }
        execute(
            &tx,
            "INSERT INTO schedules (id, tenant, settings, input, next_at)
             VALUES ($1::uuid, $2::int, $3::text, $4::bytea, $5::bigint)",
            &[
                &uuid(schedule.id.0),
                &schedule.tenant.0,
                &text(&settings_text(&schedule)),
                &input.as_bytes(),
                &schedule.next_at.map(Timestamp::as_millis),
            ],
        )
        .await?;
        audit(&tx, &entry).await?;
        commit(tx).await?;
        Ok(Once::Now(()))
    }

    async fn schedule(
        &self,
        tenant: TenantId,
        id: ScheduleId,
    ) -> Result<Option<(Schedule, Sealed)>> {
        let client = self.cool().await?;
        let sql = format!(
            "SELECT {SCHEDULE}, input FROM schedules WHERE tenant = $1::int AND id = $2::uuid"
        );
        let row = query_opt(&client, &sql, &[&tenant.0, &uuid(id.0)]).await?;
        row.map(|row| Ok((schedule_row(&row)?, sealed(&row, 7)?))).transpose()
    }

    async fn schedules(&self, tenant: TenantId, page: Cursor) -> Result<Vec<Schedule>> {
        let client = self.cool().await?;
        let sql = format!(
            "SELECT {SCHEDULE} FROM schedules
             WHERE tenant = $1::int AND ($2::uuid IS NULL OR id < $2::uuid)
             ORDER BY id DESC LIMIT $3::bigint"
        );
        let before = page.before.map(uuid);
        let rows = query(&client, &sql, &[&tenant.0, &before, &i64::from(page.limit)]).await?;
        rows.iter().map(schedule_row).collect()
    }

    async fn update_schedule(
        &self,
        schedule: Schedule,
        input: Option<Sealed>,
        entry: AuditEntry,
    ) -> Result<bool> {
        let _place = self.inner.admission.enter(input.as_ref().map_or(0, Sealed::len))?;
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let changed = execute(
            &tx,
            "UPDATE schedules SET settings = $4::text, next_at = $5::bigint,
                    input = coalesce($6::bytea, input), version = version + 1
             WHERE tenant = $1::int AND id = $2::uuid AND version = $3::bigint",
            &[
                &schedule.tenant.0,
                &uuid(schedule.id.0),
                &schedule.version,
                &text(&settings_text(&schedule)),
                &schedule.next_at.map(Timestamp::as_millis),
                &input.as_ref().map(Sealed::as_bytes),
            ],
        )
        .await?;
        if changed == 0 {
            return Ok(false);
        }
        audit(&tx, &entry).await?;
        commit(tx).await?;
        Ok(true)
    }

    async fn delete_schedule(
        &self,
        tenant: TenantId,
        id: ScheduleId,
        entry: AuditEntry,
    ) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let sql = "DELETE FROM schedules WHERE tenant = $1::int AND id = $2::uuid";
        found(execute(&tx, sql, &[&tenant.0, &uuid(id.0)]).await?)?;
        audit(&tx, &entry).await?;
        commit(tx).await
    }

    async fn due_schedules(
        &self,
        after: Option<(Timestamp, ScheduleId)>,
        limit: u32,
    ) -> Result<Vec<Schedule>> {
        let client = self.cool().await?;
        let (tick, id) = after
            .map_or((i64::MIN, uuid::Uuid::nil()), |(tick, id)| (tick.as_millis(), uuid(id.0)));
        let sql = format!(
            "SELECT {SCHEDULE} FROM schedules
             WHERE next_at <= wakepost_now() AND (next_at, id) > ($1::bigint, $2::uuid)
             ORDER BY next_at, id LIMIT $3::bigint"
        );
        let rows = query(&client, &sql, &[&tick, &id, &i64::from(limit)]).await?;
        rows.iter().map(schedule_row).collect()
    }

    async fn fire_schedule(&self, firing: Firing) -> Result<bool> {
        let bytes = firing.work.input.as_ref().map_or(0, Sealed::len);
        let _place = self.inner.admission.enter(bytes)?;
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        // Differs from SQLite: another node that fires the same tick waits here, and then sees another version.
        let ours = execute(
            &tx,
            "UPDATE schedules SET fired_at = $4::bigint, next_at = $5::bigint, last_job = $6::uuid,
                    version = version + 1
             WHERE tenant = $1::int AND id = $2::uuid AND version = $3::bigint",
            &[
                &firing.tenant.0,
                &uuid(firing.id.0),
                &firing.seen,
                &firing.tick.as_millis(),
                &firing.next_at.map(Timestamp::as_millis),
                &uuid(firing.work.id.0),
            ],
        )
        .await?;
        if ours == 0 {
            return Ok(false);
        }
        lock_new(&tx, &[&firing.work]).await?;
        insert(&tx, &[&firing.work]).await?;
        failpoint::pass_async("cron.after_enqueue").await?;
        commit(tx).await?;
        Ok(true)
    }
}

const SCHEDULE: &str = "id, tenant, settings, next_at, fired_at, last_job, version";

fn schedule_row(row: &Row) -> Result<Schedule> {
    let settings: &str = get(row, 2)?;
    Ok(Schedule {
        id: ScheduleId(id(row, 0)?),
        tenant: TenantId(get(row, 1)?),
        settings: serde_json::from_str(settings)
            .map_err(|error| StoreError::Corrupt(error.to_string()))?,
        next_at: opt_time(row, 3)?,
        fired_at: opt_time(row, 4)?,
        last_job: opt_id(row, 5)?.map(WorkId),
        version: get(row, 6)?,
    })
}

fn settings_text(schedule: &Schedule) -> String {
    serde_json::to_string(&schedule.settings).expect("settings are plain data")
}
