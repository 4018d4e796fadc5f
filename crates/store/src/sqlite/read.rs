//! Reading: lists by cursor, and single things whole.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, ToSql, params_from_iter};
use wakepost_domain::event::{self, Event};
use wakepost_domain::lease::run_id;
use wakepost_domain::run::{Run, RunOutcome};
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, RunId, SourceId, TenantId, Ulid, WorkId};

use super::Sqlite;
use super::rows::{
    Bits, EVENT, RECEIPT, SealedColumn, WORK_DONE, WORK_LIVE, collect, known, receipt, time,
    unavailable, work,
};
use super::work::find;
use crate::error::Result;
use crate::moves::{
    Cursor, EventFilter, EventRow, JobState, ProgressRow, Reading, ReceiptRow, WorkFilter, WorkRow,
};
use crate::vault::Sealed;

#[async_trait]
impl Reading for Sqlite {
    async fn events(
        &self,
        tenant: TenantId,
        filter: EventFilter,
        page: Cursor,
    ) -> Result<Vec<EventRow>> {
        self.readers.read(move |connection, _| events(connection, tenant, &filter, page)).await
    }

    async fn event(&self, tenant: TenantId, id: EventId) -> Result<Option<Event>> {
        self.readers
            .read(move |connection, _| {
                connection
                    .prepare_cached(&format!(
                        "SELECT {EVENT} FROM events WHERE tenant = ?1 AND id = ?2"
                    ))
                    .and_then(|mut select| {
                        select
                            .query_row((tenant.0, Bits(id.to_bytes())), super::rows::event)
                            .optional()
                    })
                    .map_err(unavailable)
            })
            .await
    }

    async fn events_by_id(&self, ids: Vec<(TenantId, EventId)>) -> Result<Vec<Event>> {
        self.readers
            .read_known(move |connection, _| {
                let mut select = connection
                    .prepare_cached(&format!(
                        "SELECT {EVENT} FROM events WHERE tenant = ?1 AND id = ?2"
                    ))
                    .map_err(unavailable)?;
                let mut found = Vec::with_capacity(ids.len());
                for (tenant, id) in ids {
                    let key = (tenant.0, Bits(id.to_bytes()));
                    found.extend(
                        select
                            .query_row(key, super::rows::event)
                            .optional()
                            .map_err(unavailable)?,
                    );
                }
                Ok(found)
            })
            .await
    }

    async fn contents(&self, ids: Vec<EventId>) -> Result<Vec<(EventId, Sealed)>> {
        self.readers
            .read_known(move |connection, _| {
                let mut select = connection
                    .prepare_cached("SELECT content FROM bodies WHERE id = ?1")
                    .map_err(unavailable)?;
                let mut found = Vec::with_capacity(ids.len());
                for id in ids {
                    let content = select
                        .query_row([Bits(id.to_bytes())], |row| row.get::<_, SealedColumn>(0))
                        .optional()
                        .map_err(unavailable)?;
                    found.extend(content.map(|content| (id, content.0)));
                }
                Ok(found)
            })
            .await
    }

    async fn receipts(&self, tenant: TenantId, event: EventId) -> Result<Vec<ReceiptRow>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(&format!(
                        "SELECT {RECEIPT} FROM receipts WHERE event_id = ?1 AND tenant = ?2 ORDER BY id"
                    ))
                    .map_err(unavailable)?;
                collect(
                    select.query_map((Bits(event.to_bytes()), tenant.0), receipt).map_err(unavailable)?,
                )
            })
            .await
    }

    async fn source_receipts(
        &self,
        tenant: TenantId,
        source: SourceId,
        page: Cursor,
    ) -> Result<Vec<ReceiptRow>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(&format!(
                        "SELECT {RECEIPT} FROM receipts WHERE source = ?1 AND tenant = ?2 AND id < ?3
                         ORDER BY id DESC LIMIT ?4"
                    ))
                    .map_err(unavailable)?;
                let rows = select
                    .query_map(
                        (Bits(source.to_bytes()), tenant.0, before(page), page.limit),
                        receipt,
                    )
                    .map_err(unavailable)?;
                collect(rows)
            })
            .await
    }

    async fn work_list(
        &self,
        tenant: TenantId,
        filter: WorkFilter,
        page: Cursor,
    ) -> Result<Vec<WorkRow>> {
        self.readers.read(move |connection, _| work_list(connection, tenant, &filter, page)).await
    }

    async fn work(&self, tenant: TenantId, id: WorkId) -> Result<Option<WorkRow>> {
        self.readers.read(move |connection, _| find(connection, tenant, id)).await
    }

    async fn work_of_event(&self, tenant: TenantId, event: EventId) -> Result<Vec<WorkRow>> {
        self.readers.read(move |connection, _| work_of_event(connection, tenant, event)).await
    }

    async fn joined(&self, works: Vec<WorkId>) -> Result<Vec<(WorkId, EventId)>> {
        self.readers.read_known(move |connection, _| joined(connection, works)).await
    }

    async fn job_states(&self, ids: Vec<WorkId>) -> Result<Vec<(WorkId, JobState)>> {
        self.readers.read_known(move |connection, _| job_states(connection, ids)).await
    }

    async fn runs(&self, tenant: TenantId, id: WorkId) -> Result<Vec<Run>> {
        self.readers.read(move |connection, _| runs(connection, tenant, id)).await
    }

    async fn run_details(&self, tenant: TenantId, id: WorkId) -> Result<Vec<(RunId, Sealed)>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT fence, started_at, detail FROM attempts
                         WHERE work_id = ?1 AND tenant = ?2 AND detail IS NOT NULL ORDER BY fence",
                    )
                    .map_err(unavailable)?;
                let rows = select.query_map((Bits(id.to_bytes()), tenant.0), |row| {
                    let run = run_id(id, row.get(0)?, time(row.get(1)?));
                    Ok((run, row.get::<_, SealedColumn>(2)?.0))
                });
                collect(rows.map_err(unavailable)?)
            })
            .await
    }

    async fn progress_after(
        &self,
        tenant: TenantId,
        id: WorkId,
        seq: i64,
    ) -> Result<Vec<ProgressRow>> {
        self.readers
            .read(move |connection, _| {
                let mut select = connection
                    .prepare_cached(
                        "SELECT seq, at, content FROM progress
                         WHERE work_id = ?1 AND seq > ?2 AND tenant = ?3 ORDER BY seq",
                    )
                    .map_err(unavailable)?;
                let rows = select
                    .query_map((Bits(id.to_bytes()), seq, tenant.0), |row| {
                        Ok(ProgressRow {
                            seq: row.get(0)?,
                            at: time(row.get(1)?),
                            content: row.get::<_, SealedColumn>(2)?.0,
                        })
                    })
                    .map_err(unavailable)?;
                collect(rows)
            })
            .await
    }
}

pub(super) fn before(page: Cursor) -> Bits {
    Bits(page.before.unwrap_or(Ulid::MAX).to_bytes())
}

/// A WHERE clause that grows with its parameters.
pub(super) struct Query {
    pub(super) sql: String,
    pub(super) values: Vec<Box<dyn ToSql>>,
}

impl Query {
    pub(super) fn new(sql: String) -> Query {
        Query { sql, values: Vec::new() }
    }

    /// Adds text whose `?` stand for the values, in order.
    pub(super) fn add(&mut self, sql: &str, values: Vec<Box<dyn ToSql>>) {
        self.sql.push_str(sql);
        self.values.extend(values);
    }

    pub(super) fn run<T>(
        &self,
        connection: &Connection,
        read: fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut select = connection.prepare_cached(&self.sql).map_err(unavailable)?;
        let rows = select.query_map(params_from_iter(&self.values), read).map_err(unavailable)?;
        collect(rows)
    }
}

fn events(
    connection: &Connection,
    tenant: TenantId,
    filter: &EventFilter,
    page: Cursor,
) -> Result<Vec<EventRow>> {
    let mut found: Vec<EventRow> = Vec::new();
    let mut from = page;
    // A status is the sum of several items' states, which SQL narrows and `event::status` decides. A page
    // that lost rows to that is filled up, so that a short page always means the end.
    loop {
        let rows = event_query(tenant, filter, from).run(connection, super::rows::event)?;
        let (count, last) = (rows.len(), rows.last().map(|event| event.id.0));
        for event in rows {
            let work = event_states(connection, &event)?;
            let status = event::status(event.route, work.iter().copied());
            if filter.status.as_deref().is_none_or(|wanted| wanted == status) {
                found.push(EventRow { event, work });
            }
            if found.len() == page.limit as usize {
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
    // Named, since without statistics the walk along all of the tenant's events looks as good.
    let (index, route) = match (filter.published, &filter.thread) {
        (true, None) => ("INDEXED BY events_published", "route = 4"),
        (true, Some(_)) => ("INDEXED BY events_by_thread", "route = 4"),
        (false, _) => ("", "route <> 4"),
    };
    let mut query = Query::new(format!("SELECT {EVENT} FROM events e {index} WHERE {route}"));
    query.add(" AND tenant = ? AND id < ?", vec![Box::new(tenant.0), Box::new(before(page))]);
    if let Some(since) = filter.since {
        query.add(" AND id >= ?", vec![Box::new(Bits(Ulid::floor(since).to_bytes()))]);
    }
    if let Some(until) = filter.until {
        query.add(" AND id < ?", vec![Box::new(Bits(Ulid::floor(until).to_bytes()))]);
    }
    if let Some(sources) = &filter.sources {
        let marks = vec!["?"; sources.len()].join(", ");
        let values = sources.iter().map(|id| Box::new(Bits(id.to_bytes())) as Box<dyn ToSql>);
        query.add(&format!(" AND source IN ({marks})"), values.collect());
    }
    if let Some(pattern) = &filter.event_type {
        match pattern.strip_suffix('*') {
            Some(prefix) => prefix_condition(&mut query, &["type"], prefix),
            None => query.add(" AND type = ?", vec![Box::new(pattern.clone())]),
        }
    }
    if let Some(subject) = &filter.subject {
        query.add(" AND subject = ?", vec![Box::new(subject.clone())]);
    }
    if let Some(thread) = &filter.thread {
        query.add(" AND thread = ?", vec![Box::new(thread.clone())]);
    }
    if let Some(key) = &filter.dedup_key {
        query.add(" AND dedup_key = ?", vec![Box::new(key.clone())]);
    }
    if let Some(prefix) = &filter.prefix {
        match prefix.parse::<EventId>() {
            Ok(id) => query.add(" AND id = ?", vec![Box::new(Bits(id.to_bytes()))]),
            Err(_) => begins_with(&mut query, prefix),
        }
    }
    if let Some(status) = &filter.status {
        status_condition(&mut query, tenant, status);
    }
    query.add(" ORDER BY id DESC LIMIT ?", vec![Box::new(page.limit)]);
    query
}

/// Whatever an event shows begins with this.
fn begins_with(query: &mut Query, prefix: &str) {
    const SHOWN: [&str; 3] = ["type", "subject", "dedup_key"];
    let Some((first, last)) = id_range(prefix) else {
        return prefix_condition(query, &SHOWN, prefix);
    };
    query.add(
        " AND (id BETWEEN ? AND ? OR (1 = 1",
        vec![Box::new(Bits(first.to_bytes())), Box::new(Bits(last.to_bytes()))],
    );
    prefix_condition(query, &SHOWN, prefix);
    query.add("))", vec![]);
}

/// The ids whose text begins with this, if it can be the beginning of one.
pub(crate) fn id_range(prefix: &str) -> Option<(EventId, EventId)> {
    const LEN: usize = "evt_".len() + 26;
    // The first digit of an id is at most 7: it has three bits.
    let last = if prefix.len() == "evt_".len() { "7" } else { "" };
    let fill = |digit: &str, next: &str| {
        let text = format!("{prefix}{next}");
        let rest = LEN.checked_sub(text.len())?;
        (text + &digit.repeat(rest)).parse().ok()
    };
    Some((fill("0", "")?, fill("Z", last)?))
}

/// Text order makes a prefix a range: no pattern language, nothing to escape.
fn prefix_condition(query: &mut Query, columns: &[&str], prefix: &str) {
    let end = format!("{prefix}\u{10FFFF}");
    let conditions: Vec<String> =
        columns.iter().map(|column| format!("({column} >= ? AND {column} < ?)")).collect();
    let values = columns.iter().flat_map(|_| {
        [Box::new(prefix.to_owned()) as Box<dyn ToSql>, Box::new(end.clone()) as Box<dyn ToSql>]
    });
    query.add(&format!(" AND ({})", conditions.join(" OR ")), values.collect());
}

/// Narrows events to those with an item in the state. Common states are looked up event by event, so that
/// the limit ends the search early; rare ones are listed first.
fn status_condition(query: &mut Query, tenant: TenantId, status: &str) {
    let Some(state) = State::from_word(status) else {
        let route = if status == "unmapped" { 2 } else { 1 };
        query.add(" AND route = ?", vec![Box::new(route)]);
        return;
    };
    let table = if state.is_terminal() { "work_done" } else { "work" };
    let code = Box::new(state as i16);
    match state {
        State::Succeeded | State::Pending => query.add(
            &format!(
                " AND (EXISTS (SELECT 1 FROM {table} w WHERE w.tenant = e.tenant AND w.id = e.id AND w.state = ?)
                   OR EXISTS (SELECT 1 FROM {table} w WHERE w.event_id = e.id AND w.event_id <> w.id
                              AND w.tenant = e.tenant AND w.state = ?)
                   OR EXISTS (SELECT 1 FROM joined j JOIN {table} w ON w.tenant = j.tenant AND w.id = j.work_id
                              WHERE j.event_id = e.id AND j.tenant = e.tenant AND w.state = ?)
                   OR (? AND route IN (0, 3, 4)))"
            ),
            vec![
                code,
                Box::new(state as i16),
                Box::new(state as i16),
                Box::new(state == State::Succeeded),
            ],
        ),
        _ => query.add(
            &format!(
                " AND id IN (SELECT event_id FROM {table} WHERE tenant = ? AND state = ?
                             UNION ALL
                             SELECT j.event_id FROM {table} w JOIN joined j ON j.work_id = w.id
                             WHERE w.tenant = ? AND w.state = ?)"
            ),
            vec![
                Box::new(tenant.0),
                code,
                Box::new(tenant.0),
                Box::new(state as i16),
            ],
        ),
    }
}

fn event_states(connection: &Connection, event: &Event) -> Result<Vec<State>> {
    let work = work_of_event(connection, event.tenant, event.id)?;
    Ok(work.into_iter().filter(|row| row.replayed_as.is_none()).map(|row| row.state).collect())
}

pub(super) fn work_of_event(
    connection: &Connection,
    tenant: TenantId,
    event: EventId,
) -> Result<Vec<WorkRow>> {
    // The first item carries the event's own bits; only later ones need the index.
    let mut found: Vec<WorkRow> = find(connection, tenant, WorkId::first_of(event))?
        .into_iter()
        .filter(|row| row.event == Some(event))
        .collect();
    for (columns, table) in [(WORK_LIVE, "work"), (WORK_DONE, "work_done")] {
        let mut select = connection
            .prepare_cached(&format!(
                "SELECT {columns} FROM {table} WHERE event_id = ?1 AND event_id <> id AND tenant = ?2"
            ))
            .map_err(unavailable)?;
        let rows =
            select.query_map((Bits(event.to_bytes()), tenant.0), work).map_err(unavailable)?;
        found.extend(collect(rows)?);
    }
    for work in joined_works(connection, event)? {
        found.extend(find(connection, tenant, work)?);
    }
    found.sort_by_key(|row| row.id);
    Ok(found)
}

fn joined_works(connection: &Connection, event: EventId) -> Result<Vec<WorkId>> {
    let mut select = connection
        .prepare_cached("SELECT work_id FROM joined WHERE event_id = ?1")
        .map_err(unavailable)?;
    let works = select.query_map([Bits(event.to_bytes())], |row| {
        Ok(WorkId::from_bytes(row.get::<_, Bits>(0)?.0))
    });
    collect(works.map_err(unavailable)?)
}

fn joined(connection: &Connection, works: Vec<WorkId>) -> Result<Vec<(WorkId, EventId)>> {
    let mut select = connection
        .prepare_cached("SELECT event_id FROM joined WHERE work_id = ?1 ORDER BY place")
        .map_err(unavailable)?;
    let mut found = Vec::new();
    for work in works {
        let events = select.query_map([Bits(work.to_bytes())], |row| {
            Ok((work, EventId::from_bytes(row.get::<_, Bits>(0)?.0)))
        });
        found.extend(collect(events.map_err(unavailable)?)?);
    }
    Ok(found)
}

fn work_list(
    connection: &Connection,
    tenant: TenantId,
    filter: &WorkFilter,
    page: Cursor,
) -> Result<Vec<WorkRow>> {
    let live = filter.state.is_none_or(|state| !state.is_terminal());
    let done = filter.state.is_none_or(State::is_terminal);
    let mut found = Vec::new();
    if live {
        found.extend(work_query("work", WORK_LIVE, tenant, filter, page).run(connection, work)?);
    }
    if done {
        found.extend(
            work_query("work_done", WORK_DONE, tenant, filter, page).run(connection, work)?,
        );
    }
    found.sort_by_key(|row| std::cmp::Reverse(row.id));
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
    let mut query = Query::new(format!("SELECT {columns} FROM {table} WHERE"));
    query.add(" tenant = ? AND id < ?", vec![Box::new(tenant.0), Box::new(before(page))]);
    match filter.kind {
        // With those of kinds that only a newer program knows: they are seen as jobs.
        Some(WorkKind::Job) => query.add(" AND kind NOT IN (1, 2, 3)", vec![]),
        Some(kind) => query.add(" AND kind = ?", vec![Box::new(kind as i16)]),
        None => {}
    }
    match filter.state {
        // Spelled out, so that the index on dead letters is used.
        Some(State::DeadLetter) => query.add(" AND state = 8", vec![]),
        Some(state) => query.add(" AND state = ?", vec![Box::new(state as i16)]),
        None => {}
    }
    if let Some(since) = filter.since {
        query.add(" AND id >= ?", vec![Box::new(Bits(Ulid::floor(since).to_bytes()))]);
    }
    if let Some(subject) = &filter.subject {
        query.add(" AND subject = ?", vec![Box::new(subject.clone())]);
    }
    if let Some(thread) = &filter.thread {
        query.add(
            " AND event_id IN (SELECT id FROM events WHERE tenant = ? AND thread = ?)",
            vec![Box::new(tenant.0), Box::new(thread.clone())],
        );
    }
    if let Some(source) = filter.source {
        query.add(
            " AND lane IN (SELECT id FROM lanes WHERE tenant = ? AND origin = ?)",
            vec![Box::new(tenant.0), Box::new(Bits(source.to_bytes()))],
        );
    }
    if let Some(name) = &filter.name {
        query.add(
            " AND lane IN (SELECT id FROM lanes WHERE tenant = ? AND name = ?)",
            vec![Box::new(tenant.0), Box::new(name.clone())],
        );
    }
    query.add(" ORDER BY id DESC LIMIT ?", vec![Box::new(page.limit)]);
    query
}

fn job_states(connection: &Connection, ids: Vec<WorkId>) -> Result<Vec<(WorkId, JobState)>> {
    let mut select = connection
        .prepare_cached(
            "SELECT input, checkpoint, result, reply, cost, scheduled_for FROM job_state WHERE work_id = ?1",
        )
        .map_err(unavailable)?;
    let mut found = Vec::new();
    for id in ids {
        let state = select
            .query_row([Bits(id.to_bytes())], |row| {
                let sealed = |column| {
                    Ok::<_, rusqlite::Error>(
                        row.get::<_, Option<SealedColumn>>(column)?.map(|found| found.0),
                    )
                };
                Ok(JobState {
                    input: sealed(0)?,
                    checkpoint: sealed(1)?,
                    result: sealed(2)?,
                    reply: sealed(3)?,
                    cost: row.get(4)?,
                    scheduled_for: row.get::<_, Option<i64>>(5)?.map(time),
                })
            })
            .optional()
            .map_err(unavailable)?;
        found.extend(state.map(|state| (id, state)));
    }
    Ok(found)
}

fn runs(connection: &Connection, tenant: TenantId, id: WorkId) -> Result<Vec<Run>> {
    let mut select = connection
        .prepare_cached(
            "SELECT fence, attempt, worker, started_at, ended_at, outcome, error,
                    (SELECT c.cost FROM costs c WHERE c.work_id = a.work_id AND c.fence = a.fence)
             FROM attempts a
             WHERE work_id = ?1 AND tenant = ?2
             UNION ALL
             SELECT fence, attempts, worker, started_at, finished_at, 0, NULL,
                    (SELECT c.cost FROM costs c WHERE c.work_id = d.id AND c.fence = d.fence)
             FROM work_done d
             WHERE id = ?1 AND tenant = ?2 AND state = 6
             ORDER BY fence",
        )
        .map_err(unavailable)?;
    let rows = select
        .query_map((Bits(id.to_bytes()), tenant.0), |row| {
            let started_at = time(row.get(3)?);
            Ok(Run {
                id: run_id(id, row.get(0)?, started_at),
                attempt: row.get(1)?,
                worker: row.get(2)?,
                started_at,
                ended_at: time(row.get(4)?),
                outcome: known(row.get(5)?, RunOutcome::from_code)?,
                error: row.get(6)?,
                cost: row.get(7)?,
            })
        })
        .map_err(unavailable)?;
    collect(rows)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::super::{Durability, migrate, writer};
    use super::*;
    use crate::moves::Page;

    #[test]
    fn a_list_of_what_was_published_walks_past_nothing_else() {
        let memory = Path::new(":memory:");
        let mut connection = writer::connect(memory, Durability::Full, &Arc::default()).unwrap();
        migrate::migrate(&mut connection).unwrap();
        let page = Page { before: None, limit: 50 };
        for (thread, index) in [
            (None, "events_published (tenant=? AND id<?)"),
            (Some("wakepost:job:job_7"), "events_by_thread (tenant=? AND thread=? AND id<?)"),
        ] {
            let thread = thread.map(str::to_owned);
            let filter = EventFilter { published: true, thread, ..EventFilter::default() };
            let query = event_query(TenantId::DEFAULT, &filter, page);
            let sql = format!("EXPLAIN QUERY PLAN {}", query.sql);
            let mut explain = connection.prepare(&sql).unwrap();
            let steps = explain.query_map(params_from_iter(&query.values), |row| row.get(3));
            let steps: Vec<String> = steps.unwrap().collect::<rusqlite::Result<_>>().unwrap();
            let plan = steps.join("\n");
            assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
