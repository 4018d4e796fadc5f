//! Accepting: event, dedup keys, job and receipt in one transaction.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use wakepost_domain::event::Route;
use wakepost_domain::receipt::Verdict;
use wakepost_domain::{EventId, TenantId, Timestamp, Ulid, WorkId, limits};

use super::Sqlite;
use super::cancelling::cancel_by;
use super::placing::{joined_work, place, placed_before};
use super::prune::guards;
use super::publishing::publish;
use super::rows::{Bits, known, unavailable};
use crate::error::Result;
use crate::failpoint;
use crate::moves::{
    Accepted, AuditEntry, DedupKey, Ledger, NewEvent, NewJob, NewReceipt, Received, SharedBody,
};
use crate::vault::Sealed;

#[async_trait]
impl Ledger for Sqlite {
    async fn accept(&self, batch: Vec<NewEvent>) -> Vec<Received> {
        let batch: Arc<[NewEvent]> = batch.into();
        match self.accept_some(&batch, 0..batch.len()).await {
            Ok(answers) => return answers.into_iter().map(Ok).collect(),
            Err(error) if batch.len() == 1 => return vec![Err(error)],
            Err(_) => {}
        }
        // One of them cannot be stored: each goes alone, so that only the guilty one fails. What an
        // uncertain commit stored after all is found by its own key, and is new.
        let mut answers = Vec::with_capacity(batch.len());
        for row in 0..batch.len() {
            answers.push(self.accept_some(&batch, row..row + 1).await.map(|one| one[0]));
        }
        answers
    }

    async fn accept_together(
        &self,
        body: SharedBody,
        events: Vec<NewEvent>,
    ) -> Result<Vec<Accepted>> {
        self.write(body.content.len(), move |tx, now| {
            let answers =
                events.iter().map(|new| accept(tx, now, new)).collect::<Result<Vec<_>>>()?;
            if answers.iter().any(|answer| answer.is_new()) {
                insert_body(tx, body.id, body.tenant, &body.content).map_err(unavailable)?;
            }
            Ok(answers)
        })
        .await
    }

    async fn publish(
        &self,
        events: Vec<NewEvent>,
        entry: Option<AuditEntry>,
    ) -> Result<Vec<Accepted>> {
        let bytes = events.iter().map(content_bytes).sum();
        self.write_whole(bytes, move |tx, now| publish(tx, now, &events, entry.as_ref())).await
    }

    async fn keep_rejections(&self, batch: Vec<NewReceipt>) -> Result<()> {
        self.write(0, move |tx, _| {
            for receipt in &batch {
                keep_receipt(tx, receipt, None, None).map_err(unavailable)?;
            }
            trim_rejections(tx, &batch).map_err(unavailable)
        })
        .await
    }
}

impl Sqlite {
    /// Stores a part of a batch in one transaction, all or nothing.
    async fn accept_some(
        &self,
        batch: &Arc<[NewEvent]>,
        rows: Range<usize>,
    ) -> Result<Vec<Accepted>> {
        let bytes = batch[rows.clone()].iter().map(content_bytes).sum();
        let batch = batch.clone();
        self.write(bytes, move |tx, now| {
            batch[rows.clone()].iter().map(|new| accept(tx, now, new)).collect()
        })
        .await
    }
}

fn content_bytes(new: &NewEvent) -> usize {
    new.content.as_ref().map_or(0, Sealed::len)
}

fn accept(tx: &Connection, now: Timestamp, new: &NewEvent) -> Result<Accepted> {
    match take_keys(tx, now, new)? {
        Keys::Own => {}
        Keys::Before => return placed_before(tx, new),
        Keys::Of(first) => return duplicate(tx, first, new).map_err(unavailable),
    }
    let accepted = match new.placed_job() {
        Some(job) => place(tx, now, new, job)?,
        None => Accepted::New,
    };
    insert_event(tx, new, accepted.route(new.event.route)).map_err(unavailable)?;
    if let Some(job) = new.plain_job() {
        insert_job(tx, now, new, job).map_err(unavailable)?;
    }
    let next = cancel_by(tx, now, &new.event)?;
    Ok(next.map_or(accepted, |lane| accepted.before(lane)))
}

/// Whose the dedup keys of an event are.
pub(super) enum Keys {
    /// Its own from now on.
    Own,
    /// Its own before: the commit of an earlier try arrived although it was reported as failed.
    Before,
    /// An earlier event's. It has none of them.
    Of(EventId),
}

/// Takes the dedup keys of an event, all or none.
pub(super) fn take_keys(tx: &Connection, now: Timestamp, new: &NewEvent) -> Result<Keys> {
    for (index, key) in new.dedup.iter().enumerate() {
        let own = (new.event.tenant, new.event.id.0);
        if !take_key(tx, now, key, own, new.dedup_until).map_err(unavailable)? {
            let first = EventId(owner(tx, key).map_err(unavailable)?);
            if first == new.event.id {
                return Ok(Keys::Before);
            }
            failpoint::pass("accept.on_conflict")?;
            for taken in &new.dedup[..index] {
                give_back(tx, taken, new.event.id).map_err(unavailable)?;
            }
            return Ok(Keys::Of(first));
        }
    }
    Ok(Keys::Own)
}

/// Takes a dedup key, if nobody has it, or its time is over and the body it guards is gone. The unique index decides, not a
/// look-up.
pub(super) fn take_key(
    tx: &Connection,
    now: Timestamp,
    key: &DedupKey,
    (tenant, id): (TenantId, Ulid),
    until: Timestamp,
) -> rusqlite::Result<bool> {
    let taken = tx
        .prepare_cached(concat!(
            "INSERT INTO dedup_keys AS k (key, tenant, event_id, expires_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (key) DO UPDATE SET tenant = excluded.tenant, event_id = excluded.event_id,
                                             expires_at = excluded.expires_at
             WHERE k.expires_at <= ?5 AND NOT ",
            guards!("k")
        ))?
        .execute((
            Bits(key.0),
            tenant.0,
            Bits(id.to_bytes()),
            until.as_millis(),
            now.as_millis(),
        ))?;
    Ok(taken == 1)
}

fn give_back(tx: &Connection, key: &DedupKey, event: EventId) -> rusqlite::Result<()> {
    tx.prepare_cached("DELETE FROM dedup_keys WHERE key = ?1 AND event_id = ?2")?
        .execute((Bits(key.0), Bits(event.to_bytes())))?;
    Ok(())
}

/// Whose a taken key is.
pub(super) fn owner(tx: &Connection, key: &DedupKey) -> rusqlite::Result<Ulid> {
    let bits: Bits = tx
        .prepare_cached("SELECT event_id FROM dedup_keys WHERE key = ?1")?
        .query_row([Bits(key.0)], |row| row.get(0))?;
    Ok(Ulid::from_bytes(bits.0))
}

/// Counts a repeat, and keeps its receipt if not too many are kept.
fn duplicate(tx: &Connection, first: EventId, new: &NewEvent) -> rusqlite::Result<Accepted> {
    let counted: Option<(i32, i16)> = tx
        .prepare_cached(
            "UPDATE events SET duplicates = duplicates + 1 WHERE tenant = ?1 AND id = ?2
             RETURNING duplicates, route",
        )?
        .query_row((new.event.tenant.0, Bits(first.to_bytes())), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let job = match counted {
        Some((duplicates, route)) => {
            if duplicates <= limits::DUPLICATE_RECEIPTS_KEPT {
                let receipt = NewReceipt { verdict: Verdict::Duplicate, ..new.receipt.clone() };
                keep_receipt(tx, &receipt, Some(first), Some(new.evidence()))?;
            }
            match known(route, Route::from_code)? {
                Route::Job => Some(WorkId::first_of(first)),
                Route::Joined => joined_work(tx, first)?,
                Route::Ignored | Route::Unmapped | Route::Published => None,
            }
        }
        // The event is gone, its dedup key is not: whether it made a job is no longer known.
        None => Some(WorkId::first_of(first)),
    };
    Ok(Accepted::Duplicate { of: first, job })
}

pub(super) fn insert_event(tx: &Connection, new: &NewEvent, route: Route) -> rusqlite::Result<()> {
    let event = &new.event;
    tx.prepare_cached(
        "INSERT INTO events (tenant, id, source, type, dedup_key, route, verified, subject, occurred_at,
                             payload_hash, duplicates, remote_addr, latency_us, body_id, part,
                             signature, thread, trace)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
    )?
    .execute(params![
        event.tenant.0,
        Bits(event.id.to_bytes()),
        Bits(event.source.to_bytes()),
        &event.event_type,
        &event.dedup_key,
        route as i16,
        event.verified,
        &event.subject,
        event.occurred_at.map(Timestamp::as_millis),
        &event.payload_hash[..],
        &event.remote_addr,
        event.latency_us,
        event.part.map(|part| Bits(part.body.to_bytes())),
        event.part.map(|part| part.index),
        event.signature,
        &event.thread,
        &event.trace,
    ])?;
    match &new.content {
        Some(content) => insert_body(tx, event.id, event.tenant, content),
        None => Ok(()),
    }
}

/// A shared body may be there already, if the commit of an earlier try arrived although it was reported as failed.
fn insert_body(
    tx: &Connection,
    id: EventId,
    tenant: TenantId,
    content: &Sealed,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO bodies (id, tenant, content) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO NOTHING",
    )?
    .execute((Bits(id.to_bytes()), tenant.0, content.as_bytes()))?;
    Ok(())
}

fn insert_job(
    tx: &Connection,
    now: Timestamp,
    new: &NewEvent,
    job: &NewJob,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence,
                           event_id, scope, subject, callback_lane)
         VALUES (?1, ?2, 0, ?3, 0, ?4, 0, ?5, 0, ?2, ?2, ?6, ?7)",
    )?
    .execute((
        new.event.tenant.0,
        Bits(new.event.id.to_bytes()),
        job.lane.0,
        now.as_millis(),
        job.max_attempts,
        &new.event.subject,
        job.callback_lane.map(|lane| lane.0),
    ))?;
    Ok(())
}

fn keep_receipt(
    tx: &Connection,
    receipt: &NewReceipt,
    event: Option<EventId>,
    evidence: Option<String>,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO receipts (id, tenant, source, event_id, remote_addr, verdict, latency_us, detail,
                               evidence)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute((
        Bits(receipt.id.to_bytes()),
        receipt.tenant.0,
        Bits(receipt.source.to_bytes()),
        event.map(|event| Bits(event.to_bytes())),
        &receipt.remote_addr,
        receipt.verdict as i16,
        receipt.latency_us,
        &receipt.detail,
        evidence,
    ))?;
    Ok(())
}

/// Keeps the latest rejections of each source, so that a flood of them cannot grow the database. Once for a batch:
/// good events wait for the same writer.
fn trim_rejections(tx: &Connection, batch: &[NewReceipt]) -> rusqlite::Result<()> {
    let mut trim = tx.prepare_cached(
        "DELETE FROM receipts WHERE id IN (
           SELECT id FROM receipts WHERE source = ?1 AND event_id IS NULL
           ORDER BY id DESC LIMIT -1 OFFSET ?2)",
    )?;
    let sources: BTreeSet<_> = batch.iter().map(|receipt| receipt.source.to_bytes()).collect();
    for source in sources {
        trim.execute((Bits(source), limits::REJECTIONS_KEPT))?;
    }
    Ok(())
}
