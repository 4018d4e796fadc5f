//! Reading: lists by cursor, and single things whole.

use async_trait::async_trait;
use deadpool_postgres::{Client, GenericClient};
use tokio_postgres::Row;
use uuid::Uuid;
use wakepost_domain::event::Event;
use wakepost_domain::lease::run_id;
use wakepost_domain::run::{Run, RunOutcome};
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, RunId, SourceId, TenantId, Ulid, WorkId};

use super::Postgres;
use super::event_list::{Query, before, events, owned};
use super::rows::{
    EVENT, RECEIPT, WORK_DONE, WORK_LIVE, code, get, id, opt_sealed, opt_time, query, query_opt,
    receipt, sealed, time, uuid, work,
};
use super::work::find;
use crate::error::Result;
use crate::moves::{
    Cursor, EventFilter, EventRow, JobState, ProgressRow, Reading, ReceiptRow, WorkFilter, WorkRow,
};
use crate::vault::Sealed;

#[async_trait]
impl Reading for Postgres {
    async fn events(
        &self,
        tenant: TenantId,
        filter: EventFilter,
        page: Cursor,
    ) -> Result<Vec<EventRow>> {
        events(&mut self.cool().await?, tenant, &filter, page).await
    }

    async fn event(&self, tenant: TenantId, id: EventId) -> Result<Option<Event>> {
        let client = self.cool().await?;
        let sql = format!("SELECT {EVENT} FROM events WHERE tenant = $1::int AND id = $2::uuid");
        let row = query_opt(&client, &sql, &[&tenant.0, &uuid(id.0)]).await?;
        row.as_ref().map(super::rows::event).transpose()
    }

    async fn events_by_id(&self, ids: Vec<(TenantId, EventId)>) -> Result<Vec<Event>> {
        let (tenants, ids): (Vec<i32>, Vec<Uuid>) =
            ids.iter().map(|(tenant, id)| (tenant.0, uuid(id.0))).unzip();
        // What a claim is about belongs to the claim, and so do the two look-ups below.
        let client = self.hot().await?;
        let sql = format!(
            "SELECT e.* FROM unnest($1::int[], $2::uuid[]) WITH ORDINALITY AS i (tenant, id, nth)
             CROSS JOIN LATERAL
               (SELECT {EVENT} FROM events WHERE tenant = i.tenant AND id = i.id) e
             ORDER BY i.nth"
        );
        query(&client, &sql, &[&tenants, &ids]).await?.iter().map(super::rows::event).collect()
    }

    async fn contents(&self, ids: Vec<EventId>) -> Result<Vec<(EventId, Sealed)>> {
        let client = self.hot().await?;
        let rows = query(
            &client,
            "SELECT b.id, b.content FROM unnest($1::uuid[]) WITH ORDINALITY AS i (id, nth)
             JOIN bodies b ON b.id = i.id ORDER BY i.nth",
            &[&ids.iter().map(|id| uuid(id.0)).collect::<Vec<_>>()],
        )
        .await?;
        rows.iter().map(|row| Ok((EventId(id(row, 0)?), sealed(row, 1)?))).collect()
    }

    async fn receipts(&self, tenant: TenantId, event: EventId) -> Result<Vec<ReceiptRow>> {
        let client = self.cool().await?;
        let sql = format!(
            "SELECT {RECEIPT} FROM receipts WHERE event_id = $1::uuid AND tenant = $2::int ORDER BY id"
        );
        let rows = query(&client, &sql, &[&uuid(event.0), &tenant.0]).await?;
        rows.iter().map(receipt).collect()
    }

    async fn source_receipts(
        &self,
        tenant: TenantId,
        source: SourceId,
        page: Cursor,
    ) -> Result<Vec<ReceiptRow>> {
        let client = self.cool().await?;
        let sql = format!(
            "SELECT {RECEIPT} FROM receipts
             WHERE source = $1::uuid AND tenant = $2::int AND id < $3::uuid
             ORDER BY id DESC LIMIT $4::bigint"
        );
        let limit = i64::from(page.limit);
        let rows =
            query(&client, &sql, &[&uuid(source.0), &tenant.0, &before(page), &limit]).await?;
        rows.iter().map(receipt).collect()
    }

    async fn work_list(
        &self,
        tenant: TenantId,
        filter: WorkFilter,
        page: Cursor,
    ) -> Result<Vec<WorkRow>> {
        work_list(&self.cool().await?, tenant, &filter, page).await
    }

    async fn work(&self, tenant: TenantId, id: WorkId) -> Result<Option<WorkRow>> {
        find(&self.cool().await?, tenant, id).await
    }

    async fn work_of_event(&self, tenant: TenantId, event: EventId) -> Result<Vec<WorkRow>> {
        work_of_event(&self.cool().await?, tenant, event).await
    }

    async fn joined(&self, works: Vec<WorkId>) -> Result<Vec<(WorkId, EventId)>> {
        let client = self.hot().await?;
        let rows = query(
            &client,
            "SELECT j.work_id, j.event_id FROM unnest($1::uuid[]) WITH ORDINALITY AS i (id, nth)
             JOIN joined j ON j.work_id = i.id ORDER BY i.nth, j.place",
            &[&works.iter().map(|id| uuid(id.0)).collect::<Vec<_>>()],
        )
        .await?;
        rows.iter().map(|row| Ok((WorkId(id(row, 0)?), EventId(id(row, 1)?)))).collect()
    }

    async fn job_states(&self, ids: Vec<WorkId>) -> Result<Vec<(WorkId, JobState)>> {
        let client = self.hot().await?;
        let rows = query(
            &client,
            "SELECT s.work_id, s.input, s.checkpoint, s.result, s.reply, s.cost, s.scheduled_for
             FROM unnest($1::uuid[]) WITH ORDINALITY AS i (id, nth)
             JOIN job_state s ON s.work_id = i.id ORDER BY i.nth",
            &[&ids.iter().map(|id| uuid(id.0)).collect::<Vec<_>>()],
        )
        .await?;
        rows.iter().map(job_state).collect()
    }

    async fn runs(&self, tenant: TenantId, work: WorkId) -> Result<Vec<Run>> {
        let client = self.cool().await?;
        let rows = query(
            &client,
            "SELECT fence, attempt, worker, started_at, ended_at, outcome, error,
                    (SELECT c.cost FROM costs c WHERE c.work_id = a.work_id AND c.fence = a.fence)
             FROM attempts a
             WHERE work_id = $1::uuid AND tenant = $2::int
             UNION ALL
             SELECT fence, attempts, worker, started_at, finished_at, 0::smallint, NULL,
                    (SELECT c.cost FROM costs c WHERE c.work_id = d.id AND c.fence = d.fence)
             FROM work_done d
             WHERE id = $1::uuid AND tenant = $2::int AND state = 6
             ORDER BY fence",
            &[&uuid(work.0), &tenant.0],
        )
        .await?;
        rows.iter().map(|row| run(row, work)).collect()
    }

    async fn run_details(&self, tenant: TenantId, work: WorkId) -> Result<Vec<(RunId, Sealed)>> {
        let client = self.cool().await?;
        let rows = query(
            &client,
            "SELECT fence, started_at, detail FROM attempts
             WHERE work_id = $1::uuid AND tenant = $2::int AND detail IS NOT NULL ORDER BY fence",
            &[&uuid(work.0), &tenant.0],
        )
        .await?;
        let run = |row| Ok((run_id(work, get(row, 0)?, time(row, 1)?), sealed(row, 2)?));
        rows.iter().map(run).collect()
    }

    async fn progress_after(
        &self,
        tenant: TenantId,
        work: WorkId,
        seq: i64,
    ) -> Result<Vec<ProgressRow>> {
        let client = self.cool().await?;
        let rows = query(
            &client,
            "SELECT seq, at, content FROM progress
             WHERE work_id = $1::uuid AND seq > $2::bigint AND tenant = $3::int ORDER BY seq",
            &[&uuid(work.0), &seq, &tenant.0],
        )
        .await?;
        rows.iter()
            .map(|row| {
                Ok(ProgressRow { seq: get(row, 0)?, at: time(row, 1)?, content: sealed(row, 2)? })
            })
            .collect()
    }
}

pub(super) async fn work_of_event(
    on: &impl GenericClient,
    tenant: TenantId,
    event: EventId,
) -> Result<Vec<WorkRow>> {
    // One statement, so that an item that ends meanwhile is seen once. Of a published event the second part is the rule:
    // OFFSET keeps it from a walk along all of the tenant's work.
    let of = |columns, table| {
        format!(
            "SELECT {columns} FROM {table}
             WHERE tenant = $1::int AND id = $2::uuid AND event_id = $2::uuid
             UNION ALL
             SELECT {columns} FROM (
               SELECT * FROM {table} WHERE event_id = $2::uuid AND event_id <> id OFFSET 0) w
             WHERE tenant = $1::int
             UNION ALL
             SELECT {columns} FROM {table}
             WHERE tenant = $1::int AND id IN (SELECT work_id FROM joined WHERE event_id = $2::uuid)"
        )
    };
    let sql =
        format!("{} UNION ALL {} ORDER BY id", of(WORK_LIVE, "work"), of(WORK_DONE, "work_done"));
    query(on, &sql, &[&tenant.0, &uuid(event.0)]).await?.iter().map(work).collect()
}

async fn work_list(
    client: &Client,
    tenant: TenantId,
    filter: &WorkFilter,
    page: Cursor,
) -> Result<Vec<WorkRow>> {
    let (mut live, mut done) = (Vec::new(), Vec::new());
    if filter.state.is_none_or(|state| !state.is_terminal()) {
        live = work_query("work", WORK_LIVE, tenant, filter, page).run(client).await?;
    }
    if filter.state.is_none_or(State::is_terminal) {
        done = work_query("work_done", WORK_DONE, tenant, filter, page).run(client).await?;
    }
    // What ended between the two looks is in both: the later one counts.
    let mut found = done.iter().chain(&live).map(work).collect::<Result<Vec<_>>>()?;
    found.sort_by_key(|row| std::cmp::Reverse(row.id));
    found.dedup_by_key(|row| row.id);
    found.truncate(page.limit as usize);
    Ok(found)
}

fn work_query(
    table: &str,
    columns: &str,
    tenant: TenantId,
    filter: &WorkFilter,
    page: Cursor,
) -> Query {
    let mut query = Query::new(format!("SELECT {columns} FROM {table} w WHERE true"));
    query.add(" AND tenant = ?::int", tenant.0);
    query.add(" AND id < ?::uuid", before(page));
    match filter.kind {
        // With those of kinds that only a newer program knows: they are seen as jobs.
        Some(WorkKind::Job) => query.sql.push_str(" AND kind NOT IN (1, 2, 3)"),
        Some(kind) => query.add(" AND kind = ?::smallint", kind as i16),
        None => {}
    }
    match filter.state {
        // Spelled out, so that the index on dead letters is used.
        Some(State::DeadLetter) => query.sql.push_str(" AND state = 8"),
        Some(state) => query.add(" AND state = ?::smallint", state as i16),
        None => {}
    }
    if let Some(since) = filter.since {
        query.add(" AND id >= ?::uuid", uuid(Ulid::floor(since)));
    }
    if let Some(subject) = &filter.subject {
        query.add(" AND subject = ?::text", owned(subject));
    }
    if let Some(thread) = &filter.thread {
        query.add(" AND event_id IN (SELECT e.id FROM events e WHERE e.tenant = ?::int", tenant.0);
        query.add(" AND e.thread = ?::text)", owned(thread));
    }
    let of_lane = |on: &str| {
        format!(" AND lane IN (SELECT l.id FROM lanes l WHERE l.tenant = w.tenant AND {on})")
    };
    if let Some(source) = filter.source {
        query.add(&of_lane("l.origin = ?::uuid"), uuid(source.0));
    }
    if let Some(name) = &filter.name {
        query.add(&of_lane("l.name = ?::text"), owned(name));
    }
    query.add(" ORDER BY id DESC LIMIT ?::bigint", i64::from(page.limit));
    query
}

fn job_state(row: &Row) -> Result<(WorkId, JobState)> {
    let state = JobState {
        input: opt_sealed(row, 1)?,
        checkpoint: opt_sealed(row, 2)?,
        result: opt_sealed(row, 3)?,
        reply: opt_sealed(row, 4)?,
        cost: get(row, 5)?,
        scheduled_for: opt_time(row, 6)?,
    };
    Ok((WorkId(id(row, 0)?), state))
}

fn run(row: &Row, work: WorkId) -> Result<Run> {
    let started_at = time(row, 3)?;
    Ok(Run {
        id: run_id(work, get(row, 0)?, started_at),
        attempt: get(row, 1)?,
        worker: get(row, 2)?,
        started_at,
        ended_at: time(row, 4)?,
        outcome: code(row, 5, RunOutcome::from_code)?,
        error: get(row, 6)?,
        cost: get(row, 7)?,
    })
}
