//! The side-effect ledger: ask before acting, say how it went.

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::approval::ProposalHash;
use wakepost_domain::effect::{Decision, EffectState, OnDoubt};
use wakepost_domain::lease::Ticket;
use wakepost_domain::{TenantId, Ulid, limits};
use wakepost_store::moves::{Begin, BeginOutcome, Draft, Resolve, WorkRow, proposal_hash};
use wakepost_store::vault::{Sealed, Slot};
use wakepost_store::{Result as Stored, StoreError};

use super::call::{At, Call};
use super::describe::{Conflicting, Keyed, Missing, Tenant};
use super::error::ApiError;
use super::once;
use super::ticket::Leased;
use super::work::{check_document, check_key, check_note, find};
use crate::schema;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::story;
use crate::to_the_end::ToTheEnd;
use crate::tokens::idempotency_key;
use crate::view::open_json;

/// A wish to act.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct BeginBody {
    /// The lease.
    lease_token: String,
    /// The effect's name within the job.
    #[schema(value_type = schema::Key)]
    key: String,
    /// What it would do, for people.
    #[schema(max_length = 4096)]
    description: Option<String>,
    /// What to do if an earlier run began it and never said how it went; `hold` if left out.
    #[schema(value_type = Option<schema::OnDoubt>)]
    on_doubt: Option<OnDoubt>,
}

impl Leased for BeginBody {
    fn token(&self) -> &str {
        &self.lease_token
    }

    fn check(&self) -> Result<(), ApiError> {
        check_key("key", &self.key)?;
        match &self.description {
            Some(text) if text.len() > limits::ERROR_BYTES_MAX => {
                Err(ApiError::field("description", "is too long"))
            }
            _ => Ok(()),
        }
    }
}

/// What to do.
#[derive(Serialize, ToSchema)]
struct Begun {
    /// `execute`: go ahead. `skip`: it happened already. `in_doubt`: the run has ended and the job is held.
    /// `needs_approval`: the run has ended, and the job waits for a person to decide.
    #[schema(value_type = schema::Decision)]
    decision: Decision,
    /// What to pass downstream, so that the other side can tell a repeat.
    idempotency_key: String,
    /// With `skip`: what it came to then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    result: Option<Value>,
    /// With `needs_approval`: what exactly is proposed, as a hash over the key and the description.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ProposalHash>)]
    proposal_hash: Option<ProposalHash>,
}

/// Asks to act.
#[utoipa::path(
    post, path = "/jobs/{id}/effects", operation_id = "begin_effect", tag = "effects",
    params(("id" = schema::JobId, Path)), request_body = BeginBody,
    responses((status = 200, description = "What to do.", body = Begun), Keyed, Missing, Conflicting)
)]
pub async fn begin(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let (body, ticket) = call.leased::<BeginBody>(&id).await?;
    let row = call.context.store.work(ticket.tenant, ticket.work).await?;
    let asks = call.context.directory.asks(&row.ok_or(StoreError::LeaseLost)?).await?;
    let hash = proposal_hash(&body.key, body.description.as_deref());
    let request = Begin {
        ticket,
        key: body.key.clone(),
        description: body.description,
        on_doubt: body.on_doubt.unwrap_or_default(),
        draft: asks.map(|expires| Draft { hash, expires }),
    };
    let context = call.context.clone();
    // A worker that hangs up must not keep others waiting for the place of its run.
    let begun = ToTheEnd::of(async move {
        let outcome = context.store.begin(request).await?;
        if matches!(outcome, BeginOutcome::InDoubt { .. } | BeginOutcome::NeedsApproval { .. }) {
            // The run has ended, and its place may be another's. A word that gets lost is found by the resync.
            let _ = context.queue.cap_freed(ticket.tenant).await;
        }
        Stored::Ok(outcome)
    });
    let (decision, scope, result) = match begun.await? {
        BeginOutcome::Execute { scope } => (Decision::Execute, scope, None),
        BeginOutcome::Skip { scope, result } => {
            let result = shown_result(&call, &ticket, scope, &body.key, result).await?;
            (Decision::Skip, scope, Some(result))
        }
        BeginOutcome::InDoubt { scope } => (Decision::InDoubt, scope, None),
        BeginOutcome::NeedsApproval { scope } => (Decision::NeedsApproval, scope, None),
    };
    count(&call, &ticket, decision).await;
    let idempotency_key = idempotency_key(scope, &body.key);
    let proposal_hash = (decision == Decision::NeedsApproval).then_some(hash);
    Ok(once::json(StatusCode::OK, &Begun { decision, idempotency_key, result, proposal_hash }))
}

async fn count(call: &Call, ticket: &Ticket, decision: Decision) {
    let word = match decision {
        Decision::Execute => "execute",
        Decision::Skip => "skip",
        Decision::InDoubt => "in_doubt",
        Decision::NeedsApproval => "needs_approval",
    };
    Metrics::count(&call.context.metrics.effects, word);
    story::effect(&call.context, ticket, word).await;
}

async fn shown_result(
    call: &Call,
    ticket: &Ticket,
    scope: Ulid,
    key: &str,
    result: Option<Sealed>,
) -> Result<Value, ApiError> {
    let Some(record) = result else {
        return Ok(Value::Null);
    };
    let tenant = call.context.vault.key(ticket.tenant).await?;
    let document = open_json(&tenant, Slot::EffectResult(scope, key), &record)?;
    Ok(serde_json::from_str(document.get()).unwrap_or_default())
}

async fn sealed_result(
    call: &Call,
    tenant: TenantId,
    scope: Ulid,
    key: &str,
    result: Option<Box<RawValue>>,
) -> Result<Option<Sealed>, ApiError> {
    let Some(result) = result else {
        return Ok(None);
    };
    let tenant = call.context.vault.key(tenant).await?;
    Ok(Some(tenant.seal(Slot::EffectResult(scope, key), result.get().as_bytes())))
}

/// Where an effect, or its job, stands after a call.
#[derive(Serialize, ToSchema)]
struct EffectMoved {
    /// The job.
    id: String,
    /// The effect.
    key: String,
    /// `committed` or `aborted`; after an operator's word, where the job stands.
    status: &'static str,
}

/// Word that it happened.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CommitBody {
    /// The lease.
    lease_token: String,
    /// What it came to: any JSON, at most 1 MiB. A later run that asks gets it.
    #[schema(value_type = Value, required = false)]
    result: Option<Box<RawValue>>,
}

impl Leased for CommitBody {
    fn token(&self) -> &str {
        &self.lease_token
    }

    fn check(&self) -> Result<(), ApiError> {
        check_document("result", self.result.as_deref())
    }
}

/// Says that it happened.
#[utoipa::path(
    post, path = "/jobs/{id}/effects/{key}/commit", operation_id = "commit_effect",
    tag = "effects", params(("id" = schema::JobId, Path), ("key" = schema::Key, Path)),
    request_body = CommitBody,
    responses(
        (status = 200, description = "`committed`.", body = EffectMoved),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn commit(At((id, key)): At<(String, String)>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let (body, ticket) = call.leased::<CommitBody>(&id).await?;
    let row = call.context.store.work(ticket.tenant, ticket.work).await?;
    let scope = row.ok_or(StoreError::LeaseLost)?.scope;
    let result = sealed_result(&call, ticket.tenant, scope, &key, body.result).await?;
    call.context.store.commit(ticket, key.clone(), result).await?;
    Ok(once::json(StatusCode::OK, &EffectMoved { id, key, status: "committed" }))
}

/// Word that it did not happen.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct AbortBody {
    /// The lease.
    lease_token: String,
    /// Why not. What is over 4 KiB is cut off.
    error: String,
}

impl Leased for AbortBody {
    fn token(&self) -> &str {
        &self.lease_token
    }
}

/// Says that it certainly did not happen.
#[utoipa::path(
    post, path = "/jobs/{id}/effects/{key}/abort", operation_id = "abort_effect", tag = "effects",
    params(("id" = schema::JobId, Path), ("key" = schema::Key, Path)), request_body = AbortBody,
    responses(
        (status = 200, description = "`aborted`.", body = EffectMoved),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn abort(At((id, key)): At<(String, String)>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let (body, ticket) = call.leased::<AbortBody>(&id).await?;
    let error = limits::truncate(&body.error, limits::ERROR_BYTES_MAX).to_owned();
    call.context.store.abort(ticket, key.clone(), error).await?;
    Ok(once::json(StatusCode::OK, &EffectMoved { id, key, status: "aborted" }))
}

/// An operator's word on an effect in doubt.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ResolveBody {
    /// Whether it happened.
    outcome: Resolution,
    /// What it came to: any JSON, at most 1 MiB.
    #[schema(value_type = Value, required = false)]
    result: Option<Box<RawValue>>,
    /// Who says so, and why.
    #[schema(value_type = schema::Note)]
    note: String,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Resolution {
    /// It happened.
    Committed,
    /// It did not.
    NotDone,
}

/// Says whether an effect in doubt happened. A job held for it alone goes on.
#[utoipa::path(
    post, path = "/jobs/{id}/effects/{key}/resolve", operation_id = "resolve_effect",
    tag = "effects", params(("id" = schema::WorkId, Path), ("key" = schema::Key, Path), Tenant),
    request_body = ResolveBody,
    responses(
        (status = 200, description = "Where the job stands now.", body = EffectMoved),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn resolve(
    At((id, key)): At<(String, String)>,
    call: Call,
) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let row = find(&call.context, tenant.id, &id).await?;
    need_doubt(&call, &row, &key).await?;
    let body: ResolveBody = call.body()?;
    check_note(&body.note)?;
    check_document("result", body.result.as_deref())?;
    let target = format!("{id} {key}");
    let request = Resolve {
        tenant: tenant.id,
        work: row.id,
        key: key.clone(),
        committed: body.outcome == Resolution::Committed,
        result: sealed_result(&call, tenant.id, row.scope, &key, body.result).await?,
        audit: call.audit(Some(tenant.id), "effect.resolve", target, Some(body.note)),
    };
    let context = call.context.clone();
    let resolved = ToTheEnd::of(async move {
        context.store.resolve(request).await?;
        context.queue.hint_all_nodes(&[row.lane]).await
    });
    resolved.await?;
    let now = find(&call.context, tenant.id, &id).await?;
    let status = now.state.as_str();
    Ok(once::json(StatusCode::OK, &EffectMoved { id, key, status }))
}

/// An effect that is not there, or not in doubt, is told before anything about the body. The store decides
/// again.
async fn need_doubt(call: &Call, row: &WorkRow, key: &str) -> Result<(), ApiError> {
    let effects = call.context.store.effects(row.tenant, row.scope).await?;
    let effect = effects.into_iter().find(|effect| effect.key == key);
    match effect.ok_or_else(ApiError::not_found)? {
        effect if effect.state == EffectState::Begun && !effect.alive => Ok(()),
        _ => Err(ApiError::invalid_state("the effect is not in doubt")),
    }
}
