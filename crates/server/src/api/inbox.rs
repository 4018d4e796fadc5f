//! The inbox: what was received, and what became of it.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use wakepost_domain::access::Right;
use wakepost_domain::advice::{EffectCounts, next_action};
use wakepost_domain::event::{Event, Route, status};
use wakepost_domain::lane::LaneKey;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, SourceId, Timestamp};
use wakepost_store::moves::{EventFilter, EventRow, Page, ReceiptRow, ReplayFrom, WorkRow};
use wakepost_store::vault::Slot;

use super::call::Call;
use super::error::ApiError;
use super::once;
use super::page::{PageQuery, listed, number};
use super::work::{self, counts};
use crate::context::Context;
use crate::view::{Content, envelope};

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Filter {
    source: Option<SourceId>,
    provider: Option<String>,
    #[serde(rename = "type")]
    event_type: Option<String>,
    status: Option<String>,
    subject: Option<String>,
    dedup_key: Option<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    q: Option<String>,
    #[serde(deserialize_with = "number")]
    limit: Option<u32>,
    cursor: Option<String>,
}

/// Events, newest first.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let filter: Filter = call.query()?;
    let page = PageQuery {
        limit: filter.limit,
        cursor: filter.cursor.clone(),
    }
    .page()?;
    let wanted = event_filter(&call.context, &tenant, filter).await?;
    let rows = call.context.store.events(tenant.id, wanted, page).await?;
    let last = rows.last().map(|row| row.event.id.0);
    let mut shown = Vec::with_capacity(rows.len());
    for row in &rows {
        shown.push(shown_row(&call.context, &tenant, row).await?);
    }
    Ok(once::json(StatusCode::OK, &listed(shown, last, page.limit)))
}

async fn event_filter(
    context: &Context,
    tenant: &Tenant,
    filter: Filter,
) -> Result<EventFilter, ApiError> {
    if let Some(word) = filter.status.as_deref()
        && State::from_word(word).is_none()
        && !["ignored", "unmapped"].contains(&word)
    {
        return Err(ApiError::field("status", "is not a status"));
    }
    let sources = match (&filter.provider, filter.source) {
        (None, None) => None,
        (None, Some(source)) => Some(vec![source]),
        (Some(provider), source) => {
            let page = Page {
                before: None,
                limit: 10_000,
            };
            let all = context.store.sources(tenant.id, page).await?;
            let fits = all
                .into_iter()
                .filter(|record| record.provider == *provider)
                .map(|record| record.id);
            Some(
                fits.filter(|id| source.is_none_or(|wanted| wanted == *id))
                    .collect(),
            )
        }
    };
    Ok(EventFilter {
        sources,
        event_type: filter.event_type,
        status: filter.status,
        subject: filter.subject,
        dedup_key: filter.dedup_key,
        since: filter.since,
        until: filter.until,
        prefix: filter.q.filter(|text| !text.is_empty()),
    })
}

async fn shown_row(context: &Context, tenant: &Tenant, row: &EventRow) -> Result<Value, ApiError> {
    let event = &row.event;
    let source = context.directory.source(event.source).await?;
    Ok(json!({
        "id": event.id,
        "tenant": tenant.slug,
        "source": event.source,
        "source_name": source.as_ref().map(|live| live.source.config.name.clone()),
        "provider": source.as_ref().map(|live| live.provider.name()),
        "type": event.event_type,
        "status": status(event.route, row.work.iter().copied()),
        "verified": event.verified,
        "subject": event.subject,
        "dedup_key": event.dedup_key,
        "occurred_at": event.occurred_at,
        "received_at": event.received_at,
        "duplicates": event.duplicates,
    }))
}

async fn find(call: &Call, tenant: &Tenant, id: &str) -> Result<Event, ApiError> {
    let id: EventId = id.parse().map_err(|_| ApiError::not_found())?;
    call.context
        .store
        .event(tenant.id, id)
        .await?
        .ok_or_else(ApiError::not_found)
}

async fn content(call: &Call, event: &Event) -> Result<Option<Content>, ApiError> {
    let Some((_, record)) = call.context.store.contents(vec![event.id]).await?.pop() else {
        return Ok(None);
    };
    let key = call.context.vault.key(event.tenant).await?;
    Ok(Some(Content::decode(
        &key.open(Slot::Content(event.id), &record)?,
    )?))
}

/// One event and its whole story.
pub async fn show(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let event = find(&call, &tenant, &id).await?;
    let context = &call.context;
    let content = content(&call, &event).await?;
    let source = context.directory.source(event.source).await?;
    let work = context.store.work_of_event(tenant.id, event.id).await?;
    let repeats = context.store.receipts(tenant.id, event.id).await?;
    let (effects, action) = advice(context, &tenant, &event, &work).await?;
    let live = work.iter().filter(|row| row.replayed_as.is_none());
    let mut receipts = vec![accepted_receipt(&event)];
    receipts.extend(repeats.iter().map(shown_receipt));
    let row = EventRow {
        event: event.clone(),
        work: live.map(|row| row.state).collect(),
    };
    let mut body = shown_row(context, &tenant, &row).await?;
    body["envelope"] = envelope(&event, &tenant.slug, source.as_deref(), content.as_ref());
    body["work"] = shown_work(context, &tenant, work).await?;
    body["receipts"] = receipts.into();
    body["effects"] = json!({"committed": effects.committed, "in_doubt": effects.in_doubt});
    body["next_action"] = action.into();
    Ok(once::json(StatusCode::OK, &body))
}

/// The advice on an event is that on its latest item.
async fn advice(
    context: &Context,
    tenant: &Tenant,
    event: &Event,
    work: &[WorkRow],
) -> Result<(EffectCounts, String), ApiError> {
    let Some(latest) = work.last() else {
        let text = match event.route {
            Route::Unmapped => {
                "none: it could not be understood; replay it to run a job all the same"
            }
            _ => "none: no job was made; replay it to run one",
        };
        return Ok((EffectCounts::default(), text.to_owned()));
    };
    let effects = counts(&context.store.effects(tenant.id, latest.scope).await?);
    Ok((effects, next_action(latest.state, latest.held, effects)))
}

async fn shown_work(
    context: &Context,
    tenant: &Tenant,
    work: Vec<WorkRow>,
) -> Result<Value, ApiError> {
    let kinds: Vec<WorkKind> = work.iter().map(|row| row.kind).collect();
    let views = work::views(context, tenant, work).await?;
    let rows = views.into_iter().zip(kinds).map(|(view, kind)| {
        let mut row = serde_json::to_value(view).expect("a view is plain data");
        row["name"] = row["kind"].take();
        row["kind"] = json!(kind);
        row
    });
    Ok(rows.collect())
}

fn accepted_receipt(event: &Event) -> Value {
    let verdict = match event.route {
        Route::Job => "accepted",
        Route::Ignored => "ignored",
        Route::Unmapped => "unmapped",
    };
    json!({
        "received_at": event.received_at,
        "verdict": verdict,
        "address": event.remote_addr,
        "latency_us": event.latency_us,
    })
}

/// A receipt as clients see it.
pub fn shown_receipt(row: &ReceiptRow) -> Value {
    json!({
        "id": row.id,
        "event_id": row.event,
        "received_at": row.id.0.time(),
        "verdict": row.verdict,
        "address": row.remote_addr,
        "latency_us": row.latency_us,
        "detail": row.detail,
    })
}

fn pruned() -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "body_pruned",
        "the event's body is no longer kept",
    )
}

/// The body, byte for byte. Always as a download: it is whatever the sender sent.
pub async fn raw(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let event = find(&call, &tenant, &id).await?;
    let content = content(&call, &event).await?.ok_or_else(pruned)?;
    let mut response = content.body.into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_static("attachment"),
    );
    Ok(response)
}

/// The headers it came with.
pub async fn headers(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let event = find(&call, &tenant, &id).await?;
    let content = content(&call, &event).await?.ok_or_else(pruned)?;
    let rows = content.headers.iter().map(|(name, value)| {
        json!({"name": name.as_str(), "value": String::from_utf8_lossy(value.as_bytes())})
    });
    Ok(once::json(
        StatusCode::OK,
        &json!({"headers": rows.collect::<Vec<_>>()}),
    ))
}

/// Runs an event's job once more; an event that never had one gets its first.
pub async fn replay(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let event = find(&call, &tenant, &id).await?;
    let work = call
        .context
        .store
        .work_of_event(tenant.id, event.id)
        .await?;
    let from = match work.iter().rfind(|row| row.kind == WorkKind::Job) {
        Some(latest) => ReplayFrom::Work(latest.id),
        None => {
            let source = call.context.directory.source(event.source).await?;
            let priority = source.map_or(wakepost_domain::work::Priority::Webhook, |live| {
                live.priority()
            });
            let key = LaneKey {
                tenant: tenant.id,
                kind: WorkKind::Job,
                priority,
                origin: Some(event.source.0),
                name: event.event_type.clone(),
                executor: None,
            };
            ReplayFrom::Event(event.id, call.context.directory.lane(key).await?.id)
        }
    };
    work::replay(&call, &tenant, from, event.id.to_string()).await
}
