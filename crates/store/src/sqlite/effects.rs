//! The side-effect ledger.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row};
use wakepost_domain::approval::ProposalHash;
use wakepost_domain::backoff::Backoff;
use wakepost_domain::effect::{self, Decision, EffectState, Runner};
use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::{self, Ending};
use wakepost_domain::work::HeldReason;
use wakepost_domain::{TenantId, Timestamp, Ulid, WorkId, limits};

use super::Sqlite;
use super::approvals::proposed_by;
use super::queue::live;
use super::rows::{Bits, SealedColumn, audit, collect, effect_state, time, unavailable};
use super::settle::settle;
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{
    ApprovalRow, Begin, BeginOutcome, Draft, EffectRow, Effects, Evidence, Guard, Resolve, Settle,
};
use crate::vault::Sealed;

#[async_trait]
impl Effects for Sqlite {
    async fn begin(&self, request: Begin) -> Result<BeginOutcome> {
        let outcome = self.write_whole(0, move |tx, now| begin(tx, now, &request)).await;
        failpoint::pass_async("effect.after_begin").await?;
        outcome
    }

    async fn commit(&self, ticket: Ticket, key: String, result: Option<Sealed>) -> Result<()> {
        let bytes = result.as_ref().map_or(0, Sealed::len);
        let done = self
            .write_whole(bytes, move |tx, now| {
                let end = EffectState::Committed;
                resolve_own(tx, now, &ticket, &key, end, result.as_ref(), None)?;
                failpoint::pass("effect.before_commit")
            })
            .await;
        failpoint::pass_async("effect.after_commit").await?;
        done
    }

    async fn abort(&self, ticket: Ticket, key: String, error: String) -> Result<()> {
        self.write_whole(0, move |tx, now| {
            resolve_own(tx, now, &ticket, &key, EffectState::Aborted, None, Some(&error))
        })
        .await
    }

    async fn resolve(&self, resolve: Resolve) -> Result<()> {
        self.write_whole(0, move |tx, now| resolve_doubt(tx, now, &resolve)).await
    }

    async fn effects(&self, tenant: TenantId, scope: Ulid) -> Result<Vec<EffectRow>> {
        self.readers.read(move |connection, now| list(connection, now, tenant, scope)).await
    }
}

fn begin(tx: &Connection, now: Timestamp, request: &Begin) -> Result<BeginOutcome> {
    let ticket = &request.ticket;
    let job = match live(tx, now, ticket) {
        Err(StoreError::LeaseLost) => {
            let scope = proposed_by(tx, ticket, &request.key, request.draft)?;
            return scope
                .map(|scope| BeginOutcome::NeedsApproval { scope })
                .ok_or(StoreError::LeaseLost);
        }
        live => live?,
    };
    if job.cancel_requested {
        return Err(StoreError::CancelRequested);
    }
    let scope = job.scope;
    let runner = Runner { work: ticket.work, fence: ticket.fence };
    let entry = entry(tx, now, scope, &request.key)?;
    let known = entry.as_ref().map(|entry| entry.known);
    let asked = request.draft.map(|draft| draft.hash);
    let decision = effect::begin(known, runner, request.on_doubt, asked);
    let writing = Writing {
        scope,
        ticket,
        key: &request.key,
        description: request.description.as_deref(),
        draft: request.draft,
        is_new: entry.is_none(),
    };
    match decision {
        Decision::Execute => {
            write(tx, now, &writing, EffectState::Begun)?;
            Ok(BeginOutcome::Execute { scope })
        }
        Decision::Skip => {
            Ok(BeginOutcome::Skip { scope, result: entry.and_then(|entry| entry.result) })
        }
        Decision::InDoubt => {
            let error = format!("effect {} is in doubt", request.key);
            end_run(tx, now, ticket, Ending::Held(HeldReason::InDoubt), Some(error))?;
            Ok(BeginOutcome::InDoubt { scope })
        }
        Decision::NeedsApproval => {
            write(tx, now, &writing, EffectState::Proposed)?;
            end_run(tx, now, ticket, Ending::Proposed, None)?;
            Ok(BeginOutcome::NeedsApproval { scope })
        }
    }
}

/// The next place among the changes of a scope, `?1`. Whoever changes one holds its job, so none is given twice.
pub(super) const NEXT_NTH: &str =
    "(SELECT coalesce(max(max(begun_nth, coalesce(resolved_nth, 0))), 0) + 1
     FROM effects WHERE scope = ?1)";

/// What the ledger has under a key.
pub(super) struct Entry {
    pub known: effect::Known,
    result: Option<Sealed>,
}

pub(super) fn entry(
    tx: &Connection,
    now: Timestamp,
    scope: Ulid,
    key: &str,
) -> Result<Option<Entry>> {
    tx.prepare_cached(
        "SELECT state, work_id, fence, result, proposal_hash, coalesce(expires_at > ?3, 0)
         FROM effects WHERE scope = ?1 AND key = ?2",
    )
    .and_then(|mut select| {
        select
            .query_row((Bits(scope.to_bytes()), key, now.as_millis()), |row| {
                let known = effect::Known {
                    state: effect_state(row.get(0)?)?,
                    runner: Runner {
                        work: WorkId::from_bytes(row.get::<_, Bits>(1)?.0),
                        fence: row.get(2)?,
                    },
                    proposal: row.get::<_, Option<[u8; 32]>>(4)?.map(ProposalHash),
                    in_time: row.get(5)?,
                };
                let result = row.get::<_, Option<SealedColumn>>(3)?.map(|column| column.0);
                Ok(Entry { known, result })
            })
            .optional()
    })
    .map_err(unavailable)
}

/// What a run writes into the ledger.
pub(super) struct Writing<'a> {
    pub scope: Ulid,
    pub ticket: &'a Ticket,
    pub key: &'a str,
    pub description: Option<&'a str>,
    pub draft: Option<Draft>,
    pub is_new: bool,
}

/// Begins an effect or proposes it. One that is begun on an approval keeps word of who gave it.
pub(super) fn write(
    tx: &Connection,
    now: Timestamp,
    writing: &Writing<'_>,
    state: EffectState,
) -> Result<()> {
    let Writing { scope, ticket, key, description, draft, is_new } = writing;
    if *is_new {
        bound(tx, *scope)?;
    }
    let until = draft.filter(|_| state == EffectState::Proposed);
    let until = until.map(|draft| now.after(draft.expires).as_millis());
    tx.prepare_cached(
        &format!(
            "INSERT INTO effects (scope, key, tenant, state, work_id, fence, description, begun_at,
                                  proposal_hash, expires_at, undecided_until, begun_nth)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10, {NEXT_NTH})
             ON CONFLICT (scope, key) DO UPDATE SET state = excluded.state, work_id = excluded.work_id,
               fence = excluded.fence, description = excluded.description, error = NULL,
               resolved_at = NULL, begun_nth = excluded.begun_nth, resolved_nth = NULL,
               proposal_hash = excluded.proposal_hash, undecided_until = excluded.undecided_until,
               expires_at = CASE WHEN ?11 THEN expires_at ELSE excluded.expires_at END,
               decided_by = CASE WHEN ?11 THEN decided_by END,
               decided_at = CASE WHEN ?11 THEN decided_at END"
        ),
    )
    .and_then(|mut put| {
        put.execute((
            Bits(scope.to_bytes()),
            key,
            ticket.tenant.0,
            state as i16,
            Bits(ticket.work.to_bytes()),
            ticket.fence,
            description,
            now.as_millis(),
            draft.map(|draft| draft.hash.0),
            until,
            draft.is_some() && state == EffectState::Begun,
        ))
    })
    .map_err(unavailable)?;
    Ok(())
}

fn bound(tx: &Connection, scope: Ulid) -> Result<()> {
    let count: i64 = tx
        .prepare_cached("SELECT count(*) FROM effects WHERE scope = ?1")
        .and_then(|mut select| select.query_row([Bits(scope.to_bytes())], |row| row.get(0)))
        .map_err(unavailable)?;
    if count >= limits::EFFECTS_PER_SCOPE_MAX {
        return Err(StoreError::Limit(format!(
            "a job may have at most {} effects",
            limits::EFFECTS_PER_SCOPE_MAX
        )));
    }
    Ok(())
}

/// Ends the run that asked: an operator, or whoever approves, must decide before it goes on.
pub(super) fn end_run(
    tx: &Connection,
    now: Timestamp,
    ticket: &Ticket,
    ending: Ending,
    error: Option<String>,
) -> Result<()> {
    let settlement =
        transition::settle(ending, ticket.attempt, ticket.max_attempts, &Backoff::default(), 0.0);
    let end = Settle {
        ticket: *ticket,
        guard: Guard::Live,
        settlement,
        error,
        evidence: Evidence::default(),
        follow_up: None,
        expanded: None,
    };
    settle(tx, now, &end)?.ok_or(StoreError::LeaseLost)?;
    Ok(())
}

/// The run that began an effect says how it went. Saying the same again changes nothing.
fn resolve_own(
    tx: &Connection,
    now: Timestamp,
    ticket: &Ticket,
    key: &str,
    state: EffectState,
    result: Option<&Sealed>,
    error: Option<&str>,
) -> Result<()> {
    let scope = live(tx, now, ticket)?.scope;
    let runner = Runner { work: ticket.work, fence: ticket.fence };
    match entry(tx, now, scope, key)?.map(|entry| entry.known) {
        None => Err(StoreError::NotFound),
        Some(row) if row.state == state && row.runner == runner => Ok(()),
        Some(row) if row.state == EffectState::Begun && row.runner == runner => {
            write_resolved(tx, now, scope, key, state, result, error)
        }
        Some(_) => Err(StoreError::InvalidState(
            "this run did not begin the effect, or it is resolved".to_owned(),
        )),
    }
}

fn write_resolved(
    tx: &Connection,
    now: Timestamp,
    scope: Ulid,
    key: &str,
    state: EffectState,
    result: Option<&Sealed>,
    error: Option<&str>,
) -> Result<()> {
    tx.prepare_cached(&format!(
        "UPDATE effects SET state = ?3, result = ?4, error = ?5, resolved_at = ?6,
                    resolved_nth = {NEXT_NTH}
             WHERE scope = ?1 AND key = ?2"
    ))
    .and_then(|mut update| {
        update.execute((
            Bits(scope.to_bytes()),
            key,
            state as i16,
            result.map(Sealed::as_bytes),
            error,
            now.as_millis(),
        ))
    })
    .map_err(unavailable)?;
    Ok(())
}

fn resolve_doubt(tx: &Connection, now: Timestamp, resolve: &Resolve) -> Result<()> {
    let scope = scope_of(tx, resolve.tenant, resolve.work)?;
    let doubts = in_doubt(tx, now, resolve.tenant, scope)?;
    if entry(tx, now, scope, &resolve.key)?.is_none() {
        return Err(StoreError::NotFound);
    }
    if !doubts.contains(&resolve.key) {
        return Err(StoreError::InvalidState("the effect is not in doubt".to_owned()));
    }
    let state = if resolve.committed { EffectState::Committed } else { EffectState::Aborted };
    let error = (!resolve.committed).then_some("an operator says it was not done");
    write_resolved(tx, now, scope, &resolve.key, state, resolve.result.as_ref(), error)?;
    audit(tx, &resolve.audit)?;
    if doubts.len() == 1 {
        tx.prepare_cached(
            // Whichever item of the scope waits for it: the job, or its replay.
            "UPDATE work SET state = 0, run_at = ?3, held_reason = NULL
             WHERE ((tenant = ?1 AND id = ?2) OR (scope = ?2 AND scope <> id AND tenant = ?1))
               AND state = 4 AND held_reason = 0",
        )
        .and_then(|mut update| {
            update.execute((resolve.tenant.0, Bits(scope.to_bytes()), now.as_millis()))
        })
        .map_err(unavailable)?;
    }
    Ok(())
}

fn scope_of(tx: &Connection, tenant: TenantId, work: WorkId) -> Result<Ulid> {
    tx.prepare_cached(
        "SELECT scope FROM work WHERE tenant = ?1 AND id = ?2
         UNION ALL SELECT scope FROM work_done WHERE tenant = ?1 AND id = ?2",
    )
    .and_then(|mut select| {
        select.query_row((tenant.0, Bits(work.to_bytes())), |row| row.get::<_, Bits>(0)).optional()
    })
    .map_err(unavailable)?
    .map(|bits| Ulid::from_bytes(bits.0))
    .ok_or(StoreError::NotFound)
}

/// The keys of a scope's effects that were begun by a run that is gone.
fn in_doubt(tx: &Connection, now: Timestamp, tenant: TenantId, scope: Ulid) -> Result<Vec<String>> {
    let effects = list(tx, now, tenant, scope)?;
    Ok(effects
        .into_iter()
        .filter(|row| row.state == EffectState::Begun && !row.alive)
        .map(|row| row.key)
        .collect())
}

pub(super) fn list(
    connection: &Connection,
    now: Timestamp,
    tenant: TenantId,
    scope: Ulid,
) -> Result<Vec<EffectRow>> {
    let mut select = connection
        .prepare_cached(
            "SELECT e.key, e.state, e.work_id, e.fence, e.description, e.result, e.error, e.begun_at,
                    e.resolved_at, e.begun_nth, e.resolved_nth,
                    EXISTS (SELECT 1 FROM work w WHERE w.tenant = e.tenant AND w.id = e.work_id
                            AND w.fence = e.fence AND w.state = 5 AND w.lease_expires_at > ?3),
                    e.proposal_hash, e.expires_at, e.decided_by, e.decided_at
             FROM effects e WHERE e.scope = ?1 AND e.tenant = ?2 ORDER BY e.begun_at, e.key",
        )
        .map_err(unavailable)?;
    let rows = select
        .query_map((Bits(scope.to_bytes()), tenant.0, now.as_millis()), effect_row)
        .map_err(unavailable)?;
    collect(rows)
}

fn effect_row(row: &Row<'_>) -> rusqlite::Result<EffectRow> {
    Ok(EffectRow {
        key: row.get(0)?,
        state: effect_state(row.get(1)?)?,
        runner: Runner { work: WorkId::from_bytes(row.get::<_, Bits>(2)?.0), fence: row.get(3)? },
        description: row.get(4)?,
        result: row.get::<_, Option<SealedColumn>>(5)?.map(|column| column.0),
        error: row.get(6)?,
        begun_at: time(row.get(7)?),
        resolved_at: row.get::<_, Option<i64>>(8)?.map(time),
        begun_nth: row.get(9)?,
        resolved_nth: row.get(10)?,
        alive: row.get(11)?,
        approval: approval_row(row, 12)?,
    })
}

fn approval_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<ApprovalRow>> {
    let hash: Option<[u8; 32]> = row.get(first)?;
    let expires_at: Option<i64> = row.get(first + 1)?;
    let (decided_by, decided_at) = (row.get(first + 2)?, row.get::<_, Option<i64>>(first + 3)?);
    Ok(hash.zip(expires_at).map(|(hash, expires_at)| ApprovalRow {
        hash: ProposalHash(hash),
        expires_at: time(expires_at),
        decided_by,
        decided_at: decided_at.map(time),
    }))
}
