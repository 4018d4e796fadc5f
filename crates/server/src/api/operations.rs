//! Bulk work: what was asked for, and how far it is.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::{OperationId, Timestamp};
use wakepost_store::moves::{Operation, OperationKind};

use super::call::{At, Call};
use super::describe::{self, Keyed, Missing};
use super::error::ApiError;
use super::once;
use crate::schema;

/// Bulk work that has begun.
#[derive(Serialize, ToSchema)]
#[schema(as = OperationBegun)]
pub struct Begun {
    /// Ask `GET /operations/{id}` how far it is.
    #[schema(value_type = schema::OperationId)]
    operation_id: OperationId,
}

/// Notes bulk work, which the server then does.
pub async fn begin(
    call: &Call,
    tenant: &Tenant,
    kind: OperationKind,
    asked: String,
    action: &str,
    note: String,
) -> Result<Response, ApiError> {
    let id = OperationId(call.context.new_id());
    let begun = Begun { operation_id: id };
    let once = call.once(tenant.id, StatusCode::ACCEPTED, &begun).await?;
    let audit = call.audit(Some(tenant.id), action, id.to_string(), Some(note));
    let operation = Operation::new(id, tenant.id, kind, asked);
    let noted = call.context.store.create_operation(operation, audit, once).await?;
    call.answer_once(tenant.id, noted, |()| once::json(StatusCode::ACCEPTED, &begun)).await
}

/// Bulk work.
#[derive(Serialize, ToSchema)]
#[schema(as = Operation)]
struct OperationView {
    /// Its id.
    #[schema(value_type = schema::OperationId)]
    id: OperationId,
    /// What is done to each: `inbox_replay`, `dead_letter_replay`, `dead_letter_purge`, `webhook_recover` or
    /// `webhook_backfill`.
    #[schema(value_type = String)]
    kind: OperationKind,
    /// `running` or `succeeded`.
    status: &'static str,
    /// How many items fitted so far.
    matched: i64,
    /// To how many it was done.
    done: i64,
    /// To how many it could not be done.
    failed: i64,
    /// When it was asked for.
    #[schema(value_type = schema::Timestamp)]
    created_at: Timestamp,
    /// When it was through.
    #[schema(value_type = Option<schema::Timestamp>)]
    finished_at: Option<Timestamp>,
}

/// Says how far bulk work is.
#[utoipa::path(
    get, path = "/operations/{id}", operation_id = "get_operation", tag = "operations",
    params(("id" = schema::OperationId, Path), describe::Tenant),
    responses((status = 200, description = "How far it is.", body = OperationView), Keyed, Missing)
)]
pub async fn show(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let id: OperationId = id.parse().map_err(|_| ApiError::not_found())?;
    let found = call.context.store.operation(tenant.id, id).await?;
    let found = found.ok_or_else(ApiError::not_found)?;
    call.no_query()?;
    let view = OperationView {
        id,
        kind: found.kind,
        status: if found.finished_at.is_some() { "succeeded" } else { "running" },
        matched: found.matched,
        done: found.done,
        failed: found.failed,
        created_at: id.0.time(),
        finished_at: found.finished_at,
    };
    Ok(once::json(StatusCode::OK, &view))
}
