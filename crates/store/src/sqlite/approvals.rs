//! People in the loop: what is proposed, decided, and never decided on.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row};
use wakepost_domain::approval::ProposalHash;
use wakepost_domain::effect::{EffectState, Runner};
use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::{Ending, Move};
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{TenantId, Timestamp, Ulid, WorkId};

use super::Sqlite;
use super::effects::{NEXT_NTH, Writing, end_run, entry, list, write};
use super::queue::live;
use super::rows::{Bits, audit, collect, known, unavailable};
use super::work::{cancel, check, find};
use crate::error::{Result, StoreError};
use crate::moves::{
    Approvals, Ask, AuditEntry, Decide, Decided, Draft, EffectRow, Overdue, UNDECIDED, WorkRow,
};

#[async_trait]
impl Approvals for Sqlite {
    async fn ask(&self, request: Ask) -> Result<bool> {
        self.write_whole(0, move |tx, now| ask(tx, now, &request)).await
    }

    async fn decide(&self, request: Decide) -> Result<Decided> {
        self.write_whole(0, move |tx, now| decide(tx, now, &request)).await
    }

    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>> {
        self.readers.read(move |connection, now| overdue(connection, now, limit)).await
    }

    async fn expire(&self, seen: Overdue, entry: AuditEntry) -> Result<Option<Decided>> {
        self.write_whole(0, move |tx, now| expire(tx, now, &seen, &entry)).await
    }
}

fn ask(tx: &Connection, now: Timestamp, request: &Ask) -> Result<bool> {
    let Ask { ticket, key, draft } = request;
    let job = match live(tx, now, ticket) {
        Err(StoreError::LeaseLost) => {
            let proposed = proposed_by(tx, ticket, key, Some(*draft))?;
            return proposed.map(|_| false).ok_or(StoreError::LeaseLost);
        }
        live => live?,
    };
    if job.cancel_requested {
        return Err(StoreError::CancelRequested);
    }
    let runner = Runner { work: ticket.work, fence: ticket.fence };
    let entry = entry(tx, now, job.scope, key)?;
    if entry.as_ref().is_some_and(|entry| entry.known.approves(runner, draft.hash)) {
        return Ok(true);
    }
    let (scope, is_new) = (job.scope, entry.is_none());
    let draft = Some(*draft);
    let writing = Writing { scope, ticket, key, description: None, draft, is_new };
    write(tx, now, &writing, EffectState::Proposed)?;
    end_run(tx, now, ticket, Ending::Proposed, None)?;
    Ok(false)
}

/// The scope of a job that waits because this very run proposed exactly this: the call that ended it is repeated.
pub fn proposed_by(
    tx: &Connection,
    ticket: &Ticket,
    key: &str,
    draft: Option<Draft>,
) -> Result<Option<Ulid>> {
    let Some(draft) = draft else {
        return Ok(None);
    };
    tx.prepare_cached(
        "SELECT w.scope FROM work w JOIN effects e ON e.scope = w.scope AND e.key = ?4
         WHERE w.tenant = ?1 AND w.id = ?2 AND w.fence = ?3 AND w.state = 3
           AND e.state = 3 AND e.work_id = w.id AND e.fence = w.fence AND e.proposal_hash = ?5",
    )
    .and_then(|mut select| {
        select
            .query_row(
                (ticket.tenant.0, Bits(ticket.work.to_bytes()), ticket.fence, key, draft.hash.0),
                |row| Ok(Ulid::from_bytes(row.get::<_, Bits>(0)?.0)),
            )
            .optional()
    })
    .map_err(unavailable)
}

fn decide(tx: &Connection, now: Timestamp, request: &Decide) -> Result<Decided> {
    let row = find(tx, request.tenant, request.work)?.ok_or(StoreError::NotFound)?;
    check(row.state, Move::Decide { approved: request.approved })?;
    let effects = list(tx, now, row.tenant, row.scope)?;
    let waits: Vec<&EffectRow> =
        effects.iter().filter(|effect| effect.is_awaited_by(row.id)).collect();
    if !request.seen_as_it_is(&waits, now) {
        return Err(StoreError::ProposalChanged);
    }
    let state = if request.approved { EffectState::Approved } else { EffectState::Rejected };
    for proposal in &request.proposals {
        let by = Some(request.by.as_str());
        write_decided(tx, now, row.scope, &proposal.key, state, by, None).map_err(unavailable)?;
    }
    for entry in &request.audit {
        audit(tx, entry)?;
    }
    match request.approved {
        false => give_up(tx, now, &row, &request.reason),
        true if waits.len() > request.proposals.len() => Ok(Decided::StillWaits),
        true => {
            tx.prepare_cached(
                "UPDATE work SET state = 0, run_at = ?3 WHERE tenant = ?1 AND id = ?2",
            )
            .and_then(|mut update| {
                update.execute((row.tenant.0, Bits(row.id.to_bytes()), now.as_millis()))
            })
            .map_err(unavailable)?;
            Ok(Decided::GoesOn(row.lane))
        }
    }
}

fn write_decided(
    tx: &Connection,
    now: Timestamp,
    scope: Ulid,
    key: &str,
    state: EffectState,
    by: Option<&str>,
    error: Option<&str>,
) -> rusqlite::Result<()> {
    tx.prepare_cached(&format!(
        "UPDATE effects SET state = ?3, decided_by = ?4, decided_at = ?5, error = ?6,
                    undecided_until = NULL, resolved_nth = {NEXT_NTH}
             WHERE scope = ?1 AND key = ?2"
    ))?
    .execute((Bits(scope.to_bytes()), key, state as i16, by, now.as_millis(), error))?;
    Ok(())
}

/// Ends an item as any cancelling does, with why.
fn give_up(tx: &Connection, now: Timestamp, row: &WorkRow, reason: &str) -> Result<Decided> {
    let next_in_order = cancel(tx, now, row, Some(reason))?.next_in_order();
    Ok(Decided::Cancelled { next_in_order })
}

fn overdue(connection: &Connection, now: Timestamp, limit: u32) -> Result<Vec<Overdue>> {
    let mut select = connection
        .prepare_cached(
            "SELECT e.tenant, e.work_id, e.scope, e.key, e.proposal_hash,
                    (SELECT kind FROM work w WHERE w.tenant = e.tenant AND w.id = e.work_id AND w.state = 3)
             FROM effects e WHERE e.undecided_until <= ?1 ORDER BY e.undecided_until LIMIT ?2",
        )
        .map_err(unavailable)?;
    collect(select.query_map((now.as_millis(), limit), overdue_row).map_err(unavailable)?)
}

fn overdue_row(row: &Row<'_>) -> rusqlite::Result<Overdue> {
    let kind: Option<i16> = row.get(5)?;
    Ok(Overdue {
        tenant: TenantId(row.get(0)?),
        work: WorkId::from_bytes(row.get::<_, Bits>(1)?.0),
        scope: Ulid::from_bytes(row.get::<_, Bits>(2)?.0),
        key: row.get(3)?,
        hash: ProposalHash(row.get(4)?),
        kind: kind.map(|code| known(code, WorkKind::from_code)).transpose()?,
    })
}

fn expire(
    tx: &Connection,
    now: Timestamp,
    seen: &Overdue,
    entry: &AuditEntry,
) -> Result<Option<Decided>> {
    let row = find(tx, seen.tenant, seen.work)?;
    let effects = list(tx, now, seen.tenant, seen.scope)?;
    if !effects.iter().any(|effect| seen.is_still(effect, now)) {
        return Ok(None);
    }
    let (state, why) = (EffectState::Rejected, Some(UNDECIDED));
    write_decided(tx, now, seen.scope, &seen.key, state, None, why).map_err(unavailable)?;
    match row.filter(|row| row.state == State::AwaitingApproval) {
        // It was given up by other means.
        None => Ok(None),
        Some(row) => {
            audit(tx, entry)?;
            give_up(tx, now, &row, UNDECIDED).map(Some)
        }
    }
}
