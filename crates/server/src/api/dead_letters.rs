//! Dead letters: what was given up after the last try, until it is replayed or purged.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use wakepost_domain::TenantId;
use wakepost_domain::access::Right;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::work::State;
use wakepost_store::moves::{OperationKind, ReplayFrom, WorkRow};

use super::call::{At, Call};
use super::describe::{self, Conflicting, Idempotent, Keyed, Missing};
use super::error::ApiError;
use super::operations::{self, Begun};
use super::page::{Listed, PageQuery, listed};
use super::shapes::{DeadLetterWhole, Work};
use super::work::{self, ReplayBody, Replayed, Scope};
use super::{export, once};
use crate::context::Context;
use crate::dead_letters::{DeadLetterPurge, DeadLetterReplay, DeadQuery};
use crate::schema;
use crate::view::{Content, envelope};

/// Lists dead letters that were neither replayed nor purged.
#[utoipa::path(
    get, path = "/dead-letters", operation_id = "list_dead_letters", tag = "dead letters",
    params(DeadQuery, PageQuery, describe::Tenant),
    responses((status = 200, description = "A page.", body = Listed<Work>), Keyed, Missing)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let (query, page) = call.list::<DeadQuery>()?;
    let rows = call.context.store.dead_letters(tenant.id, query.open(), page).await?;
    let last = rows.last().map(|row| row.id.0);
    let views = work::views(&call.context, &tenant, rows).await?;
    Ok(once::json(StatusCode::OK, &listed(views, last, page.limit)))
}

async fn find(call: &Call, tenant: TenantId, id: &str) -> Result<WorkRow, ApiError> {
    let row = work::find(&call.context, tenant, id).await?;
    let is_one = row.state == State::DeadLetter && row.purged_by.is_none();
    if is_one { Ok(row) } else { Err(ApiError::not_found()) }
}

/// Shows one dead letter, whole: its runs, effects and documents, and the event that it is about.
#[utoipa::path(
    get, path = "/dead-letters/{id}", operation_id = "get_dead_letter", tag = "dead letters",
    params(("id" = schema::WorkId, Path), describe::Tenant),
    responses((status = 200, description = "It.", body = DeadLetterWhole), Keyed, Missing)
)]
pub async fn show(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let row = find(&call, tenant.id, &id).await?;
    call.no_query()?;
    Ok(once::json(StatusCode::OK, &whole(&call.context, &tenant, row).await?))
}

/// A dead letter with everything about it.
pub async fn whole(context: &Context, tenant: &Tenant, row: WorkRow) -> Result<Value, ApiError> {
    let event = match row.event {
        Some(event) => context.store.event(tenant.id, event).await?,
        None => None,
    };
    let payload = match event {
        Some(event) => {
            let source = context.directory.source(event.source).await?;
            let content = Content::of(context, &event).await?;
            envelope(&event, &tenant.slug, source.as_deref(), content.as_ref())
        }
        None => Value::Null,
    };
    let view = work::detail(context, tenant, row).await?;
    let mut whole = serde_json::to_value(view).expect("a view is plain data");
    whole["envelope"] = payload;
    Ok(whole)
}

/// Tries a dead letter again, as a new item.
#[utoipa::path(
    post, path = "/dead-letters/{id}/replay", operation_id = "replay_dead_letter",
    tag = "dead letters", params(("id" = schema::WorkId, Path), describe::Tenant, Idempotent),
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

/// Which dead letters are tried again, and why.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeadLetterReplay)]
struct ManyBody {
    /// Which: the same names as the list has. Empty: all there are now.
    filter: DeadQuery,
    /// Who, and why.
    #[schema(value_type = schema::Note)]
    note: String,
    /// Whether committed effects are skipped (`same`, the default) or may happen again (`fresh`).
    scope: Option<Scope>,
    /// Only count them.
    dry_run: Option<bool>,
}

/// Tries many dead letters again, each once however often this is interrupted.
///
/// Of those that were given up so far and not dealt with yet. What a person replays meanwhile counts as failed.
#[utoipa::path(
    post, path = "/dead-letters/replay", operation_id = "replay_dead_letters", tag = "dead letters",
    params(describe::Tenant, Idempotent), request_body = ManyBody,
    responses(
        (status = 202, description = "It is under way.", body = Begun),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn replay_many(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let ManyBody { filter, note, scope, dry_run } = call.body()?;
    work::check_note(&note)?;
    let asked = DeadLetterReplay {
        filter,
        note: note.clone(),
        fresh_scope: scope.unwrap_or_default() == Scope::Fresh,
        actor: call.caller.name.clone(),
        at: call.context.store.now().await?,
        dry_run: dry_run.unwrap_or_default(),
    };
    let asked = serde_json::to_string(&asked).expect("what was asked is plain data");
    let kind = OperationKind::DeadLetterReplay;
    operations::begin(&call, &tenant, kind, asked, "dead_letters.replay", note).await
}

/// Which dead letters are purged, and why.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeadLetterPurge)]
struct PurgeBody {
    /// Which: the same names as the list has. Empty: all there are now.
    filter: DeadQuery,
    /// Who, and why.
    #[schema(value_type = schema::Note)]
    note: String,
}

/// Purges dead letters: what they carried, what they left and how their runs went is deleted, and nothing can replay
/// them.
#[utoipa::path(
    post, path = "/dead-letters/purge", operation_id = "purge_dead_letters", tag = "dead letters",
    params(describe::Tenant, Idempotent), request_body = PurgeBody,
    responses((status = 202, description = "It is under way.", body = Begun), Keyed, Missing, Conflicting)
)]
pub async fn purge(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let PurgeBody { filter, note } = call.body()?;
    work::check_note(&note)?;
    let asked =
        serde_json::to_string(&DeadLetterPurge { filter, at: call.context.store.now().await? });
    let asked = asked.expect("what was asked is plain data");
    let kind = OperationKind::DeadLetterPurge;
    operations::begin(&call, &tenant, kind, asked, "dead_letters.purge", note).await
}

/// Gives all dead letters that fit, whole, one JSON object a line, newest first.
///
/// An answer that breaks off was not whole: it ends without its last chunk.
#[utoipa::path(
    get, path = "/dead-letters/export", operation_id = "export_dead_letters", tag = "dead letters",
    params(DeadQuery, describe::Tenant),
    responses(
        (status = 200, description = "One `DeadLetterWhole` a line.", body = String,
         content_type = "application/jsonl"),
        (status = 503, description = "As many listen already as this node allows: come again."),
        Keyed, Missing,
    )
)]
pub async fn export(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let query: DeadQuery = call.only_query()?;
    let place = call.stream_place()?;
    Ok(export::lines(call.context.clone(), tenant, query.open(), place).into_response())
}
