//! The side-effect ledger.

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use wakepost_domain::approval::ProposalHash;
use wakepost_domain::backoff::Backoff;
use wakepost_domain::effect::{self, Decision, EffectState, Runner};
use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::{self, Ending};
use wakepost_domain::work::HeldReason;
use wakepost_domain::{TenantId, Ulid, WorkId, limits};

use super::approvals::proposed_by;
use super::claim::millis;
use super::queue::live;
use super::rows::{
    audit, bytes, code, execute, get, id, opt_sealed, opt_text, opt_time, query, query_opt, text,
    time, uuid,
};
use super::settle::settle;
use super::{Postgres, commit};
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{
    ApprovalRow, Begin, BeginOutcome, Draft, EffectRow, Effects, Evidence, Guard, Resolve, Settle,
};
use crate::vault::Sealed;

#[async_trait]
impl Effects for Postgres {
    async fn begin(&self, request: Begin) -> Result<BeginOutcome> {
        let mut client = self.hot().await?;
        let tx = client.transaction().await?;
        let outcome = begin(&tx, &request).await?;
        commit(tx).await?;
        failpoint::pass_async("effect.after_begin").await?;
        Ok(outcome)
    }

    async fn commit(&self, ticket: Ticket, key: String, result: Option<Sealed>) -> Result<()> {
        let _place = self.inner.admission.enter(result.as_ref().map_or(0, Sealed::len))?;
        let mut client = self.hot().await?;
        let tx = client.transaction().await?;
        let end =
            Resolution { state: EffectState::Committed, result: result.as_ref(), error: None };
        resolve_own(&tx, &ticket, &key, &end).await?;
        failpoint::pass_async("effect.before_commit").await?;
        commit(tx).await?;
        failpoint::pass_async("effect.after_commit").await
    }

    async fn abort(&self, ticket: Ticket, key: String, error: String) -> Result<()> {
        let mut client = self.hot().await?;
        let tx = client.transaction().await?;
        let end = Resolution { state: EffectState::Aborted, result: None, error: Some(&error) };
        resolve_own(&tx, &ticket, &key, &end).await?;
        commit(tx).await
    }

    async fn resolve(&self, resolve: Resolve) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        resolve_doubt(&tx, &resolve).await?;
        commit(tx).await
    }

    async fn effects(&self, tenant: TenantId, scope: Ulid) -> Result<Vec<EffectRow>> {
        list(&self.cool().await?, tenant, scope).await
    }
}

async fn begin(tx: &Transaction<'_>, request: &Begin) -> Result<BeginOutcome> {
    let ticket = &request.ticket;
    let job = match live(tx, ticket).await {
        Err(StoreError::LeaseLost) => {
            let scope = proposed_by(tx, ticket, &request.key, request.draft).await?;
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
    let asked = request.draft.map(|draft| draft.hash);
    loop {
        let entry = entry(tx, scope, &request.key).await?;
        let known = entry.as_ref().map(|entry| entry.known);
        let writing = Writing {
            scope,
            ticket,
            key: &request.key,
            description: &request.description,
            draft: request.draft,
            is_new: entry.is_none(),
        };
        match effect::begin(known, runner, request.on_doubt, asked) {
            Decision::Execute => {
                if write(tx, &writing, EffectState::Begun).await? {
                    return Ok(BeginOutcome::Execute { scope });
                }
            }
            Decision::Skip => {
                let result = entry.and_then(|entry| entry.result);
                return Ok(BeginOutcome::Skip { scope, result });
            }
            Decision::InDoubt => {
                let error = format!("effect {} is in doubt", request.key);
                end_run(tx, ticket, Ending::Held(HeldReason::InDoubt), Some(error)).await?;
                return Ok(BeginOutcome::InDoubt { scope });
            }
            Decision::NeedsApproval => {
                if write(tx, &writing, EffectState::Proposed).await? {
                    end_run(tx, ticket, Ending::Proposed, None).await?;
                    return Ok(BeginOutcome::NeedsApproval { scope });
                }
            }
        }
    }
}

/// The next place among the changes of a scope, `$1`. Whoever changes one holds its job, so none is given twice.
pub(super) const NEXT_NTH: &str = "(SELECT coalesce(max(greatest(begun_nth, resolved_nth)), 0) + 1
     FROM effects WHERE scope = $1::uuid)";

/// What the ledger has under a key.
pub(super) struct Entry {
    pub known: effect::Known,
    result: Option<Sealed>,
}

/// What the ledger has under a key, locked until the transaction ends.
pub(super) async fn entry(tx: &Transaction<'_>, scope: Ulid, key: &str) -> Result<Option<Entry>> {
    let row = query_opt(
        tx,
        "SELECT state, work_id, fence, result, proposal_hash, coalesce(expires_at > wakepost_now(), false)
         FROM effects WHERE scope = $1::uuid AND key = $2::text FOR UPDATE",
        &[&uuid(scope), &text(key)],
    )
    .await?;
    row.map(|row| {
        let known = effect::Known {
            state: code(&row, 0, EffectState::from_code)?,
            runner: Runner { work: WorkId(id(&row, 1)?), fence: get(&row, 2)? },
            proposal: opt_hash(&row, 4)?,
            in_time: get(&row, 5)?,
        };
        Ok(Entry { known, result: opt_sealed(&row, 3)? })
    })
    .transpose()
}

fn opt_hash(row: &Row, index: usize) -> Result<Option<ProposalHash>> {
    match get::<Option<&[u8]>>(row, index)? {
        None => Ok(None),
        Some(_) => bytes(row, index).map(ProposalHash).map(Some),
    }
}

/// What a run writes into the ledger.
pub(super) struct Writing<'a> {
    pub scope: Ulid,
    pub ticket: &'a Ticket,
    pub key: &'a str,
    pub description: &'a Option<String>,
    pub draft: Option<Draft>,
    pub is_new: bool,
}

/// Begins an effect or proposes it. One that is begun on an approval keeps word of who gave it. Differs from SQLite:
/// another item of the same scope may have written it just now, and then nothing is.
pub(super) async fn write(
    tx: &Transaction<'_>,
    writing: &Writing<'_>,
    state: EffectState,
) -> Result<bool> {
    let Writing { scope, ticket, key, description, draft, is_new } = writing;
    if *is_new {
        bound(tx, *scope).await?;
    }
    let until = draft.filter(|_| state == EffectState::Proposed);
    let written = execute(
        tx,
        &format!("INSERT INTO effects AS e (scope, key, tenant, state, work_id, fence, description, begun_at,
                                   proposal_hash, expires_at, undecided_until, begun_nth)
         VALUES ($1::uuid, $2::text, $3::int, $4::smallint, $5::uuid, $6::int, $7::text, wakepost_now(),
                 $8::bytea, wakepost_now() + $9::bigint, wakepost_now() + $9::bigint, {NEXT_NTH})
         ON CONFLICT (scope, key) DO UPDATE SET state = excluded.state, work_id = excluded.work_id,
           fence = excluded.fence, description = excluded.description, error = NULL, resolved_at = NULL,
           begun_nth = excluded.begun_nth, resolved_nth = NULL,
           proposal_hash = excluded.proposal_hash, undecided_until = excluded.undecided_until,
           expires_at = CASE WHEN $10::bool THEN e.expires_at ELSE excluded.expires_at END,
           decided_by = CASE WHEN $10::bool THEN e.decided_by END,
           decided_at = CASE WHEN $10::bool THEN e.decided_at END
         WHERE NOT $11::bool"),
        &[
            &uuid(*scope),
            &text(key),
            &ticket.tenant.0,
            &(state as i16),
            &uuid(ticket.work.0),
            &ticket.fence,
            &opt_text(description),
            &draft.map(|draft| draft.hash.0.to_vec()),
            &until.map(|draft| millis(draft.expires)),
            &(draft.is_some() && state == EffectState::Begun),
            is_new,
        ],
    )
    .await?;
    Ok(written == 1)
}

async fn bound(tx: &Transaction<'_>, scope: Ulid) -> Result<()> {
    let row = tx
        .query_one("SELECT count(*) FROM effects WHERE scope = $1::uuid", &[&uuid(scope)])
        .await?;
    if get::<i64>(&row, 0)? >= limits::EFFECTS_PER_SCOPE_MAX {
        return Err(StoreError::Limit(format!(
            "a job may have at most {} effects",
            limits::EFFECTS_PER_SCOPE_MAX
        )));
    }
    Ok(())
}

/// Ends the run that asked: an operator, or whoever approves, must decide before it goes on.
pub(super) async fn end_run(
    tx: &Transaction<'_>,
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
    let settled = settle(tx, &[&end]).await?;
    settled.into_iter().next().flatten().ok_or(StoreError::LeaseLost)?;
    Ok(())
}

/// How an effect went.
struct Resolution<'a> {
    state: EffectState,
    result: Option<&'a Sealed>,
    error: Option<&'a str>,
}

/// The run that began an effect says how it went. Saying the same again changes nothing.
async fn resolve_own(
    tx: &Transaction<'_>,
    ticket: &Ticket,
    key: &str,
    end: &Resolution<'_>,
) -> Result<()> {
    let scope = live(tx, ticket).await?.scope;
    let runner = Runner { work: ticket.work, fence: ticket.fence };
    match entry(tx, scope, key).await?.map(|entry| entry.known) {
        None => Err(StoreError::NotFound),
        Some(row) if row.state == end.state && row.runner == runner => Ok(()),
        Some(row) if row.state == EffectState::Begun && row.runner == runner => {
            write_resolved(tx, scope, key, end).await
        }
        Some(_) => Err(StoreError::InvalidState(
            "this run did not begin the effect, or it is resolved".to_owned(),
        )),
    }
}

async fn write_resolved(
    tx: &Transaction<'_>,
    scope: Ulid,
    key: &str,
    end: &Resolution<'_>,
) -> Result<()> {
    execute(
        tx,
        &format!(
            "UPDATE effects SET state = $3::smallint, result = $4::bytea, error = $5::text,
                    resolved_at = wakepost_now(), resolved_nth = {NEXT_NTH}
             WHERE scope = $1::uuid AND key = $2::text"
        ),
        &[
            &uuid(scope),
            &text(key),
            &(end.state as i16),
            &end.result.map(Sealed::as_bytes),
            &end.error.map(text),
        ],
    )
    .await?;
    Ok(())
}

async fn resolve_doubt(tx: &Transaction<'_>, resolve: &Resolve) -> Result<()> {
    let scope = lock_scope(tx, resolve.tenant, resolve.work).await?;
    if entry(tx, scope, &resolve.key).await?.is_none() {
        return Err(StoreError::NotFound);
    }
    let key = text(&resolve.key);
    let doubts = in_doubt(tx, resolve.tenant, scope).await?;
    if !doubts.iter().any(|doubt| *doubt == key) {
        return Err(StoreError::InvalidState("the effect is not in doubt".to_owned()));
    }
    let end = match resolve.committed {
        true => Resolution {
            state: EffectState::Committed,
            result: resolve.result.as_ref(),
            error: None,
        },
        false => Resolution {
            state: EffectState::Aborted,
            result: resolve.result.as_ref(),
            error: Some("an operator says it was not done"),
        },
    };
    write_resolved(tx, scope, &resolve.key, &end).await?;
    audit(tx, &resolve.audit).await?;
    if doubts.len() == 1 {
        execute(
            tx,
            // Whichever item of the scope waits for it: the job, or its replay.
            "UPDATE work SET state = 0, run_at = wakepost_now(), held_reason = NULL
             WHERE ((tenant = $1::int AND id = $2::uuid)
                    OR (scope = $2::uuid AND scope <> id AND tenant = $1::int))
               AND state = 4 AND held_reason = 0",
            &[&resolve.tenant.0, &uuid(scope)],
        )
        .await?;
    }
    Ok(())
}

/// The scope of an item; a live one stays locked, so that no run begins or ends meanwhile.
async fn lock_scope(tx: &Transaction<'_>, tenant: TenantId, work: WorkId) -> Result<Ulid> {
    let key: super::rows::Params<'_> = &[&tenant.0, &uuid(work.0)];
    let live = "SELECT scope FROM work WHERE tenant = $1::int AND id = $2::uuid FOR UPDATE";
    if let Some(row) = query_opt(tx, live, key).await? {
        return id(&row, 0);
    }
    let done = "SELECT scope FROM work_done WHERE tenant = $1::int AND id = $2::uuid";
    match query_opt(tx, done, key).await? {
        Some(row) => id(&row, 0),
        None => Err(StoreError::NotFound),
    }
}

/// The keys of a scope's effects that were begun by a run that is gone.
async fn in_doubt(tx: &Transaction<'_>, tenant: TenantId, scope: Ulid) -> Result<Vec<String>> {
    let effects = list(tx, tenant, scope).await?;
    Ok(effects
        .into_iter()
        .filter(|row| row.state == EffectState::Begun && !row.alive)
        .map(|row| row.key)
        .collect())
}

pub(super) async fn list(
    on: &impl GenericClient,
    tenant: TenantId,
    scope: Ulid,
) -> Result<Vec<EffectRow>> {
    let rows = query(
        on,
        "SELECT e.key, e.state, e.work_id, e.fence, e.description, e.result, e.error, e.begun_at,
                e.resolved_at, e.begun_nth, e.resolved_nth,
                EXISTS (SELECT 1 FROM work w WHERE w.tenant = e.tenant AND w.id = e.work_id
                        AND w.fence = e.fence AND w.state = 5
                        AND w.lease_expires_at > wakepost_now()),
                e.proposal_hash, e.expires_at, e.decided_by, e.decided_at
         FROM effects e WHERE e.scope = $1::uuid AND e.tenant = $2::int
         ORDER BY e.begun_at, e.key COLLATE \"C\"",
        &[&uuid(scope), &tenant.0],
    )
    .await?;
    rows.iter().map(effect_row).collect()
}

fn effect_row(row: &Row) -> Result<EffectRow> {
    Ok(EffectRow {
        key: get(row, 0)?,
        state: code(row, 1, EffectState::from_code)?,
        runner: Runner { work: WorkId(id(row, 2)?), fence: get(row, 3)? },
        description: get(row, 4)?,
        result: opt_sealed(row, 5)?,
        error: get(row, 6)?,
        begun_at: time(row, 7)?,
        resolved_at: opt_time(row, 8)?,
        begun_nth: get(row, 9)?,
        resolved_nth: get(row, 10)?,
        alive: get(row, 11)?,
        approval: approval_row(row, 12)?,
    })
}

fn approval_row(row: &Row, first: usize) -> Result<Option<ApprovalRow>> {
    let (hash, expires_at) = (opt_hash(row, first)?, opt_time(row, first + 1)?);
    let (decided_by, decided_at) = (get(row, first + 2)?, opt_time(row, first + 3)?);
    Ok(hash.zip(expires_at).map(|(hash, expires_at)| ApprovalRow {
        hash,
        expires_at,
        decided_by,
        decided_at,
    }))
}
