//! The side-effect ledger.

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use wakepost_domain::backoff::Backoff;
use wakepost_domain::effect::{self, Decision, EffectState, Runner};
use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::{self, Ending};
use wakepost_domain::work::HeldReason;
use wakepost_domain::{TenantId, Ulid, WorkId, limits};

use super::queue::live;
use super::rows::{
    audit, code, execute, get, id, opt_sealed, opt_text, opt_time, query, query_opt, text, time,
    uuid,
};
use super::settle::settle;
use super::{Postgres, commit};
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{Begin, BeginOutcome, EffectRow, Effects, Evidence, Guard, Resolve, Settle};
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
    let job = live(tx, ticket).await?;
    if job.cancel_requested {
        return Err(StoreError::CancelRequested);
    }
    let scope = job.scope;
    let runner = Runner { work: ticket.work, fence: ticket.fence };
    loop {
        let known = known(tx, scope, &request.key).await?;
        let before = known.as_ref().map(|row| (row.state, row.runner));
        match effect::begin(before, runner, request.on_doubt) {
            Decision::Execute if known.is_some() => begin_again(tx, scope, request).await?,
            Decision::Execute => {
                bound(tx, scope).await?;
                // Differs from SQLite: another item of the same scope may have begun it just now.
                if !begin_first(tx, scope, request).await? {
                    continue;
                }
            }
            Decision::Skip => {
                return Ok(BeginOutcome::Skip { scope, result: known.and_then(|row| row.result) });
            }
            Decision::InDoubt => {
                hold(tx, request).await?;
                return Ok(BeginOutcome::InDoubt { scope });
            }
        }
        return Ok(BeginOutcome::Execute { scope });
    }
}

struct Known {
    state: EffectState,
    runner: Runner,
    result: Option<Sealed>,
}

/// What the ledger has under a key, locked until the transaction ends.
async fn known(tx: &Transaction<'_>, scope: Ulid, key: &str) -> Result<Option<Known>> {
    let row = query_opt(
        tx,
        "SELECT state, work_id, fence, result FROM effects
         WHERE scope = $1::uuid AND key = $2::text FOR UPDATE",
        &[&uuid(scope), &text(key)],
    )
    .await?;
    row.map(|row| {
        Ok(Known {
            state: code(&row, 0, EffectState::from_code)?,
            runner: Runner { work: WorkId(id(&row, 1)?), fence: get(&row, 2)? },
            result: opt_sealed(&row, 3)?,
        })
    })
    .transpose()
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

async fn begin_first(tx: &Transaction<'_>, scope: Ulid, request: &Begin) -> Result<bool> {
    let ticket = &request.ticket;
    let added = execute(
        tx,
        "INSERT INTO effects (scope, key, tenant, state, work_id, fence, description, begun_at)
         VALUES ($1::uuid, $2::text, $3::int, 0, $4::uuid, $5::int, $6::text, wakepost_now())
         ON CONFLICT (scope, key) DO NOTHING",
        &[
            &uuid(scope),
            &text(&request.key),
            &ticket.tenant.0,
            &uuid(ticket.work.0),
            &ticket.fence,
            &opt_text(&request.description),
        ],
    )
    .await?;
    Ok(added == 1)
}

async fn begin_again(tx: &Transaction<'_>, scope: Ulid, request: &Begin) -> Result<()> {
    let ticket = &request.ticket;
    execute(
        tx,
        "UPDATE effects SET state = 0, work_id = $3::uuid, fence = $4::int, description = $5::text,
                error = NULL, resolved_at = NULL
         WHERE scope = $1::uuid AND key = $2::text",
        &[
            &uuid(scope),
            &text(&request.key),
            &uuid(ticket.work.0),
            &ticket.fence,
            &opt_text(&request.description),
        ],
    )
    .await?;
    Ok(())
}

/// Ends the run and holds the job, because nobody knows whether the effect happened.
async fn hold(tx: &Transaction<'_>, request: &Begin) -> Result<()> {
    let ticket = request.ticket;
    let settlement = transition::settle(
        Ending::Held(HeldReason::InDoubt),
        ticket.attempt,
        ticket.max_attempts,
        &Backoff::default(),
        0.0,
    );
    let end = Settle {
        ticket,
        guard: Guard::Live,
        settlement,
        error: Some(format!("effect {} is in doubt", request.key)),
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
    match known(tx, scope, key).await? {
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
        "UPDATE effects SET state = $3::smallint, result = $4::bytea, error = $5::text,
                resolved_at = wakepost_now()
         WHERE scope = $1::uuid AND key = $2::text",
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
    if known(tx, scope, &resolve.key).await?.is_none() {
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

async fn list(on: &impl GenericClient, tenant: TenantId, scope: Ulid) -> Result<Vec<EffectRow>> {
    let rows = query(
        on,
        "SELECT e.key, e.state, e.work_id, e.fence, e.description, e.result, e.error, e.begun_at,
                e.resolved_at,
                EXISTS (SELECT 1 FROM work w WHERE w.tenant = e.tenant AND w.id = e.work_id
                        AND w.fence = e.fence AND w.state = 5
                        AND w.lease_expires_at > wakepost_now())
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
        alive: get(row, 9)?,
    })
}
