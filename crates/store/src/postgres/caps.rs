//! Bounds on work: what counts towards them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use deadpool_postgres::{Client, GenericClient, Transaction};
use tokio_postgres::Row;
use uuid::Uuid;
use wakepost_domain::budget::{self, Budget, Spent};
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::HeldReason;
use wakepost_domain::{SourceId, TenantId, Timestamp, WorkId};

use super::rows::{execute, get, id, query, time, uuid};
use super::{Postgres, commit, conclude, work};
use crate::error::Result;
use crate::moves::{AuditEntry, Bound, Cap, CapScope, Caps, Count, Counts};

#[async_trait]
impl Caps for Postgres {
    async fn counts(&self, scopes: Vec<CapScope>) -> Result<Counts> {
        let client = self.cool().await?;
        let now = time(&client.query_one("SELECT wakepost_now()", &[]).await?, 0)?;
        let mut counts = Counts { now, ..Counts::default() };
        let names = named(scopes);
        let sql = "SELECT scope, running, next_at FROM lane_caps WHERE scope = ANY($1::text[])";
        for row in &query(&client, sql, &[&names.keys().collect::<Vec<_>>()]).await? {
            if let Some(scope) = names.get(get::<&str>(row, 0)?) {
                counts.of.insert(*scope, count(row)?);
            }
        }
        let sources = names.values().filter_map(|scope| match scope {
            CapScope::Source(source) => Some(*source),
            CapScope::Tenant(_) | CapScope::Lane(_) => None,
        });
        read_spent(&client, &mut counts, sources.collect()).await?;
        Ok(counts)
    }

    async fn hold_over_budget(
        &self,
        lane: LaneId,
        source: SourceId,
        budget: Budget,
        limit: u32,
    ) -> Result<u32> {
        let mut client = self.hot().await?;
        let cap = Cap { scope: CapScope::Source(source), bound: Bound::Budget(budget) };
        make(&client, &[cap]).await?;
        let tx = client.transaction().await?;
        let counts = lock(&tx, &[cap]).await?.unwrap_or_default();
        if budget.room(counts.get(cap.scope).spent) > 0 {
            return Ok(0);
        }
        let held = execute(
            &tx,
            "WITH found AS MATERIALIZED (
               SELECT ctid AS at FROM work
               WHERE lane = $1::bigint AND state <= 2 AND NOT behind AND run_at <= wakepost_now()
               ORDER BY run_at, id LIMIT $2::bigint FOR UPDATE SKIP LOCKED)
             UPDATE work w SET state = 4, held_reason = $3::smallint FROM found f WHERE w.ctid = f.at",
            &[&lane.0, &i64::from(limit), &(HeldReason::Budget as i16)],
        )
        .await?;
        commit(tx).await?;
        Ok(u32::try_from(held).unwrap_or(u32::MAX))
    }

    async fn release_into(
        &self,
        tenant: TenantId,
        item: WorkId,
        lane: LaneId,
        audit: AuditEntry,
    ) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let released = work::release(&tx, tenant, item, Some(lane), &audit).await;
        conclude(tx, released).await.map(|_| ())
    }
}

fn named(scopes: impl IntoIterator<Item = CapScope>) -> BTreeMap<String, CapScope> {
    scopes.into_iter().map(|scope| (scope.text(), scope)).collect()
}

fn count(row: &Row) -> Result<Count> {
    let running = i64::from(get::<i32>(row, 1)?);
    Ok(Count { running, next_at_ms: get(row, 2)?, spent: Spent::default() })
}

/// What the counters of these bounds say, locked in their order until the transaction ends; none if one is not
/// there yet.
pub async fn lock(tx: &Transaction<'_>, caps: &[Cap]) -> Result<Option<Counts>> {
    let names = named(caps.iter().map(|cap| cap.scope));
    let rows = query(
        tx,
        "SELECT scope, running, next_at, wakepost_now() FROM lane_caps WHERE scope = ANY($1::text[])
         ORDER BY scope FOR UPDATE",
        &[&names.keys().collect::<Vec<_>>()],
    )
    .await?;
    if rows.len() < names.len() {
        return Ok(None);
    }
    let mut counts = Counts::default();
    for row in &rows {
        counts.now = time(row, 3)?;
        if let Some(scope) = names.get(get::<&str>(row, 0)?) {
            counts.of.insert(*scope, count(row)?);
        }
    }
    if caps.iter().any(|cap| matches!(cap.bound, Bound::Rate(_))) {
        // It may have waited for the lock: starts are counted from when they can begin, or they come closer together
        // than the rate allows.
        counts.now = time(&tx.query_one("SELECT wakepost_now()", &[]).await?, 0)?;
    }
    let budgeted: Vec<SourceId> =
        caps.iter().filter_map(Cap::budget).map(|(source, _)| source).collect();
    if !budgeted.is_empty() {
        // Only claims change how many ran, and they are locked out; the cost is what was told so far.
        read_spent(tx, &mut counts, budgeted).await?;
    }
    Ok(Some(counts))
}

async fn read_spent(
    on: &impl GenericClient,
    counts: &mut Counts,
    sources: Vec<SourceId>,
) -> Result<()> {
    let sources: Vec<Uuid> = sources.into_iter().map(|source| uuid(source.0)).collect();
    let rows = query(
        on,
        "SELECT source, runs, cost FROM budgets WHERE source = ANY($1::uuid[]) AND day = $2::int",
        &[&sources, &today(counts.now)],
    )
    .await?;
    for row in &rows {
        let scope = CapScope::Source(SourceId(id(row, 0)?));
        counts.of.entry(scope).or_default().spent =
            Spent { runs: get(row, 1)?, cost: get(row, 2)? };
    }
    Ok(())
}

fn today(now: Timestamp) -> i32 {
    i32::try_from(budget::day(now)).unwrap_or(i32::MAX)
}

/// Makes counters, apart from every transaction that holds any: one that holds some while it makes others takes
/// them out of their order.
pub async fn make(client: &Client, caps: &[Cap]) -> Result<()> {
    let names = named(caps.iter().map(|cap| cap.scope));
    execute(
        client,
        "INSERT INTO lane_caps (scope, running)
         SELECT scope, 0 FROM unnest($1::text[]) AS s (scope) ORDER BY scope
         ON CONFLICT (scope) DO NOTHING",
        &[&names.keys().collect::<Vec<_>>()],
    )
    .await?;
    Ok(())
}

/// Keeps what locked counters say after a claim.
pub async fn write(tx: &Transaction<'_>, caps: &[Cap], counts: &Counts) -> Result<()> {
    let (mut names, mut running, mut next) = (Vec::new(), Vec::new(), Vec::new());
    for (scope, count) in &counts.of {
        names.push(scope.text());
        running.push(i32::try_from(count.running).unwrap_or(i32::MAX));
        next.push(count.next_at_ms);
    }
    execute(
        tx,
        "UPDATE lane_caps c SET running = s.running, next_at = s.next_at
         FROM unnest($1::text[], $2::int[], $3::double precision[]) AS s (scope, running, next_at)
         WHERE c.scope = s.scope",
        &[&names, &running, &next],
    )
    .await?;
    let budgeted: BTreeMap<Uuid, i64> = caps
        .iter()
        .filter_map(|cap| Some((uuid(cap.budget()?.0.0), counts.get(cap.scope).spent.runs)))
        .collect();
    if budgeted.is_empty() {
        return Ok(());
    }
    execute(
        tx,
        "INSERT INTO budgets (source, day, runs)
         SELECT s.source, $3::int, s.runs FROM unnest($1::uuid[], $2::bigint[]) AS s (source, runs)
         ORDER BY s.source
         ON CONFLICT (source, day) DO UPDATE SET runs = excluded.runs",
        &[
            &budgeted.keys().collect::<Vec<_>>(),
            &budgeted.values().collect::<Vec<_>>(),
            &today(counts.now),
        ],
    )
    .await?;
    Ok(())
}
