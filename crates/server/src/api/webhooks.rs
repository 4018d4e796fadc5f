//! Webhooks: who subscribed, made, shown, changed and deleted. What else can be done to one is in `webhooks/moves.rs`.

mod body;
pub mod moves;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::circuit::{Change, Circuit, CircuitSettings, CircuitState};
use wakepost_domain::tenant::Tenant;
use wakepost_domain::webhook::{
    AuthKind, Mode, PER_TENANT, Signature, Webhook, WebhookConfig, WebhookSecrets,
};
use wakepost_domain::work::State;
use wakepost_domain::{Timestamp, WebhookId};
use wakepost_providers::standard;
use wakepost_store::{Store, StoreError};

use super::call::{At, Call, Nothing};
use super::describe::{self, Conflicting, Idempotent, Keyed, Missing};
use super::error::ApiError;
use super::once;
use super::page::{Listed, PageQuery, cut, listed};
use crate::context::Context;
use crate::directory::sealed_webhook;
use crate::hub::Setting;
use crate::outbound::SendErrorClass;
use crate::schema;
use crate::webhooks::{self, Asked};
use body::WebhookBody;

/// A subscription.
#[derive(Serialize, ToSchema)]
#[schema(as = Webhook)]
pub struct WebhookView {
    /// Its id.
    #[schema(value_type = schema::WebhookId)]
    id: WebhookId,
    /// Where deliveries go; `null` if they are pulled.
    url: Option<String>,
    /// Whether they are sent (`push`) or leased by the receiver (`pull`).
    #[schema(value_type = schema::WebhookMode)]
    mode: Mode,
    /// Which types it gets: `order.created`, `order.*`, `*`.
    events: Vec<String>,
    /// A text for people.
    description: String,
    /// `active`, `paused` or `disabled`.
    status: &'static str,
    /// Whether it gets anything at all.
    enabled: bool,
    /// Why it does not.
    disabled_reason: Option<String>,
    /// How its receiver does.
    circuit: CircuitView,
    /// How deliveries are signed.
    #[schema(value_type = schema::SignatureKind)]
    signature: Signature,
    /// What verifies its deliveries, if they are signed by Ed25519. Also in the key set.
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    /// Headers that go with each delivery.
    headers: BTreeMap<String, String>,
    /// The kind of its credentials; they themselves are never shown.
    auth: Option<AuthView>,
    /// How many deliveries may start in a second.
    rate_per_s: Option<f64>,
    /// Whether deliveries with the same order key go one after the other.
    order: bool,
    /// How long its receiver has for an answer.
    timeout_s: u64,
    /// How long each attempt waits, the first one included; `null`: as the tenant says.
    retry_s: Option<Vec<u64>>,
    /// When its circuit opens and closes.
    #[schema(value_type = schema::CircuitSettings)]
    circuit_settings: CircuitSettings,
    /// The caller's own notes.
    metadata: BTreeMap<String, String>,
    /// Which key made it.
    created_by: String,
    /// When it was made.
    #[schema(value_type = schema::Timestamp)]
    created_at: Timestamp,
    /// How old the current secret is.
    secret_age_days: i64,
    /// Until when a secret from before signs too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Timestamp>)]
    previous_expires_at: Option<Timestamp>,
    /// What deliveries are signed with: shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// What was odd about its receiver when it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

/// How a receiver does.
#[derive(Serialize, ToSchema)]
struct CircuitView {
    /// `closed`, `open` or `half_open`.
    #[schema(value_type = schema::CircuitState)]
    state: CircuitState,
    /// Failures in a row.
    failures: u32,
    /// When it opened last, while it is not closed.
    #[schema(value_type = Option<schema::Timestamp>)]
    opened_at: Option<Timestamp>,
    /// Until when nothing is tried.
    #[schema(value_type = Option<schema::Timestamp>)]
    open_until: Option<Timestamp>,
    /// When the webhook is disabled, if nothing closes it before.
    #[schema(value_type = Option<schema::Timestamp>)]
    disables_at: Option<Timestamp>,
    /// What became of it, newest last.
    #[schema(value_type = Vec<schema::CircuitChange>)]
    history: Vec<Change>,
}

/// The kind of credentials.
#[derive(Serialize, ToSchema)]
struct AuthView {
    /// `bearer`, `basic` or `mtls`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    kind: AuthKind,
}

/// A webhook as clients see it.
pub fn shown(webhook: &Webhook, now: Timestamp) -> WebhookView {
    let Webhook { config, secrets, circuit, .. } = webhook;
    let circuit: &Circuit = circuit;
    WebhookView {
        id: webhook.id,
        url: config.url.clone(),
        mode: config.mode,
        events: config.events.clone(),
        description: config.description.clone(),
        status: webhook.status(),
        enabled: config.disabled.is_none(),
        disabled_reason: config.disabled.as_ref().map(|disabled| disabled.reason.clone()),
        circuit: CircuitView {
            state: circuit.state,
            failures: circuit.failures,
            opened_at: circuit.opened_at,
            open_until: circuit.open_until.filter(|_| circuit.state == CircuitState::Open),
            disables_at: circuit.disable_at(&config.circuit),
            history: circuit.history.clone(),
        },
        signature: config.signature,
        public_key: public_key(config, &secrets.current),
        headers: secrets.headers.clone(),
        auth: config.auth.map(|kind| AuthView { kind }),
        rate_per_s: config.rate_per_s,
        order: config.order,
        timeout_s: webhook.timeout().as_secs(),
        retry_s: config.retry_s.clone(),
        circuit_settings: config.circuit,
        metadata: config.metadata.clone(),
        created_by: config.created_by.clone(),
        created_at: webhook.id.0.time(),
        secret_age_days: (now.since(config.secret_made_at).as_secs() / 86_400) as i64,
        previous_expires_at: secrets.previous_until(now),
        secret: None,
        warning: config.warning.clone(),
    }
}

fn public_key(config: &WebhookConfig, secret: &str) -> Option<String> {
    let public = config.signature == Signature::Ed25519;
    public.then(|| standard::public_key(secret).ok()).flatten()
}

/// The secret as its owner is shown it, once. A private key is nobody's business.
fn secret_shown(webhook: &Webhook) -> Option<String> {
    (webhook.config.signature == Signature::Hmac).then(|| webhook.secrets.current.clone())
}

/// A new secret, of the kind that the signature needs.
fn new_secret(context: &Context, signature: Signature) -> String {
    match signature {
        Signature::Hmac => standard::generate_secret(context.entropy.as_ref()),
        Signature::Ed25519 => standard::generate_private_key(context.entropy.as_ref()),
    }
}

/// Refuses a caller who may not change webhooks.
pub fn may_change(call: &Call) -> Result<(), ApiError> {
    call.need(Right::Subscribe)
}

/// Refuses a caller who may not read them.
pub fn may_read(call: &Call) -> Result<(), ApiError> {
    call.need_any(&[Right::Read, Right::Subscribe])
}

/// A tenant's webhook, as it is now and not as a copy has it.
pub async fn find(call: &Call, tenant: &Tenant, id: &str) -> Result<Webhook, ApiError> {
    let id: WebhookId = id.parse().map_err(|_| ApiError::not_found())?;
    let record = call.context.store.webhook(id).await?;
    let record = record.filter(|record| record.tenant == tenant.id);
    Ok(call.context.directory.open_webhook(record.ok_or_else(ApiError::not_found)?).await?)
}

/// Makes a webhook. Its receiver is sent a signed ping before the answer; what that comes to is at most a warning.
#[utoipa::path(
    post, path = "/webhooks", operation_id = "create_webhook", tag = "webhooks",
    params(describe::Tenant, Idempotent), request_body = WebhookBody,
    responses(
        (status = 201, description = "The webhook, with its secret.", body = WebhookView),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn create(call: Call) -> Result<Response, ApiError> {
    may_change(&call)?;
    let tenant = call.tenant().await?;
    let body: WebhookBody = call.body()?;
    // A repeat must not ping again, and not with a secret that nobody has.
    if let Some(answer) = call.answered(tenant.id).await? {
        return Ok(answer);
    }
    let context = &call.context;
    let now = context.now();
    let id = WebhookId(context.new_id());
    let config = WebhookConfig {
        created_by: call.caller.name.clone(),
        secret_made_at: now,
        ..WebhookConfig::default()
    };
    let lane = context.directory.lane(Webhook::lane_key(tenant.id, id)).await?;
    let mut webhook = Webhook {
        id,
        tenant: tenant.id,
        lane: lane.id,
        config,
        secrets: WebhookSecrets::default(),
        circuit: Circuit::default(),
        notices: Vec::new(),
        version: 0,
    };
    body.apply(&mut webhook, &context.config.addresses)?;
    body.check_whole(&webhook)?;
    if body.is_disabled() {
        webhook.disable(now, "by request");
        webhook.notices.clear();
    }
    webhook.secrets.current = new_secret(context, webhook.config.signature);
    let most = tenant.settings.max_webhooks.unwrap_or(PER_TENANT);
    if context.store.webhooks(tenant.id).await?.len() >= most as usize {
        return Err(StoreError::Limit(format!("the tenant may have {most} webhooks")).into());
    }
    webhook.config.warning = ping(context, &webhook).await?;
    let mut view = shown(&webhook, now);
    let once = call.once(tenant.id, StatusCode::CREATED, &view).await?;
    let audit = call.audit(Some(tenant.id), "webhook.create", id.to_string(), None);
    let key = context.vault.key(tenant.id).await?;
    let record = sealed_webhook(&webhook, &key);
    let create = |store: Arc<dyn Store>| async move {
        store.create_webhook(record, most, audit, once).await
    };
    let made = context.change(Setting::Webhooks(tenant.id), create).await?;
    view.secret = secret_shown(&webhook);
    call.answer_once(tenant.id, made, |()| once::json(StatusCode::CREATED, &view)).await
}

/// Asks a receiver whether it is there: once, and whatever it says is only a warning. An address that must not be
/// reached is an error: it is never saved.
async fn ping(context: &Arc<Context>, webhook: &Webhook) -> Result<Option<String>, ApiError> {
    if webhook.config.mode == Mode::Pull || webhook.config.disabled.is_some() {
        return Ok(None);
    }
    let tried = webhooks::ask(context, webhook, Asked::ping(context, webhook)).await?;
    match (tried.class, tried.error()) {
        (Some(SendErrorClass::Refused), Some(error)) => {
            Err(ApiError::field("url", format!("must name a public host: {error}")))
        }
        (_, Some(error)) => Ok(Some(format!("the test ping was not taken: {error}"))),
        (_, None) => Ok(None),
    }
}

/// Lists a tenant's webhooks.
#[utoipa::path(
    get, path = "/webhooks", operation_id = "list_webhooks", tag = "webhooks",
    params(PageQuery, describe::Tenant),
    responses((status = 200, description = "A page.", body = Listed<WebhookView>), Keyed, Missing)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    may_read(&call)?;
    let tenant = call.tenant().await?;
    let (Nothing {}, page) = call.list()?;
    let mut all = Vec::new();
    for record in call.context.store.webhooks(tenant.id).await? {
        all.push(call.context.directory.open_webhook(record).await?);
    }
    let (rows, last) = cut(all, |webhook| webhook.id.0, page);
    let now = call.context.now();
    let rows: Vec<WebhookView> = rows.iter().map(|webhook| shown(webhook, now)).collect();
    Ok(once::json(StatusCode::OK, &listed(rows, last, page.limit)))
}

/// Shows one webhook.
#[utoipa::path(
    get, path = "/webhooks/{id}", operation_id = "get_webhook", tag = "webhooks",
    params(("id" = schema::WebhookId, Path), describe::Tenant),
    responses((status = 200, description = "The webhook.", body = WebhookView), Keyed, Missing)
)]
pub async fn show(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_read(&call)?;
    let tenant = call.tenant().await?;
    let webhook = find(&call, &tenant, &id).await?;
    call.no_query()?;
    Ok(once::json(StatusCode::OK, &shown(&webhook, call.context.now())))
}

/// Changes a webhook. Deliveries that wait go by the new settings.
#[utoipa::path(
    patch, path = "/webhooks/{id}", operation_id = "update_webhook", tag = "webhooks",
    params(("id" = schema::WebhookId, Path), describe::Tenant), request_body = WebhookBody,
    responses(
        (status = 200, description = "The webhook.", body = WebhookView),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn update(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_change(&call)?;
    let tenant = call.tenant().await?;
    let found = find(&call, &tenant, &id).await?;
    let body: WebhookBody = call.body()?;
    let context = &call.context;
    let addresses = &context.config.addresses;
    let audit = call.audit(Some(tenant.id), "webhook.update", id.clone(), None);
    let change =
        webhooks::change::<ApiError>(context, tenant.id, found.id, Some(audit), |webhook, _| {
            let signature = webhook.config.signature;
            body.apply(webhook, addresses)?;
            if webhook.config.signature != signature {
                return Err(ApiError::field("signature", "cannot be changed: make a new webhook"));
            }
            body.check_whole(webhook)
        });
    let mut webhook = change.await?;
    match body.enabled() {
        Some(false) if webhook.config.disabled.is_none() => {
            webhook = webhooks::disable(context, tenant.id, webhook.id, "by request", None).await?;
        }
        Some(true) if webhook.config.disabled.is_some() => {
            webhook = webhooks::enable(context, tenant.id, webhook.id, None).await?;
        }
        _ => webhooks::wake(context, webhook.lane).await,
    }
    Ok(once::json(StatusCode::OK, &shown(&webhook, context.now())))
}

/// Deletes a webhook. What waits for it is cancelled; its history stays.
#[utoipa::path(
    delete, path = "/webhooks/{id}", operation_id = "delete_webhook", tag = "webhooks",
    params(("id" = schema::WebhookId, Path), describe::Tenant),
    responses((status = 204, description = "It is gone."), Keyed, Missing)
)]
pub async fn remove(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_change(&call)?;
    let tenant = call.tenant().await?;
    let webhook = find(&call, &tenant, &id).await?;
    call.no_query()?;
    let context = &call.context;
    let audit = call.audit(Some(tenant.id), "webhook.delete", id, None);
    let (of, id) = (tenant.id, webhook.id);
    let delete = |store: Arc<dyn Store>| async move { store.delete_webhook(of, id, audit).await };
    context.change(Setting::Webhooks(of), delete).await?;
    webhooks::end_waiting(context, webhook.lane, State::Cancelled, "the webhook was deleted")
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
