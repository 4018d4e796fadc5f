//! The list of events, with its filters; and the statement that grows with them.

use std::collections::HashMap;

use deadpool_postgres::{Client, GenericClient};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakepost_domain::event::{self, Event, Route};
use wakepost_domain::work::State;
use wakepost_domain::{EventId, TenantId, Ulid};

use super::rows::{EVENT, code, event as event_row, id, query, text, uuid};
use crate::error::Result;
use crate::moves::{Cursor, EventFilter, EventRow};

/// Where a page ends.
pub fn before(page: Cursor) -> Uuid {
    uuid(page.before.unwrap_or(Ulid::MAX))
}

/// A statement that grows with its parameters.
pub struct Query {
    pub sql: String,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Query {
    pub fn new(sql: String) -> Query {
        Query { sql, values: Vec::new() }
    }

    /// Adds text, each `?` of which stands for the value.
    pub fn add(&mut self, sql: &str, value: impl ToSql + Sync + Send + 'static) {
        self.values.push(Box::new(value));
        self.sql.push_str(&sql.replace('?', &format!("${}", self.values.len())));
    }

    pub async fn run(&self, on: &impl GenericClient) -> Result<Vec<Row>> {
        let values: Vec<&(dyn ToSql + Sync)> =
            self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
        Ok(query(on, &self.sql, &values).await?)
    }
}

/// Events, newest first.
pub async fn events(
    client: &mut Client,
    tenant: TenantId,
    filter: &EventFilter,
    page: Cursor,
) -> Result<Vec<EventRow>> {
    if filter.thread.is_none() {
        return found(&*client, tenant, filter, page).await;
    }
    // A thread has few events and an index of its own. A plan that was kept from when there were few events at all may
    // walk along all of a tenant's instead.
    let tx = client.transaction().await?;
    tx.batch_execute("SET LOCAL plan_cache_mode = force_custom_plan").await?;
    found(&tx, tenant, filter, page).await
}

async fn found(
    client: &impl GenericClient,
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
        let events = rows.iter().map(event_row).collect::<Result<Vec<Event>>>()?;
        let (count, last) = (events.len(), events.last().map(|event| event.id.0));
        let mut states = event_states(client, tenant, &events).await?;
        for event in events {
            let work = states.remove(&event.id).unwrap_or_default();
            let status = event::status(event.route, work.iter().copied());
            if filter.status.as_deref().is_none_or(|wanted| wanted == status) {
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
    query.sql.push_str(match (filter.published, &filter.thread) {
        // Spelled as in its index.
        (true, None) => " AND route = 4",
        // And so that it is not: before there are statistics it seems to lead there in fewer steps than the thread's.
        (true, Some(_)) => " AND route + 0 = 4",
        (false, _) => " AND route <> 4",
    });
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
    if let Some(thread) = &filter.thread {
        query.add(" AND thread = ?::text", owned(thread));
    }
    if let Some(key) = &filter.dedup_key {
        query.add(" AND dedup_key = ?::text", owned(key));
    }
    if let Some(prefix) = &filter.prefix {
        match prefix.parse::<EventId>() {
            Ok(id) => query.add(" AND id = ?::uuid", uuid(id.0)),
            Err(_) => begins_with(&mut query, prefix),
        }
    }
    if let Some(status) = &filter.status {
        status_condition(&mut query, tenant, status);
    }
    query.add(" ORDER BY id DESC LIMIT ?::bigint", i64::from(page.limit));
    query
}

/// Whatever an event shows begins with this.
fn begins_with(query: &mut Query, prefix: &str) {
    query.add(
        " AND (starts_with(type, ?::text) OR starts_with(subject, ?::text)
               OR starts_with(dedup_key, ?::text)",
        owned(prefix),
    );
    if let Some((first, last)) = id_range(prefix) {
        query.add(" OR (id >= ?::uuid", uuid(first.0));
        query.add(" AND id <= ?::uuid)", uuid(last.0));
    }
    query.sql.push(')');
}

/// The ids whose text begins with this, if it can be the beginning of one.
fn id_range(prefix: &str) -> Option<(EventId, EventId)> {
    const LEN: usize = EventId::PREFIX.len() + 1 + 26;
    // The first digit of an id is at most 7: it has three bits.
    let last = if prefix.len() == EventId::PREFIX.len() + 1 { "7" } else { "" };
    let fill = |digit: &str, next: &str| {
        let text = format!("{prefix}{next}");
        let rest = LEN.checked_sub(text.len())?;
        (text + &digit.repeat(rest)).parse().ok()
    };
    Some((fill("0", "")?, fill("Z", last)?))
}

/// A text that a statement keeps.
pub fn owned(value: &str) -> String {
    text(value).into_owned()
}

/// Narrows events to those with an item in the state. Common states are looked up event by event, so that
/// the limit ends the search early; rare ones are listed first.
fn status_condition(query: &mut Query, tenant: TenantId, status: &str) {
    let Some(state) = State::from_word(status) else {
        let route = if status == "unmapped" { Route::Unmapped } else { Route::Ignored };
        query.add(" AND route = ?::smallint", route as i16);
        return;
    };
    let table = if state.is_terminal() { "work_done" } else { "work" };
    let condition = match state {
        State::Succeeded | State::Pending => {
            // The work's history is kept for less long than the event, which then counts as succeeded.
            let or_forgotten = if state == State::Succeeded { "OR route IN (0, 3, 4)" } else { "" };
            // OFFSET keeps the planner from reading all of a table into a hash, for a page of some dozen events: it
            // did where that just fits into its memory.
            format!(
                " AND (EXISTS (SELECT 1 FROM {table} w WHERE w.tenant = e.tenant AND w.id = e.id
                               AND w.state = ?::smallint OFFSET 0)
                       OR EXISTS (SELECT 1 FROM {table} w WHERE w.event_id = e.id
                                  AND w.event_id <> w.id AND w.tenant = e.tenant
                                  AND w.state = ?::smallint OFFSET 0)
                       OR EXISTS (SELECT 1 FROM joined j
                                  JOIN {table} w ON w.tenant = j.tenant AND w.id = j.work_id
                                  WHERE j.event_id = e.id AND j.tenant = e.tenant
                                  AND w.state = ?::smallint OFFSET 0)
                       {or_forgotten})"
            )
        }
        _ => {
            // The tenant by its value, not by the event's: then the list is made once, not for each event.
            let of = |column: &str, from: &str| {
                format!("SELECT {column} FROM {from} WHERE w.tenant = ?::int AND w.state")
            };
            let joined = format!("{table} w JOIN joined j ON j.work_id = w.id");
            query
                .add(&format!(" AND id IN ({}", of("w.event_id", &format!("{table} w"))), tenant.0);
            query.add(" = ?::smallint UNION ALL ", state as i16);
            query.add(&of("j.event_id", &joined), tenant.0);
            " = ?::smallint)".to_owned()
        }
    };
    query.add(&condition, state as i16);
}

/// The first item of an event carries the event's own bits; only later ones and deliveries need the index. OFFSET keeps
/// the planner from another: by the tenant's key, it would be a walk along all of the tenant's work for each event.
const STATES: &str = "
WITH e AS MATERIALIZED (SELECT * FROM unnest($2::uuid[]) AS e (id))
SELECT e.id, w.state, w.id FROM e JOIN work w
  ON w.tenant = $1::int AND w.id = e.id AND w.event_id = e.id
UNION ALL
SELECT e.id, w.state, w.id FROM e CROSS JOIN LATERAL (
  SELECT state, id, tenant FROM work WHERE event_id = e.id AND event_id <> id OFFSET 0) w
WHERE w.tenant = $1::int
UNION ALL
SELECT e.id, d.state, d.id FROM e JOIN work_done d
  ON d.tenant = $1::int AND d.id = e.id AND d.event_id = e.id AND d.replayed_as IS NULL
UNION ALL
SELECT e.id, d.state, d.id FROM e CROSS JOIN LATERAL (
  SELECT state, id, tenant, replayed_as FROM work_done WHERE event_id = e.id AND event_id <> id OFFSET 0) d
WHERE d.tenant = $1::int AND d.replayed_as IS NULL
UNION ALL
SELECT e.id, w.state, w.id FROM e JOIN joined j ON j.event_id = e.id
JOIN work w ON w.tenant = $1::int AND w.id = j.work_id
UNION ALL
SELECT e.id, d.state, d.id FROM e JOIN joined j ON j.event_id = e.id
JOIN work_done d ON d.tenant = $1::int AND d.id = j.work_id AND d.replayed_as IS NULL
ORDER BY 3";

async fn event_states(
    client: &impl GenericClient,
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
