//! People in the loop: what is proposed, decided, and never decided on.

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use uuid::Uuid;
use wakepost_domain::approval::ProposalHash;
use wakepost_domain::effect::{EffectState, Runner};
use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::{Ending, Move};
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{TenantId, Timestamp, Ulid, WorkId};

use super::effects::{NEXT_NTH, Writing, end_run, entry, list, write};
use super::ordering::lock_live;
use super::queue::live;
use super::rows::{audit, bytes, execute, get, id, query, query_opt, text, time, uuid};
use super::work::{cancel, check, lock};
use super::{Postgres, commit, conclude};
use crate::error::{Result, StoreError};
use crate::moves::{
    Approvals, Ask, AuditEntry, Decide, Decided, Draft, EffectRow, Overdue, UNDECIDED, WorkRow,
};

#[async_trait]
impl Approvals for Postgres {
    async fn ask(&self, request: Ask) -> Result<bool> {
        let mut client = self.hot().await?;
        let tx = client.transaction().await?;
        let approved = ask(&tx, &request).await?;
        commit(tx).await?;
        Ok(approved)
    }

    async fn decide(&self, request: Decide) -> Result<Decided> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let decided = decide(&tx, &request).await;
        conclude(tx, decided).await
    }

    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>> {
        let client = self.cool().await?;
        let rows = query(
            &client,
            "SELECT e.tenant, e.work_id, e.scope, e.key, e.proposal_hash,
                    (SELECT kind FROM work w WHERE w.tenant = e.tenant AND w.id = e.work_id AND w.state = 3)
             FROM effects e WHERE e.undecided_until <= wakepost_now()
             ORDER BY e.undecided_until LIMIT $1::bigint",
            &[&i64::from(limit)],
        )
        .await?;
        rows.iter().map(overdue_row).collect()
    }

    async fn expire(&self, seen: Overdue, entry: AuditEntry) -> Result<Option<Decided>> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let decided = expire(&tx, &seen, &entry).await?;
        commit(tx).await?;
        Ok(decided)
    }
}

async fn ask(tx: &Transaction<'_>, request: &Ask) -> Result<bool> {
    let Ask { ticket, key, draft } = request;
    let job = match live(tx, ticket).await {
        Err(StoreError::LeaseLost) => {
            let proposed = proposed_by(tx, ticket, key, Some(*draft)).await?;
            return proposed.map(|_| false).ok_or(StoreError::LeaseLost);
        }
        live => live?,
    };
    if job.cancel_requested {
        return Err(StoreError::CancelRequested);
    }
    let (runner, scope) = (Runner { work: ticket.work, fence: ticket.fence }, job.scope);
    loop {
        let entry = entry(tx, scope, key).await?;
        if entry.as_ref().is_some_and(|entry| entry.known.approves(runner, draft.hash)) {
            return Ok(true);
        }
        let is_new = entry.is_none();
        let draft = Some(*draft);
        let writing = Writing { scope, ticket, key, description: &None, draft, is_new };
        if write(tx, &writing, EffectState::Proposed).await? {
            end_run(tx, ticket, Ending::Proposed, None).await?;
            return Ok(false);
        }
    }
}

/// The scope of a job that waits because this very run proposed exactly this: the call that ended it is repeated.
pub async fn proposed_by(
    tx: &Transaction<'_>,
    ticket: &Ticket,
    key: &str,
    draft: Option<Draft>,
) -> Result<Option<Ulid>> {
    let Some(draft) = draft else {
        return Ok(None);
    };
    let row = query_opt(
        tx,
        "SELECT w.scope FROM work w JOIN effects e ON e.scope = w.scope AND e.key = $4::text
         WHERE w.tenant = $1::int AND w.id = $2::uuid AND w.fence = $3::int AND w.state = 3
           AND e.state = 3 AND e.work_id = w.id AND e.fence = w.fence AND e.proposal_hash = $5::bytea",
        &[
            &ticket.tenant.0,
            &uuid(ticket.work.0),
            &ticket.fence,
            &text(key),
            &draft.hash.0.as_slice(),
        ],
    )
    .await?;
    row.map(|row| id(&row, 0)).transpose()
}

async fn decide(tx: &Transaction<'_>, request: &Decide) -> Result<Decided> {
    // The key before the item: so does whoever ends a run.
    let keys = lock_live(tx, &[(request.tenant, request.work)]).await?;
    let row = lock(tx, request.tenant, request.work).await?.ok_or(StoreError::NotFound)?;
    check(row.state, Move::Decide { approved: request.approved })?;
    let now = now(tx).await?;
    let effects = list(tx, row.tenant, row.scope).await?;
    let waits: Vec<&EffectRow> =
        effects.iter().filter(|effect| effect.is_awaited_by(row.id)).collect();
    if !request.seen_as_it_is(&waits, now) {
        return Err(StoreError::ProposalChanged);
    }
    let state = if request.approved { EffectState::Approved } else { EffectState::Rejected };
    for proposal in &request.proposals {
        write_decided(tx, row.scope, &proposal.key, state, Some(&request.by), None).await?;
    }
    for entry in &request.audit {
        audit(tx, entry).await?;
    }
    match request.approved {
        false => {
            let keys: Vec<_> = keys.into_values().collect();
            give_up(tx, &row, &keys, &request.reason).await
        }
        true if waits.len() > request.proposals.len() => Ok(Decided::StillWaits),
        true => {
            execute(
                tx,
                "UPDATE work SET state = 0, run_at = wakepost_now()
                 WHERE tenant = $1::int AND id = $2::uuid",
                &[&row.tenant.0, &uuid(row.id.0)],
            )
            .await?;
            Ok(Decided::GoesOn(row.lane))
        }
    }
}

async fn now(tx: &Transaction<'_>) -> Result<Timestamp> {
    time(&tx.query_one("SELECT wakepost_now()", &[]).await?, 0)
}

async fn write_decided(
    tx: &Transaction<'_>,
    scope: Ulid,
    key: &str,
    state: EffectState,
    by: Option<&str>,
    error: Option<&str>,
) -> Result<()> {
    execute(
        tx,
        &format!(
            "UPDATE effects SET state = $3::smallint, decided_by = $4::text, decided_at = wakepost_now(),
                    error = $5::text, undecided_until = NULL, resolved_nth = {NEXT_NTH}
             WHERE scope = $1::uuid AND key = $2::text"
        ),
        &[&uuid(scope), &text(key), &(state as i16), &by.map(text), &error],
    )
    .await?;
    Ok(())
}

/// Ends an item as any cancelling does, with why.
async fn give_up(
    tx: &Transaction<'_>,
    row: &WorkRow,
    order_keys: &[Uuid],
    reason: &str,
) -> Result<Decided> {
    let next_in_order = cancel(tx, row, order_keys, Some(reason)).await?.next_in_order();
    Ok(Decided::Cancelled { next_in_order })
}

fn overdue_row(row: &Row) -> Result<Overdue> {
    Ok(Overdue {
        tenant: TenantId(get(row, 0)?),
        work: WorkId(id(row, 1)?),
        scope: id(row, 2)?,
        key: get(row, 3)?,
        hash: ProposalHash(bytes(row, 4)?),
        kind: get::<Option<i16>>(row, 5)?.and_then(WorkKind::from_code),
    })
}

async fn expire(
    tx: &Transaction<'_>,
    seen: &Overdue,
    audited: &AuditEntry,
) -> Result<Option<Decided>> {
    let keys = lock_live(tx, &[(seen.tenant, seen.work)]).await?;
    let row = lock(tx, seen.tenant, seen.work).await?;
    // Another item of the scope, a replay, may be about to begin it.
    entry(tx, seen.scope, &seen.key).await?;
    let now = now(tx).await?;
    let effects = list(tx, seen.tenant, seen.scope).await?;
    if !effects.iter().any(|effect| seen.is_still(effect, now)) {
        return Ok(None);
    }
    write_decided(tx, seen.scope, &seen.key, EffectState::Rejected, None, Some(UNDECIDED)).await?;
    match row.filter(|row| row.state == State::AwaitingApproval) {
        // It was given up by other means.
        None => Ok(None),
        Some(row) => {
            audit(tx, audited).await?;
            let keys: Vec<_> = keys.into_values().collect();
            give_up(tx, &row, &keys, UNDECIDED).await.map(Some)
        }
    }
}
