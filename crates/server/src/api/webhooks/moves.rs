//! What can be done to a webhook: tried, rotated, paused, given up and taken up again, and its past made good.

use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::webhook::{GRACE, GRACE_MAX_S, Mode, Paused, Webhook};
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{Timestamp, event_type};
use wakepost_store::moves::OperationKind;

use super::super::call::{At, Call, Nothing};
use super::super::deliveries::{DeliveryView, shown_deliveries};
use super::super::describe::{self, Conflicting, Idempotent, Keyed, Missing};
use super::super::error::ApiError;
use super::super::once;
use super::super::operations::{self, Begun};
use super::super::page::{Listed, PageQuery, listed};
use super::super::work::Moved;
use super::{find, may_change, may_read, new_secret, public_key, secret_shown};
use crate::backfilling::Backfill;
use crate::dead_letters::{DeadLetterReplay, DeadQuery};
use crate::schema;
use crate::webhooks::{self, Asked};

/// How many deliveries that live are counted at most, and how many that ended.
const COUNTED_MAX: u32 = 100_000;

/// What to try.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WebhookTest)]
struct TestBody {
    /// A sample of this type; a ping if left out.
    #[serde(rename = "type")]
    event_type: Option<String>,
}

/// What a receiver answered.
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookTested)]
struct Tested {
    /// The answer's status; `null`: there was none.
    status_code: Option<u16>,
    /// The beginning of its body.
    body: Option<String>,
    /// How long each step took, in milliseconds.
    timings: crate::deliveries::Millis,
    /// Why it was not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Sends a sample now, once, and says what the receiver answered. Nothing is stored of it.
#[utoipa::path(
    post, path = "/webhooks/{id}/test", operation_id = "test_webhook", tag = "webhooks",
    params(("id" = schema::WebhookId, Path), describe::Tenant), request_body = TestBody,
    responses((status = 200, description = "The answer.", body = Tested), Keyed, Missing, Conflicting)
)]
pub async fn test(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_change(&call)?;
    let tenant = call.tenant().await?;
    let webhook = find(&call, &tenant, &id).await?;
    if webhook.config.mode == Mode::Pull {
        return Err(ApiError::invalid_state(
            "its deliveries are pulled: there is nobody to send to",
        ));
    }
    let TestBody { event_type } = call.body()?;
    let asked = match event_type {
        None => Asked::ping(&call.context, &webhook),
        Some(name) if event_type::is_name(&name) => {
            Asked::sample(&call.context, &tenant, &webhook, &name).await?
        }
        Some(_) => return Err(ApiError::field("type", "must be a type such as order.created")),
    };
    call.note(tenant.id, "webhook.test", id, None).await?;
    let tried = webhooks::ask(&call.context, &webhook, asked).await?;
    let answer = tried.answer.as_ref();
    let tested = Tested {
        status_code: answer.map(|answer| answer.status.as_u16()),
        body: answer.map(|answer| String::from_utf8_lossy(&answer.body).into_owned()),
        timings: crate::deliveries::timings(&tried.timings),
        error: tried.error(),
    };
    Ok(once::json(StatusCode::OK, &tested))
}

/// How long the old secret lives on.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WebhookRotate)]
struct RotateBody {
    /// How long both sign; 24 hours if left out, 0: the old one is gone at once.
    #[schema(maximum = 259200)]
    grace_s: Option<u64>,
}

/// A new secret.
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookRotated)]
struct Rotated {
    /// The webhook.
    id: String,
    /// The secret: shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// What verifies from now on, if deliveries are signed by Ed25519.
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    /// Until when the previous one signs too.
    #[schema(value_type = Option<schema::Timestamp>)]
    previous_expires_at: Option<Timestamp>,
}

/// Makes a new secret, which signs at once; the old one signs too for a while. A second rotation does not shorten that.
#[utoipa::path(
    post, path = "/webhooks/{id}/rotate", operation_id = "rotate_webhook", tag = "webhooks",
    params(("id" = schema::WebhookId, Path), describe::Tenant), request_body = RotateBody,
    responses((status = 200, description = "The new secret.", body = Rotated), Keyed, Missing, Conflicting)
)]
pub async fn rotate(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_change(&call)?;
    let tenant = call.tenant().await?;
    let found = find(&call, &tenant, &id).await?;
    let RotateBody { grace_s } = call.body()?;
    if grace_s.is_some_and(|grace| grace > GRACE_MAX_S) {
        return Err(ApiError::field("grace_s", format!("must be at most {GRACE_MAX_S}")));
    }
    let grace = grace_s.map_or(GRACE, Duration::from_secs);
    let fresh = new_secret(&call.context, found.config.signature);
    let audit = call.audit(Some(tenant.id), "webhook.rotate", id.clone(), None);
    let context = &call.context;
    let webhook =
        webhooks::change::<ApiError>(context, tenant.id, found.id, Some(audit), |webhook, now| {
            if !webhook.secrets.rotate(fresh.clone(), grace, now) {
                return Err(ApiError::invalid_state(
                    "too many secrets from before still sign: wait, or revoke them",
                ));
            }
            webhook.config.secret_made_at = now;
            webhook.config.secret_told = false;
            Ok(())
        })
        .await?;
    let rotated = Rotated {
        id,
        secret: secret_shown(&webhook),
        public_key: public_key(&webhook.config, &webhook.secrets.current),
        previous_expires_at: webhook.secrets.previous_until(webhook.config.secret_made_at),
    };
    Ok(once::json(StatusCode::OK, &rotated))
}

fn moved(id: String, webhook: &Webhook) -> Response {
    once::json(StatusCode::OK, &Moved { id, status: webhook.status() })
}

/// Ends the secrets from before at once.
#[utoipa::path(
    post, path = "/webhooks/{id}/revoke-previous", operation_id = "revoke_previous_secret",
    tag = "webhooks", params(("id" = schema::WebhookId, Path), describe::Tenant),
    request_body = Nothing,
    responses((status = 200, description = "Where it stands.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn revoke_previous(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    let audit = "webhook.revoke_previous";
    change(id, call, audit, |webhook, now| {
        if webhook.secrets.live(now).count() < 2 {
            return Err(ApiError::invalid_state("it has no previous secret"));
        }
        webhook.secrets.previous.clear();
        Ok(())
    })
    .await
}

async fn change(
    id: String,
    call: Call,
    action: &str,
    what: impl FnMut(&mut Webhook, Timestamp) -> Result<(), ApiError>,
) -> Result<Response, ApiError> {
    may_change(&call)?;
    let tenant = call.tenant().await?;
    let found = find(&call, &tenant, &id).await?;
    let Nothing {} = call.body()?;
    let audit = call.audit(Some(tenant.id), action, id.clone(), None);
    let webhook = webhooks::change(&call.context, tenant.id, found.id, Some(audit), what).await?;
    webhooks::wake(&call.context, webhook.lane).await;
    Ok(moved(id, &webhook))
}

/// How to pause.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WebhookPause)]
struct PauseBody {
    /// Whether events of that time are delivered afterwards; `true` if left out.
    keep: Option<bool>,
}

/// Pauses a webhook. What is under way goes on.
#[utoipa::path(
    post, path = "/webhooks/{id}/pause", operation_id = "pause_webhook", tag = "webhooks",
    params(("id" = schema::WebhookId, Path), describe::Tenant), request_body = PauseBody,
    responses((status = 200, description = "`paused`.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn pause(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_change(&call)?;
    let tenant = call.tenant().await?;
    let found = find(&call, &tenant, &id).await?;
    let PauseBody { keep } = call.body()?;
    let audit = call.audit(Some(tenant.id), "webhook.pause", id.clone(), None);
    let context = &call.context;
    let webhook =
        webhooks::change::<ApiError>(context, tenant.id, found.id, Some(audit), |webhook, now| {
            if webhook.config.disabled.is_some() {
                return Err(ApiError::invalid_state("it is disabled"));
            }
            let since = webhook.config.paused.map_or(now, |paused| paused.since);
            webhook.config.paused = Some(Paused { since, keep: keep.unwrap_or(true) });
            Ok(())
        })
        .await?;
    Ok(moved(id, &webhook))
}

/// Lets a paused webhook go on, with what was kept for it.
#[utoipa::path(
    post, path = "/webhooks/{id}/resume", operation_id = "resume_webhook", tag = "webhooks",
    params(("id" = schema::WebhookId, Path), describe::Tenant), request_body = Nothing,
    responses((status = 200, description = "`active`.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn resume(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    change(id, call, "webhook.resume", |webhook, _| match webhook.config.paused.take() {
        Some(_) => Ok(()),
        None => Err(ApiError::invalid_state("it is not paused")),
    })
    .await
}

/// Takes a webhook up again: its circuit is closed, and new events are delivered. What it missed: recover and backfill.
#[utoipa::path(
    post, path = "/webhooks/{id}/enable", operation_id = "enable_webhook", tag = "webhooks",
    params(("id" = schema::WebhookId, Path), describe::Tenant), request_body = Nothing,
    responses((status = 200, description = "`active`.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn enable(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_change(&call)?;
    let tenant = call.tenant().await?;
    let found = find(&call, &tenant, &id).await?;
    let Nothing {} = call.body()?;
    let audit = call.audit(Some(tenant.id), "webhook.enable", id.clone(), None);
    let webhook = webhooks::enable(&call.context, tenant.id, found.id, Some(audit)).await?;
    Ok(moved(id, &webhook))
}

/// Gives a webhook up: what waits for it goes to the dead letters, and new events make no delivery for it.
#[utoipa::path(
    post, path = "/webhooks/{id}/disable", operation_id = "disable_webhook", tag = "webhooks",
    params(("id" = schema::WebhookId, Path), describe::Tenant), request_body = Nothing,
    responses((status = 200, description = "`disabled`.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn disable(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_change(&call)?;
    let tenant = call.tenant().await?;
    let found = find(&call, &tenant, &id).await?;
    let Nothing {} = call.body()?;
    let audit = call.audit(Some(tenant.id), "webhook.disable", id.clone(), None);
    let reason = "by request";
    let webhook =
        webhooks::disable(&call.context, tenant.id, found.id, reason, Some(audit)).await?;
    Ok(moved(id, &webhook))
}

/// Since when, and until when.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Span)]
struct SpanBody {
    /// Not before.
    #[schema(value_type = schema::Timestamp)]
    since: Timestamp,
    /// Before.
    #[schema(value_type = Option<schema::Timestamp>)]
    until: Option<Timestamp>,
}

async fn span(
    call: &Call,
    id: &str,
) -> Result<(std::sync::Arc<Tenant>, Webhook, SpanBody), ApiError> {
    may_change(call)?;
    let tenant = call.tenant().await?;
    let webhook = find(call, &tenant, id).await?;
    let span: SpanBody = call.body()?;
    if span.until.is_some_and(|until| until <= span.since) {
        return Err(ApiError::field("until", "must be after since"));
    }
    if webhook.config.disabled.is_some() {
        return Err(ApiError::invalid_state("it is disabled: enable it first"));
    }
    Ok((tenant, webhook, span))
}

/// Tries again what failed since a moment: every dead letter of this webhook, once.
#[utoipa::path(
    post, path = "/webhooks/{id}/recover", operation_id = "recover_webhook", tag = "webhooks",
    params(("id" = schema::WebhookId, Path), describe::Tenant, Idempotent), request_body = SpanBody,
    responses((status = 202, description = "It is under way.", body = Begun), Keyed, Missing, Conflicting)
)]
pub async fn recover(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    let (tenant, webhook, span) = span(&call, &id).await?;
    let note = format!("recover {id}");
    let asked = DeadLetterReplay {
        filter: DeadQuery {
            kind: Some(WorkKind::Delivery),
            webhook: Some(webhook.id),
            since: Some(span.since),
            until: span.until,
            ..DeadQuery::default()
        },
        note: note.clone(),
        fresh_scope: false,
        actor: call.caller.name.clone(),
        at: call.context.store.now().await?,
        dry_run: false,
    };
    let asked = serde_json::to_string(&asked).expect("what was asked is plain data");
    operations::begin(&call, &tenant, OperationKind::WebhookRecover, asked, "webhook.recover", note)
        .await
}

/// Delivers what was published since a moment and never made a delivery for this webhook.
#[utoipa::path(
    post, path = "/webhooks/{id}/backfill", operation_id = "backfill_webhook", tag = "webhooks",
    params(("id" = schema::WebhookId, Path), describe::Tenant, Idempotent), request_body = SpanBody,
    responses((status = 202, description = "It is under way.", body = Begun), Keyed, Missing, Conflicting)
)]
pub async fn backfill(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    let (tenant, webhook, span) = span(&call, &id).await?;
    let asked = Backfill { webhook: webhook.id, since: span.since, until: span.until };
    let asked = serde_json::to_string(&asked).expect("what was asked is plain data");
    let (kind, note) = (OperationKind::WebhookBackfill, format!("backfill {id}"));
    operations::begin(&call, &tenant, kind, asked, "webhook.backfill", note).await
}

/// Which deliveries.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct DeliveryQuery {
    /// Only those that stand so.
    #[param(value_type = Option<schema::State>)]
    status: Option<State>,
}

/// Lists a webhook's deliveries.
#[utoipa::path(
    get, path = "/webhooks/{id}/deliveries", operation_id = "list_webhook_deliveries", tag = "webhooks",
    params(("id" = schema::WebhookId, Path), DeliveryQuery, PageQuery, describe::Tenant),
    responses((status = 200, description = "A page.", body = Listed<DeliveryView>), Keyed, Missing)
)]
pub async fn deliveries(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_read(&call)?;
    let tenant = call.tenant().await?;
    let webhook = find(&call, &tenant, &id).await?;
    let (query, page) = call.list::<DeliveryQuery>()?;
    let rows = call.context.store.deliveries(tenant.id, webhook.lane, query.status, page).await?;
    let last = rows.last().map(|row| row.id.0);
    let rows = shown_deliveries(&call.context, &tenant, rows).await?;
    Ok(once::json(StatusCode::OK, &listed(rows, last, page.limit)))
}

/// How a webhook's deliveries stand.
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookStats)]
struct Stats {
    /// The webhook.
    id: String,
    /// How many stand where, as far as they are kept.
    #[schema(value_type = std::collections::BTreeMap<String, i64>)]
    deliveries: std::collections::BTreeMap<&'static str, i64>,
    /// All of them.
    total: i64,
    /// The share that was taken of those that ended by themselves.
    success_rate: Option<f64>,
}

/// Counts a webhook's deliveries: the latest hundred thousand that live, and as many that ended.
#[utoipa::path(
    get, path = "/webhooks/{id}/stats", operation_id = "webhook_stats", tag = "webhooks",
    params(("id" = schema::WebhookId, Path), describe::Tenant),
    responses((status = 200, description = "The counts.", body = Stats), Keyed, Missing)
)]
pub async fn stats(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_read(&call)?;
    let tenant = call.tenant().await?;
    let webhook = find(&call, &tenant, &id).await?;
    call.no_query()?;
    let counts = call.context.store.delivery_counts(webhook.lane, COUNTED_MAX).await?;
    let of = |wanted: State| {
        counts.iter().filter(|(state, _)| *state == wanted).map(|(_, count)| count).sum::<i64>()
    };
    let (taken, dead) = (of(State::Succeeded), of(State::DeadLetter));
    let ended = taken + dead;
    let stats = Stats {
        id,
        total: counts.iter().map(|(_, count)| count).sum(),
        success_rate: (ended > 0).then(|| taken as f64 / ended as f64),
        deliveries: counts.iter().map(|(state, count)| (state.as_str(), *count)).collect(),
    };
    Ok(once::json(StatusCode::OK, &stats))
}
