//! Dead letters: listed by filter, and purged.

use async_trait::async_trait;
use rusqlite::{Connection, ToSql};
use wakepost_domain::work::WorkKind;
use wakepost_domain::{OperationId, TenantId, WorkId};

use super::Sqlite;
use super::read::{Query, before};
use super::rows::{Bits, WORK_DONE, unavailable, work};
use crate::error::Result;
use crate::moves::{Cursor, DeadFilter, DeadLetters, WorkRow};

#[async_trait]
impl DeadLetters for Sqlite {
    async fn dead_letters(
        &self,
        tenant: TenantId,
        filter: DeadFilter,
        page: Cursor,
    ) -> Result<Vec<WorkRow>> {
        let read =
            move |connection: &Connection, _| query(tenant, &filter, page).run(connection, work);
        self.readers.read(read).await
    }

    async fn purge(&self, tenant: TenantId, works: Vec<WorkId>, by: OperationId) -> Result<u64> {
        self.write_whole(0, move |tx, _| {
            let mut purged = 0;
            for id in &works {
                purged += u64::from(purge(tx, tenant, *id, by).map_err(unavailable)?);
            }
            Ok(purged)
        })
        .await
    }
}

fn query(tenant: TenantId, filter: &DeadFilter, page: Cursor) -> Query {
    // Named, since without statistics the walk along all that ended looks as good.
    let index = if filter.dealt_with { "work_done_dead" } else { "work_done_open" };
    let from = format!("SELECT {WORK_DONE} FROM work_done INDEXED BY {index} WHERE");
    let mut query = Query::new(from);
    // What is chosen is looked up one by one. Without the plus, all that is open would be walked along, for its order.
    let below = if filter.chosen.is_some() { "+id < ?" } else { "id < ?" };
    let range = vec![Box::new(tenant.0) as _, Box::new(before(page)) as _];
    query.add(&format!(" tenant = ? AND {below} AND state = 8"), range);
    if !filter.dealt_with {
        // Spelled as in its index.
        query.add(" AND replayed_as IS NULL AND purged_by IS NULL", vec![]);
    }
    if let Some(chosen) = &filter.chosen {
        one_of(&mut query, chosen);
    }
    if let Some(kind) = filter.kind {
        query.add(" AND kind = ?", vec![Box::new(kind as i16)]);
    }
    if let Some(lane) = filter.lane {
        query.add(" AND lane = ?", vec![Box::new(lane.0)]);
    }
    if let Some(since) = filter.since {
        query.add(" AND finished_at >= ?", vec![Box::new(since.as_millis())]);
    }
    if let Some(until) = filter.until {
        query.add(" AND finished_at < ?", vec![Box::new(until.as_millis())]);
    }
    if let Some(source) = filter.source {
        let source = Bits(source.to_bytes());
        let of = vec![Box::new(tenant.0) as _, Box::new(source) as _];
        query.add(" AND lane IN (SELECT id FROM lanes WHERE tenant = ? AND origin = ?)", of);
    }
    if let Some(text) = &filter.text {
        has(&mut query, tenant, filter, text);
    }
    query.add(" ORDER BY id DESC LIMIT ?", vec![Box::new(page.limit)]);
    query
}

/// The ids lead to the rows; that each is of its kind is seen there.
fn one_of(query: &mut Query, chosen: &[(WorkKind, WorkId)]) {
    // Differs from PostgreSQL, whose arrays may be empty: VALUES may not.
    if chosen.is_empty() {
        return query.add(" AND false", vec![]);
    }
    let id = |id: &WorkId| Box::new(Bits(id.to_bytes())) as Box<dyn ToSql>;
    let marks = |mark: &str| vec![mark; chosen.len()].join(", ");
    let ids = chosen.iter().map(|(_, work)| id(work)).collect();
    query.add(&format!(" AND id IN ({})", marks("?")), ids);
    let pairs = chosen.iter().flat_map(|(kind, work)| [Box::new(*kind as i16) as _, id(work)]);
    query.add(&format!(" AND (kind, id) IN (VALUES {})", marks("(?, ?)")), pairs.collect());
}

/// Text order makes a prefix a range: no pattern language, nothing to escape.
fn has(query: &mut Query, tenant: TenantId, filter: &DeadFilter, text: &str) {
    let end = format!("{text}\u{10FFFF}");
    query.add(" AND (instr(coalesce(last_error, ''), ?) > 0", vec![Box::new(text.to_owned())]);
    let range = vec![Box::new(text.to_owned()) as _, Box::new(end.clone()) as _];
    query.add(" OR (subject >= ? AND subject < ?)", range);
    query.add(
        " OR lane IN (SELECT id FROM lanes WHERE tenant = ? AND name >= ? AND name < ?)",
        vec![Box::new(tenant.0), Box::new(text.to_owned()), Box::new(end)],
    );
    if let Some((kind, first, last)) = filter.ids() {
        query.add(
            " OR (kind = ? AND id BETWEEN ? AND ?)",
            vec![
                Box::new(kind as i16),
                Box::new(Bits(first.to_bytes())),
                Box::new(Bits(last.to_bytes())),
            ],
        );
    }
    if let Some((first, last)) = filter.events() {
        let range =
            vec![Box::new(Bits(first.to_bytes())) as _, Box::new(Bits(last.to_bytes())) as _];
        query.add(" OR event_id BETWEEN ? AND ?", range);
    }
    if let Some(by) = filter.purged_by {
        query.add(" OR purged_by = ?", vec![Box::new(Bits(by.to_bytes()))]);
    }
    query.add(")", vec![]);
}

fn purge(tx: &Connection, tenant: TenantId, id: WorkId, by: OperationId) -> rusqlite::Result<bool> {
    let (id, by) = (Bits(id.to_bytes()), Bits(by.to_bytes()));
    let marked = tx
        .prepare_cached(
            "UPDATE work_done SET purged_by = ?3, last_error = NULL WHERE tenant = ?1 AND id = ?2
             AND state = 8 AND replayed_as IS NULL AND purged_by IS NULL",
        )?
        .execute((tenant.0, id, by))?;
    if marked == 0 {
        return Ok(false);
    }
    for table in ["job_state", "attempts", "progress"] {
        tx.prepare_cached(&format!("DELETE FROM {table} WHERE work_id = ?1"))?.execute([id])?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use rusqlite::params_from_iter;

    use super::super::{Durability, migrate, writer};
    use super::*;
    use crate::moves::Page;

    #[test]
    fn a_list_walks_along_what_nobody_dealt_with_and_looks_up_what_is_chosen() {
        let memory = Path::new(":memory:");
        let mut connection = writer::connect(memory, Durability::Full, &Arc::default()).unwrap();
        migrate::migrate(&mut connection).unwrap();
        let text = Some("job_01".to_owned());
        let chosen = Some(vec![(WorkKind::Job, WorkId::from_bytes([7; 16])); 2]);
        let walk = "tenant=? AND id<?";
        for (filter, index, by) in [
            (DeadFilter { text, ..DeadFilter::default() }, "work_done_open", walk),
            (DeadFilter { dealt_with: true, ..DeadFilter::default() }, "work_done_dead", walk),
            (DeadFilter { chosen, ..DeadFilter::default() }, "work_done_open", "tenant=? AND id=?"),
        ] {
            let query = query(TenantId::DEFAULT, &filter, Page { before: None, limit: 50 });
            let sql = format!("EXPLAIN QUERY PLAN {}", query.sql);
            let mut explain = connection.prepare(&sql).unwrap();
            let steps = explain.query_map(params_from_iter(&query.values), |row| row.get(3));
            let steps: Vec<String> = steps.unwrap().collect::<rusqlite::Result<_>>().unwrap();
            let plan = steps.join("\n");
            assert!(plan.contains(&format!("INDEX {index} ({by})")), "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
