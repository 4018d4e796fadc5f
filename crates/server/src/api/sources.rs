//! Sources: made, changed, rotated, switched on and off.

mod body;
pub mod setup;
pub mod testing;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::approval::Mode;
use wakepost_domain::budget::Budget;
use wakepost_domain::event::Event;
use wakepost_domain::executor::Executor;
use wakepost_domain::source::{Source, SourceConfig, SourceSecrets};
use wakepost_domain::thread::ThreadPolicy;
use wakepost_domain::work::Priority;
use wakepost_domain::{EventId, SourceId, TenantId, Timestamp, Ulid};
use wakepost_providers::{Provider, SecretNeed, registry};
use wakepost_store::Store;
use wakepost_store::moves::{Page, SourceRecord};

use super::call::{At, Call, Nothing};
use super::describe::{Conflicting, Idempotent, Keyed, Missing, Tenant};
use super::error::ApiError;
use super::inbox::{ReceiptView, shown_receipt};
use super::once;
use super::page::{Listed, PageQuery, listed};
use super::work::Moved;
use crate::context::Context;
use crate::directory::{LiveSource, sealed_record};
use crate::hub::Setting;
use crate::registering::webhook_url;
use crate::schema;
use body::SourceBody;
pub use body::{check_executor, check_secret, check_url};
use setup::set_up_error;

/// How long an old secret is still accepted after a rotation, unless asked otherwise, and at most.
const GRACE: Duration = Duration::from_secs(24 * 3600);
const GRACE_MAX_S: u64 = 30 * 24 * 3600;

schema::requiring!(NewSource: SourceBody, ["provider"]);

/// A source: never a secret, but in the answer that made it.
#[derive(Serialize, ToSchema)]
#[schema(as = Source)]
pub struct SourceView {
    /// Its id, which is also its public address.
    #[schema(value_type = schema::SourceId)]
    id: SourceId,
    /// Whose it is.
    #[schema(value_type = Option<schema::Slug>)]
    tenant: Option<String>,
    /// Which adapter understands its requests.
    provider: String,
    /// A name for people.
    name: String,
    /// `enabled` or `disabled`.
    status: &'static str,
    /// Off: requests get 404 and nothing is stored.
    enabled: bool,
    /// No signature is checked, and every event is marked unverified.
    unsigned: bool,
    /// What to enter at the provider.
    ingest_url: String,
    /// What it must still be told.
    missing_settings: Vec<String>,
    /// What is wrong with its set-up, although nothing is missing.
    warning: Option<String>,
    /// Whether it has a secret.
    has_secret: bool,
    /// How old it is, in days; null without one, and for a public key, which is none.
    secret_age_days: Option<u64>,
    /// Until when the secret before the current one is accepted.
    #[schema(value_type = Option<schema::Timestamp>)]
    previous_expires_at: Option<Timestamp>,
    /// The adapter's own settings; of a secret one only that it is set.
    #[schema(value_type = Object)]
    settings: Map<String, Value>,
    /// How far a signed time may be off, either way.
    tolerance_s: u64,
    /// The largest body.
    max_body_bytes: usize,
    /// How long a dedup key blocks a second job.
    dedup_window_s: u64,
    /// Whether the body's hash is a second dedup key.
    dedup_body: bool,
    /// What tells its events apart in place of the provider's id.
    dedup_key: Option<String>,
    /// Where the payload holds what events are put in order by.
    order_by: Option<String>,
    /// Where it holds the number of an event among those of its order value.
    sequence_by: Option<String>,
    /// How long an event waits for one with a lower number.
    order_wait_s: u64,
    /// Where it holds what makes a newer event supersede a queued older one.
    coalesce_by: Option<String>,
    /// What a message does while its thread is busy.
    #[schema(value_type = schema::ThreadPolicy)]
    thread_policy: ThreadPolicy,
    /// How long a thread must be quiet before its job runs.
    quiet_ms: u64,
    /// How long a job waits for quiet at most.
    quiet_cap_ms: u64,
    /// Which event types make a job; empty: all.
    filter: Vec<String>,
    /// Whether a person must agree before its jobs act.
    #[schema(value_type = schema::Mode)]
    mode: Mode,
    /// How long a person has to decide.
    approval_expires_s: u64,
    /// Which queue its jobs wait in.
    #[schema(value_type = schema::Priority)]
    priority: Priority,
    /// How its jobs run; `null`: the tenant's default.
    #[schema(value_type = Option<schema::Executor>)]
    executor: Option<Executor>,
    /// Whom to ask just before an agent runs.
    preflight_url: Option<String>,
    /// How often its jobs are tried.
    max_attempts: Option<u32>,
    /// How long a failed job waits, attempt by attempt.
    backoff_s: Option<Vec<u64>>,
    /// How long a run may take in all.
    run_timeout_s: Option<u64>,
    /// How long a lease lasts.
    lease_s: Option<u64>,
    /// How many of its jobs may run at once.
    concurrency: Option<u32>,
    /// How many requests it takes in a second, on each node, and how many of its jobs may start in one.
    rate_per_s: Option<f64>,
    /// Where the outcome of its jobs goes.
    callback_url: Option<String>,
    /// How much of its work may run on one day.
    #[schema(value_type = Option<schema::Budget>)]
    budget: Option<Budget>,
    /// Who answers for it.
    owner: Option<String>,
    /// The networks its requests must come from; empty: any.
    allow_from: Vec<String>,
    /// What of its payloads is hidden, as JSON pointers.
    redact: Vec<String>,
    /// When it was made.
    #[schema(value_type = schema::Timestamp)]
    created_at: Timestamp,
    /// When it was last changed.
    #[schema(value_type = schema::Timestamp)]
    updated_at: Timestamp,
    /// The secret, if Wakepost made it just now: shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// What requests to its http executor and its pre-flight are signed with, if it was made just now: shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    executor_secret: Option<String>,
    /// What callbacks are signed with, if it was made just now: shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_secret: Option<String>,
}

async fn shown(context: &Context, live: &LiveSource) -> Result<SourceView, ApiError> {
    let Source { id, provider, config, secrets, created_at, updated_at, .. } = live.source.clone();
    let tenant = context.directory.tenant(live.source.tenant).await?;
    let mut settings = config.settings.clone();
    settings.extend(secrets.settings.into_iter().map(|(name, _)| (name, json!("(secret)"))));
    let (quiet, order_wait) = (config.quiet(), config.order_wait());
    Ok(SourceView {
        id,
        tenant: tenant.map(|tenant| tenant.slug.clone()),
        provider,
        status: switched(config.enabled),
        enabled: config.enabled,
        unsigned: config.unsigned,
        ingest_url: webhook_url(context, live),
        warning: set_up_error(context, live),
        missing_settings: live.missing(),
        has_secret: secrets.current.is_some(),
        secret_age_days: live.secret_days(context.now()),
        previous_expires_at: secrets.previous.and(secrets.previous_expires_at),
        settings,
        tolerance_s: live.tolerance().as_secs(),
        max_body_bytes: live.body_bytes_max(),
        dedup_window_s: config.dedup_window().as_secs(),
        approval_expires_s: config.approval_expires().as_secs(),
        dedup_body: live.dedups_body(),
        name: config.name,
        dedup_key: config.dedup_key,
        order_wait_s: order_wait.as_secs(),
        quiet_ms: quiet.for_.as_millis() as u64,
        quiet_cap_ms: quiet.cap.as_millis() as u64,
        thread_policy: live.thread_policy(),
        order_by: config.order_by,
        sequence_by: config.sequence_by,
        coalesce_by: config.coalesce_by,
        mode: config.mode,
        filter: config.filter,
        priority: live.priority(),
        executor: config.executor,
        preflight_url: config.preflight_url,
        max_attempts: config.max_attempts,
        backoff_s: config.backoff_s,
        run_timeout_s: config.run_timeout_s,
        lease_s: config.lease_s,
        concurrency: config.concurrency,
        rate_per_s: config.rate_per_s,
        callback_url: config.callback_url,
        budget: config.budget,
        owner: config.owner,
        allow_from: config.allow_from,
        redact: config.redact,
        created_at,
        updated_at,
        secret: None,
        executor_secret: None,
        callback_secret: None,
    })
}

pub fn switched(enabled: bool) -> &'static str {
    if enabled { "enabled" } else { "disabled" }
}

pub async fn opened(context: &Context, record: SourceRecord) -> Result<LiveSource, ApiError> {
    Ok(context.directory.open(record).await?)
}

async fn sealed(context: &Context, source: &Source) -> Result<SourceRecord, ApiError> {
    Ok(sealed_record(source, &*context.vault.key(source.tenant).await?))
}

/// The source with this id; another tenant's is not found.
pub async fn find(call: &Call, tenant: TenantId, id: &str) -> Result<LiveSource, ApiError> {
    let id: SourceId = id.parse().map_err(|_| ApiError::not_found())?;
    let record = call.context.store.source(id).await?.filter(|record| record.tenant == tenant);
    opened(&call.context, record.ok_or_else(ApiError::not_found)?).await
}

/// Makes a source. One with settings still missing says so.
#[utoipa::path(
    post, path = "/sources", operation_id = "create_source", tag = "sources",
    params(Tenant, Idempotent), request_body = NewSource,
    responses(
        (status = 201, description = "The source, with its secret if Wakepost made it.",
         body = SourceView),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn create(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Configure)?;
    let tenant = call.tenant().await?;
    let body: SourceBody = call.body()?;
    let context = &call.context;
    let name = body.provider.clone().ok_or_else(|| ApiError::field("provider", "is required"))?;
    let provider = registry::find(&name).ok_or_else(|| unknown_provider(&name))?;
    let now = context.now();
    let mut source = Source {
        id: SourceId(Ulid::random(context.entropy.as_ref())),
        tenant: tenant.id,
        provider: name,
        config: SourceConfig::default(),
        secrets: SourceSecrets::default(),
        secret_made_at: now,
        created_at: now,
        updated_at: now,
    };
    body.apply(&mut source, provider, &context.config, call.is_trusted(), now)?;
    let made_secret = make_secret(context, &mut source, provider);
    let made_executor_secret = make_executor_secret(context, &mut source);
    let made_callback_secret = make_callback_secret(context, &mut source);
    check(&source, provider)?;
    let record = sealed(context, &source).await?;
    let mut answer = shown(context, &opened(context, record.clone()).await?).await?;
    let once = call.once(tenant.id, StatusCode::CREATED, &answer).await?;
    let audit = call.audit(Some(tenant.id), "source.create", source.id.to_string(), None);
    let create =
        |store: Arc<dyn Store>| async move { store.create_source(record, audit, once).await };
    let made = context.change(Setting::Source(source.id), create).await?;
    answer.secret = made_secret;
    answer.executor_secret = made_executor_secret;
    answer.callback_secret = made_callback_secret;
    call.answer_once(tenant.id, made, |()| once::json(StatusCode::CREATED, &answer)).await
}

fn unknown_provider(name: &str) -> ApiError {
    let known: Vec<&str> = registry::all().iter().map(|provider| provider.name()).collect();
    ApiError::field("provider", format!("{name:?} is not known; there are {}", known.join(", ")))
}

/// Makes the secret where the provider lets us choose it and nobody gave one.
fn make_secret(context: &Context, source: &mut Source, provider: &dyn Provider) -> Option<String> {
    let settings = merged(source);
    let ours = provider.facts_for(&settings).secret == SecretNeed::Generated;
    if source.secrets.current.is_some() || source.config.unsigned || !ours {
        return None;
    }
    let made = provider.generate_secret(&settings, context.entropy.as_ref())?;
    source.take_secret(made.clone(), context.now());
    Some(made)
}

/// Makes the secret that requests to an http executor and a pre-flight are signed with; shown once, where the first
/// URL is set.
fn make_executor_secret(context: &Context, source: &mut Source) -> Option<String> {
    let posts = source.config.executor.as_ref().is_some_and(Executor::posts)
        || source.config.preflight_url.is_some();
    if !posts || source.secrets.executor.is_some() {
        return None;
    }
    let secret = wakepost_providers::standard::generate_secret(context.entropy.as_ref());
    source.secrets.executor = Some(secret.clone());
    Some(secret)
}

/// Makes the secret that callbacks are signed with; shown once, where the URL is set.
fn make_callback_secret(context: &Context, source: &mut Source) -> Option<String> {
    if source.config.callback_url.is_none() || source.secrets.callback.is_some() {
        return None;
    }
    let secret = wakepost_providers::standard::generate_secret(context.entropy.as_ref());
    source.secrets.callback = Some(secret.clone());
    Some(secret)
}

fn merged(source: &Source) -> wakepost_providers::Settings {
    let mut settings = source.config.settings.clone();
    settings.extend(source.secrets.settings.clone());
    settings
}

fn check(source: &Source, provider: &dyn Provider) -> Result<(), ApiError> {
    let checked = provider.check_config(source.secrets.current.as_deref(), &merged(source));
    match checked {
        Ok(_) => Ok(()),
        Err(problem) if problem.field == "secret" => {
            Err(ApiError::field("secret", problem.message))
        }
        Err(problem) => {
            Err(ApiError::field(format!("settings.{}", problem.field), problem.message))
        }
    }
}

/// Lists a tenant's sources.
#[utoipa::path(
    get, path = "/sources", operation_id = "list_sources", tag = "sources",
    params(PageQuery, Tenant),
    responses((status = 200, description = "A page.", body = Listed<SourceView>), Keyed, Missing)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let (Nothing {}, page) = call.list()?;
    let page = Page { before: page.before.map(SourceId), limit: page.limit };
    let records = call.context.store.sources(tenant.id, page).await?;
    let last = records.last().map(|record| record.id.0);
    let mut rows = Vec::with_capacity(records.len());
    for record in records {
        rows.push(shown(&call.context, &opened(&call.context, record).await?).await?);
    }
    Ok(once::json(StatusCode::OK, &listed(rows, last, page.limit)))
}

/// Shows one source.
#[utoipa::path(
    get, path = "/sources/{id}", operation_id = "get_source", tag = "sources",
    params(("id" = schema::SourceId, Path), Tenant),
    responses((status = 200, description = "The source.", body = SourceView), Keyed, Missing)
)]
pub async fn show(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let live = find(&call, tenant.id, &id).await?;
    call.no_query()?;
    Ok(once::json(StatusCode::OK, &shown(&call.context, &live).await?))
}

/// Changes a source.
#[utoipa::path(
    patch, path = "/sources/{id}", operation_id = "update_source", tag = "sources",
    params(("id" = schema::SourceId, Path), Tenant), request_body = SourceBody,
    responses(
        (status = 200, description = "The source.", body = SourceView),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn update(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Configure)?;
    let tenant = call.tenant().await?;
    let live = find(&call, tenant.id, &id).await?;
    let body: SourceBody = call.body()?;
    if body.provider.as_ref().is_some_and(|name| *name != live.source.provider) {
        return Err(ApiError::field("provider", "cannot be changed: make another source"));
    }
    let mut source = live.source.clone();
    let now = call.context.now();
    body.apply(&mut source, live.provider, &call.context.config, call.is_trusted(), now)?;
    let executor_secret = make_executor_secret(&call.context, &mut source);
    let callback_secret = make_callback_secret(&call.context, &mut source);
    check(&source, live.provider)?;
    let mut answer = save(&call, source, "source.update").await?;
    answer.executor_secret = executor_secret;
    answer.callback_secret = callback_secret;
    Ok(once::json(StatusCode::OK, &answer))
}

/// Stores a changed source, unless somebody else changed it meanwhile.
pub async fn save(call: &Call, mut source: Source, action: &str) -> Result<SourceView, ApiError> {
    let context = &call.context;
    let seen = source.updated_at;
    source.updated_at = source.changed_at(context.now());
    let record = sealed(context, &source).await?;
    let audit = call.audit(Some(source.tenant), action, source.id.to_string(), None);
    let new = record.clone();
    let update = |store: Arc<dyn Store>| async move { store.update_source(new, seen, audit).await };
    context.change(Setting::Source(source.id), update).await?;
    shown(context, &opened(context, record).await?).await
}

/// Deletes a source. Its events and jobs stay.
#[utoipa::path(
    delete, path = "/sources/{id}", operation_id = "delete_source", tag = "sources",
    params(("id" = schema::SourceId, Path), Tenant),
    responses((status = 204, description = "It is gone."), Keyed, Missing)
)]
pub async fn remove(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Configure)?;
    let tenant = call.tenant().await?;
    let id = find(&call, tenant.id, &id).await?.source.id;
    call.no_query()?;
    let audit = call.audit(Some(tenant.id), "source.delete", id.to_string(), None);
    let of = tenant.id;
    let delete = |store: Arc<dyn Store>| async move { store.delete_source(of, id, audit).await };
    call.context.change(Setting::Source(id), delete).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Lets a source accept requests again.
#[utoipa::path(
    post, path = "/sources/{id}/enable", operation_id = "enable_source", tag = "sources",
    params(("id" = schema::SourceId, Path), Tenant),
    responses((status = 200, description = "`enabled`.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn enable(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    switch(id, call, true).await
}

/// Lets a source answer 404 from now on.
#[utoipa::path(
    post, path = "/sources/{id}/disable", operation_id = "disable_source", tag = "sources",
    params(("id" = schema::SourceId, Path), Tenant),
    responses((status = 200, description = "`disabled`.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn disable(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    switch(id, call, false).await
}

async fn switch(id: String, call: Call, enabled: bool) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let mut source = find(&call, tenant.id, &id).await?.source;
    call.body::<Nothing>()?;
    source.config.enabled = enabled;
    save(&call, source, if enabled { "source.enable" } else { "source.disable" }).await?;
    Ok(once::json(StatusCode::OK, &Moved { id, status: switched(enabled) }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Rotation {
    /// The new secret; left out, Wakepost makes one, if the provider lets it.
    #[schema(min_length = 1, max_length = 4096)]
    secret: Option<String>,
    /// How long the old one is still accepted; a day unless asked otherwise.
    #[schema(maximum = 2592000)]
    grace_s: Option<u64>,
}

/// Takes a new secret. The old one is accepted for a while longer.
#[utoipa::path(
    post, path = "/sources/{id}/rotate", operation_id = "rotate_source", tag = "sources",
    params(("id" = schema::SourceId, Path), Tenant), request_body = Rotation,
    responses(
        (status = 200, description = "The source, with its secret if Wakepost made it.",
         body = SourceView),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn rotate(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let live = find(&call, tenant.id, &id).await?;
    let rotation: Rotation = call.body()?;
    check_secret(rotation.secret.as_deref())?;
    if rotation.grace_s.is_some_and(|grace| grace > GRACE_MAX_S) {
        return Err(ApiError::field("grace_s", format!("must be at most {GRACE_MAX_S}")));
    }
    let grace = rotation.grace_s.map_or(GRACE, Duration::from_secs);
    let made = match rotation.secret {
        Some(_) => None,
        None => live.provider.generate_secret(&live.settings, call.context.entropy.as_ref()),
    };
    let Some(secret) = rotation.secret.or_else(|| made.clone()) else {
        return Err(ApiError::field("secret", "is required: this provider makes it"));
    };
    let mut source = live.source.clone();
    let now = call.context.now();
    source.secrets.previous = source.take_secret(secret, now);
    source.secrets.previous_expires_at = Some(now.after(grace));
    check(&source, live.provider)?;
    let mut answer = save(&call, source, "source.rotate").await?;
    answer.secret = made;
    Ok(once::json(StatusCode::OK, &answer))
}

/// Lists a source's latest requests that were refused or repeated.
#[utoipa::path(
    get, path = "/sources/{id}/receipts", operation_id = "list_source_receipts", tag = "sources",
    params(("id" = schema::SourceId, Path), PageQuery, Tenant),
    responses((status = 200, description = "A page.", body = Listed<ReceiptView>), Keyed, Missing)
)]
pub async fn receipts(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let live = find(&call, tenant.id, &id).await?;
    let (Nothing {}, page) = call.list()?;
    let rows = call.context.store.source_receipts(tenant.id, live.source.id, page).await?;
    let last = rows.last().map(|row| row.id.0);
    let firsts: BTreeSet<EventId> = rows.iter().filter_map(|row| row.event).collect();
    let firsts = firsts.into_iter().map(|event| (tenant.id, event)).collect();
    let firsts = call.context.store.events_by_id(firsts).await?;
    let firsts: HashMap<EventId, Event> =
        firsts.into_iter().map(|event| (event.id, event)).collect();
    let shown: Vec<_> = rows
        .into_iter()
        .map(|row| {
            let first = row.event.and_then(|event| firsts.get(&event));
            shown_receipt(row, first)
        })
        .collect();
    Ok(once::json(StatusCode::OK, &listed(shown, last, page.limit)))
}
