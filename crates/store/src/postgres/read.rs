//! Reading: lists by cursor, and single things whole.

use std::collections::HashMap;

use async_trait::async_trait;
use deadpool_postgres::{Client, GenericClient};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakepost_domain::event::{self, Event, Route};
use wakepost_domain::lease::run_id;
use wakepost_domain::run::{Run, RunOutcome};
use wakepost_domain::work::State;
use wakepost_domain::{EventId, SourceId, TenantId, Ulid, WorkId};

use super::Postgres;
use super::rows::{
    EVENT, RECEIPT, WORK_DONE, WORK_LIVE, code, get, id, opt_sealed, query, query_opt, receipt,
    sealed, text, time, uuid, work,
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
        events(&self.cool().await?, tenant, &filter, page).await
    }

    async fn event(&self, tenant: TenantId, id: EventId) -> Result<Option<Event>> {
        let client = self.cool().await?;
        let sql = format!("SELECT {EVENT} FROM events WHERE tenant = $1::int AND id = $2::uuid");
        let row = query_opt(&client, &sql, &[&tenant.0, &uuid(id.0)]).await?;
        row.as_ref().map(super::rows::event).transpose()
    }

    async fn events_by_id(&self, ids: Vec<(TenantId, EventId)>) -> Result<Vec<Event>> {
        let (tenants, ids): (Vec<i32>, Vec<Uuid>) = ids
            .iter()
            .map(|(tenant, id)| (tenant.0, uuid(id.0)))
            .unzip();
        // What a claim is about belongs to the claim, and so do the two look-ups below.
        let client = self.hot().await?;
        let sql = format!(
            "SELECT e.* FROM unnest($1::int[], $2::uuid[]) WITH ORDINALITY AS i (tenant, id, nth)
             CROSS JOIN LATERAL
               (SELECT {EVENT} FROM events WHERE tenant = i.tenant AND id = i.id) e
             ORDER BY i.nth"
        );
        query(&client, &sql, &[&tenants, &ids])
            .await?
            .iter()
            .map(super::rows::event)
            .collect()
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
        rows.iter()
            .map(|row| Ok((EventId(id(row, 0)?), sealed(row, 1)?)))
            .collect()
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
        let rows = query(
            &client,
            &sql,
            &[&uuid(source.0), &tenant.0, &before(page), &limit],
        )
        .await?;
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

    async fn job_states(&self, ids: Vec<WorkId>) -> Result<Vec<(WorkId, JobState)>> {
        let client = self.hot().await?;
        let rows = query(
            &client,
            "SELECT s.work_id, s.input, s.checkpoint, s.result, s.reply, s.cost
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
            "SELECT fence, attempt, worker, started_at, ended_at, outcome, error FROM attempts
             WHERE work_id = $1::uuid AND tenant = $2::int ORDER BY fence",
            &[&uuid(work.0), &tenant.0],
        )
        .await?;
        rows.iter().map(|row| run(row, work)).collect()
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
                Ok(ProgressRow {
                    seq: get(row, 0)?,
                    at: time(row, 1)?,
                    content: sealed(row, 2)?,
                })
            })
            .collect()
    }
}

fn before(page: Cursor) -> Uuid {
    uuid(page.before.unwrap_or(Ulid::MAX))
}

/// A statement that grows with its parameters.
struct Query {
    sql: String,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Query {
    fn new(sql: String) -> Query {
        Query {
            sql,
            values: Vec::new(),
        }
    }

    /// Adds text, each `?` of which stands for the value.
    fn add(&mut self, sql: &str, value: impl ToSql + Sync + Send + 'static) {
        self.values.push(Box::new(value));
        self.sql
            .push_str(&sql.replace('?', &format!("${}", self.values.len())));
    }

    async fn run(&self, on: &impl GenericClient) -> Result<Vec<Row>> {
        let values: Vec<&(dyn ToSql + Sync)> = self
            .values
            .iter()
            .map(|value| &**value as &(dyn ToSql + Sync))
            .collect();
        Ok(query(on, &self.sql, &values).await?)
    }
}

async fn events(
    client: &Client,
    tenant: TenantId,
    filter: &EventFilter,
    page: Cursor,
) -> Result<Vec<EventRow>> {
    let mut found: Vec<EventRow> = Vec::new();
    let mut from = page;
    // A status is the sum of several items' states, which SQL narrows and `event::status` decides. A page
    // that lost rows to that is filled up, so that a short page always means the end.
    loop {
        let rows = event_query(tenant, filter, from).run(client).await?;
        let events = rows
            .iter()
            .map(super::rows::event)
            .collect::<Result<Vec<Event>>>()?;
        let (count, last) = (events.len(), events.last().map(|event| event.id.0));
        let mut states = event_states(client, tenant, &events).await?;
        for event in events {
            let work = states.remove(&event.id).unwrap_or_default();
            let status = event::status(event.route, work.iter().copied());
            if filter
                .status
                .as_deref()
                .is_none_or(|wanted| wanted == status)
            {
                found.push(EventRow { event, work });
            }
            if found.len() >= page.limit as usize {
                return Ok(found);
            }
        }
        if count < page.limit as usize {
            return Ok(found);
        }
        from.before = last;
    }
}

fn event_query(tenant: TenantId, filter: &EventFilter, page: Cursor) -> Query {
    let mut query = Query::new(format!("SELECT {EVENT} FROM events e WHERE true"));
    query.add(" AND tenant = ?::int", tenant.0);
    query.add(" AND id < ?::uuid", before(page));
    if let Some(since) = filter.since {
        query.add(" AND id >= ?::uuid", uuid(Ulid::floor(since)));
    }
    if let Some(until) = filter.until {
        query.add(" AND id < ?::uuid", uuid(Ulid::floor(until)));
    }
    if let Some(sources) = &filter.sources {
        let sources: Vec<Uuid> = sources.iter().map(|source| uuid(source.0)).collect();
        query.add(" AND source = ANY(?::uuid[])", sources);
    }
    if let Some(pattern) = &filter.event_type {
        match pattern.strip_suffix('*') {
            Some(prefix) => query.add(" AND starts_with(type, ?::text)", owned(prefix)),
            None => query.add(" AND type = ?::text", owned(pattern)),
        }
    }
    if let Some(subject) = &filter.subject {
        query.add(" AND subject = ?::text", owned(subject));
    }
    if let Some(key) = &filter.dedup_key {
        query.add(" AND dedup_key = ?::text", owned(key));
    }
    if let Some(prefix) = &filter.prefix {
        match prefix.parse::<EventId>() {
            Ok(id) => query.add(" AND id = ?::uuid", uuid(id.0)),
            Err(_) => query.add(
                " AND (starts_with(type, ?::text) OR starts_with(subject, ?::text)
                       OR starts_with(dedup_key, ?::text))",
                owned(prefix),
            ),
        }
    }
    if let Some(status) = &filter.status {
        status_condition(&mut query, status);
    }
    query.add(" ORDER BY id DESC LIMIT ?::bigint", i64::from(page.limit));
    query
}

fn owned(value: &str) -> String {
    text(value).into_owned()
}

/// Narrows events to those with an item in the state. Common states are looked up event by event, so that
/// the limit ends the search early; rare ones are listed first.
fn status_condition(query: &mut Query, status: &str) {
    let Some(state) = State::from_word(status) else {
        let route = if status == "unmapped" {
            Route::Unmapped
        } else {
            Route::Ignored
        };
        query.add(" AND route = ?::smallint", route as i16);
        return;
    };
    let table = if state.is_terminal() {
        "work_done"
    } else {
        "work"
    };
    let condition = match state {
        State::Succeeded | State::Pending => {
            // The work's history is kept for less long than the event, which then counts as succeeded.
            let or_forgotten = if state == State::Succeeded {
                "OR route = 0"
            } else {
                ""
            };
            format!(
                " AND (EXISTS (SELECT 1 FROM {table} w WHERE w.tenant = e.tenant AND w.id = e.id
                               AND w.state = ?::smallint)
                       OR EXISTS (SELECT 1 FROM {table} w WHERE w.event_id = e.id
                                  AND w.event_id <> w.id AND w.tenant = e.tenant
                                  AND w.state = ?::smallint)
                       {or_forgotten})"
            )
        }
        _ => format!(
            " AND id IN (SELECT w.event_id FROM {table} w
                         WHERE w.tenant = e.tenant AND w.state = ?::smallint)"
        ),
    };
    query.add(&condition, state as i16);
}

/// The first item of an event carries the event's own bits; only later ones need the index.
const STATES: &str = "
WITH e AS MATERIALIZED (SELECT * FROM unnest($2::uuid[]) AS e (id))
SELECT e.id, w.state, w.id FROM e JOIN work w
  ON w.tenant = $1::int AND w.id = e.id AND w.event_id = e.id
UNION ALL
SELECT e.id, w.state, w.id FROM e JOIN work w
  ON w.event_id = e.id AND w.event_id <> w.id AND w.tenant = $1::int
UNION ALL
SELECT e.id, d.state, d.id FROM e JOIN work_done d
  ON d.tenant = $1::int AND d.id = e.id AND d.event_id = e.id AND d.replayed_as IS NULL
UNION ALL
SELECT e.id, d.state, d.id FROM e JOIN work_done d
  ON d.event_id = e.id AND d.event_id <> d.id AND d.tenant = $1::int AND d.replayed_as IS NULL
ORDER BY 3";

async fn event_states(
    client: &Client,
    tenant: TenantId,
    events: &[Event],
) -> Result<HashMap<EventId, Vec<State>>> {
    let ids: Vec<Uuid> = events.iter().map(|event| uuid(event.id.0)).collect();
    let mut states: HashMap<EventId, Vec<State>> = HashMap::new();
    if ids.is_empty() {
        return Ok(states);
    }
    for row in &query(client, STATES, &[&tenant.0, &ids]).await? {
        let state = code(row, 1, State::from_code)?;
        states.entry(EventId(id(row, 0)?)).or_default().push(state);
    }
    Ok(states)
}

async fn work_of_event(client: &Client, tenant: TenantId, event: EventId) -> Result<Vec<WorkRow>> {
    // One statement, so that an item that ends meanwhile is seen once.
    let of = |columns, table| {
        format!(
            "SELECT {columns} FROM {table}
             WHERE tenant = $1::int AND id = $2::uuid AND event_id = $2::uuid
             UNION ALL
             SELECT {columns} FROM {table}
             WHERE event_id = $2::uuid AND event_id <> id AND tenant = $1::int"
        )
    };
    let sql = format!(
        "{} UNION ALL {} ORDER BY id",
        of(WORK_LIVE, "work"),
        of(WORK_DONE, "work_done")
    );
    query(client, &sql, &[&tenant.0, &uuid(event.0)])
        .await?
        .iter()
        .map(work)
        .collect()
}

async fn work_list(
    client: &Client,
    tenant: TenantId,
    filter: &WorkFilter,
    page: Cursor,
) -> Result<Vec<WorkRow>> {
    let (mut live, mut done) = (Vec::new(), Vec::new());
    if filter.state.is_none_or(|state| !state.is_terminal()) {
        live = work_query("work", WORK_LIVE, tenant, filter, page)
            .run(client)
            .await?;
    }
    if filter.state.is_none_or(State::is_terminal) {
        done = work_query("work_done", WORK_DONE, tenant, filter, page)
            .run(client)
            .await?;
    }
    // What ended between the two looks is in both: the later one counts.
    let mut found = done
        .iter()
        .chain(&live)
        .map(work)
        .collect::<Result<Vec<_>>>()?;
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
    if let Some(kind) = filter.kind {
        query.add(" AND kind = ?::smallint", kind as i16);
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
    let of_lane = |on: &str| {
        format!(" AND lane IN (SELECT l.id FROM lanes l WHERE l.tenant = w.tenant AND {on})")
    };
    if let Some(source) = filter.source {
        query.add(&of_lane("l.origin = ?::uuid"), uuid(source.0));
    }
    if let Some(name) = &filter.name {
        query.add(&of_lane("l.name = ?::text"), owned(name));
    }
    if filter.unreplayed && table == "work_done" {
        query.sql.push_str(" AND replayed_as IS NULL");
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
    })
}
