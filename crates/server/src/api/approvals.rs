//! People in the loop: what a job would do is approved or rejected, exactly as it was seen.

use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::approval::ProposalHash;
use wakepost_domain::transition::Move;
use wakepost_domain::work::State;
use wakepost_domain::{TenantId, limits};
use wakepost_store::moves::{AuditEntry, Decide, Decided, SeenProposal};
use wakepost_store::{Result as Stored, StoreError};

use super::call::{At, Call};
use super::describe::{Conflicting, Keyed, Missing, Tenant};
use super::error::ApiError;
use super::once;
use super::work::{Moved, check_key, check_note, find, or_conflict};
use crate::schema;
use crate::to_the_end::ToTheEnd;

/// How many proposals one call may decide on.
const PROPOSALS_MAX: usize = 100;

/// A decision.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct DecisionBody {
    /// What is decided on.
    #[schema(min_items = 1, max_items = 100)]
    effects: Vec<ProposalBody>,
    /// Who decides, and why. A rejected job says it as its `last_error`.
    #[schema(value_type = Option<schema::Note>)]
    note: Option<String>,
}

/// One proposal, as it was seen.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ProposalBody {
    /// The effect.
    #[schema(value_type = schema::Key)]
    key: String,
    /// What exactly it said: the `proposal_hash` that the job shows.
    #[schema(value_type = schema::ProposalHash)]
    proposal_hash: String,
}

/// Agrees to what a job would do. When nothing is left undecided it goes on from its checkpoint.
#[utoipa::path(
    post, path = "/jobs/{id}/approve", operation_id = "approve_effects", tag = "effects",
    params(("id" = schema::WorkId, Path), Tenant), request_body = DecisionBody,
    responses(
        (status = 200, description = "`pending`; `awaiting_approval` if something is left undecided.", body = Moved),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn approve(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    decide(id, &call, true).await
}

/// Refuses what a job would do, and so gives the job up.
#[utoipa::path(
    post, path = "/jobs/{id}/reject", operation_id = "reject_effects", tag = "effects",
    params(("id" = schema::WorkId, Path), Tenant), request_body = DecisionBody,
    responses((status = 200, description = "`cancelled`.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn reject(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    decide(id, &call, false).await
}

async fn decide(id: String, call: &Call, approved: bool) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let row = find(&call.context, tenant.id, &id).await?;
    let wanted = Move::Decide { approved };
    let body = read(call).map_err(|refusal| or_conflict(&row, wanted, refusal))?;
    let request = Decide {
        tenant: tenant.id,
        work: row.id,
        approved,
        by: call.caller.name.clone(),
        reason: reason(&call.caller.name, body.note.as_deref()),
        audit: trail(call, tenant.id, &id, &body, approved),
        proposals: seen(body.effects)
            .ok_or_else(|| or_conflict(&row, wanted, StoreError::ProposalChanged.into()))?,
    };
    let context = call.context.clone();
    // Whoever hangs up has decided all the same, and the queue hears of it.
    let decided = ToTheEnd::of(async move {
        let (status, ready) = match context.store.decide(request).await? {
            Decided::GoesOn(lane) => (State::Pending, Some(lane)),
            Decided::StillWaits => (State::AwaitingApproval, None),
            Decided::Cancelled { next_in_order } => (State::Cancelled, next_in_order),
        };
        context.queue.hint_all_nodes(ready.as_slice()).await?;
        Stored::Ok(status)
    });
    let status = decided.await?;
    Ok(once::json(StatusCode::OK, &Moved { id, status: status.as_str() }))
}

fn read(call: &Call) -> Result<DecisionBody, ApiError> {
    let body: DecisionBody = call.body()?;
    if body.effects.is_empty() || body.effects.len() > PROPOSALS_MAX {
        let message = format!("must have 1 to {PROPOSALS_MAX} proposals");
        return Err(ApiError::field("effects", message));
    }
    for (index, effect) in body.effects.iter().enumerate() {
        let field = format!("effects.{index}.key");
        check_key(&field, &effect.key)?;
        if body.effects[..index].iter().any(|before| before.key == effect.key) {
            return Err(ApiError::field(field, "is given twice"));
        }
    }
    body.note.as_deref().map(check_note).transpose()?;
    Ok(body)
}

/// The proposals; `None` if one has a hash that no proposal can have.
fn seen(effects: Vec<ProposalBody>) -> Option<Vec<SeenProposal>> {
    let seen = |effect: ProposalBody| {
        let hash = ProposalHash::from_word(&effect.proposal_hash)?;
        Some(SeenProposal { key: effect.key, hash })
    };
    effects.into_iter().map(seen).collect()
}

/// What a rejected job says of itself.
fn reason(by: &str, note: Option<&str>) -> String {
    let reason = match note {
        Some(note) => format!("rejected by {by}: {note}"),
        None => format!("rejected by {by}"),
    };
    limits::truncate(&reason, limits::ERROR_BYTES_MAX).to_owned()
}

/// One entry for each proposal, which names it exactly.
fn trail(
    call: &Call,
    tenant: TenantId,
    id: &str,
    body: &DecisionBody,
    approved: bool,
) -> Vec<AuditEntry> {
    let action = if approved { "effect.approve" } else { "effect.reject" };
    let entry = |effect: &ProposalBody| {
        let target = format!("{id} {} {}", effect.key, effect.proposal_hash);
        call.audit(Some(tenant), action, target, body.note.clone())
    };
    body.effects.iter().map(entry).collect()
}
