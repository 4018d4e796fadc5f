//! Tenants. Only a key of all tenants has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::executor::Executor;
use wakepost_domain::retention::{Ages, History};
use wakepost_domain::tenant::{Tenant, TenantSettings, is_slug};
use wakepost_domain::{TenantId, Timestamp, Ulid, limits, webhook};
use wakepost_store::{Store, StoreError};

use super::call::{At, Call, Nothing, given};
use super::describe::{Conflicting, Idempotent, Keyed, Missing};
use super::error::ApiError;
use super::once;
use super::page::{Listed, PageQuery, cut, listed};
use super::sources::check_executor;
use super::work::{check_attempts, check_backoff, check_name, check_rate, check_retries};
use crate::config::Config;
use crate::directory::Secret;
use crate::hub::Setting;
use crate::schema;

/// How often a change is made anew to what somebody else changed meanwhile.
const UPDATE_TRIES: u32 = 5;

/// A tenant in a request. A field that is left out stays as it is; `null` sets it back to its default.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TenantFields)]
struct Fields {
    /// The name in URLs and flags. It cannot be changed.
    #[schema(value_type = Option<schema::Slug>)]
    slug: Option<String>,
    /// A name for people.
    #[schema(value_type = Option<schema::Name>)]
    name: Option<String>,
    /// Its share of claims, beside others.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    weight: Option<Option<u32>>,
    /// How many of its jobs may run at once.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>, minimum = 1)]
    concurrency: Option<Option<u32>>,
    /// How many of its jobs may start in a second, over all nodes.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<f64>, exclusive_minimum = 0, maximum = 1000000)]
    rate_per_s: Option<Option<f64>>,
    /// How its jobs run, where the source does not say.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Executor>)]
    default_executor: Option<Option<Executor>>,
    /// How often its jobs are tried.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Attempts>)]
    max_attempts: Option<Option<u32>>,
    /// How long a failed job waits; the first stands before its second try.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Backoff>)]
    backoff_s: Option<Option<Vec<u64>>>,
    /// Whether only events of registered types may be published.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<bool>)]
    strict_types: Option<Option<bool>>,
    /// How many webhooks it may have; 20 if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>, maximum = 1000)]
    max_webhooks: Option<Option<u32>>,
    /// How long each attempt at a delivery waits; the first stands before the first attempt.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Retries>)]
    retry_s: Option<Option<Vec<u64>>>,
    /// How long its history is kept, where that is less than the server keeps it; `null`: as the server says.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::RetentionChange>)]
    retention: Option<Option<BTreeMap<String, Option<u32>>>>,
}

schema::requiring!(NewTenant: Fields, ["slug", "name"]);

impl Fields {
    fn apply(
        self,
        settings: &mut TenantSettings,
        config: &Config,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        if let Some(name) = self.name {
            check_name("name", &name)?;
            settings.name = name;
        }
        if self.weight.flatten().is_some_and(|weight| !(1..=1000).contains(&weight)) {
            return Err(ApiError::field("weight", "must be from 1 to 1000"));
        }
        if self.concurrency.flatten() == Some(0) {
            return Err(ApiError::field("concurrency", "must be at least 1"));
        }
        check_rate("rate_per_s", self.rate_per_s.flatten())?;
        if let Some(Some(executor)) = &self.default_executor {
            check_executor("default_executor", executor, config, true)?;
        }
        check_attempts("max_attempts", self.max_attempts.flatten())?;
        check_backoff(self.backoff_s.as_ref().and_then(Option::as_deref))?;
        check_retries("retry_s", self.retry_s.as_ref().and_then(Option::as_deref))?;
        let most = limits::WEBHOOKS_PER_TENANT_MAX;
        if self.max_webhooks.flatten().is_some_and(|webhooks| webhooks > most) {
            return Err(ApiError::field("max_webhooks", format!("must be from 0 to {most}")));
        }
        settings.weight = self.weight.unwrap_or(settings.weight);
        settings.concurrency = self.concurrency.unwrap_or(settings.concurrency);
        settings.rate_per_s = self.rate_per_s.unwrap_or(settings.rate_per_s);
        settings.max_attempts = self.max_attempts.unwrap_or(settings.max_attempts);
        if let Some(executor) = self.default_executor {
            settings.default_executor = executor;
        }
        if let Some(backoff) = self.backoff_s {
            settings.backoff_s = backoff;
        }
        settings.strict_types = self.strict_types.unwrap_or(settings.strict_types);
        settings.max_webhooks = self.max_webhooks.unwrap_or(settings.max_webhooks);
        if let Some(retries) = self.retry_s {
            settings.retry_s = retries;
        }
        if let Some(kept) = self.retention {
            let mut ages = if kept.is_some() { settings.retention } else { Ages::default() };
            for (name, days) in kept.into_iter().flatten() {
                let kind = check_kept(&name, days, &settings.retention, config)?;
                ages.set(kind, days);
            }
            settings.keep_for(ages, now);
        }
        Ok(())
    }
}

/// Which kind of history is meant. The server's days are the most: it drops its history as a whole. What is set already may
/// be said again, though the server may keep less by now.
fn check_kept(
    name: &str,
    days: Option<u32>,
    set: &Ages,
    config: &Config,
) -> Result<History, ApiError> {
    let field = || format!("retention.{name}");
    let Some(kind) = History::ALL.into_iter().find(|kind| kind.setting() == name) else {
        let known = History::ALL.map(|kind| format!("`{}`", kind.setting())).join(", ");
        let why = format!("is not known here; expected one of {known}");
        return Err(ApiError::field(field(), why));
    };
    let most = config.retention.days(kind);
    let unfit = days.is_some_and(|days| days == 0 || u64::from(days) > most);
    if unfit && set.days(kind) != days {
        let why = format!("must be at least 1 and at most the server's, which is {most}");
        return Err(ApiError::field(field(), why));
    }
    Ok(kind)
}

/// A tenant.
#[derive(Serialize, ToSchema)]
#[schema(as = Tenant)]
struct TenantView {
    /// Its slug.
    #[schema(value_type = schema::Slug)]
    id: String,
    /// Its slug.
    #[schema(value_type = schema::Slug)]
    slug: String,
    /// A name for people.
    name: String,
    /// Its share of claims, beside others.
    weight: u32,
    /// How many of its jobs may run at once.
    concurrency: Option<u32>,
    /// How many of its jobs may start in a second.
    rate_per_s: Option<f64>,
    /// How its jobs run, where the source does not say.
    #[schema(value_type = Option<schema::Executor>)]
    default_executor: Option<Executor>,
    /// How often its jobs are tried.
    max_attempts: Option<u32>,
    /// How long a failed job waits.
    backoff_s: Option<Vec<u64>>,
    /// Whether only events of registered types may be published.
    strict_types: bool,
    /// How many webhooks it may have.
    max_webhooks: u32,
    /// How long each attempt at a delivery waits, the first one included; `null`: as the server says.
    #[schema(value_type = Option<schema::Retries>)]
    retry_s: Option<Vec<u64>>,
    /// How many days its history is kept, by kind, where that is less than the server keeps it; `null`: as the server says.
    #[schema(value_type = Option<schema::Retention>)]
    retention: Option<Ages>,
    /// When it was made.
    #[schema(value_type = schema::Timestamp)]
    created_at: Timestamp,
    /// What requests to its default http executor are signed with; only in the answer to setting it.
    #[serde(skip_serializing_if = "Option::is_none")]
    executor_secret: Option<String>,
}

fn shown(tenant: &Tenant) -> TenantView {
    let settings = &tenant.settings;
    TenantView {
        id: tenant.slug.clone(),
        slug: tenant.slug.clone(),
        name: settings.name.clone(),
        weight: settings.turn_weight(),
        concurrency: settings.concurrency,
        rate_per_s: settings.rate_per_s,
        default_executor: settings.default_executor.clone(),
        max_attempts: settings.max_attempts,
        backoff_s: settings.backoff_s.clone(),
        strict_types: settings.strict_types.unwrap_or(false),
        max_webhooks: settings.max_webhooks.unwrap_or(webhook::PER_TENANT),
        retry_s: settings.retry_s.clone(),
        retention: Some(settings.retention).filter(|ages| !ages.is_empty()),
        created_at: tenant.created_at,
        executor_secret: None,
    }
}

/// The secret of a tenant's default executor, if it is one that requests are posted to.
fn executor_secret(call: &Call, tenant: &Tenant) -> Option<String> {
    match (&tenant.settings.default_executor, Secret::of_tenant(tenant.id)) {
        (Some(executor), Secret::Derived(name)) if executor.posts() => {
            Some(call.context.tokens.executor_secret(&name))
        }
        _ => None,
    }
}

/// Only a key of all tenants may see or change tenants.
fn need_all(call: &Call) -> Result<(), ApiError> {
    call.need(Right::Administer)?;
    call.need_all_tenants()
}

async fn find(call: &Call, slug: &str) -> Result<Tenant, ApiError> {
    let found = call.context.directory.tenant_by_slug(slug).await?;
    found.map(|tenant| (*tenant).clone()).ok_or_else(ApiError::not_found)
}

/// Lists all tenants. Only for an admin key of all tenants.
#[utoipa::path(
    get, path = "/tenants", operation_id = "list_tenants", tag = "tenants", params(PageQuery),
    responses((status = 200, description = "A page.", body = Listed<TenantView>), Keyed)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    need_all(&call)?;
    let (Nothing {}, page) = call.list()?;
    let tenants = call.context.store.tenants().await?;
    // Its number tells apart two tenants of one millisecond.
    let place = |tenant: &Tenant| Ulid::from_parts(tenant.created_at, tenant.id.0 as u128);
    let (tenants, last) = cut(tenants, place, page);
    let rows: Vec<_> = tenants.iter().map(shown).collect();
    Ok(once::json(StatusCode::OK, &listed(rows, last, page.limit)))
}

/// Makes a tenant. Only for an admin key of all tenants.
#[utoipa::path(
    post, path = "/tenants", operation_id = "create_tenant", tag = "tenants", params(Idempotent),
    request_body = NewTenant,
    responses((status = 201, description = "The tenant.", body = TenantView), Keyed, Conflicting)
)]
pub async fn create(call: Call) -> Result<Response, ApiError> {
    need_all(&call)?;
    let mut new: Fields = call.body()?;
    let slug = new.slug.take().ok_or_else(|| ApiError::field("slug", "is required"))?;
    if !is_slug(&slug) {
        return Err(ApiError::field("slug", "must be 1 to 63 of a-z, 0-9 and inner hyphens"));
    }
    if new.name.is_none() {
        return Err(ApiError::field("name", "is required"));
    }
    let mut settings = TenantSettings::default();
    let created_at = call.context.now();
    new.apply(&mut settings, &call.context.config, created_at)?;
    let made = Tenant { id: TenantId(0), slug, settings, created_at };
    // The same text now and on a repeat; the stored time may be a moment later.
    let answer = shown(&made);
    let once = call.once(TenantId::DEFAULT, StatusCode::CREATED, &answer).await?;
    let audit = call.audit(None, "tenant.create", made.slug.clone(), None);
    let create = |store: Arc<dyn Store>| async move {
        store.create_tenant(made.slug, made.settings, audit, once).await
    };
    let made = call.context.change(Setting::Tenants, create).await?;
    let now = |tenant: Tenant| {
        let secret = executor_secret(&call, &tenant);
        once::json(StatusCode::CREATED, &TenantView { executor_secret: secret, ..answer })
    };
    call.answer_once(TenantId::DEFAULT, made, now).await
}

/// Shows one tenant. Only for an admin key of all tenants.
#[utoipa::path(
    get, path = "/tenants/{slug}", operation_id = "get_tenant", tag = "tenants",
    params(("slug" = schema::Slug, Path)),
    responses((status = 200, description = "The tenant.", body = TenantView), Keyed, Missing)
)]
pub async fn show(At(slug): At<String>, call: Call) -> Result<Response, ApiError> {
    need_all(&call)?;
    let tenant = find(&call, &slug).await?;
    call.no_query()?;
    Ok(once::json(StatusCode::OK, &shown(&tenant)))
}

/// Changes a tenant. Only for an admin key of all tenants.
#[utoipa::path(
    patch, path = "/tenants/{slug}", operation_id = "update_tenant", tag = "tenants",
    params(("slug" = schema::Slug, Path)), request_body = Fields,
    responses((status = 200, description = "The tenant.", body = TenantView), Keyed, Missing)
)]
pub async fn update(At(slug): At<String>, call: Call) -> Result<Response, ApiError> {
    need_all(&call)?;
    let mut tenant = find(&call, &slug).await?;
    let changes: Fields = call.body()?;
    if changes.slug.as_ref().is_some_and(|new| *new != slug) {
        return Err(ApiError::field("slug", "cannot be changed"));
    }
    for tries_left in (0..UPDATE_TRIES).rev() {
        let seen = tenant.settings.clone();
        let (config, now) = (&call.context.config, call.context.now());
        changes.clone().apply(&mut tenant.settings, config, now)?;
        let audit = call.audit(Some(tenant.id), "tenant.update", slug.clone(), None);
        let (id, settings) = (tenant.id, tenant.settings.clone());
        let update = |store: Arc<dyn Store>| async move {
            store.update_tenant(id, seen, settings, audit).await
        };
        match call.context.change(Setting::Tenants, update).await {
            // What this node knew of it was old, or somebody was faster: the change is made to what is there now.
            Err(StoreError::InvalidState(_)) if tries_left > 0 => {
                tenant = find(&call, &slug).await?;
            }
            done => {
                done?;
                break;
            }
        }
    }
    let answer = TenantView { executor_secret: executor_secret(&call, &tenant), ..shown(&tenant) };
    Ok(once::json(StatusCode::OK, &answer))
}
