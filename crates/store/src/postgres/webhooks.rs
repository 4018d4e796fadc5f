//! Webhooks: who subscribed to what is published, and how long their lanes are shut.

use async_trait::async_trait;
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::State;
use wakepost_domain::{EventId, TenantId, Timestamp, WebhookId};

use super::rows::{audit, execute, get, id, opt_time, query, query_opt, sealed, text, uuid};
use super::settings::remember;
use super::settings_rows::json;
use super::{Postgres, commit, deliveries};
use crate::error::{Result, StoreError};
use crate::moves::{
    AuditEntry, Cursor, Idempotency, NewDelivery, Once, WebhookRecord, Webhooks, WorkRow,
};

#[async_trait]
impl Webhooks for Postgres {
    async fn create_webhook(
        &self,
        record: WebhookRecord,
        most: u32,
        entry: AuditEntry,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        if let Some(before) = remember(&tx, once.as_ref()).await? {
            return Ok(Once::Before(before));
        }
        // Differs from SQLite: the tenant's row is locked, so that two at once cannot both be the last.
        let tenant = "SELECT 1 FROM tenants WHERE id = $1::int FOR UPDATE";
        query(&tx, tenant, &[&record.tenant.0]).await?;
        let count = "SELECT count(*) FROM webhooks WHERE tenant = $1::int";
        let there: i64 = get(&tx.query_one(count, &[&record.tenant.0]).await?, 0)?;
        if there >= i64::from(most) {
            return Err(WebhookRecord::too_many(most));
        }
        insert(&tx, &record).await?;
        shut(&tx, record.lane, record.shut_until).await?;
        audit(&tx, &entry).await?;
        commit(tx).await?;
        Ok(Once::Now(()))
    }

    async fn update_webhook(&self, record: WebhookRecord, entry: Option<AuditEntry>) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let key: super::rows::Params<'_> = &[&record.tenant.0, &uuid(record.id.0)];
        let current =
            "SELECT version FROM webhooks WHERE tenant = $1::int AND id = $2::uuid FOR UPDATE";
        let current = query_opt(&tx, current, key).await?.ok_or(StoreError::NotFound)?;
        if get::<i64>(&current, 0)? != record.version {
            return Err(StoreError::changed_meanwhile());
        }
        execute(
            &tx,
            "UPDATE webhooks SET config = $2::text, secrets = $3::bytea, circuit = $4::text,
                    notices = $5::text, due_at = $6::bigint, signs_publicly = $7::boolean,
                     version = version + 1
             WHERE id = $1::uuid",
            &[
                &uuid(record.id.0),
                &json_text(&record.config),
                &record.secrets.as_bytes(),
                &json_text(&record.circuit),
                &json_text(&record.notices),
                &record.due_at.map(Timestamp::as_millis),
                &record.signs_publicly(),
            ],
        )
        .await?;
        shut(&tx, record.lane, record.shut_until).await?;
        if let Some(entry) = &entry {
            audit(&tx, entry).await?;
        }
        commit(tx).await
    }

    async fn delete_webhook(
        &self,
        tenant: TenantId,
        id: WebhookId,
        entry: AuditEntry,
    ) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let gone = "DELETE FROM webhooks WHERE tenant = $1::int AND id = $2::uuid RETURNING lane";
        let gone = query_opt(&tx, gone, &[&tenant.0, &uuid(id.0)]).await?;
        shut(&tx, LaneId(get(&gone.ok_or(StoreError::NotFound)?, 0)?), None).await?;
        audit(&tx, &entry).await?;
        commit(tx).await
    }

    async fn webhook(&self, id: WebhookId) -> Result<Option<WebhookRecord>> {
        let client = self.cool().await?;
        let sql = format!("SELECT {WEBHOOK} FROM webhooks w WHERE id = $1::uuid");
        query_opt(&client, &sql, &[&uuid(id.0)]).await?.as_ref().map(webhook_row).transpose()
    }

    async fn webhooks(&self, tenant: TenantId) -> Result<Vec<WebhookRecord>> {
        let client = self.cool().await?;
        let sql =
            format!("SELECT {WEBHOOK} FROM webhooks w WHERE tenant = $1::int ORDER BY id DESC");
        query(&client, &sql, &[&tenant.0]).await?.iter().map(webhook_row).collect()
    }

    async fn signing_webhooks(
        &self,
        after: Option<WebhookId>,
        limit: u32,
    ) -> Result<Vec<WebhookRecord>> {
        let client = self.cool().await?;
        let sql = format!(
            "SELECT {WEBHOOK} FROM webhooks w
             WHERE signs_publicly AND ($1::uuid IS NULL OR id > $1::uuid) ORDER BY id LIMIT $2::bigint"
        );
        let after = after.map(|id| uuid(id.0));
        query(&client, &sql, &[&after, &i64::from(limit)]).await?.iter().map(webhook_row).collect()
    }

    async fn due_webhooks(&self, limit: u32) -> Result<Vec<WebhookRecord>> {
        let client = self.cool().await?;
        let sql = format!(
            "SELECT {WEBHOOK} FROM webhooks w WHERE due_at <= wakepost_now()
             ORDER BY due_at, id LIMIT $1::bigint"
        );
        query(&client, &sql, &[&i64::from(limit)]).await?.iter().map(webhook_row).collect()
    }

    async fn end_waiting(
        &self,
        lane: LaneId,
        state: State,
        reason: String,
        limit: u32,
    ) -> Result<u64> {
        deliveries::end_waiting(&mut self.cool().await?, lane, state, &reason, limit).await
    }

    async fn deliveries(
        &self,
        tenant: TenantId,
        lane: LaneId,
        state: Option<State>,
        page: Cursor,
    ) -> Result<Vec<WorkRow>> {
        deliveries::list(&mut self.cool().await?, tenant, lane, state, page).await
    }

    async fn delivery_counts(&self, lane: LaneId, rows_max: u32) -> Result<Vec<(State, i64)>> {
        deliveries::counts(&mut self.cool().await?, lane, rows_max).await
    }

    async fn add_deliveries(
        &self,
        tenant: TenantId,
        items: Vec<(EventId, NewDelivery)>,
    ) -> Result<Vec<NewDelivery>> {
        deliveries::add(&mut self.cool().await?, tenant, items).await
    }
}

async fn insert(tx: &impl GenericClient, record: &WebhookRecord) -> Result<()> {
    execute(
        tx,
        "INSERT INTO webhooks (id, tenant, lane, config, secrets, circuit, notices, due_at, version,
                               signs_publicly)
         VALUES ($1::uuid, $2::int, $3::bigint, $4::text, $5::bytea, $6::text, $7::text, $8::bigint,
                 $9::bigint, $10::boolean)",
        &[
            &uuid(record.id.0),
            &record.tenant.0,
            &record.lane.0,
            &json_text(&record.config),
            &record.secrets.as_bytes(),
            &json_text(&record.circuit),
            &json_text(&record.notices),
            &record.due_at.map(Timestamp::as_millis),
            &record.version,
            &record.signs_publicly(),
        ],
    )
    .await?;
    Ok(())
}

/// Shuts a lane until then, or opens it.
async fn shut(tx: &impl GenericClient, lane: LaneId, until: Option<Timestamp>) -> Result<()> {
    let until = until.map_or(0, Timestamp::as_millis);
    // Every claim looks at this row: it is written only if it changes.
    let sql = "UPDATE lanes SET shut_until = $2::bigint WHERE id = $1::bigint AND shut_until <> $2::bigint";
    execute(tx, sql, &[&lane.0, &until]).await?;
    Ok(())
}

/// The columns of a webhook `w`, in the order [`webhook_row`] reads them.
const WEBHOOK: &str = "id, tenant, lane, config, secrets, circuit, notices, due_at, version, \
     (SELECT nullif(l.shut_until, 0) FROM lanes l WHERE l.id = w.lane)";

fn webhook_row(row: &Row) -> Result<WebhookRecord> {
    Ok(WebhookRecord {
        id: WebhookId(id(row, 0)?),
        tenant: TenantId(get(row, 1)?),
        lane: LaneId(get(row, 2)?),
        config: json(row, 3)?,
        secrets: sealed(row, 4)?,
        circuit: json(row, 5)?,
        notices: json(row, 6)?,
        due_at: opt_time(row, 7)?,
        version: get(row, 8)?,
        shut_until: opt_time(row, 9)?,
    })
}

fn json_text(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_string(value).expect("a webhook is plain data");
    text(&json).into_owned()
}
