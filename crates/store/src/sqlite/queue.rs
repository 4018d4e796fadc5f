//! The queue: heartbeats, checkpoints and progress. Claims and endings have files of their own.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension};
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;
use wakepost_domain::{Timestamp, Ulid, limits};

use super::Sqlite;
use super::claim::{claim, claim_one};
use super::costs::Payer;
use super::rows::{Bits, time, unavailable};
use super::settings::remember;
use super::settle::{keep_evidence, pass_end, settle};
use super::work;
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{
    ClaimLane, ClaimRequest, Claimed, Evidence, Heartbeat, HeartbeatAnswer, Idempotency, Item,
    NewWork, Once, Progress, Queue, Settle, Settled,
};
use crate::vault::Sealed;

#[async_trait]
impl Queue for Sqlite {
    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>> {
        let claimed = self
            .write(0, move |tx, now| {
                let mut claimed = Vec::new();
                for lane in &request.lanes {
                    claim(tx, now, &request.worker, lane, &mut claimed).map_err(unavailable)?;
                }
                failpoint::pass("claim.before_commit")?;
                Ok(claimed)
            })
            .await?;
        failpoint::pass_async("claim.after_commit").await?;
        Ok(claimed)
    }

    async fn claim_one(
        &self,
        worker: String,
        item: Item,
        lane: ClaimLane,
    ) -> Result<Option<Claimed>> {
        let claimed = self
            .write(0, move |tx, now| {
                let claimed = claim_one(tx, now, &worker, item, &lane).map_err(unavailable)?;
                failpoint::pass("claim.before_commit")?;
                Ok(claimed)
            })
            .await?;
        failpoint::pass_async("claim.after_commit").await?;
        Ok(claimed)
    }

    async fn heartbeat(&self, batch: Vec<Heartbeat>) -> Vec<Result<HeartbeatAnswer>> {
        let count = batch.len();
        let rows = self
            .write(0, move |tx, now| {
                let answers =
                    batch.iter().map(|beat| heartbeat(tx, now, beat).map_err(unavailable));
                let answers = answers.collect::<Result<Vec<_>>>()?;
                failpoint::pass("lease.heartbeat")?;
                Ok(answers)
            })
            .await;
        spread(rows, count, |answer: Option<HeartbeatAnswer>| answer.ok_or(StoreError::LeaseLost))
    }

    async fn settle(&self, batch: Vec<Settle>) -> Vec<Result<Settled>> {
        let count = batch.len();
        let bytes = batch.iter().map(Settle::bytes).sum();
        let rows = self
            .write(bytes, move |tx, now| {
                let mut answers = Vec::with_capacity(batch.len());
                for item in &batch {
                    answers.push(settle(tx, now, item)?);
                    pass_end(item)?;
                }
                failpoint::pass("settle.before_commit")?;
                Ok(answers)
            })
            .await;
        let rows = match failpoint::pass_async("settle.after_commit").await {
            Ok(()) => rows,
            Err(error) => Err(error),
        };
        spread(rows, count, |answer: Option<Settled>| answer.ok_or(StoreError::LeaseLost))
    }

    async fn follow_up(
        &self,
        ticket: Ticket,
        item: NewWork,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        let bytes = item.input.as_ref().map_or(0, Sealed::len);
        self.write_whole(bytes, move |tx, now| {
            if let Some(before) = remember(tx, now, once.as_ref())? {
                return Ok(Once::Before(before));
            }
            live(tx, now, &ticket)?;
            work::insert(tx, now, &item)?;
            Ok(Once::Now(()))
        })
        .await
    }

    async fn checkpoint(&self, ticket: Ticket, state: Sealed) -> Result<()> {
        self.write_whole(state.len(), move |tx, now| {
            live(tx, now, &ticket)?;
            tx.prepare_cached(
                "INSERT INTO job_state (work_id, tenant, checkpoint) VALUES (?1, ?2, ?3)
                 ON CONFLICT (work_id) DO UPDATE SET checkpoint = excluded.checkpoint",
            )
            .and_then(|mut put| {
                put.execute((Bits(ticket.work.to_bytes()), ticket.tenant.0, state.as_bytes()))
            })
            .map_err(unavailable)?;
            failpoint::pass("checkpoint.before_commit")
        })
        .await
    }

    async fn progress(&self, progress: Progress) -> Result<()> {
        self.write_whole(progress.content.len(), move |tx, now| {
            live(tx, now, &progress.ticket)?;
            add_progress(tx, now, &progress).map_err(unavailable)
        })
        .await
    }
}

/// One answer a row, or the batch's error for each.
fn spread<A, B>(rows: Result<Vec<A>>, count: usize, each: fn(A) -> Result<B>) -> Vec<Result<B>> {
    match rows {
        Ok(rows) => rows.into_iter().map(each).collect(),
        Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
    }
}

fn heartbeat(
    tx: &Connection,
    now: Timestamp,
    beat: &Heartbeat,
) -> rusqlite::Result<Option<HeartbeatAnswer>> {
    let ticket = &beat.ticket;
    let answer = tx
        .prepare_cached(
            "UPDATE work SET lease_expires_at = max(lease_expires_at, min(?1, run_deadline))
             WHERE tenant = ?2 AND id = ?3 AND fence = ?4 AND state = 5 AND lease_expires_at > ?5
             RETURNING lease_expires_at, cancel_at, lane, started_at, caps IS NOT NULL",
        )?
        .query_row(
            (
                now.after(beat.extend).as_millis(),
                ticket.tenant.0,
                Bits(ticket.work.to_bytes()),
                ticket.fence,
                now.as_millis(),
            ),
            |row| {
                let answer = HeartbeatAnswer {
                    lease_expires_at: time(row.get(0)?),
                    cancel_requested: row.get::<_, Option<i64>>(1)?.is_some(),
                };
                let (lane, started_at) = (LaneId(row.get(2)?), row.get(3)?);
                Ok((answer, Payer { lane, started_at, capped: row.get(4)? }))
            },
        )
        .optional()?;
    let Some((answer, payer)) = answer else {
        return Ok(None);
    };
    if beat.cost.is_some() {
        let evidence = Evidence { cost: beat.cost, ..Evidence::default() };
        keep_evidence(tx, ticket, &evidence, &payer)?;
    }
    Ok(Some(answer))
}

/// A live lease, and what it is about. Whether a stop was asked for comes with it.
pub(super) struct Live {
    pub scope: Ulid,
    pub cancel_requested: bool,
}

pub(super) fn live(tx: &Connection, now: Timestamp, ticket: &Ticket) -> Result<Live> {
    tx.prepare_cached(
        "SELECT scope, cancel_at FROM work
         WHERE tenant = ?1 AND id = ?2 AND fence = ?3 AND state = 5 AND lease_expires_at > ?4",
    )
    .and_then(|mut select| {
        select
            .query_row(
                (ticket.tenant.0, Bits(ticket.work.to_bytes()), ticket.fence, now.as_millis()),
                |row| {
                    Ok(Live {
                        scope: Ulid::from_bytes(row.get::<_, Bits>(0)?.0),
                        cancel_requested: row.get::<_, Option<i64>>(1)?.is_some(),
                    })
                },
            )
            .optional()
    })
    .map_err(unavailable)?
    .ok_or(StoreError::LeaseLost)
}

fn add_progress(tx: &Connection, now: Timestamp, progress: &Progress) -> rusqlite::Result<()> {
    let work = Bits(progress.ticket.work.to_bytes());
    let seq: i64 = tx
        .prepare_cached(
            "INSERT INTO progress (work_id, tenant, seq, at, content)
             SELECT ?1, ?4, coalesce(max(seq), 0) + 1, ?2, ?3 FROM progress WHERE work_id = ?1
             RETURNING seq",
        )?
        .query_row(
            (work, now.as_millis(), progress.content.as_bytes(), progress.ticket.tenant.0),
            |row| row.get(0),
        )?;
    tx.prepare_cached("DELETE FROM progress WHERE work_id = ?1 AND seq <= ?2")?
        .execute((work, seq - limits::PROGRESS_KEPT))?;
    Ok(())
}
