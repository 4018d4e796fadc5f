//! The side-effect ledger: ask before acting, say how it went.

use aws_lc_rs::digest;
use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wakepost_domain::access::Right;
use wakepost_domain::effect::{Decision, OnDoubt};
use wakepost_domain::lease::Ticket;
use wakepost_domain::{Ulid, limits};
use wakepost_store::moves::{Begin, BeginOutcome, Resolve};
use wakepost_store::vault::{Sealed, Slot};

use super::call::Call;
use super::error::ApiError;
use super::once;
use super::work::{check_key, check_note, find_job};
use crate::telemetry::metrics::Metrics;
use crate::view::open_json;

/// What to pass downstream, so that the other side can tell a repeat. The same for the same effect, always.
pub fn idempotency_key(scope: Ulid, key: &str) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(b"wakepost effect");
    context.update(&scope.to_bytes());
    context.update(key.as_bytes());
    format!("wp_{}", hex::encode(&context.finish().as_ref()[..16]))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BeginBody {
    lease_token: String,
    key: String,
    description: Option<String>,
    on_doubt: Option<OnDoubt>,
}

/// Asks to act.
pub async fn begin(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let body: BeginBody = call.body()?;
    let ticket = call.ticket(&id, &body.lease_token)?;
    check_key("key", &body.key)?;
    if body
        .description
        .as_ref()
        .is_some_and(|text| text.len() > limits::ERROR_BYTES_MAX)
    {
        return Err(ApiError::field("description", "is too long"));
    }
    let request = Begin {
        ticket,
        key: body.key.clone(),
        description: body.description,
        on_doubt: body.on_doubt.unwrap_or_default(),
    };
    let outcome = call.context.store.begin(request).await?;
    let (decision, scope, result) = match outcome {
        BeginOutcome::Execute { scope } => (Decision::Execute, scope, None),
        BeginOutcome::Skip { scope, result } => (Decision::Skip, scope, result),
        BeginOutcome::InDoubt { scope } => (Decision::InDoubt, scope, None),
    };
    count(&call, decision);
    let mut answer =
        json!({"decision": decision, "idempotency_key": idempotency_key(scope, &body.key)});
    if decision == Decision::Skip {
        answer["result"] = shown_result(&call, &ticket, scope, &body.key, result).await?;
    }
    Ok(once::json(StatusCode::OK, &answer))
}

fn count(call: &Call, decision: Decision) {
    let word = match decision {
        Decision::Execute => "execute",
        Decision::Skip => "skip",
        Decision::InDoubt => "in_doubt",
    };
    Metrics::count(&call.context.metrics.effects, word);
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
    tenant: wakepost_domain::TenantId,
    scope: Ulid,
    key: &str,
    result: Option<Box<RawValue>>,
) -> Result<Option<Sealed>, ApiError> {
    let Some(result) = result else {
        return Ok(None);
    };
    if result.get().len() > limits::DOCUMENT_BYTES_MAX {
        let message = format!("must have at most {} bytes", limits::DOCUMENT_BYTES_MAX);
        return Err(ApiError::field("result", message));
    }
    let tenant = call.context.vault.key(tenant).await?;
    Ok(Some(tenant.seal(
        Slot::EffectResult(scope, key),
        result.get().as_bytes(),
    )))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommitBody {
    lease_token: String,
    result: Option<Box<RawValue>>,
}

/// It happened.
pub async fn commit(
    Path((id, key)): Path<(String, String)>,
    call: Call,
) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let body: CommitBody = call.body()?;
    let ticket = call.ticket(&id, &body.lease_token)?;
    let row = call.context.store.work(ticket.tenant, ticket.work).await?;
    let scope = row.ok_or(wakepost_store::StoreError::LeaseLost)?.scope;
    let result = sealed_result(&call, ticket.tenant, scope, &key, body.result).await?;
    call.context
        .store
        .commit(ticket, key.clone(), result)
        .await?;
    Ok(once::json(
        StatusCode::OK,
        &json!({"id": id, "key": key, "status": "committed"}),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AbortBody {
    lease_token: String,
    error: String,
}

/// It certainly did not happen.
pub async fn abort(
    Path((id, key)): Path<(String, String)>,
    call: Call,
) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let body: AbortBody = call.body()?;
    let ticket = call.ticket(&id, &body.lease_token)?;
    let error = limits::truncate(&body.error, limits::ERROR_BYTES_MAX).to_owned();
    call.context.store.abort(ticket, key.clone(), error).await?;
    Ok(once::json(
        StatusCode::OK,
        &json!({"id": id, "key": key, "status": "aborted"}),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResolveBody {
    outcome: Resolution,
    result: Option<Box<RawValue>>,
    note: Option<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Resolution {
    Committed,
    NotDone,
}

/// An operator says whether an effect in doubt happened.
pub async fn resolve(
    Path((id, key)): Path<(String, String)>,
    call: Call,
) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let row = find_job(&call.context, tenant.id, &id).await?;
    let body: ResolveBody = call.body()?;
    let note = check_note(body.note)?;
    let result = sealed_result(&call, tenant.id, row.scope, &key, body.result).await?;
    let request = Resolve {
        tenant: tenant.id,
        work: row.id,
        key: key.clone(),
        committed: body.outcome == Resolution::Committed,
        result,
        audit: call.audit(
            Some(tenant.id),
            "effect.resolve",
            format!("{id} {key}"),
            Some(note),
        ),
    };
    call.context.store.resolve(request).await?;
    call.context.queue.hint_all_nodes(&[row.lane]).await?;
    let now = find_job(&call.context, tenant.id, &id).await?;
    Ok(once::json(
        StatusCode::OK,
        &json!({"id": id, "key": key, "status": now.state}),
    ))
}
