//! Deliveries: one event on its way to one webhook, with every try at it.

use std::collections::HashMap;

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use wakepost_domain::lease::run_id;
use wakepost_domain::run::{Run, RunOutcome};
use wakepost_domain::tenant::Tenant;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, RunId, Timestamp, WebhookId, WorkId};
use wakepost_store::moves::{ReplayFrom, WorkRow};
use wakepost_store::vault::Slot;

use super::call::{At, Call};
use super::describe::{self, Conflicting, Idempotent, Keyed, Missing};
use super::error::ApiError;
use super::once;
use super::webhooks::{may_change, may_read};
use super::work::check_note;
use crate::context::Context;
use crate::deliveries::Millis;
use crate::replays::{self, Wish};
use crate::schema;
use crate::view::open_json;

/// A delivery.
#[derive(Serialize, ToSchema)]
#[schema(as = Delivery)]
pub struct DeliveryView {
    #[serde(flatten)]
    fields: DeliveryFields,
    /// How often it was tried.
    attempts: i32,
}

/// What every view of a delivery says.
#[derive(Serialize, ToSchema)]
struct DeliveryFields {
    /// Its id.
    id: String,
    /// The event.
    #[schema(value_type = Option<schema::EventId>)]
    event_id: Option<EventId>,
    /// Its type.
    #[serde(rename = "type")]
    event_type: Option<String>,
    /// The webhook.
    #[schema(value_type = Option<schema::WebhookId>)]
    webhook_id: Option<WebhookId>,
    /// Where it stands.
    #[schema(value_type = schema::State)]
    status: State,
    /// How often it may be.
    max_attempts: i32,
    /// When it may be tried next.
    #[schema(value_type = Option<schema::Timestamp>)]
    run_at: Option<Timestamp>,
    /// When the event was published.
    #[schema(value_type = schema::Timestamp)]
    created_at: Timestamp,
    /// When it ended.
    #[schema(value_type = Option<schema::Timestamp>)]
    finished_at: Option<Timestamp>,
    /// What it goes in order with.
    order_key: Option<String>,
    /// What went wrong last.
    last_error: Option<String>,
    /// What it was replayed as.
    replayed_as: Option<String>,
    /// What led to it: the delivery it is a replay of, or the job that published the event.
    parent_id: Option<String>,
}

/// A delivery with every try at it.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliveryWhole)]
struct WholeView {
    #[serde(flatten)]
    fields: DeliveryFields,
    /// How often it was tried, probes left out.
    attempt_count: i32,
    /// Every try at it, oldest first.
    attempts: Vec<AttemptView>,
}

/// One try at a delivery.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliveryAttempt)]
struct AttemptView {
    /// Its id.
    id: String,
    /// Which attempt it was. A probe counts towards none.
    attempt: i32,
    /// When it began.
    #[schema(value_type = schema::Timestamp)]
    started_at: Timestamp,
    /// When it ended; `null` while it is under way.
    #[schema(value_type = Option<schema::Timestamp>)]
    ended_at: Option<Timestamp>,
    /// `succeeded`, `failed`, `running`, or `unknown`: nobody knows whether the receiver got it.
    outcome: &'static str,
    /// Whether it was only to see whether the receiver is back.
    probe: bool,
    /// What went wrong.
    error: Option<String>,
    #[serde(flatten)]
    detail: Detail,
}

/// What was sent and what came back, as far as it got.
#[derive(Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = DeliveryExchange)]
struct Detail {
    /// What was sent, less secrets.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    request_headers: Option<Value>,
    /// The status of the answer.
    status_code: Option<u16>,
    /// Its headers.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    response_headers: Option<Value>,
    /// The first 4 KB of its body.
    body: Option<String>,
    /// Whether there was more.
    truncated: Option<bool>,
    /// The address that answered.
    remote: Option<String>,
    /// How long each step took, in milliseconds.
    #[schema(value_type = Option<Millis>)]
    timings: Option<Value>,
    /// The kind of failure, where there was no whole answer.
    error_class: Option<String>,
}

/// Deliveries as clients see them, read together.
pub async fn shown_deliveries(
    context: &Context,
    tenant: &Tenant,
    rows: Vec<WorkRow>,
) -> Result<Vec<DeliveryView>, ApiError> {
    let rows: Vec<WorkRow> =
        rows.into_iter().filter(|row| row.kind == WorkKind::Delivery).collect();
    let mut ids: Vec<_> = rows.iter().filter_map(|row| Some((tenant.id, row.event?))).collect();
    ids.sort_unstable();
    ids.dedup();
    let events = match ids.is_empty() {
        true => Vec::new(),
        false => context.store.events_by_id(ids).await?,
    };
    let types: HashMap<EventId, String> =
        events.into_iter().map(|event| (event.id, event.event_type)).collect();
    let lanes: Vec<_> = rows.iter().map(|row| row.lane).collect();
    let lanes = context.directory.lanes(&lanes).await?;
    let webhook = |row: &WorkRow| {
        let lane = lanes.iter().find(|lane| lane.id == row.lane)?;
        lane.key.origin.map(WebhookId)
    };
    Ok(rows
        .iter()
        .map(|row| DeliveryView {
            attempts: row.attempts,
            fields: DeliveryFields {
                id: row.id.text(WorkKind::Delivery),
                event_id: row.event,
                event_type: row.event.and_then(|event| types.get(&event).cloned()),
                webhook_id: webhook(row),
                status: row.state,
                max_attempts: row.max_attempts,
                run_at: row.state.is_claimable().then_some(row.run_at),
                created_at: row.id.0.time(),
                finished_at: row.finished_at,
                order_key: row.meta.order_key.clone(),
                last_error: row.last_error.clone().filter(|_| row.state != State::Succeeded),
                replayed_as: row.replayed_as.map(|id| id.text(WorkKind::Delivery)),
                parent_id: row.meta.parent_id.clone(),
            },
        })
        .collect())
}

/// A tenant's delivery.
pub async fn find(call: &Call, tenant: &Tenant, id: &str) -> Result<WorkRow, ApiError> {
    let id = WorkId::parse(id, WorkKind::Delivery).map_err(|_| ApiError::not_found())?;
    let row = call.context.store.work(tenant.id, id).await?;
    row.filter(|row| row.kind == WorkKind::Delivery).ok_or_else(ApiError::not_found)
}

/// Shows one delivery, with every try at it.
#[utoipa::path(
    get, path = "/deliveries/{id}", operation_id = "get_delivery", tag = "deliveries",
    params(("id" = schema::WorkId, Path), describe::Tenant),
    responses((status = 200, description = "The delivery.", body = WholeView), Keyed, Missing)
)]
pub async fn show(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_read(&call)?;
    let tenant = call.tenant().await?;
    let row = find(&call, &tenant, &id).await?;
    call.no_query()?;
    let tries = tries(&call.context, &row).await?;
    let attempt_count = row.attempts;
    let mut views = shown_deliveries(&call.context, &tenant, vec![row]).await?;
    let view = views.pop().ok_or_else(ApiError::not_found)?;
    let whole = WholeView { fields: view.fields, attempt_count, attempts: tries };
    Ok(once::json(StatusCode::OK, &whole))
}

async fn tries(context: &Context, row: &WorkRow) -> Result<Vec<AttemptView>, ApiError> {
    let runs = context.store.runs(row.tenant, row.id).await?;
    let details = context.store.run_details(row.tenant, row.id).await?;
    let key = context.vault.key(row.tenant).await?;
    let mut known: HashMap<RunId, Value> = HashMap::new();
    for (id, record) in details {
        let text = key.open(Slot::RunDetail(id), &record)?;
        known.insert(id, serde_json::from_slice(&text).unwrap_or_default());
    }
    let result = context.store.job_states(vec![row.id]).await?.pop();
    let result = result.and_then(|(_, state)| state.result);
    let result =
        result.map(|record| open_json(&key, Slot::JobResult(row.id), &record)).transpose()?;
    let mut tries: Vec<AttemptView> = runs
        .into_iter()
        .map(|run| {
            let mut detail = known.remove(&run.id);
            if run.outcome == RunOutcome::Succeeded {
                detail = result.as_ref().and_then(|text| serde_json::from_str(text.get()).ok());
            }
            attempt(run, detail)
        })
        .collect();
    if let (State::Running, Some(started_at)) = (row.state, row.started_at) {
        tries.push(AttemptView {
            id: attempt_id(run_id(row.id, row.fence, started_at)),
            attempt: row.attempts,
            started_at,
            ended_at: None,
            outcome: "running",
            probe: false,
            error: None,
            detail: Detail::default(),
        });
    }
    Ok(tries)
}

fn attempt_id(run: RunId) -> String {
    format!("att_{}", run.0)
}

fn attempt(run: Run, detail: Option<Value>) -> AttemptView {
    let detail = detail.unwrap_or_default();
    let probe = detail["probe"] == true;
    AttemptView {
        id: attempt_id(run.id),
        attempt: run.attempt,
        started_at: run.started_at,
        ended_at: Some(run.ended_at),
        outcome: match run.outcome {
            RunOutcome::Succeeded => "succeeded",
            RunOutcome::LeaseExpired | RunOutcome::HandedBack => "unknown",
            _ => "failed",
        },
        probe,
        error: run.error,
        detail: serde_json::from_value(detail).unwrap_or_default(),
    }
}

/// Why a delivery is sent once more.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeliveryReplay)]
struct ReplayBody {
    /// Who, and why.
    #[schema(value_type = Option<schema::Note>)]
    note: Option<String>,
}

/// What a replay made.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliveryReplayed)]
struct Replayed {
    /// The new delivery.
    #[schema(value_type = schema::WorkId)]
    delivery_id: String,
    /// Where it stands.
    #[schema(value_type = schema::State)]
    status: State,
}

/// Sends a finished delivery once more, as a new one of the same event.
#[utoipa::path(
    post, path = "/deliveries/{id}/replay", operation_id = "replay_delivery", tag = "deliveries",
    params(("id" = schema::WorkId, Path), describe::Tenant, Idempotent), request_body = ReplayBody,
    responses(
        (status = 202, description = "The new delivery waits.", body = Replayed),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn replay(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_change(&call)?;
    let tenant = call.tenant().await?;
    let row = find(&call, &tenant, &id).await?;
    let ReplayBody { note } = call.body()?;
    note.as_deref().map(check_note).transpose()?;
    let new = WorkId(call.context.new_id());
    let answer = Replayed { delivery_id: new.text(row.kind), status: State::Pending };
    let once = call.once(tenant.id, StatusCode::ACCEPTED, &answer).await?;
    let wish = Wish {
        tenant: tenant.id,
        from: ReplayFrom::Work(row.id),
        id: new,
        fresh_scope: false,
        audit: call.audit(Some(tenant.id), "work.replay", id, note),
    };
    let made = replays::make(&call.context, wish, once).await?;
    call.answer_once(tenant.id, made, |_| once::json(StatusCode::ACCEPTED, &answer)).await
}
