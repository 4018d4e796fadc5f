//! Work items from outside a run: create, cancel, release, replay.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use wakepost_domain::lane::LaneId;
use wakepost_domain::transition::{self, Move};
use wakepost_domain::work::State;
use wakepost_domain::{EventId, TenantId, Timestamp, WorkId};

use super::Sqlite;
use super::accept::{owner, take_key};
use super::cancelling::{cancel_each, check_new, next_of_subject};
use super::ordering::stands_behind;
use super::read::work_of_event;
use super::rows::{Bits, WORK_DONE, WORK_LIVE, audit, meta_text, unavailable, work};
use super::settings::{forget, remember};
use super::settle::finish;
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{
    AuditEntry, CancelOutcome, HandedDown, Idempotency, NewWork, Once, Replay, ReplayFrom, Spot,
    SubjectStep, WorkMeta, WorkMoves, WorkRow,
};
use crate::vault::Sealed;

#[async_trait]
impl WorkMoves for Sqlite {
    async fn create_work(
        &self,
        items: Vec<NewWork>,
        once: Option<Idempotency>,
    ) -> Result<Once<Vec<WorkId>>> {
        let bytes = items.iter().filter_map(|item| item.input.as_ref()).map(Sealed::len).sum();
        self.write_whole(bytes, move |tx, now| {
            if let Some(before) = remember(tx, now, once.as_ref())? {
                return Ok(Once::Before(before));
            }
            let ids: Vec<WorkId> =
                items.iter().map(|item| create(tx, now, item)).collect::<Result<_>>()?;
            check_new(tx, &items)?;
            if items.iter().zip(&ids).all(|(item, id)| item.id != *id) {
                forget(tx, once.as_ref())?;
            }
            Ok(Once::Now(ids))
        })
        .await
    }

    async fn cancel(
        &self,
        tenant: TenantId,
        id: WorkId,
        entry: AuditEntry,
    ) -> Result<CancelOutcome> {
        self.write_whole(0, move |tx, now| {
            let row = find(tx, tenant, id)?.ok_or(StoreError::NotFound)?;
            let outcome = cancel(tx, now, &row, None)?;
            audit(tx, &entry)?;
            Ok(outcome)
        })
        .await
    }

    async fn cancel_many(
        &self,
        tenant: TenantId,
        ids: Vec<WorkId>,
        entry: Option<AuditEntry>,
    ) -> Result<Vec<CancelOutcome>> {
        self.write_whole(0, move |tx, now| {
            let outcomes = cancel_each(tx, now, tenant, &ids)?;
            if let Some(entry) = &entry {
                audit(tx, entry)?;
            }
            Ok(outcomes)
        })
        .await
    }

    async fn live_of_subject(
        &self,
        tenant: TenantId,
        subject: String,
        after: Option<WorkId>,
        rows_max: u32,
    ) -> Result<SubjectStep> {
        self.readers
            .read(move |connection, _| {
                next_of_subject(connection, tenant, &subject, after, rows_max)
            })
            .await
    }

    async fn release(&self, tenant: TenantId, id: WorkId, entry: AuditEntry) -> Result<LaneId> {
        self.write_whole(0, move |tx, now| release(tx, now, tenant, id, None, &entry)).await
    }

    async fn replay(
        &self,
        request: Replay,
        once: Option<Idempotency>,
    ) -> Result<Once<(WorkId, LaneId)>> {
        self.write_whole(0, move |tx, now| {
            if let Some(before) = remember(tx, now, once.as_ref())? {
                return Ok(Once::Before(before));
            }
            let lane = replay(tx, now, &request)?;
            audit(tx, &request.audit)?;
            failpoint::pass("replay.before_commit")?;
            Ok(Once::Now((request.id, lane)))
        })
        .await
    }
}

pub(super) fn check(from: State, mv: Move) -> Result<State> {
    transition::next(from, mv).map_err(|invalid| StoreError::InvalidState(invalid.to_string()))
}

/// Lets a held item go on, where it was or in another lane; answers which.
pub(super) fn release(
    tx: &Connection,
    now: Timestamp,
    tenant: TenantId,
    id: WorkId,
    lane: Option<LaneId>,
    entry: &AuditEntry,
) -> Result<LaneId> {
    let row = find(tx, tenant, id)?.ok_or(StoreError::NotFound)?;
    check(row.state, Move::Release)?;
    let lane = lane.unwrap_or(row.lane);
    tx.prepare_cached(
        "UPDATE work SET state = 0, run_at = ?3, held_reason = NULL, lane = ?4
         WHERE tenant = ?1 AND id = ?2",
    )
    .and_then(|mut update| update.execute((tenant.0, Bits(id.to_bytes()), now.as_millis(), lane.0)))
    .map_err(unavailable)?;
    audit(tx, entry)?;
    Ok(lane)
}

fn create(tx: &Connection, now: Timestamp, item: &NewWork) -> Result<WorkId> {
    if let Some((key, until)) = &item.dedup {
        let own = (item.tenant, item.id.0);
        if !take_key(tx, now, key, own, *until).map_err(unavailable)? {
            return Ok(WorkId(owner(tx, key).map_err(unavailable)?));
        }
    }
    insert(tx, now, item)?;
    Ok(item.id)
}

pub(super) fn insert(tx: &Connection, now: Timestamp, item: &NewWork) -> Result<()> {
    insert_at(tx, now, item, Spot::USUAL)
}

/// Makes an item that has to do with others by more than its order key.
pub(super) fn insert_at(tx: &Connection, now: Timestamp, item: &NewWork, spot: Spot) -> Result<()> {
    let later = item.run_at.filter(|at| *at > now);
    let behind = stands_behind(tx, item.order).map_err(unavailable)?;
    tx.prepare_cached(
        "INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence,
                           event_id, scope, subject, meta, order_key, behind, place, coalesce_key,
                           gathers_until, cancel_key, callback_lane, held_reason)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, 0, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
    )
    .and_then(|mut put| {
        put.execute(params![
            item.tenant.0,
            Bits(item.id.to_bytes()),
            item.kind as i16,
            item.lane.0,
            item.first_state(later) as i16,
            later.unwrap_or(now).as_millis(),
            item.max_attempts,
            item.event.map(|event| Bits(event.to_bytes())),
            Bits(item.scope.unwrap_or(item.id.0).to_bytes()),
            item.subject,
            meta_text(&item.meta),
            item.order.map(|order| Bits(order.0)),
            behind,
            spot.number,
            spot.coalesce.map(|key| Bits(key.0)),
            spot.gathers_until.map(Timestamp::as_millis),
            item.cancel_key().map(|key| Bits(key.0)),
            item.meta.callback_lane.map(|lane| lane.0),
            item.meta.held().map(|reason| reason as i16),
        ])
    })
    .map_err(unavailable)?;
    if let Some(input) = &item.input {
        tx.prepare_cached(
            "INSERT INTO job_state (work_id, tenant, input, scheduled_for) VALUES (?1, ?2, ?3, ?4)",
        )
        .and_then(|mut put| {
            let tick = item.meta.scheduled_for.map(Timestamp::as_millis);
            put.execute((Bits(item.id.to_bytes()), item.tenant.0, input.as_bytes(), tick))
        })
        .map_err(unavailable)?;
    }
    Ok(())
}

/// Gives a live item up, or asks its run to stop, with the reason if there is one to tell.
pub(super) fn cancel(
    tx: &Connection,
    now: Timestamp,
    row: &WorkRow,
    reason: Option<&str>,
) -> Result<CancelOutcome> {
    if row.state == State::Running {
        tx.prepare_cached(
            "UPDATE work SET cancel_at = coalesce(cancel_at, ?3), last_error = coalesce(?4, last_error)
             WHERE tenant = ?1 AND id = ?2",
        )
        .and_then(|mut update| {
            update.execute((row.tenant.0, Bits(row.id.to_bytes()), now.as_millis(), reason))
        })
        .map_err(unavailable)?;
        return Ok(CancelOutcome::Requested);
    }
    let state = check(row.state, Move::Cancel)?;
    let next_in_order = finish(tx, now, row.tenant, row.id, state, reason).map_err(unavailable)?;
    Ok(CancelOutcome::Cancelled { next_in_order })
}

fn replay(tx: &Connection, now: Timestamp, request: &Replay) -> Result<LaneId> {
    let new = |lane| NewWork {
        id: request.id,
        tenant: request.tenant,
        kind: wakepost_domain::work::WorkKind::Job,
        lane,
        run_at: None,
        max_attempts: request.max_attempts,
        event: None,
        scope: None,
        subject: None,
        order: None,
        meta: WorkMeta { callback_lane: request.callback_lane, ..WorkMeta::default() },
        input: request.input.clone(),
        dedup: None,
    };
    let item = match request.from {
        ReplayFrom::Event(event, lane) => {
            let HandedDown { subject, trace } = workless(tx, request.tenant, event)?;
            let new = new(lane);
            NewWork {
                event: Some(event),
                scope: (!request.fresh_scope).then_some(event.0),
                subject,
                meta: WorkMeta { trace, ..new.meta },
                ..new
            }
        }
        ReplayFrom::Work(id) => {
            let old = find(tx, request.tenant, id)?.ok_or(StoreError::NotFound)?;
            replaceable(&old)?;
            mark_replayed(tx, &old, request.id)?;
            carry_joined(tx, &old, request.id).map_err(unavailable)?;
            NewWork {
                kind: old.kind,
                event: old.event,
                scope: (!request.fresh_scope).then_some(old.scope),
                subject: old.subject,
                order: old.order,
                meta: old.meta.replayed(old.id.text(old.kind)),
                ..new(old.lane)
            }
        }
    };
    insert(tx, now, &item)?;
    Ok(item.lane)
}

/// What a received event hands down that has no item yet: a second first item would share its effects.
fn workless(tx: &Connection, tenant: TenantId, event: EventId) -> Result<HandedDown> {
    let read = |row: &Row<'_>| Ok(HandedDown { subject: row.get(0)?, trace: row.get(1)? });
    let handed_down = tx
        .prepare_cached(
            "SELECT subject, trace FROM events WHERE tenant = ?1 AND id = ?2 AND route <> 4",
        )
        .and_then(|mut select| {
            select.query_row((tenant.0, Bits(event.to_bytes())), read).optional()
        })
        .map_err(unavailable)?
        .ok_or(StoreError::NotFound)?;
    match work_of_event(tx, tenant, event)?.last() {
        None => Ok(handed_down),
        Some(item) => Err(StoreError::InvalidState(format!(
            "the event has work already: replay {}",
            item.id.text(item.kind)
        ))),
    }
}

/// Only a finished item that was not replayed yet can be replayed: its effects have one live owner.
fn replaceable(old: &WorkRow) -> Result<()> {
    if !old.state.is_terminal() {
        return Err(StoreError::InvalidState(format!(
            "a {} item cannot be replayed; wait until it ends, or cancel it",
            old.state.as_str()
        )));
    }
    match old.replayed_as {
        None if old.purged_by.is_some() => {
            Err(StoreError::InvalidState("it was purged: nothing is left to replay".to_owned()))
        }
        None => Ok(()),
        Some(new) => Err(StoreError::InvalidState(format!(
            "it was replayed already, as {}",
            new.text(old.kind)
        ))),
    }
}

fn mark_replayed(tx: &Connection, old: &WorkRow, new: WorkId) -> Result<()> {
    tx.prepare_cached("UPDATE work_done SET replayed_as = ?3 WHERE tenant = ?1 AND id = ?2")
        .and_then(|mut update| {
            update.execute((old.tenant.0, Bits(old.id.to_bytes()), Bits(new.to_bytes())))
        })
        .map_err(unavailable)?;
    Ok(())
}

/// A replay is about all that the old item was about.
fn carry_joined(tx: &Connection, old: &WorkRow, new: WorkId) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO joined (work_id, place, tenant, event_id)
         SELECT ?3, place, tenant, event_id FROM joined WHERE work_id = ?2 AND tenant = ?1",
    )?
    .execute((old.tenant.0, Bits(old.id.to_bytes()), Bits(new.to_bytes())))?;
    Ok(())
}

/// One item, live or finished.
pub(super) fn find(
    connection: &Connection,
    tenant: TenantId,
    id: WorkId,
) -> Result<Option<WorkRow>> {
    let key = (tenant.0, Bits(id.to_bytes()));
    let one = |sql: String| {
        connection
            .prepare_cached(&sql)
            .and_then(|mut select| select.query_row(key, work).optional())
            .map_err(unavailable)
    };
    match one(format!("SELECT {WORK_LIVE} FROM work WHERE tenant = ?1 AND id = ?2"))? {
        Some(row) => Ok(Some(row)),
        None => one(format!("SELECT {WORK_DONE} FROM work_done WHERE tenant = ?1 AND id = ?2")),
    }
}
