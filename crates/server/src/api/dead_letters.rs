//! Dead letters: what was given up after the last try, until it is replayed or purged.

use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use wakepost_domain::access::Right;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{SourceId, Timestamp};
use wakepost_store::moves::{ReplayFrom, WorkFilter, WorkRow};

use super::call::Call;
use super::error::ApiError;
use super::once;
use super::page::{PageQuery, listed, number};
use super::work;

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Filter {
    kind: Option<WorkKind>,
    source: Option<SourceId>,
    since: Option<Timestamp>,
    #[serde(deserialize_with = "number")]
    limit: Option<u32>,
    cursor: Option<String>,
}

/// Dead letters that were not replayed, newest first.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let filter: Filter = call.query()?;
    let page = PageQuery {
        limit: filter.limit,
        cursor: filter.cursor.clone(),
    }
    .page()?;
    let wanted = WorkFilter {
        kind: filter.kind,
        state: Some(State::DeadLetter),
        source: filter.source,
        since: filter.since,
        unreplayed: true,
        ..WorkFilter::default()
    };
    let rows = call
        .context
        .store
        .work_list(tenant.id, wanted, page)
        .await?;
    let last = rows.last().map(|row| row.id.0);
    let views = work::views(&call.context, &tenant, rows).await?;
    let shown = views
        .into_iter()
        .map(|view| serde_json::to_value(view).expect("a view is plain data"));
    Ok(once::json(
        StatusCode::OK,
        &listed(shown.collect(), last, page.limit),
    ))
}

async fn find(
    call: &Call,
    tenant: wakepost_domain::TenantId,
    id: &str,
) -> Result<WorkRow, ApiError> {
    let row = work::find(&call.context, tenant, id).await?;
    if row.state == State::DeadLetter {
        Ok(row)
    } else {
        Err(ApiError::not_found())
    }
}

/// One dead letter, whole.
pub async fn show(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let row = find(&call, tenant.id, &id).await?;
    Ok(once::json(
        StatusCode::OK,
        &work::detail(&call.context, &tenant, row).await?,
    ))
}

/// Tries a dead letter again, as a new item.
pub async fn replay(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let row = find(&call, tenant.id, &id).await?;
    work::replay(&call, &tenant, ReplayFrom::Work(row.id), id).await
}
