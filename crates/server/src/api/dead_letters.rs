//! Dead letters: what was given up after the last try, until it is replayed or purged.

use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use wakepost_domain::access::Right;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{SourceId, TenantId, Timestamp};
use wakepost_store::moves::{ReplayFrom, WorkFilter, WorkRow};

use super::call::{At, Call};
use super::describe::{Conflicting, Idempotent, Keyed, Missing, Tenant};
use super::error::ApiError;
use super::once;
use super::page::{Listed, PageQuery, listed};
use super::shapes::{Work, WorkWhole};
use super::work::{self, ReplayBody, Replayed};
use crate::schema;

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Of this kind.
    #[param(value_type = Option<schema::WorkKind>)]
    kind: Option<WorkKind>,
    /// Of this source.
    #[param(value_type = Option<schema::SourceId>)]
    source: Option<SourceId>,
    /// Not made before.
    #[param(value_type = Option<schema::Timestamp>)]
    since: Option<Timestamp>,
}

/// Lists dead letters that were not replayed.
#[utoipa::path(
    get, path = "/dead-letters", operation_id = "list_dead_letters", tag = "dead letters",
    params(Filter, PageQuery, Tenant),
    responses((status = 200, description = "A page.", body = Listed<Work>), Keyed, Missing)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let (filter, page) = call.list::<Filter>()?;
    let wanted = WorkFilter {
        kind: filter.kind,
        state: Some(State::DeadLetter),
        source: filter.source,
        since: filter.since,
        unreplayed: true,
        ..WorkFilter::default()
    };
    let rows = call.context.store.work_list(tenant.id, wanted, page).await?;
    let last = rows.last().map(|row| row.id.0);
    let views = work::views(&call.context, &tenant, rows).await?;
    Ok(once::json(StatusCode::OK, &listed(views, last, page.limit)))
}

async fn find(call: &Call, tenant: TenantId, id: &str) -> Result<WorkRow, ApiError> {
    let row = work::find(&call.context, tenant, id).await?;
    if row.state == State::DeadLetter { Ok(row) } else { Err(ApiError::not_found()) }
}

/// Shows one dead letter, whole.
#[utoipa::path(
    get, path = "/dead-letters/{id}", operation_id = "get_dead_letter", tag = "dead letters",
    params(("id" = schema::WorkId, Path), Tenant),
    responses((status = 200, description = "It.", body = WorkWhole), Keyed, Missing)
)]
pub async fn show(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let row = find(&call, tenant.id, &id).await?;
    call.no_query()?;
    Ok(once::json(StatusCode::OK, &work::detail(&call.context, &tenant, row).await?))
}

/// Tries a dead letter again, as a new item.
#[utoipa::path(
    post, path = "/dead-letters/{id}/replay", operation_id = "replay_dead_letter",
    tag = "dead letters", params(("id" = schema::WorkId, Path), Tenant, Idempotent),
    request_body = ReplayBody,
    responses(
        (status = 202, description = "The new item waits.", body = Replayed),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn replay(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let row = find(&call, tenant.id, &id).await?;
    work::replay(&call, &tenant, ReplayFrom::Work(row.id), id).await
}
