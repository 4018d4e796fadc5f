//! Whole events by their links: for receivers of deliveries that were too large to carry them.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use wakepost_domain::webhook::LINK_KEPT;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, TenantId, Timestamp};
use wakepost_store::moves::WorkRow;

use super::describe::{Missing, Problem, Unkeyed};
use super::error::ApiError;
use crate::context::Context;
use crate::schema;
use crate::view::Content;

/// Shows a whole event to whoever has its link: byte for byte what a smaller one would have been delivered as.
///
/// A delivery of more than 64 KB carries the link in `data.url`. It is good while the delivery lives, and for 72 hours
/// after that; then it is 410 `link_expired`.
#[utoipa::path(
    get, path = "/e/{token}", operation_id = "get_linked_event", tag = "webhooks", security(()),
    params(("token" = String, Path, description = "What the link ends with.")),
    responses(
        (status = 200, description = "The event.", body = schema::Published, content_type = "application/json"),
        (status = 410, description = "The link is over, or the event is not kept any more.",
         body = Problem, content_type = "application/problem+json"),
        Missing, Unkeyed,
    )
)]
pub async fn show(
    State(context): State<Arc<Context>>,
    token: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    // Whatever is not ours gets the same answer, and costs the store nothing.
    let item = token.ok().and_then(|Path(token)| context.tokens.read_event_link(&token));
    let item = item.ok_or_else(ApiError::not_found)?;
    let _place = context.links.try_acquire().map_err(|_| {
        let text = "as many fetch events already as this node allows: try again";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", text)
    })?;
    let row = context.store.work(item.tenant, item.work).await?;
    let row = row.filter(|row| row.kind == WorkKind::Delivery).ok_or_else(ApiError::not_found)?;
    let event = row.event.filter(|_| is_good(&row, context.now())).ok_or_else(expired)?;
    let body = body(&context, item.tenant, event).await?.ok_or_else(expired)?;
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

/// What ends, ends with its latest attempt, or later.
fn is_good(row: &WorkRow, now: Timestamp) -> bool {
    row.purged_by.is_none() && row.finished_at.is_none_or(|end| now < end.after(LINK_KEPT))
}

async fn body(
    context: &Context,
    tenant: TenantId,
    event: EventId,
) -> Result<Option<Vec<u8>>, ApiError> {
    let Some(event) = context.store.event(tenant, event).await? else { return Ok(None) };
    Ok(Content::of(context, &event).await?.map(|content| content.body))
}

fn expired() -> ApiError {
    let text = "the link was good until 72 hours after the latest attempt at the delivery";
    ApiError::new(StatusCode::GONE, "link_expired", text)
}
