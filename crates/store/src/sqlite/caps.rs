//! Bounds on work: what counts towards them.

use std::collections::hash_map::Entry;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension};
use wakepost_domain::budget::{self, Budget, Spent};
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::HeldReason;
use wakepost_domain::{SourceId, TenantId, Timestamp, WorkId};

use super::Sqlite;
use super::rows::{Bits, unavailable};
use super::work;
use crate::error::Result;
use crate::moves::{AuditEntry, Cap, CapScope, Caps, Count, Counts};

#[async_trait]
impl Caps for Sqlite {
    async fn counts(&self, scopes: Vec<CapScope>) -> Result<Counts> {
        self.readers
            .read(move |connection, now| {
                let mut counts = Counts { now, ..Counts::default() };
                for scope in scopes {
                    let mut count = count(connection, scope).map_err(unavailable)?;
                    if let CapScope::Source(source) = scope {
                        count.spent = spent(connection, now, source).map_err(unavailable)?;
                    }
                    counts.of.insert(scope, count);
                }
                Ok(counts)
            })
            .await
    }

    async fn hold_over_budget(
        &self,
        lane: LaneId,
        source: SourceId,
        budget: Budget,
        limit: u32,
    ) -> Result<u32> {
        self.write_whole(0, move |tx, now| {
            if budget.room(spent(tx, now, source).map_err(unavailable)?) > 0 {
                return Ok(0);
            }
            let held = tx
                .prepare_cached(
                    "UPDATE work SET state = 4, held_reason = ?1
                     FROM (SELECT tenant AS of, id AS item FROM work
                           WHERE lane = ?2 AND state <= 2 AND behind = 0 AND run_at <= ?3
                           ORDER BY run_at, id LIMIT ?4)
                     WHERE tenant = of AND id = item",
                )
                .and_then(|mut hold| {
                    hold.execute((HeldReason::Budget as i16, lane.0, now.as_millis(), limit))
                })
                .map_err(unavailable)?;
            Ok(held as u32)
        })
        .await
    }

    async fn release_into(
        &self,
        tenant: TenantId,
        work: WorkId,
        lane: LaneId,
        audit: AuditEntry,
    ) -> Result<()> {
        self.write_whole(0, move |tx, now| {
            work::release(tx, now, tenant, work, Some(lane), &audit).map(|_| ())
        })
        .await
    }
}

/// What the counters of these bounds say. Without bounds nothing is read.
pub fn read(tx: &Connection, now: Timestamp, caps: &[Cap]) -> rusqlite::Result<Counts> {
    let mut counts = Counts { now, ..Counts::default() };
    for cap in caps {
        if let Entry::Vacant(place) = counts.of.entry(cap.scope) {
            place.insert(count(tx, cap.scope)?);
        }
        if let Some((source, _)) = cap.budget() {
            let spent = spent(tx, now, source)?;
            counts.of.entry(cap.scope).and_modify(|count| count.spent = spent);
        }
    }
    Ok(counts)
}

/// Keeps what counters say after a claim.
pub fn write(tx: &Connection, caps: &[Cap], counts: &Counts) -> rusqlite::Result<()> {
    for (scope, count) in &counts.of {
        tx.prepare_cached(
            "INSERT INTO lane_caps (scope, running, next_at) VALUES (?1, ?2, ?3)
             ON CONFLICT (scope) DO UPDATE SET running = excluded.running, next_at = excluded.next_at",
        )?
        .execute((scope.text(), count.running, count.next_at_ms))?;
    }
    for (source, _) in caps.iter().filter_map(Cap::budget) {
        tx.prepare_cached(
            "INSERT INTO budgets (source, day, runs) VALUES (?1, ?2, ?3)
             ON CONFLICT (source, day) DO UPDATE SET runs = excluded.runs",
        )?
        .execute((
            Bits(source.to_bytes()),
            budget::day(counts.now),
            counts.get(CapScope::Source(source)).spent.runs,
        ))?;
    }
    Ok(())
}

/// The runs of these counters ended.
pub fn free(tx: &Connection, names: &[&str]) -> rusqlite::Result<()> {
    for name in names {
        tx.prepare_cached("UPDATE lane_caps SET running = running - 1 WHERE scope = ?1")?
            .execute([name])?;
    }
    Ok(())
}

fn count(connection: &Connection, scope: CapScope) -> rusqlite::Result<Count> {
    let found = connection
        .prepare_cached("SELECT running, next_at FROM lane_caps WHERE scope = ?1")?
        .query_row([scope.text()], |row| {
            Ok(Count { running: row.get(0)?, next_at_ms: row.get(1)?, ..Count::default() })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}

fn spent(connection: &Connection, now: Timestamp, source: SourceId) -> rusqlite::Result<Spent> {
    let found = connection
        .prepare_cached("SELECT runs, cost FROM budgets WHERE source = ?1 AND day = ?2")?
        .query_row((Bits(source.to_bytes()), budget::day(now)), |row| {
            Ok(Spent { runs: row.get(0)?, cost: row.get(1)? })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}
