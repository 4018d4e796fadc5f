//! Retention of tenants that keep less than the server: one walk after the other, in small steps.
//!
//! Differs from SQLite: what may go is found and removed in one transaction, which makes nobody wait, and whether something
//! needs it is asked once, where it is removed.

use deadpool_postgres::Transaction;
use uuid::Uuid;
use wakepost_domain::{TenantId, Timestamp, Ulid};

use super::prune::{floor, is_alone, needed, needed_body, unshared_effect};
use super::rows::{Params, execute, get, query_opt, ulid, uuid};
use super::{Postgres, commit, revivals};
use crate::error::Result;
use crate::failpoint;
use crate::moves::{Found, OWN_LOOK, OWN_STEP, OwnWalk, Walked};

/// A walk looks rows up by their keys. A plan that reads a whole table for it, or all weeks of one, is never better.
const ONLY_INDEXES: &str = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
     SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off";

/// A walk along the rows `l` that `$look` lists in order; of those that may go, the first few. `$1` is how many rows it looks
/// at, `$2` how many may go, `$3` the last row before, and `$4` the first id to keep.
macro_rules! walk {
    ($look:expr, $goes:expr) => {
        concat!(
            "WITH look AS MATERIALIZED (", $look, " ORDER BY id LIMIT $1::bigint),
             found AS MATERIALIZED (
               SELECT l.id, l.beside FROM look l WHERE ", $goes, " ORDER BY l.id LIMIT $2::bigint)
             SELECT ARRAY(SELECT id FROM found ORDER BY id), ARRAY(SELECT beside FROM found ORDER BY id),
                    (SELECT count(*) FROM look), (SELECT id FROM look ORDER BY id DESC LIMIT 1)"
        )
    };
}

const BODIES: &str = walk!(
    "SELECT id, coalesce(body_id, id) AS beside FROM events
     WHERE tenant = $5::int AND id > $3::uuid AND id < $4::uuid",
    "EXISTS (SELECT 1 FROM bodies b WHERE b.id = l.beside)"
);
const EVENTS: &str = walk!(
    "SELECT id, coalesce(body_id, id) AS beside FROM events
     WHERE tenant = $5::int AND id > $3::uuid AND id < $4::uuid",
    "true"
);
const RUNS: &str = walk!(
    "SELECT id, scope AS beside, finished_at FROM work_done
     WHERE tenant = $5::int AND id > $3::uuid AND id < $4::uuid AND state <> 8",
    "l.finished_at < $6::bigint"
);
const DEAD_LETTERS: &str = walk!(
    "SELECT id, scope AS beside, finished_at FROM work_done
     WHERE tenant = $5::int AND id > $3::uuid AND id < $4::uuid AND state = 8",
    "l.finished_at < $6::bigint"
);
const RECEIPTS: &str = walk!(
    "SELECT id, id AS beside, tenant FROM receipts WHERE id > $3::uuid AND id < $4::uuid",
    "EXISTS (SELECT 1 FROM unnest($5::int[], $6::uuid[]) AS o (tenant, cut)
             WHERE o.tenant = l.tenant AND l.id < o.cut)"
);

/// `$1` is the tenant, `$2` the ids, and they are all from `$3` to `$4`, which says in which weeks they are.
const REMOVE_BODIES: &str = concat!(
    "DELETE FROM bodies r WHERE r.tenant = $1::int AND r.id = ANY ($2::uuid[])
       AND r.id BETWEEN $3::uuid AND $4::uuid AND NOT ",
    needed_body!("r")
);
const REMOVE_EVENTS: &str = concat!(
    "DELETE FROM events r WHERE r.tenant = $1::int AND r.id = ANY ($2::uuid[])
       AND r.id BETWEEN $3::uuid AND $4::uuid AND NOT ",
    needed!("r")
);
/// What an item leaves behind goes with its row. Effects go with the last item that shares them.
const REMOVE_WORK: [&str; 6] = [
    "DELETE FROM work_done WHERE tenant = $1::int AND id = ANY ($2::uuid[])
       AND id BETWEEN $3::uuid AND $4::uuid",
    "DELETE FROM attempts WHERE tenant = $1::int AND work_id = ANY ($2::uuid[])
       AND work_id BETWEEN $3::uuid AND $4::uuid",
    "DELETE FROM job_state WHERE tenant = $1::int AND work_id = ANY ($2::uuid[])
       AND work_id BETWEEN $3::uuid AND $4::uuid",
    "DELETE FROM costs WHERE tenant = $1::int AND work_id = ANY ($2::uuid[])
       AND work_id BETWEEN $3::uuid AND $4::uuid",
    "DELETE FROM joined WHERE tenant = $1::int AND work_id = ANY ($2::uuid[])
       AND work_id BETWEEN $3::uuid AND $4::uuid",
    "DELETE FROM progress WHERE tenant = $1::int AND work_id = ANY ($2::uuid[])
       AND work_id BETWEEN $3::uuid AND $4::uuid",
];
const REMOVE_EFFECTS: &str = concat!(
    "DELETE FROM effects e
     WHERE e.tenant = $1::int AND e.scope = ANY ($2::uuid[]) AND e.scope BETWEEN $3::uuid AND $4::uuid AND ",
    unshared_effect!()
);

impl Postgres {
    pub(super) async fn prune_own_step(&self, walk: OwnWalk, after: Ulid) -> Result<Walked> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        if !is_alone(&tx).await? {
            return Ok(Walked { rows: 0, next: Some(after) });
        }
        tx.batch_execute(ONLY_INDEXES).await?;
        let found = find(&tx, &walk, after).await?;
        let next = found.next().map(ulid);
        if matches!(walk, OwnWalk::Bodies(..) | OwnWalk::Events(..)) {
            revivals::wait_for(&tx).await?;
        }
        let mut rows = 0;
        if let OwnWalk::Events(tenant, before) = &walk
            && after == Ulid::MIN
        {
            rows += remove_beside(&tx, *tenant, *before).await?;
        }
        rows += remove(&tx, &walk, &found).await?;
        failpoint::pass_async("retention.mid_batch").await?;
        commit(tx).await?;
        Ok(Walked { rows, next })
    }
}

async fn find(tx: &Transaction<'_>, walk: &OwnWalk, after: Ulid) -> Result<Found<Uuid>> {
    let (step, after) = (OWN_STEP as i64, uuid(after));
    // Of events each may go: to look at more would be in vain.
    let look = if matches!(walk, OwnWalk::Events(..)) { step } else { OWN_LOOK as i64 };
    let run = async |sql: &str, cut: &Uuid, more: Params<'_>| {
        let all: Params<'_> = &[&look, &step, &after, cut];
        query_opt(tx, sql, &[all, more].concat()).await
    };
    let row = match walk {
        OwnWalk::Bodies(tenant, before) => run(BODIES, &floor(*before), &[&tenant.0]).await?,
        OwnWalk::Events(tenant, before) => run(EVENTS, &floor(*before), &[&tenant.0]).await?,
        OwnWalk::Runs(tenant, before) => {
            run(RUNS, &floor(*before), &[&tenant.0, &before.as_millis()]).await?
        }
        OwnWalk::DeadLetters(tenant, before) => {
            run(DEAD_LETTERS, &floor(*before), &[&tenant.0, &before.as_millis()]).await?
        }
        OwnWalk::Receipts(before) => {
            let tenants: Vec<i32> = before.iter().map(|(tenant, _)| tenant.0).collect();
            let cuts: Vec<Uuid> = before.iter().map(|(_, before)| floor(*before)).collect();
            let last = cuts.iter().max().copied().unwrap_or(Uuid::nil());
            run(RECEIPTS, &last, &[&tenants, &cuts]).await?
        }
    };
    let Some(row) = row else { return Ok(Found::default()) };
    let looked: i64 = get(&row, 2)?;
    Ok(Found {
        ids: get(&row, 0)?,
        beside: get(&row, 1)?,
        looked: looked as usize,
        last: get(&row, 3)?,
    })
}

async fn remove(tx: &Transaction<'_>, walk: &OwnWalk, found: &Found<Uuid>) -> Result<u64> {
    let each = async |sql: &str, tenant: &TenantId, ids: &Vec<Uuid>| match ids.iter().min() {
        Some(first) => execute(tx, sql, &[&tenant.0, ids, first, &ids.iter().max()]).await,
        None => Ok(0),
    };
    let mut rows = 0;
    match walk {
        OwnWalk::Bodies(tenant, _) => rows += each(REMOVE_BODIES, tenant, &found.beside).await?,
        OwnWalk::Events(tenant, _) => {
            rows += each(REMOVE_BODIES, tenant, &found.beside).await?;
            rows += each(REMOVE_EVENTS, tenant, &found.ids).await?;
        }
        OwnWalk::Runs(tenant, _) | OwnWalk::DeadLetters(tenant, _) => {
            for sql in REMOVE_WORK {
                rows += each(sql, tenant, &found.ids).await?;
            }
            rows += each(REMOVE_EFFECTS, tenant, &found.beside).await?;
        }
        OwnWalk::Receipts(_) => {
            let sql = "DELETE FROM receipts WHERE id = ANY ($1::uuid[])";
            rows += execute(tx, sql, &[&found.ids]).await?;
        }
    }
    Ok(rows)
}

/// What is as old as events may be: alerts that are over, and, differing from SQLite, what could not be published.
async fn remove_beside(tx: &Transaction<'_>, tenant: TenantId, before: Timestamp) -> Result<u64> {
    let mut rows = 0;
    for sql in [
        "DELETE FROM alerts WHERE id IN (
           SELECT id FROM alerts WHERE tenant = $1::int AND id < $2::uuid AND resolved_at IS NOT NULL
           ORDER BY id LIMIT $3::bigint)",
        "DELETE FROM outbox WHERE number IN (
           SELECT number FROM outbox WHERE refused IS NOT NULL AND event < $2::uuid
             AND tenant = (SELECT slug FROM tenants WHERE id = $1::int)
           ORDER BY event LIMIT $3::bigint)",
    ] {
        rows += execute(tx, sql, &[&tenant.0, &floor(before), &(OWN_STEP as i64)]).await?;
    }
    Ok(rows)
}
