//! Sources: made, changed, rotated, switched on and off.

mod body;

use std::time::Duration;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use wakepost_domain::access::{Reach, Right};
use wakepost_domain::source::{Source, SourceConfig, SourceSecrets};
use wakepost_domain::{SourceId, TenantId, Timestamp, Ulid};
use wakepost_providers::{Provider, SecretNeed, registry};
use wakepost_store::moves::{Page, SourceRecord};
use wakepost_store::vault::Slot;

use super::call::Call;
use super::error::ApiError;
use super::once;
use super::page::{PageQuery, listed};
use crate::context::Context;
use crate::directory::LiveSource;
use body::SourceBody;
pub use body::check_executor;

/// How long an old secret is still accepted after a rotation, unless asked otherwise, and at most.
const GRACE: Duration = Duration::from_secs(24 * 3600);
const GRACE_MAX_S: u64 = 30 * 24 * 3600;

/// A source as clients see it: never a secret.
async fn shown(context: &Context, live: &LiveSource) -> Result<Value, ApiError> {
    let source = &live.source;
    let config = &source.config;
    let tenant = context.directory.tenant(source.tenant).await?;
    let mut settings = config.settings.clone();
    settings.extend(
        source
            .secrets
            .settings
            .keys()
            .map(|name| (name.clone(), json!("(secret)"))),
    );
    Ok(json!({
        "id": source.id,
        "tenant": tenant.map(|tenant| tenant.slug.clone()),
        "provider": source.provider,
        "name": config.name,
        "enabled": config.enabled,
        "unsigned": config.unsigned,
        "ingest_url": format!("{}/in/{}", context.base_url, source.id),
        "missing_settings": live.missing(),
        "has_secret": source.secrets.current.is_some(),
        "previous_expires_at": source.secrets.previous.as_ref().and(source.secrets.previous_expires_at),
        "settings": settings,
        "tolerance_s": live.tolerance().as_secs(),
        "max_body_bytes": live.body_bytes_max(),
        "dedup_window_s": config.dedup_window().as_secs(),
        "dedup_body": live.dedups_body(),
        "filter": config.filter,
        "priority": live.priority(),
        "executor": config.executor,
        "max_attempts": config.max_attempts,
        "backoff_s": config.backoff_s,
        "run_timeout_s": config.run_timeout_s,
        "lease_s": config.lease_s,
        "concurrency": config.concurrency,
        "allow_from": config.allow_from,
        "created_at": source.created_at,
        "updated_at": source.updated_at,
    }))
}

async fn opened(context: &Context, record: SourceRecord) -> Result<LiveSource, ApiError> {
    let key = context.vault.key(record.tenant).await?;
    let secrets = key.open(Slot::SourceSecrets(record.id), &record.secrets)?;
    Ok(LiveSource::new(record, &secrets, key)?)
}

async fn sealed(context: &Context, source: &Source) -> Result<SourceRecord, ApiError> {
    let plain = serde_json::to_vec(&source.secrets).expect("secrets are plain data");
    let key = context.vault.key(source.tenant).await?;
    Ok(SourceRecord {
        id: source.id,
        tenant: source.tenant,
        provider: source.provider.clone(),
        config: source.config.clone(),
        secrets: key.seal(Slot::SourceSecrets(source.id), &plain),
        created_at: source.created_at,
        updated_at: source.updated_at,
    })
}

async fn find(call: &Call, tenant: TenantId, id: &str) -> Result<LiveSource, ApiError> {
    let id: SourceId = id.parse().map_err(|_| ApiError::not_found())?;
    let record = call
        .context
        .store
        .source(id)
        .await?
        .filter(|record| record.tenant == tenant);
    opened(&call.context, record.ok_or_else(ApiError::not_found)?).await
}

/// Makes a source.
pub async fn create(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Configure)?;
    let tenant = call.tenant().await?;
    let body: SourceBody = call.body()?;
    let context = &call.context;
    let name = body
        .provider
        .clone()
        .ok_or_else(|| ApiError::field("provider", "is required"))?;
    let provider = registry::find(&name).ok_or_else(|| unknown_provider(&name))?;
    let now = context.now();
    let mut source = Source {
        id: SourceId(Ulid::random(context.entropy.as_ref())),
        tenant: tenant.id,
        provider: name,
        config: SourceConfig::default(),
        secrets: SourceSecrets::default(),
        created_at: now,
        updated_at: now,
    };
    body.apply(
        &mut source,
        provider,
        &context.config,
        call.caller.reach == Reach::All,
    )?;
    let made_secret = make_secret(context, &mut source, provider);
    let made_executor_secret = make_executor_secret(context, &mut source);
    check(&source, provider)?;
    let record = sealed(context, &source).await?;
    let mut answer = shown(context, &opened(context, record.clone()).await?).await?;
    let once = call.once(tenant.id, StatusCode::CREATED, &answer).await?;
    let audit = call.audit(
        Some(tenant.id),
        "source.create",
        source.id.to_string(),
        None,
    );
    let made = context.store.create_source(record, audit, once).await?;
    changed(&call, source.id);
    if let Some(secret) = made_secret {
        answer["secret"] = secret.into();
    }
    if let Some(secret) = made_executor_secret {
        answer["executor_secret"] = secret.into();
    }
    call.answer_once(tenant.id, made, |()| {
        once::json(StatusCode::CREATED, &answer)
    })
    .await
}

fn unknown_provider(name: &str) -> ApiError {
    let known: Vec<&str> = registry::all()
        .iter()
        .map(|provider| provider.name())
        .collect();
    ApiError::field(
        "provider",
        format!("{name:?} is not known; there are {}", known.join(", ")),
    )
}

/// Makes the secret where the provider lets us choose it and nobody gave one.
fn make_secret(context: &Context, source: &mut Source, provider: &dyn Provider) -> Option<String> {
    let settings = merged(source);
    let ours = provider.facts_for(&settings).secret == SecretNeed::Generated;
    if source.secrets.current.is_some() || source.config.unsigned || !ours {
        return None;
    }
    source.secrets.current = provider.generate_secret(&settings, context.entropy.as_ref());
    source.secrets.current.clone()
}

/// Makes the secret that requests to an http executor are signed with; shown once, where the URL is set.
fn make_executor_secret(context: &Context, source: &mut Source) -> Option<String> {
    let posts = matches!(
        source.config.executor,
        Some(wakepost_domain::executor::Executor::Http { .. })
    );
    if !posts || source.secrets.executor.is_some() {
        return None;
    }
    let secret = wakepost_providers::standard::generate_secret(context.entropy.as_ref());
    source.secrets.executor = Some(secret.clone());
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
        Err(problem) => Err(ApiError::field(
            format!("settings.{}", problem.field),
            problem.message,
        )),
    }
}

/// A source changed: this node and the others read it anew.
fn changed(call: &Call, id: SourceId) {
    call.context.directory.forget_source(id);
    call.context.hub.tell(&format!("s:{id}"));
}

/// A tenant's sources.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let page = call.query::<PageQuery>()?.page()?;
    let page = Page {
        before: page.before.map(SourceId),
        limit: page.limit,
    };
    let records = call.context.store.sources(tenant.id, page).await?;
    let last = records.last().map(|record| record.id.0);
    let mut rows = Vec::with_capacity(records.len());
    for record in records {
        rows.push(shown(&call.context, &opened(&call.context, record).await?).await?);
    }
    Ok(once::json(StatusCode::OK, &listed(rows, last, page.limit)))
}

/// One source.
pub async fn show(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let live = find(&call, tenant.id, &id).await?;
    Ok(once::json(
        StatusCode::OK,
        &shown(&call.context, &live).await?,
    ))
}

/// Changes a source.
pub async fn update(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Configure)?;
    let tenant = call.tenant().await?;
    let live = find(&call, tenant.id, &id).await?;
    let body: SourceBody = call.body()?;
    if body
        .provider
        .as_ref()
        .is_some_and(|name| *name != live.source.provider)
    {
        return Err(ApiError::field(
            "provider",
            "cannot be changed: make another source",
        ));
    }
    let mut source = live.source.clone();
    body.apply(
        &mut source,
        live.provider,
        &call.context.config,
        call.caller.reach == Reach::All,
    )?;
    let executor_secret = make_executor_secret(&call.context, &mut source);
    check(&source, live.provider)?;
    let mut answer = save(&call, source, "source.update").await?;
    if let Some(secret) = executor_secret {
        answer["executor_secret"] = secret.into();
    }
    Ok(once::json(StatusCode::OK, &answer))
}

/// Stores a changed source, unless somebody else changed it meanwhile.
async fn save(call: &Call, mut source: Source, action: &str) -> Result<Value, ApiError> {
    let context = &call.context;
    let seen = source.updated_at;
    // Two changes within a millisecond must still differ.
    source.updated_at = context
        .now()
        .max(Timestamp::from_millis(seen.as_millis() + 1));
    let record = sealed(context, &source).await?;
    let audit = call.audit(Some(source.tenant), action, source.id.to_string(), None);
    context
        .store
        .update_source(record.clone(), seen, audit)
        .await?;
    changed(call, source.id);
    shown(context, &opened(context, record).await?).await
}

/// Deletes a source. Its events and jobs stay.
pub async fn remove(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Configure)?;
    let tenant = call.tenant().await?;
    let id: SourceId = id.parse().map_err(|_| ApiError::not_found())?;
    let audit = call.audit(Some(tenant.id), "source.delete", id.to_string(), None);
    call.context
        .store
        .delete_source(tenant.id, id, audit)
        .await?;
    changed(&call, id);
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Accepts requests again.
pub async fn enable(path: Path<String>, call: Call) -> Result<Response, ApiError> {
    switch(path, call, true).await
}

/// Answers 404 from now on.
pub async fn disable(path: Path<String>, call: Call) -> Result<Response, ApiError> {
    switch(path, call, false).await
}

async fn switch(Path(id): Path<String>, call: Call, enabled: bool) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let mut source = find(&call, tenant.id, &id).await?.source;
    source.config.enabled = enabled;
    let action = if enabled {
        "source.enable"
    } else {
        "source.disable"
    };
    save(&call, source, action).await?;
    let status = if enabled { "enabled" } else { "disabled" };
    Ok(once::json(
        StatusCode::OK,
        &json!({"id": id, "status": status}),
    ))
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Rotation {
    secret: Option<String>,
    grace_s: Option<u64>,
}

/// Takes a new secret; the old one is accepted for a while longer.
pub async fn rotate(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let live = find(&call, tenant.id, &id).await?;
    let rotation: Rotation = call.body()?;
    if rotation.grace_s.is_some_and(|grace| grace > GRACE_MAX_S) {
        return Err(ApiError::field(
            "grace_s",
            format!("must be at most {GRACE_MAX_S}"),
        ));
    }
    let mut source = live.source.clone();
    let grace = rotation.grace_s.map_or(GRACE, Duration::from_secs);
    let given = rotation.secret.clone();
    let made = given.clone().or_else(|| {
        live.provider
            .generate_secret(&live.settings, call.context.entropy.as_ref())
    });
    let Some(secret) = made else {
        return Err(ApiError::field(
            "secret",
            "is required: this provider makes it",
        ));
    };
    source.secrets.previous = source.secrets.current.replace(secret.clone());
    source.secrets.previous_expires_at = Some(call.context.now().after(grace));
    check(&source, live.provider)?;
    let mut answer = save(&call, source, "source.rotate").await?;
    if given.is_none() {
        answer["secret"] = secret.into();
    }
    Ok(once::json(StatusCode::OK, &answer))
}

/// The latest requests that were refused or repeated.
pub async fn receipts(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let live = find(&call, tenant.id, &id).await?;
    let page = call.query::<PageQuery>()?.page()?;
    let rows = call
        .context
        .store
        .source_receipts(tenant.id, live.source.id, page)
        .await?;
    let last = rows.last().map(|row| row.id.0);
    let shown = rows.iter().map(super::inbox::shown_receipt).collect();
    Ok(once::json(StatusCode::OK, &listed(shown, last, page.limit)))
}
