//! Dead letters: listed by filter, and purged.

use async_trait::async_trait;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{OperationId, TenantId, WorkId};

use super::Postgres;
use super::event_list::{Query, before, owned};
use super::rows::{WORK_DONE, query as fetch, uuid, work};
use crate::error::Result;
use crate::moves::{Cursor, DeadFilter, DeadLetters, WorkRow};

#[async_trait]
impl DeadLetters for Postgres {
    async fn dead_letters(
        &self,
        tenant: TenantId,
        filter: DeadFilter,
        page: Cursor,
    ) -> Result<Vec<WorkRow>> {
        let client = self.cool().await?;
        query(tenant, &filter, page).run(&client).await?.iter().map(work).collect()
    }

    async fn purge(&self, tenant: TenantId, works: Vec<WorkId>, by: OperationId) -> Result<u64> {
        let client = self.cool().await?;
        let ids: Vec<_> = works.iter().map(|id| uuid(id.0)).collect();
        let purged = fetch(&client, PURGE, &[&tenant.0, &ids, &uuid(by.0)]).await?;
        Ok(purged.len() as u64)
    }
}

fn query(tenant: TenantId, filter: &DeadFilter, page: Cursor) -> Query {
    let mut query = Query::new(format!("SELECT {WORK_DONE} FROM work_done w WHERE state = 8"));
    query.add(" AND tenant = ?::int", tenant.0);
    query.add(" AND id < ?::uuid", before(page));
    if !filter.dealt_with {
        // Spelled as in its index.
        query.sql.push_str(" AND replayed_as IS NULL AND purged_by IS NULL");
    }
    if let Some(chosen) = &filter.chosen {
        one_of(&mut query, chosen);
    }
    if let Some(kind) = filter.kind {
        query.add(" AND kind = ?::smallint", kind as i16);
    }
    if let Some(since) = filter.since {
        query.add(" AND finished_at >= ?::bigint", since.as_millis());
    }
    if let Some(until) = filter.until {
        query.add(" AND finished_at < ?::bigint", until.as_millis());
    }
    if let Some(source) = filter.source {
        query.add(&of_lane("l.origin = ?::uuid"), uuid(source.0));
    }
    if let Some(lane) = filter.lane {
        query.add(" AND lane = ?::bigint", lane.0);
    }
    if let Some(text) = &filter.text {
        has(&mut query, filter, text);
    }
    query.add(" ORDER BY id DESC LIMIT ?::bigint", i64::from(page.limit));
    query
}

/// The ids lead to the rows; that each is of its kind is seen there.
fn one_of(query: &mut Query, chosen: &[(WorkKind, WorkId)]) {
    let ids = || chosen.iter().map(|(_, id)| uuid(id.0)).collect::<Vec<_>>();
    let kinds: Vec<i16> = chosen.iter().map(|(kind, _)| *kind as i16).collect();
    query.add(" AND id = ANY(?::uuid[])", ids());
    query.add(" AND (kind, id) IN (SELECT * FROM unnest(?::smallint[]", kinds);
    query.add(", ?::uuid[]))", ids());
}

fn of_lane(on: &str) -> String {
    format!(" AND lane IN (SELECT l.id FROM lanes l WHERE l.tenant = w.tenant AND {on})")
}

fn has(query: &mut Query, filter: &DeadFilter, text: &str) {
    query.add(
        " AND (strpos(coalesce(last_error, ''), ?::text) > 0 OR starts_with(subject, ?::text)
               OR lane IN (SELECT l.id FROM lanes l
                           WHERE l.tenant = w.tenant AND starts_with(l.name, ?::text))",
        owned(text),
    );
    if let Some((kind, first, last)) = filter.ids() {
        query.add(" OR (kind = ?::smallint", kind as i16);
        query.add(" AND id >= ?::uuid", uuid(first));
        query.add(" AND id <= ?::uuid)", uuid(last));
    }
    if let Some((first, last)) = filter.events() {
        query.add(" OR (event_id >= ?::uuid", uuid(first));
        query.add(" AND event_id <= ?::uuid)", uuid(last));
    }
    if let Some(by) = filter.purged_by {
        query.add(" OR purged_by = ?::uuid", uuid(by.0));
    }
    query.sql.push(')');
}

/// Locked in their order, as wherever several are.
const PURGE: &str = "
WITH open AS MATERIALIZED (
  SELECT d.tenant, d.id FROM (SELECT DISTINCT id FROM unnest($2::uuid[]) AS i (id) ORDER BY id) i
  CROSS JOIN LATERAL (
    SELECT tenant, id FROM work_done
    WHERE tenant = $1::int AND id = i.id AND state = 8 AND replayed_as IS NULL AND purged_by IS NULL
    FOR UPDATE) d
), states AS (
  DELETE FROM job_state s USING open o WHERE s.work_id = o.id
), runs AS (
  DELETE FROM attempts a USING open o WHERE a.work_id = o.id
), signs AS (
  DELETE FROM progress p USING open o WHERE p.work_id = o.id
)
UPDATE work_done d SET purged_by = $3::uuid, last_error = NULL
FROM open o WHERE d.tenant = o.tenant AND d.id = o.id
RETURNING d.id";
